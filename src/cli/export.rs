//! `safelight export`: a video, or a part of it, as another file, as the window exports it.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::builder::PossibleValuesParser;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{
    DEFAULT_VIDEO_ENDING, EXPORT_FORMATS, MediaError, VideoExport, VideoReader, export_name,
    frames_between,
};
use safelight_core::units::seconds_text;
use serde_json::json;

use super::generate::say;
use super::{CliEnvironment, out};

/// Write a video, or a part of it, as MP4, GIF, animated WebP or numbered PNG images, with its sound and settings where the format has them, or its sound as WAV
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// The video; it stays as it is
    #[arg(value_name = "FILE")]
    source: PathBuf,
    /// Second at which the part begins
    #[arg(long, value_name = "SECS", default_value_t = 0.0)]
    from: f64,
    /// Second at which it ends [default: the end of the video]
    #[arg(long, value_name = "SECS")]
    to: Option<f64>,
    /// Format; png makes a folder with an image for each frame, wav is the sound alone
    #[arg(long = "as", value_name = "FORMAT", default_value = DEFAULT_VIDEO_ENDING, conflicts_with = "out",
        value_parser = PossibleValuesParser::new(EXPORT_FORMATS.iter().map(|(_, ending)| *ending).chain(["wav"])))]
    format: String,
    /// File to write instead, whose extension says the format [default: the name of the source with the range of frames, in the working folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &ExportArgs, environment: &CliEnvironment) -> ExitCode {
    export(args, environment).unwrap_or_else(|err| out::print_job_error(&err, args.json))
}

fn export(args: &ExportArgs, environment: &CliEnvironment) -> Result<ExitCode, JobError> {
    let failed = |err: MediaError| JobError::from_error(JobErrorKind::InvalidRequest, &err);
    let (range, num_frames) = {
        let reader = VideoReader::open(&args.source).map_err(failed)?;
        let info = reader.info();
        let secs = f64::from(info.num_frames) / info.fps;
        let to = args.to.unwrap_or(secs);
        let range = frames_between(&reader, args.from, to).ok_or_else(|| {
            let what = format!("no frame is shown from {} s to {to} s", args.from);
            let advice = format!(
                "Choose a part of the video, which lasts {}",
                seconds_text(secs)
            );
            JobError::invalid(what).advise(advice)
        })?;
        (range, info.num_frames as usize)
    };
    let count = range.end() + 1 - range.start();
    let part = (count < num_frames).then_some(&range);
    let name = export_name(&args.source, part, &args.format);
    let export = VideoExport {
        out: args.out.clone().unwrap_or_else(|| name.into()),
        source: args.source.clone(),
        frames: None,
        range,
        crf: environment.settings().output.crf,
    };
    let written = export.write(&mut |_| ControlFlow::Continue(()));
    let Some(exported) = written.map_err(failed)? else {
        let what = "the video ends earlier than it says";
        return Err(JobError::invalid(what).advise("Choose an earlier end with --to"));
    };
    if !args.json {
        exported.notices.iter().for_each(|notice| say(notice));
    }
    let path = exported.path.display().to_string();
    let object = json!({"output": path, "frames": count, "notices": exported.notices});
    Ok(out::print_either(
        args.json,
        &object,
        &format!("{path}\n"),
        0,
    ))
}
