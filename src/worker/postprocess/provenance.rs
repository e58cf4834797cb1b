//! Device, libtorch and fallbacks that computed a post-processed result, stored in the job's folder: a resumed job whose
//! frames are all done starts no engine, and its result has the same settings.

use safelight_core::files::{read_json_or_default, write_optional_json};
use safelight_core::job::JobFolder;
use safelight_core::job_update::FallbackAttempt;
use safelight_core::protocol::EngineReport;
use serde::{Deserialize, Serialize};

/// Part of the result's settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::worker) struct ResultProvenance {
    device: Option<String>,
    libtorch: Option<String>,
    /// Fallbacks that changed the result, of all programs that computed it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    memory_rungs: Vec<FallbackAttempt>,
}

impl ResultProvenance {
    /// Reads the stored value; empty if there is none.
    pub(in crate::worker) fn load(folder: &JobFolder) -> Self {
        read_json_or_default(&folder.computed_file())
    }

    /// Sets the engine.
    pub(in crate::worker) fn by(self, engine: &EngineReport) -> Self {
        Self {
            device: Some(engine.device_name.clone()),
            libtorch: Some(engine.libtorch.clone()),
            ..self
        }
    }

    /// Adds the successful fallbacks that changed the result.
    pub(super) fn with(mut self, climbs: &[FallbackAttempt]) -> Self {
        for climb in climbs {
            let counts = climb.helped && climb.rung.changes_result();
            if counts && !self.memory_rungs.contains(climb) {
                self.memory_rungs.push(*climb);
            }
        }
        self
    }

    /// Stores it. On failure the result of a resumed job lacks what was computed before.
    pub(in crate::worker) fn save(&self, folder: &JobFolder) {
        write_optional_json(&folder.computed_file(), self, "the device of a job");
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::job::Stage;
    use safelight_core::memory::FallbackLevel;

    use super::*;

    #[test]
    fn a_resumed_job_adds_its_fallbacks_to_the_stored_ones() {
        let folder = tempfile::tempdir().unwrap();
        let folder = JobFolder::open(folder.path());
        let climb = |rung, helped| FallbackAttempt {
            stage: Stage::Upscale,
            section: 0,
            rung,
            helped,
        };
        assert_eq!(ResultProvenance::load(&folder), ResultProvenance::default());
        let climbs = [
            climb(FallbackLevel::OnCpu, true),
            climb(FallbackLevel::OnCpu, false),
        ];
        let computed = ResultProvenance::default().with(&climbs);
        assert_eq!(computed.memory_rungs, climbs[..1], "the other did not help");
        computed.save(&folder);
        assert_eq!(ResultProvenance::load(&folder), computed);
        assert_eq!(computed.clone().with(&climbs), computed, "recorded once");
    }
}
