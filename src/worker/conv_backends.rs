//! Choice of a stage's convolution backend: by the settings, by stored verdicts, or by a probe.
//!
//! Each backend is probed in a separate process with a time limit, because a vendor's library may hang or crash. Results
//! are stored on disk.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use safelight_core::compute::conv_backends::{
    ConvBackend, ConvBackendChoice, ConvBackendFile, ConvBackendKey, ConvBackendRecord,
    ConvBackendVerdict, MiopenMode, ProbeLine, ProbeResult, ShapeClass, WARM_LINE, best,
};
use safelight_core::families::TemporalConvPolicy;
use safelight_core::files::write_optional_json;
use safelight_core::job::{DeviceChoice, GenerateRequest, Stage};
use safelight_core::memory::{FallbackLevel, ResourceFault};
use safelight_core::model::ModelFamily;
use safelight_core::naming::now_secs;
use safelight_core::protocol::EngineReport;

use super::link::ProbeOrder;
use crate::child::{self, ChildExit};

/// Time limits of probing one backend.
#[derive(Clone, Copy)]
struct ProbeLimits {
    /// Until its first run has ended: loading libtorch from a cold disk, compiling kernels, and searching for algorithms,
    /// all of which happen once.
    warm: Duration,
    /// Like `warm`, for the other modes of MIOpen, which are optional.
    other: Duration,
    /// From there on.
    timed: Duration,
}

const LIMITS: ProbeLimits = ProbeLimits {
    warm: Duration::from_mins(5),
    other: Duration::from_mins(2),
    timed: Duration::from_mins(1),
};

pub(super) struct ConvBackends {
    /// File of the verdicts, which other workers write too.
    file: PathBuf,
    known: ConvBackendFile,
    limits: ProbeLimits,
}

impl ConvBackends {
    pub(super) fn load(file: PathBuf) -> Self {
        Self {
            known: ConvBackendFile::load(&file),
            file,
            limits: LIMITS,
        }
    }

    /// Returns the best known backend for a family and its mode of MIOpen; `None` if a probe is needed.
    pub(super) fn backend(
        &mut self,
        key: &ConvBackendKey,
        family: ModelFamily,
    ) -> Option<(ConvBackend, MiopenMode)> {
        let verdict = self.known.find(key)?;
        if verdict.is_due(now_secs()) {
            return None;
        }
        let by_frames = verdict
            .mode_of(ConvBackend::Frames)
            .filter(|_| family.time_convolutions == TemporalConvPolicy::FrameByFrame);
        Some(match by_frames {
            Some(mode) => (ConvBackend::Frames, mode),
            None => (verdict.backend, verdict.mode),
        })
    }

    /// Probes every backend, then the best one of MIOpen in its other modes, and stores the results. Returns `None` if
    /// the job was cancelled.
    pub(super) fn probe(
        &mut self,
        key: &ConvBackendKey,
        device: DeviceChoice,
        order: &mut dyn FnMut(MiopenMode) -> Option<ProbeOrder>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Option<()> {
        let first = MiopenMode::default();
        let limits = self.limits;
        let mut others = Vec::new();
        let mut records: Vec<ConvBackendRecord> = Vec::new();
        let mut probe = |backend: ConvBackend, mode, limits, others: &mut Vec<MiopenMode>| {
            let result = match order(mode) {
                Some(order) => {
                    *others = order.others;
                    run(order.command, key, device, backend, limits, is_cancelled)?
                }
                None => failed("it could not be started"),
            };
            tracing::info!(
                "convolutions {}, {}: {result:?}",
                backend.label(),
                mode.label()
            );
            Some(ConvBackendRecord::probed(backend, mode, result))
        };
        for &backend in key.convolutions.backends() {
            records.push(probe(backend, first, limits, &mut others)?);
        }
        let is_of_miopen = |record: &&ConvBackendRecord| record.backend != ConvBackend::NoMiopen;
        // If none of them works, the last one is the simplest.
        let of_miopen = best(records.iter().filter(is_of_miopen))
            .or_else(|| records.iter().rfind(is_of_miopen))
            .map(|record| record.backend);
        let limits = ProbeLimits {
            warm: limits.other,
            ..limits
        };
        if let Some(backend) = of_miopen {
            for mode in others.clone() {
                records.push(probe(backend, mode, limits, &mut others)?);
            }
        }
        self.known.put(ConvBackendVerdict::of_probe(
            key.clone(),
            records,
            now_secs(),
        ));
        self.save();
        Some(())
    }

    /// Counts a stage that ran with a backend. `lost`: reason of the engine's end, if it ended; the backend is not used
    /// again if it may have caused it.
    pub(super) fn count(
        &mut self,
        key: &ConvBackendKey,
        (backend, mode): (ConvBackend, MiopenMode),
        has_worked: bool,
        lost: Option<&str>,
    ) {
        let Some(verdict) = self.known.find(key) else {
            return;
        };
        verdict.count(backend, mode, has_worked);
        // Lack of memory is handled by `OomFallbacks`.
        let is_memory =
            |reason| ResourceFault::of_last_words(reason).is_some_and(ResourceFault::is_memory);
        if let Some(reason) = lost.filter(|reason| !is_memory(reason)) {
            let reason = reason.lines().next().unwrap_or_default();
            verdict.give_up(backend, mode, reason, now_secs());
            tracing::warn!(
                "convolutions are computed {} from here on",
                verdict.backend.label()
            );
        }
        self.save();
    }

    fn save(&mut self) {
        // Other workers may have probed since.
        for verdict in ConvBackendFile::load(&self.file).verdicts {
            if self.known.find(&verdict.key).is_none() {
                self.known.put(verdict);
            }
        }
        // A loss costs another probe, not the job.
        write_optional_json(&self.file, &self.known, "the results of a probe");
    }
}

/// Returns whether a stage runs an autoencoder: all of them consist of convolutions.
pub(super) fn is_of_autoencoder(stage: Stage) -> bool {
    matches!(stage, Stage::Decode | Stage::EncodeImage)
}

/// Returns the backend of a stage that needs no probe.
pub(super) fn chosen(
    choice: ConvBackendChoice,
    stage: Stage,
    is_probed: bool,
) -> Option<ConvBackend> {
    if !is_of_autoencoder(stage) {
        return Some(ConvBackend::Direct);
    }
    choice
        .backend()
        .or_else(|| (!is_probed).then_some(ConvBackend::Direct))
}

/// Returns the key of the verdict for a job.
pub(super) fn key(
    report: &EngineReport,
    order: &ProbeOrder,
    request: &GenerateRequest,
    rung: FallbackLevel,
) -> ConvBackendKey {
    let tiles = [request.options.vae_tile, rung.tile()];
    let edge = |pixels: u32| tiles.iter().flatten().copied().fold(pixels, u32::min);
    ConvBackendKey {
        device: report.device_name.clone(),
        driver: order.driver.clone(),
        libtorch: order.libtorch.clone(),
        dtype: request
            .family
            .vae_dtype(request.options.dtype)
            .name()
            .to_owned(),
        shape: ShapeClass::of_pixels(edge(request.width), edge(request.height)),
        convolutions: request.family.time_convolutions.convolutions(),
    }
}

fn failed(reason: &str) -> ProbeResult {
    ProbeResult::Failed {
        reason: reason.to_owned(),
    }
}

/// Probes one backend in a separate process. Returns `None` if the job was cancelled.
fn run(
    mut command: Command,
    key: &ConvBackendKey,
    device: DeviceChoice,
    backend: ConvBackend,
    limits: ProbeLimits,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<ProbeResult> {
    command
        .args(["probe", "--device", &device.to_string()])
        .args(["--backend", backend.name()])
        .args(["--shape", key.shape.name()])
        .args(["--convolutions", key.convolutions.name()])
        .args(["--dtype", &key.dtype]);
    let mut found = None;
    let mut limit = limits.warm;
    let ended = child::run_in_parts(command, limits.warm, is_cancelled, &mut |line| {
        if line == WARM_LINE {
            limit = limits.timed;
            return Some(limit);
        }
        let line = serde_json::from_str::<ProbeLine>(line).ok();
        let expected = (backend, key.shape, key.convolutions);
        let own = line.filter(|line| (line.backend, line.shape, line.convolutions) == expected);
        found = own.map(|line| line.result).or_else(|| found.take());
        None
    });
    match (ended, found) {
        (ChildExit::Cancelled, _) => None,
        // A result counts even if the process hangs or crashes on exit.
        (_, Some(result)) => Some(result),
        (ChildExit::TooLate { .. }, None) => Some(ProbeResult::TimedOut {
            secs: limit.as_secs_f64(),
        }),
        (ChildExit::Well, None) => Some(failed("it ended without an answer")),
        (ChildExit::Badly { how, .. }, None) => Some(failed(&format!("without an answer: {how}"))),
    }
}

#[cfg(test)]
mod tests;
