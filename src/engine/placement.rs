//! Device and dtype of a stage, and opening of weights there.
//!
//! Families define the paths of components.

use std::path::Path;

use tch::{Device, Kind};

use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::weights::{Weights, WeightsError};

/// As in settings.
pub fn dtype_name(kind: Kind) -> &'static str {
    match kind {
        Kind::BFloat16 => "bf16",
        Kind::Half => "f16",
        _ => "f32",
    }
}

/// Device and dtype of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputePlacement {
    pub device: Device,
    pub kind: Kind,
    /// Bytes of a component's weights that may stay on the device; the others stream. `None`: all stay.
    pub resident_bytes: Option<u64>,
    /// True if networks may stay loaded after their stage.
    pub keeps: bool,
}

impl ComputePlacement {
    /// All weights are resident while their stage runs, and none afterwards.
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

/// Network that `new` builds from a component's weights. Warns of unread tensors, which `unexpected` lists, and of
/// layers that LoRAs change and the network does not have.
pub fn build<T>(
    weights: &Weights,
    component: &str,
    hooks: &dyn Hooks,
    new: impl FnOnce(&Weights) -> Result<T, WeightsError>,
    unexpected: fn(&Weights) -> Vec<String>,
) -> Result<T, EngineError> {
    let network = new(weights)?;
    let unexpected = unexpected(weights);
    match &unexpected[..] {
        [] => {}
        [only] => hooks.warn(format!(
            "the {component} has a tensor that is not used: '{only}'"
        )),
        [first, ..] => {
            let count = unexpected.len();
            hooks.warn(format!(
                "the {component} has {count} tensors that are not used, such as '{first}'"
            ));
        }
    }
    warn_unused_updates(weights, hooks);
    Ok(network)
}

/// Says so when a network turns out not to have layers that LoRAs change.
fn warn_unused_updates(weights: &Weights, hooks: &dyn Hooks) {
    let unused = weights.unused_updates();
    match &unused[..] {
        [] => {}
        [only] => hooks.warn(format!("LoRAs change a layer that is not used: '{only}'")),
        [first, ..] => {
            let count = unused.len();
            hooks.warn(format!(
                "LoRAs change {count} layers that are not used, such as '{first}'"
            ));
        }
    }
}
