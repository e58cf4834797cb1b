//! Frame interpolation: each new frame is computed at its time between two source frames.
//!
//! A frame at the time of a source frame is that frame, byte for byte. Nothing is blended across a cut: the first scene
//! stays until the second begins, so that the cut keeps its time.

use std::path::Path;

use safelight_core::finish::{FramePlace, FrameRetiming};
use safelight_core::media::{RgbPixels, frame_starts};
use tch::{Kind, Tensor};

use super::cuts::is_cut;
use super::enlarge::pixels;
use super::rife::{IfnetNetwork, SeenFrame};
use super::run::FinishContext;
use crate::error::EngineError;
use crate::pixels::checked_rgb8;
use crate::placement::dtype_name;

/// A frame of the source, and what the network saw of it.
struct SourceFrame {
    number: u32,
    image: RgbPixels,
    /// Features, once a neighbouring frame was interpolated.
    seen: Option<SeenFrame>,
}

struct FrameInterpolation<'a> {
    context: &'a FinishContext<'a>,
    home: &'a Path,
    network: IfnetNetwork,
    retiming: FrameRetiming,
    /// The frame of the result that is made next.
    next: u32,
}

/// The frames of the result from the order's first one on.
pub(super) fn run(context: &FinishContext<'_>, home: &Path) -> Result<(), EngineError> {
    let (kind, device) = context.placement();
    let request = context.request;
    let first = context.order.first_frame;
    let starts = frame_starts(&request.source)?;
    let retiming = FrameRetiming::between(&request.before, &request.after).with_starts(starts);
    let begin = retiming.place(first).frame;
    let mut making = FrameInterpolation {
        context,
        home,
        network: IfnetNetwork::open(home, kind, device)?,
        next: first,
        retiming,
    };
    let mut before: Option<SourceFrame> = None;
    context.source_frames(begin, &mut |number, image| {
        let mut now = SourceFrame {
            number,
            image,
            seen: None,
        };
        if let Some(before) = &mut before {
            making.up_to(before, &mut now)?;
        }
        before = Some(now);
        Ok(())
    })?;
    match before {
        Some(last) => making.rest(&last),
        None => Ok(()),
    }
}

impl FrameInterpolation<'_> {
    fn place(&self) -> Option<FramePlace> {
        let is_left = self.next < self.retiming.num_frames();
        is_left.then(|| self.retiming.place(self.next))
    }

    /// Frames from one source frame up to the next.
    fn up_to(
        &mut self,
        first: &mut SourceFrame,
        second: &mut SourceFrame,
    ) -> Result<(), EngineError> {
        // Measured once, and only if a frame is between them.
        let mut is_apart = None;
        while let Some(place) = self.place().filter(|place| place.frame < second.number) {
            let is_between = place.time > 0.0
                && !match is_apart {
                    Some(known) => known,
                    None => *is_apart.insert(are_apart(first, second)?),
                };
            let image = if is_between {
                self.sound(first, second, place.time)?
            } else {
                first.image.clone()
            };
            self.send(image);
        }
        Ok(())
    }

    fn rest(&mut self, last: &SourceFrame) -> Result<(), EngineError> {
        while self.place().is_some_and(|place| place.frame <= last.number) {
            if !self.context.check_cancelled() {
                return Err(EngineError::Cancelled);
            }
            self.send(last.image.clone());
        }
        Ok(())
    }

    fn send(&mut self, image: RgbPixels) {
        self.context.send_frame(self.next, image);
        self.next += 1;
    }

    /// Loads the network in f32 for good if it gives NaN in half precision.
    fn sound(
        &mut self,
        first: &mut SourceFrame,
        second: &mut SourceFrame,
        time: f64,
    ) -> Result<RgbPixels, EngineError> {
        match self.between(first, second, time) {
            Err(EngineError::InvalidPixels) if self.network.kind() != Kind::Float => {}
            made => return made.map_err(|err| self.of_damage(err)),
        }
        self.context.warn(format!(
            "the network gave invalid pixels (NaN) in {}, so it computes in f32, which takes longer",
            dtype_name(self.network.kind())
        ));
        self.network = IfnetNetwork::open(self.home, Kind::Float, self.network.device())?;
        (first.seen, second.seen) = (None, None);
        let made = self.between(first, second, time);
        made.map_err(|err| self.of_damage(err))
    }

    fn of_damage(&self, err: EngineError) -> EngineError {
        match err {
            EngineError::InvalidPixels => EngineError::request(format!(
                "the network gives invalid pixels (NaN): its file may be damaged: {}",
                self.home.display()
            )),
            other => other,
        }
    }

    fn between(
        &self,
        first: &mut SourceFrame,
        second: &mut SourceFrame,
        time: f64,
    ) -> Result<RgbPixels, EngineError> {
        let (width, height) = (first.image.width, first.image.height);
        let [first, second] = [self.seen(first)?, self.seen(second)?];
        let is_cancelled = || !self.context.check_cancelled();
        let made = self.network.between(first, second, time, &is_cancelled);
        let made: Tensor = made.ok_or(EngineError::Cancelled)?;
        // 0..1 to -1..1, as a video of one frame
        let bytes = checked_rgb8(&(made.to_kind(Kind::Float) * 2.0 - 1.0).unsqueeze(2))?;
        let rgb = Vec::<u8>::try_from(bytes.flatten(0, -1))?;
        Ok(RgbPixels::new(width, height, rgb)?)
    }

    fn seen<'a>(&self, source: &'a mut SourceFrame) -> Result<&'a SeenFrame, EngineError> {
        Ok(match &mut source.seen {
            Some(seen) => seen,
            empty => {
                let frame = pixels(&source.image, self.network.device())?;
                empty.insert(self.network.see(&frame))
            }
        })
    }
}

/// Returns whether no frame is interpolated between two frames: they are of two scenes or of two sizes.
fn are_apart(first: &SourceFrame, second: &SourceFrame) -> Result<bool, EngineError> {
    let size = |source: &SourceFrame| (source.image.width, source.image.height);
    if size(first) != size(second) {
        return Ok(true);
    }
    let [first, second] = [first, second].map(|source| pixels(&source.image, tch::Device::Cpu));
    Ok(is_cut(&first?, &second?))
}
