//! The running libtorch: which device it has, how much memory its tensors take, and in which ways it computes.
//!
//! Loads no weights and computes nothing.

mod device;
mod memory;
mod pools;
mod team;
mod ways;

pub use device::{LIBTORCH_VERSION, Runtime, RuntimeError};
pub(crate) use device::{device_class, folder_of_loaded, is_rocm, libtorch_folder};
pub(crate) use memory::meminfo_bytes;
pub use memory::{
    MemoryCounts, MemoryPeaks, allowance, count_cpu_tensors, empty_cache, free_bytes, limit,
    memory_counts, memory_peaks, reset_peaks, synchronize, trim_host,
};
pub(crate) use team::for_each_range;
pub use ways::{Entered, enter as enter_ways};
pub(crate) use ways::{attention_choice, convolution_tier, distrust_fused_attention};
