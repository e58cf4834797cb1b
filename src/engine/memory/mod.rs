//! What may be in memory at a time: one large model, the proof that it is gone, and giving back what it left.
//!
//! What a stage may use is decided in the app; which weights stay on the device is [`weights`](crate::weights)' part, and
//! the counts come from [`runtime`].

mod kept;

use safelight_core::job::Reclaim;
use tch::Device;

use crate::error::EngineError;
use crate::runtime;

#[cfg(test)]
pub use kept::kept_components;
pub use kept::{Lent, forget_all};

/// The boundaries between parts of the work at which memory is given back, and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The first stage of a job begins.
    WorkerStart,
    /// A text encoder is gone.
    PostUnloadTextEncoder,
    /// What the encoders made is on the disk.
    PostTextEncoding,
    PostVaeEncoding,
    PostClipVision,
    /// A transformer is about to be loaded.
    PostUnloadTransformer,
    /// A transformer is gone, and the VAE is next.
    PostTransformerUnload,
    PostVaeDecode,
    /// A stage failed or was cancelled.
    ExceptionCleanup,
}

impl Boundary {
    /// As it is called in logs and in the memory graph.
    pub fn label(self) -> &'static str {
        match self {
            Self::WorkerStart => "worker-start",
            Self::PostUnloadTextEncoder => "post-unload/text-enc",
            Self::PostTextEncoding => "post-text-encoding",
            Self::PostVaeEncoding => "post-vae-encoding",
            Self::PostClipVision => "post-clip-vision",
            Self::PostUnloadTransformer => "post-unload/transformer",
            Self::PostTransformerUnload => "post-transformer-unload",
            Self::PostVaeDecode => "post-vae-decode",
            Self::ExceptionCleanup => "exception-cleanup",
        }
    }
}

/// Gives back all that nobody uses, once the device has done what was queued.
pub fn reclaim(device: Device, boundary: Boundary) -> Reclaim {
    let before = runtime::memory_counts(device).reserved;
    if !runtime::synchronize(device) {
        tracing::warn!("{}: the device reports a failure", boundary.label());
    }
    runtime::empty_cache(device);
    let after = runtime::memory_counts(device).reserved;
    let label = boundary.label();
    tracing::info!("{label}: {before} bytes before, {after} after");
    Reclaim {
        boundary: label.to_owned(),
        before_bytes: before,
        after_bytes: after,
    }
}

/// Bytes that may stay behind a fully unloaded model: on a GPU the workspaces that its libraries
/// keep, on the CPU nothing but small change.
fn slack(device: Device) -> u64 {
    match device {
        Device::Cuda(_) => 128 << 20,
        _ => 256 << 10,
    }
}

/// Fails unless the allocator's own count shows that no weights are left: nothing beyond the engine's `baseline` from
/// before it loaded anything.
pub fn assert_unloaded(device: Device, baseline: u64) -> Result<(), EngineError> {
    let live = runtime::memory_counts(device).allocated;
    let left = live.saturating_sub(baseline);
    tracing::debug!("after unloading: {live} live bytes, {baseline} before loading");
    if left <= slack(device) {
        return Ok(());
    }
    Err(EngineError::internal(format!(
        "expected no weights on the device after unloading, found {left} live bytes beyond the {baseline} from before"
    )))
}
