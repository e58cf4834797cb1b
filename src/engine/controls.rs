//! ControlNets of a job: each file is loaded once besides the transformer, and both share the resident weight budget.

use std::fs;
use std::path::Path;

use safelight_core::job::ControlInput;
use safelight_core::networks::NetworkConfig;

use crate::error::EngineError;
use crate::memory::CachedNetwork;
use crate::placement::{ComputePlacement, build};
use crate::weights::{Weights, WeightsError};
use crate::work::StageWork;

/// Cache names of a job's ControlNets, at most this many.
const NAMES: [&str; 4] = [
    "ControlNet",
    "second ControlNet",
    "third ControlNet",
    "fourth ControlNet",
];

/// Networks of a job's controls, several of which may share one.
pub struct LoadedControls<T: 'static> {
    networks: Vec<CachedNetwork<T>>,
    /// Index of each control's network.
    numbers: Vec<usize>,
}

impl<T: 'static> Default for LoadedControls<T> {
    fn default() -> Self {
        Self {
            networks: Vec::new(),
            numbers: Vec::new(),
        }
    }
}

impl<T: 'static> LoadedControls<T> {
    /// Networks in the order of the request's controls.
    pub fn each(&self) -> impl Iterator<Item = &T> {
        self.numbers.iter().map(|number| &*self.networks[*number])
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// Error for a ControlNet that does not fit the job's model; `problem`: a sentence without its path.
pub fn unfit(problem: &str, control: &ControlInput) -> EngineError {
    let path = control.settings.network.as_deref().unwrap_or(&control.file);
    let path = path.display();
    EngineError::request(format!("{problem}; choose another ControlNet: {path}"))
}

impl StageWork<'_> {
    /// Loads the networks of the request's controls. The transformer at `home`, to be loaded after them, gets the rest of
    /// the resident weight budget.
    pub fn control_networks<C: NetworkConfig, T: 'static>(
        &mut self,
        home: &Path,
        new: fn(&C, &Weights) -> Result<T, WeightsError>,
    ) -> Result<LoadedControls<T>, EngineError> {
        let mut places: Vec<&Path> = Vec::new();
        let mut numbers = Vec::new();
        for control in &self.request.controls {
            let place = control.settings.network.as_deref();
            let place = place.ok_or_else(|| EngineError::request("a control has no network"))?;
            let known = places.iter().position(|known| *known == place);
            numbers.push(known.unwrap_or(places.len()));
            if known.is_none() {
                places.push(place);
            }
        }
        if places.len() > NAMES.len() {
            let reason = format!("a job has {} ControlNets at most", NAMES.len());
            return Err(EngineError::request(reason));
        }
        let whole = self.place;
        let all: u64 = places.iter().map(|place| bytes(place)).sum::<u64>() + bytes(home);
        let share = |place: &Path| share(whole, bytes(place), all);
        let networks = places.iter().zip(NAMES).map(|(path, name)| {
            let place = share(path);
            let config = C::read(path)?;
            place.network(name, path, &[], || {
                let weights = place.open(path)?;
                let new = |w: &Weights| new(&config, w);
                let network = build(&weights, "ControlNet", self.hooks, new, Weights::finish)?;
                weights.settle()?;
                Ok(network)
            })
        });
        let networks = networks.collect::<Result<Vec<_>, EngineError>>()?;
        self.place = share(home);
        Ok(LoadedControls { networks, numbers })
    }
}

/// Size of the files at a place.
fn bytes(place: &Path) -> u64 {
    let files = Weights::files_of(place).into_iter();
    files
        .filter_map(|file| Some(fs::metadata(file).ok()?.len()))
        .sum()
}

/// Placement with the share of the resident budget for `own` of `all` bytes.
fn share(whole: ComputePlacement, own: u64, all: u64) -> ComputePlacement {
    let of = |bytes: u64| u128::from(bytes) * u128::from(own) / u128::from(all.max(1));
    ComputePlacement {
        resident_bytes: whole.resident_bytes.map(|bytes| of(bytes) as u64),
        ..whole
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    #[test]
    fn controlnets_share_the_resident_bytes_by_file_size() {
        let whole = ComputePlacement {
            resident_bytes: Some(10 << 30),
            ..ComputePlacement::new(Device::Cpu, Kind::Float)
        };
        assert_eq!(share(whole, 3, 5).resident_bytes, Some(6 << 30));
        assert_eq!(share(whole, 0, 0).resident_bytes, Some(0));
        let stays = ComputePlacement::new(Device::Cpu, Kind::Float);
        assert_eq!(share(stays, 3, 5), stays);
    }
}
