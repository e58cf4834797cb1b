//! `safelight-bench-engine`: everything of the bench with tensors. `safelight-bench` starts it with libtorch on its
//! library path, since a program that links libtorch cannot find it by itself.
//!
//! Measures networks, loading, single layers, step caches or kernels, one JSON object a line. With any other arguments
//! it is the engine itself, with faults to inject: a soak's worker starts it so.

mod arguments;
mod cases;
mod error;
mod kernels;
mod load;
mod measure;
mod networks;
mod step_cache;
mod streamed;
mod ways;

use std::process::ExitCode;

use safelight_engine::process::{self, answer};

use arguments::BenchArguments;
use cases::FAMILIES;
use step_cache::StepCacheArguments;
use ways::{Ways, WaysArguments};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let subject = arguments.peek().cloned().unwrap_or_default();
    if FAMILIES.iter().any(|family| family.name == subject) {
        return answer(|out| networks::run(&BenchArguments::parse(arguments)?, out));
    }
    let arguments = arguments.skip(1);
    if let Some(ways) = Ways::from_name(&subject) {
        return answer(|out| ways::run(ways, &WaysArguments::parse(ways, arguments)?, out));
    }
    match subject.as_str() {
        "step-cache" => answer(|out| step_cache::run(&StepCacheArguments::parse(arguments)?, out)),
        "load" => answer(|out| load::run(&arguments::read(arguments)?, out)),
        "kernels" => answer(|out| kernels::run(arguments, out)),
        _ => process::main(),
    }
}
