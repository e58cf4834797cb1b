//! Exchanges between the devices of several computers, measured for `safelight plan --hosts`.

use safelight_core::job::{DeviceChoice, GenerateRequest, JobError, JobErrorKind};
use safelight_core::protocol::{EngineCommand, EngineMessage, RankPlaces, StageEnd};
use safelight_core::units::measured_text;
use serde::Serialize;

use super::CliEnvironment;

/// Exchanges of the devices of several computers in a step.
#[derive(Serialize)]
pub(super) struct RankExchange {
    /// That each device sends, and receives.
    bytes: f64,
    bytes_per_sec: f64,
    secs: f64,
    /// Time of a step on one device above which all of them together are faster.
    pays_above_secs: f64,
}

impl RankExchange {
    pub(super) fn measure(
        bytes: f64,
        request: &GenerateRequest,
        device: DeviceChoice,
        environment: &CliEnvironment,
    ) -> Result<Self, JobError> {
        let devices = request.options.memory.num_devices();
        let hosts = request.options.hosts.clone();
        let mut link = environment.launcher().launch(device)?;
        let order = EngineCommand::MeasureRanks(RankPlaces { devices, hosts });
        // An engine that is gone has said why, or says nothing.
        link.commands.send(order).ok();
        let ended = || JobError::new(JobErrorKind::EngineLost, "the engine ended unexpectedly");
        let mut answers = link.messages.iter().map(|(message, _)| message);
        let answer = answers.find_map(|message| match message {
            EngineMessage::RanksMeasured { bytes_per_sec } => Some(Ok(bytes_per_sec)),
            EngineMessage::Refused(err)
            | EngineMessage::StageEnded(StageEnd::Failed { error: err }) => Some(Err(err)),
            _ => None,
        });
        link.control.kill();
        let bytes_per_sec = answer.unwrap_or_else(|| Err(ended()))?;
        let secs = bytes / bytes_per_sec;
        let devices = f64::from(request.num_devices());
        Ok(Self {
            bytes,
            bytes_per_sec,
            secs,
            pays_above_secs: secs * devices / (devices - 1.0),
        })
    }

    pub(super) fn line(&self, devices: u32) -> String {
        let [bytes, rate] = [self.bytes, self.bytes_per_sec].map(|bytes| bytes / 1e9);
        let [secs, above] = [self.secs, self.pays_above_secs].map(measured_text);
        format!(
            "Each of the {devices} devices sends {bytes:.2} GB in a step, at {rate:.2} GB/s in {secs}: faster than one device if that takes more than {above} for a step"
        )
    }
}
