//! The running libtorch: which device it has, and how much memory its tensors take.
//!
//! Loads no weights and computes nothing.

mod device;
mod memory;
mod team;

pub use device::{LIBTORCH_VERSION, Runtime, RuntimeError};
pub(crate) use device::{folder_of_loaded, is_rocm, libtorch_folder};
pub(crate) use memory::meminfo_bytes;
pub use memory::{
    MemoryCounts, MemoryPeaks, count_cpu_tensors, empty_cache, memory_counts, memory_peaks,
    reset_peaks, synchronize, trim_host,
};
pub(crate) use team::for_each_range;
