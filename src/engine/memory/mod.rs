//! Memory rules of stages: one large model at a time, the proof that it was unloaded, and reclaiming what it left.
//!
//! The app decides how much a stage may use; [`weights`](crate::weights) decides which weights stay on the device, and
//! the counts come from [`runtime`].

mod network_cache;

use safelight_core::job::Stage;
use safelight_core::job_update::MemoryReclaim;
use safelight_core::units::size_text;
use tch::Device;

use crate::error::EngineError;
use crate::runtime::{self, MemoryCounts};

#[cfg(test)]
pub use network_cache::kept_components;
pub use network_cache::{CachedNetwork, forget_all};

/// The boundaries between parts of the work at which memory is given back, and nowhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleasePoint {
    /// The first stage of a job begins.
    WorkerStart,
    PostUnloadTextEncoder,
    /// The encoders' results are on disk.
    PostTextEncoding,
    PostVaeEncoding,
    PostClipVision,
    /// A transformer is about to be loaded.
    PostUnloadTransformer,
    /// A transformer is gone, and the VAE is next.
    PostTransformerUnload,
    PostVaeDecode,
    /// A network that finishes images is gone.
    PostFinish,
    /// A stage failed or was cancelled.
    ExceptionCleanup,
}

impl ReleasePoint {
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
            Self::PostFinish => "post-finish",
            Self::ExceptionCleanup => "exception-cleanup",
        }
    }
}

/// Releases all unused memory after the device has finished the queued work.
pub fn reclaim(device: Device, boundary: ReleasePoint) -> MemoryReclaim {
    let before = runtime::memory_counts(device).reserved;
    if !runtime::synchronize(device) {
        tracing::warn!("{}: the device reports a failure", boundary.label());
    }
    runtime::empty_cache(device);
    let after = runtime::memory_counts(device).reserved;
    let label = boundary.label();
    tracing::info!("{label}: {before} bytes before, {after} after");
    MemoryReclaim {
        boundary: label.to_owned(),
        before_bytes: before,
        after_bytes: after,
    }
}

/// Memory before a stage loads its networks, for the log; `None` for a stage that loads none.
///
/// `cap`: limit of the allocator, if it is below the device's memory.
pub fn line_before(stage: Stage, counts: &MemoryCounts, cap: Option<u64>) -> Option<String> {
    let what = match stage {
        Stage::EncodeText => "Text Encoder",
        Stage::EncodeVision => "Image Encoder",
        Stage::EncodeImage | Stage::Decode => "VAE",
        Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow => "Transformer",
        Stage::Upscale => "Upscaler",
        Stage::Interpolate => "RIFE",
        Stage::Depth => "Depth Anything",
        Stage::Unload | Stage::Save => return None,
    };
    let cap = cap.unwrap_or(counts.total);
    let [free, allocated, cap_text, reserved] = [
        counts.total.saturating_sub(counts.used),
        counts.allocated,
        cap,
        counts.reserved,
    ]
    .map(size_text);
    let share = counts.allocated as f64 / cap.max(1) as f64 * 100.0;
    Some(format!(
        "[Before {what} Load] Free: {free} | Allocated: {allocated} ({share:.1} % of {cap_text}) | Reserved: {reserved}"
    ))
}

/// Bytes that may remain after a full unload: on a GPU the workspaces of its libraries, on the CPU only small
/// allocations.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_log_line_states_free_and_allocated_memory_before_a_load() {
        const GIB: u64 = 1 << 30;
        let counts = MemoryCounts {
            allocated: 19 * GIB,
            reserved: 20 * GIB,
            used: 21 * GIB,
            total: 24 * GIB,
        };
        assert_eq!(
            line_before(Stage::Decode, &counts, Some(20 * GIB)).as_deref(),
            Some(
                "[Before VAE Load] Free: 3.0 GiB | Allocated: 19.0 GiB (95.0 % of 20.0 GiB) | Reserved: 20.0 GiB"
            )
        );
        let uncapped = line_before(Stage::DenoiseHigh, &counts, None).unwrap();
        assert!(uncapped.contains("Transformer Load") && uncapped.contains("79.2 % of 24.0 GiB"));
        assert_eq!(line_before(Stage::Unload, &counts, None), None);
    }
}
