//! The lines of `safelight-engine bench` that a report reads as they are: which cases there are, and how close small
//! networks come to what is known of them.
//!
//! Plain data: the engine measures, the report shows.

use serde::{Deserialize, Serialize};

/// What a case of a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// One call of a transformer.
    Step,
    /// Latents to pixels.
    Decode,
    /// A prompt to embeddings.
    Text,
    /// A call whose weights do not all stay on the device.
    Streaming,
}

/// A case of full size, as `bench list` names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseLine {
    /// As `bench` takes it.
    pub family: String,
    pub case: String,
    pub label: String,
    pub kind: CaseKind,
    /// What comes first where time is short is small.
    pub rank: u32,
    /// Memory of the device that it needs, with some room.
    pub gib: f64,
    /// What one call computes, roughly.
    pub tflop: f64,
    /// More arguments.
    pub options: Vec<String>,
}

/// How close one small network came, as `bench parity` tells it; distances are relative (L2).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParityLine {
    pub family: String,
    pub case: String,
    pub label: String,
    /// The CPU in f32 from the values that ship with Safelight; absent where there are none.
    pub from_shipped: Option<f64>,
    /// The device in f32 from the CPU in f32; absent on the CPU.
    pub in_f32: Option<f64>,
    /// The device in the numbers of a job from the CPU in f32; absent on the CPU.
    pub in_half: Option<f64>,
    /// What these may be at most: from what ships, in f32, in the numbers of a job.
    pub limits: [f64; 3],
    /// Why there is no distance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ParityLine {
    /// Whether everything that was compared is as close as it should be.
    pub fn is_well(&self) -> bool {
        let distances = [self.from_shipped, self.in_f32, self.in_half];
        let mut pairs = distances.iter().zip(self.limits);
        self.error.is_none() && pairs.all(|(found, limit)| found.is_none_or(|found| found <= limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_well_where_every_distance_that_is_known_is_small() {
        let line = ParityLine {
            in_f32: Some(1e-6),
            limits: [1e-4, 1e-4, 5e-2],
            ..ParityLine::default()
        };
        assert!(line.is_well());
        let far = ParityLine {
            in_half: Some(0.4),
            ..line.clone()
        };
        assert!(!far.is_well());
        let failed = ParityLine {
            error: Some("out of memory".to_owned()),
            ..line
        };
        assert!(!failed.is_well());
    }
}
