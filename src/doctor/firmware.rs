//! The check on the firmware of AMD's GPUs, whose release the package manager knows.
//!
//! Judges only the release that is known to be wrong, for the cards that are there.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::check::CheckResult;
use crate::child;
use crate::telemetry::SystemRoots;
use crate::telemetry::amdgpu::AmdCard;

/// The release with which ROCm crashes on gfx1151.
const BROKEN: &str = "20251125";
/// The packages that hold it: Ubuntu's, Arch's and older Fedora's, then Debian's and Fedora's.
const PACKAGES: [&str; 3] = [
    "linux-firmware",
    "firmware-amd-graphics",
    "amd-gpu-firmware",
];
const RPM_LIMIT: Duration = Duration::from_secs(5);

pub(super) fn all(cards: &[AmdCard], roots: &SystemRoots) -> Option<CheckResult> {
    cards.iter().find(|card| card.gfx() == Some("gfx1151"))?;
    let is_broken = releases(&roots.var).any(|release| release.contains(BROKEN));
    let message =
        format!("linux-firmware {BROKEN} is installed, with which ROCm crashes on gfx1151");
    is_broken.then(|| {
        CheckResult::warn("driver", message)
            .advise("Install a newer linux-firmware, or the one before it, rebuild the initramfs and restart")
    })
}

/// Versions of [`PACKAGES`] according to package managers, with or without names.
fn releases(var: &Path) -> impl Iterator<Item = String> {
    let status = fs::read_to_string(var.join("lib/dpkg/status")).unwrap_or_default();
    let of_dpkg: Vec<String> = status
        .split("\n\n")
        .filter(|paragraph| {
            let name = field(paragraph, "Package");
            name.is_some_and(|name| PACKAGES.contains(&name))
                && field(paragraph, "Status").is_some_and(|it| it.ends_with(" installed"))
        })
        .filter_map(|paragraph| field(paragraph, "Version").map(str::to_owned))
        .collect();
    // linux-firmware-amdgpu-20251125-1
    let entries = fs::read_dir(var.join("lib/pacman/local"));
    let of_pacman = entries.into_iter().flatten().flatten();
    let of_pacman = of_pacman
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(PACKAGES[0]));
    let of_rpm = var.join("lib/rpm").exists().then(of_rpm);
    of_dpkg
        .into_iter()
        .chain(of_pacman)
        .chain(of_rpm.into_iter().flatten())
}

fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = paragraph.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Its database is no text.
fn of_rpm() -> Vec<String> {
    let mut command = Command::new("rpm");
    command.args(["-q", "--qf", "%{VERSION}\\n"]).args(PACKAGES);
    let mut found = Vec::new();
    // Says so of packages that are not there, and ends badly for them.
    child::run(command, RPM_LIMIT, &|| false, &mut |line| {
        found.push(line.to_owned());
    });
    found
}

#[cfg(test)]
mod tests {
    use crate::telemetry::amdgpu;
    use crate::telemetry::fake_tree::{lay, lay_card, lay_node};

    use super::*;

    #[test]
    fn broken_gfx1151_firmware_is_detected_from_dpkg_and_pacman() {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay_card(&roots.sysfs, "card0", "0x1002", "0000:c4:00.0", &[]);
        let halo = "gfx_target_version 110501\nlocation_id 50176\n";
        lay_node(&roots.sysfs, 1, halo);
        let message = || all(&amdgpu::cards(&roots.sysfs), &roots);
        assert_eq!(message(), None);
        let status = |version: &str| {
            let text = format!(
                "Package: zlib\nVersion: 20251125\n\nPackage: linux-firmware\n\
                 Status: install ok installed\nVersion: {version}\n"
            );
            lay(&roots.var, "lib/dpkg/status", &text);
        };
        status("20260110-1");
        assert_eq!(message(), None);
        status("20251125-1ubuntu2");
        let check = message().unwrap();
        let package = "linux-firmware 20251125";
        assert!(check.message.contains(package), "{check:?}");
        assert!(check.advice.contains("initramfs"), "{check:?}");
        status("20260110-1");
        let place = "lib/pacman/local/linux-firmware-amdgpu-20251125-1/desc";
        lay(&roots.var, place, "");
        assert!(message().is_some());
        // Other chips are not known to mind.
        lay_node(
            &roots.sysfs,
            1,
            "gfx_target_version 110000\nlocation_id 50176\n",
        );
        assert_eq!(message(), None);
    }
}
