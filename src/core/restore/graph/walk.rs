//! Walking a graph against its links: through reroutes, primitives and nodes of text to the value itself.
//!
//! Each walk spends a budget and has a greatest depth, so no circle holds it.

use std::cell::Cell;

use serde_json::Value;

use super::{Graph, Id, Input, Node};
use crate::restore::fields;

/// Steps of all walks in one graph.
const BUDGET: u32 = 200_000;
/// Steps of one walk into the depth.
const MAX_DEPTH: u32 = 100;
/// Letters of a text that is put together.
const MAX_TEXT: usize = 1 << 20;

/// What nodes call the value that they only hand on.
const HELD: &str = "value text string prompt seed int float number Value Text String INT FLOAT STRING \
                    wildcard_text populated_text";

pub(super) struct Walk<'a> {
    pub graph: &'a Graph,
    left: Cell<u32>,
}

impl<'a> Walk<'a> {
    pub fn of(graph: &'a Graph) -> Self {
        Self {
            graph,
            left: Cell::new(BUDGET),
        }
    }

    /// Whether there is budget for a step.
    pub fn may_go_on(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }

    /// The node, where it is one that does something: those that only pass on are stepped through.
    pub fn node(&self, id: &Id, slot: u64) -> Option<(&'a Node, u64)> {
        let (mut id, mut slot) = (id, slot);
        for _ in 0..MAX_DEPTH {
            if !self.may_go_on() {
                return None;
            }
            let node = self.graph.nodes.get(id)?;
            if !(node.is_bypassed || node.class.starts_with("Reroute")) {
                return Some((node, slot));
            }
            // One that is passed by gives what goes in at the same place, else the first.
            let nth = usize::try_from(slot).unwrap_or(0);
            let next = node.links().nth(nth).or_else(|| node.links().next())?;
            (id, slot) = next;
        }
        None
    }

    /// What a node's input is linked to.
    pub fn linked(&self, node: &'a Node, name: &str) -> Option<&'a Node> {
        let (id, slot) = node.link(name)?;
        Some(self.node(id, slot)?.0)
    }

    /// The value of an input, from wherever it comes.
    pub fn value(&self, node: &'a Node, names: &[&str]) -> Option<Value> {
        names
            .iter()
            .find_map(|name| self.resolve(node.inputs.get(*name)?, MAX_DEPTH))
    }

    fn resolve(&self, input: &'a Input, depth: u32) -> Option<Value> {
        if depth == 0 || !self.may_go_on() {
            return None;
        }
        match input {
            Input::Value(value) if value.is_array() || value.is_object() || value.is_null() => None,
            Input::Value(value) => Some(value.clone()),
            Input::Link { from, slot } => {
                let (node, slot) = self.node(from, *slot)?;
                self.joined(node, depth).or_else(|| {
                    let by_name = HELD.split(' ').find_map(|name| {
                        let input = node.inputs.get(name)?;
                        self.resolve(input, depth - 1)
                    });
                    by_name.or_else(|| self.only_value(node, slot, depth))
                })
            }
        }
    }

    /// The one value that a node has, whatever it is called; for a node of several the one of the slot.
    fn only_value(&self, node: &'a Node, slot: u64, depth: u32) -> Option<Value> {
        let nth = match node.inputs.len() {
            1 => 0,
            // A node of a width and a height gives them in this order; it is sorted by name.
            _ => match (slot, node.has("width") && node.has("height")) {
                (0, true) => return self.resolve(node.inputs.get("width")?, depth - 1),
                (1, true) => return self.resolve(node.inputs.get("height")?, depth - 1),
                _ => return None,
            },
        };
        self.resolve(node.inputs.values().nth(nth)?, depth - 1)
    }

    /// The texts of a node that puts texts together.
    fn joined(&self, node: &'a Node, depth: u32) -> Option<Value> {
        let class = node.class.to_lowercase();
        if !class.contains("concat") && !class.contains("join") {
            return None;
        }
        let text = |name: &str| {
            let found = self.resolve(node.inputs.get(name)?, depth - 1)?;
            found.as_str().map(str::to_owned)
        };
        let delimiter = text("delimiter").unwrap_or_else(|| " ".to_owned());
        let mut parts = Vec::new();
        for name in node.inputs.keys() {
            let is_text = ["string", "text"]
                .iter()
                .any(|start| name.to_lowercase().starts_with(start));
            if is_text && let Some(part) = text(name).filter(|part| !part.is_empty()) {
                parts.push(part);
            }
        }
        let long: usize = parts.iter().map(String::len).sum();
        (!parts.is_empty() && long <= MAX_TEXT).then(|| Value::String(parts.join(&delimiter)))
    }

    pub fn text(&self, node: &'a Node, names: &[&str]) -> Option<String> {
        self.value(node, names)?.as_str().map(str::to_owned)
    }

    pub fn number(&self, node: &'a Node, names: &[&str]) -> Option<f64> {
        fields::number(&self.value(node, names)?)
    }

    pub fn count(&self, node: &'a Node, names: &[&str]) -> Option<u32> {
        fields::count(&self.value(node, names)?)
    }
}
