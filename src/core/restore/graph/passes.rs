//! Passes of samplers: an expert's part of the steps, a hires fix at a larger size, or a pass that is not restored.

use super::nodes::{InputSource, LinkKind, NodeRef, first_match};
use super::results::{PassChain, SamplerPass, is_sampler};
use super::values::is_on;
use crate::restore::names::file_name;
use crate::restore::{ForeignSettings, RestoredLora, fields, short};

pub(super) const MAX_PASSES: usize = 16;

/// A sampler and the nodes that hold its settings: noise, guider, sampler, scheduler, and what cuts its sigmas.
pub(super) struct SamplerParts<'g>(pub Vec<NodeRef<'g>>);

impl<'g> SamplerParts<'g> {
    pub fn new(sampler: NodeRef<'g>) -> Self {
        let names = ["noise", "guider", "sampler", "scheduler"].iter();
        let parts = names.filter_map(|name| sampler.linked(name));
        let sigmas = sampler.chain(|node| node.linked("sigmas"));
        let sigmas = sigmas.skip(1).take(MAX_PASSES);
        Self([sampler].into_iter().chain(parts).chain(sigmas).collect())
    }

    /// Without the nodes that split or change sigmas, whose numbers are of the change.
    pub fn whole(mut self) -> Self {
        self.0.retain(|part| {
            let is_change = !is_sampler(*part) && part.link("sigmas").is_some();
            !is_change && !part.is_called("SIGMA_SPLITTERS")
        });
        self
    }

    pub fn number(&self, names: &str) -> Option<f64> {
        self.0.iter().find_map(|part| part.number(names))
    }

    pub fn name(&self, names: &str) -> Option<String> {
        self.0.iter().find_map(|part| part.name(names))
    }

    pub fn is_called(&self, words: &str) -> bool {
        self.0.iter().any(|part| part.is_called(words))
    }
}

/// Returns whether a sampler works on the image or the latents of the pass before, rather than on noise.
pub(super) fn continues(sampler: NodeRef<'_>) -> bool {
    let runs_part = || denoise(sampler).is_some_and(|denoise| denoise < 1.0);
    takes_image(sampler) || starts_within(sampler) || runs_part()
}

/// Returns whether a sampler is given pixels, as upscalers by tiles and detailers are.
pub(super) fn takes_image(sampler: NodeRef<'_>) -> bool {
    !sampler.links_of(LinkKind::Image).is_empty() || restores_image(sampler)
}

/// Returns whether a sampler is given an encoded image and no strength, as restoring upscalers are.
pub(super) fn restores_image(sampler: NodeRef<'_>) -> bool {
    let mut latents = ["latents", "latent", "samples", "latent_image"].iter();
    let encoder = latents.find_map(|name| sampler.linked(name));
    let encoder = encoder.filter(|it| it.is_called("encode"));
    is_sampler(sampler)
        && !sampler.has("DENOISE_NAMES")
        && !sampler.has("sigmas, start_at_step, start_step")
        && encoder.is_some_and(|it| !it.links_of(LinkKind::Image).is_empty())
}

/// Returns whether a sampler continues within the steps of the one before.
pub(super) fn starts_within(sampler: NodeRef<'_>) -> bool {
    // A step that another node computes.
    let has_unread_start = sampler.has("STARTS") && sampler.number("STARTS").is_none();
    let starts_late = StepRange::new(sampler).is_some_and(|it| it.start > 0.0);
    adds_no_noise(sampler) || has_unread_start || starts_late
}

pub(super) fn adds_no_noise(sampler: NodeRef<'_>) -> bool {
    let add_noise = sampler.value("add_noise");
    sampler.is_called("CHAINED_SAMPLERS")
        || add_noise.is_some_and(|it| is_on(&it) == Some(false))
        || SamplerParts::new(sampler).is_called("disablenoise")
}

/// Steps from `start` to `end` that a sampler runs of a schedule.
pub(super) struct StepRange {
    pub start: f64,
    end: f64,
    pub total: f64,
}

impl StepRange {
    /// Steps that a sampler runs by its own numbers, and by the nodes that split its sigmas.
    pub fn new(sampler: NodeRef<'_>) -> Option<Self> {
        let total = SamplerParts::new(sampler).whole().number("steps")?;
        let parts = SamplerParts::new(sampler);
        let step = |names| {
            let step = parts.number(names);
            step.filter(|step| (0.0..=total).contains(step))
        };
        let mut start = step("STARTS").unwrap_or(0.0);
        let mut end = step("ENDS").unwrap_or(total);
        for part in &parts.0 {
            let Some(InputSource::Node(splitter, slot)) = part.source("sigmas") else {
                continue;
            };
            let of_low = |denoise: f64| total - (total * denoise).round();
            let step = splitter.number("step");
            let step = step.or_else(|| splitter.number("denoise").map(of_low));
            match (step.filter(|_| splitter.is_called("SIGMA_SPLITTERS")), slot) {
                (Some(step), 0) => end = end.min(step),
                (Some(step), _) => start = start.max(step),
                (None, _) => {}
            }
        }
        Some(Self { start, end, total })
    }
}

/// Names steps that none of the samplers runs.
pub(super) fn note_missing_steps(chain: &PassChain<'_>, restored: &mut ForeignSettings) {
    for (index, pass) in chain.passes.iter().enumerate() {
        let node = pass.sampler;
        let Some(StepRange { start, end, total }) = StepRange::new(node) else {
            continue;
        };
        if index == 0 && adds_no_noise(node) {
            restored.note(format!(
                "No noise was added before the first step ({node}): here it is"
            ));
        }
        if index == 0 && start > 0.0 {
            restored.note(format!(
                "The first {start} of {total} steps were not run ({node}): that is restored as a denoising strength"
            ));
        }
        let next = chain.passes.get(index + 1);
        if end < total && !next.is_some_and(|next| starts_within(next.sampler)) {
            let last = total - end;
            restored.note(format!(
                "The last {last} of {total} steps were not run ({node}): all are run here"
            ));
        }
    }
}

/// Steps of the whole schedule. With a `denoise` all the steps of a node are the last ones of a longer schedule, where
/// other strengths leave out its first ones.
pub(super) fn num_steps(sampler: NodeRef<'_>) -> Option<u32> {
    let parts = SamplerParts::new(sampler).whole();
    let steps = parts.number("steps")?;
    // As in ComfyUI, the wrapper for Wan runs all its steps.
    let is_wrapper = sampler.is_called("wanvideo");
    let denoise = parts.number(if is_wrapper {
        "DENOISE_NAMES"
    } else {
        "denoise"
    });
    let denoise = denoise.filter(|it| 0.0 < *it && *it < 1.0);
    fields::count(&(steps / denoise.unwrap_or(1.0)).floor().into())
}

/// Part of the steps that a sampler runs, from 0 to 1.
pub(super) fn denoise(sampler: NodeRef<'_>) -> Option<f64> {
    let own = SamplerParts::new(sampler).whole().number("DENOISE_NAMES");
    let range = StepRange::new(sampler).filter(|it| it.start > 0.0 && it.start < it.total);
    let Some(range) = range else {
        return own;
    };
    let part = own.unwrap_or(1.0) * (1.0 - range.start / range.total);
    Some((part * 1000.0).round() / 1000.0)
}

/// Reads a pass over the image that the passes before made, which are in `restored`.
pub(super) fn read_refinement(
    pass: &SamplerPass<'_>,
    own: &ForeignSettings,
    restored: &mut ForeignSettings,
) {
    let node = pass.sampler;
    let strength = denoise(node).unwrap_or(1.0);
    let size = restored.width.zip(restored.height);
    let scale = scale(&pass.before, size);
    let seed = own.seed.map(|seed| format!("seed {seed}, "));
    let steps = own.run_steps().map(|steps| format!("{steps} steps, "));
    let (seed, steps) = (seed.unwrap_or_default(), steps.unwrap_or_default());
    let described = format!("{node} with its own {seed}{steps}denoising strength {strength}");
    if takes_image(node) {
        restored.note(format!(
            "A later pass over the finished image is not used: {described}"
        ));
        return;
    }
    // Sizes have one shape, but for rounding.
    let shape = |(width, height)| f64::from(width) / f64::from(height);
    let is_alike = |own| size.is_none_or(|it| (shape(own) / shape(it) - 1.0).abs() < 0.03);
    for node in &pass.before {
        if let Some((width, height)) = node.size().filter(|own| !is_alike(*own)) {
            restored.note(format!(
                "The hires fix had another shape, {width} × {height} ({node}): Safelight's keeps that of the first pass"
            ));
        }
    }
    let mut differences = differences(own, restored, &[]);
    let mut networks = pass.before.iter();
    let network = networks.find_map(|it| it.linked("upscale_model")?.name("model_name"));
    differences.extend(network.map(|name| format!("upscaler {}", short(file_name(&name)))));
    restored.add_second_pass(scale, strength, &described, &differences.join(", "));
}

/// Settings of a later pass that differ from the first's, but for those of these names.
pub(super) fn differences(
    own: &ForeignSettings,
    first: &ForeignSettings,
    ignored: &[&str],
) -> Vec<String> {
    // The first pass has a value for these where a later one says nothing.
    const INHERITED: [&str; 4] = ["steps", "seed", "negative prompt", "shift"];
    let values = |it: &ForeignSettings| {
        let guidances = (it.cfg_scale, it.distilled_guidance);
        [
            ("steps", it.num_steps.map(|it| it.to_string())),
            ("seed", it.seed.map(|it| it.to_string())),
            ("prompt", it.prompt.clone()),
            ("negative prompt", it.negative_prompt.clone()),
            ("model", it.model.clone()),
            ("LoRAs", Some(RestoredLora::listed(&it.loras))),
            ("sampler", it.sampler.map(|it| it.name().to_owned())),
            ("schedule", it.sigma_schedule.map(|it| it.name().to_owned())),
            ("guidance", Some(format!("{guidances:?}"))),
            ("shift", it.shift.map(|it| it.to_string())),
        ]
    };
    let pairs = values(own).into_iter().zip(values(first));
    let described = pairs.filter_map(|((name, value), (_, of_first))| {
        let is_inherited = value.is_none() && INHERITED.contains(&name);
        if value == of_first || is_inherited || ignored.contains(&name) {
            return None;
        }
        let cfg_scale = own.cfg_scale.filter(|it| Some(*it) != first.cfg_scale);
        let value = match name {
            "steps" => return Some(format!("{} steps", own.run_steps().unwrap_or_default())),
            "guidance" => cfg_scale
                .or(own.distilled_guidance)
                .map(|it| it.to_string()),
            _ => value.map(|it| short(&it)),
        };
        Some(
            format!("{name} {}", value.unwrap_or_default())
                .trim_end()
                .to_owned(),
        )
    });
    described.collect()
}

/// Factor by which the nodes between two passes enlarge; `None` where one of them does so by an unknown factor.
fn scale(between: &[NodeRef<'_>], size: Option<(u32, u32)>) -> Option<f64> {
    let mut scale = 1.0;
    for node in between.iter().filter(|node| node.is_called("ENLARGERS")) {
        node.use_all();
        if let Some(network) = node.linked("upscale_model") {
            // As in `4x-UltraSharp` and `RealESRGAN_x2plus`.
            let name = network.name("model_name")?.to_lowercase();
            scale *= first_match("x([1-8])|([1-8])x", &name)?
                .parse::<f64>()
                .ok()?;
        } else if let Some(factor) = node.number("SCALES") {
            scale *= factor;
        } else {
            let (width, height) = size?;
            let (width, height) = (f64::from(width), f64::from(height));
            // An edge of 0 keeps the shape.
            scale = if let Some(pixels) = node.number("megapixels") {
                (pixels * 1024.0 * 1024.0 / (width * height)).sqrt()
            } else if let Some(own) = node.size().map(|it| it.0).or_else(|| node.count("width")) {
                f64::from(own) / width
            } else {
                f64::from(node.count("height")?) / height
            };
        }
    }
    Some((scale * 1000.0).round() / 1000.0).filter(|scale| scale.is_finite())
}

/// Reads the rate at which the frames of the last sampler are written, as far as none were put between them.
pub(super) fn read_rate(chain: &PassChain<'_>, restored: &mut ForeignSettings) {
    let (mut interpolator, mut interpolated) = (None, None);
    let own = chain.after.iter().chain(&chain.end);
    for node in own.chain(&chain.after_others) {
        if node.is_called("INTERPOLATORS") {
            interpolator = Some(node);
        }
        let Some(rate) = node.number("RATES").filter(|rate| *rate >= 1.0) else {
            continue;
        };
        let Some(node) = interpolator.take() else {
            restored.fps = Some(rate);
            return;
        };
        interpolated = interpolated.or(Some((node, rate)));
    }
    if let Some((node, rate)) = interpolated {
        restored.note(format!(
            "The frame rate of {rate} was set after frames were put between those of the model ({node}): the model's own is used"
        ));
    }
}
