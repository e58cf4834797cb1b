//! Counts of live, reserved, used and total bytes, and their peaks, the same on every device.
//!
//! On the CPU libtorch keeps no count, so an allocator of our own does; weights that are mapped from
//! files count as live too. What to do about the counts is decided elsewhere.

use tch::Device;

use crate::weights::Weights;

#[expect(unsafe_code, reason = "declarations of shim.cpp")]
unsafe extern "C" {
    fn safelight_count_cpu_tensors();
    fn safelight_cpu_live_bytes() -> i64;
    fn safelight_cpu_peak_bytes() -> i64;
    fn safelight_reset_cpu_peak();
    fn safelight_device_memory(index: i8, out: *mut u64) -> bool;
    fn safelight_device_peaks(index: i8, out: *mut u64) -> bool;
    fn safelight_reset_device_peaks(index: i8);
    fn safelight_synchronize(index: i8) -> bool;
    fn safelight_empty_cache();
    fn safelight_trim_host();
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

/// The most bytes at once since [`reset_peaks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPeaks {
    pub allocated: u64,
    /// CPU: the same, because nothing is kept there.
    pub reserved: u64,
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

/// What [`memory_counts`] would have said at the worst moment since [`reset_peaks`].
pub fn memory_peaks(device: Device) -> MemoryPeaks {
    let Device::Cuda(index) = device else {
        #[expect(unsafe_code, reason = "reads one atomic number")]
        // SAFETY: no requirements.
        let peak = unsafe { safelight_cpu_peak_bytes() };
        let peak = u64::try_from(peak).unwrap_or(0) + Weights::mapped_bytes_live();
        return MemoryPeaks {
            allocated: peak,
            reserved: peak,
        };
    };
    let mut out = [0_u64; 2];
    #[expect(unsafe_code, reason = "the shim fills two numbers")]
    // SAFETY: `out` has room for the two numbers that the shim writes; without a device it writes none.
    unsafe {
        safelight_device_peaks(small(index), out.as_mut_ptr());
    }
    let [allocated, reserved] = out;
    MemoryPeaks {
        allocated,
        reserved,
    }
}

/// Lets [`memory_peaks`] begin anew at what is allocated now.
pub fn reset_peaks(device: Device) {
    #[expect(unsafe_code, reason = "C functions that change only counts")]
    // SAFETY: both catch everything inside.
    unsafe {
        match device {
            Device::Cuda(index) => safelight_reset_device_peaks(small(index)),
            _ => safelight_reset_cpu_peak(),
        }
    }
}

/// Waits until the device has done everything. `false` when it failed at it.
#[must_use]
pub fn synchronize(device: Device) -> bool {
    let Device::Cuda(index) = device else {
        return true;
    };
    #[expect(unsafe_code, reason = "a C function with one number")]
    // SAFETY: catches everything inside.
    unsafe {
        safelight_synchronize(small(index))
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

/// Gives what the C library keeps of freed memory back to the system. Called at stage boundaries only.
pub fn trim_host() {
    #[expect(unsafe_code, reason = "a C function without arguments")]
    // SAFETY: no requirements.
    unsafe {
        safelight_trim_host();
    }
}

fn accelerator_counts(index: usize) -> MemoryCounts {
    let mut out = [0_u64; 4];
    #[expect(unsafe_code, reason = "the shim fills four numbers")]
    // SAFETY: `out` has room for the four numbers that the shim writes.
    let known = unsafe { safelight_device_memory(small(index), out.as_mut_ptr()) };
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

fn small(index: usize) -> i8 {
    i8::try_from(index).unwrap_or(0)
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
        total: meminfo_bytes("MemTotal").unwrap_or(0),
    }
}

/// This process's resident memory: the second number of `/proc/self/statm`, in pages.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// A line of `/proc/meminfo`, in bytes.
pub(crate) fn meminfo_bytes(name: &str) -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(key, _)| *key == name)?;
    let kib: u64 = value.split_ascii_whitespace().next()?.parse().ok()?;
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
        // Other tests may have reset it, but none while more than this was alive.
        assert!(memory_peaks(Device::Cpu).allocated > 0 && synchronize(Device::Cpu));
    }

    #[test]
    fn the_hosts_memory_is_read_by_name() {
        assert!(meminfo_bytes("MemTotal").is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(meminfo_bytes("MemTot"), None);
    }
}
