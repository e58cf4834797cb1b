//! Predicted and measured peaks of a job.
//!

use serde::{Deserialize, Serialize};

use crate::job::Stage;
use crate::units::gib_text;

/// Peaks of one stage, as the allocator counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageOutcome {
    pub stage: Stage,
    pub predicted_bytes: u64,
    pub measured_bytes: u64,
}

/// Peaks of a whole job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOutcome {
    /// Largest of all stages.
    pub predicted_bytes: u64,
    pub measured_bytes: u64,
    pub stages: Vec<StageOutcome>,
}

impl PlanOutcome {
    /// Returns `None` if nothing was measured.
    pub fn from_stages(stages: Vec<StageOutcome>) -> Option<Self> {
        let predicted = stages.iter().map(|stage| stage.predicted_bytes);
        let measured = stages.iter().map(|stage| stage.measured_bytes);
        let (predicted_bytes, measured_bytes) = (predicted.max()?, measured.max()?);
        (measured_bytes > 0).then_some(Self {
            predicted_bytes,
            measured_bytes,
            stages,
        })
    }

    /// `predicted 21.3, measured 20.8 GiB`
    pub fn line(&self) -> String {
        let (predicted, measured) = (
            gib_text(self.predicted_bytes),
            gib_text(self.measured_bytes),
        );
        format!("predicted {predicted}, measured {measured} GiB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stages_are_compared_and_nothing_measured_is_no_outcome() {
        let stage = |predicted_bytes, measured_bytes| StageOutcome {
            stage: Stage::Denoise,
            predicted_bytes,
            measured_bytes,
        };
        let stages = vec![stage(1 << 30, 3 << 30), stage(5 << 29, 1 << 30)];
        let outcome = PlanOutcome::from_stages(stages).unwrap();
        assert_eq!(outcome.line(), "predicted 2.5, measured 3.0 GiB");
        assert_eq!(PlanOutcome::from_stages(Vec::new()), None);
        assert_eq!(PlanOutcome::from_stages(vec![stage(7, 0)]), None);
    }
}
