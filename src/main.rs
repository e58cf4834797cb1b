//! Safelight: without a subcommand the window, with one the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    safelight::cli::main()
}
