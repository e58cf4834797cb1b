//! `cargo xtask`: prepares everything that Safelight needs, then runs, tests or packs it.
//!
//! It has no dependencies, so it starts within seconds on a fresh clone and without a network.
//! Everything that it says goes to standard error: standard output belongs to the program that it starts.
//! It does not decide what a test is (cargo does), nor fetch by itself (`fetch.py` does, through pip).
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talking to a terminal is what this tool is for"
)]

mod arguments;
mod cargo;
mod checks;
mod dependencies;
mod executables;
mod failure;
#[cfg(test)]
mod fetch_tests;
mod libtorch;
mod package;
mod packages;
mod policy;
mod second;
mod side_by_side;
mod workspace;

use std::process::ExitCode;

use arguments::{Request, TestOptions};
use failure::{Failure, Result};
use packages::Goal;
use second::SecondEngine;
use workspace::Workspace;

fn main() -> ExitCode {
    let outcome = arguments::parse(std::env::args().skip(1)).and_then(obey);
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            if let Some(sentence) = failure.sentence() {
                eprintln!("error: {sentence}");
            }
            ExitCode::from(failure.code())
        }
    }
}

fn obey(request: Request) -> Result<ExitCode> {
    match request {
        Request::Help => print!("{}", arguments::HELP),
        Request::Setup { second_engine } => {
            let workspace = Workspace::find()?;
            let libtorch = set_up(&workspace, Goal::Everything)?;
            if second_engine {
                SecondEngine::prepare(&workspace)?;
            }
            eprintln!(
                "Everything is prepared; libtorch is in {}",
                libtorch.display()
            );
        }
        Request::Run {
            release,
            second_engine,
            args,
        } => {
            let workspace = Workspace::find()?;
            set_up(
                &workspace,
                if args.is_empty() {
                    Goal::Window
                } else {
                    Goal::CommandLine
                },
            )?;
            if second_engine {
                let second = SecondEngine::prepare(&workspace)?;
                if release {
                    second.build_release(&[])?;
                } else {
                    second.build_app()?;
                }
            }
            return Err(cargo::build_and_become_the_app(&workspace, release, &args));
        }
        Request::Test(TestOptions { only }) => {
            let workspace = Workspace::find()?;
            let goal = if only.as_ref().is_none_or(|only| only.part.runs_tests()) {
                Goal::Tests
            } else {
                Goal::CommandLine
            };
            let libtorch = set_up(&workspace, goal)?;
            return checks::run(&workspace, &libtorch, only.as_ref());
        }
        Request::Bench(args) => {
            let workspace = Workspace::find()?;
            set_up(&workspace, Goal::CommandLine)?;
            return Err(cargo::build_and_become_the_bench(&workspace, &args));
        }
        Request::Package(options) => {
            let workspace = Workspace::find()?;
            let libtorch = set_up(&workspace, Goal::Package)?;
            let second = SecondEngine::prepare(&workspace)?;
            package::make(&workspace, &libtorch, &second, options)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// System packages, libtorch and Rust packages, in the order in which they need each other.
fn set_up(workspace: &Workspace, goal: Goal) -> Result<std::path::PathBuf> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err(Failure::new(
            "Safelight is prepared on Linux on x86_64 only, for now",
        ));
    }
    let libtorch = libtorch::Libtorch::locate(workspace, &libtorch::FIRST)?;
    packages::prepare(goal, !libtorch.is_complete())?;
    libtorch.prepare()?;
    cargo::fetch(workspace)?;
    Ok(libtorch.into_folder())
}
