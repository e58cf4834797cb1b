//! The places where faults can be injected, so that tests see the app outlive every death of its engine and every failed
//! allocation.
//!
//! Only with the cargo feature `fault-injection`, which releases do not have: without it nothing happens at any place.

#[cfg(feature = "fault-injection")]
mod injection;
#[cfg(feature = "fault-injection")]
mod kind;
#[cfg(not(feature = "fault-injection"))]
mod none;

#[cfg(feature = "fault-injection")]
pub use injection::{Armed, arm, at, claims_gpu};
#[cfg(not(feature = "fault-injection"))]
pub use none::{Armed, arm, at, claims_gpu};

/// The places where stages allocate, by class, and two moments of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// The stage begins.
    Start,
    /// The stage looks at its cancel flag.
    Look,
    /// A tensor of a model's file is wanted.
    Weights,
    /// It is brought from the file to where it is computed with.
    Staging,
    /// A block of a transformer.
    Block,
    /// A step of a sampler.
    Sampler,
    /// A tile, a band or a latent frame in the VAE's decoder.
    VaeDecode,
    /// The same in its encoder.
    VaeEncode,
    /// A block of a text encoder.
    Text,
    /// A block of an image encoder.
    Vision,
    /// Pixels on their way to the host.
    Frames,
    /// A stage's result or a checkpoint on its way to the disk.
    Saving,
}
