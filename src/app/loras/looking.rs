//! Reading LoRA files, on whatever thread this runs.

use std::path::{Path, PathBuf};

use safelight_core::lora::{Fit, FoundLora, LoraMatcher, find};
use safelight_core::model::ModelSpec;
use safelight_core::settings::{Paths, Settings};

/// Files whose headers are read before they are told of.
const AT_ONCE: usize = 24;

/// What is known of these files, for a model.
pub(super) fn look_at(spec: &ModelSpec, paths: &[PathBuf]) -> Vec<FoundLora> {
    match LoraMatcher::of(spec) {
        Ok(fitting) => paths.iter().map(|path| fitting.look(path)).collect(),
        Err(err) => {
            let unknown = |path: &PathBuf| unknown(path, &err.to_string());
            paths.iter().map(unknown).collect()
        }
    }
}

/// A file of which nothing can be said, because the model itself cannot be read.
fn unknown(path: &Path, reason: &str) -> FoundLora {
    FoundLora::new(path, 0, None, Fit::No(reason.to_owned()))
}

/// Tells of all LoRAs on this machine, some at a time. Fails where the model itself cannot be read.
pub(super) fn look_for(
    spec: &ModelSpec,
    paths: &Paths,
    settings: &Settings,
    mut tell: impl FnMut(Vec<FoundLora>),
) -> Result<(), String> {
    let fitting = LoraMatcher::of(spec).map_err(|err| err.to_string())?;
    for some in find(paths, settings).chunks(AT_ONCE) {
        tell(some.iter().map(|path| fitting.look(path)).collect());
    }
    Ok(())
}
