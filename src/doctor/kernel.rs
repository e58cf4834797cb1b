//! The checks on the kernel and its GPU driver.
//!
//! Judges only what is known to be wrong with a release, for the cards that are there.

use std::fs;

use super::check::CheckResult;
use super::firmware;
use crate::telemetry::amdgpu::{self, AmdCard};
use crate::telemetry::{SystemRoots, host};

/// The first kernel that saves gfx1151's waves as its libraries expect.
const FIRST_GOOD_KERNEL: (u32, u32, u32) = (6, 18, 4);

pub(super) fn all(roots: &SystemRoots) -> Vec<CheckResult> {
    let cards = amdgpu::cards(&roots.sysfs);
    let mut checks = vec![kernel(&cards, roots)];
    if !cards.is_empty() {
        checks.push(driver(roots));
        checks.extend(firmware::all(&cards, roots));
    }
    checks
}

fn kernel(cards: &[AmdCard], roots: &SystemRoots) -> CheckResult {
    let Some(release) = host::kernel_release(&roots.proc) else {
        return CheckResult::warn("kernel", "the system does not say which kernel it has");
    };
    let version = host::kernel_version(&release);
    let halo = cards.iter().find(|card| card.gfx() == Some("gfx1151"));
    if let Some(card) = halo {
        let is_new = version.is_some_and(|version| version >= FIRST_GOOD_KERNEL);
        let node = card.compute.as_ref();
        if !is_new && !node.is_some_and(|node| node.has_wave_sizes) {
            let (major, minor, patch) = FIRST_GOOD_KERNEL;
            return CheckResult::warn(
                "kernel",
                format!("gfx1151 needs kernel {major}.{minor}.{patch} or a backport, and this is {release}"),
            )
            .advise("Install a newer kernel: older ones do not tell cwsr_size and ctl_stack_size, and programs on gfx1151 hang or crash")
            .fix("uname -r; cat /sys/class/kfd/kfd/topology/nodes/*/properties | grep -E 'cwsr_size|ctl_stack_size'");
        }
    }
    if !cards.is_empty() && copies_mappings_slowly(&release) {
        return CheckResult::warn(
            "kernel",
            format!("{release} is of the builds that copy mapped files to AMD GPUs a hundred times too slowly"),
        )
        .advise("Safelight is not affected; other programs are slow, and a newer kernel fixes it");
    }
    let has = halo.map_or("", |_| " supports gfx1151");
    CheckResult::ok("kernel", format!("{release}{has}"))
}

/// 7.0.0-28 and 7.0.12 are named in reports; the change that they lack came later in the series.
fn copies_mappings_slowly(release: &str) -> bool {
    release.starts_with("7.0.0-28") || host::kernel_version(release) == Some((7, 0, 12))
}

fn driver(roots: &SystemRoots) -> CheckResult {
    let folder = roots.sysfs.join("module/amdgpu");
    let version = fs::read_to_string(folder.join("version"));
    match version.as_deref().map(str::trim) {
        Ok(version) if !version.is_empty() => CheckResult::ok(
            "driver",
            format!("amdgpu {version}, beside the kernel's own"),
        ),
        _ if folder.exists() => CheckResult::ok("driver", "amdgpu, the kernel's own"),
        _ => CheckResult::warn("driver", "the module amdgpu is not loaded")
            .fix("sudo modprobe amdgpu"),
    }
}
