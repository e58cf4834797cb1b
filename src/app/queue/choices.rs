//! What can be chosen of the queue, and what it asks: plain data.

use std::path::PathBuf;
use std::sync::Arc;

use safelight_core::job::JobError;
use serde::{Deserialize, Serialize};

use crate::app::inputs::slots::Placing;

/// What is remembered of the panel across runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueuePanel {
    pub is_open: bool,
}

/// Where a job is to stand in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Up,
    Down,
    Top,
    /// Before the job that stands at this number now, from 0.
    Before(usize),
}

/// Files whose purpose is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Several {
    pub paths: Vec<PathBuf>,
    pub(in crate::app) placing: Placing,
    /// The form has places for so many of them.
    pub takes: usize,
}

/// What several files are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Each,
    /// The first of them into the form, as many as it has places for.
    Form,
    /// Nothing.
    None,
}

/// What happens when the last job has ended. It counts for this run of the program alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterQueue {
    #[default]
    Nothing,
    Quit,
    Suspend,
}

impl AfterQueue {
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Quit, Self::Suspend];

    /// The name in the interface.
    pub fn label(self) -> &'static str {
        match self {
            Self::Nothing => "Do nothing",
            Self::Quit => "Quit Safelight",
            Self::Suspend => "Suspend the computer",
        }
    }
}

/// The time that is left to say no.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Countdown {
    pub action: AfterQueue,
    /// On the window's clock.
    pub(super) ends_at: f64,
    /// Whole seconds that are left.
    pub secs_left: u32,
}

/// Sends the machine to sleep, or says why it stays awake.
pub type Suspend = Arc<dyn Fn() -> Result<(), JobError> + Send + Sync>;
