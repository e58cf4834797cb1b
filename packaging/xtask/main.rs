//! `cargo xtask`: prepares everything that Safelight needs, then runs, tests or packs it.
//!
//! It has no dependencies, so it starts within seconds on a fresh clone and without a network.
//! Its messages go to standard error: standard output belongs to the program that it starts.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talking to a terminal is what this tool is for"
)]

mod arguments;
mod cargo;
mod checks;
mod executables;
mod failure;
mod libtorch;
mod licences;
mod package;
mod packages;
mod second;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use arguments::Request;
use failure::{Failure, Result};
use packages::Goal;
use second::SecondEngine;
use workspace::Workspace;

fn main() -> ExitCode {
    let outcome = arguments::parse(std::env::args().skip(1)).and_then(obey);
    outcome.unwrap_or_else(|failure| {
        eprintln!("error: {}", failure.sentence());
        ExitCode::from(failure.code())
    })
}

fn obey(request: Request) -> Result<ExitCode> {
    if request == Request::Help {
        print!("{}", arguments::HELP);
        return Ok(ExitCode::SUCCESS);
    }
    let workspace = &Workspace::find()?;
    match request {
        Request::Help => {}
        Request::Setup { second_engine } => {
            let libtorch = set_up(workspace, Goal::Everything)?;
            if second_engine {
                SecondEngine::prepare(workspace)?;
            }
            let libtorch = libtorch.display();
            eprintln!("Everything is prepared; libtorch is in {libtorch}");
        }
        Request::Run {
            release,
            second_engine,
            args,
        } => {
            let is_window = args.is_empty();
            let goal = if is_window {
                Goal::Window
            } else {
                Goal::CommandLine
            };
            set_up(workspace, goal)?;
            cargo::build(workspace, release, &[])?;
            if second_engine {
                let second = SecondEngine::prepare(workspace)?;
                second.build(release, &[])?;
            }
            let folder = if release { "release" } else { "debug" };
            let app = workspace.target().join(folder).join("safelight");
            return Err(cargo::become_program(workspace, &app, &args));
        }
        Request::Test(only) => {
            let runs_tests = only.as_ref().is_none_or(|only| only.part.runs_tests());
            let goal = if runs_tests {
                Goal::Tests
            } else {
                Goal::CommandLine
            };
            let libtorch = set_up(workspace, goal)?;
            return checks::run(workspace, &libtorch, only.as_ref());
        }
        Request::Bench(args) => {
            set_up(workspace, Goal::CommandLine)?;
            cargo::build(workspace, true, &[])?;
            cargo::build_bench(workspace, &[])?;
            let bench = workspace.target().join("release/safelight-bench");
            return Err(cargo::become_program(workspace, &bench, &args));
        }
        Request::Package(options) => {
            let libtorch = set_up(workspace, Goal::Package)?;
            package::make(workspace, &libtorch, options)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// System packages, Rust packages and libtorch, in the order in which they need each other.
fn set_up(workspace: &Workspace, goal: Goal) -> Result<PathBuf> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let sentence = "Safelight is prepared on Linux on x86_64 only, for now";
        return Err(Failure::new(sentence));
    }
    packages::prepare(goal)?;
    cargo::fetch(workspace)?;
    let libtorch = libtorch::prepare(workspace, &libtorch::FIRST)?;
    libtorch::lead_link(workspace, &libtorch)?;
    Ok(libtorch)
}
