//! What computed the frames of a result, kept in the job's folder: who resumes a job whose frames are all done starts no
//! engine, and the result says the same of itself as if nobody had stopped it.
//!
//! Only of jobs that finish something: those that generate decode anew, and ask their engine.

use safelight_core::files::{MAX_JSON_BYTES, read_bounded, write_json};
use safelight_core::job::{Climb, JobFolder};
use safelight_core::protocol::EngineReport;
use serde::{Deserialize, Serialize};

/// As it stands in the settings of the result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Computed {
    device: Option<String>,
    libtorch: Option<String>,
    /// The rungs that changed the result, of all programs that worked at it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    memory_rungs: Vec<Climb>,
}

impl Computed {
    /// What was kept so far; nothing where nothing was, or where it cannot be read.
    pub(super) fn kept(folder: &JobFolder) -> Self {
        let text = read_bounded(&folder.computed_file(), MAX_JSON_BYTES);
        let kept = text
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        kept.unwrap_or_default()
    }

    /// By this engine from now on.
    pub(super) fn by(self, engine: &EngineReport) -> Self {
        Self {
            device: Some(engine.device_name.clone()),
            libtorch: Some(engine.libtorch.clone()),
            ..self
        }
    }

    /// With those of these climbs that helped and changed the result.
    pub(super) fn climbed(mut self, climbs: &[Climb]) -> Self {
        for climb in climbs {
            let counts = climb.helped && climb.rung.changes_result();
            if counts && !self.memory_rungs.contains(climb) {
                self.memory_rungs.push(*climb);
            }
        }
        self
    }

    /// Keeps it for whoever resumes the job. Without it they say nothing of what was computed before.
    pub(super) fn keep(&self, folder: &JobFolder) {
        if let Err(err) = write_json(&folder.computed_file(), self) {
            tracing::warn!("what computes a job could not be recorded: {err}");
        }
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::job::Stage;
    use safelight_core::memory::Rung;

    use super::*;

    #[test]
    fn who_goes_on_adds_to_what_was_kept_and_forgets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = JobFolder::at(folder.path());
        let climb = |rung, helped| Climb {
            stage: Stage::Upscale,
            section: 0,
            rung,
            helped,
        };
        assert_eq!(Computed::kept(&folder), Computed::default());
        let climbs = [climb(Rung::OnCpu, true), climb(Rung::OnCpu, false)];
        let computed = Computed::default().climbed(&climbs);
        assert_eq!(computed.memory_rungs, climbs[..1], "the other did not help");
        computed.keep(&folder);
        assert_eq!(Computed::kept(&folder), computed);
        assert_eq!(computed.clone().climbed(&climbs), computed, "told once");
    }
}
