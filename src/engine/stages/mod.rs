//! One stage of one job: reads results of earlier stages from the job's folder, runs its family's part, and writes its
//! own result there.
//!
//! Code that stages of every family share: the proof that nothing is left on the device, captures, checkpoints, the
//! resume point. Families compute results; the worker follows the recipe.

mod hooks;
pub mod images;
pub(crate) mod job_images;
pub(crate) mod siglip;
#[cfg(test)]
mod tests;
pub mod video_latents;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crossbeam_channel::Sender;
use safelight_core::compute::conv_backends::ConvBackend;
use safelight_core::files::{finish_partial, partial_path};
use safelight_core::job::{CancelToken, DtypeChoice, GenerateRequest, JobFolder, Recipe, Stage};
use safelight_core::memory::{FallbackLevel, StageMemory};
use safelight_core::protocol::{EngineMessage, OutgoingMessage, StageOrder};
use tch::{Device, Kind, Tensor};

use crate::capture;
use crate::fault::{self, FaultSite};
use crate::hooks::DenoiseState;
use crate::hooks::Hooks as _;
use crate::memory::{ReleasePoint, assert_unloaded, forget_all, line_before, reclaim};
use crate::parallel::is_follower;
use crate::placement::ComputePlacement;
use crate::preview::StagePreviewer;
use crate::runtime::{self, use_compute_options};
use crate::tensor_files;
use crate::text::PromptEmbeds;
use crate::{EngineError, StageCapture, StageWork};
use hooks::StageHooks;

pub struct StageContext<'a> {
    pub order: &'a StageOrder,
    pub request: &'a GenerateRequest,
    pub device: Device,
    /// Live bytes of the engine before anything was loaded.
    pub baseline: u64,
    pub cancel: CancelToken,
    /// Counted up wherever the cancel flag is looked at.
    pub ticks: Arc<AtomicU64>,
    pub messages: Sender<OutgoingMessage>,
}

/// The order with the request of its pass and the tiles of its fallback level. Device and dtype: `placement`.
pub fn on_its_rung(mut order: StageOrder) -> StageOrder {
    if let Some(request) = order.request.generate_mut() {
        *request = request.clone().of_pass(order.stage, order.section);
        if let Some(tile) = order.memory.rung.tile() {
            request.options.vae_tile = Some(
                request
                    .options
                    .vae_tile
                    .map_or(tile, |asked| asked.min(tile)),
            );
        }
    }
    order
}

/// Runs a stage, whose work `family` does.
pub fn run(
    context: &StageContext<'_>,
    family: fn(&StageContext<'_>, Stage) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let stage = context.order.stage;
    let _armed = fault::arm(stage, context.order.memory.rung);
    fault::at(FaultSite::Start);
    let _no_grad = tch::no_grad_guard();
    let memory = &context.order.memory;
    let cap = memory.cap_bytes;
    if !runtime::limit(context.device, cap) && cap.is_some() {
        tracing::warn!("nothing holds the allocator to the cap: the plan alone keeps to it");
    }
    let _guard = use_compute_options(context.device, memory.conv_backend, memory.compute_options);
    if !context.keeps_loaded() {
        forget_all();
    }
    if makes_latents(stage) {
        context.reclaim(ReleasePoint::PostUnloadTransformer);
    }
    if needs_all_memory(stage) && !context.keeps_loaded() {
        assert_unloaded(context.device, context.baseline)?;
    }
    if let Some(line) = line_before(stage, &runtime::memory_counts(context.device), cap) {
        tracing::info!("{line}");
    }
    if stage != Stage::Unload {
        family(context, stage)?;
    }
    match stage {
        // Of no use any more, and gone with the folder anyway.
        Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow if !is_follower() => {
            fs::remove_file(context.checkpoint_file()).ok();
        }
        Stage::Decode => context.deliver_capture(),
        _ => {}
    }
    if let Some(boundary) = boundary_behind(stage) {
        context.reclaim(boundary);
    }
    Ok(())
}

fn makes_latents(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow
    )
}

/// Release point after a stage; unloading the transformers is a separate stage.
fn boundary_behind(stage: Stage) -> Option<ReleasePoint> {
    Some(match stage {
        Stage::EncodeText => ReleasePoint::PostTextEncoding,
        Stage::EncodeImage => ReleasePoint::PostVaeEncoding,
        Stage::EncodeVision => ReleasePoint::PostClipVision,
        Stage::Unload => ReleasePoint::PostTransformerUnload,
        Stage::Decode => ReleasePoint::PostVaeDecode,
        Stage::Upscale | Stage::Interpolate | Stage::Depth => ReleasePoint::PostFinish,
        Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow | Stage::Save => return None,
    })
}

/// Large networks never meet on the device, whatever came before the stage.
fn needs_all_memory(stage: Stage) -> bool {
    match stage {
        Stage::EncodeImage
        | Stage::Denoise
        | Stage::DenoiseHigh
        | Stage::DenoiseLow
        | Stage::Unload
        | Stage::Decode
        | Stage::Upscale
        | Stage::Interpolate
        | Stage::Depth => true,
        Stage::EncodeText | Stage::EncodeVision | Stage::Save => false,
    }
}

impl StageContext<'_> {
    pub(crate) fn request(&self) -> &GenerateRequest {
        self.request
    }

    pub(crate) fn folder(&self) -> JobFolder {
        JobFolder::open(&self.order.folder)
    }

    /// Path of a stage's last result before this one.
    pub(crate) fn result(&self, stage: Stage) -> PathBuf {
        self.section_result(stage, self.last_before(stage).unwrap_or_default())
    }

    /// The last time that the job has a stage before this one, counted from 0.
    fn last_before(&self, stage: Stage) -> Option<u32> {
        let recipe = Recipe::from_request(self.request());
        let own = recipe.position(self.order.stage, self.order.section)?;
        recipe.last_before(stage, own)
    }

    pub(crate) fn is_of_second_pass(&self) -> bool {
        let order = self.order;
        self.request().is_of_second_pass(order.stage, order.section)
    }

    /// Device and dtype of the large networks.
    pub(crate) fn placement(&self) -> ComputePlacement {
        let kind_of = |dtype| match (dtype, self.device) {
            (DtypeChoice::Bf16, _) | (DtypeChoice::Auto, Device::Cuda(_)) => Kind::BFloat16,
            (DtypeChoice::F16, _) => Kind::Half,
            (DtypeChoice::F32 | DtypeChoice::Auto, _) => Kind::Float,
        };
        let (request, stage) = (self.request(), self.order.stage);
        let StageMemory {
            rung, conv_backend, ..
        } = self.order.memory;
        let is_for_cpu = rung == FallbackLevel::OnCpu || conv_backend == ConvBackend::Cpu;
        if is_for_cpu && self.device != Device::Cpu {
            return on_cpu(stage, kind_of(request.options.dtype));
        }
        let is_of_vae = matches!(stage, Stage::EncodeImage | Stage::Decode);
        let kind = if is_of_vae && self.device != Device::Cpu {
            kind_of(request.family.vae_dtype(request.options.dtype))
        } else {
            kind_of(request.options.dtype)
        };
        ComputePlacement {
            device: self.device,
            kind,
            resident_bytes: self.resident_bytes(),
            keeps: self.keeps_loaded(),
        }
    }

    /// Once memory has run out nothing but the job is made; and what computes on the CPU has no time for it.
    pub(crate) fn previewer(&self) -> StagePreviewer {
        let memory = &self.order.memory;
        let has_room = memory.rung == FallbackLevel::Ground
            && memory.conv_backend != ConvBackend::Cpu
            && !is_follower();
        StagePreviewer::new(self.request(), self.device, has_room)
    }

    /// Once memory has run out nothing stays.
    fn keeps_loaded(&self) -> bool {
        let memory = &self.order.memory;
        memory.keep_loaded && memory.rung == FallbackLevel::Ground
    }

    /// The VAE stays whole: it is small, and has hardly a matrix.
    fn resident_bytes(&self) -> Option<u64> {
        let memory = &self.order.memory;
        match self.order.stage {
            Stage::EncodeImage | Stage::Decode => None,
            _ if memory.rung >= FallbackLevel::StreamMore && self.device != Device::Cpu => Some(0),
            _ => memory.resident_bytes,
        }
    }

    /// Gives memory back and tells the app.
    pub fn reclaim(&self, boundary: ReleasePoint) {
        let message = EngineMessage::Reclaimed(reclaim(self.device, boundary));
        // Nobody listening means that the app is gone, and this process with it.
        self.messages.send((message, Vec::new())).ok();
    }

    pub(crate) fn own_result(&self) -> PathBuf {
        self.section_result(self.order.stage, self.order.section)
    }

    pub(crate) fn section_result(&self, stage: Stage, section: u32) -> PathBuf {
        self.folder()
            .section_result(stage, section)
            .unwrap_or_default()
    }

    pub(crate) fn checkpoint_file(&self) -> PathBuf {
        self.folder().section_checkpoint(self.order.section)
    }

    /// Result of the stage `from_request`, if it ran.
    pub(crate) fn earlier<T>(
        &self,
        of: Stage,
        load: impl FnOnce(&Path) -> Result<T, EngineError>,
    ) -> Result<Option<T>, EngineError> {
        let Some(section) = self.last_before(of) else {
            return Ok(None);
        };
        let path = self.section_result(of, section);
        path.exists().then(|| load(&path)).transpose()
    }

    /// The family's part of this stage, with what it records.
    pub(crate) fn part<T>(
        &self,
        part: impl FnOnce(&mut StageWork<'_>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let mut capture = if self.order.capture {
            StageCapture::stage(&self.order.folder, self.order.stage.name())?
        } else {
            StageCapture::off()
        };
        let hooks = StageHooks::new(self);
        let done = part(&mut StageWork {
            request: self.request(),
            place: self.placement(),
            capture: &mut capture,
            hooks: &hooks,
        })?;
        warn_unwritten(capture.finish(), &hooks);
        Ok(done)
    }

    /// The family's stage of texts: leaves what it read, and gives memory back.
    pub(crate) fn texts(
        &self,
        part: impl FnOnce(&mut StageWork<'_>) -> Result<PromptEmbeds, EngineError>,
    ) -> Result<(), EngineError> {
        let embeds = self.part(part);
        if matches!(embeds, Ok(_) | Err(EngineError::Cancelled)) {
            self.reclaim(ReleasePoint::PostUnloadTextEncoder);
        }
        embeds?.save(&self.own_result())
    }

    /// A family's stage whose result is one tensor.
    pub(crate) fn tensor(
        &self,
        name: &str,
        part: impl FnOnce(&mut StageWork<'_>) -> Result<Tensor, EngineError>,
    ) -> Result<(), EngineError> {
        tensor_files::write_one(&self.own_result(), name, &self.part(part)?)
    }

    /// Checkpoint of an earlier run of this stage.
    pub(crate) fn checkpoint(&self) -> Option<DenoiseState> {
        if self.request().starts_over() {
            return None;
        }
        // A checkpoint that cannot be read costs the steps it saved, not the job.
        DenoiseState::load(&self.checkpoint_file()).ok()
    }

    /// Brings what the stages recorded to where the user wants it.
    fn deliver_capture(&self) {
        if let (true, Some(folder)) = (self.order.capture, &self.request().options.capture) {
            let delivered = deliver_capture(&self.order.folder, folder);
            warn_unwritten(delivered, &StageHooks::new(self));
        }
    }

    /// A stage that the family's recipes do not have.
    pub(crate) fn no_such_stage(&self) -> EngineError {
        let family = self.request().family.label;
        EngineError::internal(format!(
            "{} is no stage of {family} in the engine",
            self.order.stage.name()
        ))
    }
}

/// Placement of a stage that found no room on the device. A text encoder keeps its dtype, so that its weights can stay
/// in their file; the VAE and the image encoder are small, and exact in f32.
fn on_cpu(stage: Stage, kind: Kind) -> ComputePlacement {
    let kind = match (stage, kind) {
        (Stage::EncodeText, Kind::BFloat16) => Kind::BFloat16,
        _ => Kind::Float,
    };
    ComputePlacement::new(Device::Cpu, kind)
}

/// A capture that cannot be written costs itself, not the video.
fn warn_unwritten(written: Result<(), EngineError>, hooks: &StageHooks<'_>) {
    if let Err(err) = written {
        hooks.warn(format!("the capture could not be written: {err}"));
    }
}

/// Makes one file of what the stages recorded and moves it to where the user wants it.
fn deliver_capture(job: &Path, folder: &Path) -> Result<(), EngineError> {
    let merged = capture::merge(job)?;
    let target = folder.join(merged.file_name().unwrap_or_default());
    // A copy, as the two folders may be on different disks.
    copy_whole(&merged, &target).map_err(EngineError::io(&target))?;
    fs::remove_file(merged).ok(); // Of no use any more, and gone with the folder anyway.
    Ok(())
}

/// Copies a file so that `to` is never half written; creates its folder.
fn copy_whole(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = partial_path(to);
    let copied = fs::copy(from, &partial).map(drop);
    finish_partial(&partial, to, copied)
}
