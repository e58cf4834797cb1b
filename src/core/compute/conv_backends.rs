//! Backends for the convolutions of autoencoders: the user's setting, and the results of probing a device.
//!
//! Plain data: the worker starts the probe, the engine runs it. File:
//! [`AppPaths::conv_backends_file`](crate::settings::AppPaths::conv_backends_file).

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::enum_macros::named;
use crate::files::read_json_or_default;

named! {
    // The label is part of a sentence: "convolutions …".
    /// Backend of an autoencoder's convolutions.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash
    )]
    pub enum ConvBackend {
        /// The vendor's library, cuDNN or MIOpen.
        #[default]
        Direct = "direct", "directly by cuDNN or MIOpen";
        /// libtorch's own kernels; the vendor's library is off, for 2D convolutions too.
        NoMiopen = "no_miopen", "without cuDNN or MIOpen";
        /// 3D convolutions as sums of 2D ones, by the vendor's library.
        Frames = "frames", "frame by frame";
        /// For a device that supports none of the others.
        Cpu = "cpu", "on the CPU";
    }
}

impl ConvBackend {
    /// Backends that a device can be probed for.
    pub const ON_DEVICE: [Self; 3] = [Self::Direct, Self::NoMiopen, Self::Frames];
}

named! {
    /// The user's setting for [`ConvBackend`].
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ConvBackendChoice {
        /// The fastest that works: found by a probe on AMD GPUs, known elsewhere.
        #[default]
        Auto = "auto", "Automatic";
        Direct = "direct", "By cuDNN or MIOpen";
        NoMiopen = "no_miopen", "Without cuDNN or MIOpen";
        Frames = "frames", "Frame by frame";
        Cpu = "cpu", "On the CPU";
    }
}

impl ConvBackendChoice {
    /// Returns the chosen backend; `None` for [`Self::Auto`].
    pub fn backend(self) -> Option<ConvBackend> {
        match self {
            Self::Auto => None,
            Self::Direct => Some(ConvBackend::Direct),
            Self::NoMiopen => Some(ConvBackend::NoMiopen),
            Self::Frames => Some(ConvBackend::Frames),
            Self::Cpu => Some(ConvBackend::Cpu),
        }
    }
}

named! {
    /// Frame sizes that share one verdict.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ShapeClass {
        /// Up to 512 × 512 pixels, or tiles of that size.
        Small = "small",
        Large = "large",
    }
}

impl ShapeClass {
    /// `width`, `height`: pixels of the frame or tile that the autoencoder processes.
    pub fn of_pixels(width: u32, height: u32) -> Self {
        if u64::from(width) * u64::from(height) <= 512 * 512 {
            Self::Small
        } else {
            Self::Large
        }
    }
}

named! {
    /// Convolutions of an autoencoder.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum ConvDimensions {
        /// 2D.
        Images = "images",
        /// 3D, over time too.
        #[default]
        Videos = "videos",
    }
}

impl ConvDimensions {
    /// Backends that compute them differently.
    pub fn backends(self) -> &'static [ConvBackend] {
        match self {
            Self::Images => &[ConvBackend::Direct, ConvBackend::NoMiopen],
            Self::Videos => &ConvBackend::ON_DEVICE,
        }
    }
}

named! {
    // The label follows that of a backend in a list.
    /// MIOpen's mode in a process, set by its environment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum MiopenMode {
        /// Known or estimated algorithms; channels first.
        #[default]
        Quick = "quick", "without a search";
        /// MIOpen's default: it searches for the fastest algorithm.
        Searching = "searching", "with a search";
        /// Channels last.
        Innermost = "innermost", "with channels innermost";
        SearchingInnermost = "searching_innermost", "with a search and channels innermost";
    }
}

impl MiopenMode {
    pub fn searches(self) -> bool {
        matches!(self, Self::Searching | Self::SearchingInnermost)
    }

    pub fn is_innermost(self) -> bool {
        matches!(self, Self::Innermost | Self::SearchingInnermost)
    }
}

/// Line that the probe writes once all compiling and searching of first use is done: the rest has no reason to take
/// long.
pub const WARM_LINE: &str = r#"{"warm":true}"#;

/// Factor by which another mode of MIOpen must be faster than the default one.
const WORTH_IT: f64 = 1.1;
/// Time after which a failed backend is probed again: libraries, driver or machine may have changed.
const RETRY_SECS: u64 = 7 * 24 * 60 * 60;

/// Everything that a verdict depends on; the device is probed again when any of it changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConvBackendKey {
    /// Name of the device.
    pub device: String,
    /// Versions of driver and runtime, as far as they are known.
    pub driver: String,
    pub libtorch: String,
    /// The autoencoder's `bf16`, `f16` or `f32`.
    pub dtype: String,
    pub shape: ShapeClass,
    pub convolutions: ConvDimensions,
}

/// Result of probing one backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum ProbeResult {
    /// `error`: relative, of the worst layer.
    Right { secs: f64, error: f64 },
    /// The numbers differ from those of the definition.
    Wrong { error: f64 },
    /// An error, or the end of the process.
    Failed { reason: String },
    /// Ended after this many seconds.
    TimedOut { secs: f64 },
}

/// One line of the probe: `safelight-engine probe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeLine {
    pub backend: ConvBackend,
    pub shape: ShapeClass,
    pub convolutions: ConvDimensions,
    pub dtype: String,
    #[serde(flatten)]
    pub result: ProbeResult,
}

/// Probe result of one backend and mode, with its uses by the probe and by stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvBackendRecord {
    pub backend: ConvBackend,
    pub mode: MiopenMode,
    pub attempts: u64,
    pub successes: u64,
    pub probe: ProbeResult,
}

impl ConvBackendRecord {
    /// Creates the record of a first probe.
    pub fn probed(backend: ConvBackend, mode: MiopenMode, probe: ProbeResult) -> Self {
        Self {
            backend,
            mode,
            attempts: 1,
            successes: u64::from(matches!(probe, ProbeResult::Right { .. })),
            probe,
        }
    }

    /// Returns the measured seconds, increased by [`WORTH_IT`] for other modes of MIOpen; `None` if it is not right.
    fn cost(&self) -> Option<f64> {
        let ProbeResult::Right { secs, .. } = self.probe else {
            return None;
        };
        let is_default = self.mode == MiopenMode::default();
        Some(if is_default { secs } else { secs * WORTH_IT })
    }
}

/// Returns the fastest right record.
pub fn best<'a>(
    records: impl IntoIterator<Item = &'a ConvBackendRecord>,
) -> Option<&'a ConvBackendRecord> {
    let costs = records.into_iter().filter_map(|it| Some((it, it.cost()?)));
    let cheapest = costs.min_by(|a, b| a.1.total_cmp(&b.1));
    cheapest.map(|(record, _)| record)
}

/// Best backend of one device, type and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvBackendVerdict {
    #[serde(flatten)]
    pub key: ConvBackendKey,
    pub backend: ConvBackend,
    pub mode: MiopenMode,
    /// Time of the probe or of the last change, in seconds of the Unix epoch.
    pub since_secs: u64,
    /// One for each backend and mode that was probed.
    pub records: Vec<ConvBackendRecord>,
}

impl ConvBackendVerdict {
    /// Chooses the fastest right backend among the results of a probe at `since_secs`.
    pub fn of_probe(key: ConvBackendKey, records: Vec<ConvBackendRecord>, since_secs: u64) -> Self {
        let mut verdict = Self {
            key,
            backend: ConvBackend::Cpu,
            mode: MiopenMode::default(),
            since_secs,
            records,
        };
        verdict.choose();
        verdict
    }

    fn choose(&mut self) {
        let chosen = best(&self.records).map(|record| (record.backend, record.mode));
        (self.backend, self.mode) =
            chosen.unwrap_or_else(|| (ConvBackend::Cpu, MiopenMode::default()));
    }

    /// Returns the best mode of MIOpen for one backend; `None` if the backend is right in no mode.
    pub fn mode_of(&self, backend: ConvBackend) -> Option<MiopenMode> {
        let records = self.records.iter();
        best(records.filter(|record| record.backend == backend)).map(|record| record.mode)
    }

    /// Returns whether a failure or a time-out is old enough for another probe.
    pub fn is_due(&self, now_secs: u64) -> bool {
        // The other modes are an optional gain: they wait for a new driver or libtorch.
        let has_failed = |record: &ConvBackendRecord| {
            let has = matches!(
                record.probe,
                ProbeResult::Failed { .. } | ProbeResult::TimedOut { .. }
            );
            has && record.mode == MiopenMode::default()
        };
        // A clock that was set back counts too.
        let is_old = now_secs.abs_diff(self.since_secs) >= RETRY_SECS;
        is_old && self.records.iter().any(has_failed)
    }

    fn record(&mut self, backend: ConvBackend, mode: MiopenMode) -> Option<&mut ConvBackendRecord> {
        let mut records = self.records.iter_mut();
        records.find(|record| (record.backend, record.mode) == (backend, mode))
    }

    /// Marks a backend as failed that hung or crashed in a stage, and chooses the next best one.
    pub fn give_up(&mut self, backend: ConvBackend, mode: MiopenMode, reason: &str, now_secs: u64) {
        if let Some(record) = self.record(backend, mode) {
            record.probe = ProbeResult::Failed {
                reason: reason.to_owned(),
            };
        }
        self.since_secs = now_secs;
        self.choose();
    }

    /// Counts a stage that ran with a backend.
    pub fn count(&mut self, backend: ConvBackend, mode: MiopenMode, has_worked: bool) {
        if let Some(record) = self.record(backend, mode) {
            record.attempts += 1;
            record.successes += u64::from(has_worked);
        }
    }
}

/// All verdicts of this machine, as stored on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConvBackendFile {
    pub verdicts: Vec<ConvBackendVerdict>,
}

impl ConvBackendFile {
    /// Reads the file. A missing or broken one is empty, which costs a probe.
    pub fn load(path: &Path) -> Self {
        read_json_or_default(path)
    }

    pub fn find(&mut self, key: &ConvBackendKey) -> Option<&mut ConvBackendVerdict> {
        self.verdicts.iter_mut().find(|verdict| verdict.key == *key)
    }

    pub fn put(&mut self, verdict: ConvBackendVerdict) {
        self.verdicts.retain(|known| known.key != verdict.key);
        self.verdicts.push(verdict);
    }
}

#[cfg(test)]
mod tests;
