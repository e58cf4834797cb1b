//! `safelight-bench-engine`: what developers measure with tensors. `safelight-bench` starts it with libtorch on its
//! library path, since a program that links libtorch cannot find it by itself.
//!
//! Measures step caches, kernels, memory fragments, and the cases of the engine's own bench; one JSON object a line.

mod caches;
mod fragments;
mod kernels;
mod step_cache;

use std::process::ExitCode;

use safelight_engine::bench;
use safelight_engine::process::answer;

use step_cache::StepCacheArguments;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let subject = arguments.peek().cloned().unwrap_or_default();
    match subject.as_str() {
        "bench" => answer(|out| bench::run(arguments.skip(1), out)),
        "caches-of" => answer(|out| caches::run(arguments.skip(1), out)),
        "step-cache" => answer(|out| {
            let arguments = StepCacheArguments::parse(arguments.skip(1))?;
            step_cache::run(&arguments, out)
        }),
        "fragments" => answer(|out| fragments::run(arguments.skip(1), out)),
        "kernels" => answer(|out| kernels::run(arguments.skip(1), out)),
        // Such as `caches`: step caches of a family's case with random weights.
        _ => answer(|out| bench::run(arguments, out)),
    }
}
