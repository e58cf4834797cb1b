//! Flattening: each link of a graph is followed to the node or value that it means, through reroutes, bypassed nodes, Set
//! and Get nodes, subgraphs, switches, contexts and pipes.

use super::link_kind::LinkKind;
use super::nodes::{ComfyGraph, ComfyNode, InputSource, NodeInput, NodeLink, NodeRef, has_word};
use super::results::is_sampler;
use super::tables::SELECTORS;
use super::values::is_on;
use crate::restore::fields;

/// Links in a row.
const MAX_LINKS: u32 = 100;
/// Steps of flattening.
const BUDGET: usize = 1_000_000;
impl ComfyGraph {
    /// Graph of the nodes that run, in which each input is a value or a link to the node that gives it. A link that ends
    /// nowhere leads to no node.
    pub fn flattened(self) -> Self {
        self.start(BUDGET);
        let nodes = self.refs().filter(|node| !node.is_bypassed);
        let nodes = nodes.map(|node| {
            let inputs = node.node.inputs.iter().map(|(name, input)| {
                let input = match input {
                    NodeInput::Link(link) => self.flat_link(name, input, link),
                    value @ NodeInput::Value(_) => value.clone(),
                };
                (name.clone(), input)
            });
            let flat = ComfyNode {
                inputs: inputs.collect(),
                routes: Default::default(),
                ..node.node.clone()
            };
            (flat.id.clone(), flat)
        });
        let nodes = nodes.collect();
        let is_cut = self.is_exhausted.get();
        Self {
            nodes,
            is_flat: true,
            is_cut,
            ..self
        }
    }

    fn flat_link(&self, name: &str, input: &NodeInput, link: &NodeLink) -> NodeInput {
        // Of a pipe the nearest bundle, which has its members.
        let is_pipe = self.kind(name, link) == LinkKind::Pipe;
        let (from, slot) = match self.far_end(input, if is_pipe { "" } else { name }) {
            Some(InputSource::Value(value)) => return NodeInput::Value(value.clone()),
            Some(InputSource::Node(node, slot)) => (node.id.clone(), slot),
            None => Default::default(),
        };
        let kind = self.kind_name(link).to_owned();
        NodeInput::Link(NodeLink { from, slot, kind })
    }

    /// Type of a link as the file writes it; empty where it does not.
    pub fn kind_name<'g>(&'g self, link: &'g NodeLink) -> &'g str {
        let source = self.nodes.get(&link.from);
        let declared = source.and_then(|node| node.output(link.slot));
        let declared = declared.filter(|_| !self.is_flat);
        let mut kinds = [declared.map_or("", |slot| &slot.kind), &*link.kind].into_iter();
        let known = kinds.find(|kind| LinkKind::from_type(kind) != LinkKind::Unknown);
        known.unwrap_or_default()
    }

    pub fn kind(&self, name: &str, link: &NodeLink) -> LinkKind {
        match LinkKind::from_type(self.kind_name(link)) {
            LinkKind::Unknown => LinkKind::from_name(name),
            kind => kind,
        }
    }

    /// Other end of an input of this name.
    pub fn source<'g>(&'g self, input: &'g NodeInput, name: &str) -> Option<InputSource<'g>> {
        match input {
            NodeInput::Link(link) if self.is_flat => {
                let node = self.node(&link.from)?;
                let is_affordable = self.spend(1 + node.inputs.len() / 4);
                is_affordable.then_some(InputSource::Node(node, link.slot))
            }
            input => self.far_end(input, name),
        }
    }

    /// Node or value that an input means, whose name says which member of a pipe it is; empty for the pipe itself.
    pub fn far_end<'g>(&'g self, input: &'g NodeInput, name: &str) -> Option<InputSource<'g>> {
        let (mut input, mut wanted) = (input, name);
        for _ in 0..MAX_LINKS {
            let link = match input {
                NodeInput::Value(value) => return Some(InputSource::Value(value)),
                NodeInput::Link(link) => link,
            };
            let node = self.node(&link.from)?;
            // Work on a node takes time by its inputs.
            if !self.spend(1 + node.inputs.len() / 4) {
                return None;
            }
            match node.handed_on(link, &mut wanted) {
                Some(next) => input = next,
                None => return Some(InputSource::Node(node, link.slot)),
            }
        }
        None
    }
}

impl<'g> NodeRef<'g> {
    /// Input that leaves the node unchanged at the link's slot; `None` where the node has an effect.
    fn handed_on<'n>(self, link: &NodeLink, wanted: &mut &'n str) -> Option<&'g NodeInput>
    where
        'g: 'n,
    {
        if let Some(route) = self.node.routes.get(&link.slot) {
            return Some(route);
        }
        if self.is_bypassed {
            let kind = self.graph.kind(wanted, link);
            return self.input(self.links_of(kind).first()?);
        }
        let class = &self.plain_class;
        if class.starts_with("reroute") || class.ends_with("setnode") {
            return self.input(self.links().next()?.0);
        }
        if self.is_switch() {
            return self.graph.nested(|| self.chosen()).flatten();
        }
        let pipes = self.links_of(LinkKind::Pipe);
        if wanted.is_empty() || is_sampler(self) || (pipes.is_empty() && !self.is_bundle()) {
            return None;
        }
        let slot = self.node.output(link.slot);
        let slot = slot.filter(|slot| LinkKind::from_type(&slot.kind) != LinkKind::Pipe);
        if let Some(slot) = slot.filter(|slot| !matches!(&*slot.name, "" | "*")) {
            *wanted = &slot.name;
        }
        let mut inputs = self.node.inputs.iter();
        let member = inputs.find(|(name, _)| is_member(name, wanted));
        if member.is_some() || !class.contains("merge") {
            return member.map(|(_, input)| input).or_else(|| self.pipe());
        }
        // Of merged contexts the last one that has the member.
        let wanted = *wanted;
        let has_member = |pipe: &&NodeInput| {
            let source = self.graph.nested(|| self.graph.far_end(pipe, wanted));
            let source = source.flatten();
            source.is_some_and(|source| source.node().is_none_or(|node| !node.is_bundle()))
        };
        let mut pipes = pipes.iter().rev().filter_map(|name| self.input(name));
        pipes.find(has_member)
    }

    /// Input that a switch chooses.
    fn chosen(self) -> Option<&'g NodeInput> {
        let mut inputs = self.sorted_inputs().into_iter();
        let Some(selector) = SELECTORS.split(", ").find(|name| self.has(name)) else {
            // The first that gives something.
            let is_any = self.is_called("any context");
            let mut links = inputs.filter(|(name, _)| self.link(name).is_some());
            let found = links.find(|(name, _)| is_any && self.source(name).is_some());
            return found.map(|it| it.1);
        };
        let value = self.value(selector)?;
        let is_chosen = |name: &str| match is_on(&value) {
            Some(true) => has_word(&name.to_lowercase(), "true tt_"),
            Some(false) => has_word(&name.to_lowercase(), "false ff_"),
            None => {
                let start = name.trim_end_matches(|it: char| it.is_ascii_digit());
                let number = name[start.len()..].parse().ok();
                number.is_some_and(|number: f64| fields::number(&value) == Some(number))
            }
        };
        let is_selector = |name: &str| SELECTORS.split(", ").any(|it| it == name);
        let chosen = inputs.find(|(name, _)| !is_selector(name) && is_chosen(name));
        chosen.map(|(_, input)| input)
    }
}

fn is_member(name: &str, wanted: &str) -> bool {
    let plain = |name: &str| match name.to_lowercase().as_str() {
        "latent_image" | "samples" => "latent".to_owned(),
        "images" | "pixels" => "image".to_owned(),
        "pos" => "positive".to_owned(),
        "neg" => "negative".to_owned(),
        "sampler_name" => "sampler".to_owned(),
        name => name.to_owned(),
    };
    plain(name) == plain(wanted)
}
