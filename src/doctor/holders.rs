//! Programs that hold a GPU's memory, from the kernel's information on every open file of the driver.
//!
//! Reads only what this user may read: other users' programs are not included.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safelight_core::units::size_text;

use super::check::CheckResult;

/// Programs with less are not named.
const WORTH_NAMING_BYTES: u64 = 64 << 20;
const MOST_NAMED: usize = 4;

/// `pci`: the place of the card whose memory it is, such as `0000:c4:00.0`.
pub(super) fn all(proc: &Path, pci: &str) -> Option<CheckResult> {
    let mut found: Vec<(String, u64)> = numbers(proc, "")
        .filter_map(|process| {
            let folder = proc.join(&process);
            let bytes = held_bytes(&folder, pci);
            if bytes < WORTH_NAMING_BYTES {
                return None;
            }
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            Some((format!("{} ({process})", name.trim()), bytes))
        })
        .collect();
    found.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    let named: Vec<String> = found
        .iter()
        .take(MOST_NAMED)
        .map(|(name, bytes)| format!("{name} {}", size_text(*bytes)))
        .collect();
    let message = format!(
        "programs that hold memory of this GPU: {}",
        named.join(", ")
    );
    (!named.is_empty()).then(|| CheckResult::ok("gpu memory", message))
}

/// The entries of a folder whose names are numbers.
fn numbers(folder: &Path, below: &str) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder.join(below)).into_iter().flatten();
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Bytes of a process on a card. A file that was opened once and handed on is counted once.
fn held_bytes(process: &Path, pci: &str) -> u64 {
    let mut clients: BTreeMap<String, u64> = BTreeMap::new();
    for file in numbers(process, "fdinfo") {
        let Ok(text) = fs::read_to_string(process.join("fdinfo").join(file)) else {
            continue;
        };
        let fields = || text.lines().filter_map(|line| line.split_once(':'));
        let value =
            |name: &str| fields().find_map(|(key, value)| (key == name).then_some(value.trim()));
        let (Some(client), Some(place)) = (value("drm-client-id"), value("drm-pdev")) else {
            continue;
        };
        if place == pci {
            let kept: u64 = fields()
                .filter(|(key, _)| ["drm-memory-vram", "drm-memory-gtt"].contains(key))
                .filter_map(|(_, value)| bytes_of(value))
                .sum();
            clients.insert(client.to_owned(), kept);
        }
    }
    clients.values().sum()
}

/// `12345 KiB`
fn bytes_of(text: &str) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let unit: u64 = match words.next() {
        None => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some(_) => return None,
    };
    number.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use crate::telemetry::fake_tree::lay;

    use super::*;

    #[test]
    fn programs_holding_gpu_memory_are_named_and_each_client_counts_once() {
        let root = tempfile::tempdir().unwrap();
        let proc = root.path();
        let pci = "0000:c4:00.0";
        assert_eq!(all(proc, pci), None);
        let file = |process: u32, fd: u32, client: u32, pci: &str, [vram, gtt]: [u64; 2]| {
            let text = format!(
                "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t{pci}\n\
                 drm-memory-vram:\t{vram} KiB\ndrm-memory-gtt: \t{gtt} MiB\ndrm-memory-cpu: \t9 MiB\n"
            );
            lay(proc, &format!("{process}/fdinfo/{fd}"), &text);
        };
        for (process, name) in [
            (70, "python3"),
            (71, "firefox"),
            (72, "idle"),
            (73, "other"),
        ] {
            lay(proc, &format!("{process}/comm"), &format!("{name}\n"));
        }
        file(70, 3, 1, pci, [1 << 20, 3072]);
        file(70, 4, 1, pci, [1 << 20, 3072]);
        file(71, 3, 2, pci, [512 << 10, 0]);
        file(71, 4, 3, pci, [512 << 10, 0]);
        file(72, 3, 4, pci, [1 << 10, 0]);
        file(73, 3, 5, "0000:03:00.0", [4 << 20, 0]);
        lay(proc, "73/fdinfo/9", "pos:\t0\nflags:\t02\n");
        let message = all(proc, pci).unwrap().message;
        assert_eq!(
            message,
            "programs that hold memory of this GPU: python3 (70) 4.0 GiB, firefox (71) 1.0 GiB"
        );
    }
}
