//! `safelight upscale`: an image or video made larger by a network, on the same path as the window's.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use safelight_core::finish::{
    PostprocessForm, PostprocessOptions, TargetSize, chosen_upscaler, ending_of, look_at,
};
use safelight_core::job::{DeviceChoice, DtypeChoice, JobError};
use safelight_core::memory::MemoryOptions;
use safelight_core::units::from_gib;

use super::CliEnvironment;
use super::generate::{self, ended, gib_value};
use super::plan::finish_plan;

/// Upscale an image or video with ESRGAN, Real-ESRGAN, compact or SPAN (.safetensors)
#[derive(Args, Debug)]
pub struct UpscaleArgs {
    /// The image or video
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// Upscaler: a file, or its name in models/upscale_models of Safelight or ComfyUI, or in ESRGAN or RealESRGAN of Forge or A1111 [default: the only one found]
    #[arg(long, value_name = "NAME_OR_FILE")]
    model: Option<String>,
    /// Factor for width and height, 1 to 16: the upscaler runs as often as needed, and the rest is resized [default: 2]
    #[arg(long, value_name = "X", conflicts_with = "size")]
    scale: Option<f64>,
    /// Target size instead; another aspect ratio is cropped
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    size: Option<TargetSize>,
    /// Largest edge of tiles in pixels, 64 or more; smaller tiles need less memory [default: as large as fits]
    #[arg(long, value_name = "N")]
    tile: Option<u32>,
    #[command(flatten)]
    job: FinishArgs,
}

/// Options of `upscale` and `interpolate`.
#[derive(Args, Debug)]
pub(super) struct FinishArgs {
    /// Output file [default: named after the source, in this folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// auto, cpu or cuda:N (also for ROCm) [default: the setting]
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// auto, f32, bf16 or f16; auto is f16 on GPUs and f32 on CPUs [default: auto]
    #[arg(long)]
    dtype: Option<DtypeChoice>,
    /// Device memory to use at most [default: the setting, else by the kind of device]
    #[arg(long, value_name = "GIB", value_parser = gib_value)]
    vram_cap: Option<f64>,
    /// Print the memory plan and exit
    #[arg(long)]
    plan: bool,
    /// Print JSON lines only
    #[arg(long)]
    json: bool,
}

impl FinishArgs {
    /// Runs the job, or prints its plan. `suffix`: end of a result's name that is not given.
    pub(super) fn run(
        &self,
        source: &Path,
        network: impl FnOnce() -> Result<PathBuf, JobError>,
        (options, suffix): (PostprocessOptions, &str),
        environment: &CliEnvironment,
    ) -> ExitCode {
        let request = || {
            let settings = environment.settings();
            let source = absolute(source)?;
            let (is_image, _) = look_at(&source)?;
            let form = PostprocessForm {
                network: absolute(&network()?)?,
                options,
                is_out_automatic: self.out.is_none(),
                out: result_of(self.out.as_deref(), &source, suffix, is_image)?,
                source,
                dtype: self.dtype.unwrap_or_default(),
                memory: MemoryOptions {
                    cap_bytes: self.vram_cap.or(settings.memory.cap_gib).map(from_gib),
                    ..MemoryOptions::default()
                },
                crf: settings.output.crf,
            };
            form.validate()
        };
        let done = request().and_then(|request| {
            if self.plan {
                return finish_plan(&request, self.device, self.json, environment);
            }
            let done = generate::finish(request, self.device, self.json, environment);
            done.map(ExitCode::from)
        });
        done.unwrap_or_else(|err| ended(Err(err), self.json))
    }
}

/// Runs the command.
pub fn run(args: &UpscaleArgs, environment: &CliEnvironment) -> ExitCode {
    let size = args.size;
    let options = PostprocessOptions::Upscale {
        size: size.unwrap_or_else(|| TargetSize::Factor(args.scale.unwrap_or(2.0))),
        tile: args.tile,
    };
    let network = || {
        let (paths, settings) = (&environment.paths, environment.settings());
        chosen_upscaler(args.model.as_deref(), paths, settings)
    };
    let options = (options, "upscaled");
    args.job.run(&args.source, network, options, environment)
}

/// Path of the result: as the arguments say, else a name in the working folder, the source's followed by `done`.
fn result_of(
    out: Option<&Path>,
    source: &Path,
    done: &str,
    is_image: bool,
) -> Result<PathBuf, JobError> {
    if let Some(out) = out {
        return absolute(out);
    }
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let ending = ending_of(source, is_image);
    absolute(Path::new(&format!("{stem}_{done}.{ending}")))
}

/// The job continues when its caller's folder is deleted.
fn absolute(path: &Path) -> Result<PathBuf, JobError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if path.to_str().is_some() {
        return Ok(path);
    }
    // Requests travel as JSON, which has no other texts.
    let what = format!("the path is not valid UTF-8: {}", path.display());
    Err(JobError::invalid(what))
}
