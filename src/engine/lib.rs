//! Safelight's inference engine: everything with tensors.

pub mod audio;
mod bench;
pub mod capture;
pub mod controls;
pub mod denoise;
mod encoder_prefix;
pub mod error;
pub mod families;
pub mod fault;
pub mod finish;
pub mod guidance;
pub mod hooks;
pub mod kernels;
pub mod memory;
pub mod nn;
pub mod parallel;
pub mod pixels;
pub mod placement;
pub mod preview;
pub mod probe;
pub mod process;
mod ranks;
pub mod runtime;
pub mod sampling;
pub mod self_test;
pub mod serve;
pub mod speed;
pub mod stages;
pub mod step_cache;
pub mod streams;
pub mod tensor_files;
#[cfg(test)]
mod testing;
pub mod text;
mod timing;
pub mod vae;
pub mod vision;
pub mod weights;
pub mod weights_error;
pub mod work;

pub use capture::StageCapture;
pub use error::EngineError;
pub use hooks::Hooks;
pub use weights::{Weights, WeightsError};
pub use work::StageWork;

// Not used here: names the features that core's tests need, so that tch is compiled once for the program and for the tests.
use num_integer as _;
#[cfg(test)]
use testing::{closeness, drawn, hook_recorder};
