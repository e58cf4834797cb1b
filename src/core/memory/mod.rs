//! Memory as plain data: what the user allows, what one stage may use, and the ladder that is climbed when it
//! runs out.
//!
//! Knows no device: bytes come from headers, formulas and measurements; the engine and the worker act on them.

mod activations;
pub mod compute_options;
pub mod conv_backends;
mod corrections;
pub mod counters;
mod device;
mod fault;
mod finishing;
mod network;
mod outcome;
mod parts;
mod plan;
mod report;
mod suggest;
mod verdict;

use serde::{Deserialize, Serialize};

pub use activations::{Job, Need};
pub(crate) use activations::{autoencoder, streams, text};
pub use corrections::{Corrections, Measured};
pub use device::{Budget, CONTEXT_BYTES, DeviceFacts, FIRST_CONTEXT_BYTES};
pub use fault::Fault;
pub use finishing::FinishPlanner;
pub(crate) use network::NetworkReader;
pub use network::{ModelWeights, Network, Tally};
pub use outcome::{PlanOutcome, StageOutcome};
pub use parts::PartName;
pub use plan::{Plan, Planner, StagePlan};
pub use report::{AllocationReport, HostMemory, Shortage, explain_shortage};
pub use suggest::{
    Alternative, Change, Largest, PreservedRow, Suggestion, largest, preserved_table, suggestions,
};
pub use verdict::Verdict;

use crate::named::named;
use compute_options::ComputeOptions;
use conv_backends::ConvBackend;

named! {
    /// How a device's memory relates to the host's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DeviceClass {
        /// One pool for the CPU and the GPU (gfx1151 and other APUs): unloading means dropping.
        Unified = "unified",
        Discrete = "discrete",
        Cpu = "cpu",
    }
}

/// How much of the device a job may use. `None` is what the plan computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryChoice {
    /// Bytes kept free for activations: resident weights get the budget less these, the other blocks stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserved_bytes: Option<u64>,
    /// Bytes of the device that the engine never goes beyond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_bytes: Option<u64>,
    /// Keep networks loaded from stage to stage where the plan proves that they fit.
    pub keep_loaded: bool,
}

/// What the engine may do with memory in one stage. The default is everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageMemory {
    /// Bytes of the stage's weights that may stay on the device; what is beyond streams. `None`: all stay.
    pub resident_bytes: Option<u64>,
    /// Bytes of the device that the allocator may hold. `None`: all that there are.
    pub cap_bytes: Option<u64>,
    /// Whether the stage's network may stay behind it.
    pub keep_loaded: bool,
    pub rung: Rung,
    /// Backend of the autoencoder's convolutions.
    pub conv_backend: ConvBackend,
    pub compute_options: ComputeOptions,
}

named! {
    /// How far a stage has climbed since its memory ran out; each rung includes those before it that the stage has.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[serde(rename_all = "snake_case")]
    pub enum Rung {
        /// As asked.
        #[default]
        Ground = "ground",
        /// Everything given back, and once more.
        FreeAndRetry = "free_and_retry",
        /// No weights stay on the device that can stream.
        StreamMore = "stream_more",
        /// The VAE in tiles of 512 pixels.
        Tiles512 = "tiles512",
        /// The VAE in tiles of 256 pixels.
        Tiles256 = "tiles256",
        OnCpu = "on_cpu",
    }
}

impl Rung {
    /// The edge of the tiles in which the VAE works from this rung on, in pixels.
    pub fn tile(self) -> Option<u32> {
        match self {
            Self::Ground | Self::FreeAndRetry | Self::StreamMore => None,
            Self::Tiles512 => Some(512),
            Self::Tiles256 | Self::OnCpu => Some(256),
        }
    }

    /// Whether what is made on this rung differs from what is made on the ground.
    pub fn changes_result(self) -> bool {
        self >= Self::Tiles512
    }
}

#[cfg(test)]
mod tests {
    mod planned;

    use super::*;

    #[test]
    fn a_rungs_name_is_the_one_it_is_stored_under() {
        for rung in Rung::ALL {
            assert_eq!(serde_json::json!(rung), rung.name());
        }
    }
}
