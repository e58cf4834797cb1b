//! The running libtorch: which device it has, how much memory its tensors take, and its compute options.

mod compute_options;
mod device;
mod loaded;
mod memory;
mod pools;
mod team;
#[cfg(test)]
mod tests;

pub use compute_options::{ComputeOptionsGuard, use_compute_options};
pub(crate) use compute_options::{
    attention_choice, chunk_frames, conv_backend, disable_fused_attention, disable_miopen,
};
pub use device::{DeviceRuntime, RuntimeError, libtorch_version};
pub(crate) use device::{device_class, is_rocm};
pub(crate) use loaded::{folder_of_loaded, libtorch_folder, loaded_as};
#[cfg(test)]
pub(crate) use memory::mapped_bytes;
pub use memory::{
    MemoryCounts, MemoryPeaks, allowance, empty_cache, free_bytes, limit, memory_counts,
    memory_peaks, reset_peaks, synchronize, trim_host,
};
pub(crate) use memory::{count_mapped, count_unmapped, meminfo_bytes};
pub(crate) use team::for_each_range;

/// The libtorch that this engine is built for, as `build.rs` found it.
pub const LIBTORCH_VERSION: &str = env!("LIBTORCH_OF_ENGINE");
