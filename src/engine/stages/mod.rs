//! One stage of one job: reads what earlier stages left in the job's folder, runs its family's part,
//! and leaves its own result there.
//!
//! Knows the order of nothing: the worker walks the recipe. Networks and samplers are the family's.

mod hooks;
mod pictures;

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crossbeam_channel::Sender;
use safelight_core::files::{finish_partial, partial_path};
use safelight_core::job::{CancelToken, DtypeChoice, JobFolder, Stage};
use safelight_core::protocol::StageOrder;
use tch::{Device, Kind};

use crate::capture::{self, Capture};
use crate::error::EngineError;
use crate::fault::Fault;
use crate::hooks::Hooks as _;
use crate::memory::assert_unloaded;
use crate::serve::Outgoing;
use crate::wan::{self, Conditions, DenoiseState, Expert, Placement, PromptEmbeds, WanConfig};
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
    if let Some(fault) = Fault::of(context.order.stage) {
        fault.at_start();
    }
    let _no_grad = tch::no_grad_guard();
    match context.order.stage {
        Stage::EncodeText => encode_text(context),
        Stage::EncodeImage => encode_image(context),
        Stage::EncodeVision => encode_vision(context),
        Stage::Denoise => denoise(context, Expert::Only),
        Stage::DenoiseHigh => denoise(context, Expert::HighNoise),
        Stage::DenoiseLow => denoise(context, Expert::LowNoise),
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
        WanConfig::read(&self.order.request.files)
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
    warn_unwritten(capture.finish(), &hooks);
    embeds.save(&context.result(Stage::EncodeText))?;
    Ok(Some(()))
}

fn encode_image(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let mut capture = context.capture()?;
    let hooks = StageHooks::new(context, 0);
    let request = &context.order.request;
    let (start, end) = pictures::of_job(&context.folder(), request)?;
    start.record("image", &mut capture);
    if let Some(end) = &end {
        end.record("last_image", &mut capture);
    }
    let end = end.map(|end| end.resized(request)).transpose()?;
    let latents = wan::encode_image(
        &context.config()?,
        request,
        &start.resized(request)?.rgb,
        end.as_ref().map(|end| &end.rgb[..]),
        context.placement(),
        &mut capture,
        &hooks,
    )?;
    let Some(latents) = latents else {
        return Ok(None);
    };
    warn_unwritten(capture.finish(), &hooks);
    wan::save_tensor(
        &context.result(Stage::EncodeImage),
        "image_latents",
        &latents,
    )?;
    Ok(Some(()))
}

fn encode_vision(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let mut capture = context.capture()?;
    let hooks = StageHooks::new(context, 0);
    let (start, end) = pictures::of_job(&context.folder(), &context.order.request)?;
    let pictures: Vec<_> = [Some(start), end]
        .into_iter()
        .flatten()
        .map(|picture| picture.fitted)
        .collect();
    let embeds = wan::encode_vision(
        &context.config()?,
        &pictures,
        context.placement(),
        &mut capture,
        &hooks,
    )?;
    let Some(embeds) = embeds else {
        return Ok(None);
    };
    warn_unwritten(capture.finish(), &hooks);
    wan::save_tensor(
        &context.result(Stage::EncodeVision),
        "image_embeds",
        &embeds,
    )?;
    Ok(Some(()))
}

fn denoise(context: &StageContext<'_>, expert: Expert) -> Result<Option<()>, EngineError> {
    // Two experts never meet on the device.
    assert_unloaded(context.device, context.baseline)?;
    let mut capture = context.capture()?;
    let config = context.config()?;
    let hooks = StageHooks::new(context, config.vae.z_dim);
    let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
    let saved = |stage: Stage, name| {
        let path = context.result(stage);
        path.exists()
            .then(|| wan::load_tensor(&path, name))
            .transpose()
    };
    let image_latents = saved(Stage::EncodeImage, "image_latents")?;
    let image_embeds = saved(Stage::EncodeVision, "image_embeds")?;
    let conditions = Conditions {
        embeds: &embeds,
        image_latents: image_latents.as_ref(),
        image_embeds: image_embeds.as_ref(),
    };
    let state = wan::denoise(
        &config,
        &context.order.request,
        expert,
        &conditions,
        resume_point(context, expert),
        context.placement(),
        &mut capture,
        &hooks,
    )?;
    let Some(state) = state else {
        return Ok(None);
    };
    warn_unwritten(capture.finish(), &hooks);
    let result = context.result(context.order.stage);
    if expert == Expert::HighNoise {
        state.save(&result)?;
    } else {
        wan::save_tensor(&result, "latents", &state.latents)?;
    }
    // Of no use any more, and gone with the folder anyway.
    fs::remove_file(context.folder().denoise_checkpoint()).ok();
    Ok(Some(()))
}

/// Where an earlier run of this stage got to, else where the other expert did.
fn resume_point(context: &StageContext<'_>, expert: Expert) -> Option<DenoiseState> {
    // A checkpoint that cannot be read costs the steps it saved, not the job.
    let checkpoint = DenoiseState::load(&context.folder().denoise_checkpoint()).ok();
    let is_low = expert == Expert::LowNoise;
    let halfway = is_low.then(|| DenoiseState::load(&context.result(Stage::DenoiseHigh)).ok());
    let states = checkpoint.into_iter().chain(halfway.flatten());
    states.max_by_key(|state| state.step)
}

fn decode(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    // The VAE never meets a transformer on the device, whatever came before this stage.
    assert_unloaded(context.device, context.baseline)?;
    let mut capture = context.capture()?;
    let hooks = StageHooks::new(context, 0);
    let latents = wan::load_tensor(&context.result(Stage::Denoise), "latents")?;
    let done = wan::decode(
        &context.config()?,
        &context.order.request,
        &latents,
        context.placement(),
        &mut capture,
        &hooks,
    )?;
    if done.is_none() {
        return Ok(None);
    }
    warn_unwritten(capture.finish(), &hooks);
    if let (true, Some(folder)) = (context.order.capture, &context.order.request.capture) {
        warn_unwritten(deliver_capture(&context.order.folder, folder), &hooks);
    }
    Ok(Some(()))
}

/// A capture that cannot be written costs itself, not the clip.
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
    copy_whole(&merged, &target).map_err(|source| EngineError::Io {
        source,
        path: target,
    })?;
    fs::remove_file(merged).ok(); // Of no use any more, and gone with the folder anyway.
    Ok(())
}

/// Copies a file so that `to` never stands for half of it; makes its folder.
fn copy_whole(from: &Path, to: &Path) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    let partial = partial_path(to);
    let copied = fs::copy(from, &partial).map(drop);
    finish_partial(&partial, to, copied)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use crossbeam_channel::bounded;
    use safelight_core::job::JobId;
    use safelight_core::protocol::EngineMessage;
    use tch::Tensor;

    use super::*;

    #[test]
    fn a_copy_onto_a_full_disk_leaves_the_old_file_and_no_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name).join("file"));
        for path in [&from, &to] {
            fs::create_dir(path.parent().unwrap()).unwrap();
        }
        fs::write(&from, b"new").unwrap();
        fs::write(&to, b"old").unwrap();
        // Every write to this device finds a full disk.
        symlink("/dev/full", partial_path(&to)).unwrap();
        let err = copy_whole(&from, &to).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&to).unwrap(), b"old");
        assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 1);
        copy_whole(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"new");
    }

    #[test]
    fn a_clip_whose_capture_cannot_be_written_is_decoded_with_a_warning_and_no_file_of_its_own() {
        let job = tempfile::tempdir().unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan");
        let file = job.path().join("a file");
        fs::write(&file, b"").unwrap();
        let request = serde_json::json!({
            "model": "tiny", "family": "wan",
            "files": safelight_core::catalog::ModelFiles::of_folder(&fixtures.join("pipeline")).unwrap(), "out": "a.mp4",
            "fps": 24.0, "prompt": "", "negative_prompt": "", "width": 32, "height": 32,
            "num_frames": 5, "num_steps": 1, "guidance_scale": 1.0, "sampler": "unipc", "seed": 0,
            "capture": file.join("not a folder"),
        });
        let order = StageOrder {
            job: JobId(1),
            stage: Stage::Decode,
            folder: job.path().to_owned(),
            request: serde_json::from_value(request).unwrap(),
            capture: true,
        };
        let (messages, received) = bounded(64);
        let context = StageContext {
            order: &order,
            device: Device::Cpu,
            // Other tests' tensors are counted too.
            baseline: u64::MAX,
            cancel: CancelToken::default(),
            ticks: Arc::default(),
            messages,
        };
        let config = context.config().unwrap();
        let side = 32 / config.vae.spatial_factor();
        let latents = Tensor::zeros(
            [1, config.vae.z_dim, 2, side, side],
            (Kind::Float, Device::Cpu),
        );
        wan::save_tensor(&context.result(Stage::Denoise), "latents", &latents).unwrap();

        assert_eq!(run(&context).unwrap(), Some(()));
        let mut frames = Vec::new();
        let mut warnings = Vec::new();
        for (message, _) in received.try_iter() {
            match message {
                EngineMessage::Frame(header) => frames.push(header.index),
                EngineMessage::Warning { text } => warnings.push(text),
                _ => {}
            }
        }
        assert_eq!(frames, [0, 1, 2, 3, 4]);
        let [warning] = &warnings[..] else {
            panic!("expected one warning, found {warnings:?}");
        };
        assert!(
            warning.starts_with("the capture could not be written: "),
            "{warning}"
        );
        assert!(!job.path().join("frames.safetensors").exists());
    }
}
