//! Lines of `safelight-engine probe-speed`: speed of matrix products, attention, convolutions and copies.
//!
//! Plain data: the engine measures, the doctor judges.

use serde::{Deserialize, Serialize};

use crate::enum_macros::labelled;

/// One line. A `Begin` without an end is what a driver hangs at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedLine {
    pub probe: SpeedProbe,
    #[serde(flatten)]
    pub state: SpeedState,
}

labelled! {
    // In the words of a sentence.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SpeedProbe {
        CopyToDevice = "copies to the device",
        CopyFromPinned = "copies to the device from pinned memory",
        CopyFromDevice = "copies from the device",
        CopyOnDevice = "copies within the device",
        MatrixF32 = "matrices in f32",
        MatrixBf16 = "matrices in bf16",
        MatrixF16 = "matrices in f16",
        /// As in a linear layer: the rows of the second matrix are read as columns.
        MatrixF32Transposed = "matrices in f32, the second transposed",
        MatrixBf16Transposed = "matrices in bf16, the second transposed",
        MatrixF16Transposed = "matrices in f16, the second transposed",
        Attention = "attention",
        Convolution = "convolutions",
        ConvolutionOverTime = "convolutions over time",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SpeedState {
    Begin,
    Done {
        /// GB/s for copies, TFLOP/s for the others.
        rate: f64,
        /// The size that was measured, in words.
        size: String,
        /// Seconds of one run.
        secs: f64,
        /// Attention kept all of its scores in memory, which large images cannot.
        #[serde(default)]
        keeps_scores: bool,
    },
    Failed {
        reason: String,
    },
}

impl SpeedProbe {
    pub fn unit(self) -> &'static str {
        match self {
            Self::CopyToDevice
            | Self::CopyFromPinned
            | Self::CopyFromDevice
            | Self::CopyOnDevice => "GB/s",
            _ => "TFLOP/s",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_flat_object() {
        let line = SpeedLine {
            probe: SpeedProbe::MatrixBf16,
            state: SpeedState::Done {
                rate: 31.5,
                size: "4096".to_owned(),
                secs: 0.004,
                keeps_scores: false,
            },
        };
        let text = serde_json::to_string(&line).unwrap();
        let holds = text.starts_with(r#"{"probe":"matrix_bf16","state":"done","rate":31.5"#);
        assert!(holds, "{text}");
        assert_eq!(serde_json::from_str::<SpeedLine>(&text).unwrap(), line);
        let begin: SpeedLine =
            serde_json::from_str(r#"{"probe":"attention","state":"begin"}"#).unwrap();
        assert_eq!(begin.state, SpeedState::Begin);
    }
}
