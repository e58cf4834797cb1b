//! Lines of `safelight-engine bench` that a report reads: the cases, and distances of small networks from known values.

use serde::{Deserialize, Serialize};

/// Kind of a family's case.
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
    /// Memory of the device that it needs, with some margin.
    pub gib: f64,
    /// Estimated work of one call.
    pub tflop: f64,
}

/// Relative L2 distances of one small network, as `bench parity` prints them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParityLine {
    pub case: String,
    pub label: String,
    /// Of the CPU in f32 from the values that ship with Safelight, where there are any.
    pub from_shipped: Option<f64>,
    /// Of the device in f32 from the CPU in f32; absent on the CPU.
    pub in_f32: Option<f64>,
    /// Of the device in a job's dtype from the CPU in f32; absent on the CPU.
    pub in_half: Option<f64>,
    /// Their largest values, in this order.
    pub limits: [f64; 3],
    /// Reason for missing distances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ParityLine {
    /// Returns true if no distance is above its limit.
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
