//! The checks on GPUs: which ones the drivers show, what they can have, and what contradicts what.
//!
//! Names no GPU that the driver does not show, and claims nothing about speed.

use safelight_core::memory::DeviceClass;
use safelight_core::settings::{LIBTORCH_VERSION, Runtime};
use safelight_core::units::size_text;

use super::{Check, Machine, access};
use crate::runtimes;
use crate::telemetry::amdgpu::{self, AmdCard, AmdMemory};
use crate::telemetry::budget::{Growth, budget};
use crate::telemetry::device::{chosen_amd, is_display_only, rocm_order};
use crate::telemetry::nvidia::{NvidiaCard, NvidiaReport};
use crate::telemetry::{DeviceQuery, Roots, host};

/// `query` is the device that computes, as far as the engine has told.
pub(super) fn all(machine: &Machine, runtime: Option<&Runtime>, query: &DeviceQuery) -> Vec<Check> {
    let roots = &machine.roots;
    let cards = amdgpu::cards(&roots.sysfs);
    let mut checks = nvidia(&machine.nvidia, runtime);
    for card in &cards {
        checks.push(amd(card, &cards, runtime));
    }
    if let Err(reason) = &machine.nvidia {
        checks.extend(
            runtimes::nvidia_on_bus(&roots.sysfs)
                .into_iter()
                .map(|gpu| {
                    let message = format!(
                        "{} ({}) is there, and NVIDIA's driver does not work: {reason}",
                        gpu.name, gpu.pci
                    );
                    Check::warn("gpu", message)
                        .advise("Install NVIDIA's driver of your distribution and restart")
                        .mend("nvidia-smi")
                }),
        );
    }
    if checks.is_empty() {
        let driver = match &machine.nvidia {
            Err(reason) => format!(" (NVIDIA's driver: {reason})"),
            Ok(_) => String::new(),
        };
        let message = format!("no supported GPU found. Running on the CPU, which is slow{driver}");
        return vec![Check::warn("gpu", message)];
    }
    if !cards.is_empty() {
        checks.extend(access::all(roots));
        checks.extend(choice(roots, query));
        let computing = chosen_amd(&cards, query).filter(|_| query.kind != "cuda");
        checks.extend(computing.and_then(|card| memory(card, roots, query)));
    }
    checks
}

fn nvidia(report: &Result<NvidiaReport, String>, runtime: Option<&Runtime>) -> Vec<Check> {
    let Ok(report) = report else {
        return Vec::new();
    };
    let check = |card: &NvidiaCard| {
        let memory = card.memory.map_or_else(
            || "one pool with the processor".to_owned(),
            |memory| {
                let (used, total) = (memory.used_bytes, memory.total_bytes);
                format!("{} used of {}", size_text(used), size_text(total))
            },
        );
        let message = format!(
            "{} ({}), {memory}, driver {} for CUDA up to {}",
            card.name, card.pci, report.driver, report.cuda
        );
        used_by(runtime, "cuda", message)
    };
    report.cards.iter().map(check).collect()
}

/// The check on a card, which is well only when the chosen libtorch can use it.
fn used_by(runtime: Option<&Runtime>, kind: &str, message: String) -> Check {
    match runtime {
        Some(runtime) if runtime.kind() != kind => {
            let other = runtime.kind();
            let advice = format!(
                "Choose a libtorch {LIBTORCH_VERSION} for {kind} in the setting runtime.libtorch"
            );
            let what = format!("the chosen libtorch is for {other} and does not use it");
            Check::warn("gpu", format!("{message}; {what}"))
                .advise(advice)
                .mend("safelight runtime install")
        }
        _ => Check::ok("gpu", message),
    }
}

fn amd(card: &AmdCard, cards: &[AmdCard], runtime: Option<&Runtime>) -> Check {
    let target = card.gfx().unwrap_or("no compute target");
    let memory = card.memory();
    let size = memory.map_or_else(
        || "memory unknown".to_owned(),
        |it| memory_text(card.class, it),
    );
    let message = format!(
        "AMD {target} (device {:04x}, {}), {size}",
        card.device_id, card.pci
    );
    if is_display_only(card, cards) {
        let message = format!("{message}; it runs the desktop, and jobs use the other card");
        return Check::ok("gpu", message);
    }
    if card.compute.is_none() {
        let message = format!("{message}; the kernel's compute driver does not list it");
        return Check::warn("gpu", message)
            .advise("ROCm cannot use a card that is not under /sys/class/kfd")
            .mend("sudo dmesg | grep -iE 'kfd|amdgpu'");
    }
    used_by(runtime, "rocm", message)
}

/// The two kinds of memory are always told apart: their sum is more than a discrete card has, and VRAM
/// alone is a small part of what an APU can use.
fn memory_text(class: DeviceClass, memory: AmdMemory) -> String {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), size_text);
    let part =
        |used: Option<u64>, total: Option<u64>| format!("{} used of {}", size(used), size(total));
    let vram = part(memory.vram_used_bytes, memory.vram_total_bytes);
    let gtt = part(memory.gtt_used_bytes, memory.gtt_total_bytes);
    if class == DeviceClass::Unified {
        format!("one pool with the processor: VRAM (carve-out) {vram}, GTT {gtt}")
    } else {
        format!("its own memory: VRAM {vram}; GTT {gtt} is the host's")
    }
}

/// Which of several GPUs jobs get, where ROCm by itself would take another.
fn choice(roots: &Roots, query: &DeviceQuery) -> Option<Check> {
    if query.kind != "rocm" {
        return None;
    }
    let order = rocm_order(&roots.sysfs)?;
    let message = format!(
        "jobs use the strongest GPU: ROCm lists them in the order {order}; choose another in the setting runtime.device"
    );
    Some(Check::ok("gpu choice", message))
}

/// What the computing card can have, and what does not fit together.
fn memory(card: &AmdCard, roots: &Roots, query: &DeviceQuery) -> Option<Check> {
    let host = host::memory(&roots.proc);
    // The engine's word counts only when it computed on this card.
    let driver =
        (query.is_gpu() && query.driver_total_bytes > 0).then_some(query.driver_total_bytes);
    let budget = budget(card.class, card.memory()?, driver, host);
    let sources: Vec<String> = budget
        .sources
        .iter()
        .map(|source| format!("{} {}", source.name, size_text(source.bytes)))
        .collect();
    let mut message = format!(
        "the GPU may use {}, the least of: {}",
        size_text(budget.total_bytes),
        sources.join(", ")
    );
    if let Some(host) = host.filter(|_| card.class == DeviceClass::Unified) {
        let available = size_text(host.available_bytes);
        message = format!("{message}; {available} of main memory is free now");
    }
    let check = if budget.conflicts.is_empty() {
        Check::ok("gpu memory", message)
    } else {
        let message = format!("{message}; {}", budget.conflicts.join("; "));
        Check::warn("gpu memory", message)
    };
    Some(match &budget.growth {
        Some(growth) => advise_growth(check, growth, roots),
        None => check,
    })
}

fn advise_growth(check: Check, growth: &Growth, roots: &Roots) -> Check {
    let (gib, pages_limit) = (growth.gib, growth.pages_limit);
    let now = amdgpu::ttm_pages_limit(&roots.sysfs)
        .map_or_else(String::new, |pages| format!(" (now {pages})"));
    let first = if growth.has_large_carve_out {
        "Make the carve-out (UMA frame buffer) as small as the firmware lets you, then "
    } else {
        "To let it have more, "
    };
    check
        .advise(format!(
            "{first}add ttm.pages_limit={pages_limit} to the kernel's command line for {gib} GiB{now}; amdgpu.gttsize is obsolete"
        ))
        .mend(format!(
            "echo 'options ttm pages_limit={pages_limit}' | sudo tee /etc/modprobe.d/ttm.conf"
        ))
}
