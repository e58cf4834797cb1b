//! What a running stage tells the app: steps, previews, frames, checkpoints, warnings.
//!
//! Turns tensors into pixels; decides nothing.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use safelight_core::job::JobFolder;
use safelight_core::protocol::{EngineMessage, PixelHeader};
use tch::{Kind, Tensor};

use super::StageContext;
use crate::fault::Fault;
use crate::hooks::Hooks;
use crate::preview::LatentPreview;
use crate::wan::DenoiseState;

pub(super) struct StageHooks<'a> {
    context: &'a StageContext<'a>,
    /// For stages that show latents.
    preview: Option<LatentPreview>,
    /// The frames that were sent so far.
    num_frames: Cell<u32>,
    /// Only in tests of the app.
    fault: Option<Fault>,
}

impl<'a> StageHooks<'a> {
    /// `num_channels`: those of the latents that will be shown, 0 for none.
    pub(super) fn new(context: &'a StageContext<'a>, num_channels: i64) -> Self {
        let preview = (num_channels > 0).then(|| {
            let map = context.order.request.latent_rgb.as_ref();
            LatentPreview::new(map, num_channels, context.device)
        });
        Self {
            context,
            preview,
            num_frames: Cell::default(),
            fault: Fault::of(context.order.stage),
        }
    }

    /// Sends pictures `(n, H, W, 3)`, counted from `first`.
    fn send_pictures(
        &self,
        pictures: &Tensor,
        first: u32,
        count: u32,
        message: fn(PixelHeader) -> EngineMessage,
    ) {
        let Ok((num, height, width, _)) = pictures.size4() else {
            return;
        };
        for index in 0..num {
            let Ok(rgb) = Vec::<u8>::try_from(pictures.get(index).flatten(0, -1)) else {
                return;
            };
            let header = PixelHeader {
                index: first + index as u32,
                count,
                width: width as u32,
                height: height as u32,
            };
            self.send(message(header), rgb);
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
        if let Some(fault) = &self.fault {
            fault.at_look();
        }
        self.context.cancel.is_cancelled()
    }

    fn step(&self, step: usize, num_steps: usize) {
        self.send(
            EngineMessage::Step {
                step: step as u32,
                num_steps: num_steps as u32,
            },
            Vec::new(),
        );
    }

    fn preview(&self, x0_latents: &Tensor) {
        if let Some(preview) = &self.preview {
            let pictures = preview.pictures(x0_latents);
            let count = pictures.size()[0] as u32;
            self.send_pictures(&pictures, 0, count, EngineMessage::Preview);
        }
    }

    fn frames(&self, frames: &Tensor) {
        let frames = frames.to_kind(Kind::Uint8);
        let first = self.num_frames.get();
        let total = self.context.order.request.num_frames;
        self.send_pictures(&frames, first, total, EngineMessage::Frame);
        self.num_frames.set(first + frames.size()[0] as u32);
        self.step(self.num_frames.get() as usize, total as usize);
    }

    fn checkpoint(&self, state: DenoiseState) {
        let path = JobFolder::at(&self.context.order.folder).denoise_checkpoint();
        if let Err(err) = state.save(&path) {
            // The job can do without; a full disk will say so at the stage's end.
            tracing::warn!("a checkpoint could not be written: {err}");
        }
    }

    fn warn(&self, message: String) {
        self.send(EngineMessage::Warning { text: message }, Vec::new());
    }
}
