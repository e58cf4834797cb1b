//! The command line: the same jobs and the same worker as the window's.

mod completions;
mod computers;
mod doctor;
mod download;
mod environment;
mod export;
mod generate;
mod inspect;
mod interpolate;
pub mod log;
mod made_with;
mod map;
mod models;
pub mod out;
mod plan;
mod rank_exchange;
mod report;
mod runtime;
mod serve;
mod upscale;
mod window;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

pub use environment::CliEnvironment;
pub use generate::GenerateArgs;
pub use report::print_comparison;

/// Make images and videos on your own GPU. Without a subcommand the window opens.
#[derive(Parser, Debug)]
#[command(
    name = "safelight",
    version,
    about,
    args_conflicts_with_subcommands = true
)]
struct CliArguments {
    #[command(subcommand)]
    command: Option<CliCommand>,
    /// Images or videos to open in the window
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum CliCommand {
    Generate(Box<GenerateArgs>),
    Resume(generate::resume::ResumeArgs),
    Upscale(upscale::UpscaleArgs),
    Interpolate(interpolate::InterpolateArgs),
    Map(map::MapArgs),
    Export(export::ExportArgs),
    Plan(Box<plan::PlanArgs>),
    Models(models::ModelsArgs),
    Inspect(inspect::InspectArgs),
    Download(download::DownloadArgs),
    Runtime(runtime::RuntimeArgs),
    Serve(serve::ServeArgs),
    Mcp(serve::McpArgs),
    Computers(computers::ComputersArgs),
    Worker(computers::WorkerArgs),
    Doctor(doctor::DoctorArgs),
    Report(report::ReportArgs),
    Completions(completions::CompletionsArgs),
    Manual(completions::ManualArgs),
}

pub fn main() -> ExitCode {
    let arguments = CliArguments::try_parse()
        .and_then(with_files)
        .and_then(with_prompt)
        .unwrap_or_else(|err| {
            if err.use_stderr() {
                report_misunderstood(&err);
            }
            err.exit()
        });
    log::start();
    let environment = CliEnvironment::of_this_user();
    environment.remove_partials();
    match arguments.command {
        Some(CliCommand::Generate(args)) => generate::run(*args, &environment),
        Some(CliCommand::Resume(args)) => generate::resume::run(&args, &environment),
        Some(CliCommand::Upscale(args)) => upscale::run(&args, &environment),
        Some(CliCommand::Interpolate(args)) => interpolate::run(&args, &environment),
        Some(CliCommand::Map(args)) => map::run(&args, &environment),
        Some(CliCommand::Export(args)) => export::run(&args, &environment),
        Some(CliCommand::Plan(args)) => plan::run(*args, &environment),
        Some(CliCommand::Models(args)) => models::run(&args, &environment),
        Some(CliCommand::Inspect(args)) => inspect::run(&args, &environment),
        Some(CliCommand::Download(args)) => download::run(&args, &environment),
        Some(CliCommand::Runtime(args)) => runtime::run(&args, &environment),
        Some(CliCommand::Serve(args)) => serve::run(&args, environment),
        Some(CliCommand::Mcp(args)) => serve::run_mcp(&args, environment),
        Some(CliCommand::Computers(args)) => computers::run(&args, &environment),
        Some(CliCommand::Worker(args)) => computers::run_worker(&args, environment),
        Some(CliCommand::Doctor(args)) => doctor::run(&args, &environment),
        Some(CliCommand::Report(args)) => report::run(&args, &environment),
        Some(CliCommand::Completions(args)) => completions::run(&args, CliArguments::command()),
        Some(CliCommand::Manual(args)) => completions::write_manual(&args, CliArguments::command()),
        None => window::run(environment, arguments.files),
    }
}

/// A bare word that names no file is a command that does not exist: no window opens for it.
fn with_files(arguments: CliArguments) -> Result<CliArguments, clap::Error> {
    let is_bare = |path: &&PathBuf| path.components().count() == 1 && path.extension().is_none();
    let word = arguments.files.first().filter(is_bare);
    match word.filter(|word| !Path::exists(word)) {
        Some(word) => Err(CliArguments::command().error(
            ErrorKind::InvalidSubcommand,
            format!("unrecognized subcommand '{}'", word.display()),
        )),
        None => Ok(arguments),
    }
}

/// A plan needs no prompt, a job does.
fn with_prompt(arguments: CliArguments) -> Result<CliArguments, clap::Error> {
    match &arguments.command {
        Some(CliCommand::Generate(args)) if args.lacks_prompt() => Err(CliArguments::command().error(
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
    let is_command = CliArguments::command().find_subcommand(&command).is_some();
    if !is_command || !arguments.any(|argument| argument == "--json") {
        return;
    }
    let jobs = ["generate", "upscale", "interpolate", "download"];
    if jobs.iter().any(|job| command == *job) {
        generate::print_failed(&out::misunderstood(err));
    } else {
        out::print_job_error(&out::misunderstood(err), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_neither_command_nor_file_is_refused() {
        let given = |line: &str| {
            let words = std::iter::once("safelight").chain(line.split_whitespace());
            CliArguments::try_parse_from(words).and_then(with_files)
        };
        let refused = given("speedtest all").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidSubcommand);
        assert!(refused.to_string().contains("'speedtest'"), "{refused}");
        for line in ["", "doctor", "gone.png", "folder/word", "src"] {
            assert!(given(line).is_ok(), "{line}");
        }
    }
}
