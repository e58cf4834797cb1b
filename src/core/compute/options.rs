//! Attention kernel, matrix library and decode chunk of a job: settings that change time and the last bits of a result.
//!
//! Convolutions: [`conv_backends`](super::conv_backends).

use serde::{Deserialize, Serialize};

use crate::enum_macros::named;

named! {
    /// Attention kernel on a GPU. The scores of all tokens are never computed together.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum AttentionChoice {
        /// The fastest fused kernel that libtorch has, else slices.
        #[default]
        Auto = "auto", "Automatic";
        /// Flash attention, else slices.
        Flash = "flash", "Flash";
        /// Memory-efficient attention, else slices.
        Efficient = "efficient", "Memory-efficient";
        /// A few rows of the scores at a time, without any fused kernel; on the CPU too.
        Sliced = "sliced", "In slices";
    }
}

named! {
    /// Library that multiplies matrices on a GPU.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum MatrixLibrary {
        /// Preferred by libtorch.
        #[default]
        Auto = "auto", "Automatic";
        Lt = "lt", "hipBLASLt or cuBLASLt";
        Classic = "classic", "rocBLAS or cuBLAS";
    }
}

named! {
    /// Number of latent frames that a video decoder takes at a time.
    ///
    /// On an H200, Wan 2.1's VAE decodes 480 × 512 pixels in 207 ms with 1, 204 with 2, 196 with 4 and 193 with 8.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash
    )]
    pub enum DecodeChunk {
        /// As many as fit into memory; 1 for the engine.
        #[default]
        Auto = "auto", "Automatic";
        One = "1", "1";
        Two = "2", "2";
        Four = "4", "4";
        Eight = "8", "8";
    }
}

impl DecodeChunk {
    pub fn frames(self) -> u32 {
        match self {
            Self::Auto | Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// Values of these options in settings, stages and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ComputeOptions {
    #[serde(skip_serializing_if = "is_default")]
    pub attention: AttentionChoice,
    #[serde(skip_serializing_if = "is_default")]
    pub matrices: MatrixLibrary,
    #[serde(skip_serializing_if = "is_default")]
    pub chunk: DecodeChunk,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
