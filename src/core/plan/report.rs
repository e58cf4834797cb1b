//! One sentence on an out-of-memory error of libtorch: what was short, and the sizes that its message states.

use fancy_regex::Regex;

use crate::memory::ResourceFault;
use crate::units::{GIB, size_text};

/// A smaller request fails for want of something other than device memory when much more is free.
const SMALL_REQUEST: u64 = 512 << 20;
/// A device with this much free memory is not full.
const MUCH_FREE: u64 = GIB;

/// A size in a message of libtorch, in lower case: its number and unit.
const SIZE: &str = r"(\d+(?:\.\d+)?) (bytes|kib|mib|gib|tib)\b";

/// Sizes of one message, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AllocationReport {
    requested: u64,
    total: Option<u64>,
    free: Option<u64>,
    /// Cap of the allocator.
    allowed: Option<u64>,
    allocated: Option<u64>,
    /// Held by the allocator, and in no tensor.
    unallocated: Option<u64>,
}

/// Cause of a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryShortage {
    /// The device is full.
    Device,
    /// The allocator has reached its cap.
    Cap,
    /// The device reports free memory that the machine cannot give: on a unified one main memory is full.
    Machine,
    /// Unused memory of the allocator would suffice, but is fragmented.
    Pieces,
}

/// Main memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    pub available: Option<u64>,
    pub page_cache: Option<u64>,
}

impl AllocationReport {
    /// Returns `None` for a message that names no request.
    fn parse(message: &str) -> Option<Self> {
        let text = message.to_lowercase();
        let size = |before: &str, after: &str| size_in(&text, before, after);
        Some(Self {
            requested: size("tried to allocate ", "")?,
            total: size("(?:capacity|total) of ", "").or_else(|| size("", " total")),
            free: size("", "(?: is)? free"),
            allowed: size("", " allowed"),
            allocated: size("", "(?: is)? (?:already allocated|allocated by pytorch)"),
            unallocated: size("", "(?: is)? reserved (?:by pytorch )?but unallocated"),
        })
    }

    /// [`MemoryShortage::Device`] unless the sizes say otherwise.
    fn shortage(&self) -> MemoryShortage {
        let unallocated = self.unallocated.unwrap_or(0);
        let held = self
            .allocated
            .map(|allocated| allocated.saturating_add(unallocated));
        match (self.allowed, held, self.free) {
            (Some(allowed), Some(held), _) if held.saturating_add(self.requested) > allowed => {
                MemoryShortage::Cap
            }
            (_, _, Some(free)) if free >= self.requested.max(MUCH_FREE) => {
                let is_small = self.requested <= SMALL_REQUEST.max(free / 4);
                if is_small && unallocated <= free / 4 {
                    MemoryShortage::Machine
                } else {
                    MemoryShortage::Device
                }
            }
            _ if unallocated >= self.requested.max(1) => MemoryShortage::Pieces,
            _ => MemoryShortage::Device,
        }
    }
}

/// The first size between two patterns, in bytes.
fn size_in(text: &str, before: &str, after: &str) -> Option<u64> {
    let pattern = Regex::new(&format!("{before}{SIZE}{after}")).ok()?;
    let found = pattern.captures(text).ok().flatten()?;
    let number: f64 = found.get(1)?.as_str().parse().ok()?;
    let power = match found.get(2)?.as_str() {
        "kib" => 1,
        "mib" => 2,
        "gib" => 3,
        "tib" => 4,
        _ => 0,
    };
    Some((number * 1024.0_f64.powi(power)) as u64)
}

/// One sentence on what was short, without its full stop, for a message that [`ResourceFault::of`] says is about memory.
pub fn explain_shortage(fault: ResourceFault, message: &str, host: HostMemory) -> String {
    let report = AllocationReport::parse(message);
    let more = report.map_or_else(String::new, |report| {
        format!(" (it needed {} more)", size_text(report.requested))
    });
    let of_host = host_text(host);
    let Some(report) = report.filter(|_| fault == ResourceFault::DeviceMemory) else {
        return match fault {
            ResourceFault::HostMemory => format!("the computer ran out of memory{more}{of_host}"),
            ResourceFault::RuntimeMemory => {
                format!("the GPU's driver ran out of memory{more}{of_host}")
            }
            ResourceFault::DeviceMemory | ResourceFault::Device => {
                format!("the device ran out of memory{more}")
            }
        };
    };
    let free = report.free.map(size_text);
    match report.shortage() {
        MemoryShortage::Machine => format!(
            "the computer's main memory is almost full{more}, though the GPU has {} free{of_host}",
            free.unwrap_or_default()
        ),
        MemoryShortage::Cap => format!(
            "the job reached its memory limit on the device, {}{more}",
            size_text(report.allowed.unwrap_or(0))
        ),
        MemoryShortage::Pieces => format!(
            "the device ran out of memory{more}: {} of it is free, but in pieces that are too small",
            size_text(report.unallocated.unwrap_or(0))
        ),
        MemoryShortage::Device => {
            let total = report
                .total
                .map(|total| format!(" of {}", size_text(total)));
            let total = total.unwrap_or_default();
            let free = free.map(|free| format!("; {free}{total} was free"));
            format!(
                "the device ran out of memory{more}{}",
                free.unwrap_or_default()
            )
        }
    }
}

/// Main memory, for the end of a sentence.
fn host_text(host: HostMemory) -> String {
    let sizes = [
        (host.available, "available"),
        (host.page_cache, "in the page cache"),
    ];
    let known = sizes.into_iter().filter_map(|(bytes, what)| {
        let bytes = size_text(bytes?);
        Some(format!("{bytes} {what}"))
    });
    let known: Vec<String> = known.collect();
    if known.is_empty() {
        String::new()
    } else {
        format!(" (main memory: {})", known.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    const FULL: &str = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.99 GiB of \
        which 512.00 MiB is free. Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the \
        allocated memory 22.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.";

    #[test]
    fn every_number_of_libtorchs_sentence_is_read() {
        let report = AllocationReport::parse(FULL).unwrap();
        assert_eq!(report.requested, 2048 * MIB);
        assert_eq!(report.total, Some((23.99 * 1024.0 * MIB as f64) as u64));
        assert_eq!(report.free, Some(512 * MIB));
        assert_eq!(report.allowed, None);
        assert_eq!(report.allocated, Some(22 * 1024 * MIB));
        assert_eq!(report.unallocated, Some(100 * MIB));
        assert_eq!(report.shortage(), MemoryShortage::Device);
        let bytes = AllocationReport::parse("you tried to allocate 4503599627370496 bytes.");
        assert_eq!(bytes.unwrap().requested, 1 << 52);
        assert_eq!(AllocationReport::parse("std::bad_alloc"), None);
    }

    #[test]
    fn small_allocation_failing_with_free_gpu_memory_is_host_memory_pressure() {
        let host = HostMemory {
            available: Some(700 * MIB),
            page_cache: Some(41 * 1024 * MIB),
        };
        for asked in ["16.00", "26.00"] {
            let text = format!(
                "HIP out of memory. Tried to allocate {asked} MiB. GPU 0 has a total capacity of 107.87 GiB of which \
                 52.30 GiB is free. Of the allocated memory 48.27 GiB is allocated by PyTorch, and 27.55 MiB is \
                 reserved by PyTorch but unallocated."
            );
            let report = AllocationReport::parse(&text).unwrap();
            assert_eq!(report.shortage(), MemoryShortage::Machine);
            let sentence = explain_shortage(ResourceFault::DeviceMemory, &text, host);
            for part in [
                "the GPU has 52.3 GiB free",
                "the computer's main memory is almost full",
                "700 MiB available",
                "41.0 GiB",
            ] {
                assert!(sentence.contains(part), "{sentence}");
            }
        }
    }

    #[test]
    fn memory_cap_and_fragmentation_are_distinguished_in_reports() {
        let capped = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 139.81 GiB of \
            which 119.00 GiB is free. 20.00 GiB allowed; Of the allocated memory 19.50 GiB is allocated by PyTorch, \
            and 100.00 MiB is reserved by PyTorch but unallocated.";
        let sentence = explain_shortage(ResourceFault::DeviceMemory, capped, HostMemory::default());
        assert_eq!(
            sentence,
            "the job reached its memory limit on the device, 20.0 GiB (it needed 1.0 GiB more)"
        );
        let pieces = FULL.replace("100.00 MiB is reserved", "3.00 GiB is reserved");
        let report = AllocationReport::parse(&pieces).unwrap();
        assert_eq!(report.shortage(), MemoryShortage::Pieces);
    }

    #[test]
    fn sizes_of_any_text_are_read_without_a_panic() {
        for text in [
            "tried to allocate 1.2.3 gib",
            "tried to allocate é9 mib",
            "tried to allocate 99999999999999999999 tib is free",
            "tried to allocate 7 gibberish",
        ] {
            let _report = AllocationReport::parse(text);
        }
        assert_eq!(size_in("12 of 3.5 kib and 1 bytes", "", " and"), Some(3584));
    }
}
