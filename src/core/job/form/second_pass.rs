//! The second pass: its size, and what does not go together with it.

use super::{FormProblems, GenerateForm};
use crate::job::SamplingOptions;
use crate::job::second_pass::{EnlargedPass, SecondPass};
use crate::model::{ImageRole, InputUse, ModelComponent, ModelSpec, nearest_multiple};

/// `first`: the size of the first pass. The second pass where there is one, and the size of the result.
pub(super) fn settle(
    form: &GenerateForm,
    spec: &ModelSpec,
    first: (u32, u32),
    sampling: &SamplingOptions,
    found: &mut FormProblems,
) -> (Option<EnlargedPass>, (u32, u32)) {
    let before = found.errors.len();
    if let Some(pass) = form.second_pass {
        check(form, spec, pass, sampling, found);
    }
    let has_upscaler = spec.files.path(ModelComponent::LatentUpscaler).is_some();
    if has_upscaler && !form.options.single_stage {
        return two_stages(spec, first, sampling, found);
    }
    let Some(pass) = form.second_pass else {
        return (None, first);
    };
    let size = size(spec, pass, first);
    if found.errors.len() == before
        && let Some(problem) = too_large(spec, size)
    {
        found.fail("second-pass", problem);
    }
    let wanted = [first.0, first.1].map(|edge| (f64::from(edge) * pass.scale).round() as u32);
    if found.errors.len() == before && wanted != [size.0, size.1] {
        let text = format!(
            "The size of hires fix was changed from {}×{} to {}×{}: {} makes multiples of {}",
            wanted[0], wanted[1], size.0, size.1, spec.name, spec.limits.size_multiple
        );
        found.note("second-pass", text);
    }
    let enlarged = EnlargedPass {
        pass,
        first_width: first.0,
        first_height: first.1,
    };
    (Some(enlarged), size)
}

/// A first stage at half the edges of `size`, that of the result, whose latents the model's own network upscales.
fn two_stages(
    spec: &ModelSpec,
    size: (u32, u32),
    sampling: &SamplingOptions,
    found: &mut FormProblems,
) -> (Option<EnlargedPass>, (u32, u32)) {
    let half = |edge: u32| nearest_multiple(f64::from(edge) / 2.0, spec.limits.size_multiple);
    let first = (half(size.0), half(size.1));
    let whole = (2 * first.0, 2 * first.1);
    if whole != size {
        let text = format!(
            "The size was changed from {}×{} to {}×{}: in two stages {} makes multiples of {}",
            size.0,
            size.1,
            whole.0,
            whole.1,
            spec.name,
            2 * spec.limits.size_multiple
        );
        found.note("width", text);
    }
    if sampling.start_step > 0 || sampling.end_step.is_some() {
        let text = "two stages need all steps: leave out the start step and the end step, or choose a single stage";
        found.fail("start-step", text.to_owned());
    }
    let enlarged = EnlargedPass {
        pass: SecondPass::OF_LATENTS,
        first_width: first.0,
        first_height: first.1,
    };
    (Some(enlarged), whole)
}

fn size(spec: &ModelSpec, pass: SecondPass, (width, height): (u32, u32)) -> (u32, u32) {
    let multiple = spec.limits.size_multiple.max(1);
    let edge = |edge: u32| nearest_multiple(f64::from(edge) * pass.scale, multiple);
    (edge(width), edge(height))
}

fn too_large(spec: &ModelSpec, (width, height): (u32, u32)) -> Option<String> {
    let limits = &spec.limits;
    let pixels = u64::from(width) * u64::from(height);
    (width.max(height) > limits.max_edge || pixels > limits.max_pixels).then(|| {
        format!(
            "hires fix would make {width}×{height}, and {} makes at most {} pixels: choose a smaller size or scale",
            spec.name, limits.max_pixels
        )
    })
}

fn check(
    form: &GenerateForm,
    spec: &ModelSpec,
    pass: SecondPass,
    sampling: &SamplingOptions,
    found: &mut FormProblems,
) {
    let name = &spec.name;
    let is_base = matches!(spec.image_role, ImageRole::Base | ImageRole::FirstFrame);
    let alone = "do not go together: add hires fix to a job that starts from the result";
    let problem = if !spec.has_second_pass() {
        Some(format!(
            "{name} has no hires fix: it is for models of any size"
        ))
    } else if form.inputs.mask.is_some() || spec.mask == InputUse::Required {
        Some(format!("hires fix and a mask {alone}"))
    } else if form.inputs.extend.is_some() {
        Some(format!("hires fix and a video to continue {alone}"))
    } else if form.inputs.image.is_some() && !is_base {
        Some(format!(
            "{name} has no hires fix for an image that it edits: upscale the result, then change that"
        ))
    } else if sampling.start_step > 0 || sampling.end_step.is_some() {
        let text = "hires fix needs all steps: leave out the start step and the end step";
        Some(text.to_owned())
    } else {
        None
    };
    found.check("second-pass", problem);
    if !SecondPass::SCALES.contains(&pass.scale) {
        let (least, most) = SecondPass::SCALES.into_inner();
        let text = format!(
            "hires fix must enlarge {least} to {most} times, not {}",
            pass.scale
        );
        found.fail("second-pass", text);
    }
    let (strength, num_steps) = (pass.strength, sampling.num_steps);
    let what = ("the strength of hires fix", "");
    if found.within("second-strength", what, &(0.0..=1.0), strength)
        && spec.family.first_step(num_steps, strength) >= num_steps
    {
        let text = format!(
            "a strength of {strength} leaves none of the {num_steps} steps to hires fix: raise the strength or the number of steps"
        );
        found.fail("second-strength", text);
    }
}
