//! The device that would compute here and its memory, before any engine ran: for the plan.
//!
//! Asks drivers, so it is nothing for a thread that draws.

use safelight_core::job::DeviceChoice;
use safelight_core::memory::{DeviceClass, DeviceFacts};

use super::{Roots, amdgpu, host, nvidia};

/// A device with its own name, empty where nobody says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub name: String,
    pub facts: DeviceFacts,
}

/// `kind`: `cpu`, `cuda` or `rocm`, which GPU half the chosen libtorch has.
pub fn machine(roots: &Roots, kind: &str, device: DeviceChoice) -> Machine {
    let host = host::memory(&roots.proc);
    let available = host.map_or(0, |host| host.available_bytes);
    let index = match device {
        DeviceChoice::Cuda(index) => index,
        _ => 0,
    };
    let gpu = match kind {
        _ if device == DeviceChoice::Cpu => None,
        "rocm" => amd(roots, index, available),
        "cuda" => nvidia(index, available),
        _ => None,
    };
    gpu.unwrap_or_else(|| Machine {
        name: "CPU".to_owned(),
        facts: DeviceFacts {
            class: DeviceClass::Cpu,
            total_bytes: host.map_or(0, |host| host.total_bytes),
            used_bytes: 0,
            host_available_bytes: available,
        },
    })
}

fn amd(roots: &Roots, index: usize, host_available_bytes: u64) -> Option<Machine> {
    let cards = amdgpu::cards(&roots.sysfs);
    let card = cards
        .into_iter()
        .filter(|card| card.compute.is_some())
        .nth(index)?;
    let memory = card.memory()?;
    Some(Machine {
        name: String::new(),
        facts: DeviceFacts {
            class: if memory.is_unified() {
                DeviceClass::Unified
            } else {
                DeviceClass::Discrete
            },
            total_bytes: memory.total_bytes(),
            used_bytes: memory.used_bytes(),
            host_available_bytes,
        },
    })
}

fn nvidia(index: usize, host_available_bytes: u64) -> Option<Machine> {
    let report = nvidia::report().ok()?;
    let card = report.cards.into_iter().nth(index)?;
    Some(Machine {
        name: card.name,
        facts: DeviceFacts {
            class: DeviceClass::Discrete,
            total_bytes: card.total_bytes,
            used_bytes: card.used_bytes,
            host_available_bytes,
        },
    })
}
