//! The command line: the same jobs and the same worker as the window's.

mod bench;
mod doctor;
mod generate;
mod inspect;
mod log;
mod models;
mod out;
mod surroundings;
mod window;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use generate::GenerateArgs;
pub(crate) use safelight_core::job::random_seed;
pub use surroundings::Surroundings;

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
    /// A picture to start from in the window
    #[arg(value_name = "PICTURE")]
    picture: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Command {
    Generate(Box<GenerateArgs>),
    Models(models::ModelsArgs),
    Inspect(inspect::InspectArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
}

/// The whole program.
pub fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|err| {
        if err.use_stderr() {
            generate::report_misunderstood(&err);
        }
        err.exit()
    });
    log::start();
    let surroundings = Surroundings::of_this_user();
    match arguments.command {
        Some(Command::Generate(args)) => generate::run(*args, &surroundings),
        Some(Command::Models(args)) => models::run(&args, &surroundings),
        Some(Command::Inspect(args)) => inspect::run(&args, &surroundings),
        Some(Command::Doctor(args)) => doctor::run(&args, &surroundings),
        Some(Command::Bench(args)) => bench::run(&args, &surroundings),
        None => window::run(surroundings, arguments.picture),
    }
}
