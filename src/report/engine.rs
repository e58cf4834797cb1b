//! Asks an engine of its own to measure something, and hears its lines.
//!
//! What goes wrong is one sentence, whatever a driver does.

use std::path::Path;
use std::time::Duration;

use safelight_core::job::{CancelToken, DeviceChoice};
use serde_json::Value;

use crate::child::{self, Ended};
use crate::worker::ProcessLauncher;

/// What somebody who stopped a report is not told as a fault.
pub(super) const STOPPED: &str = "It was stopped.";

/// What engines are started with.
pub(super) struct Engines {
    pub(super) launcher: ProcessLauncher,
    pub(super) device: DeviceChoice,
    pub(super) cancel: CancelToken,
}

impl Engines {
    /// `subject`: the engine's arguments; the device comes behind the first `num_names` of them. `scratch`: where it may
    /// put large files for a moment.
    pub(super) fn ask(
        &mut self,
        subject: &[&str],
        limit: Duration,
        scratch: &Path,
        tell: &mut dyn FnMut(Value),
    ) -> Result<(), String> {
        let mut command = self
            .launcher
            .command(self.device)
            .map_err(|err| err.summary)?;
        command.args(subject).env("TMPDIR", scratch);
        let cancel = self.cancel.clone();
        let mut is_told = false;
        let ended = child::run(command, limit, &|| cancel.is_cancelled(), &mut |line| {
            if let Ok(value) = serde_json::from_str(line) {
                is_told = true;
                tell(value);
            }
        });
        outcome(ended, is_told)
    }

    /// The device as an argument.
    pub(super) fn device_argument(&self) -> String {
        self.device.to_string()
    }
}

/// `is_told`: lines came, which say themselves what failed in them.
fn outcome(ended: Ended, is_told: bool) -> Result<(), String> {
    match ended {
        Ended::Well => Ok(()),
        Ended::Cancelled => Err(STOPPED.to_owned()),
        Ended::TooLate { secs } => Err(format!(
            "It did not end within {secs} s and was stopped: the driver may hang, or this machine is too slow for it."
        )),
        Ended::Badly { how, complaint } => {
            let refusal = complaint
                .lines()
                .rev()
                .find_map(|line| line.strip_prefix("error: "));
            match refusal {
                Some(refusal) => Err(format!("The engine refused: {refusal}.")),
                None if is_told && how == "exit code 1" => Ok(()),
                None => {
                    let last = complaint.lines().last().unwrap_or_default();
                    let last = if last.is_empty() {
                        String::new()
                    } else {
                        format!(": {last}")
                    };
                    Err(format!("The engine ended while it measured ({how}){last}."))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_end_is_one_sentence_and_lines_speak_for_themselves() {
        let badly = |how: &str, complaint: &str| Ended::Badly {
            how: how.to_owned(),
            complaint: complaint.to_owned(),
        };
        assert_eq!(outcome(Ended::Well, false), Ok(()));
        assert_eq!(outcome(badly("exit code 1", ""), true), Ok(()));
        let refused = outcome(badly("exit code 2", "noise\nerror: no GPU"), true);
        assert_eq!(refused.unwrap_err(), "The engine refused: no GPU.");
        let died = outcome(badly("signal 11", "HSA fault"), true).unwrap_err();
        assert_eq!(
            died,
            "The engine ended while it measured (signal 11): HSA fault."
        );
        let late = outcome(Ended::TooLate { secs: 30 }, true).unwrap_err();
        assert!(late.contains("within 30 s"), "{late}");
    }
}
