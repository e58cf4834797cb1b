//! Order of the samplers that made a result, and what each pass is: an expert's part of the steps, a second pass at a
//! larger size, or a pass that is not restored.

use std::collections::BTreeSet;

use super::walk::{LinkKind, Source, Walk, is_sampler};
use super::{Input, Node};
use crate::restore::Restored;

/// Inputs with the latents from which a sampler starts.
const LATENTS: [&str; 4] = ["latent_image", "samples", "latent", "image_embeds"];
const MAX_PASSES: usize = 16;
/// Nodes that save a result, of which more are not looked at.
const MAX_SAVES: usize = 16;

pub(super) struct Pass<'a> {
    pub sampler: &'a Node,
    /// Nodes after the pass before, in the order in which they act.
    pub before: Vec<&'a Node>,
}

pub(super) struct PassChain<'a> {
    /// The first pass first; never empty.
    pub passes: Vec<Pass<'a>>,
    /// Nodes after the last pass, in the order in which they act.
    pub after: Vec<&'a Node>,
    /// Sampler of another result that the first pass starts from.
    pub source: Option<&'a Node>,
    /// Other results are saved, too.
    pub is_one_of_several: bool,
}

/// Passes of the result that is saved, or of the last sampler.
pub(super) fn chain<'a>(walk: &Walk<'a>) -> Option<PassChain<'a>> {
    let nodes = || walk.graph.nodes.values().filter(|node| node.runs());
    let ends = |words: &'static str| {
        let ends = nodes()
            .filter(move |node| node.is_called(words))
            .take(MAX_SAVES);
        let ends = ends.filter_map(|end| Some(chain_to(walk, nearest_sampler(walk, end)?)));
        ends.collect::<Vec<_>>()
    };
    let mut chains = ends("save videocombine");
    if chains.is_empty() {
        chains = ends("preview combine");
    }
    // Of results of one run, the one that went through most passes.
    let most = chains.iter().map(|chain| chain.passes.len()).max();
    let longest = chains
        .iter()
        .position(|chain| Some(chain.passes.len()) == most);
    let mut chain = match longest {
        Some(index) => chains.swap_remove(index),
        None => chain_to(walk, (nodes().rfind(|node| is_sampler(node))?, Vec::new())),
    };
    let mut others = chains.iter().flat_map(|other| &other.passes);
    let is_in = |pass: &Pass<'_>| {
        chain
            .passes
            .iter()
            .any(|own| own.sampler.id == pass.sampler.id)
    };
    chain.is_one_of_several = others.any(|pass| !is_in(pass))
        || chains
            .iter()
            .any(|other| other.passes.len() < chain.passes.len());
    Some(chain)
}

fn chain_to<'a>(walk: &Walk<'a>, (last, after): (&'a Node, Vec<&'a Node>)) -> PassChain<'a> {
    let mut chain = PassChain {
        passes: vec![Pass {
            sampler: last,
            before: Vec::new(),
        }],
        after,
        source: None,
        is_one_of_several: false,
    };
    while chain.passes.len() < MAX_PASSES {
        let first = chain.passes[0].sampler;
        let Some((sampler, between)) = nearest_sampler(walk, first) else {
            break;
        };
        let is_known = chain
            .passes
            .iter()
            .any(|pass| pass.sampler.id == sampler.id);
        if is_known {
            break;
        }
        if !continues(walk, first) {
            chain.source = Some(sampler);
            break;
        }
        chain.passes[0].before = between;
        let before = Vec::new();
        chain.passes.insert(0, Pass { sampler, before });
    }
    chain
}

/// Nearest sampler against the links of images and latents, and the nodes between, in the order in which they act.
fn nearest_sampler<'a>(walk: &Walk<'a>, start: &'a Node) -> Option<(&'a Node, Vec<&'a Node>)> {
    let mut met: Vec<(&Node, usize)> = vec![(start, 0)];
    let mut seen = BTreeSet::from([start.id.as_str()]);
    let mut next = 0;
    while let Some(&(node, from)) = met.get(next) {
        if next > 0 && is_sampler(node) {
            let mut between = Vec::new();
            let mut at = from;
            while at > 0 {
                between.push(met[at].0);
                at = met[at].1;
            }
            return Some((node, between));
        }
        for (name, input) in image_inputs(walk, node) {
            if let Some(Source::Node(source, _)) = walk.follow(input, name)
                && seen.insert(&source.id)
            {
                met.push((source, next));
            }
        }
        next += 1;
    }
    None
}

fn image_inputs<'a>(walk: &Walk<'a>, node: &'a Node) -> Vec<(&'a str, &'a Input)> {
    use LinkKind::{Image, Latent, Pipe, Unknown};
    if !is_sampler(node) {
        let kinds = [Image, Latent, Unknown, Pipe];
        return kinds
            .iter()
            .flat_map(|kind| walk.links_of(node, *kind))
            .collect();
    }
    let images = walk.links_of(node, Image);
    if !images.is_empty() {
        return images;
    }
    let latents = LATENTS
        .iter()
        .filter_map(|name| node.inputs.get_key_value(*name));
    let mut found: Vec<_> = latents
        .map(|(name, input)| (name.as_str(), input))
        .collect();
    found.extend(walk.links_of(node, Latent));
    found.extend(walk.links_of(node, Pipe));
    found
}

/// A sampler and the nodes that hold its settings: noise, guider, sampler and scheduler.
pub(super) fn parts<'a>(walk: &Walk<'a>, sampler: &'a Node) -> Vec<&'a Node> {
    let mut parts = vec![sampler];
    parts.extend(
        ["noise", "guider", "sampler"]
            .iter()
            .filter_map(|name| walk.linked(sampler, name)),
    );
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
fn continues<'a>(walk: &Walk<'a>, sampler: &'a Node) -> bool {
    takes_image(walk, sampler)
        || starts_within(walk, sampler)
        || denoise(walk, sampler).is_some_and(|denoise| denoise < 1.0)
}

/// Returns whether a sampler is given pixels, as upscalers by tiles and detailers are.
pub(super) fn takes_image<'a>(walk: &Walk<'a>, sampler: &'a Node) -> bool {
    !walk.links_of(sampler, LinkKind::Image).is_empty()
}

/// Returns whether a sampler goes on within the steps of the one before.
pub(super) fn starts_within<'a>(walk: &Walk<'a>, sampler: &'a Node) -> bool {
    let start = walk.number(sampler, &["start_at_step", "start_step"]);
    let parts = parts(walk, sampler);
    let is_cut = parts.iter().any(|part| {
        let sigmas = part.link("sigmas").filter(|link| link.slot == 1);
        let cutter = sigmas.and_then(|_| walk.linked(part, "sigmas"));
        cutter.is_some_and(|cutter| cutter.is_called("split"))
    });
    let adds_no_noise = walk
        .value(sampler, &["add_noise"])
        .is_some_and(|it| it == "disable" || it == false)
        || parts.iter().any(|part| part.is_called("disablenoise"));
    start.is_some_and(|start| start > 0.0) || is_cut || adds_no_noise
}

/// Part of the steps that a sampler runs, from 0 to 1.
pub(super) fn denoise<'a>(walk: &Walk<'a>, sampler: &'a Node) -> Option<f64> {
    let names = ["denoise", "denoise_strength", "denoising_strength"];
    let mut parts = parts(walk, sampler).into_iter();
    let own = parts.find_map(|part| walk.number(part, &names));
    own.or_else(|| {
        let start = walk.number(sampler, &["start_at_step", "start_step"])?;
        let steps = walk.number(sampler, &["steps"])?;
        let strength = 1.0 - (start / steps * 1000.0).round() / 1000.0;
        (start > 0.0 && start < steps).then_some(strength)
    })
}

/// Reads a pass over the image that the passes before made, which are in `restored`.
pub(super) fn read_refinement<'a>(
    walk: &Walk<'a>,
    pass: &Pass<'a>,
    own: &Restored,
    restored: &mut Restored,
) {
    let strength = denoise(walk, pass.sampler).unwrap_or(1.0);
    let size = restored.width.zip(restored.height);
    let scale = scale(walk, &pass.before, size);
    let node = pass.sampler.described();
    let values = described_values(own, strength);
    if takes_image(walk, pass.sampler) {
        restored.note(format!(
            "A later pass over the finished image is not used: {node} with its own {values}"
        ));
        return;
    }
    restored.add_second_pass(
        scale,
        strength,
        &format!("{node} with its own {values}"),
        &differences(own, restored),
    );
}

fn described_values(own: &Restored, strength: f64) -> String {
    let seed = own.seed.map(|seed| format!("seed {seed}"));
    let steps = own.num_steps.map(|steps| format!("{steps} steps"));
    let values = [seed, steps, Some(format!("denoising strength {strength}"))];
    values.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Settings of a second pass that differ from the first's.
fn differences(own: &Restored, first: &Restored) -> String {
    let is_other = [
        ("prompt", own.prompt != first.prompt),
        ("model", own.model != first.model),
        ("LoRAs", own.loras != first.loras),
        (
            "sampler",
            (own.sampler, own.sigma_schedule) != (first.sampler, first.sigma_schedule),
        ),
        ("guidance", own.cfg_scale != first.cfg_scale),
    ];
    let steps = own
        .num_steps
        .filter(|steps| Some(*steps) != first.num_steps);
    let steps = steps.map(|steps| format!("{steps} steps"));
    let seed = own.seed.filter(|seed| Some(*seed) != first.seed);
    let seed = seed.map(|seed| format!("seed {seed}"));
    let others = is_other.iter().filter(|(_, is_other)| *is_other);
    let others = others.map(|(name, _)| (*name).to_owned());
    let all: Vec<String> = steps.into_iter().chain(seed).chain(others).collect();
    all.join(", ")
}

/// Factor by which the nodes between two passes enlarge; `None` where one of them does so by an unknown factor.
fn scale<'a>(walk: &Walk<'a>, between: &[&'a Node], size: Option<(u32, u32)>) -> Option<f64> {
    let mut scale = 1.0;
    for node in between.iter().filter(|node| node.is_called("scale resize")) {
        let names = [
            "scale_by",
            "upscale_by",
            "scale_factor",
            "rescale_factor",
            "upscale_factor",
            "upscale",
            "factor",
            "multiplier",
        ];
        let by_network = walk.linked(node, "upscale_model");
        scale = if let Some(network) = by_network {
            scale * network_scale(&walk.name(network, &["model_name"])?)?
        } else if let Some(factor) = walk.number(node, &names) {
            scale * factor
        } else if let Some(pixels) = walk.number(node, &["megapixels"]) {
            let (width, height) = size?;
            (pixels * 1024.0 * 1024.0 / (f64::from(width) * f64::from(height))).sqrt()
        } else {
            f64::from(walk.size(node)?.0) / f64::from(size?.0)
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
