//! The worker thread: takes one job at a time, walks its recipe, and owns the engine process.
//!
//! It knows no widgets and no tensors. The queue of waiting jobs is not here: it belongs to whoever
//! submits.

mod handle;

pub use handle::{WorkerCommand, WorkerEvent, WorkerFarEnd, WorkerHandle};
