//! `safelight interpolate`: a video with more frames a second, on the same path as the window's.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use safelight_core::finish::{NewRate, PostprocessOptions, chosen_interpolator};

use super::CliEnvironment;
use super::upscale::FinishArgs;

/// Interpolate frames of a video with RIFE; scene cuts are not blended
#[derive(Args, Debug)]
pub struct InterpolateArgs {
    /// The video
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// RIFE network (4.5 to 4.26): a .safetensors file, or its name in models/frame_interpolation of Safelight or ComfyUI [default: the only one found]
    #[arg(long, value_name = "NAME_OR_FILE")]
    model: Option<String>,
    /// Factor of the frame rate, 2 to 16; the duration stays the same [default: 2]
    #[arg(long, value_name = "N", conflicts_with = "fps")]
    times: Option<u32>,
    /// Target frame rate instead, above the video's own, up to 240
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
    let network = || {
        let (paths, settings) = (&environment.paths, environment.settings());
        chosen_interpolator(args.model.as_deref(), paths, settings)
    };
    args.job.run(&args.source, network, options, environment)
}
