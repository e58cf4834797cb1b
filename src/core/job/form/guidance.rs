//! Guidance: the family's own, true CFG where that is another one, and the negative prompt.
//!
//! Values without effect are reported and dropped. An embedded request states every value, so one that equals the
//! model's default is not reported.

use super::{FormProblems, GenerateForm};
use crate::job::{GuidanceRange, Guider, SamplingOptions};
use crate::model::{GuidanceMode, ModelSpec};

/// Removes from `sampling` the options without effect in this model, and says so.
pub(super) fn settle(
    form: &GenerateForm,
    spec: &ModelSpec,
    sampling: &mut SamplingOptions,
    found: &mut FormProblems,
) {
    let name = &spec.name;
    let requested = &form.sampling;
    let default = spec.defaults.sampling.guidance_scale;
    if spec.guidance == GuidanceMode::None {
        if requested
            .guidance_scale
            .is_some_and(|scale| scale != default)
        {
            let why = format!("The guidance is not used: {name} works without it");
            found.note("guidance", why);
        }
        sampling.guidance_scale = default;
    }
    if !spec.has_two_experts() {
        if requested.guidance_scale_2.is_some() {
            let why = format!("The low-noise guidance is not used: {name} has only one expert");
            found.note("guidance-2", why);
        }
        sampling.guidance_scale_2 = None;
    }
    sampling.true_cfg_scale = true_cfg(form, spec, sampling.true_cfg_scale, found);
    settle_guider(spec, sampling, found);
    note_idle_negative(form, spec, sampling, found);
}

/// Only where several answers become one.
fn settle_guider(spec: &ModelSpec, sampling: &mut SamplingOptions, found: &mut FormProblems) {
    let is_guided = sampling.is_guided(spec.guidance == GuidanceMode::Cfg, &spec.files);
    let plain = (Guider::default(), GuidanceRange::default());
    let unused = |what: &str| format!("{what} not used: it needs a CFG scale above 1");
    let (guider, range) = (sampling.guider, sampling.guidance_range);
    let is_idle = !is_guided && guider != plain.0 && guider.needs_negative();
    if found.check("guider", guider.problem()) && is_idle {
        found.note("guider", unused("The guider is"));
    }
    if found.check("guidance-range", range.problem()) && !is_guided && range != plain.1 {
        found.note("guidance-range", unused("The guided part of the steps is"));
    }
    if !is_guided {
        sampling.guidance_range = plain.1;
        if sampling.guider.needs_negative() {
            sampling.guider = plain.0;
        }
    }
}

/// Absent where it would do nothing. What is no number at all is for [`super::ranges`] to refuse.
fn true_cfg(
    form: &GenerateForm,
    spec: &ModelSpec,
    scale: Option<f64>,
    found: &mut FormProblems,
) -> Option<f64> {
    let scale = scale?;
    let is_off = (0.0..=1.0).contains(&scale);
    if has_no_guidance(spec) {
        if !is_off {
            let why = format!(
                "The CFG scale is not used: {} works without guidance",
                spec.name
            );
            found.note("true-cfg", why);
        }
        return None;
    }
    if spec.guidance == GuidanceMode::Cfg {
        if !is_off {
            let why = format!(
                "The CFG scale is not used: the guidance of {} is CFG already",
                spec.name
            );
            found.note("true-cfg", why);
        }
        return None;
    }
    if is_off {
        return None;
    }
    if form.negative_prompt.is_none() && scale > 1.0 {
        let text = "CFG is off: it needs a negative prompt";
        found.note("true-cfg", text);
        return None;
    }
    Some(scale)
}

/// Returns true for models distilled to steps without guidance, in families without true CFG.
fn has_no_guidance(spec: &ModelSpec) -> bool {
    spec.guidance == GuidanceMode::None && spec.family.guidance_is_cfg
}

/// A negative prompt that its user wrote, and that no step looks at.
fn note_idle_negative(
    form: &GenerateForm,
    spec: &ModelSpec,
    sampling: &SamplingOptions,
    found: &mut FormProblems,
) {
    let Some(text) = &form.negative_prompt else {
        return;
    };
    if text.trim().is_empty() || *text == spec.defaults.negative_prompt {
        return;
    }
    if has_no_guidance(spec) {
        let why = format!(
            "The negative prompt is not used: {} works without guidance",
            spec.name
        );
        found.note("negative", why);
        return;
    }
    let is_cfg = spec.guidance == GuidanceMode::Cfg;
    let (acts, which) = if is_cfg {
        (sampling.is_guided(is_cfg, &spec.files), "guidance")
    } else {
        (sampling.true_cfg_scale.is_some(), "CFG scale")
    };
    if !acts {
        let why = format!("The negative prompt is not used: set the {which} above 1 to use it");
        found.note("negative", why);
    }
}
