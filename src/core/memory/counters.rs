//! How often memory ran out, what helped, and how often an engine had to be replaced: one small file for all devices.
//!
//! The worker counts; the doctor and the window show. Losing the file costs nothing but history.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Rung;
use crate::files::{read_json_or_default, write_json};

/// By the device's own name. Kept in [`Paths::memory_counters`](crate::settings::Paths::memory_counters).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counters(BTreeMap<String, DeviceCounters>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceCounters {
    /// How often each rung of the ladder was tried, and how often the stage then ended well.
    pub rungs: BTreeMap<Rung, Tally>,
    /// Engines that died, hung or had to be given up.
    pub engine_restarts: u64,
    /// Stages that no rung could save.
    pub given_up: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    pub attempts: u64,
    pub successes: u64,
}

impl Counters {
    /// Nothing where there is no file, or none that can be read.
    pub fn load(file: &Path) -> Self {
        read_json_or_default(file)
    }

    pub fn save(&self, file: &Path) -> io::Result<()> {
        write_json(file, self)
    }

    /// Of a device that something happened on.
    pub fn device(&self, name: &str) -> Option<&DeviceCounters> {
        self.0.get(name)
    }

    pub fn devices(&self) -> impl Iterator<Item = (&str, &DeviceCounters)> {
        self.0
            .iter()
            .map(|(name, counters)| (name.as_str(), counters))
    }

    pub fn device_mut(&mut self, name: &str) -> &mut DeviceCounters {
        self.0.entry(name.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_come_back_from_their_file_and_a_broken_one_counts_from_zero() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ladder.json");
        assert_eq!(Counters::load(&file), Counters::default());
        let mut counters = Counters::default();
        let device = counters.device_mut("a GPU");
        device.engine_restarts = 2;
        device.rungs.insert(
            Rung::Tiles512,
            Tally {
                attempts: 3,
                successes: 1,
            },
        );
        counters.save(&file).unwrap();
        assert_eq!(Counters::load(&file), counters);
        assert!(
            std::fs::read_to_string(&file)
                .unwrap()
                .contains("\"tiles512\"")
        );
        std::fs::write(&file, "{").unwrap();
        assert_eq!(Counters::load(&file), Counters::default());
    }
}
