//! AMD GPUs as the amdgpu driver shows them under `/sys`, with no ROCm installed.
//!
//! The tree's root is a parameter, so tests lay a false one. Unified and discrete cards are told apart
//! here, because what a "GPU's memory" is differs between them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

const AMD: &str = "0x1002";
const GIB: u64 = 1 << 30;

/// One card.
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
    folder: PathBuf,
}

/// A card as the compute driver (KFD) lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeNode {
    /// Such as `gfx1151`.
    pub gfx: String,
    /// Whether the kernel tells the sizes of saved waves, which libraries for gfx1151 need.
    pub has_wave_sizes: bool,
}

/// Bytes. The graphics translation table (GTT) is main memory that the GPU may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmdMemory {
    pub vram_total_bytes: u64,
    pub vram_used_bytes: u64,
    pub gtt_total_bytes: u64,
    pub gtt_used_bytes: u64,
}

impl AmdMemory {
    /// Whether processor and GPU share one pool: the VRAM is a small carve-out beside a GTT several
    /// times its size, and models lie in the GTT.
    pub fn is_unified(self) -> bool {
        let Self {
            vram_total_bytes: vram,
            gtt_total_bytes: gtt,
            ..
        } = self;
        gtt > 0 && (gtt >= vram.saturating_mul(4) || (vram <= GIB && gtt > vram))
    }

    /// What a model can have. On a discrete card the GTT is not counted: it is the host's memory,
    /// behind a slow bus.
    pub fn total_bytes(self) -> u64 {
        let shared = if self.is_unified() {
            self.gtt_total_bytes
        } else {
            0
        };
        self.vram_total_bytes.saturating_add(shared)
    }

    /// What all programs have of it.
    pub fn used_bytes(self) -> u64 {
        let shared = if self.is_unified() {
            self.gtt_used_bytes
        } else {
            0
        };
        self.vram_used_bytes.saturating_add(shared)
    }
}

impl AmdCard {
    /// Reads the driver's counters; `None` where it has none.
    pub fn memory(&self) -> Option<AmdMemory> {
        let number = |name: &str| read_number(&self.folder.join(name));
        Some(AmdMemory {
            vram_total_bytes: number("mem_info_vram_total")?,
            vram_used_bytes: number("mem_info_vram_used")?,
            gtt_total_bytes: number("mem_info_gtt_total").unwrap_or(0),
            gtt_used_bytes: number("mem_info_gtt_used").unwrap_or(0),
        })
    }
}

/// All AMD cards, in the order of their numbers.
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
            Some((
                number,
                AmdCard {
                    card,
                    compute: pci_place(&pci).and_then(|place| nodes.get(&place).cloned()),
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

/// How many pages of main memory the GPU may have by the `ttm` module, where that is limited.
pub fn ttm_pages_limit(sysfs: &Path) -> Option<u64> {
    read_number(&sysfs.join("module/ttm/parameters/pages_limit"))
}

/// A place on the PCI bus as the compute driver writes it: domain, and bus, device and function in one
/// number.
type Place = (u64, u64);

/// `0000:c4:00.0` → its place.
fn pci_place(pci: &str) -> Option<Place> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (rest, function) = pci.split_once('.')?;
    let mut parts = rest.split(':');
    let domain = hex(parts.next()?)?;
    let bus = hex(parts.next()?)?;
    let device = hex(parts.next()?)?;
    Some((domain, bus << 8 | device << 3 | hex(function)?))
}

fn compute_nodes(sysfs: &Path) -> BTreeMap<Place, ComputeNode> {
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
                gfx: gfx_name(target),
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
pub(crate) mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Lays a card as the kernel does: `class/drm/cardN/device` leads to the device.
    pub(crate) fn lay_card(
        sysfs: &Path,
        card: &str,
        vendor: &str,
        pci: &str,
        memory: &[(&str, u64)],
    ) {
        let device = sysfs.join("devices").join(card);
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("vendor"), format!("{vendor}\n")).unwrap();
        fs::write(device.join("device"), "0x1586\n").unwrap();
        fs::write(
            device.join("uevent"),
            format!("DRIVER=amdgpu\nPCI_SLOT_NAME={pci}\n"),
        )
        .unwrap();
        for (name, bytes) in memory {
            fs::write(
                device.join(format!("mem_info_{name}")),
                format!("{bytes}\n"),
            )
            .unwrap();
        }
        let link = sysfs.join("class/drm").join(card);
        fs::create_dir_all(&link).unwrap();
        symlink(&device, link.join("device")).unwrap();
        fs::create_dir_all(sysfs.join("class/drm").join(format!("{card}-eDP-1"))).unwrap();
    }

    pub(crate) fn lay_node(sysfs: &Path, number: u32, properties: &str) {
        let node = sysfs.join(format!("class/kfd/kfd/topology/nodes/{number}"));
        fs::create_dir_all(&node).unwrap();
        fs::write(node.join("properties"), properties).unwrap();
    }

    #[test]
    fn an_apu_counts_the_shared_pool_and_knows_its_target() {
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
        let properties = "gfx_target_version 110501\nlocation_id 50176\ndomain 0\ncwsr_size 1\nctl_stack_size 2\n";
        lay_node(sysfs.path(), 1, properties);
        let cards = cards(sysfs.path());
        assert_eq!(cards.len(), 1);
        assert_eq!(
            (cards[0].card.as_str(), cards[0].device_id),
            ("card1", 0x1586)
        );
        let compute = cards[0].compute.as_ref().unwrap();
        assert_eq!(
            (compute.gfx.as_str(), compute.has_wave_sizes),
            ("gfx1151", true)
        );
        let memory = cards[0].memory().unwrap();
        assert!(memory.is_unified());
        assert_eq!(
            (memory.total_bytes(), memory.used_bytes()),
            ((64 << 30) + (512 << 20), 1100)
        );
    }

    #[test]
    fn a_large_carve_out_of_a_larger_pool_is_unified_and_a_card_of_its_own_is_not() {
        let memory = |vram: u64, gtt: u64| AmdMemory {
            vram_total_bytes: vram * GIB,
            vram_used_bytes: 1,
            gtt_total_bytes: gtt * GIB,
            gtt_used_bytes: 2,
        };
        assert!(memory(16, 64).is_unified());
        let discrete = memory(24, 32);
        assert!(!discrete.is_unified());
        assert_eq!(
            (discrete.total_bytes(), discrete.used_bytes()),
            (24 * GIB, 1)
        );
        assert!(!memory(1, 0).is_unified());
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
    fn targets_are_named_as_the_compilers_name_them() {
        let names = [110501, 110000, 90010, 120001, 90402].map(gfx_name);
        assert_eq!(names, ["gfx1151", "gfx1100", "gfx90a", "gfx1201", "gfx942"]);
    }

    #[test]
    fn places_on_the_bus_are_one_number() {
        assert_eq!(pci_place("0000:c4:00.0"), Some((0, 0xc400)));
        assert_eq!(pci_place("0001:03:1f.7"), Some((1, 0x3ff)));
        assert_eq!(pci_place(""), None);
        assert_eq!(pci_place("0000:zz:00.0"), None);
    }
}
