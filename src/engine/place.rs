//! Where a stage computes and in which kind of numbers, and how it opens weights there.
//!
//! Which component lies where is the family's business.

use std::path::Path;

use tch::{Device, Kind};

use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::memory::Lent;
use crate::weights::{Weights, WeightsError, warn_unused_updates};

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

    /// Opens a component and gives what [`made`] makes of it.
    pub fn load<T>(
        self,
        component: &str,
        home: &Path,
        hooks: &dyn Hooks,
        new: impl FnOnce(&Weights) -> Result<T, WeightsError>,
        unexpected: fn(&Weights) -> Vec<String>,
    ) -> Result<T, EngineError> {
        made(&self.open(home)?, component, hooks, new, unexpected)
    }

    /// The same for the decoder of an autoencoder, which may stay loaded when its stage ends.
    pub fn decoder<T: 'static>(
        self,
        home: &Path,
        hooks: &dyn Hooks,
        new: impl FnOnce(&Weights) -> Result<T, WeightsError>,
        unexpected: fn(&Weights) -> Vec<String>,
    ) -> Result<Lent<T>, EngineError> {
        self.network("decoder", home, &[], || {
            self.load("autoencoder", home, hooks, new, unexpected)
        })
    }
}

/// The network that `new` makes of a component's weights. Warns of tensors that nothing asked for, which `unexpected`
/// lists, and of layers that LoRAs change and that the network does not have.
pub fn made<T>(
    weights: &Weights,
    component: &str,
    hooks: &dyn Hooks,
    new: impl FnOnce(&Weights) -> Result<T, WeightsError>,
    unexpected: fn(&Weights) -> Vec<String>,
) -> Result<T, EngineError> {
    let network = new(weights)?;
    warn_unexpected(&unexpected(weights), component, hooks);
    warn_unused_updates(weights, hooks);
    Ok(network)
}

/// Tells of tensors that nobody asked for.
fn warn_unexpected(keys: &[String], component: &str, hooks: &dyn Hooks) {
    if let [first, ..] = keys {
        hooks.warn(format!(
            "the {component} has {} tensors that are not used, such as '{first}'",
            keys.len()
        ));
    }
}
