//! What steers the walk: the family's own guidance, the classifier-free one where that is another, and the
//! negative prompt.
//!
//! Wishes that cannot act are told and left out; a carried request names every value, so one that is the model's
//! own is no wish.

use super::{Findings, GenerateForm};
use crate::model::{Guidance, ModelSpec, Preset};

/// The guidance of a request.
pub(super) struct Chosen {
    pub guidance_scale: f64,
    pub guidance_scale_2: Option<f64>,
    pub true_cfg_scale: Option<f64>,
    pub negative_prompt: String,
}

pub(super) fn choose(
    form: &GenerateForm,
    spec: &ModelSpec,
    preset: Option<&Preset>,
    found: &mut Findings,
) -> Chosen {
    let negative = form.negative_prompt.as_deref();
    let chosen = Chosen {
        guidance_scale: own(form, spec, preset, found),
        guidance_scale_2: low(form, spec, preset, found),
        true_cfg_scale: true_cfg(form, spec, found),
        negative_prompt: negative
            .unwrap_or(&spec.defaults.negative_prompt)
            .to_owned(),
    };
    note_idle_negative(spec, &chosen, found);
    chosen
}

fn own(
    form: &GenerateForm,
    spec: &ModelSpec,
    preset: Option<&Preset>,
    found: &mut Findings,
) -> f64 {
    let default = spec.defaults.guidance_scale;
    if spec.guidance == Guidance::None {
        if form.guidance_scale.is_some_and(|scale| scale != default) {
            let why = format!(
                "The guidance is not used: {} was made to do without",
                spec.name
            );
            found.note("guidance", why);
        }
        return default;
    }
    form.guidance_scale
        .or_else(|| preset.map(|preset| preset.guidance_scale))
        .unwrap_or(default)
}

/// The low-noise expert's: as given, else as the other one where that was chosen, else the model's default.
fn low(
    form: &GenerateForm,
    spec: &ModelSpec,
    preset: Option<&Preset>,
    found: &mut Findings,
) -> Option<f64> {
    if spec.files.transformer_2.is_none() {
        if form.guidance_scale_2.is_some() {
            let why = format!(
                "The second guidance is not used: {} has one transformer",
                spec.name
            );
            found.note("guidance-2", why);
        }
        return None;
    }
    let is_other_chosen = form.guidance_scale.is_some() || preset.is_some();
    form.guidance_scale_2.or(if is_other_chosen {
        None
    } else {
        spec.defaults.guidance_scale_2
    })
}

/// Absent where it would do nothing. What is no number at all is for [`super::ranges`] to refuse.
fn true_cfg(form: &GenerateForm, spec: &ModelSpec, found: &mut Findings) -> Option<f64> {
    let scale = form.true_cfg_scale?;
    let is_sound = (0.0..=1.0).contains(&scale);
    if spec.guidance == Guidance::Cfg {
        if !is_sound {
            let why = format!(
                "The real guidance is not used: the guidance of {} is the classifier-free one already",
                spec.name
            );
            found.note("true-cfg", why);
        }
        return None;
    }
    if is_sound {
        return None;
    }
    if form.negative_prompt.is_none() && scale > 1.0 {
        found.note(
            "true-cfg",
            "The real guidance is off: it needs a negative prompt to steer away from".to_owned(),
        );
        return None;
    }
    Some(scale)
}

/// A negative prompt that its user wrote, and that no step looks at.
fn note_idle_negative(spec: &ModelSpec, chosen: &Chosen, found: &mut Findings) {
    let text = chosen.negative_prompt.trim();
    if text.is_empty() || chosen.negative_prompt == spec.defaults.negative_prompt {
        return;
    }
    let has_low = spec.files.transformer_2.is_some();
    let low = chosen.guidance_scale_2.unwrap_or(chosen.guidance_scale);
    let (acts, which) = match spec.guidance {
        Guidance::Cfg => (
            chosen.guidance_scale > 1.0 || (has_low && low > 1.0),
            "guidance",
        ),
        Guidance::Distilled | Guidance::None => {
            (chosen.true_cfg_scale.is_some(), "real guidance (true CFG)")
        }
    };
    if !acts {
        let why = format!("The negative prompt is not used: it acts when the {which} is above 1");
        found.note("negative", why);
    }
}
