//! The backends of convolutions over time, at the sizes of Wan's decoder.

use std::io;

use crate::error::EngineError;
use crate::runtime::use_compute_options;
use crate::vae::{TRIAL_LAYERS, Trial, TrialLayer};
use safelight_core::memory::compute_options::ComputeOptions;
use safelight_core::memory::conv_backends::ConvBackend;

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
        for backend in ConvBackend::ON_DEVICE {
            report(layer.name, backend.name(), &mut || {
                one(setting, layer, backend)
            })?;
        }
    }
    Ok(())
}

fn one(
    setting: &Setting<'_>,
    layer: TrialLayer,
    backend: ConvBackend,
) -> Result<Found, EngineError> {
    let _guard = use_compute_options(setting.device, backend, ComputeOptions::default());
    let layer = if setting.arguments.small {
        layer.small()
    } else {
        layer
    };
    let trial = Trial::new(layer, setting.kind, setting.device)?;
    let ready = trial.layer(backend);
    let error = trial.error(&ready());
    let runs = setting.arguments.runs;
    let measured = timed(setting.device, 1, runs, 0, &mut || {
        drop(ready());
        Some(())
    })?;
    Ok(Found::new(measured, error, None))
}
