//! Latents of a section to frames, which pass over into those of the section made before it.
//!
//! Frames go out as they are decoded. Keeps of them only where the next section will join.

use safelight_core::job::{SectionOrder, VideoSections};
use safelight_core::networks::{HunyuanVaeConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use super::layout::{decoded_latents, sections};
use crate::memory::CachedNetwork;
use crate::pixels::{checked_rgb8, rgb8_from_pixels};
use crate::vae::{HunyuanVaeDecoder, hunyuan};
use crate::{EngineError, StageCapture, StageWork};

pub struct SectionLatents<'a> {
    /// Latents before the first section, as [`super::GivenImages::lead`]: `(1, C, f, h, w)`
    pub lead: &'a Tensor,
    /// Of this section and of those made before it, the newest first and as many as there are of three:
    /// `(1, C, f, h, w)`
    pub newest: &'a [Tensor],
    /// The frames that the section before has where this one joins it, where they are at hand: `(1, 3, n, H, W)`
    pub overlap: Option<Tensor>,
    /// The end of a video that is gone on from, as far as the first section joins it: `(1, 3, n, H, W)`
    pub given: Option<Tensor>,
}

/// The frames of `section`, all of them to [`Hooks::frames`](crate::hooks::Hooks::frames) -> those that the next one will join, as
/// [`SectionLatents::overlap`].
pub fn decode(
    section: u32,
    latents: &SectionLatents<'_>,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let request = work.request;
    let sections = sections(request)?;
    let home = &request.files.vae;
    let config = HunyuanVaeConfig::read(home)?;
    check(&config, &sections, section, latents)?;
    let new = |w: &_| HunyuanVaeDecoder::new(&config, w);
    let decoder = work.decoder(home, new, HunyuanVaeDecoder::unexpected_keys)?;
    let job = SectionDecoder {
        config,
        decoder,
        sections,
        lead: latents.lead,
    };
    let before = match (section.checked_sub(1), &latents.overlap) {
        (None, _) => latents.given.as_ref().map(Tensor::shallow_clone),
        (Some(_), Some(overlap)) => Some(overlap.shallow_clone()),
        (Some(before), None) => {
            // Decoded before by a process that is gone, or never: once more, for these frames alone.
            let mut join = FrameJoin::new(&sections, before, None);
            let own = job.latents(before, &latents.newest[1..]);
            job.each(&own, work, &mut |frames| {
                drop(join.pass(frames));
                Ok(())
            })?;
            Some(join.kept())
        }
    };
    let mut join = FrameJoin::new(&sections, section, before);
    let mut recorded = Vec::new();
    let is_on = work.capture.is_on();
    let own = job.latents(section, latents.newest);
    work.capture
        .put(format!("vae.decode.{section}.input"), &own);
    job.each(&own, work, &mut |frames| {
        if is_on {
            // A copy, as what comes is written to.
            recorded.push(frames.to_device(Device::Cpu).to_kind(Kind::Float).copy());
        }
        work.hooks.frames(&checked_rgb8(&join.pass(frames))?);
        Ok(())
    })?;
    if is_on {
        let output = Tensor::cat(&recorded, 2);
        let capture = &mut *work.capture;
        capture.put(format!("vae.decode.{section}.output"), &output);
        let given = latents.given.as_ref().map(Tensor::shallow_clone);
        record_video(&sections, section, given, capture);
    }
    Ok(join.kept())
}

/// Results of earlier stages are checked before anything is loaded.
fn check(
    config: &HunyuanVaeConfig,
    sections: &VideoSections,
    section: u32,
    latents: &SectionLatents<'_>,
) -> Result<(), EngineError> {
    let size = latents.lead.size();
    let lead = i64::from(sections.lead.max(1));
    let is_lead = size.len() == 5 && size[1] == config.latent_channels && size[2] == lead;
    let needed = (section + 1).min(2) as usize;
    let are_sections = latents.newest.len() >= needed
        && latents.newest.iter().all(|own| {
            let mut expected = size.clone();
            if let Some(frames) = expected.get_mut(2) {
                *frames = i64::from(sections.window);
            }
            own.size() == expected
        });
    if is_lead && are_sections && section < sections.count && latents.lead.numel() > 0 {
        return Ok(());
    }
    Err(EngineError::internal(format!(
        "these are no latents of section {section} of this job: {size:?}"
    )))
}

/// The decoder, and what it needs of every section.
struct SectionDecoder<'a> {
    config: HunyuanVaeConfig,
    decoder: CachedNetwork<HunyuanVaeDecoder>,
    sections: VideoSections,
    lead: &'a Tensor,
}

impl SectionDecoder<'_> {
    /// Inputs of the decoder in f32. `newest`: latents of the section and then of the section before it.
    fn latents(&self, section: u32, newest: &[Tensor]) -> Tensor {
        let before = newest.get(1).filter(|_| section > 0);
        let latents = decoded_latents(&self.sections, section, self.lead, &newest[0], before);
        hunyuan::denormalize(&self.config, &latents.to_kind(Kind::Float))
    }

    /// Frames of `latents` as they are decoded.
    fn each(
        &self,
        latents: &Tensor,
        work: &StageWork<'_>,
        take: &mut dyn FnMut(Tensor) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let tiling = work.tiling();
        work.decode_frames(
            |cancelled, frames| self.decoder.decode(latents, tiling, cancelled, frames),
            take,
        )
    }
}

/// A section's frames on their way out: where they pass over into the section before, and what the next will need.
struct FrameJoin {
    order: SectionOrder,
    len: i64,
    /// Frames that the next section will share.
    overlap: i64,
    /// Frames that it shares with what is before it.
    shared: i64,
    before: Option<Tensor>,
    kept: Vec<Tensor>,
    done: i64,
}

impl FrameJoin {
    fn new(sections: &VideoSections, section: u32, before: Option<Tensor>) -> Self {
        Self {
            order: sections.order,
            len: i64::from(sections.decoded(section).num_frames),
            overlap: i64::from(sections.overlap()),
            shared: i64::from(match section {
                0 => sections.lead_frames(),
                _ => sections.overlap(),
            }),
            before,
            kept: Vec::new(),
            done: 0,
        }
    }

    /// The next frames, `(1, 3, n, H, W)`, with what they share blended, as diffusers does it.
    fn pass(&mut self, frames: Tensor) -> Tensor {
        let (start, end) = (self.done, self.done + frames.size()[2]);
        self.done = end;
        let last = self.len - self.overlap;
        // The next section precedes this one in the original FramePack, and follows it in F1.
        let (shared, kept) = match self.order {
            SectionOrder::Original => (last, 0),
            SectionOrder::F1 => (0, last),
        };
        if let Some((at, own, _)) = shared_part([kept, kept + self.overlap], [start, end]) {
            self.kept.push(frames.narrow(2, at, own).copy());
        }
        let Some(before) = &self.before else {
            return frames;
        };
        let Some((at, own, place)) = shared_part([shared, shared + self.shared], [start, end])
        else {
            return frames;
        };
        let frames = frames.to_kind(Kind::Float);
        let mut part = frames.narrow(2, at, own);
        let before = before.to_device(frames.device()).to_kind(Kind::Float);
        let before = before.narrow(2, place, own);
        // From one at the video's earlier section to zero.
        let f32s = (Kind::Float, frames.device());
        let early = Tensor::linspace(1.0, 0.0, self.shared, f32s);
        let early = early.narrow(0, place, own).view([1, 1, own, 1, 1]);
        let late = 1.0 - &early;
        let blended = match self.order {
            SectionOrder::Original => early * &part + late * before,
            SectionOrder::F1 => early * before + late * &part,
        };
        part.copy_(&blended);
        frames
    }

    /// The frames that the next section will join, on the CPU.
    fn kept(&self) -> Tensor {
        Tensor::cat(&self.kept, 2).to_device(Device::Cpu)
    }
}

/// Frames from `start` to `end` that are shared: their start in the new frames, their number, and their start in the
/// shared ones.
fn shared_part([first, last]: [i64; 2], [start, end]: [i64; 2]) -> Option<(i64, i64, i64)> {
    let (from, to) = (start.max(first), end.min(last));
    (from < to).then_some((from - start, to - from, from - first))
}

/// The video so far, joined from its sections' captures. `given`: the end of an extended video.
fn record_video(
    sections: &VideoSections,
    section: u32,
    given: Option<Tensor>,
    capture: &mut StageCapture,
) {
    let mut video: Option<Tensor> = None;
    let mut before = given;
    for section in 0..=section {
        let Some(frames) = capture.get(&format!("vae.decode.{section}.output")) else {
            return; // Of a run that did not record.
        };
        let mut join = FrameJoin::new(sections, section, before.take());
        let own = join.pass(frames.copy());
        before = Some(join.kept());
        let part = sections.decoded(section);
        let (at, replaces) = (i64::from(part.at), i64::from(part.replaces));
        video = Some(match video {
            None => own,
            Some(video) => {
                let behind = at + replaces;
                let rest = video.size()[2] - behind;
                let parts = [video.narrow(2, 0, at), own, video.narrow(2, behind, rest)];
                Tensor::cat(&parts, 2)
            }
        });
    }
    if let Some(video) = video {
        capture.put("pixels", &video);
        capture.put("output_u8", &rgb8_from_pixels(&video).unsqueeze(0));
    }
}
