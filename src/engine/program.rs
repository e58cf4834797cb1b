//! The engine's executable; what it does is in `process.rs`.

use std::process::ExitCode;

fn main() -> ExitCode {
    safelight_engine::process::main()
}
