//! Memory of a device, and the budget of a job.
//!
//! The default budget depends on the class of the device.

use serde::{Deserialize, Serialize};

use super::{DeviceClass, MemoryOptions};
use crate::units::{GIB, MIB};

/// GPU memory of a process beyond its allocator: code, queues, libraries. 0.69 GiB on an H200 with CUDA 13, after steps of
/// Flux and Wan.
pub const CONTEXT_BYTES: u64 = 768 * MIB;
/// [`CONTEXT_BYTES`] before any computation: 0.5 GiB there.
pub const FIRST_CONTEXT_BYTES: u64 = 560 * MIB;
/// The engine without tensors, on the CPU.
const PROCESS_BYTES: u64 = 300 * MIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    pub class: DeviceClass,
    /// Memory of a discrete card, or the one pool of all others.
    pub total_bytes: u64,
    /// Bytes in use by other programs.
    pub used_bytes: u64,
    /// Available host memory, including caches that can be dropped.
    pub host_available_bytes: u64,
}

/// Memory that a job may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBudget {
    pub total_bytes: u64,
    /// The user's, else by class; never above the total.
    pub cap_bytes: u64,
    pub used_by_others_bytes: u64,
    /// The engine's own process: the driver's context, or the program itself on the CPU.
    pub overhead_bytes: u64,
    /// Bytes for tensors: the cap less all of the above.
    pub available_bytes: u64,
}

impl DeviceFacts {
    /// Cap if the user sets none.
    ///
    /// Discrete cards keep a sixteenth for the desktop and fragments, 1.5 GiB of 24. Where there is one pool, 8 to
    /// 12 GiB stay for the system, and at least half of a small one; on the CPU a sixteenth, at most 2 GiB.
    pub fn default_cap(&self) -> u64 {
        let total = self.total_bytes;
        let kept = match self.class {
            DeviceClass::Discrete => (total / 16).clamp(GIB, 7 * GIB / 2),
            DeviceClass::Unified => (total / 12).clamp(8 * GIB, 12 * GIB),
            DeviceClass::Cpu => (total / 16).min(2 * GIB),
        };
        total - kept.min(total / 2)
    }

    /// Budget of a job with these options.
    pub fn budget(&self, choice: &MemoryOptions) -> MemoryBudget {
        let total = self.total_bytes;
        let cap = choice
            .cap_bytes
            .map_or_else(|| self.default_cap(), |cap| cap.min(total));
        let overhead = match self.class {
            DeviceClass::Cpu => PROCESS_BYTES,
            DeviceClass::Unified | DeviceClass::Discrete => CONTEXT_BYTES,
        };
        // One pool is never counted twice: host memory in use is not available to the device.
        let used = match self.class {
            DeviceClass::Discrete => self.used_bytes,
            DeviceClass::Unified | DeviceClass::Cpu => self
                .used_bytes
                .max(total.saturating_sub(self.host_available_bytes)),
        };
        MemoryBudget {
            total_bytes: total,
            cap_bytes: cap,
            used_by_others_bytes: used,
            overhead_bytes: overhead,
            available_bytes: cap.saturating_sub(used).saturating_sub(overhead),
        }
    }

    /// Bytes a second of streamed weights: over a bus, or within the pool.
    pub fn copy_rate(&self) -> f64 {
        match self.class {
            // Half of PCIe 4.0 with 16 lanes: many boards have less.
            DeviceClass::Discrete => 13e9,
            DeviceClass::Unified => 40e9,
            DeviceClass::Cpu => 8e9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(class: DeviceClass, total: u64, used: u64, host: u64) -> DeviceFacts {
        DeviceFacts {
            class,
            total_bytes: total * GIB,
            used_bytes: used * GIB,
            host_available_bytes: host * GIB,
        }
    }

    #[test]
    fn default_cap_reserves_memory_by_device_class_and_size() {
        let kept = |class, total| {
            let facts = facts(class, total, 0, total);
            (facts.total_bytes - facts.default_cap()) as f64 / GIB as f64
        };
        assert_eq!(kept(DeviceClass::Discrete, 24), 1.5);
        assert_eq!(kept(DeviceClass::Discrete, 8), 1.0);
        assert_eq!(kept(DeviceClass::Discrete, 141), 3.5);
        assert_eq!(kept(DeviceClass::Unified, 96), 8.0);
        assert!((10.0..11.0).contains(&kept(DeviceClass::Unified, 128)));
        assert_eq!(kept(DeviceClass::Unified, 12), 6.0);
        assert_eq!(kept(DeviceClass::Cpu, 24), 1.5);
    }

    #[test]
    fn memory_used_by_others_is_counted_once_on_unified_devices() {
        let choice = MemoryOptions::default();
        let card = facts(DeviceClass::Discrete, 24, 2, 1).budget(&choice);
        let left = 24 * GIB - 3 * GIB / 2 - 2 * GIB - CONTEXT_BYTES;
        assert_eq!(card.available_bytes, left);
        // The device says 5, the host 20: both speak of the same memory.
        let pool = facts(DeviceClass::Unified, 128, 5, 108).budget(&choice);
        assert_eq!(pool.used_by_others_bytes, 20 * GIB);
        let cpu = facts(DeviceClass::Cpu, 16, 0, 10).budget(&choice);
        assert_eq!(cpu.used_by_others_bytes, 6 * GIB);
    }

    #[test]
    fn a_cap_is_never_above_the_device_nor_the_rest_below_nothing() {
        let cap = |gib: u64| MemoryOptions {
            cap_bytes: Some(gib * GIB),
            ..MemoryOptions::default()
        };
        let facts = facts(DeviceClass::Discrete, 24, 1, 64);
        assert_eq!(facts.budget(&cap(20)).cap_bytes, 20 * GIB);
        assert_eq!(facts.budget(&cap(200)).cap_bytes, 24 * GIB);
        assert_eq!(facts.budget(&cap(0)).available_bytes, 0);
    }
}
