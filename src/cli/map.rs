//! `safelight map`: control images of images and videos, such as depth maps.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use safelight_core::finish::{PostprocessOptions, chosen_depth};

use super::CliEnvironment;
use super::upscale::FinishArgs;

/// Make a control image or video, such as a depth map
#[derive(Args, Debug)]
pub struct MapArgs {
    #[command(subcommand)]
    what: MapKind,
}

#[derive(Subcommand, Debug)]
enum MapKind {
    /// Depth by Depth Anything V2, near is bright; in videos the range of the greys is averaged over 8 frames
    Depth(DepthArgs),
}

#[derive(Args, Debug)]
struct DepthArgs {
    /// The image or video
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// Depth Anything V2: a .safetensors file, or its name in models/depth_estimation of Safelight or models/depthanything of ComfyUI [default: the only one found]
    #[arg(long, value_name = "NAME_OR_FILE")]
    model: Option<String>,
    #[command(flatten)]
    job: FinishArgs,
}

/// Runs the command.
pub fn run(args: &MapArgs, environment: &CliEnvironment) -> ExitCode {
    let MapKind::Depth(args) = &args.what;
    let network = || {
        let (paths, settings) = (&environment.paths, environment.settings());
        chosen_depth(args.model.as_deref(), paths, settings)
    };
    let options = (PostprocessOptions::Depth, "depth");
    args.job.run(&args.source, network, options, environment)
}
