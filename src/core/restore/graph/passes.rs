//! Passes of samplers: an expert's part of the steps, a second pass at a larger size, or a pass that is not restored.

use std::collections::BTreeSet;

use super::ComfyNode;
use super::pass_differences::differences;
use super::results::{PassChain, SamplerPass, samplers_before};
use super::walk::{GraphWalk, InputSource, LinkKind, is_sampler};
use crate::restore::names::file_name;
use crate::restore::{ForeignSettings, fields, short};

/// Inputs with the part of the steps that a sampler runs.
pub(super) const DENOISE: &str = "denoise, denoise_strength, denoising_strength";
pub(super) const MAX_PASSES: usize = 16;
/// Nodes that give the high half of sigmas at slot 0 and the low half at slot 1.
pub(super) const SPLITTER: &str = "splitsigmas";
/// Nodes with a frame rate, of which more are not looked at.
const MAX_RATES: usize = 32;

/// A sampler and the nodes that hold its settings: noise, guider, sampler and scheduler.
pub(super) fn parts<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> Vec<&'a ComfyNode> {
    let mut parts = vec![sampler];
    let names = ["noise", "guider", "sampler", "scheduler"].iter();
    parts.extend(names.filter_map(|name| walk.linked(sampler, name)));
    // Sigmas may be cut after the scheduler made them.
    let mut scheduler = sampler;
    for _ in 0..MAX_PASSES {
        let Some(next) = walk.linked(scheduler, "sigmas") else {
            break;
        };
        parts.push(next);
        scheduler = next;
    }
    parts
}

/// Returns whether a sampler works on the image or the latents of the pass before, rather than on noise.
pub(super) fn continues<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> bool {
    takes_image(walk, sampler)
        || starts_within(walk, sampler)
        || denoise(walk, sampler).is_some_and(|denoise| denoise < 1.0)
}

/// Returns whether a sampler is given pixels, as upscalers by tiles and detailers are.
pub(super) fn takes_image<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> bool {
    !walk.links_of(sampler, LinkKind::Image).is_empty() || restores_image(walk, sampler)
}

/// Returns whether a sampler is given an encoded image and no strength, as restoring upscalers are.
pub(super) fn restores_image<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> bool {
    let mut encoders = ["latents", "latent", "samples", "latent_image"].iter();
    let encoder = encoders.find_map(|name| walk.linked(sampler, name));
    is_sampler(sampler)
        && !sampler.has(DENOISE)
        && !sampler.has("sigmas, start_at_step, start_step")
        && encoder.is_some_and(|it| {
            it.is_called("encode") && !walk.links_of(it, LinkKind::Image).is_empty()
        })
}

/// Returns whether a sampler continues within the steps of the one before.
pub(super) fn starts_within<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> bool {
    adds_no_noise(walk, sampler) || step_range(walk, sampler).is_some_and(|it| it.start > 0.0)
}

pub(super) fn adds_no_noise<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> bool {
    let add_noise = walk.value(sampler, "add_noise");
    let mut parts = parts(walk, sampler).into_iter();
    add_noise.is_some_and(|it| it == "disable" || it == false)
        || parts.any(|part| part.is_called("disablenoise"))
}

/// Steps from `start` to `end` that a sampler runs of a schedule.
pub(super) struct StepRange {
    pub start: f64,
    end: f64,
    pub total: f64,
}

/// Steps that a sampler runs by its own numbers, and by the nodes that split its sigmas.
pub(super) fn step_range<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> Option<StepRange> {
    let parts = parts(walk, sampler);
    let total = parts.iter().find_map(|it| walk.number(it, "steps"))?;
    let step = |names| {
        let step = parts.iter().find_map(|it| walk.number(it, names));
        step.filter(|step| (0.0..=total).contains(step))
    };
    let mut start = step("start_at_step, start_step").unwrap_or(0.0);
    let mut end = step("end_at_step, end_step").unwrap_or(total);
    for part in &parts {
        let sigmas = part.inputs.get("sigmas");
        let Some(InputSource::Node(splitter, slot)) =
            sigmas.and_then(|it| walk.follow(it, "sigmas"))
        else {
            continue;
        };
        let of_low = |denoise: f64| total - (total * denoise).round();
        let step = walk.number(splitter, "step");
        let step = step.or_else(|| walk.number(splitter, "denoise").map(of_low));
        match (step.filter(|_| splitter.is_called(SPLITTER)), slot) {
            (Some(step), 0) => end = end.min(step),
            (Some(step), _) => start = start.max(step),
            (None, _) => {}
        }
    }
    Some(StepRange { start, end, total })
}

/// Names steps that none of the samplers runs.
pub(super) fn note_missing_steps<'a>(
    walk: &GraphWalk<'a>,
    chain: &PassChain<'a>,
    restored: &mut ForeignSettings,
) {
    for (index, pass) in chain.passes.iter().enumerate() {
        let Some(StepRange { start, end, total }) = step_range(walk, pass.sampler) else {
            continue;
        };
        let node = pass.sampler;
        if index == 0 && start > 0.0 {
            restored.note(format!(
                "The first {start} of {total} steps were not run ({node}): that is restored as a denoising strength"
            ));
        }
        let next = chain.passes.get(index + 1);
        if end < total && !next.is_some_and(|next| starts_within(walk, next.sampler)) {
            let last = total - end;
            restored.note(format!(
                "The last {last} of {total} steps were not run ({node}): all are run here"
            ));
        }
    }
}

/// Steps of the whole schedule. With a `denoise` all the steps of a node are the last ones of a longer schedule, where
/// other strengths leave out its first ones.
pub(super) fn num_steps<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> Option<u32> {
    let parts = parts(walk, sampler).into_iter();
    let mut parts = parts.filter(|part| !part.is_called(SPLITTER));
    let steps = parts.clone().find_map(|part| walk.number(part, "steps"))?;
    let denoise = parts.find_map(|part| walk.number(part, "denoise"));
    let denoise = denoise.filter(|it| (0.0..1.0).contains(it) && *it > 0.0);
    fields::count(&(steps / denoise.unwrap_or(1.0)).floor().into())
}

/// Part of the steps that a sampler runs, from 0 to 1.
pub(super) fn denoise<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode) -> Option<f64> {
    let parts = parts(walk, sampler).into_iter();
    let mut parts = parts.filter(|part| !part.is_called(SPLITTER));
    let own = parts.find_map(|part| walk.number(part, DENOISE));
    let range = step_range(walk, sampler).filter(|it| it.start > 0.0 && it.start < it.total);
    let rest = range.map(|it| 1.0 - it.start / it.total);
    let rounded = |part: f64| (part * 1000.0).round() / 1000.0;
    match (own, rest) {
        (Some(own), Some(rest)) => Some(rounded(own * rest)),
        (own, rest) => own.or_else(|| rest.map(rounded)),
    }
}

/// Reads a pass over the image that the passes before made, which are in `restored`.
pub(super) fn read_refinement<'a>(
    walk: &GraphWalk<'a>,
    pass: &SamplerPass<'a>,
    own: &ForeignSettings,
    restored: &mut ForeignSettings,
) {
    let strength = denoise(walk, pass.sampler).unwrap_or(1.0);
    let size = restored.width.zip(restored.height);
    let scale = scale(walk, &pass.before, size);
    let node = pass.sampler;
    let values = described_values(own, strength);
    if takes_image(walk, pass.sampler) {
        restored.note(format!(
            "A later pass over the finished image is not used: {node} with its own {values}"
        ));
        return;
    }
    for node in &pass.before {
        if let Some((width, height)) = walk.size(node).filter(|own| !is_alike(*own, size)) {
            restored.note(format!(
                "The second pass had another shape, {width} × {height} ({node}): Safelight's keeps that of the first"
            ));
        }
    }
    let mut differences = differences(own, restored, &[]);
    let mut networks = pass.before.iter();
    let network =
        networks.find_map(|it| walk.name(walk.linked(it, "upscale_model")?, "model_name"));
    differences.extend(network.map(|name| format!("upscaler {}", short(file_name(&name)))));
    restored.add_second_pass(
        scale,
        strength,
        &format!("{node} with its own {values}"),
        &differences.join(", "),
    );
}

/// Returns whether two sizes have one shape, but for rounding.
fn is_alike((width, height): (u32, u32), other: Option<(u32, u32)>) -> bool {
    let shape = |width, height| f64::from(width) / f64::from(height);
    other.is_none_or(|it| (shape(width, height) / shape(it.0, it.1) - 1.0).abs() < 0.03)
}

fn described_values(own: &ForeignSettings, strength: f64) -> String {
    let seed = own.seed.map(|seed| format!("seed {seed}"));
    let steps = own.run_steps().map(|steps| format!("{steps} steps"));
    let values = [seed, steps, Some(format!("denoising strength {strength}"))];
    values.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Factor by which the nodes between two passes enlarge; `None` where one of them does so by an unknown factor.
fn scale<'a>(
    walk: &GraphWalk<'a>,
    between: &[&'a ComfyNode],
    size: Option<(u32, u32)>,
) -> Option<f64> {
    let mut scale = 1.0;
    for node in between.iter().filter(|node| node.is_called("scale resize")) {
        let names = "scale_by, upscale_by, scale_factor, rescale_factor, upscale_factor, upscale, factor, multiplier";
        walk.use_node(node);
        let by_network = walk.linked(node, "upscale_model");
        scale = if let Some(network) = by_network {
            scale * network_scale(&walk.name(network, "model_name")?)?
        } else if let Some(factor) = walk.number(node, names) {
            scale * factor
        } else if let Some(pixels) = walk.number(node, "megapixels") {
            let (width, height) = size?;
            (pixels * 1024.0 * 1024.0 / (f64::from(width) * f64::from(height))).sqrt()
        } else {
            let (width, height) = size?;
            // 0 keeps the shape.
            match walk.size(node) {
                Some(own) => f64::from(own.0) / f64::from(width),
                None => match walk.count(node, "width") {
                    Some(own) => f64::from(own) / f64::from(width),
                    None => f64::from(walk.count(node, "height")?) / f64::from(height),
                },
            }
        };
    }
    Some((scale * 1000.0).round() / 1000.0).filter(|scale| scale.is_finite())
}

/// Scale in the name of an upscaler: `4x-UltraSharp`, `RealESRGAN_x2plus`.
fn network_scale(name: &str) -> Option<f64> {
    let letters: Vec<char> = name.to_lowercase().chars().collect();
    letters.windows(2).find_map(|pair| match pair {
        ['x', digit] | [digit, 'x'] => digit
            .to_digit(10)
            .filter(|it| (1..=8).contains(it))
            .map(f64::from),
        _ => None,
    })
}

/// Ids of the nodes of this class and of all that they are made of.
fn nodes_before<'a>(walk: &GraphWalk<'a>, class: &str) -> BTreeSet<&'a str> {
    let nodes = walk.graph.nodes.values();
    let mut stack: Vec<_> = nodes
        .filter(|it| it.runs() && it.is_called(class))
        .collect();
    let mut ids = BTreeSet::new();
    while let Some(node) = stack.pop() {
        if ids.insert(&*node.id) {
            stack.extend(node.links().filter_map(|(name, _)| walk.linked(node, name)));
        }
    }
    ids
}

/// Reads the rate at which the frames of the last sampler are written, as far as none were put between them.
pub(super) fn read_rate<'a>(
    walk: &GraphWalk<'a>,
    last: &'a ComfyNode,
    restored: &mut ForeignSettings,
) {
    let names = "fps, frame_rate";
    let mut interpolator = None;
    // The rate of what is saved comes before that of what is only shown.
    let [saved, shown] = ["save videocombine", "preview"].map(|ends| nodes_before(walk, ends));
    let nodes = walk.graph.nodes.values();
    let nodes = nodes.filter(|node| node.runs() && node.has(names));
    let mut nodes: Vec<_> = nodes.take(MAX_RATES).collect();
    let rank = |node: &ComfyNode| {
        [&saved, &shown]
            .iter()
            .position(|ids| ids.contains(&*node.id))
    };
    nodes.retain(|node| rank(node).is_some() || !node.is_called("createvideo"));
    nodes.sort_by_key(|node| rank(node).unwrap_or(2));
    for node in nodes {
        let Some(rate) = walk.number(node, names).filter(|rate| *rate >= 1.0) else {
            continue;
        };
        let nearest = samplers_before(walk, node, 1).into_iter().next();
        let Some((sampler, between)) = nearest else {
            // The rate of the model.
            if node.is_called("conditioning") {
                restored.fps = restored.fps.or(Some(rate));
            }
            continue;
        };
        let found = between
            .into_iter()
            .find(|it| it.is_called("interpol vfi rife"));
        if !std::ptr::eq(sampler, last) {
            continue;
        }
        let Some(found) = found else {
            restored.fps = Some(rate);
            return;
        };
        interpolator = Some((found, rate));
    }
    if let Some((node, rate)) = interpolator.filter(|_| restored.fps.is_none()) {
        restored.note(format!(
            "The frame rate of {rate} was set after frames were put between those of the model ({node}): the model's own is used"
        ));
    }
}
