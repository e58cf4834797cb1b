//! The command line: the same jobs and the same worker as the window's.

mod bench;
mod doctor;
mod download;
mod generate;
mod inspect;
mod log;
mod made_with;
mod models;
mod out;
mod plan;
mod soak;
mod surroundings;
mod watching;
mod window;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

pub use generate::GenerateArgs;
pub(crate) use safelight_core::job::random_seed;
use safelight_core::job::{JobError, JobErrorKind};
pub use surroundings::Surroundings;

use crate::starting;

/// Make images and videos on your own GPU. Without a subcommand the window opens.
#[derive(Parser, Debug)]
#[command(
    name = "safelight",
    version,
    about,
    args_conflicts_with_subcommands = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Pictures or clips to open in the window, or in the one that is open already
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Command {
    Generate(Box<GenerateArgs>),
    Resume(generate::resume::ResumeArgs),
    Plan(Box<plan::PlanArgs>),
    Models(models::ModelsArgs),
    Inspect(inspect::InspectArgs),
    Download(download::DownloadArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
}

/// The whole program.
pub fn main() -> ExitCode {
    starting::begin();
    let arguments = Arguments::try_parse()
        .and_then(with_prompt)
        .unwrap_or_else(|err| {
            if err.use_stderr() {
                report_misunderstood(&err);
            }
            err.exit()
        });
    log::start();
    let surroundings = Surroundings::of_this_user();
    starting::passed("settings read");
    match arguments.command {
        Some(Command::Generate(args)) => generate::run(*args, &surroundings),
        Some(Command::Resume(args)) => generate::resume::run(&args, &surroundings),
        Some(Command::Plan(args)) => plan::run(*args, &surroundings),
        Some(Command::Models(args)) => models::run(&args, &surroundings),
        Some(Command::Inspect(args)) => inspect::run(&args, &surroundings),
        Some(Command::Download(args)) => download::run(&args, &surroundings),
        Some(Command::Doctor(args)) => doctor::run(&args, &surroundings),
        Some(Command::Bench(args)) => bench::run(&args, &surroundings),
        None => window::run(surroundings, arguments.files),
    }
}

/// A plan needs no prompt, a job does.
fn with_prompt(arguments: Arguments) -> Result<Arguments, clap::Error> {
    match &arguments.command {
        Some(Command::Generate(args)) if args.lacks_prompt() => Err(Arguments::command().error(
            ErrorKind::MissingRequiredArgument,
            "the following required arguments were not provided: --prompt <TEXT> (or --prompts-file or --from)",
        )),
        _ => Ok(arguments),
    }
}

/// Tells a program that reads JSON what people read on standard error.
fn report_misunderstood(err: &clap::Error) {
    let mut arguments = std::env::args_os().skip(1);
    let Some(command) = arguments.next() else {
        return;
    };
    let is_command = Arguments::command().find_subcommand(&command).is_some();
    if !is_command || !arguments.any(|argument| argument == "--json") {
        return;
    }
    let text = err.to_string();
    let first_line = text.lines().next().unwrap_or_default();
    let summary = first_line.trim_start_matches("error: ");
    let err = JobError::new(JobErrorKind::InvalidRequest, summary).detail(&text);
    if command == "generate" || command == "download" {
        generate::report_misunderstood(&err);
    } else {
        out::print_job_error(&err, true);
    }
}
