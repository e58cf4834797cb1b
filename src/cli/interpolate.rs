//! `safelight interpolate`: a clip with more frames a second, on the same path as the window's.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use safelight_core::finish::{
    FinishRequest, InterpolateForm, NewRate, find_interpolators, interpolator_named, look_at,
};
use safelight_core::job::{DeviceChoice, DtypeChoice, JobError};

use super::Surroundings;
use super::generate::{self, ended, gib_value};
use super::plan::finish_plan;
use super::upscale::{absolute, chosen, memory_of, result_of, unknown};

/// Give a clip more frames a second: RIFE makes those between, and scenes that cut are not blended
#[derive(Args, Debug)]
pub struct InterpolateArgs {
    /// The clip
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// RIFE's file (4.5 to 4.26, as .safetensors), or its name where it lies in models/frame_interpolation of Safelight or ComfyUI [default: the only one that is found]
    #[arg(long, value_name = "NAME_OR_FILE")]
    model: Option<String>,
    /// How many frames for each frame, 2 to 16; the clip stays as long as it is [default: 2]
    #[arg(long, value_name = "N", conflicts_with = "fps")]
    times: Option<u32>,
    /// Or how many frames a second, more than the clip has and up to 240
    #[arg(long, value_name = "X")]
    fps: Option<f64>,
    /// The file to write [default: named after the source, in this folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// auto, cpu or cuda:N; ROCm's GPUs are cuda:N too [default: the setting]
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// auto, f32, bf16 or f16; auto is f16 on GPUs and f32 on CPUs [default: auto]
    #[arg(long)]
    dtype: Option<DtypeChoice>,
    /// The most device memory to use [default: the setting, else by the class of the device]
    #[arg(long, value_name = "GIB", value_parser = gib_value)]
    vram_cap: Option<f64>,
    /// Show how much memory it needs and whether it fits, and make nothing
    #[arg(long)]
    plan: bool,
    /// Print one JSON object a line and nothing else
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &InterpolateArgs, surroundings: &Surroundings) -> ExitCode {
    let done = request(args, surroundings).and_then(|request| {
        if args.plan {
            return finish_plan(&request, args.device, args.json, surroundings);
        }
        let done = generate::finish(request, args.device, args.json, surroundings);
        done.map(ExitCode::from)
    });
    done.unwrap_or_else(|err| ended(Err(err), args.json))
}

fn request(args: &InterpolateArgs, surroundings: &Surroundings) -> Result<FinishRequest, JobError> {
    let (paths, settings) = (&surroundings.paths, surroundings.settings());
    let source = absolute(&args.source)?;
    let (is_picture, _) = look_at(&source)?;
    let network = if let Some(wanted) = &args.model {
        interpolator_named(wanted, paths, settings).map_err(|err| unknown(&err))
    } else {
        let found = find_interpolators(paths, settings).into_iter();
        let labels = found.map(|it| (it.label(), it.path)).collect();
        let home = paths.models().join("frame_interpolation");
        chosen(labels, "RIFE network", &home)
    };
    let form = InterpolateForm {
        network: absolute(&network?)?,
        rate: match args.fps {
            Some(fps) => NewRate::Fps(fps),
            None => NewRate::Times(args.times.unwrap_or(2)),
        },
        is_out_automatic: args.out.is_none(),
        out: result_of(args.out.as_deref(), &source, "interpolated", is_picture)?,
        source,
        dtype: args.dtype.unwrap_or_default(),
        memory: memory_of(args.vram_cap, settings),
        crf: settings.output.crf,
    };
    form.validate()
}
