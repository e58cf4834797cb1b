//! What an engine says while it tries whether its libtorch computes right: one line of JSON each.
//!
//! Plain data: the engine tries, the app judges.

use serde::{Deserialize, Serialize};

use crate::named::labelled;

labelled! {
    /// What jobs are made of, in the words of a sentence.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Trial {
        MatrixProduct = "a matrix product",
        Convolution = "a convolution",
        Attention = "attention",
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum TrialLine {
    /// The first line: which device it got.
    Device {
        text: String,
        is_gpu: bool,
        /// Why the CPU computes though the libtorch is for a GPU.
        gpu_problem: Option<String>,
    },
    /// A trial that nothing more is heard of hung or crashed.
    Begin {
        trial: Trial,
    },
    /// It differs from the CPU by `error`, relative to the largest number, and is right up to `limit`.
    Done {
        trial: Trial,
        error: f64,
        limit: f64,
    },
    Failed {
        trial: Trial,
        reason: String,
    },
}
