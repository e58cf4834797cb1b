//! Nodes and links of a graph.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::restore::names::short;

/// Nodes of one graph, those of its subgraphs included.
pub(in crate::restore) const MAX_NODES: usize = 20_000;

/// Nodes of one chain, such as LoRAs after each other.
pub(in crate::restore) const MAX_CHAIN: usize = 200;

/// Number or name of a node; within a subgraph that of the outer node comes first, as in `20:3`.
pub(in crate::restore) type Id = String;

#[derive(Debug, Default)]
pub(in crate::restore) struct ComfyGraph {
    pub(super) nodes: BTreeMap<Id, ComfyNode>,
    /// Id of several nodes, of which the last one counts.
    pub(super) repeated_id: Option<Id>,
    /// It is a canvas, whose prompts are as they were typed.
    pub(super) is_drawn: bool,
}

#[derive(Debug, Default)]
pub(in crate::restore) struct ComfyNode {
    pub(super) id: Id,
    pub(super) class: String,
    /// Lowercase letters and digits of the class.
    pub(super) plain_class: String,
    /// Title in the window of `ComfyUI`; may be empty.
    pub(super) title: String,
    pub(super) inputs: BTreeMap<String, NodeInput>,
    /// Names and types as far as a canvas gives them.
    pub(super) outputs: Vec<NodeSlot>,
    /// Inputs that leave the node unchanged at these output slots: subgraphs, Get nodes.
    pub(super) routes: BTreeMap<u64, NodeInput>,
    pub(super) mode: NodeMode,
}

#[derive(Debug, Default, PartialEq)]
pub(in crate::restore) enum NodeMode {
    #[default]
    Runs,
    /// Hands on an input of the output's type.
    Bypassed,
    Muted,
}

#[derive(Clone, Debug, Default)]
pub(in crate::restore) struct NodeSlot {
    pub(super) name: String,
    pub(super) kind: String,
}

#[derive(Clone, Debug)]
pub(in crate::restore) enum NodeInput {
    Value(Value),
    Link(NodeLink),
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::restore) struct NodeLink {
    pub(super) from: Id,
    pub(super) slot: u64,
    /// Type as the canvas writes it; empty where unknown.
    pub(super) kind: String,
}

impl ComfyNode {
    pub(super) fn new(id: Id, class: String) -> Self {
        let letters = class.chars().filter(char::is_ascii_alphanumeric);
        Self {
            id,
            plain_class: letters.map(|it| it.to_ascii_lowercase()).collect(),
            class,
            ..Self::default()
        }
    }

    pub(super) fn link(&self, name: &str) -> Option<&NodeLink> {
        match self.inputs.get(name)? {
            NodeInput::Link(link) => Some(link),
            NodeInput::Value(_) => None,
        }
    }

    /// Inputs in natural order: `text2` before `text10`.
    pub(super) fn sorted_inputs(&self) -> Vec<(&str, &NodeInput)> {
        let mut inputs: Vec<_> = self.inputs.iter().map(|(name, it)| (&**name, it)).collect();
        inputs.sort_by_key(|(name, _)| {
            let start = name.trim_end_matches(|it: char| it.is_ascii_digit());
            let number: u64 = name[start.len()..].parse().unwrap_or(0);
            (start, number)
        });
        inputs
    }

    /// Linked inputs in natural order.
    pub(super) fn links(&self) -> impl Iterator<Item = (&str, &NodeLink)> {
        let inputs = self.sorted_inputs().into_iter();
        inputs.filter_map(|(name, input)| match input {
            NodeInput::Link(link) => Some((name, link)),
            NodeInput::Value(_) => None,
        })
    }

    /// Returns whether the node has one of these inputs, which `, ` separates.
    pub(super) fn has(&self, names: &str) -> bool {
        names.split(", ").any(|name| self.inputs.contains_key(name))
    }

    pub(super) fn output(&self, slot: u64) -> Option<&NodeSlot> {
        self.outputs.get(usize::try_from(slot).ok()?)
    }

    pub(super) fn runs(&self) -> bool {
        self.mode == NodeMode::Runs
    }

    /// Numbers of the id, by which nodes are ordered.
    pub(super) fn number(&self) -> (Vec<u64>, &str) {
        let numbers = self
            .id
            .split(':')
            .map(|part| part.parse().unwrap_or(u64::MAX));
        (numbers.collect(), &self.id)
    }

    /// Title, else the words of the class, and the id: `Save Image (node 9)`.
    pub(super) fn label(&self) -> String {
        let mut name = self.title.trim().to_owned();
        if name.is_empty() || name == self.class {
            name.clear();
            let mut is_after_small = false;
            for letter in self.class.chars() {
                if is_after_small && letter.is_ascii_uppercase() {
                    name.push(' ');
                }
                is_after_small = letter.is_ascii_lowercase();
                name.push(if letter == '_' { ' ' } else { letter });
            }
        }
        format!("{} (node {})", short(&name), short(&self.id))
    }

    /// The node at the start of a sentence: `Node 12 (KSampler)`.
    pub(super) fn at_start(&self) -> String {
        self.to_string().replacen('n', "N", 1)
    }

    pub(super) fn is_switch(&self) -> bool {
        self.is_called("switch ifelse conditionalbranch")
    }

    /// Returns whether the node only bundles or unbundles links, as contexts and pipes do.
    pub(super) fn is_bundle(&self) -> bool {
        self.is_called("pipe context busnode") && !self.is_called("options")
    }

    /// Returns whether the class contains one of these lowercase words, which spaces separate.
    pub(super) fn is_called(&self, words: &str) -> bool {
        has_word(&self.plain_class, words)
    }
}

/// `node 12 (KSampler)`
impl fmt::Display for ComfyNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({})", short(&self.id), short(&self.class))
    }
}

/// Returns whether a text contains one of these words, which spaces separate.
pub(in crate::restore) fn has_word(text: &str, words: &str) -> bool {
    words.split(' ').any(|word| text.contains(word))
}

pub(in crate::restore) fn id_of(value: &Value) -> Option<Id> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
