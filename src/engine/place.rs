//! Where a stage computes and in which kind of numbers, and how it opens weights there.
//!
//! Which component lies where is the family's business.

use std::path::Path;

use tch::{Device, Kind};

use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::weights::Weights;

/// Where a stage computes, and in which kind of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub device: Device,
    pub kind: Kind,
    /// Bytes of a component's weights that may stay on the device; the others stream. `None`: all stay.
    pub resident_bytes: Option<u64>,
    /// Whether networks may stay loaded behind their stage.
    pub keeps: bool,
}

impl Placement {
    /// Where all weights stay while their stage runs, and none behind it.
    pub fn new(device: Device, kind: Kind) -> Self {
        Self {
            device,
            kind,
            resident_bytes: None,
            keeps: false,
        }
    }

    /// The weights of a component: a folder or a file, which may hold other components too.
    pub fn open(self, place: &Path) -> Result<Weights, EngineError> {
        let weights = Weights::open(place, self.kind, self.device)?;
        Ok(weights.with_residency(self.resident_bytes))
    }
}

/// Tells of tensors that nobody asked for.
pub fn warn_unexpected(keys: &[String], component: &str, hooks: &dyn Hooks) {
    if let [first, ..] = keys {
        hooks.warn(format!(
            "the {component} has {} tensors that are not used, such as '{first}'",
            keys.len()
        ));
    }
}
