//! Safelight's inference engine: everything with tensors.

mod bench;
pub mod capture;
pub mod controls;
pub mod denoise;
mod encoder_home;
pub mod error;
pub mod families;
pub mod fault;
pub mod finish;
pub mod guidance;
pub mod hooks;
pub mod kernels;
pub mod memory;
pub mod nn;
pub mod pixels;
pub mod place;
pub mod preview;
pub mod probe;
pub mod process;
pub mod runtime;
pub mod sampling;
pub mod serve;
pub mod speed;
pub mod stages;
pub mod step_cache;
pub mod store;
pub mod streams;
#[cfg(test)]
mod testing;
pub mod text;
pub mod trial;
pub mod vae;
pub mod vision;
pub mod weights;
pub mod work;

#[cfg(test)]
use testing::{closeness, drawn};
