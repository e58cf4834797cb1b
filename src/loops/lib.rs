//! Inner loops on the CPU, in which the engine and the program spend their time.
//!
//! A separate crate, because it is the one that development builds optimise: its code is fast in every build, and the
//! crates that use it compile quickly. So nothing here is generic in its interface: a generic function would be
//! compiled without optimisation in the calling crate. No tensors, files, threads or errors: slices in, slices out.

#![expect(
    clippy::inline_always,
    reason = "inner loops must be compiled with the vectors of their caller"
)]

pub mod activation;
pub mod alpha;
pub mod doubling;
pub mod edges;
pub mod gguf;
pub mod grow;
pub mod hash;
pub mod palette;
pub mod planes;
pub mod resize;
mod rows;
pub mod soften;
pub mod srgb;
pub mod statistics;
mod vectors;
pub mod yuv;

pub use rows::SharedRows;
pub use vectors::InRanges;
