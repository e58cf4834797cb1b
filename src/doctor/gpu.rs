//! The checks on GPUs: which ones the drivers show, what they can have, and what contradicts what.
//!
//! Names no GPU that the driver does not show, and claims nothing about speed.

use std::path::Path;

use safelight_core::memory::DeviceClass;
use safelight_core::settings::LibtorchRuntime;
use safelight_core::units::size_text;

use super::check::CheckResult;
use super::holders;
use super::inputs::DoctorInputs;
use crate::runtimes::{self, BuildFit, RuntimeBuild, RuntimeKind, of_place};
use crate::telemetry::amdgpu::{self, AmdCard, AmdMemory};
use crate::telemetry::budget::{PoolGrowth, budget};
use crate::telemetry::device::{chosen_amd, is_display_only, rocm_order};
use crate::telemetry::gpu_access::GpuAccess;
use crate::telemetry::nvidia::{NvidiaCard, NvidiaReport};
use crate::telemetry::{DeviceQuery, SystemRoots, host};

/// `query`: device in use, as reported by the engine; `own`: folder of Safelight's runtimes.
pub(super) fn all(
    machine: &DoctorInputs,
    runtime: Option<&LibtorchRuntime>,
    (builds, own): (&[RuntimeBuild], &Path),
    query: &DeviceQuery,
) -> Vec<CheckResult> {
    let roots = &machine.roots;
    let cards = amdgpu::cards(&roots.sysfs);
    let use_of = GpuUse {
        runtime: runtime.map(RuntimeKind::from_runtime),
        builds,
        own,
        machine: runtimes::MachineGpus::find(roots, &machine.nvidia),
    };
    let mut checks = nvidia(&machine.nvidia, &use_of);
    for card in &cards {
        checks.push(amd(card, &cards, &use_of));
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
                    CheckResult::warn("gpu", message)
                        .advise("Install NVIDIA's driver of your distribution and restart")
                        .fix("nvidia-smi")
                }),
        );
    }
    if checks.is_empty() {
        let message = "no supported GPU found: jobs run on the CPU, which is slow";
        return vec![CheckResult::warn("gpu", message)];
    }
    if !cards.is_empty() {
        checks.push(access(roots));
        checks.extend(choice(roots, query));
        let computing = chosen_amd(&cards, query).filter(|_| query.kind != "cuda");
        checks.extend(computing.and_then(|card| memory(card, roots, query)));
        checks.extend(computing.and_then(|card| holders::all(&roots.proc, &card.pci)));
    }
    checks
}

fn nvidia(report: &Result<NvidiaReport, String>, use_of: &GpuUse<'_>) -> Vec<CheckResult> {
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
        use_of.check(RuntimeKind::Cuda, &card.pci, message)
    };
    report.cards.iter().map(check).collect()
}

/// Use of a card by jobs, and the advice to get there.
struct GpuUse<'a> {
    /// Kind of the libtorch in use, if there is one.
    runtime: Option<RuntimeKind>,
    builds: &'a [RuntimeBuild],
    /// Folder of Safelight's runtimes.
    own: &'a Path,
    machine: runtimes::MachineGpus,
}

impl GpuUse<'_> {
    /// The check on a card, which is well only when the chosen libtorch can use it.
    fn check(&self, kind: RuntimeKind, pci: &str, message: String) -> CheckResult {
        let Some(other) = self.runtime.filter(|own| *own != kind) else {
            return CheckResult::ok("gpu", message);
        };
        let unused = "jobs do not run on it";
        match of_place(pci, &self.machine, self.builds) {
            Some(BuildFit::Refused(refusal)) => {
                let message = format!("{message}; {unused}: {}", refusal.what);
                let check = CheckResult::warn("gpu", message).advise(refusal.advice);
                check.fix(refusal.command)
            }
            Some(BuildFit::Build(build)) => {
                let other = other.label();
                let size = size_text(build.download_mb * 1_000_000);
                let what = format!("{message}; {unused}: the libtorch in use is for {other}");
                let (check, id) = (CheckResult::warn("gpu", what), &build.id);
                if self.own.join(id).is_dir() {
                    return check
                        .advise(format!("Use {}, which is here", build.name))
                        .fix(format!("safelight runtime use {id}"));
                }
                check
                    .advise(format!("Get {}: about {size} to download", build.name))
                    .fix(format!("safelight runtime install {id}"))
            }
            None => CheckResult::warn("gpu", format!("{message}; {unused}")),
        }
    }
}

fn amd(card: &AmdCard, cards: &[AmdCard], use_of: &GpuUse<'_>) -> CheckResult {
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
        return CheckResult::ok("gpu", message);
    }
    if card.compute.is_none() {
        let message = format!("{message}; the kernel's compute driver does not list it");
        return CheckResult::warn("gpu", message)
            .advise("ROCm cannot use a card that is not under /sys/class/kfd")
            .fix("sudo dmesg | grep -iE 'kfd|amdgpu'");
    }
    use_of.check(RuntimeKind::Rocm, &card.pci, message)
}

/// The two kinds of memory are always listed separately: their sum is more than a discrete card has, and VRAM alone is
/// a small part of what an APU can use.
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

/// Check of the GPU choice among several, if ROCm's default would be another.
fn choice(roots: &SystemRoots, query: &DeviceQuery) -> Option<CheckResult> {
    if query.kind != "rocm" {
        return None;
    }
    let order = rocm_order(&roots.sysfs)?;
    let which = if order.contains(',') {
        format!("ROCm is shown the GPUs in the order {order}")
    } else {
        format!("it has the number {order} in ROCm's own list")
    };
    let message = format!(
        "jobs use the strongest GPU: {which}; choose another in the setting runtime.device"
    );
    Some(CheckResult::ok("gpu choice", message))
}

/// Check of the memory available to the card in use, and of contradictory sources.
fn memory(card: &AmdCard, roots: &SystemRoots, query: &DeviceQuery) -> Option<CheckResult> {
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
        CheckResult::ok("gpu memory", message)
    } else {
        let message = format!("{message}; {}", budget.conflicts.join("; "));
        CheckResult::warn("gpu memory", message)
    };
    Some(match &budget.growth {
        Some(growth) => advise_growth(check, growth, roots),
        None => check,
    })
}

fn advise_growth(check: CheckResult, growth: &PoolGrowth, roots: &SystemRoots) -> CheckResult {
    let (gib, pages_limit) = (growth.gib, growth.pages_limit);
    let now = amdgpu::ttm_pages_limit(&roots.sysfs)
        .map_or_else(String::new, |pages| format!(" (now {pages})"));
    let first = if growth.has_large_carve_out {
        "Make the carve-out (UMA frame buffer) as small as the firmware lets you, then set "
    } else {
        "To let it have more, set "
    };
    check
        .advise(format!(
            "{first}ttm.pages_limit={pages_limit}, which is {gib} GiB{now}, rebuild the initramfs and restart; amdgpu.gttsize is obsolete"
        ))
        .fix(format!(
            "echo 'options ttm pages_limit={pages_limit}' | sudo tee /etc/modprobe.d/ttm.conf && (sudo update-initramfs -u || sudo dracut --force || sudo mkinitcpio -P)"
        ))
}

/// The check on the devices that a user opens.
fn access(roots: &SystemRoots) -> CheckResult {
    let access = GpuAccess::of_user(roots);
    if let Some(problem) = access.problem() {
        return CheckResult::warn("gpu access", problem.message)
            .advise(problem.advice)
            .fix(problem.command);
    }
    let groups = match access.missing_groups() {
        [] => "you are in the groups render and video".to_owned(),
        missing => format!("the groups {} are not needed here", missing.join(" and ")),
    };
    let message = format!("/dev/kfd and the render nodes can be opened; {groups}");
    CheckResult::ok("gpu access", message)
}
