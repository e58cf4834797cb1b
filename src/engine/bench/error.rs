//! Why nothing was measured.

use std::io;

use crate::process::ProcessError;
use crate::runtime::RuntimeError;
use crate::weights::WeightsError;

/// One sentence each.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("{0}")]
    Arguments(String),
    #[error(
        "expected a GPU for networks of full size, found {found}; --small measures small ones of the same structure"
    )]
    NeedsGpu { found: String },
    #[error(transparent)]
    Device(#[from] RuntimeError),
    #[error(transparent)]
    Weights(#[from] WeightsError),
    #[error("{0}")]
    Failed(String),
    #[error("a file to measure cannot be made: {0}")]
    MadeUp(String),
    #[error("the device failed while it was measured")]
    DeviceFailed,
    #[error("the results cannot be written: {0}")]
    Output(#[from] io::Error),
}

impl BenchError {
    /// 2 for what was asked for wrongly, as in the rest of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_) | Self::NeedsGpu { .. } => 2,
            _ => 1,
        }
    }
}

impl From<BenchError> for ProcessError {
    fn from(err: BenchError) -> Self {
        match err.exit_code() {
            2 => Self::Arguments(err.to_string()),
            _ => Self::Failed(err.to_string()),
        }
    }
}
