//! A running engine as the worker sees it: two channels and a way to end it.
//!
//! It may be a process, or a thread of a test.

use std::path::PathBuf;
use std::process::Command;

use crossbeam_channel::{Receiver, Sender};
use safelight_core::job::{DeviceChoice, JobError};
use safelight_core::memory::conv_backends::MiopenMode;
use safelight_core::protocol::{EngineCommand, EngineMessage};
use safelight_core::settings::RuntimeProblem;

/// A message with the pixels that follow it.
pub type IncomingMessage = (EngineMessage, Vec<u8>);

/// A running engine. Its message channel closes when it is gone.
pub struct EngineLink {
    pub commands: Sender<EngineCommand>,
    pub messages: Receiver<IncomingMessage>,
    pub control: Box<dyn EngineControl>,
}

/// Control of an engine's process.
pub trait EngineControl: Send {
    /// Ends it at once, whatever it does. Safe to call twice.
    fn kill(&mut self);
    /// The number of its process, where it is one.
    fn process(&self) -> Option<u32> {
        None
    }
    /// Why it ended, as far as can be known.
    fn last_words(&mut self) -> ExitReport;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitReport {
    /// Its exit status in the first line, then its last lines.
    pub text: String,
    /// The system ended it because memory ran out.
    pub is_out_of_memory: bool,
}

pub trait EngineLauncher: Send {
    fn launch(&mut self, device: DeviceChoice) -> Result<EngineLink, JobError>;

    /// The libtorch that the next launch would take: an engine on another one is of the past.
    fn runtime(&mut self) -> Option<PathBuf>;

    /// Environment of the settings; an engine with another one is replaced.
    fn environment(&mut self) -> String {
        String::new()
    }

    /// Known problems of the next launch's libtorch.
    fn concerns(&mut self) -> Vec<RuntimeProblem> {
        Vec::new()
    }

    /// Returns the command that probes convolutions in a mode of MIOpen; `None` if the device needs no probe.
    fn probe(&mut self, _mode: MiopenMode) -> Option<ProbeOrder> {
        None
    }

    /// Sets the mode of MIOpen for the next launches. Returns whether it has changed.
    fn set_miopen(&mut self, _mode: MiopenMode) -> bool {
        false
    }
}

/// Probe command without arguments, and the versions that its verdict holds for.
pub struct ProbeOrder {
    pub command: Command,
    pub driver: String,
    pub libtorch: String,
    /// Other modes of MIOpen to probe.
    pub others: Vec<MiopenMode>,
}
