//! A running engine as the worker sees it: two channels and a way to end it.
//!
//! Whether a process, a thread or a test stands behind it is not known here.

use std::path::PathBuf;
use std::process::Command;

use crossbeam_channel::{Receiver, Sender};
use safelight_core::job::{DeviceChoice, JobError};
use safelight_core::memory::tiers::MiopenWay;
use safelight_core::protocol::{EngineCommand, EngineMessage};
use safelight_core::settings::Concern;

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
    /// The number of its process, where it is one.
    fn process(&self) -> Option<u32> {
        None
    }
    /// Why it ended, as far as can be known.
    fn last_words(&mut self) -> LastWords;
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWords {
    /// Its exit status in the first line, then its last lines.
    pub text: String,
    /// The system ended it because memory ran out.
    pub is_out_of_memory: bool,
}

pub trait EngineLauncher: Send {
    fn launch(&mut self, device: DeviceChoice) -> Result<EngineLink, JobError>;

    /// The libtorch that the next launch would take: an engine on another one is of the past.
    fn runtime(&mut self) -> Option<PathBuf>;

    /// What the settings say of the next launch's environment: an engine with another one is of the past too.
    fn environment(&mut self) -> String {
        String::new()
    }

    /// What is known to be wrong with the libtorch of the next launch.
    fn concerns(&mut self) -> Vec<Concern> {
        Vec::new()
    }

    /// How the convolutions of these engines' GPUs are probed, with MIOpen in this way; `None` where no probe is needed.
    fn probe(&mut self, _way: MiopenWay) -> Option<ProbeOrder> {
        None
    }

    /// How ways of computing are measured on these engines' device; `None` where nothing can be.
    fn measuring(&mut self, _device: DeviceChoice) -> Option<ProbeOrder> {
        None
    }

    /// The way of MIOpen for the next launches; whether it is another one than before.
    fn set_miopen(&mut self, _way: MiopenWay) -> bool {
        false
    }
}

/// What probes a device, without arguments yet, and the versions that its verdict holds for.
pub struct ProbeOrder {
    pub command: Command,
    pub driver: String,
    pub libtorch: String,
    /// The other ways of MIOpen that are worth a try.
    pub others: Vec<MiopenWay>,
}
