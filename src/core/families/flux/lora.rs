//! LoRAs that make Flux follow a control image, and those of its relatives.

use std::path::Path;

use super::FluxFamily;
use super::variant::{DEV, SCHNELL, controlled};
use crate::families::prelude::*;
use crate::families::single::transformer_table;
use crate::lora;
use crate::lora::{Expert, LayerMismatch, LoraCoverage, LoraFile, LoraPlan};
use crate::model::ModelSpec;
use crate::model::choices::LoraChoice;
use crate::networks::FluxTransformerConfig;

/// The config of the transformer at a place with the LoRAs of a job: the authors' for depth and edges add channels of a
/// control image to its input.
pub fn config_with(
    transformer: &Path,
    loras: &[LoraChoice],
) -> Result<FluxTransformerConfig, CatalogError> {
    let config = FluxTransformerConfig::read(transformer)?;
    if loras.is_empty() {
        return Ok(config);
    }
    let table = transformer_table(&FluxFamily, transformer)?;
    let mut widest = None;
    for (lora, strength) in loras.iter().zip(lora::strengths(loras, Expert::Only)) {
        if strength != 0.0 {
            let file = LoraFile::read(&lora.path)?;
            let plan = LoraPlan::new(&file, std::slice::from_ref(&table));
            widest = widest.max(plan.widened());
        }
    }
    Ok(match widest {
        Some(columns) => config.widened(columns as i64),
        None => config,
    })
}

/// The model that a control LoRA makes of one: it needs a control image, of the kind that the LoRA's name says.
pub(super) fn with_control(spec: &ModelSpec, lora: &Path) -> Result<ModelSpec, String> {
    if ![DEV, SCHNELL].iter().any(|it| it.name == spec.variant) {
        return Err(format!(
            "this is a control LoRA of FLUX.1 dev, with which {} does not run",
            spec.name
        ));
    }
    let names = [lora.file_stem(), lora.parent().and_then(Path::file_name)];
    let names = names.map(|name| name.unwrap_or_default().to_string_lossy());
    let hints = names.each_ref().map(|name| &**name);
    let inputs = controlled(&hints);
    let mut spec = spec.clone();
    (spec.start_image, spec.image_role) = (inputs.start_image, inputs.image_role);
    (spec.mask, spec.limits.controls) = (inputs.mask, inputs.controls);
    Ok(spec)
}

/// Why a LoRA that fits so far is none for these models.
pub(super) fn objection(coverage: &LoraCoverage) -> Option<&'static str> {
    coverage
        .misfits
        .iter()
        .any(sees_more)
        .then_some("this LoRA is for a model that sees more beside the noise, as FLUX.1 Fill does")
}

/// Returns true if a layer takes in more than the model can be made to take.
fn sees_more(misfit: &LayerMismatch) -> bool {
    let name = crate::library::lora_keys::normal(&misfit.layer);
    let is_input = name.ends_with("img_in") || name.ends_with("x_embedder");
    is_input && misfit.found.1 > misfit.expected.1
}
