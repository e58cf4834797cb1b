//! A running engine as the worker sees it: two channels and a way to end it.
//!
//! It may be a process, or a thread of a test.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use safelight_core::compute::conv_backends::MiopenMode;
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use safelight_core::protocol::{EngineCommand, EngineMessage, EngineReport, PROTOCOL_VERSION};
use safelight_core::settings::RuntimeProblem;

use super::starting::explain_start;
use super::watching::WATCH;

/// A message with the pixels that follow it.
pub type IncomingMessage = (EngineMessage, Vec<u8>);

/// A running engine. Its message channel closes when it is gone.
pub struct EngineLink {
    pub commands: Sender<EngineCommand>,
    pub messages: Receiver<IncomingMessage>,
    pub control: Box<dyn EngineControl>,
}

/// First words of an engine.
pub enum EngineStart {
    Ready(EngineReport),
    Cancelled,
    /// It was ended.
    TooLate,
    /// With its last words.
    Died(String),
}

impl EngineLink {
    /// Waits for the engine's report, `limit` at most. Fails if the engine refuses, is of another version, or died for a
    /// reason that another start cannot change. `concerns`: known problems of its libtorch.
    pub fn await_report(
        &mut self,
        limit: Duration,
        is_cancelled: &dyn Fn() -> bool,
        concerns: &[RuntimeProblem],
    ) -> Result<EngineStart, JobError> {
        let began = Instant::now();
        while !is_cancelled() {
            match self.messages.recv_timeout(WATCH) {
                Ok((EngineMessage::Ready(report), _)) if report.protocol == PROTOCOL_VERSION => {
                    return Ok(EngineStart::Ready(report));
                }
                Ok((EngineMessage::Ready(report), _)) => {
                    let found = report.protocol;
                    let what = format!(
                        "the engine is of another version (protocol {found} instead of {PROTOCOL_VERSION})"
                    );
                    let advice =
                        "Install Safelight again: its two executables must be of the same version";
                    return Err(JobError::new(JobErrorKind::Internal, what).advise(advice));
                }
                Ok((EngineMessage::Refused(error), _)) => return Err(error),
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) if began.elapsed() < limit => {}
                Err(RecvTimeoutError::Timeout) => {
                    self.control.kill();
                    return Ok(EngineStart::TooLate);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let words = self.control.last_words().text;
                    return explain_start(&words, concerns)
                        .map_or(Ok(EngineStart::Died(words)), Err);
                }
            }
        }
        Ok(EngineStart::Cancelled)
    }
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
