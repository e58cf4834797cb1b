//! Results that a graph saves, each with the samplers that made it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::passes::{MAX_PASSES, continues, takes_image};
use super::walk::{GraphWalk, InputSource, LinkKind, is_sampler};
use super::{ComfyNode, NodeInput};

/// Inputs with the latents from which a sampler starts.
pub(super) const LATENTS: &str = "latent_image, samples, latent, image_embeds";
/// Nodes that save or show a result.
pub(super) const ENDS: &str = "save videocombine preview combine";
/// Nodes that save a result, of which more are not looked at.
const MAX_SAVES: usize = 64;
/// Results of one graph.
pub(super) const MAX_RESULTS: usize = 64;

pub(super) struct SamplerPass<'a> {
    pub sampler: &'a ComfyNode,
    /// Nodes after the pass before, in the order in which they act.
    pub before: Vec<&'a ComfyNode>,
}

/// One result: the passes that made it, and the node that saves it.
pub(super) struct PassChain<'a> {
    /// The first pass first; never empty.
    pub passes: Vec<SamplerPass<'a>>,
    /// Nodes after the last pass, in the order in which they act.
    pub after: Vec<&'a ComfyNode>,
    /// Nodes after the last pass in other savings of the result, or of its earlier passes.
    pub after_others: Vec<&'a ComfyNode>,
    /// Sampler of another result that the first pass starts from.
    pub source: Option<&'a ComfyNode>,
    /// Node that saves it, or shows it where nothing is saved.
    pub end: Option<&'a ComfyNode>,
    /// `end` saves other results, too.
    pub shares_end: bool,
    /// Sampler of an earlier pass whose result is saved, too, and is not the one that is restored.
    pub saved_part: Option<&'a ComfyNode>,
}

impl PassChain<'_> {
    fn has(&self, sampler: &ComfyNode) -> bool {
        let mut passes = self.passes.iter();
        passes.any(|pass| pass.sampler.id == sampler.id)
    }

    /// `Save Image (node 9)`
    pub fn output(&self) -> Option<String> {
        let output = self.end?.label();
        let last = &self.passes.last()?.sampler.id;
        Some(if self.shares_end {
            format!("{output}, made by node {last}")
        } else {
            output
        })
    }
}

/// Results that are saved, else those that are shown, else that of the last sampler: the one of most passes first.
///
/// Several savings of one sampler's result are one result. So is an earlier pass that is saved, too: its settings are
/// in those of the whole, and whoever wants it alone leaves the later pass out. A result that another one starts from
/// (see [`PassChain::source`]) has a prompt and a seed of its own and stays.
pub(super) fn results<'a>(walk: &GraphWalk<'a>) -> Vec<PassChain<'a>> {
    let nodes = || walk.graph.nodes.values().filter(|node| node.runs());
    let ends = |words: &str| {
        let ends = nodes().filter(|node| node.is_called(words)).take(MAX_SAVES);
        let chains = ends.flat_map(|end| {
            let samplers = samplers_before(walk, end, MAX_PASSES).into_iter();
            samplers.map(move |nearest| chain_to(walk, Some(end), nearest))
        });
        chains.take(MAX_RESULTS).collect::<Vec<_>>()
    };
    let mut chains = ends("save videocombine");
    if chains.is_empty() {
        chains = ends("preview combine");
    }
    if chains.is_empty() {
        let last = nodes().rfind(|node| is_sampler(node));
        chains.extend(last.map(|last| chain_to(walk, None, (last, Vec::new()))));
    }
    chains.sort_by_key(|chain| Reverse(chain.passes.len()));
    let mut results: Vec<PassChain<'a>> = Vec::new();
    for chain in chains {
        let is_part = |known: &&mut PassChain<'a>| {
            let mut passes = chain.passes.iter();
            passes.all(|pass| known.has(pass.sampler))
        };
        let Some(whole) = results.iter_mut().find(is_part) else {
            results.push(chain);
            continue;
        };
        let next = whole.passes.get(chain.passes.len());
        if next.is_some_and(|next| !takes_image(walk, next.sampler)) {
            whole.saved_part = chain.passes.last().map(|pass| pass.sampler);
        }
        for node in chain.after {
            if !whole.after.iter().any(|own| is_same(Some(own), Some(node))) {
                whole.after_others.push(node);
            }
        }
    }
    for index in 0..results.len() {
        let end = results[index].end;
        let same = results.iter().filter(|other| is_same(other.end, end));
        results[index].shares_end = same.count() > 1;
    }
    results
}

fn is_same(one: Option<&ComfyNode>, other: Option<&ComfyNode>) -> bool {
    one.map(|node| &node.id) == other.map(|node| &node.id)
}

fn chain_to<'a>(
    walk: &GraphWalk<'a>,
    end: Option<&'a ComfyNode>,
    (last, after): (&'a ComfyNode, Vec<&'a ComfyNode>),
) -> PassChain<'a> {
    let pass = |sampler| SamplerPass {
        sampler,
        before: Vec::new(),
    };
    let mut chain = PassChain {
        passes: vec![pass(last)],
        after,
        after_others: Vec::new(),
        source: None,
        end,
        shares_end: false,
        saved_part: None,
    };
    while chain.passes.len() < MAX_PASSES {
        let first = chain.passes[0].sampler;
        let nearest = samplers_before(walk, first, 1).into_iter().next();
        let Some((sampler, between)) = nearest.filter(|(it, _)| !chain.has(it)) else {
            break;
        };
        if !continues(walk, first) {
            chain.source = Some(sampler);
            break;
        }
        chain.passes[0].before = between;
        chain.passes.insert(0, pass(sampler));
    }
    chain
}

/// The `most` nearest samplers against the links of images and latents, not those before others, each with the nodes
/// between in the order in which they act.
pub(super) fn samplers_before<'a>(
    walk: &GraphWalk<'a>,
    start: &'a ComfyNode,
    most: usize,
) -> Vec<(&'a ComfyNode, Vec<&'a ComfyNode>)> {
    let mut found = Vec::new();
    let mut met: Vec<(&ComfyNode, usize)> = vec![(start, 0)];
    let mut seen = BTreeSet::from([start.id.as_str()]);
    let mut next = 0;
    while let Some(&(node, from)) = met.get(next).filter(|_| found.len() < most) {
        if next > 0 && is_sampler(node) {
            let mut between = Vec::new();
            let mut at = from;
            while at > 0 {
                between.push(met[at].0);
                at = met[at].1;
            }
            found.push((node, between));
            next += 1;
            continue;
        }
        for (name, input) in image_inputs(walk, node) {
            if let Some(InputSource::Node(source, _)) = walk.follow(input, name)
                && seen.insert(&source.id)
            {
                met.push((source, next));
            }
        }
        next += 1;
    }
    found
}

pub(super) fn image_inputs<'a>(
    walk: &GraphWalk<'a>,
    node: &'a ComfyNode,
) -> Vec<(&'a str, &'a NodeInput)> {
    use LinkKind::{Image, Latent, Pipe, Unknown};
    if !is_sampler(node) {
        let kinds = [Image, Latent, Unknown, Pipe];
        let links = kinds.iter().flat_map(|kind| walk.links_of(node, *kind));
        return links.collect();
    }
    let images = walk.links_of(node, Image);
    if !images.is_empty() {
        return images;
    }
    let names = LATENTS.split(", ");
    let latents = names.filter_map(|name| Some((name, node.inputs.get(name)?)));
    let others = [Latent, Pipe].into_iter();
    let others = others.flat_map(|kind| walk.links_of(node, kind));
    latents.chain(others).collect()
}
