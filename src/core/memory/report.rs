//! What an allocator's complaint says beyond "out of memory": how much was asked for, how much was there, and so whose
//! fault it is.
//!
//! Reads libtorch's sentence; measures nothing itself.

use super::Fault;
use crate::units::{GIB, size_text};

/// A request below this is small change: it fails for want of something other than the device's own memory when much
/// more than it is free.
const SMALL_REQUEST: u64 = 512 << 20;
/// A device with this much left is not full.
const MUCH_FREE: u64 = GIB;

/// The numbers of one complaint, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationReport {
    pub asked: u64,
    pub total: Option<u64>,
    pub free: Option<u64>,
    /// What the allocator may hold at most, where it is capped.
    pub allowed: Option<u64>,
    pub allocated: Option<u64>,
    /// Held by the allocator, and in no tensor.
    pub unallocated: Option<u64>,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The device is full.
    Device,
    /// The allocator has reached the most that it may hold.
    Cap,
    /// The device says that there is room: on a unified one the machine has none left to give, or what is free is not
    /// the device's to take.
    Machine,
    /// What the allocator holds unused would do, but is in pieces that are too small.
    Pieces,
}

/// What the machine itself has, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    pub available: Option<u64>,
    /// Files that the system keeps in memory.
    pub page_cache: Option<u64>,
}

impl AllocationReport {
    /// The numbers of a message of libtorch's; `None` where it names no request.
    pub fn parse(message: &str) -> Option<Self> {
        let text = message.to_lowercase();
        let sizes = sizes(&text);
        let asked = text.find("tried to allocate")?;
        let asked = sizes.iter().find(|size| size.start >= asked)?;
        let followed_by = |words: &[&str]| {
            let found = sizes.iter().find(|size| {
                let rest = &text[size.end..];
                words.iter().any(|word| rest.starts_with(word))
            });
            found.map(|size| size.bytes)
        };
        let total = sizes.iter().find(|size| {
            let before = &text[..size.start];
            before.ends_with("capacity of ") || before.ends_with("total of ")
        });
        Some(Self {
            asked: asked.bytes,
            total: total
                .map(|size| size.bytes)
                .or_else(|| followed_by(&[" total"])),
            free: followed_by(&[" is free", " free"]),
            allowed: followed_by(&[" allowed"]),
            allocated: followed_by(&[
                " is allocated by pytorch",
                " allocated by pytorch",
                " already allocated",
            ]),
            unallocated: followed_by(&[
                " is reserved by pytorch but unallocated",
                " reserved by pytorch but unallocated",
                " reserved but unallocated",
            ]),
        })
    }

    /// What was short; the device itself unless the numbers say otherwise.
    pub fn shortage(&self) -> Shortage {
        let unallocated = self.unallocated.unwrap_or(0);
        let held = self.allocated.map(|allocated| allocated + unallocated);
        match (self.allowed, held, self.free) {
            (Some(allowed), Some(held), _) if held.saturating_add(self.asked) > allowed => {
                Shortage::Cap
            }
            (_, _, Some(free)) if free >= self.asked.max(MUCH_FREE) => {
                let is_small = self.asked <= SMALL_REQUEST.max(free / 4);
                if is_small && unallocated <= free / 4 {
                    Shortage::Machine
                } else {
                    Shortage::Device
                }
            }
            _ if unallocated >= self.asked.max(1) => Shortage::Pieces,
            _ => Shortage::Device,
        }
    }
}

/// One sentence on what was short, without its full stop, for a message that [`Fault::of`] says is about memory.
pub fn explain_shortage(fault: Fault, message: &str, host: HostMemory) -> String {
    let report = AllocationReport::parse(message);
    let asked = report.map_or_else(String::new, |report| {
        format!(" (it needed {} more)", size_text(report.asked))
    });
    let shortage = report.map(|report| report.shortage());
    match (fault, shortage, report) {
        (Fault::HostMemory, ..) => format!("the computer ran out of memory{asked}{}", beside(host)),
        (Fault::RuntimeMemory, ..) => {
            format!("the GPU's driver ran out of memory{asked}{}", beside(host))
        }
        (_, Some(Shortage::Machine), Some(report)) => format!(
            "the computer's main memory is almost full{asked}, though the GPU has {} free{}",
            size_text(report.free.unwrap_or(0)),
            beside(host)
        ),
        (_, Some(Shortage::Cap), Some(report)) => format!(
            "the job reached its memory limit on the device, {}{asked}",
            size_text(report.allowed.unwrap_or(0))
        ),
        (_, Some(Shortage::Pieces), Some(report)) => format!(
            "the device ran out of memory{asked}: {} of it is free, but in pieces that are too small",
            size_text(report.unallocated.unwrap_or(0))
        ),
        (_, _, Some(report)) if report.free.is_some() => {
            let total = report
                .total
                .map(|total| format!(" of {}", size_text(total)));
            format!(
                "the device ran out of memory{asked}; {}{} was free",
                size_text(report.free.unwrap_or(0)),
                total.unwrap_or_default()
            )
        }
        _ => format!("the device ran out of memory{asked}"),
    }
}

/// The machine's own numbers, for the end of a sentence.
fn beside(host: HostMemory) -> String {
    let available = host
        .available
        .map(|bytes| format!("{} available", size_text(bytes)));
    let cache = host
        .page_cache
        .map(|bytes| format!("{} in the page cache", size_text(bytes)));
    match (available, cache) {
        (None, None) => String::new(),
        (available, cache) => {
            let parts: Vec<String> = available.into_iter().chain(cache).collect();
            format!(" (main memory: {})", parts.join(" and "))
        }
    }
}

/// A number with a unit, and where it stands.
struct Size {
    start: usize,
    end: usize,
    bytes: u64,
}

/// All sizes of a text in lower case, such as `20.00 mib`.
fn sizes(text: &str) -> Vec<Size> {
    const UNITS: [(&str, f64); 5] = [
        (" bytes", 1.0),
        (" kib", 1024.0),
        (" mib", 1_048_576.0),
        (" gib", 1_073_741_824.0),
        (" tib", 1_099_511_627_776.0),
    ];
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(|c: char| c.is_ascii_digit()) {
        let start = at + start;
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let len = text[start..]
            .find(|c| !is_number(c))
            .unwrap_or(text.len() - start);
        at = start + len;
        let number: Option<f64> = text[start..at].parse().ok();
        let unit = UNITS.iter().find(|(unit, _)| text[at..].starts_with(unit));
        if let (Some(number), Some((unit, scale))) = (number, unit) {
            at += unit.len();
            found.push(Size {
                start,
                end: at,
                bytes: (number * scale) as u64,
            });
        }
    }
    found
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
        assert_eq!(report.asked, 2048 * MIB);
        assert_eq!(report.total, Some((23.99 * 1024.0 * MIB as f64) as u64));
        assert_eq!(report.free, Some(512 * MIB));
        assert_eq!(report.allowed, None);
        assert_eq!(report.allocated, Some(22 * 1024 * MIB));
        assert_eq!(report.unallocated, Some(100 * MIB));
        assert_eq!(report.shortage(), Shortage::Device);
        let bytes = AllocationReport::parse("you tried to allocate 4503599627370496 bytes.");
        assert_eq!(bytes.unwrap().asked, 1 << 52);
        assert_eq!(AllocationReport::parse("std::bad_alloc"), None);
    }

    #[test]
    fn a_small_request_that_fails_beside_much_free_memory_is_the_machines_pressure() {
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
            assert_eq!(report.shortage(), Shortage::Machine);
            let sentence = explain_shortage(Fault::DeviceMemory, &text, host);
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
    fn a_cap_and_pieces_have_sentences_of_their_own() {
        let capped = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 139.81 GiB of \
            which 119.00 GiB is free. 20.00 GiB allowed; Of the allocated memory 19.50 GiB is allocated by PyTorch, \
            and 100.00 MiB is reserved by PyTorch but unallocated.";
        let sentence = explain_shortage(Fault::DeviceMemory, capped, HostMemory::default());
        assert_eq!(
            sentence,
            "the job reached its memory limit on the device, 20.0 GiB (it needed 1.0 GiB more)"
        );
        let pieces = FULL.replace("100.00 MiB is reserved", "3.00 GiB is reserved");
        let report = AllocationReport::parse(&pieces).unwrap();
        assert_eq!(report.shortage(), Shortage::Pieces);
    }

    #[test]
    fn sizes_of_any_text_are_found_without_a_slip() {
        for text in [
            "",
            "1",
            "1.2.3 gib",
            "é9 mib",
            "99999999999999999999 tib",
            "7 gibberish",
        ] {
            let _found = sizes(text);
        }
        assert_eq!(sizes("in 12 of 3.5 kib and 1 bytes").len(), 2);
    }
}
