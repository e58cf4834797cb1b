//! The checks on GPUs: which ones the drivers show, and what is known to trouble them.
//!
//! Names no GPU that the driver does not show, and claims nothing about speed.

use std::fs::OpenOptions;
use std::path::Path;

use safelight_core::catalog::size_text;
use safelight_core::settings::Runtime;

use super::{Check, Machine};
use crate::telemetry::amdgpu::{self, AmdCard, AmdMemory};
use crate::telemetry::nvidia::NvidiaReport;
use crate::telemetry::{Roots, host};

/// The first kernel that saves gfx1151's waves as its libraries expect.
const FIRST_GOOD_KERNEL: (u32, u32, u32) = (6, 18, 4);
/// What a page of main memory is to the `ttm` module.
const PAGES_PER_GIB: u64 = 262_144;
const GIB: u64 = 1 << 30;
/// What is left to the system when nearly all of a shared pool is given to the GPU.
const SYSTEM_SHARE_GIB: u64 = 8;

pub(super) fn all(machine: &Machine, runtime: Option<&Runtime>) -> Vec<Check> {
    let cards = amdgpu::cards(&machine.roots.sysfs);
    let mut checks = nvidia(&machine.nvidia, runtime);
    for card in &cards {
        checks.extend(amd(card, &machine.roots, runtime));
    }
    if checks.is_empty() {
        let driver = match &machine.nvidia {
            Err(reason) => format!(" (NVIDIA's driver: {reason})"),
            Ok(_) => String::new(),
        };
        checks.push(Check::ok(
            "gpu",
            format!("no driver shows an AMD or NVIDIA GPU, so the CPU computes{driver}"),
        ));
    }
    checks
}

pub(super) fn has_gfx1151(roots: &Roots) -> bool {
    amdgpu::cards(&roots.sysfs).iter().any(is_gfx1151)
}

fn is_gfx1151(card: &AmdCard) -> bool {
    card.compute
        .as_ref()
        .is_some_and(|node| node.gfx == "gfx1151")
}

fn nvidia(report: &Result<NvidiaReport, String>, runtime: Option<&Runtime>) -> Vec<Check> {
    let Ok(report) = report else {
        return Vec::new();
    };
    let check = |card: &crate::telemetry::nvidia::NvidiaCard| {
        let message = format!(
            "{} ({}), {} used of {}, driver {} for CUDA up to {}",
            card.name,
            card.pci,
            size_text(card.used_bytes),
            size_text(card.total_bytes),
            report.driver,
            report.cuda
        );
        used_by(runtime, "cuda", message)
    };
    report.cards.iter().map(check).collect()
}

/// The check on a card, which is well only when the chosen libtorch can use it.
fn used_by(runtime: Option<&Runtime>, kind: &str, message: String) -> Check {
    match runtime {
        Some(runtime) if runtime.kind() != kind => Check::warn(
            "gpu",
            format!(
                "{message}; the chosen libtorch is for {} and does not use it",
                runtime.kind()
            ),
        )
        .advise(format!(
            "Name a libtorch 2.11.0 for {kind} in the setting runtime.libtorch"
        )),
        _ => Check::ok("gpu", message),
    }
}

fn amd(card: &AmdCard, roots: &Roots, runtime: Option<&Runtime>) -> Vec<Check> {
    let target = card
        .compute
        .as_ref()
        .map_or("no compute target", |node| &node.gfx);
    let memory = card.memory();
    let size = memory.map_or_else(|| "memory unknown".to_owned(), memory_text);
    let message = format!(
        "AMD {target} (device {:04x}, {}), {size}",
        card.device_id, card.pci
    );
    let mut checks = vec![if card.compute.is_some() {
        used_by(runtime, "rocm", message)
    } else {
        Check::warn(
            "gpu",
            format!("{message}; the kernel's compute driver does not list it"),
        )
        .advise("ROCm cannot use a card that is not under /sys/class/kfd")
    }];
    checks.extend(access(&roots.dev));
    if is_gfx1151(card) {
        checks.extend(kernel_for_gfx1151(card, &roots.proc));
    }
    if let Some(memory) = memory.filter(|memory| memory.is_unified()) {
        checks.extend(shared_pool(memory, roots));
    }
    checks
}

/// The two kinds of memory are always told apart: their sum is more than a discrete card has, and VRAM
/// alone is a small part of what an APU can use.
fn memory_text(memory: AmdMemory) -> String {
    let part = |used: u64, total: u64| format!("{} used of {}", size_text(used), size_text(total));
    let vram = part(memory.vram_used_bytes, memory.vram_total_bytes);
    let gtt = part(memory.gtt_used_bytes, memory.gtt_total_bytes);
    if memory.is_unified() {
        format!("one pool with the processor: VRAM {vram}, GTT {gtt}")
    } else {
        format!("its own memory: VRAM {vram}; GTT {gtt} is the host's")
    }
}

/// ROCm opens `/dev/kfd` for reading and writing, which needs a group on most systems.
fn access(dev: &Path) -> Option<Check> {
    let kfd = dev.join("kfd");
    let err = OpenOptions::new().read(true).write(true).open(&kfd).err()?;
    Some(
        Check::warn(
            "gpu access",
            format!(
                "the compute driver cannot be opened: {err}: {}",
                kfd.display()
            ),
        )
        .advise("Add yourself to the groups render and video, then log in again"),
    )
}

fn kernel_for_gfx1151(card: &AmdCard, proc: &Path) -> Option<Check> {
    let release = host::kernel_release(proc)?;
    let is_new = host::kernel_version(&release).is_some_and(|version| version >= FIRST_GOOD_KERNEL);
    let tells_sizes = card
        .compute
        .as_ref()
        .is_some_and(|node| node.has_wave_sizes);
    if is_new || tells_sizes {
        return Some(Check::ok(
            "kernel",
            format!("{release} has what gfx1151 needs"),
        ));
    }
    let (major, minor, patch) = FIRST_GOOD_KERNEL;
    Some(
        Check::warn(
            "kernel",
            format!("expected {major}.{minor}.{patch} or a backport for gfx1151, found {release}"),
        )
        .advise("Older kernels do not tell cwsr_size and ctl_stack_size, and programs on gfx1151 hang or crash"),
    )
}

/// What the kernel lets the GPU have of a shared pool, and how to let it have more.
fn shared_pool(memory: AmdMemory, roots: &Roots) -> Option<Check> {
    let host = host::memory(&roots.proc)?;
    let everything = host.total_bytes.saturating_add(memory.vram_total_bytes);
    let usable = memory.total_bytes().min(everything);
    let message = format!(
        "the GPU may use {} of {} in all",
        size_text(usable),
        size_text(everything)
    );
    let wish_gib = (host.total_bytes / GIB).saturating_sub(SYSTEM_SHARE_GIB);
    if usable / GIB >= wish_gib || wish_gib <= memory.gtt_total_bytes / GIB {
        return Some(Check::ok("gpu memory", message));
    }
    let limit = amdgpu::ttm_pages_limit(&roots.sysfs)
        .map_or_else(String::new, |pages| format!(" (now {pages})"));
    Some(Check::ok("gpu memory", message).advise(format!(
        "To let it have {wish_gib} GiB, add ttm.pages_limit={} to the kernel's command line{limit}",
        wish_gib * PAGES_PER_GIB
    )))
}
