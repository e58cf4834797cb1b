//! Counts of live, reserved, used and total bytes, and their peaks, the same on every device.
//!
//! On the CPU libtorch keeps no count, so an allocator of our own does; weights that are mapped from files count as
//! live too. What to do about the counts is decided elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};

use tch::Device;

use super::pools;

/// Memory that a driver and its libraries take outside libtorch's allocator once kernels of every kind are loaded, in
/// addition to their initial use: 0.3 GiB on an H200 with CUDA 13.
const LATE_CODE_BYTES: u64 = 384 << 20;

#[expect(unsafe_code, reason = "declarations of shim.cpp")]
unsafe extern "C" {
    fn safelight_cpu_live_bytes() -> i64;
    fn safelight_cpu_peak_bytes() -> i64;
    fn safelight_reset_cpu_peak();
    fn safelight_device_memory(index: i8, out: *mut u64) -> bool;
    fn safelight_device_peaks(index: i8, out: *mut u64) -> bool;
    fn safelight_reset_device_peaks(index: i8);
    fn safelight_synchronize(index: i8) -> bool;
    fn safelight_empty_cache();
    fn safelight_limit_cpu_tensors(bytes: i64);
    fn safelight_limit_device(index: i8, fraction: f64) -> bool;
    fn safelight_trim_host();
}

static MAPPED: AtomicU64 = AtomicU64::new(0);
/// The most of them at once since the last reset.
static MAPPED_PEAK: AtomicU64 = AtomicU64::new(0);

/// Bytes of weight files that are mapped into this process at the moment, by anybody.
pub(crate) fn mapped_bytes() -> u64 {
    MAPPED.load(Ordering::Relaxed)
}

pub(crate) fn count_mapped(bytes: u64) {
    let live = MAPPED.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MAPPED_PEAK.fetch_max(live, Ordering::Relaxed);
}

pub(crate) fn count_unmapped(bytes: u64) {
    MAPPED.fetch_sub(bytes, Ordering::Relaxed);
}

/// Bytes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounts {
    /// Tensors that are alive, mapped weights included.
    pub allocated: u64,
    /// Bytes held by the allocator.
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

pub fn memory_counts(device: Device) -> MemoryCounts {
    match device {
        Device::Cuda(index) => accelerator_counts(index),
        _ => cpu_counts(),
    }
}

/// Highest [`memory_counts`] since [`reset_peaks`].
pub fn memory_peaks(device: Device) -> MemoryPeaks {
    let Device::Cuda(index) = device else {
        #[expect(unsafe_code, reason = "reads one atomic number")]
        // SAFETY: no requirements.
        let peak = unsafe { safelight_cpu_peak_bytes() };
        // The two need not have been at once: rather too much than too little.
        let peak = u64::try_from(peak).unwrap_or(0) + MAPPED_PEAK.load(Ordering::Relaxed);
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
    if device == Device::Cpu {
        MAPPED_PEAK.store(mapped_bytes(), Ordering::Relaxed);
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

/// Gives cached device memory back to the driver, and what the driver's own pools keep to the device. What is not in
/// use any more, but still queued to be used, must have been waited for. Called where memory is reclaimed only.
pub fn empty_cache(device: Device) {
    if let Device::Cuda(index) = device {
        #[expect(unsafe_code, reason = "a C function without arguments")]
        // SAFETY: catches everything inside.
        unsafe {
            safelight_empty_cache();
        }
        pools::trim(index);
    }
}

/// Lets libtorch's allocator hold no more than `bytes` of a device; `None` for all that there is. An allocation beyond it
/// is out of memory. `false` where nothing can hold it to that.
///
/// On the CPU it is what this process's tensors may take; mapped weights, which the system may drop, are not counted.
pub fn limit(device: Device, bytes: Option<u64>) -> bool {
    let Device::Cuda(index) = device else {
        let limit = bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        #[expect(unsafe_code, reason = "writes one atomic number")]
        // SAFETY: no requirements.
        unsafe {
            safelight_limit_cpu_tensors(limit);
        }
        return true;
    };
    let total = accelerator_counts(index).total.max(1);
    LIMIT.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    let fraction = bytes.map_or(1.0, |bytes| (bytes as f64 / total as f64).min(1.0));
    #[expect(unsafe_code, reason = "a C function with two numbers")]
    // SAFETY: catches everything inside.
    let is_set = unsafe { safelight_limit_device(small(index), fraction) };
    is_set
}

/// Limit of libtorch's allocator on the GPU.
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Bytes that tensors can still allocate on a GPU.
pub fn free_bytes(device: Device) -> u64 {
    let counts = memory_counts(device);
    let unused = counts.reserved.saturating_sub(counts.allocated);
    let free = counts.total.saturating_sub(counts.used) + unused;
    free.min(
        LIMIT
            .load(Ordering::Relaxed)
            .saturating_sub(counts.allocated),
    )
}

/// For libtorch's allocator: what is left of the cap by all else that is on the device, or is going to be.
fn allowed_bytes(cap: u64, counts: &MemoryCounts) -> u64 {
    let others = counts.used.saturating_sub(counts.reserved);
    cap.saturating_sub(others).saturating_sub(LATE_CODE_BYTES)
}

/// The [`limit`] with which a device is not used beyond `cap` bytes, whoever uses the rest of it.
pub fn allowance(device: Device, cap: Option<u64>) -> u64 {
    let counts = memory_counts(device);
    let cap = cap.unwrap_or(counts.total).min(counts.total);
    match device {
        Device::Cuda(_) => allowed_bytes(cap, &counts),
        _ => cap,
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
    let allocated = u64::try_from(live).unwrap_or(0) + mapped_bytes();
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
        let before = cpu_counts().allocated;
        // Never touched, so it takes none of the machine's memory.
        let tensor = Tensor::empty([1 << 27], (Kind::Float, Device::Cpu));
        // Other tests make and drop tensors at the same time, all of them together far smaller than this one.
        assert!(cpu_counts().allocated >= before + (384 << 20));
        drop(tensor);
        assert!(cpu_counts().allocated < before + (384 << 20));
        // Other tests may have reset it, but none while more than this was alive.
        assert!(memory_peaks(Device::Cpu).allocated > 0 && synchronize(Device::Cpu));
    }

    #[test]
    fn memory_cap_leaves_room_for_other_processes_and_driver_code() {
        let gib = |n: u64| n << 30;
        let counts = MemoryCounts {
            allocated: gib(1),
            reserved: gib(2),
            used: gib(5),
            total: gib(24),
        };
        let expected = gib(17) - LATE_CODE_BYTES;
        assert_eq!(allowed_bytes(gib(20), &counts), expected);
        assert_eq!(allowed_bytes(gib(1), &counts), 0);
    }

    #[test]
    fn the_hosts_memory_is_read_by_name() {
        assert!(meminfo_bytes("MemTotal").is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(meminfo_bytes("MemTot"), None);
    }
}
