//! The tiers of convolutions over time, at the sizes of Wan's decoder.

use std::io;

use crate::error::EngineError;
use crate::runtime::enter_ways;
use crate::vae::{TRIAL_LAYERS, Trial, TrialLayer};
use safelight_core::memory::choices::Choices;
use safelight_core::memory::tiers::ConvolutionTier;

use super::{Found, Report, Setting};
use crate::bench::measure::timed;

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TRIAL_LAYERS.iter().map(|layer| layer.name)
}

pub(super) fn measure(setting: &Setting<'_>, report: &mut Report<'_>) -> io::Result<()> {
    for layer in TRIAL_LAYERS {
        if !setting.arguments.has(layer.name) {
            continue;
        }
        for tier in ConvolutionTier::ON_DEVICE {
            report(layer.name, tier.name(), &mut || one(setting, layer, tier))?;
        }
    }
    Ok(())
}

fn one(
    setting: &Setting<'_>,
    layer: TrialLayer,
    tier: ConvolutionTier,
) -> Result<Found, EngineError> {
    let _ways = enter_ways(setting.device, tier, Choices::default());
    let layer = if setting.arguments.small {
        layer.small()
    } else {
        layer
    };
    let trial = Trial::new(layer, setting.kind, setting.device)?;
    let ready = trial.layer(tier);
    let error = trial.error(&ready());
    let runs = setting.arguments.runs;
    let measured = timed(setting.device, 1, runs, 0, &mut || {
        drop(ready());
        Some(())
    })?;
    Ok(Found::new(measured, error, None))
}
