//! Results that a graph saves, each with the samplers that made it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use fancy_regex::Regex;

use super::nodes::{ComfyGraph, LinkKind, NodeRef, names_of};
use super::passes::{MAX_PASSES, continues, takes_image};
use super::unused::is_idle;
use crate::restore::names::short;

/// Nodes that save a result, of which more are not looked at.
const MAX_SAVES: usize = 64;
/// Results of one graph.
pub(super) const MAX_RESULTS: usize = 64;

pub(super) struct SamplerPass<'g> {
    pub sampler: NodeRef<'g>,
    /// Nodes after the pass before, in the order in which they act.
    pub before: Vec<NodeRef<'g>>,
}

/// One result: the passes that made it, and the node that saves it.
#[derive(Default)]
pub(super) struct PassChain<'g> {
    /// The first pass first; never empty.
    pub passes: Vec<SamplerPass<'g>>,
    /// Nodes after the last pass, in the order in which they act.
    pub after: Vec<NodeRef<'g>>,
    /// Nodes after the last pass in other savings of the result, or of its earlier passes, those that save it included.
    pub after_others: Vec<NodeRef<'g>>,
    /// Sampler of another result that the first pass starts from.
    pub source: Option<NodeRef<'g>>,
    /// Node that saves it, or shows it where nothing is saved.
    pub end: Option<NodeRef<'g>>,
    /// `end` saves other results, too.
    pub shares_end: bool,
    /// Sampler of an earlier pass whose result is saved, too, and is not the one that is restored.
    pub saved_part: Option<NodeRef<'g>>,
}

impl<'g> PassChain<'g> {
    /// Passes up to the sampler `last`.
    fn new(end: Option<NodeRef<'g>>, last: NodeRef<'g>, after: Vec<NodeRef<'g>>) -> Self {
        let pass = |sampler| SamplerPass {
            sampler,
            before: Vec::new(),
        };
        let mut chain = Self {
            passes: vec![pass(last)],
            after,
            end,
            ..Self::default()
        };
        while chain.passes.len() < MAX_PASSES {
            let first = chain.passes[0].sampler;
            let nearest = samplers_before(first, 1).pop();
            let Some((sampler, between)) = nearest.filter(|(it, _)| !chain.has(*it)) else {
                break;
            };
            if !continues(first) {
                chain.source = Some(sampler);
                break;
            }
            chain.passes[0].before = between;
            chain.passes.insert(0, pass(sampler));
        }
        chain
    }

    fn has(&self, sampler: NodeRef<'g>) -> bool {
        self.passes.iter().any(|pass| pass.sampler == sampler)
    }

    pub fn last(&self) -> NodeRef<'g> {
        self.passes[self.passes.len() - 1].sampler
    }

    /// Title of the node that saves it, else the words of its class, and the id: `Save Image (node 9)`.
    pub fn output(&self) -> Option<String> {
        let end = self.end?;
        let mut name = end.title.trim().to_owned();
        if name.is_empty() || name == end.class {
            let words = Regex::new("([a-z])([A-Z])").ok()?;
            let class = end.class.replace('_', " ");
            name = words.replace_all(&class, "$1 $2").into_owned();
        }
        let output = format!("{} (node {})", short(&name), short(&end.id));
        Some(if self.shares_end {
            format!("{output}, made by node {}", self.last().id)
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
pub(super) fn results(graph: &ComfyGraph) -> Vec<PassChain<'_>> {
    let chains_to = |words: &str| {
        let ends = graph.refs().filter(|node| node.is_called(words));
        let chains = ends.take(MAX_SAVES).flat_map(|end| {
            let samplers = samplers_before(end, MAX_PASSES).into_iter();
            samplers.map(move |(last, after)| PassChain::new(Some(end), last, after))
        });
        chains.take(MAX_RESULTS).collect::<Vec<_>>()
    };
    let kinds = ["SAVERS", "PREVIEWS"].into_iter();
    let chains = kinds.map(chains_to).find(|chains| !chains.is_empty());
    let mut chains = chains.unwrap_or_else(|| {
        let last = graph.refs().rfind(|node| is_sampler(*node)).into_iter();
        last.map(|last| PassChain::new(None, last, Vec::new()))
            .collect()
    });
    chains.sort_by_key(|chain| Reverse(chain.passes.len()));
    let mut results: Vec<PassChain<'_>> = Vec::new();
    for chain in chains {
        let is_part = |known: &&mut PassChain<'_>| {
            let mut passes = chain.passes.iter();
            passes.all(|pass| known.has(pass.sampler))
        };
        let Some(whole) = results.iter_mut().find(is_part) else {
            results.push(chain);
            continue;
        };
        let next = whole.passes.get(chain.passes.len());
        if next.is_some_and(|next| !takes_image(next.sampler)) {
            whole.saved_part = Some(chain.last());
        }
        let others = chain.after.into_iter().chain(chain.end);
        let others = others.filter(|node| !whole.after.contains(node));
        whole.after_others.extend(others);
    }
    for index in 0..results.len() {
        let same = results.iter().filter(|it| it.end == results[index].end);
        results[index].shares_end = same.count() > 1;
    }
    results
}

/// Node that makes what is saved, where no sampler does.
pub(super) fn unread_maker(graph: &ComfyGraph) -> Option<NodeRef<'_>> {
    let mut ends = graph.refs();
    let end = ends.find(|node| node.is_called("SAVERS") || node.is_called("PREVIEWS"))?;
    let before = |node| image_inputs(node).iter().find_map(|name| node.linked(name));
    let mut makers = end.chain(before).skip(1);
    makers.find(|node| !is_idle(*node))
}

/// Returns whether a node denoises: it has a source of noise and steps, and does not only hand them on.
pub(super) fn is_sampler(node: NodeRef<'_>) -> bool {
    let hands_on = node.is_called("context pipe") && !node.is_called("sampl detail upscale");
    let has_linked_steps = node.is_called("sampler") && node.link("scheduler").is_some();
    let has_noise = node.has("seed, noise_seed, noise, main_seed");
    let sigmas = node.linked("sigmas");
    let is_inversion = sigmas.is_some_and(|it| it.is_called("SIGMA_FLIPPERS"));
    (has_noise && (node.has("steps, sigmas") || has_linked_steps)
        || node.is_called("CHAINED_SAMPLERS"))
        && !(hands_on || is_inversion || node.has("base_ctx"))
}

/// The `most` nearest samplers against the links of images and latents, not those before others, each with the nodes
/// between in the order in which they act.
pub(super) fn samplers_before(
    start: NodeRef<'_>,
    most: usize,
) -> Vec<(NodeRef<'_>, Vec<NodeRef<'_>>)> {
    let mut found = Vec::new();
    // Nodes, each with the index of the one that it was met from.
    let mut met = vec![(start, 0)];
    let mut seen = BTreeSet::from([&start.node.id]);
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
        } else {
            let inputs = image_inputs(node).into_iter();
            let sources = inputs.filter_map(|name| node.linked(name));
            let new = sources.filter(|source| seen.insert(&source.node.id));
            met.extend(new.map(|source| (source, next)));
        }
        next += 1;
    }
    found
}

/// Inputs by which a node is given images or latents.
fn image_inputs(node: NodeRef<'_>) -> Vec<&str> {
    use LinkKind::{Image, Latent, Pipe, Unknown};
    let of = |kinds: &[LinkKind]| {
        let links = kinds.iter().flat_map(|kind| node.links_of(*kind));
        links.collect::<Vec<_>>()
    };
    if !is_sampler(node) {
        return of(&[Image, Latent, Unknown, Pipe]);
    }
    let images = of(&[Image]);
    if !images.is_empty() {
        return images;
    }
    let latents = names_of("LATENTS").filter(|name| node.has(name));
    latents.chain(of(&[Latent, Pipe])).collect()
}
