//! The command line: the same jobs and the same worker as the window's.

mod doctor;
mod generate;
mod inspect;
mod models;
mod out;
mod surroundings;
mod window;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use generate::GenerateArgs;
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
}

/// The whole program.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    start_log();
    let surroundings = Surroundings::of_this_user();
    match arguments.command {
        Some(Command::Generate(args)) => generate::run(*args, &surroundings),
        Some(Command::Models(args)) => models::run(&args, &surroundings),
        Some(Command::Inspect(args)) => inspect::run(&args, &surroundings),
        Some(Command::Doctor(args)) => doctor::run(&args, &surroundings),
        None => window::run(surroundings, arguments.picture),
    }
}

/// Log lines go to standard error, and only warnings unless `SAFELIGHT_LOG` asks for more.
fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SAFELIGHT_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(filter)
        .init();
}

/// A seed nobody chose: small enough to be typed again.
pub(crate) fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    // The standard library's hash keys are random: no crate is needed for one number.
    std::hash::RandomState::new().build_hasher().finish() % 1_000_000_000
}
