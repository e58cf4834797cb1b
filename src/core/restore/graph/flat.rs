//! Flattening: each link of a graph is followed to the node or value that it means, through reroutes, bypassed nodes, Set
//! and Get nodes, subgraphs, switches, contexts and pipes.

use std::collections::BTreeMap;

use super::nodes::{
    ComfyGraph, ComfyNode, InputSource, LinkKind, NodeInput, NodeLink, NodeRef, has_word, names_of,
    numbered,
};
use super::results::is_sampler;
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
        let nodes = self.refs().filter(|node| !node.is_bypassed).map(|node| {
            let inputs = node.node.inputs.iter().map(|(name, input)| {
                let flat = input.link().map(|link| self.flat_link(name, input, link));
                (name.clone(), flat.unwrap_or_else(|| input.clone()))
            });
            let flat = ComfyNode {
                inputs: inputs.collect(),
                routes: BTreeMap::new(),
                ..node.node.clone()
            };
            (flat.id.clone(), flat)
        });
        Self {
            nodes: nodes.collect(),
            is_flat: true,
            is_cut: self.is_exhausted.get(),
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
        let source = self.nodes.get(&link.from).filter(|_| !self.is_flat);
        let declared = source.and_then(|node| node.output(link.slot));
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
            NodeInput::Link(link) if self.is_flat => self.start_of(link),
            input => self.far_end(input, name),
        }
    }

    /// Node at the start of a link. Work on a node takes time by its inputs.
    fn start_of(&self, link: &NodeLink) -> Option<InputSource<'_>> {
        let node = self.node(&link.from)?;
        let is_affordable = self.spend(1 + node.inputs.len() / 4);
        is_affordable.then_some(InputSource::Node(node, link.slot))
    }

    /// Node or value that an input means, whose name says which member of a pipe it is; empty for the pipe itself.
    pub fn far_end<'g>(&'g self, input: &'g NodeInput, name: &str) -> Option<InputSource<'g>> {
        let (mut input, mut wanted) = (input, name);
        for _ in 0..MAX_LINKS {
            let NodeInput::Link(link) = input else {
                return input.value().map(InputSource::Value);
            };
            let source = self.start_of(link)?;
            match source.node()?.handed_on(link, &mut wanted) {
                Some(next) => input = next,
                None => return Some(source),
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
            return self.graph.nested(|| self.chosen());
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
            source.is_some_and(|source| source.node().is_none_or(|node| !node.is_bundle()))
        };
        let mut pipes = pipes.iter().rev().filter_map(|name| self.input(name));
        pipes.find(has_member)
    }

    /// Input that a switch chooses.
    fn chosen(self) -> Option<&'g NodeInput> {
        let selectors = names_of("SELECTORS");
        let Some(selector) = selectors.clone().find(|name| self.has(name)) else {
            // The first that gives something.
            let mut links = self.links().filter(|_| self.is_called("any context"));
            let (name, _) = links.find(|(name, _)| self.source(name).is_some())?;
            return self.input(name);
        };
        let value = self.value(selector)?;
        let is_chosen = |name: &str| match is_on(&value) {
            Some(true) => has_word(&name.to_lowercase(), "true tt_"),
            Some(false) => has_word(&name.to_lowercase(), "false ff_"),
            None => {
                let is_numbered = name.ends_with(|it: char| it.is_ascii_digit());
                is_numbered && fields::number(&value) == Some(numbered(name).1.into())
            }
        };
        let mut inputs = self.inputs();
        let chosen =
            inputs.find(|(name, _)| is_chosen(name) && !selectors.clone().any(|it| it == *name));
        chosen.map(|(_, input)| input)
    }
}

/// Returns whether two names are those of one member of a pipe.
fn is_member(name: &str, wanted: &str) -> bool {
    let names = [name, wanted].map(str::to_lowercase);
    let has_all = |same: &str| {
        names
            .iter()
            .all(|name| same.split(' ').any(|it| it == name))
    };
    names[0] == names[1] || names_of("MEMBERS").any(has_all)
}
