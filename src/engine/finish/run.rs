//! The post-processing stage: source frames in, result frames out, one by one.
//!
//! Each frame is sent as soon as it is computed, and nothing is kept: the stage can resume at any frame. The work on a
//! frame is in a separate file for each kind of work.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::{Sender, bounded};
use safelight_core::compute::conv_backends::ConvBackend;
use safelight_core::footprint::{CPU_TILE_BYTES, room_for_tiles};
use safelight_core::job::{CancelToken, DtypeChoice, PostprocessKind, PostprocessRequest};
use safelight_core::media::{MediaError, RgbPixels, VideoReader, open_image};
use safelight_core::memory::FallbackLevel;
use safelight_core::protocol::{EngineMessage, OutgoingMessage, PixelHeader, StageOrder};
use tch::{Device, Kind};

use super::{depth, enlarge, interpolate};
use crate::error::EngineError;
use crate::fault::{self, FaultSite};
use crate::memory::{ReleasePoint, forget_all, line_before, reclaim};
use crate::runtime::{self, use_compute_options};

const FRAMES_AHEAD: usize = 2;

pub struct FinishContext<'a> {
    pub order: &'a StageOrder,
    pub request: &'a PostprocessRequest,
    pub device: Device,
    pub cancel: CancelToken,
    /// Counted up wherever the cancel flag is looked at.
    pub ticks: Arc<AtomicU64>,
    pub messages: Sender<OutgoingMessage>,
}

/// Runs the stage.
pub fn run(context: &FinishContext<'_>) -> Result<(), EngineError> {
    let (stage, memory) = (context.order.stage, &context.order.memory);
    let _armed = fault::arm(stage, memory.rung);
    fault::at(FaultSite::Start);
    let _no_grad = tch::no_grad_guard();
    let cap = memory.cap_bytes;
    if !runtime::limit(context.device, cap) && cap.is_some() {
        tracing::warn!("nothing holds the allocator to the cap: tiles alone keep to it");
    }
    let _guard = use_compute_options(context.device, memory.conv_backend, memory.compute_options);
    // Networks cached by earlier jobs need the memory.
    forget_all();
    if let Some(line) = line_before(stage, &runtime::memory_counts(context.device), cap) {
        tracing::info!("{line}");
    }
    match &context.request.work {
        PostprocessKind::Upscale { network, passes } => enlarge::run(context, network, *passes)?,
        PostprocessKind::Interpolate { network } => interpolate::run(context, network)?,
        PostprocessKind::Depth { network } => depth::run(context, network)?,
    }
    let message = EngineMessage::Reclaimed(reclaim(context.device, ReleasePoint::PostFinish));
    context.send(message, Vec::new());
    Ok(())
}

impl FinishContext<'_> {
    /// Returns whether the stage was not cancelled; called between blocks, tiles and frames.
    pub fn check_cancelled(&self) -> bool {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        fault::at(FaultSite::Look);
        !self.cancel.is_cancelled()
    }

    /// Dtype and device of the network.
    pub fn placement(&self) -> (Kind, Device) {
        let memory = &self.order.memory;
        let is_for_cpu =
            memory.rung == FallbackLevel::OnCpu || memory.conv_backend == ConvBackend::Cpu;
        if self.device == Device::Cpu || is_for_cpu {
            return (Kind::Float, Device::Cpu);
        }
        let kind = match self.request.dtype {
            // Eight bits of colour need more than bf16 has.
            DtypeChoice::F16 | DtypeChoice::Auto => Kind::Half,
            DtypeChoice::Bf16 => Kind::BFloat16,
            DtypeChoice::F32 => Kind::Float,
        };
        (kind, self.device)
    }

    /// Bytes that tensors may take there in addition to the weights.
    pub fn free_bytes(&self, device: Device) -> u64 {
        if device == Device::Cpu {
            return CPU_TILE_BYTES;
        }
        let counts = runtime::memory_counts(device);
        let others = counts.used.saturating_sub(counts.reserved);
        let total = counts.total.saturating_sub(others);
        let cap = self
            .order
            .memory
            .cap_bytes
            .map_or(total, |cap| cap.min(total));
        room_for_tiles(cap, counts.allocated)
    }

    /// Longest tile edge that was requested, or that the out-of-memory fallback left.
    pub fn most_tile(&self) -> Option<u32> {
        let asked = self.request.tile.into_iter();
        asked.chain(self.order.memory.rung.tile()).min()
    }

    /// Gives the frames of the source from one of them on, in order, with their numbers; they are read on a thread of
    /// their own. Ends when the stage is not wanted any more.
    pub fn source_frames(
        &self,
        first: u32,
        take: &mut dyn FnMut(u32, RgbPixels) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let (sender, frames) = bounded(FRAMES_AHEAD);
        let request = self.request;
        thread::scope(|scope| {
            let reader = thread::Builder::new().name("finish-reader".to_owned());
            let reading = reader.spawn_scoped(scope, move || read(request, first, &sender));
            let reading = reading.map_err(|err| EngineError::internal(err.to_string()))?;
            // Dropped on every way out, so that the reader ends.
            let taken = frames.into_iter().try_for_each(|(number, image)| {
                if !self.check_cancelled() {
                    return Err(EngineError::Cancelled);
                }
                take(number, image)
            });
            let read = reading.join().unwrap_or_else(|_| {
                Err(MediaError::other(
                    "an error stopped the reading of the video",
                ))
            });
            taken?;
            read.map_err(|err| EngineError::request(err.to_string()))
        })
    }

    /// Sends a frame of the result.
    pub fn send_frame(&self, number: u32, image: RgbPixels) {
        fault::at(FaultSite::Frames);
        let count = self.request.after.num_frames;
        let header = PixelHeader {
            index: number,
            count,
            width: image.width,
            height: image.height,
        };
        self.send(EngineMessage::Frame(header), image.rgb);
        let step = EngineMessage::Step {
            step: number + 1,
            num_steps: count,
        };
        self.send(step, Vec::new());
    }

    pub fn warn(&self, text: String) {
        self.send(EngineMessage::Warning { text }, Vec::new());
    }

    /// Nobody listening means that the app is gone, and this process with it.
    fn send(&self, message: EngineMessage, payload: Vec<u8>) {
        self.messages.send((message, payload)).ok();
    }
}

/// Reads frames until the end or until the receiver is gone.
fn read(
    request: &PostprocessRequest,
    first: u32,
    frames: &Sender<(u32, RgbPixels)>,
) -> Result<(), MediaError> {
    if request.is_image {
        if first == 0 {
            let image = open_image(&request.source)?;
            frames.send((0, image.into_filled())).ok();
        }
        return Ok(());
    }
    let mut reader = VideoReader::open(&request.source)?;
    let keeps_alpha = request.keeps_alpha();
    reader.read_with_alpha(first, &mut |number, frame| {
        let image = if keeps_alpha {
            frame.into_filled()
        } else {
            frame.image
        };
        // Headers may promise less than there is.
        let is_wanted = number < request.before.num_frames;
        if is_wanted && frames.send((number, image)).is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })
}
