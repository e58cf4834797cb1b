//! Memory budget of a GPU from sources that contradict each other.
//!
//! On AMD's APUs the driver, its tables and the kernel are each known to be wrong in a different way (15.5 GiB, half of
//! the memory, or more than there is). The lowest value is used, and contradictions are reported.

use safelight_core::memory::DeviceClass;
use safelight_core::units::{GIB, size_text};

use super::amdgpu::AmdMemory;
use super::host::HostMemoryReading;

/// Pages of the `ttm` module per GiB.
const PAGES_PER_GIB: u64 = 262_144;
/// Memory left to the system when nearly all of a shared pool is given to the GPU.
const SYSTEM_SHARE_GIB: u64 = 8;
/// The smallest carve-out that firmware offers.
const SMALL_CARVE_OUT: u64 = GIB;

/// One source's word on how much the GPU can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSource {
    pub name: &'static str,
    pub bytes: u64,
}

/// The amount that is safe to count on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceBudget {
    /// The least of the sources; 0 when there is none.
    pub total_bytes: u64,
    pub sources: Vec<BudgetSource>,
    /// Contradictions, one part of a sentence each.
    pub conflicts: Vec<String>,
    pub growth: Option<PoolGrowth>,
}

/// Enlargement of the GPU's share of a shared pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolGrowth {
    /// Memory of the GPU afterwards.
    pub gib: u64,
    pub pages_limit: u64,
    /// True if the carve-out prevents it and must be changed in the firmware.
    pub has_large_carve_out: bool,
}

/// `driver_total_bytes`: HIP's value, if it was queried.
pub fn budget(
    class: DeviceClass,
    memory: AmdMemory,
    driver_total_bytes: Option<u64>,
    host: Option<HostMemoryReading>,
) -> DeviceBudget {
    let host = host.filter(|host| host.total_bytes > 0);
    let tables = memory.total_bytes(class);
    let carve_out = memory.vram_total_bytes.unwrap_or(0);
    // The carve-out is not in what the kernel counts as memory.
    let physical = host
        .filter(|_| class == DeviceClass::Unified)
        .map(|host| host.total_bytes.saturating_add(carve_out));
    let named = [
        ("the driver", driver_total_bytes.filter(|&bytes| bytes > 0)),
        (
            if class == DeviceClass::Unified {
                "VRAM and GTT"
            } else {
                "VRAM"
            },
            tables,
        ),
        ("the machine's memory", physical),
    ];
    let sources: Vec<BudgetSource> = named
        .into_iter()
        .filter_map(|(name, bytes)| {
            Some(BudgetSource {
                name,
                bytes: bytes?,
            })
        })
        .collect();
    let mut conflicts = Vec::new();
    if let (Some(driver), Some(tables)) = (driver_total_bytes.filter(|&it| it > 0), tables)
        && differ(driver, tables)
    {
        conflicts.push(format!(
            "the driver says {}, its tables {}",
            size_text(driver),
            tables_text(class, memory)
        ));
    }
    if let (Some(tables), Some(physical)) = (tables, physical)
        && tables > physical
    {
        conflicts.push(format!(
            "{} are more than the {} that there are",
            tables_text(class, memory),
            size_text(physical)
        ));
    }
    DeviceBudget {
        total_bytes: sources.iter().map(|source| source.bytes).min().unwrap_or(0),
        sources,
        conflicts,
        growth: host.and_then(|host| growth(class, memory, host)),
    }
}

fn growth(class: DeviceClass, memory: AmdMemory, host: HostMemoryReading) -> Option<PoolGrowth> {
    if class != DeviceClass::Unified {
        return None;
    }
    let carve_out = memory.vram_total_bytes.unwrap_or(0);
    let has_large_carve_out = carve_out > SMALL_CARVE_OUT.saturating_mul(2);
    let pool = if has_large_carve_out {
        host.total_bytes.saturating_add(carve_out)
    } else {
        host.total_bytes
    };
    let target = (pool / GIB).saturating_sub(SYSTEM_SHARE_GIB);
    let now = memory
        .total_bytes(class)?
        .min(host.total_bytes.saturating_add(carve_out));
    // A pool within a GiB of the target is good enough.
    (target > now / GIB + 1).then_some(PoolGrowth {
        gib: target,
        pages_limit: target * PAGES_PER_GIB,
        has_large_carve_out,
    })
}

/// More than a twentieth apart.
fn differ(a: u64, b: u64) -> bool {
    a.abs_diff(b) > a.max(b) / 20
}

/// The two kinds of memory are always listed separately: their sum is more than a discrete card has, and VRAM alone is
/// a small part of what an APU can use.
fn tables_text(class: DeviceClass, memory: AmdMemory) -> String {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size_text);
    let vram = size(memory.vram_total_bytes);
    if class == DeviceClass::Unified {
        format!("VRAM {vram} and GTT {}", size(memory.gtt_total_bytes))
    } else {
        format!("VRAM {vram}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In MiB: the carve-out, the GTT, what the driver says (0: not asked), what the kernel counts as memory.
    fn halo(vram: u64, gtt: u64, driver: u64, host: u64) -> DeviceBudget {
        let memory = AmdMemory {
            vram_total_bytes: Some(vram << 20),
            vram_used_bytes: Some(0),
            gtt_total_bytes: Some(gtt << 20),
            gtt_used_bytes: Some(0),
        };
        let host = HostMemoryReading {
            total_bytes: host << 20,
            available_bytes: host << 19,
            ..HostMemoryReading::default()
        };
        let driver = (driver > 0).then_some(driver << 20);
        budget(DeviceClass::Unified, memory, driver, Some(host))
    }

    #[test]
    fn driver_limit_of_15_5_gib_with_a_large_carve_out_is_used_and_explained() {
        let budget = halo(96 << 10, 15_872, 15_872, 31 << 10);
        assert_eq!(budget.total_bytes, 15_872 << 20);
        assert_eq!(budget.conflicts.len(), 1, "{budget:?}");
        assert!(budget.conflicts[0].contains("the driver says"));
        let growth = budget.growth.unwrap();
        assert!(growth.has_large_carve_out);
        assert_eq!((growth.gib, growth.pages_limit), (119, 119 * 262_144));
    }

    #[test]
    fn half_of_the_memory_is_no_conflict_and_a_limit_gives_the_rest() {
        let budget = halo(512, 63_700, 63_700, 127_400);
        assert_eq!(budget.total_bytes, 63_700 << 20);
        assert_eq!(budget.conflicts, [""; 0]);
        let growth = budget.growth.unwrap();
        assert!(!growth.has_large_carve_out);
        assert_eq!(growth.pages_limit, growth.gib * 262_144);
        assert_eq!(growth.gib, 116);
    }

    #[test]
    fn a_sum_beyond_the_chips_is_cut_to_them() {
        let budget = halo(96 << 10, 120 << 10, 216 << 10, 31 << 10);
        assert_eq!(budget.total_bytes, 127 << 30);
        assert!(budget.conflicts[0].contains("more than the"), "{budget:?}");
    }

    #[test]
    fn carve_out_of_96_gib_and_gtt_are_each_counted_once() {
        let budget = halo(96 << 10, 15_872, 0, 31 << 10);
        assert_eq!(budget.total_bytes, (98_304 + 15_872) << 20);
        assert_eq!(budget.conflicts, [""; 0]);
    }

    #[test]
    fn raised_gtt_limit_with_the_smallest_carve_out_needs_no_growth() {
        let budget = halo(512, 120 << 10, 0, 127 << 10);
        assert_eq!(budget.total_bytes, (120 << 30) + (512 << 20));
        assert_eq!((budget.conflicts.len(), budget.growth), (0, None));
    }

    #[test]
    fn discrete_gpu_counts_only_its_own_memory() {
        let memory = AmdMemory {
            vram_total_bytes: Some(24 * GIB),
            gtt_total_bytes: Some(32 * GIB),
            ..AmdMemory::default()
        };
        let host = HostMemoryReading {
            total_bytes: 8 * GIB,
            available_bytes: GIB,
            ..HostMemoryReading::default()
        };
        let budget = budget(DeviceClass::Discrete, memory, Some(24 * GIB), Some(host));
        assert_eq!((budget.total_bytes, budget.growth), (24 * GIB, None));
        assert_eq!(budget.conflicts, [""; 0]);
    }

    #[test]
    fn without_any_source_there_is_nothing_to_count_on() {
        let nothing = budget(DeviceClass::Unified, AmdMemory::default(), Some(0), None);
        assert_eq!((nothing.total_bytes, nothing.sources.len()), (0, 0));
    }
}
