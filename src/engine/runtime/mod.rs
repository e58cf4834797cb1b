//! The running libtorch: which device it has, how much memory its tensors take, and in which ways it computes.
//!
//! Loads no weights and computes nothing.

mod device;
mod loaded;
mod memory;
mod pools;
mod team;
mod ways;
#[cfg(test)]
mod wheel_tests;

pub use device::{Runtime, RuntimeError, libtorch_version};
pub(crate) use device::{device_class, is_rocm};
pub(crate) use loaded::{folder_of_loaded, libtorch_folder, loaded_as};
pub(crate) use memory::meminfo_bytes;
pub use memory::{
    MemoryCounts, MemoryPeaks, allowance, count_cpu_tensors, empty_cache, free_bytes, limit,
    memory_counts, memory_peaks, reset_peaks, synchronize, trim_host,
};
pub(crate) use team::for_each_range;
pub use ways::{Entered, enter as enter_ways};
pub(crate) use ways::{
    attention_choice, chunk_frames, convolution_tier, copy_path, distrust_fused_attention,
    matrix_layout, prefer as prefer_matrix_library, without_miopen,
};

/// The libtorch that this engine is built for, as `build.rs` found it.
pub const LIBTORCH_VERSION: &str = env!("LIBTORCH_OF_ENGINE");
