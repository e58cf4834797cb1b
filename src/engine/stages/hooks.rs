//! Messages of a running stage to the app: steps, previews, frames, checkpoints, warnings.
//!
//! Turns tensors into pixels; decides nothing.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;

use safelight_core::protocol::{EngineMessage, PixelHeader};
use tch::{Device, Kind, Tensor};

use super::StageContext;
use crate::Hooks;
use crate::fault::{self, FaultSite};
use crate::hooks::DenoiseState;
use crate::parallel::is_follower;
use crate::preview::StagePreviewer;

pub(crate) struct StageHooks<'a> {
    context: &'a StageContext<'a>,
    /// Gone with the stage, and so before anything is unloaded.
    previewer: RefCell<StagePreviewer>,
    is_last_step: Cell<bool>,
    /// The frames that were sent so far.
    num_frames: Cell<u32>,
}

impl<'a> StageHooks<'a> {
    pub(super) fn new(context: &'a StageContext<'a>) -> Self {
        Self {
            context,
            previewer: RefCell::new(context.previewer()),
            is_last_step: Cell::default(),
            num_frames: Cell::default(),
        }
    }

    /// Number of frames of the job, or of the section that this stage belongs to.
    fn total_frames(&self) -> u32 {
        let request = self.context.request;
        if let Some(sections) = request.sections {
            return sections.decoded(self.context.order.section).num_frames;
        }
        request.num_frames.saturating_mul(request.batch_size)
    }

    /// Sends images `(n, H, W, 3)`, or `(n, H, W, 4)` with alpha, counted from `first`.
    fn send_images(
        &self,
        images: &Tensor,
        first: u32,
        count: u32,
        message: fn(PixelHeader) -> EngineMessage,
    ) {
        let Ok((num, height, width, _)) = images.size4() else {
            return;
        };
        for index in 0..num {
            // Opacity after all colours.
            let planes = images.get(index).split(3, 2).into_iter();
            let planes = planes.map(|part| part.flatten(0, -1)).collect::<Vec<_>>();
            let Ok(bytes) = Vec::<u8>::try_from(Tensor::cat(&planes, 0)) else {
                return;
            };
            let header = PixelHeader {
                index: first + index as u32,
                count,
                width: width as u32,
                height: height as u32,
            };
            self.send(message(header), bytes);
        }
    }

    /// Nobody listening means that the app is gone, and this process with it.
    fn send(&self, message: EngineMessage, payload: Vec<u8>) {
        self.context.messages.send((message, payload)).ok();
    }
}

impl Hooks for StageHooks<'_> {
    fn cancelled(&self) -> bool {
        self.context.ticks.fetch_add(1, Ordering::Relaxed);
        fault::at(FaultSite::Look);
        self.context.cancel.is_cancelled()
    }

    fn step(&self, step: usize, num_steps: usize) {
        self.is_last_step.set(step == num_steps);
        let (step, num_steps) = (step as u32, num_steps as u32);
        self.send(EngineMessage::Step { step, num_steps }, Vec::new());
    }

    fn preview(&self, x0_latents: &Tensor) {
        let is_last = self.is_last_step.get();
        let shown = self.previewer.borrow_mut().show(x0_latents, is_last);
        let Some(shown) = shown else {
            return;
        };
        if let Some(problem) = shown.problem {
            self.warn(problem);
        }
        let count = shown.images.size()[0] as u32;
        self.send_images(&shown.images, 0, count, EngineMessage::Preview);
    }

    fn frames(&self, frames: &Tensor) {
        if is_follower() {
            return;
        }
        fault::at(FaultSite::Frames);
        let frames = frames.to_kind(Kind::Uint8);
        let first = self.num_frames.get();
        let total = self.total_frames();
        self.send_images(&frames, first, total, EngineMessage::Frame);
        self.num_frames.set(first + frames.size()[0] as u32);
        self.step(self.num_frames.get() as usize, total as usize);
    }

    fn sound(&self, waveform: &Tensor, rate: u32) {
        if is_follower() {
            return;
        }
        let channels = waveform.size()[1] as u16;
        // 1 c n -> (n c)
        let samples = waveform.transpose(1, 2).flatten(0, 2);
        let samples = samples.to_device(Device::Cpu).to_kind(Kind::Float);
        let samples = Vec::<f32>::try_from(samples).unwrap_or_default();
        let bytes = samples.iter().flat_map(|sample| sample.to_le_bytes());
        self.send(EngineMessage::Sound { channels, rate }, bytes.collect());
    }

    fn restart_frames(&self) {
        self.num_frames.set(0);
    }

    fn checkpoint(&self, state: DenoiseState) {
        let path = self.context.checkpoint_file();
        if let Err(err) = state.save(&path) {
            // The job can do without; a full disk will say so at the stage's end.
            tracing::warn!("a checkpoint could not be written: {err}");
        }
    }

    fn warn(&self, message: String) {
        self.send(EngineMessage::Warning { text: message }, Vec::new());
    }
}
