//! One stage of one job: reads what earlier stages left in the job's folder, runs its family's part,
//! and leaves its own result there.
//!
//! Knows the order of nothing: the worker walks the recipe. Networks and samplers are the family's.

mod hooks;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crossbeam_channel::Sender;
use safelight_core::job::{CancelToken, DtypeChoice, Fit, JobFolder, Stage};
use safelight_core::media;
use safelight_core::protocol::StageOrder;
use tch::{Device, Kind, Tensor};

use crate::capture::{self, Capture};
use crate::error::EngineError;
use crate::fault;
use crate::memory::assert_unloaded;
use crate::serve::Outgoing;
use crate::store;
use crate::wan::{self, DenoiseState, Placement, PromptEmbeds, WanConfig};
use hooks::StageHooks;

/// What a stage works with.
pub struct StageContext<'a> {
    pub order: &'a StageOrder,
    pub device: Device,
    /// Live bytes of the engine before anything was loaded.
    pub baseline: u64,
    pub cancel: CancelToken,
    /// Counted up wherever the cancel flag is looked at.
    pub ticks: Arc<AtomicU64>,
    pub messages: Sender<Outgoing>,
}

/// Runs the stage; `None` when it was cancelled.
pub fn run(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    fault::strike(context.order.stage);
    let _no_grad = tch::no_grad_guard();
    match context.order.stage {
        Stage::EncodeText => encode_text(context),
        Stage::EncodeImage => encode_image(context),
        Stage::Denoise => denoise(context),
        Stage::Unload => {
            assert_unloaded(context.device, context.baseline)?;
            Ok(Some(()))
        }
        Stage::Decode => decode(context),
        Stage::Save => Err(EngineError::Internal {
            reason: "saving is not the engine's stage".to_owned(),
        }),
    }
}

impl StageContext<'_> {
    fn folder(&self) -> JobFolder {
        JobFolder::at(&self.order.folder)
    }

    /// Where this stage leaves its result, and earlier ones left theirs.
    fn result(&self, stage: Stage) -> std::path::PathBuf {
        self.folder().result(stage).unwrap_or_default()
    }

    fn config(&self) -> Result<WanConfig, EngineError> {
        WanConfig::read(&self.order.request.model_folder)
    }

    /// Where the large networks compute, and in which numbers.
    fn placement(&self) -> Placement {
        let kind = match (self.order.request.dtype, self.device) {
            (DtypeChoice::Bf16, _) | (DtypeChoice::Auto, Device::Cuda(_)) => Kind::BFloat16,
            (DtypeChoice::F16, _) => Kind::Half,
            (DtypeChoice::F32 | DtypeChoice::Auto, _) => Kind::Float,
        };
        Placement {
            device: self.device,
            kind,
        }
    }

    fn capture(&self) -> Result<Capture, EngineError> {
        if self.order.capture {
            Capture::stage(&self.order.folder, self.order.stage.name())
        } else {
            Ok(Capture::off())
        }
    }
}

fn encode_text(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let mut capture = context.capture()?;
    let hooks = StageHooks::new(context, 0);
    let request = &context.order.request;
    let embeds = wan::encode_text(
        &context.config()?,
        request,
        context.placement(),
        &mut capture,
        &hooks,
    )?;
    let Some(embeds) = embeds else {
        return Ok(None);
    };
    capture.finish()?;
    embeds.save(&context.result(Stage::EncodeText))?;
    Ok(Some(()))
}

fn encode_image(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let mut capture = context.capture()?;
    let hooks = StageHooks::new(context, 0);
    let request = &context.order.request;
    let (width, height) = (request.width, request.height);
    let source =
        media::open_picture(&context.folder().start_picture()).map_err(|err| media_error(&err))?;
    if let Ok(bytes) = Tensor::f_from_slice(&source.rgb) {
        let size = [i64::from(source.height), i64::from(source.width), 3];
        capture.put("image.source_u8", &bytes.reshape(size));
    }
    let fitted = match request.fit {
        Fit::Stretch => source,
        Fit::Crop => {
            media::crop_to_aspect(&source, width, height).map_err(|err| media_error(&err))?
        }
    };
    let resized = media::resize_lanczos(&fitted, width, height).map_err(|err| media_error(&err))?;
    let latents = wan::encode_image(
        &context.config()?,
        request,
        &resized.rgb,
        context.placement(),
        &mut capture,
        &hooks,
    )?;
    let Some(latents) = latents else {
        return Ok(None);
    };
    capture.finish()?;
    wan::save_tensor(
        &context.result(Stage::EncodeImage),
        "image_latents",
        &latents,
    )?;
    Ok(Some(()))
}

fn denoise(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let mut capture = context.capture()?;
    let config = context.config()?;
    let hooks = StageHooks::new(context, config.vae.z_dim);
    let request = &context.order.request;
    let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
    let first_frame = request
        .image
        .as_ref()
        .map(|_| wan::load_tensor(&context.result(Stage::EncodeImage), "image_latents"))
        .transpose()?;
    let checkpoint = context.folder().denoise_checkpoint();
    // A checkpoint that cannot be read costs the steps it saved, not the job.
    let resume = DenoiseState::load(&checkpoint).ok();
    let latents = wan::denoise(
        &config,
        request,
        &embeds,
        first_frame.as_ref(),
        resume,
        context.placement(),
        &mut capture,
        &hooks,
    )?;
    let Some(latents) = latents else {
        return Ok(None);
    };
    capture.finish()?;
    wan::save_tensor(&context.result(Stage::Denoise), "latents", &latents)?;
    fs::remove_file(checkpoint).ok(); // Of no use any more, and gone with the folder anyway.
    Ok(Some(()))
}

fn decode(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    // The VAE never meets a transformer on the device, whatever came before this stage.
    assert_unloaded(context.device, context.baseline)?;
    let mut capture = context.capture()?;
    let hooks = StageHooks::new(context, 0);
    let latents = wan::load_tensor(&context.result(Stage::Denoise), "latents")?;
    let done = wan::decode(
        &context.config()?,
        &latents,
        context.placement(),
        &mut capture,
        &hooks,
    )?;
    if done.is_none() {
        return Ok(None);
    }
    capture.finish()?;
    store::write(
        &context.result(Stage::Decode),
        [(&"frames", &hooks.all_frames())],
    )?;
    if let Some(folder) = context
        .order
        .request
        .capture
        .as_ref()
        .filter(|_| context.order.capture)
    {
        deliver_capture(&context.order.folder, folder)?;
    }
    Ok(Some(()))
}

/// Makes one file of what the stages recorded and moves it to where the user wants it.
fn deliver_capture(job: &Path, folder: &Path) -> Result<(), EngineError> {
    let merged = capture::merge(job)?;
    let target = folder.join(merged.file_name().unwrap_or_default());
    let moved = fs::create_dir_all(folder)
        .and_then(|()| fs::copy(&merged, &target))
        .and_then(|_| fs::remove_file(&merged));
    moved.map_err(|source| EngineError::Io {
        source,
        path: target,
    })
}

fn media_error(err: &media::MediaError) -> EngineError {
    EngineError::Request {
        reason: err.to_string(),
    }
}
