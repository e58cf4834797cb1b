//! Measured over predicted activations: a factor for each device, family and stage, in a small file.
//!
//! Weights are known exactly and not corrected. A missing or broken file only costs accuracy.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::read_json_or_default;
use crate::job::Stage;
use crate::memory::DeviceClass;
use crate::model::ModelFamily;

/// Range of factors: a formula that is further off is wrong.
const RANGE: std::ops::RangeInclusive<f64> = 0.5..=3.0;
/// Weight of a new measurement: sizes differ, and one odd run must not decide.
const PACE: f64 = 0.6;
/// Most entries: a file with more is not ours.
const MAX_ENTRIES: usize = 4096;

/// Factors by device, family and stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PeakCorrections {
    factors: BTreeMap<String, f64>,
}

#[derive(Clone, Copy, Debug)]
pub struct MeasuredPeak<'a> {
    /// The device's own name; empty where it is not known.
    pub device: &'a str,
    pub class: DeviceClass,
    pub family: ModelFamily,
    pub stage: Stage,
}

impl MeasuredPeak<'_> {
    fn keys(&self) -> [String; 2] {
        let key =
            |device: &str| format!("{device} | {} | {}", self.family.label, self.stage.name());
        [key(self.device), key(self.class.name())]
    }
}

impl PeakCorrections {
    /// Reads a file; empty if it is missing or broken.
    pub fn load(file: &Path) -> Self {
        let mut loaded: Self = read_json_or_default(file);
        if loaded.factors.len() > MAX_ENTRIES {
            return Self::default();
        }
        loaded.factors.retain(|_, factor| RANGE.contains(factor));
        loaded
    }

    /// Factor of the formula's result: the device's own, else that of its class.
    pub fn factor(&self, of: &MeasuredPeak<'_>) -> f64 {
        let known = of
            .keys()
            .into_iter()
            .find_map(|key| self.factors.get(&key).copied());
        known.unwrap_or(1.0)
    }

    /// `predicted`: by the formula alone, `measured`: the peak less the weights, both in bytes. Ignored if either is small.
    pub fn learn(&mut self, of: &MeasuredPeak<'_>, predicted: f64, measured: f64) {
        const LEAST: f64 = 1048576.0;
        if !(predicted >= LEAST
            && measured >= LEAST
            && predicted.is_finite()
            && measured.is_finite())
        {
            return;
        }
        let wanted = (measured / predicted).clamp(*RANGE.start(), *RANGE.end());
        let before = self.factor(of);
        let factor = (before + (wanted - before) * PACE).clamp(*RANGE.start(), *RANGE.end());
        for key in of.keys() {
            self.factors.insert(key, factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const OF: MeasuredPeak<'_> = MeasuredPeak {
        device: "a card",
        class: DeviceClass::Discrete,
        family: crate::families::wan::FAMILY,
        stage: Stage::Decode,
    };

    #[test]
    fn peak_corrections_converge_to_measurements_and_stay_within_bounds() {
        let mut learnt = PeakCorrections::default();
        assert_eq!(learnt.factor(&OF), 1.0);
        let predicted = 1e9;
        for _ in 0..8 {
            learnt.learn(&OF, predicted, 1.3e9);
        }
        assert!((learnt.factor(&OF) - 1.3).abs() < 0.01);
        for _ in 0..20 {
            learnt.learn(&OF, predicted, 1e15);
        }
        assert!((2.9999..=3.0).contains(&learnt.factor(&OF)));
        let before = learnt.clone();
        for wrong in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            learnt.learn(&OF, wrong, 1e9);
            learnt.learn(&OF, 1e9, wrong);
        }
        assert_eq!(learnt, before);
    }

    #[test]
    fn unknown_device_uses_peak_corrections_of_its_device_class() {
        let mut learnt = PeakCorrections::default();
        learnt.learn(&OF, 1e9, 1.2e9);
        let another = MeasuredPeak {
            device: "another",
            ..OF
        };
        assert_eq!(learnt.factor(&another), learnt.factor(&OF));
        let cpu = MeasuredPeak {
            class: DeviceClass::Cpu,
            ..another
        };
        assert_eq!(learnt.factor(&cpu), 1.0);
        let encode = MeasuredPeak {
            stage: Stage::EncodeImage,
            ..OF
        };
        assert_eq!(learnt.factor(&encode), 1.0);
    }

    #[test]
    fn a_broken_file_is_as_none_and_a_sound_one_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.json");
        assert_eq!(PeakCorrections::load(&file), PeakCorrections::default());
        let mut learnt = PeakCorrections::default();
        learnt.learn(&OF, 1e9, 1.2e9);
        crate::files::write_json(&file, &learnt).unwrap();
        let loaded = PeakCorrections::load(&file);
        assert!((loaded.factor(&OF) - learnt.factor(&OF)).abs() < 1e-9);
        for broken in ["", "[1]", "{\"a\": \"b\"}", "{\"a\": 1.2"] {
            fs::write(&file, broken).unwrap();
            let found = PeakCorrections::load(&file);
            assert_eq!(found, PeakCorrections::default(), "{broken}");
        }
        fs::write(&file, "{\"a\": 1e9, \"b\": 0.0, \"c\": 1.5}").unwrap();
        assert_eq!(PeakCorrections::load(&file).factors.len(), 1);
    }
}
