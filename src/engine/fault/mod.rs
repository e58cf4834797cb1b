//! Sites for fault injection, with which tests check that the app survives every death of its engine and every failed
//! allocation.
//!
//! Only in development builds: in a release nothing happens at any site. The faults are in `tests/fault_injection`.

#[cfg(debug_assertions)]
#[path = "../../../tests/fault_injection/mod.rs"]
mod injection;
// Compiled in development builds too, so that a release is never the first to find a mistake in it.
#[cfg_attr(debug_assertions, expect(dead_code, reason = "a release uses it"))]
mod none;

use serde::Deserialize;

#[cfg(debug_assertions)]
pub use injection::{ArmedFault, arm, at, claims_gpu};
#[cfg(not(debug_assertions))]
pub use none::{ArmedFault, arm, at, claims_gpu};

/// The places where stages allocate, by class, and two moments of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultSite {
    Start,
    Look,
    Weights,
    /// It is brought from the file to where it is computed with.
    Staging,
    Block,
    Sampler,
    /// A tile, a band or a latent frame in the VAE's decoder.
    VaeDecode,
    VaeEncode,
    Text,
    Vision,
    Frames,
    /// A stage's result or a checkpoint on its way to the disk.
    Saving,
}
