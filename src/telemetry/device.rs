//! Device in use, its class and its memory, for the plan.
//!
//! A chip is identified by its PCI address and its compute target, never by a display name.

use std::path::Path;

use safelight_core::job::DeviceChoice;
use safelight_core::memory::{DeviceClass, DeviceFacts};

use super::SystemRoots;
use super::amdgpu::{self, AmdCard, pci_place};
use super::budget::budget;
use super::host::{self, HostMemoryReading};
use super::nvidia::{self, NvidiaCard, NvidiaReport};

/// Known facts of the device in question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceQuery {
    /// `cpu`, `cuda` or `rocm`: which GPU half the chosen libtorch has.
    pub kind: &'static str,
    pub device: DeviceChoice,
    /// The engine's word on the device's place on the bus; empty before an engine ran.
    pub pci: String,
    /// The engine's word on the memory that its driver shows; 0 before an engine ran.
    pub driver_total_bytes: u64,
}

impl DeviceQuery {
    /// Returns whether it is a GPU: a libtorch without a GPU half has none.
    pub fn is_gpu(&self) -> bool {
        matches!(self.kind, "rocm" | "cuda") && self.device != DeviceChoice::Cpu
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryDevice {
    /// Such as `AMD gfx1151` or `NVIDIA H200`.
    pub name: String,
    pub facts: DeviceFacts,
    /// Memory chips: those of the card, or of the whole machine where the pool is one.
    pub physical_bytes: u64,
}

/// The class of the device that would compute.
pub fn device_class(roots: &SystemRoots, query: &DeviceQuery) -> DeviceClass {
    device(roots, query).facts.class
}

/// The numbers of the device that would compute. Asks drivers, so it may take a moment: not for a thread that draws.
pub fn device_facts(roots: &SystemRoots, query: &DeviceQuery) -> DeviceFacts {
    device(roots, query).facts
}

/// Like `device_class`, with its name.
pub fn device(roots: &SystemRoots, query: &DeviceQuery) -> TelemetryDevice {
    let host = host::memory(&roots.proc).unwrap_or_default();
    if !query.is_gpu() {
        return of_host(host, DeviceClass::Cpu, "CPU");
    }
    if query.kind == "rocm" {
        let cards = amdgpu::cards(&roots.sysfs);
        return chosen_amd(&cards, query).map_or_else(
            || of_driver_alone(host, query),
            |card| of_amd(card, host, query),
        );
    }
    let cards = nvidia::report().unwrap_or_default().cards;
    chosen_nvidia(&cards, query).map_or_else(
        || of_driver_alone(host, query),
        |card| of_nvidia(card, host),
    )
}

/// The host's memory as a device's.
fn of_host(host: HostMemoryReading, class: DeviceClass, name: &str) -> TelemetryDevice {
    TelemetryDevice {
        name: name.to_owned(),
        facts: DeviceFacts {
            class,
            total_bytes: host.total_bytes,
            used_bytes: host.total_bytes.saturating_sub(host.available_bytes),
            host_available_bytes: host.available_bytes,
        },
        physical_bytes: host.total_bytes,
    }
}

fn of_amd(card: &AmdCard, host: HostMemoryReading, query: &DeviceQuery) -> TelemetryDevice {
    let memory = card.memory().unwrap_or_default();
    let driver = (query.driver_total_bytes > 0).then_some(query.driver_total_bytes);
    let budget = budget(card.class, memory, driver, Some(host));
    let vram = memory.vram_total_bytes.unwrap_or(0);
    let used = memory.used_bytes(card.class).unwrap_or(0);
    // The part of a shared pool that only the GPU sees is not in what the host counts.
    let (physical, carved_out) = if card.class == DeviceClass::Unified {
        let free = vram.saturating_sub(memory.vram_used_bytes.unwrap_or(0));
        (host.total_bytes.saturating_add(vram), free)
    } else {
        (vram, 0)
    };
    TelemetryDevice {
        name: card.name(),
        facts: DeviceFacts {
            class: card.class,
            total_bytes: budget.total_bytes,
            used_bytes: used.min(budget.total_bytes),
            host_available_bytes: host.available_bytes.saturating_add(carved_out),
        },
        physical_bytes: physical,
    }
}

/// A card without separate memory shares the machine's.
fn of_nvidia(card: &NvidiaCard, host: HostMemoryReading) -> TelemetryDevice {
    let Some(memory) = card.memory else {
        return of_host(host, DeviceClass::Unified, &card.name);
    };
    TelemetryDevice {
        name: card.name.clone(),
        facts: DeviceFacts {
            class: DeviceClass::Discrete,
            total_bytes: memory.total_bytes,
            used_bytes: memory.used_bytes,
            host_available_bytes: host.available_bytes,
        },
        physical_bytes: memory.total_bytes,
    }
}

/// If no table lists the card, as in some containers: the engine driver's values.
fn of_driver_alone(host: HostMemoryReading, query: &DeviceQuery) -> TelemetryDevice {
    if query.driver_total_bytes == 0 && query.device == DeviceChoice::Auto {
        // No card is known: the engine will use the CPU.
        return of_host(host, DeviceClass::Cpu, "CPU");
    }
    TelemetryDevice {
        name: "GPU".to_owned(),
        facts: DeviceFacts {
            class: DeviceClass::Discrete,
            total_bytes: query.driver_total_bytes,
            used_bytes: 0,
            host_available_bytes: host.available_bytes,
        },
        physical_bytes: query.driver_total_bytes,
    }
}

/// The card at the place that the engine named; before that the one with the number that was chosen; automatically
/// the one with the most vector units.
pub fn chosen_amd<'a>(cards: &'a [AmdCard], query: &DeviceQuery) -> Option<&'a AmdCard> {
    if let Some(place) = pci_place(&query.pci) {
        let mut placed = cards.iter();
        if let Some(card) = placed.find(|card| pci_place(&card.pci) == Some(place)) {
            return Some(card);
        }
    }
    let numbered = as_rocm_counts(cards);
    match query.device {
        DeviceChoice::Cuda(index) => numbered.get(index).copied(),
        _ => strongest(&numbered),
    }
    .or_else(|| cards.first())
}

fn chosen_nvidia<'a>(cards: &'a [NvidiaCard], query: &DeviceQuery) -> Option<&'a NvidiaCard> {
    let placed = pci_place(&query.pci);
    let mut at_place = cards.iter();
    if let Some(card) = at_place.find(|card| placed.is_some() && pci_place(&card.pci) == placed) {
        return Some(card);
    }
    match query.device {
        DeviceChoice::Cuda(index) => cards.get(index),
        _ => cards.first(),
    }
}

/// The cards that the compute driver has, in the order in which ROCm numbers them.
fn as_rocm_counts(cards: &[AmdCard]) -> Vec<&AmdCard> {
    let mut numbered: Vec<_> = cards
        .iter()
        .filter_map(|card| Some((card.compute.as_ref()?.node, card)))
        .collect();
    numbered.sort_by_key(|(node, _)| *node);
    numbered.into_iter().map(|(_, card)| card).collect()
}

fn num_simds(card: &AmdCard) -> u64 {
    card.compute.as_ref().map_or(0, |node| node.num_simds)
}

/// The first of those with the most vector units; if that is unknown, one with separate memory.
fn strongest<'a>(cards: &[&'a AmdCard]) -> Option<&'a AmdCard> {
    let strength = |card: &AmdCard| (num_simds(card), card.class == DeviceClass::Discrete);
    let mut strongest: Option<&AmdCard> = None;
    for &card in cards {
        if strongest.is_none_or(|found| strength(card) > strength(found)) {
            strongest = Some(card);
        }
    }
    strongest
}

/// Returns whether it is a processor's small GPU next to a discrete card: it drives the display, and libtorch often has
/// no code for it.
pub fn is_display_only(card: &AmdCard, cards: &[AmdCard]) -> bool {
    card.class == DeviceClass::Unified
        && cards.iter().any(|other| {
            other.class == DeviceClass::Discrete && num_simds(other) >= num_simds(card) * 2
        })
}

/// The GPUs of a runtime of this kind that can run jobs, in its own order.
pub fn gpus(
    roots: &SystemRoots,
    kind: &str,
    nvidia: impl FnOnce() -> Result<NvidiaReport, String>,
) -> Vec<DeviceChoice> {
    let numbers: Vec<usize> = match kind {
        "rocm" => computing(&amdgpu::cards(&roots.sysfs)).collect(),
        "cuda" => (0..nvidia().unwrap_or_default().cards.len()).collect(),
        _ => Vec::new(),
    };
    numbers.into_iter().map(DeviceChoice::Cuda).collect()
}

/// ROCm's numbers of the cards that do not only drive the display.
fn computing(cards: &[AmdCard]) -> impl Iterator<Item = usize> {
    let numbered = as_rocm_counts(cards).into_iter().enumerate();
    let computing = numbered.filter(|(_, card)| !is_display_only(card, cards));
    computing.map(|(number, _)| number)
}

/// The numbers of the GPUs that ROCm should show, the strongest first, when its own order would give jobs another
/// one; for `ROCR_VISIBLE_DEVICES`.
pub fn rocm_order(sysfs: &Path) -> Option<String> {
    let cards = amdgpu::cards(sysfs);
    let numbered = as_rocm_counts(&cards);
    let best = strongest(&numbered)?;
    let mut shown: Vec<usize> = computing(&cards).collect();
    shown.sort_by_key(|&index| numbered[index].pci != best.pci);
    let is_as_it_was = shown.len() == numbered.len() && shown.first() == Some(&0);
    let names: Vec<String> = shown.iter().map(ToString::to_string).collect();
    (!is_as_it_was && !names.is_empty()).then(|| names.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::fake_tree::{lay_card, lay_meminfo, lay_node};

    const GIB: u64 = 1 << 30;

    fn query(device: DeviceChoice) -> DeviceQuery {
        DeviceQuery {
            kind: "rocm",
            device,
            ..DeviceQuery::default()
        }
    }

    /// A card on this bus with this code; `memory`: all and used of its own, all and used of the host's.
    fn lay(roots: &SystemRoots, number: u32, bus: u64, node: &str, memory: [u64; 4]) {
        let names = ["vram_total", "vram_used", "gtt_total", "gtt_used"];
        let files: Vec<_> = names.into_iter().zip(memory).collect();
        let (card, pci) = (format!("card{number}"), format!("0000:{bus:02x}:00.0"));
        lay_card(&roots.sysfs, &card, "0x1002", &pci, &files);
        let text = format!("location_id {}\n{node}\n", bus << 8);
        lay_node(&roots.sysfs, number + 1, &text);
    }

    /// A desktop whose processor draws the screen, listed before the card that should compute.
    fn desktop() -> (tempfile::TempDir, SystemRoots) {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay_meminfo(&roots.proc, 64, 40);
        let small = "gfx_target_version 100306\nsimd_count 4";
        let memory = [GIB / 2, GIB / 4, 31 * GIB, GIB];
        lay(&roots, 0, 0x7a, small, memory);
        let large = "gfx_target_version 110000\nsimd_count 192";
        let memory = [24 * GIB, 3 * GIB, 31 * GIB, GIB];
        lay(&roots, 1, 0x03, large, memory);
        (root, roots)
    }

    #[test]
    fn the_card_computes_and_not_the_processors_own_gpu_that_draws_the_desktop() {
        let (_root, roots) = desktop();
        let TelemetryDevice { name, facts, .. } = device(&roots, &query(DeviceChoice::Auto));
        assert_eq!(name, "AMD gfx1100");
        let expected = DeviceFacts {
            class: DeviceClass::Discrete,
            total_bytes: 24 * GIB,
            used_bytes: 3 * GIB,
            host_available_bytes: 40 * GIB,
        };
        assert_eq!(facts, expected);
        assert_eq!(rocm_order(&roots.sysfs).as_deref(), Some("1"));
    }

    #[test]
    fn device_number_and_the_engines_pci_address_override_auto_selection() {
        let (_root, roots) = desktop();
        let first = device(&roots, &query(DeviceChoice::Cuda(0)));
        assert_eq!(first.name, "AMD gfx1036");
        let placed = DeviceQuery {
            pci: "0000:03:00.0".to_owned(),
            ..query(DeviceChoice::Cuda(0))
        };
        assert_eq!(device(&roots, &placed).name, "AMD gfx1100");
        assert_eq!(device_class(&roots, &placed), DeviceClass::Discrete);
    }

    #[test]
    fn unified_memory_is_one_pool_and_adds_its_carve_out_to_host_memory() {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay_meminfo(&roots.proc, 31, 20);
        let halo = "gfx_target_version 110501\nsimd_count 80";
        let memory = [96 * GIB, 6 * GIB, 15 * GIB, GIB];
        lay(&roots, 0, 0xc4, halo, memory);
        let found = device(&roots, &query(DeviceChoice::Auto));
        assert_eq!(found.physical_bytes, 127 * GIB);
        let expected = DeviceFacts {
            class: DeviceClass::Unified,
            total_bytes: 111 * GIB,
            used_bytes: 7 * GIB,
            host_available_bytes: (20 + 90) * GIB,
        };
        assert_eq!(found.facts, expected);
        let message = DeviceQuery {
            driver_total_bytes: 15 * GIB,
            ..query(DeviceChoice::Auto)
        };
        assert_eq!(device_facts(&roots, &message).total_bytes, 15 * GIB);
        assert_eq!(rocm_order(&roots.sysfs), None);
    }

    #[test]
    fn without_a_gpu_half_or_a_card_the_host_or_the_drivers_word_is_all() {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay_meminfo(&roots.proc, 16, 8);
        let cpu = DeviceQuery {
            kind: "cpu",
            ..query(DeviceChoice::Auto)
        };
        let facts = device_facts(&roots, &cpu);
        assert_eq!(facts.class, DeviceClass::Cpu);
        assert_eq!(facts.host_available_bytes, 8 * GIB);
        assert_eq!(facts.used_bytes, 8 * GIB);
        let hidden = DeviceQuery {
            driver_total_bytes: 12 * GIB,
            ..query(DeviceChoice::Auto)
        };
        let facts = device_facts(&roots, &hidden);
        assert_eq!(facts.class, DeviceClass::Discrete);
        assert_eq!(facts.total_bytes, 12 * GIB);
    }

    #[test]
    fn two_real_cards_are_shown_with_the_stronger_first() {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        let weak = "gfx_target_version 110002\nsimd_count 64";
        lay(&roots, 0, 0x03, weak, [8 * GIB, 0, 0, 0]);
        let strong = "gfx_target_version 110000\nsimd_count 192";
        lay(&roots, 1, 0x43, strong, [24 * GIB, 0, 0, 0]);
        assert_eq!(rocm_order(&roots.sysfs).as_deref(), Some("1,0"));
    }
}
