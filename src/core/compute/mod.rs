//! Options of computing that change time and the last bits of a result: kernels, libraries, convolution backends.

pub mod conv_backends;
mod options;

pub use options::{AttentionChoice, ComputeOptions, DecodeChunk, MatrixLibrary};
