//! `safelight completions` and `safelight manual`: shell completions and the manual page.
//!
//! Both are generated from the arguments, so they are always up to date. Packages contain them.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;
use safelight_core::job::{JobError, JobErrorKind};

use super::out;

/// Print a completion script for a shell
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// Shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Write the manual pages into a folder
#[derive(Args, Debug)]
pub(super) struct ManualArgs {
    /// An existing folder, such as ~/.local/share/man/man1
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the script.
pub(super) fn run(args: &CompletionsArgs, mut command: clap::Command) -> ExitCode {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out::print(&String::from_utf8_lossy(&script), 0)
}

/// Writes `safelight.1`, `safelight-generate.1` and so on: 1 where the folder cannot be written to.
pub(super) fn write_manual(args: &ManualArgs, command: clap::Command) -> ExitCode {
    match clap_mangen::generate_to(command, &args.folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => out::print_job_error(&not_written(&err, args), false),
    }
}

fn not_written(err: &io::Error, args: &ManualArgs) -> JobError {
    let summary = format!(
        "The manual cannot be written to {} ({err})",
        args.folder.display()
    );
    JobError::new(JobErrorKind::Disk, summary).advise("Name a folder that you may write to")
}
