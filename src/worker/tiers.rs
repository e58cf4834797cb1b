//! Which tier of convolutions a stage gets: what the settings say, what is known of the device, or what a probe finds.
//!
//! A probe runs in processes of its own, one a tier, because a vendor's library may hang in it or take its process
//! along. What it finds is remembered on disk. Computes nothing and starts no engine.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use safelight_core::families::{Family, TimeConvolutions};
use safelight_core::job::{DeviceChoice, GenerateRequest, Stage};
use safelight_core::memory::tiers::{
    ConvolutionChoice, ConvolutionTier, MiopenWay, ProbeLine, ShapeClass, TierEnd, TierFile,
    TierKey, TierRecord, Verdict, WARM_LINE, best,
};
use safelight_core::memory::{Fault, Rung};
use safelight_core::naming::now_secs;
use safelight_core::protocol::EngineReport;

use super::link::ProbeOrder;
use crate::child::{self, Ended};

/// How long one tier may take.
#[derive(Clone, Copy)]
struct Limits {
    /// Until it has run once: loading libtorch from a cold disk, compiling kernels, and the search of a library for its
    /// algorithms, none of which happens again.
    warm: Duration,
    /// The same for what the job can do without.
    other: Duration,
    /// From there on.
    timed: Duration,
}

const LIMITS: Limits = Limits {
    warm: Duration::from_mins(5),
    other: Duration::from_mins(2),
    timed: Duration::from_mins(1),
};

pub(super) struct Tiers {
    file: Option<PathBuf>,
    known: TierFile,
    limits: Limits,
}

impl Tiers {
    /// `file`: where verdicts are kept, if anywhere.
    pub(super) fn load(file: Option<PathBuf>) -> Self {
        Self {
            known: file.as_deref().map(TierFile::load).unwrap_or_default(),
            file,
            limits: LIMITS,
        }
    }

    /// What is known to be the best for a family, and how MIOpen is to work for it; `None` where nothing is known, or
    /// what is known is due for another look.
    pub(super) fn tier(
        &mut self,
        key: &TierKey,
        family: Family,
    ) -> Option<(ConvolutionTier, MiopenWay)> {
        let verdict = self.known.find(key)?;
        if verdict.is_due(now_secs()) {
            return None;
        }
        let by_frames = verdict
            .way_of(ConvolutionTier::Frames)
            .filter(|_| family.time_convolutions == TimeConvolutions::FrameByFrame);
        Some(match by_frames {
            Some(way) => (ConvolutionTier::Frames, way),
            None => (verdict.tier, verdict.way),
        })
    }

    /// Probes every tier, and the best of MIOpen's in its other ways, and remembers what came of it; `None` when the job
    /// was cancelled meanwhile.
    pub(super) fn probe(
        &mut self,
        key: &TierKey,
        device: DeviceChoice,
        order: &mut dyn FnMut(MiopenWay) -> Option<ProbeOrder>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Option<()> {
        let first = MiopenWay::default();
        let limits = self.limits;
        let mut others = Vec::new();
        let mut records: Vec<TierRecord> = Vec::new();
        let mut probe = |tier: ConvolutionTier, way, limits, others: &mut Vec<MiopenWay>| {
            let end = match order(way) {
                Some(order) => {
                    *others = order.others;
                    run(order.command, key, device, tier, limits, is_cancelled)?
                }
                None => failed("it could not be started"),
            };
            tracing::info!("convolutions {}, {}: {end:?}", tier.label(), way.label());
            Some(TierRecord::probed(tier, way, end))
        };
        for &tier in key.convolutions.tiers() {
            records.push(probe(tier, first, limits, &mut others)?);
        }
        let is_of_miopen = |record: &&TierRecord| record.tier != ConvolutionTier::NoMiopen;
        // Where none of them works, the last one is the simplest.
        let of_miopen = best(records.iter().filter(is_of_miopen))
            .or_else(|| records.iter().rfind(is_of_miopen))
            .map(|record| record.tier);
        let limits = Limits {
            warm: limits.other,
            ..limits
        };
        let ways = of_miopen.into_iter().flat_map(|tier| {
            let ways = others.iter();
            ways.map(move |way| (tier, *way))
        });
        for (tier, way) in ways.collect::<Vec<_>>() {
            records.push(probe(tier, way, limits, &mut others)?);
        }
        self.known
            .put(Verdict::of_probe(key.clone(), records, now_secs()));
        self.save();
        Some(())
    }

    /// A stage ran with a tier that is known for `key`; `lost`: why its engine ended, if it did. A tier that may be the
    /// reason is not used again.
    pub(super) fn count(
        &mut self,
        key: &TierKey,
        (tier, way): (ConvolutionTier, MiopenWay),
        has_worked: bool,
        lost: Option<&str>,
    ) {
        let Some(verdict) = self.known.find(key) else {
            return;
        };
        verdict.count(tier, way, has_worked);
        // Want of memory is the ladder's.
        let is_memory = |reason| Fault::of_last_words(reason).is_some_and(Fault::is_memory);
        if let Some(reason) = lost.filter(|reason| !is_memory(reason)) {
            let reason = reason.lines().next().unwrap_or_default();
            verdict.give_up(tier, way, reason, now_secs());
            tracing::warn!(
                "convolutions are computed {} from here on",
                verdict.tier.label()
            );
        }
        self.save();
    }

    fn save(&self) {
        if let Some(file) = &self.file
            && let Err(err) = self.known.save(file)
        {
            // It costs another probe, not the job.
            tracing::warn!("what a probe found could not be kept: {err}");
        }
    }
}

/// Whether a stage is an autoencoder's: all of them are made of convolutions.
pub(super) fn is_of_autoencoder(stage: Stage) -> bool {
    matches!(stage, Stage::Decode | Stage::EncodeImage)
}

/// What a stage gets where nothing has to be found out.
pub(super) fn chosen(
    choice: ConvolutionChoice,
    stage: Stage,
    is_probed: bool,
) -> Option<ConvolutionTier> {
    if !is_of_autoencoder(stage) {
        return Some(ConvolutionTier::Direct);
    }
    choice
        .tier()
        .or_else(|| (!is_probed).then_some(ConvolutionTier::Direct))
}

/// What a verdict for this job would be kept under.
pub(super) fn key(
    report: &EngineReport,
    order: &ProbeOrder,
    request: &GenerateRequest,
    rung: Rung,
) -> TierKey {
    let tiles = [request.vae_tile, rung.tile()];
    let edge = |pixels: u32| tiles.iter().flatten().copied().fold(pixels, u32::min);
    TierKey {
        device: report.device_name.clone(),
        driver: order.driver.clone(),
        libtorch: order.libtorch.clone(),
        dtype: request.family.vae_dtype(request.dtype).name().to_owned(),
        shape: ShapeClass::of_pixels(edge(request.width), edge(request.height)),
        convolutions: request.family.time_convolutions.convolutions(),
    }
}

fn failed(reason: &str) -> TierEnd {
    TierEnd::Failed {
        reason: reason.to_owned(),
    }
}

/// Probes one tier in a process of its own; `None` when the job was cancelled meanwhile.
fn run(
    mut command: Command,
    key: &TierKey,
    device: DeviceChoice,
    tier: ConvolutionTier,
    limits: Limits,
    is_cancelled: &dyn Fn() -> bool,
) -> Option<TierEnd> {
    command
        .args(["probe", "--json", "--device", &device.to_string()])
        .args(["--tier", tier.name()])
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
        let asked = (tier, key.shape, key.convolutions);
        let own = line.filter(|line| (line.tier, line.shape, line.convolutions) == asked);
        found = own.map(|line| line.end).or_else(|| found.take());
        None
    });
    match (ended, found) {
        (Ended::Cancelled, _) => None,
        // What it said counts, whatever its destructors do behind it.
        (_, Some(end)) => Some(end),
        (Ended::TooLate { .. }, None) => Some(TierEnd::TimedOut {
            secs: limit.as_secs_f64(),
        }),
        (Ended::Well, None) => Some(failed("it ended without an answer")),
        (Ended::Badly { how, .. }, None) => Some(failed(&format!("without an answer: {how}"))),
    }
}

#[cfg(test)]
mod tests;
