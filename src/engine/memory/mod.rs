//! What may be in memory at a time: one large model, and the proof that it is gone.
//!
//! Plans nothing yet; the counts come from `runtime`.

use tch::Device;

use crate::error::EngineError;
use crate::runtime;

/// Bytes that may stay behind a fully unloaded model: on a GPU the workspaces that its libraries
/// keep, on the CPU nothing but small change.
fn slack(device: Device) -> u64 {
    match device {
        Device::Cuda(_) => 128 << 20,
        _ => 256 << 10,
    }
}

/// Gives cached memory back, then fails unless the allocator's own count shows that no weights are
/// left: nothing beyond the engine's `baseline` from before it loaded anything.
pub fn assert_unloaded(device: Device, baseline: u64) -> Result<(), EngineError> {
    runtime::empty_cache(device);
    let live = runtime::memory_counts(device).allocated;
    let left = live.saturating_sub(baseline);
    tracing::debug!("after unloading: {live} live bytes, {baseline} before loading");
    if left <= slack(device) {
        return Ok(());
    }
    Err(EngineError::Internal {
        reason: format!(
            "expected no weights on the device after unloading, found {left} live bytes beyond the {baseline} from before"
        ),
    })
}
