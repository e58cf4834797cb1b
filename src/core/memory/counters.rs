//! Counts of out-of-memory errors, of fallbacks that helped, and of engine restarts, by device, in one small file.
//!
//! The worker counts; the doctor and the window show them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::FallbackLevel;
use crate::files::read_json_or_default;

/// By the device's own name. Kept in [`AppPaths::memory_counters`](crate::settings::AppPaths::memory_counters).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FallbackCounters(BTreeMap<String, DeviceCounters>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceCounters {
    /// Attempts of each fallback level, and how many of them succeeded.
    pub rungs: BTreeMap<FallbackLevel, FallbackCount>,
    /// Engines that died, hung or were ended.
    pub engine_restarts: u64,
    /// Stages that no level could save.
    pub given_up: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FallbackCount {
    pub attempts: u64,
    pub successes: u64,
}

impl FallbackCounters {
    /// Reads a file; empty if it is missing or broken.
    pub fn load(file: &Path) -> Self {
        read_json_or_default(file)
    }

    /// Counts of a device, if there are any.
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
        assert_eq!(FallbackCounters::load(&file), FallbackCounters::default());
        let mut counters = FallbackCounters::default();
        let device = counters.device_mut("a GPU");
        device.engine_restarts = 2;
        device.rungs.insert(
            FallbackLevel::Tiles512,
            FallbackCount {
                attempts: 3,
                successes: 1,
            },
        );
        crate::files::write_json(&file, &counters).unwrap();
        assert_eq!(FallbackCounters::load(&file), counters);
        assert!(
            std::fs::read_to_string(&file)
                .unwrap()
                .contains("\"tiles512\"")
        );
        std::fs::write(&file, "{").unwrap();
        assert_eq!(FallbackCounters::load(&file), FallbackCounters::default());
    }
}
