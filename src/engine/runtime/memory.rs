//! Counts of live, reserved, used and total bytes, the same on every device.
//!
//! On the CPU libtorch keeps no count, so an allocator of our own does; weights that are mapped from
//! files count as live too. What to do about the counts is decided elsewhere.

use tch::Device;

use crate::weights::Weights;

#[expect(unsafe_code, reason = "declarations of shim.cpp")]
unsafe extern "C" {
    fn safelight_count_cpu_tensors();
    fn safelight_cpu_live_bytes() -> i64;
    fn safelight_device_memory(index: i8, out: *mut u64) -> bool;
    fn safelight_empty_cache();
}

/// Bytes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Tensors that are alive, mapped weights included.
    pub allocated: u64,
    /// What the allocator holds.
    pub reserved: u64,
    /// GPU: used on the device by all programs. CPU: this process's resident memory.
    pub used: u64,
    pub total: u64,
}

/// Counts every CPU tensor from here on. To be called before the first one is made.
pub fn count_cpu_tensors() {
    #[expect(unsafe_code, reason = "a C function without arguments")]
    // SAFETY: registers a static allocator; the shim has no other requirement than to come first.
    unsafe {
        safelight_count_cpu_tensors();
    }
}

/// The counts of a device.
pub fn memory_counts(device: Device) -> MemoryCounts {
    match device {
        Device::Cuda(index) => accelerator_counts(index),
        _ => cpu_counts(),
    }
}

/// Gives cached device memory back to the driver. Called at stage boundaries only.
pub fn empty_cache(device: Device) {
    if let Device::Cuda(_) = device {
        #[expect(unsafe_code, reason = "a C function without arguments")]
        // SAFETY: catches everything inside.
        unsafe {
            safelight_empty_cache();
        }
    }
}

fn accelerator_counts(index: usize) -> MemoryCounts {
    let mut out = [0_u64; 4];
    #[expect(unsafe_code, reason = "the shim fills four numbers")]
    // SAFETY: `out` has room for the four numbers that the shim writes.
    let known =
        unsafe { safelight_device_memory(i8::try_from(index).unwrap_or(0), out.as_mut_ptr()) };
    if !known {
        return MemoryCounts::default();
    }
    let [allocated, reserved, free, total] = out;
    MemoryCounts {
        allocated,
        reserved,
        used: total.saturating_sub(free),
        total,
    }
}

fn cpu_counts() -> MemoryCounts {
    #[expect(unsafe_code, reason = "reads one atomic number")]
    // SAFETY: no requirements.
    let live = unsafe { safelight_cpu_live_bytes() };
    let allocated = u64::try_from(live).unwrap_or(0) + Weights::mapped_bytes_live();
    let used = resident_bytes().unwrap_or(allocated);
    MemoryCounts {
        allocated,
        reserved: allocated,
        used,
        total: total_host_bytes().unwrap_or(0),
    }
}

/// This process's resident memory: the second number of `/proc/self/statm`, in pages.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn total_host_bytes() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use tch::{Kind, Tensor};

    use super::*;

    #[test]
    fn a_cpu_tensor_is_counted_while_it_lives() {
        count_cpu_tensors();
        let before = cpu_counts().allocated;
        let tensor = Tensor::zeros([1 << 20], (Kind::Float, Device::Cpu));
        // Other tests make tensors at the same time, but none of this size goes within these lines.
        assert!(cpu_counts().allocated >= before + (4 << 20) - (1 << 16));
        drop(tensor);
        assert!(cpu_counts().allocated < before + (4 << 20));
    }
}
