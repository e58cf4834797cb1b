//! Check of a job's LoRAs against its model.

use super::origin::{self, LoraOrigin};
use crate::families::{self, def_of};
use crate::lora::{CheckedLora, Expert, LayerMismatch, LayerTable, LoraFile, LoraPlan, strengths};
use crate::model::choices::LoraChoice;
use crate::model::{CatalogError, ModelFamily, ModelFiles, ModelSpec};

/// Reads the LoRAs' headers and says how much of each the model takes. Fails for what is no LoRA, was made for another
/// model, or has nothing that this one knows.
pub fn check(
    loras: &[LoraChoice],
    family: ModelFamily,
    files: &ModelFiles,
) -> Result<Vec<CheckedLora>, CatalogError> {
    if loras.is_empty() {
        return Ok(Vec::new());
    }
    let tables = def_of(family).lora_tables(files)?;
    loras
        .iter()
        .map(|lora| {
            // The engine computes in f32.
            let mut strengths = [Some(lora.strength), lora.strength_2].into_iter().flatten();
            if let Some(wrong) = strengths.find(|it| !(*it as f32).is_finite()) {
                let reason = format!("the strength of this LoRA is {wrong}, expected a number");
                return Err(CatalogError::lora(reason, lora.path.clone()));
            }
            let mut file = LoraFile::read(&lora.path)?;
            file.read_alphas()?;
            let coverage = fitting_plan(&file, family, &tables)?.coverage;
            Ok(CheckedLora {
                lora: lora.clone(),
                coverage,
            })
        })
        .collect()
}

/// The plan for a model of `family` with these networks, if the LoRA is for such a model.
pub fn fitting_plan(
    file: &LoraFile,
    family: ModelFamily,
    tables: &[LayerTable],
) -> Result<LoraPlan, CatalogError> {
    let wrong = |reason: String| CatalogError::lora(reason, file.path.clone());
    let origin = LoraOrigin::from_file(file);
    if !origin.is_accepted(|origin| (def_of(family).lora().accepts)(origin, tables)) {
        return Err(wrong(format!(
            "this LoRA is for {}, not for {}",
            origin.label, family.label
        )));
    }
    let plan = LoraPlan::new(file, tables);
    let coverage = &plan.coverage;
    if let Some(reason) = &coverage.conflict {
        return Err(wrong(reason.clone()));
    }
    if let Some(reason) = (def_of(family).lora().objection)(coverage) {
        return Err(wrong(reason.to_owned()));
    }
    if let Some(first) = coverage.misfits.first()
        && coverage.num_misfits() > coverage.applied
    {
        return Err(wrong(misfit_text(&origin, family, tables, first)));
    }
    if coverage.applied == 0 {
        let what = if coverage.images > 0 {
            "it only changes the reading of images, which this model does not do".to_owned()
        } else if coverage.text_encoder > 0 {
            "it only changes a text encoder that Safelight does not change".to_owned()
        } else {
            coverage.to_string()
        };
        return Err(wrong(format!("this LoRA does not fit the model: {what}")));
    }
    Ok(plan)
}

/// The model that these LoRAs make of one: itself, but for one of them that lets it see a control image. Reads headers;
/// what cannot be read is reported where the LoRA is checked.
pub fn model_with(spec: &ModelSpec, loras: &[LoraChoice]) -> Result<ModelSpec, CatalogError> {
    let acting = loras.iter().zip(strengths(loras, Expert::Only));
    let acting = acting.filter(|(_, strength)| *strength != 0.0);
    for (lora, _) in acting.filter(|_| def_of(spec.family).lora().control.is_some()) {
        let Ok(tables) = def_of(spec.family).lora_tables(&spec.files) else {
            break;
        };
        let Ok(file) = LoraFile::read(&lora.path) else {
            continue;
        };
        if LoraPlan::new(&file, &tables).widened().is_some() {
            let with = families::with_control_lora(spec, &lora.path);
            return with.map_err(|reason| CatalogError::lora(reason, lora.path.clone()));
        }
    }
    Ok(spec.clone())
}

/// A sentence that names both models.
fn misfit_text(
    origin: &LoraOrigin,
    family: ModelFamily,
    tables: &[LayerTable],
    first: &LayerMismatch,
) -> String {
    let model = origin::model_label(family, tables);
    // A name without a size fits models of every size.
    if !origin.label.starts_with(&model) && !origin.label.is_empty() && !origin.has_other_sizes {
        return format!("this LoRA is for {}, not for {model}", origin.label);
    }
    let ((outputs, inputs), (found_outputs, found_inputs)) = (first.expected, first.found);
    format!(
        "this LoRA is for another size of {model}: its '{}' has {found_outputs} outputs and {found_inputs} inputs, the model's {outputs} and {inputs}",
        first.layer
    )
}
