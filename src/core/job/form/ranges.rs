//! The ranges of the numbers in a request that have no nearest right value.
//!
//! Sizes and frames are [`super::snap`]'s.

use std::ops::RangeInclusive;

use super::{FormProblems, GenerateForm};
use crate::job::{GenerateRequest, SamplingOptions};
use crate::model::choices::SamplerKind;
use crate::model::choices::SigmaSchedule;
use crate::model::{ModelFamily, ModelSpec};
use crate::units::range_problem;

/// Slowest and fastest rate of a written video.
pub(super) const FPS: RangeInclusive<f64> = 1.0..=240.0;

/// Stronger, a LoRA drowns the model.
const LORA: RangeInclusive<f64> = -10.0..=10.0;

const SHIFT: RangeInclusive<f64> = 0.01..=100.0;

/// The smallest tile, in pixels: smaller ones are all overlap.
const MIN_VAE_TILE: u32 = 64;
const MAX_VAE_TILE: u32 = 8192;

pub(super) fn check(request: &GenerateRequest, spec: &ModelSpec, found: &mut FormProblems) {
    let rate = ("the frame rate", " frames per second");
    found.within("fps", rate, &FPS, request.fps);
    let sampling = &request.sampling;
    let steps = ("the number of steps", "");
    if found.within("steps", steps, &(1..=1000), sampling.num_steps) {
        check_part(spec.family, sampling, found);
        check_sigmas(sampling, spec, found);
    }
    for (field, scale) in sampling.guidances() {
        let scale = scale.unwrap_or_default();
        found.within(field, ("the guidance", ""), &(0.0..=100.0), scale);
    }
    if sampling.shift.is_some() && !spec.family.has_shift {
        let text = format!(
            "the noise levels of {} have no shift: leave it out",
            spec.name
        );
        found.fail("shift", text);
    }
    found.check("shift", sampling.shift.and_then(wrong_shift));
    if let Some(tile) = request.options.vae_tile {
        check_tile(tile, spec, found);
    }
    check_tokens(request, spec, found);
    check_loras(request, found);
}

/// As many tokens as the longest text encoder was trained to read.
fn check_tokens(request: &GenerateRequest, spec: &ModelSpec, found: &mut FormProblems) {
    if let Some(most) = (spec.family.token_limit)(spec.guidance)
        && let Some(tokens) = request.options.max_sequence_length
    {
        let unit = format!(" for {}", spec.name);
        let what = ("the number of tokens", unit.as_str());
        found.within("max-sequence-length", what, &(1..=most), tokens);
    }
}

fn check_loras(request: &GenerateRequest, found: &mut FormProblems) {
    for lora in &request.loras {
        for strength in [Some(lora.strength), lora.strength_2].into_iter().flatten() {
            let problem = range_problem("a LoRA's strength", &LORA, "", strength);
            let file = lora.path.display();
            found.check("lora", problem.map(|text| format!("{text}: {file}")));
        }
    }
}

/// A shift by the number of tokens, for the families that have one.
pub(super) fn dynamic_shift(
    form: &GenerateForm,
    spec: &ModelSpec,
    found: &mut FormProblems,
) -> bool {
    let has_one = spec.family.has_dynamic_shift;
    match (form.sampling.dynamic_shift, form.sampling.shift) {
        (true, Some(_)) => found.fail(
            "shift",
            "give either a number as the shift or the dynamic one, not both".to_owned(),
        ),
        (true, None) if !has_one => {
            found.fail("shift", format!("{} has no dynamic shift", spec.name));
        }
        (is_wanted, _) => return is_wanted,
    }
    false
}

/// Sentence on an invalid shift. Far below the minimum all steps would be spent on invisible noise.
pub(crate) fn wrong_shift(shift: f64) -> Option<String> {
    range_problem("the shift", &SHIFT, "", shift)
}

/// The part of the schedule that is made: at least one step of it.
fn check_part(family: ModelFamily, sampling: &SamplingOptions, found: &mut FormProblems) {
    let num_steps = sampling.num_steps;
    let end = sampling.end_step.unwrap_or(num_steps);
    if end == 0 || end > num_steps {
        let text = format!("the end step must be between 1 and {num_steps}, not {end}");
        found.fail("end-step", text);
    } else if let Some(strength) = sampling.strength
        && (end..num_steps).contains(&family.first_step(num_steps, strength))
    {
        let text = format!(
            "the end step must be above {}, where the strength {strength} begins, not {end}",
            family.first_step(num_steps, strength)
        );
        found.fail("end-step", text);
    } else if sampling.start_step >= end {
        let text = format!(
            "the start step must be below the end step {end}, not {}",
            sampling.start_step
        );
        found.fail("start-step", text);
    }
}

/// Models that were distilled to certain noise levels have no others.
fn check_sigmas(sampling: &SamplingOptions, spec: &ModelSpec, found: &mut FormProblems) {
    let (most, name) = (spec.family.sigmas.len(), &spec.name);
    if most == 0 {
        return;
    }
    if sampling.num_steps as usize > most {
        let text = format!(
            "{name} has at most {most} steps, not {}",
            sampling.num_steps
        );
        found.fail("steps", text);
    }
    let sampler = sampling.sampler;
    // The first ones divide by the part of the image at the first level, which is 0.
    let is_undefined = matches!(
        sampler,
        SamplerKind::UniPc | SamplerKind::UniPcBh1 | SamplerKind::ErSde
    );
    if is_undefined || sampler.has_two_calls() {
        let text = format!(
            "{name} cannot be sampled with {}: use Euler, LCM, DPM++ 2M or RES multistep",
            sampler.label()
        );
        found.fail("sampler", text);
    }
    if sampling.shift.is_some() || sampling.sigma_schedule != SigmaSchedule::default() {
        let text = format!(
            "the noise levels of {name} are fixed: leave out the shift and the sigma schedule"
        );
        found.fail("shift", text);
    }
}

fn check_tile(tile: u32, spec: &ModelSpec, found: &mut FormProblems) {
    // The transformers of this family take patches of two by two latents.
    let factor = (spec.limits.size_multiple / 2).max(1);
    let range = MIN_VAE_TILE.next_multiple_of(factor)..=MAX_VAE_TILE;
    if !range.contains(&tile) || !tile.is_multiple_of(factor) {
        let text = format!(
            "the VAE tile must be between {} and {} pixels and a multiple of {factor} for {}, not {tile}",
            range.start(),
            range.end(),
            spec.name
        );
        found.fail("vae-tile", text);
    }
}
