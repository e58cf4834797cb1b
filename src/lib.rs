//! Safelight: a native desktop app that makes images and videos on your own GPU.
//!
//! Reading order: [`safelight_core`] says what a job is; [`worker`] walks its recipe and owns the
//! engine process; [`window`] is the window, a folder a feature, [`cli`] the command line: two fronts on the
//! same path. [`telemetry`] watches the device.
//!
//! Invariant: no tensors here; everything with `tch` lives in the engine process.
//! Invariant: every job ends exactly once.
//! Invariant: the window's thread never blocks.

pub mod child;
pub mod cli;
pub mod computers;
pub mod doctor;
pub mod download;
pub mod report;
pub mod runtimes;
pub mod server;
pub mod telemetry;
pub mod window;
pub mod worker;
