//! AMD GPUs as the amdgpu driver shows them under `/sys`, with no ROCm installed.
//!
//! The tree's root is a parameter, so tests lay a false one. Numbers that cannot be are taken for unknown here;
//! what the true ones amount to is said in `budget`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::memory::DeviceClass;
use crate::units::GIB;

const AMD: &str = "0x1002";
/// No machine of today has as much memory: what is more is a driver's mistake.
pub const MOST_BYTES: u64 = 1 << 45;

/// Chips that share their memory with the processor, by compute target.
const SHARING: [&str; 13] = [
    "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1037", "gfx1103",
    "gfx1150", "gfx1151", "gfx1152", "gfx1153",
];
/// Chips of discrete cards. Chips in neither list are classified by other signs.
const ON_CARDS: [&str; 16] = [
    "gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1011", "gfx1012", "gfx1030",
    "gfx1031", "gfx1032", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmdCard {
    /// `card0`.
    pub card: String,
    /// `0000:c4:00.0`; empty when the driver does not say.
    pub pci: String,
    /// The number that AMD gave this chip.
    pub device_id: u32,
    /// The compute driver's view; `None` when it does not drive this card.
    pub compute: Option<ComputeNode>,
    /// `Unified` or `Discrete`.
    pub class: DeviceClass,
    pub folder: PathBuf,
}

/// A card as the compute driver (KFD) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeNode {
    /// The node's number, by which ROCm counts its GPUs.
    pub node: u32,
    pub gfx: String,
    /// Vector units: two a compute unit on RDNA.
    pub num_simds: u64,
    /// Processor cores in the same node: old APUs are one node with their processor.
    pub num_cores: u64,
    /// True if the kernel reports the sizes of saved waves, which libraries for gfx1151 need.
    pub has_wave_sizes: bool,
}

/// Bytes, each as the driver says it; `None` where it says nothing or nonsense. The graphics translation table
/// (GTT) is main memory that the GPU may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AmdMemory {
    pub vram_total_bytes: Option<u64>,
    pub vram_used_bytes: Option<u64>,
    pub gtt_total_bytes: Option<u64>,
    pub gtt_used_bytes: Option<u64>,
}

impl AmdMemory {
    /// Memory that models can use. On a discrete card the GTT is host memory over a slow bus.
    fn sum(class: DeviceClass, vram: Option<u64>, gtt: Option<u64>) -> Option<u64> {
        match class {
            DeviceClass::Unified if vram.is_some() || gtt.is_some() => {
                Some(vram.unwrap_or(0).saturating_add(gtt.unwrap_or(0)))
            }
            DeviceClass::Unified => None,
            _ => vram,
        }
    }

    /// Memory available to a model, as far as the tables report it.
    pub fn total_bytes(self, class: DeviceClass) -> Option<u64> {
        Self::sum(class, self.vram_total_bytes, self.gtt_total_bytes)
    }

    /// Memory used by all programs.
    pub fn used_bytes(self, class: DeviceClass) -> Option<u64> {
        Self::sum(class, self.vram_used_bytes, self.gtt_used_bytes)
    }
}

impl AmdCard {
    /// Reads the driver's counters; `None` where it has none.
    pub fn memory(&self) -> Option<AmdMemory> {
        let number = |name: &str| {
            let bytes = read_number(&self.folder.join(name));
            bytes.filter(|&bytes: &u64| bytes < MOST_BYTES)
        };
        let memory = AmdMemory {
            vram_total_bytes: number("mem_info_vram_total").filter(|&bytes| bytes > 0),
            vram_used_bytes: number("mem_info_vram_used"),
            gtt_total_bytes: number("mem_info_gtt_total").filter(|&bytes| bytes > 0),
            gtt_used_bytes: number("mem_info_gtt_used"),
        };
        memory.total_bytes(DeviceClass::Unified)?;
        Some(memory)
    }

    /// `AMD gfx1151`, or the number of a chip that the compute driver does not know.
    pub fn name(&self) -> String {
        match &self.compute {
            Some(node) => format!("AMD {}", node.gfx),
            None => format!("AMD device {:04x}", self.device_id),
        }
    }

    pub fn gfx(&self) -> Option<&str> {
        Some(self.compute.as_ref()?.gfx.as_str())
    }
}

/// By the chip, else by the driver's own table of sensors, else by the sizes of the two kinds of memory. Never by a
/// name for people: those differ from driver to driver.
fn class_of(folder: &Path, compute: Option<&ComputeNode>) -> DeviceClass {
    if let Some(node) = compute {
        if node.num_cores > 0 || SHARING.contains(&node.gfx.as_str()) {
            return DeviceClass::Unified;
        }
        if ON_CARDS.contains(&node.gfx.as_str()) {
            return DeviceClass::Discrete;
        }
    }
    // The driver's tables of revision 1 are those of cards, 2 and 3 those of APUs.
    match fs::read(folder.join("gpu_metrics")).ok().as_deref() {
        Some([_, _, 2 | 3, ..]) => return DeviceClass::Unified,
        Some([_, _, 1, ..]) => return DeviceClass::Discrete,
        _ => {}
    }
    let bytes = |name: &str| read_number(&folder.join(name)).unwrap_or(0_u64);
    let (vram, gtt) = (bytes("mem_info_vram_total"), bytes("mem_info_gtt_total"));
    let is_small_carve_out = gtt >= vram.saturating_mul(4) || (vram <= GIB && gtt > vram);
    if gtt > 0 && is_small_carve_out {
        DeviceClass::Unified
    } else {
        DeviceClass::Discrete
    }
}

pub fn cards(sysfs: &Path) -> Vec<AmdCard> {
    let nodes = compute_nodes(sysfs);
    let entries = fs::read_dir(sysfs.join("class/drm"))
        .into_iter()
        .flatten()
        .flatten();
    let mut cards: Vec<(u32, AmdCard)> = entries
        .filter_map(|entry| {
            let card = entry.file_name().into_string().ok()?;
            // `card0` is a card, `card0-HDMI-A-1` one of its plugs.
            let number = card.strip_prefix("card")?.parse().ok()?;
            let folder = entry.path().join("device");
            if read_text(&folder.join("vendor"))? != AMD {
                return None;
            }
            let device_id = read_text(&folder.join("device"))?;
            let uevent = fs::read_to_string(folder.join("uevent")).unwrap_or_default();
            let pci = uevent
                .lines()
                .find_map(|line| line.strip_prefix("PCI_SLOT_NAME="))
                .unwrap_or_default()
                .to_owned();
            let compute = pci_place(&pci).and_then(|place| nodes.get(&place).cloned());
            Some((
                number,
                AmdCard {
                    card,
                    class: class_of(&folder, compute.as_ref()),
                    compute,
                    pci,
                    device_id: u32::from_str_radix(device_id.trim_start_matches("0x"), 16).ok()?,
                    folder,
                },
            ))
        })
        .collect();
    cards.sort_by_key(|(number, _)| *number);
    cards.into_iter().map(|(_, card)| card).collect()
}

/// The compute targets of all cards, whichever computes.
pub fn targets(sysfs: &Path) -> Vec<String> {
    let cards = cards(sysfs).into_iter();
    cards.filter_map(|card| Some(card.compute?.gfx)).collect()
}

/// The card at a place on the bus; where the place is not known, the only one that computes.
pub fn card_of(sysfs: &Path, pci: &str) -> Option<AmdCard> {
    let mut cards = cards(sysfs);
    if let Some(place) = pci_place(pci) {
        return cards
            .into_iter()
            .find(|card| pci_place(&card.pci) == Some(place));
    }
    cards.retain(|card| card.compute.is_some());
    cards.pop().filter(|_| cards.is_empty())
}

/// Limit of main memory pages for the GPU by the `ttm` module, if there is one.
pub fn ttm_pages_limit(sysfs: &Path) -> Option<u64> {
    read_number(&sysfs.join("module/ttm/parameters/pages_limit"))
}

/// A place on the PCI bus as the compute driver writes it: domain, and bus, device and function in one
/// number.
pub type PciLocation = (u64, u64);

/// `0000:c4:00.0` → its place.
pub fn pci_place(pci: &str) -> Option<PciLocation> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (rest, function) = pci.split_once('.')?;
    let mut parts = rest.split(':');
    let domain = hex(parts.next()?)?;
    let bus = hex(parts.next()?)?;
    let device = hex(parts.next()?)?;
    Some((domain, bus << 8 | device << 3 | hex(function)?))
}

fn compute_nodes(sysfs: &Path) -> BTreeMap<PciLocation, ComputeNode> {
    let nodes = sysfs.join("class/kfd/kfd/topology/nodes");
    let entries = fs::read_dir(nodes).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path().join("properties")).ok()?;
            let property = |name: &str| {
                let mut lines = text.lines().filter_map(|line| line.split_once(' '));
                let (_, value) = lines.find(|(key, _)| *key == name)?;
                value.trim().parse::<u64>().ok()
            };
            // Processors are nodes too, and have no target.
            let target = property("gfx_target_version").filter(|&target| target > 0)?;
            let node = ComputeNode {
                node: entry.file_name().to_str()?.parse().ok()?,
                gfx: gfx_name(target),
                num_simds: property("simd_count").unwrap_or(0),
                num_cores: property("cpu_cores_count").unwrap_or(0),
                has_wave_sizes: property("cwsr_size").is_some()
                    && property("ctl_stack_size").is_some(),
            };
            Some((
                (property("domain").unwrap_or(0), property("location_id")?),
                node,
            ))
        })
        .collect()
}

/// 110501 → `gfx1151`: two decimal digits each of major, minor and stepping, the last two as hex.
fn gfx_name(target: u64) -> String {
    let (major, minor, stepping) = (target / 10_000, target / 100 % 100, target % 100);
    format!("gfx{major}{minor:x}{stepping:x}")
}

fn read_text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn read_number<T: FromStr>(path: &Path) -> Option<T> {
    read_text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fake_tree::{lay_card, lay_node};

    const STRIX_HALO: &str = "gfx_target_version 110501\nlocation_id 50176\ndomain 0\nsimd_count 80\ncwsr_size 1\nctl_stack_size 2\n";

    #[test]
    fn apu_memory_includes_the_shared_pool_and_its_gfx_target_is_read() {
        let sysfs = tempfile::tempdir().unwrap();
        let memory = [
            ("vram_total", 512 << 20),
            ("vram_used", 100),
            ("gtt_total", 64 << 30),
            ("gtt_used", 1000),
        ];
        lay_card(sysfs.path(), "card1", AMD, "0000:c4:00.0", &memory);
        lay_node(
            sysfs.path(),
            0,
            "cpu_cores_count 32\ngfx_target_version 0\n",
        );
        lay_node(sysfs.path(), 1, STRIX_HALO);
        let cards = cards(sysfs.path());
        assert_eq!(cards.len(), 1);
        let found = (cards[0].card.as_str(), cards[0].device_id);
        assert_eq!(found, ("card1", 0x1586));
        let compute = cards[0].compute.as_ref().unwrap();
        let found = (compute.gfx.as_str(), compute.has_wave_sizes);
        assert_eq!(found, ("gfx1151", true));
        assert_eq!((compute.node, compute.num_simds), (1, 80));
        assert_eq!(cards[0].class, DeviceClass::Unified);
        let memory = cards[0].memory().unwrap();
        assert_eq!(
            (
                memory.total_bytes(DeviceClass::Unified),
                memory.used_bytes(DeviceClass::Unified)
            ),
            (Some((64 << 30) + (512 << 20)), Some(1100))
        );
    }

    /// The class of the only card of a tree with this memory in GiB, this compute node and these sensors.
    fn class(vram_gib: u64, gtt_gib: u64, node: &str, metrics: &[u8]) -> DeviceClass {
        let sysfs = tempfile::tempdir().unwrap();
        let memory = [
            ("vram_total", vram_gib * GIB),
            ("vram_used", 1),
            ("gtt_total", gtt_gib * GIB),
            ("gtt_used", 2),
        ];
        lay_card(sysfs.path(), "card0", AMD, "0000:c4:00.0", &memory);
        if !node.is_empty() {
            lay_node(sysfs.path(), 1, &format!("location_id 50176\n{node}\n"));
        }
        if !metrics.is_empty() {
            fs::write(sysfs.path().join("devices/card0/gpu_metrics"), metrics).unwrap();
        }
        cards(sysfs.path())[0].class
    }

    #[test]
    fn gfx_target_decides_between_unified_and_discrete_memory() {
        let halo = "gfx_target_version 110501";
        assert_eq!(class(96, 16, halo, &[]), DeviceClass::Unified);
        assert_eq!(class(1, 120, halo, &[]), DeviceClass::Unified);
        let navi = "gfx_target_version 110000";
        assert_eq!(class(24, 200, navi, &[]), DeviceClass::Discrete);
        let old_apu = "gfx_target_version 90099\ncpu_cores_count 8";
        assert_eq!(class(2, 4, old_apu, &[]), DeviceClass::Unified);
    }

    #[test]
    fn unknown_gpu_is_classified_by_gpu_metrics_or_else_by_its_memory() {
        let unknown = "gfx_target_version 130000";
        assert_eq!(class(24, 16, unknown, &[8, 0, 3, 0]), DeviceClass::Unified);
        assert_eq!(class(1, 64, unknown, &[8, 0, 1, 3]), DeviceClass::Discrete);
        assert_eq!(class(16, 64, "", &[]), DeviceClass::Unified);
        assert_eq!(class(24, 32, "", &[1]), DeviceClass::Discrete);
    }

    #[test]
    fn other_makers_and_plugs_are_passed_over_and_cards_come_in_order() {
        let sysfs = tempfile::tempdir().unwrap();
        lay_card(sysfs.path(), "card10", AMD, "0000:0a:00.0", &[]);
        lay_card(sysfs.path(), "card2", AMD, "0000:03:00.0", &[]);
        lay_card(sysfs.path(), "card0", "0x8086", "0000:00:02.0", &[]);
        let names: Vec<String> = cards(sysfs.path())
            .into_iter()
            .map(|card| card.card)
            .collect();
        assert_eq!(names, ["card2", "card10"]);
        assert_eq!(cards(sysfs.path())[0].memory(), None);
        assert_eq!(cards(Path::new("/nonexistent")), []);
    }

    #[test]
    fn gpu_is_found_by_pci_address_or_as_the_only_compute_device() {
        let sysfs = tempfile::tempdir().unwrap();
        let find = |pci: &str| card_of(sysfs.path(), pci).map(|card| card.name());
        assert_eq!(find(""), None);
        lay_card(sysfs.path(), "card0", AMD, "0000:c4:00.0", &[]);
        lay_node(sysfs.path(), 1, STRIX_HALO);
        lay_card(sysfs.path(), "card1", AMD, "0000:03:00.0", &[]);
        let only = Some("AMD gfx1151".to_owned());
        assert_eq!(find(""), only, "the other one does not compute");
        assert_eq!(find("0000:c4:00.0"), only);
        assert_eq!(find("0000:99:00.0"), None);
        let navi = "location_id 768\ngfx_target_version 110000\n";
        lay_node(sysfs.path(), 2, navi);
        assert_eq!(find(""), None, "either could be meant");
    }

    #[test]
    fn garbage_and_impossible_numbers_count_as_unknown() {
        let sysfs = tempfile::tempdir().unwrap();
        let memory = [("vram_total", u64::MAX), ("gtt_total", 64 << 30)];
        lay_card(sysfs.path(), "card0", AMD, "0000:c4:00.0", &memory);
        let folder = sysfs.path().join("devices/card0");
        fs::write(folder.join("mem_info_vram_used"), "-5\n").unwrap();
        fs::write(folder.join("mem_info_gtt_used"), "\u{0}garbage").unwrap();
        let memory = cards(sysfs.path())[0].memory().unwrap();
        assert_eq!(
            memory,
            AmdMemory {
                gtt_total_bytes: Some(64 << 30),
                ..AmdMemory::default()
            }
        );
        assert_eq!(memory.used_bytes(DeviceClass::Unified), None);
        assert_eq!(memory.total_bytes(DeviceClass::Discrete), None);
    }

    #[test]
    fn targets_are_named_as_the_compilers_name_them() {
        let names = [110501, 110000, 90010, 120001, 90402].map(gfx_name);
        assert_eq!(names, ["gfx1151", "gfx1100", "gfx90a", "gfx1201", "gfx942"]);
    }

    #[test]
    fn places_on_the_bus_are_one_number() {
        assert_eq!(pci_place("0000:c4:00.0"), Some((0, 0xc400)));
        assert_eq!(pci_place("00000000:C4:00.0"), Some((0, 0xc400)));
        assert_eq!(pci_place("0001:03:1f.7"), Some((1, 0x3ff)));
        assert_eq!(pci_place(""), None);
        assert_eq!(pci_place("0000:zz:00.0"), None);
    }
}
