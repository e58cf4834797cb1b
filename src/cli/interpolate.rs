//! `safelight interpolate`: a video with more frames a second, on the same path as the window's.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use safelight_core::finish::{NewRate, PostprocessOptions, find_interpolators, interpolator_named};
use safelight_core::job::JobError;

use super::CliEnvironment;
use super::upscale::{FinishArgs, chosen, unknown};

/// Give a video more frames a second: RIFE makes those between, and scenes that cut are not blended
#[derive(Args, Debug)]
pub struct InterpolateArgs {
    /// The video
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// RIFE's file (4.5 to 4.26, as .safetensors), or its name in models/frame_interpolation of Safelight or ComfyUI [default: the only one that is found]
    #[arg(long, value_name = "NAME_OR_FILE")]
    model: Option<String>,
    /// Number of frames for each frame, 2 to 16; the video keeps its length [default: 2]
    #[arg(long, value_name = "N", conflicts_with = "fps")]
    times: Option<u32>,
    /// Or the new frame rate, more than the video has and up to 240
    #[arg(long, value_name = "X")]
    fps: Option<f64>,
    #[command(flatten)]
    job: FinishArgs,
}

/// Runs the command.
pub fn run(args: &InterpolateArgs, environment: &CliEnvironment) -> ExitCode {
    let rate = match args.fps {
        Some(fps) => NewRate::Fps(fps),
        None => NewRate::Times(args.times.unwrap_or(2)),
    };
    let options = (PostprocessOptions::Interpolate(rate), "interpolated");
    let network = || network(args, environment);
    args.job.run(&args.source, network, options, environment)
}

/// The network that the arguments name, or the only one that there is.
fn network(args: &InterpolateArgs, environment: &CliEnvironment) -> Result<PathBuf, JobError> {
    let (paths, settings) = (&environment.paths, environment.settings());
    if let Some(wanted) = &args.model {
        return interpolator_named(wanted, paths, settings).map_err(|err| unknown(&err));
    }
    let found = find_interpolators(paths, settings).into_iter();
    let labels = found.map(|it| (it.label(), it.path)).collect();
    let home = paths.models().join("frame_interpolation");
    chosen(labels, "RIFE network", &home)
}
