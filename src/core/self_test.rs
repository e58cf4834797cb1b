//! Messages of an engine that tests its libtorch, one line of JSON each.
//!
//! Plain data: the engine tries, the app judges.

use serde::{Deserialize, Serialize};

use crate::enum_macros::labelled;

labelled! {
    /// Computations that the self-test covers, as words in a sentence.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SelfTest {
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
        trial: SelfTest,
    },
    /// It differs from the CPU by `error`, relative to the largest number, and is right up to `limit`.
    Done {
        trial: SelfTest,
        error: f64,
        limit: f64,
    },
    Failed {
        trial: SelfTest,
        reason: String,
    },
}
