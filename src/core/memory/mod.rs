//! Memory of a device: options of a job, limits of a stage, faults and fallback levels, as plain data.
//!
//! `footprint` counts the bytes of networks, `plan` compares them with the budget.

pub mod counters;
mod device;
mod fault;

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

pub use device::{CONTEXT_BYTES, DeviceFacts, FIRST_CONTEXT_BYTES, MemoryBudget};
pub use fault::ResourceFault;

use crate::compute::ComputeOptions;
use crate::compute::conv_backends::ConvBackend;
use crate::enum_macros::{named, parsed};

named! {
    /// Relation of a device's memory to the host's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum DeviceClass {
        /// One pool for the CPU and the GPU (gfx1151 and other APUs): unloading means dropping.
        Unified = "unified",
        Discrete = "discrete",
        Cpu = "cpu",
    }
}

parsed!(DeviceClass, "a class of device");

/// Memory options of a job. `None`: computed by the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryOptions {
    /// Bytes kept free for activations: resident weights get the budget less these, the other blocks stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserved_bytes: Option<u64>,
    /// Bytes of the device that the engine never goes beyond.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_bytes: Option<u64>,
    /// Keep networks loaded from stage to stage where the plan proves that they fit.
    pub keep_loaded: bool,
    /// Devices of each computer that share the denoising, each with all weights; `None`: one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<NonZeroU32>,
}

impl MemoryOptions {
    /// Number of devices of each computer that share the denoising.
    pub fn num_devices(&self) -> u32 {
        self.devices.map_or(1, NonZeroU32::get)
    }
}

/// Memory limits of one stage. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageMemory {
    /// Bytes of weights that stay on the device; the others stream. `None`: all stay.
    pub resident_bytes: Option<u64>,
    /// Cap of the allocator, in bytes. `None`: no cap.
    pub cap_bytes: Option<u64>,
    /// Networks may stay loaded after the stage.
    pub keep_loaded: bool,
    pub rung: FallbackLevel,
    /// Backend of the autoencoder's convolutions.
    pub conv_backend: ConvBackend,
    pub compute_options: ComputeOptions,
}

named! {
    /// Fallback level of a stage after out-of-memory errors. Each level includes the lower ones that apply to the stage.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash
    )]
    pub enum FallbackLevel {
        /// As requested.
        #[default]
        Ground = "ground",
        /// All unused memory is freed, then the stage runs again.
        FreeAndRetry = "free_and_retry",
        /// All weights stream that can.
        StreamMore = "stream_more",
        /// The VAE in tiles of 512 pixels.
        Tiles512 = "tiles512",
        /// The VAE in tiles of 256 pixels.
        Tiles256 = "tiles256",
        OnCpu = "on_cpu",
    }
}

impl FallbackLevel {
    /// Edge of the VAE's tiles from this level on, in pixels.
    pub fn tile(self) -> Option<u32> {
        match self {
            Self::Ground | Self::FreeAndRetry | Self::StreamMore => None,
            Self::Tiles512 => Some(512),
            Self::Tiles256 | Self::OnCpu => Some(256),
        }
    }

    /// The result differs from one without a fallback.
    pub fn changes_result(self) -> bool {
        self >= Self::Tiles512
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rungs_name_is_the_one_it_is_stored_under() {
        for rung in FallbackLevel::ALL {
            assert_eq!(serde_json::json!(rung), rung.name());
        }
    }
}
