//! The device that would compute here and its memory, before any engine ran: for the plan.
//!
//! Asks drivers, so it is nothing for a thread that draws.

use safelight_core::job::DeviceChoice;
use safelight_core::memory::DeviceFacts;

use super::Roots;
use super::device::{DeviceQuery, device};

/// A device with its own name, empty where nobody says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub name: String,
    pub facts: DeviceFacts,
}

/// `kind`: `cpu`, `cuda` or `rocm`, which GPU half the chosen libtorch has.
pub fn machine(roots: &Roots, kind: &str, choice: DeviceChoice) -> Machine {
    let query = DeviceQuery {
        kind: match kind {
            "rocm" => "rocm",
            "cuda" => "cuda",
            _ => "cpu",
        },
        device: choice,
        ..DeviceQuery::default()
    };
    let found = device(roots, &query);
    Machine {
        // The kernel's tables do not say the name that the engine will.
        name: if kind == "rocm" && query.is_gpu() {
            String::new()
        } else {
            found.name
        },
        facts: found.facts,
    }
}
