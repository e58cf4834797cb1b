//! Damaged and hostile files for every reader of Safelight: `cargo xtask fuzz` makes new ones, and the tests read the
//! ones that are kept in `corpus`.
//!
//! One list of readers serves both ([`readers::READERS`]). Stable Rust and the program's own entry points; see the README.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "talking to a terminal is what this tool is for"
)]

mod arguments;
#[cfg(test)]
mod bombs;
mod corpus;
mod cost;
mod fuzzer;
mod mutate;
#[path = "../../benches/command/random.rs"]
mod random;
mod readers;
#[cfg(test)]
mod replay;
mod scratch;
mod trial;

use std::process::ExitCode;

use arguments::Request;

fn main() -> ExitCode {
    let ended = match arguments::parse(std::env::args().skip(1)) {
        Ok(Request::Help) => {
            print!("{}", arguments::HELP);
            Ok(true)
        }
        Ok(Request::Fuzz(options)) => fuzzer::run(&options),
        Ok(Request::Trial(task)) => trial::run(&task),
        Ok(Request::Read { reader, file }) => trial::read_one(reader, &file),
        Err(sentence) => {
            eprintln!("error: {sentence}");
            return ExitCode::from(2);
        }
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(err) => {
            eprintln!("error: {err}");
            ExitCode::FAILURE
        }
    }
}
