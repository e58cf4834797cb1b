//! A running engine as the worker sees it: two channels and a way to end it.
//!
//! Whether a process, a thread or a test stands behind it is not known here.

use crossbeam_channel::{Receiver, Sender};
use safelight_core::job::{DeviceChoice, JobError};
use safelight_core::protocol::{EngineCommand, EngineMessage};

/// A message with the pixels that follow it.
pub type Incoming = (EngineMessage, Vec<u8>);

/// A running engine. Its message channel closes when it is gone.
pub struct EngineLink {
    pub commands: Sender<EngineCommand>,
    pub messages: Receiver<Incoming>,
    pub control: Box<dyn EngineControl>,
}

/// What can be done to an engine from outside.
pub trait EngineControl: Send {
    /// Ends it at once, whatever it does. Safe to call twice.
    fn kill(&mut self);
    /// Why it ended, as far as can be known: its exit status and its last lines.
    fn last_words(&mut self) -> String;
}

/// Starts engines.
pub trait EngineLauncher: Send {
    fn launch(&mut self, device: DeviceChoice) -> Result<EngineLink, JobError>;
}
