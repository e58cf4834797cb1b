//! `safelight interpolate`: a clip with more frames a second, on the same path as the window's.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use safelight_core::finish::{
    FinishRequest, InterpolateForm, NewRate, find_interpolators, interpolator_named, look_at,
};
use safelight_core::job::JobError;

use super::Surroundings;
use super::upscale::{FinishArgs, absolute, chosen, result_of, unknown};

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
    #[command(flatten)]
    job: FinishArgs,
}

/// Runs the command.
pub fn run(args: &InterpolateArgs, surroundings: &Surroundings) -> ExitCode {
    args.job.run(request(args, surroundings), surroundings)
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
        is_out_automatic: args.job.out.is_none(),
        out: result_of(args.job.out.as_deref(), &source, "interpolated", is_picture)?,
        source,
        dtype: args.job.dtype.unwrap_or_default(),
        memory: args.job.memory(settings),
        crf: settings.output.crf,
    };
    form.validate()
}
