//! This machine's GPUs as far as the choice of a libtorch needs them, recognised without any GPU library of a runtime:
//! AMD's by the kernel's tables, NVIDIA's by its driver and, where that does not answer, by the PCI bus.
//!
//! Reads only.

use std::fs;
use std::path::Path;

use safelight_core::settings::EngineBuild;
use serde::Serialize;

use super::table::RuntimeKind;
use crate::telemetry::device::is_display_only;
use crate::telemetry::gpu_access::GpuAccess;
use crate::telemetry::nvidia::NvidiaReport;
use crate::telemetry::{SystemRoots, amdgpu, host};
use crate::worker::served_versions;

const NVIDIA: &str = "0x10de";

/// A GPU that a libtorch could compute on, or why it cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MachineGpu {
    /// Such as `AMD gfx1151` or `NVIDIA H200`.
    pub name: String,
    pub pci: String,
    #[serde(skip)]
    pub kind: RuntimeKind,
    /// Compute target of the chip for AMD's compilers; `None` for NVIDIA's, and if the compute driver does not list the
    /// card.
    pub target: Option<String>,
    /// It draws the desktop, and another one computes.
    pub is_display_only: bool,
    /// The kernel has what this chip needs, whatever its number says.
    #[serde(skip)]
    has_wave_sizes: bool,
    /// Measure of its speed, for comparison.
    #[serde(skip)]
    strength: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineGpus {
    /// Those that compute first.
    pub gpus: Vec<MachineGpu>,
    /// The release of Linux.
    pub kernel: String,
    /// NVIDIA's driver, or why it says nothing.
    pub nvidia_driver: Option<Result<String, String>>,
    /// Reason why AMD's compute driver cannot be opened, and the command that fixes it.
    pub no_access: Option<(String, String)>,
    /// The versions of libtorch for which an engine is here.
    pub engines: Vec<&'static str>,
}

impl MachineGpu {
    /// One of which no more is known.
    pub fn plain(name: &str, pci: &str, kind: RuntimeKind) -> Self {
        Self {
            name: name.to_owned(),
            pci: pci.to_owned(),
            kind,
            target: None,
            is_display_only: false,
            has_wave_sizes: false,
            strength: 0,
        }
    }

    /// Returns whether a kernel of this version, including backports, supports this chip.
    pub(super) fn does(&self, kernel: &str, needed: &str) -> bool {
        let at_least = host::kernel_version(kernel) >= host::kernel_version(needed);
        at_least || self.has_wave_sizes
    }
}

impl MachineGpus {
    /// `nvidia`: what its driver says, or why it does not.
    pub fn find(roots: &SystemRoots, nvidia: &Result<NvidiaReport, String>) -> Self {
        let mut gpus = of_amd(&roots.sysfs);
        let no_access = gpus
            .iter()
            .any(|gpu| gpu.target.is_some())
            .then(|| GpuAccess::of_user(roots).problem())
            .flatten()
            .map(|problem| (problem.message, problem.command));
        let mut nvidia_driver = None;
        match nvidia {
            Ok(report) if !report.cards.is_empty() => {
                nvidia_driver = Some(Ok(report.driver.clone()));
                gpus.extend(report.cards.iter().map(|card| MachineGpu {
                    strength: card.memory.map_or(0, |memory| memory.total_bytes),
                    ..MachineGpu::plain(&card.name, &card.pci, RuntimeKind::Cuda)
                }));
            }
            other => {
                let on_bus = nvidia_on_bus(&roots.sysfs);
                if !on_bus.is_empty() {
                    let why = other.as_ref().err().cloned();
                    let why = why.unwrap_or_else(|| "it lists no card".to_owned());
                    nvidia_driver = Some(Err(why));
                    gpus.extend(on_bus);
                }
            }
        }
        gpus.sort_by_key(|gpu| (gpu.is_display_only, std::cmp::Reverse(gpu.strength)));
        Self {
            gpus,
            kernel: host::kernel_release(&roots.proc).unwrap_or_default(),
            nvidia_driver,
            no_access,
            engines: served_versions(),
        }
    }

    /// Returns whether an engine for this libtorch is installed.
    pub(super) fn has(&self, engine: Option<&EngineBuild>) -> bool {
        engine.is_some_and(|engine| self.engines.contains(&engine.libtorch))
    }
}

fn of_amd(sysfs: &Path) -> Vec<MachineGpu> {
    let cards = amdgpu::cards(sysfs);
    let gpu = |card: &amdgpu::AmdCard| MachineGpu {
        name: card.name(),
        pci: card.pci.clone(),
        kind: RuntimeKind::Rocm,
        target: card.gfx().map(str::to_owned),
        is_display_only: is_display_only(card, &cards),
        has_wave_sizes: card
            .compute
            .as_ref()
            .is_some_and(|node| node.has_wave_sizes),
        strength: card.compute.as_ref().map_or(0, |node| node.num_simds),
    };
    cards.iter().map(gpu).collect()
}

/// NVIDIA's graphics cards on the PCI bus, by number: only a driver knows their names.
pub fn nvidia_on_bus(sysfs: &Path) -> Vec<MachineGpu> {
    let entries = fs::read_dir(sysfs.join("bus/pci/devices"));
    let mut found: Vec<MachineGpu> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
            let (vendor, class) = (read("vendor")?, read("class")?);
            // Class 3 is what displays, or could.
            if vendor.trim() != NVIDIA || !class.starts_with("0x03") {
                return None;
            }
            let device = read("device")?;
            let device = device.trim().trim_start_matches("0x");
            let pci = entry.file_name().into_string().ok()?;
            let name = format!("NVIDIA device {device}");
            Some(MachineGpu::plain(&name, &pci, RuntimeKind::Cuda))
        })
        .collect();
    found.sort_by(|a, b| a.pci.cmp(&b.pci));
    found
}
