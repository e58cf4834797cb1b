//! Nodes and links of a graph, and a record of what was read of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use serde_json::Value;

use super::link_kind::LinkKind;
use super::tables::{BROADCASTERS, BUNDLES, SWITCHES};
use crate::restore::names::{plain, short};

/// Nodes of one graph, those of its subgraphs included.
pub(super) const MAX_NODES: usize = 20_000;
/// Nodes of one chain, such as LoRAs after each other.
pub(super) const MAX_CHAIN: usize = 200;
/// Calls within each other.
const MAX_DEPTH: u32 = 100;

/// Number or name of a node; within a subgraph that of the outer node comes first, as in `20:3`.
pub(super) type Id = String;

/// Nodes by id. All that is read of a graph shares a budget of steps and a greatest depth, so circles end.
#[derive(Debug, Default)]
pub(super) struct ComfyGraph {
    pub nodes: BTreeMap<Id, ComfyNode>,
    /// Id of several nodes, of which the last one counts.
    pub repeated_id: Option<Id>,
    /// It is a canvas, whose prompts are as they were typed.
    pub is_drawn: bool,
    /// Links lead to the nodes and values that they mean, see [`ComfyGraph::flattened`].
    pub is_flat: bool,
    /// The budget did not suffice for flattening.
    pub is_cut: bool,
    /// The budget did not suffice.
    pub is_exhausted: Cell<bool>,
    /// Node whose stored text was taken for a prompt.
    pub stored_text: RefCell<Option<String>>,
    /// Inputs and nodes that are used, or named as not used.
    pub read: RefCell<BTreeSet<*const ()>>,
    pub left: Cell<usize>,
    pub depth: Cell<u32>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ComfyNode {
    pub id: Id,
    pub class: String,
    /// Lowercase letters and digits of the class.
    pub plain_class: String,
    /// Title in the window of `ComfyUI`; may be empty.
    pub title: String,
    pub inputs: BTreeMap<String, NodeInput>,
    /// Names and types as far as a canvas gives them.
    pub outputs: Vec<NodeSlot>,
    /// Inputs that leave the node unchanged at these output slots: of subgraphs, Get nodes and bypassed nodes. Empty in a
    /// flat graph.
    pub routes: BTreeMap<u64, NodeInput>,
    /// It hands on an input of the output's type. There is no such node in a flat graph.
    pub is_bypassed: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct NodeSlot {
    pub name: String,
    pub kind: String,
}

#[derive(Clone, Debug)]
pub(super) enum NodeInput {
    Value(Value),
    Link(NodeLink),
}

#[derive(Clone, Debug, Default)]
pub(super) struct NodeLink {
    pub from: Id,
    pub slot: u64,
    /// Type as the file writes it; empty where unknown.
    pub kind: String,
}

/// Other end of an input.
#[derive(Clone, Copy)]
pub(super) enum InputSource<'g> {
    Value(&'g Value),
    /// A node and its output slot.
    Node(NodeRef<'g>, u64),
}

impl<'g> InputSource<'g> {
    pub fn node(self) -> Option<NodeRef<'g>> {
        match self {
            Self::Node(node, _) => Some(node),
            Self::Value(_) => None,
        }
    }
}

impl ComfyGraph {
    /// Nodes in the order of their ids as texts.
    pub fn refs(&self) -> impl DoubleEndedIterator<Item = NodeRef<'_>> {
        let nodes = self.nodes.values();
        nodes.map(|node| NodeRef { graph: self, node })
    }

    pub fn node(&self, id: &str) -> Option<NodeRef<'_>> {
        let node = self.nodes.get(id)?;
        Some(NodeRef { graph: self, node })
    }

    /// Nodes that give unlinked inputs what they need, by rules that are not read. In the run form their links are there.
    pub fn broadcasters(&self) -> impl Iterator<Item = NodeRef<'_>> {
        let is_rule = |node: &NodeRef<'_>| self.is_drawn && node.is_called(BROADCASTERS);
        self.refs().filter(is_rule)
    }

    /// Forgets what was read, and sets the steps of all that is read from now on.
    pub fn start(&self, budget: usize) {
        self.read.take();
        self.left.set(budget);
        self.is_exhausted.set(self.is_cut);
    }

    /// Returns whether there was budget for the steps.
    pub fn spend(&self, steps: usize) -> bool {
        let is_enough = self.left.get() > steps;
        self.left.set(self.left.get().saturating_sub(steps));
        self.is_exhausted.set(self.is_exhausted.get() || !is_enough);
        is_enough
    }

    /// Result of a call that may call itself; `None` where depth or budget end.
    pub fn nested<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let depth = self.depth.get();
        if depth == MAX_DEPTH || !self.spend(1) {
            return None;
        }
        self.depth.set(depth + 1);
        let found = read();
        self.depth.set(depth);
        Some(found)
    }
}

impl ComfyNode {
    pub fn new(id: Id, class: String) -> Self {
        Self {
            id,
            plain_class: plain(&class),
            class,
            ..Self::default()
        }
    }

    /// Returns whether the node has one of these inputs, which `, ` separates.
    pub fn has(&self, names: &str) -> bool {
        names.split(", ").any(|name| self.inputs.contains_key(name))
    }

    pub fn output(&self, slot: u64) -> Option<&NodeSlot> {
        self.outputs.get(usize::try_from(slot).ok()?)
    }

    /// Numbers of the id, by which nodes are ordered.
    pub fn number(&self) -> (Vec<u64>, &str) {
        let parts = self.id.split(':');
        let numbers = parts.map(|part| part.parse().unwrap_or(u64::MAX));
        (numbers.collect(), &self.id)
    }

    /// Title, else the words of the class, and the id: `Save Image (node 9)`.
    pub fn label(&self) -> String {
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
    pub fn at_start(&self) -> String {
        self.to_string().replacen('n', "N", 1)
    }

    pub fn is_switch(&self) -> bool {
        self.is_called(SWITCHES)
    }

    /// Returns whether the node only bundles or unbundles links, as contexts and pipes do.
    pub fn is_bundle(&self) -> bool {
        self.is_called(BUNDLES) && !self.is_called("options window")
    }

    /// Returns whether the class contains one of these lowercase words, which spaces separate.
    pub fn is_called(&self, words: &str) -> bool {
        has_word(&self.plain_class, words)
    }
}

/// `node 12 (KSampler)`
impl fmt::Display for ComfyNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({})", short(&self.id), short(&self.class))
    }
}

/// A node in its graph.
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'g> {
    pub graph: &'g ComfyGraph,
    pub node: &'g ComfyNode,
}

impl Deref for NodeRef<'_> {
    type Target = ComfyNode;

    fn deref(&self) -> &ComfyNode {
        self.node
    }
}

impl fmt::Display for NodeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

impl PartialEq for NodeRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<'g> NodeRef<'g> {
    pub fn input(self, name: &str) -> Option<&'g NodeInput> {
        self.node.inputs.get(name)
    }

    /// Inputs in natural order: `text2` before `text10`.
    pub fn sorted_inputs(self) -> Vec<(&'g str, &'g NodeInput)> {
        let inputs = self.node.inputs.iter().map(|(name, it)| (&**name, it));
        let mut inputs: Vec<_> = inputs.collect();
        let is_numbered = |name: &str| name.ends_with(|it: char| it.is_ascii_digit());
        if inputs.iter().any(|(name, _)| is_numbered(name)) {
            inputs.sort_by_key(|(name, _)| {
                let start = name.trim_end_matches(|it: char| it.is_ascii_digit());
                let number: u64 = name[start.len()..].parse().unwrap_or(0);
                (start, number)
            });
        }
        inputs
    }

    /// Inputs that are values.
    pub fn values(self) -> impl Iterator<Item = (&'g str, &'g Value)> {
        let inputs = self.node.inputs.iter();
        inputs.filter_map(|(name, input)| match input {
            NodeInput::Value(value) => Some((&**name, value)),
            NodeInput::Link(_) => None,
        })
    }

    /// Inputs that are texts.
    pub fn texts(self) -> impl Iterator<Item = (&'g str, &'g str)> {
        self.values()
            .filter_map(|(name, value)| Some((name, value.as_str()?)))
    }

    /// Linked inputs in natural order.
    pub fn links(self) -> impl Iterator<Item = (&'g str, &'g NodeLink)> {
        let inputs = self.sorted_inputs().into_iter();
        inputs.filter_map(|(name, input)| match input {
            NodeInput::Link(link) => Some((name, link)),
            NodeInput::Value(_) => None,
        })
    }

    pub fn link(self, name: &str) -> Option<&'g NodeLink> {
        match self.input(name)? {
            NodeInput::Link(link) => Some(link),
            NodeInput::Value(_) => None,
        }
    }

    /// Names of the linked inputs of a type, in natural order.
    pub fn links_of(self, kind: LinkKind) -> Vec<&'g str> {
        let links = self.links();
        let links = links.filter(|(name, link)| self.graph.kind(name, link) == kind);
        links.map(|(name, _)| name).collect()
    }

    /// Pipe that a node is given; `None` for a bundle of several, of which it is not known which wins.
    pub fn pipe(self) -> Option<&'g NodeInput> {
        let pipes = self.links_of(LinkKind::Pipe);
        let is_known = pipes.len() == 1 || !self.is_bundle();
        self.input(pipes.first().filter(|_| is_known)?)
    }

    /// Other end of an input.
    pub fn source(self, name: &str) -> Option<InputSource<'g>> {
        self.graph.source(self.input(name)?, name)
    }

    /// Other end of the first of these inputs that the node has, else of the pipe that the node is given.
    pub fn source_or_piped(self, names: &str) -> Option<InputSource<'g>> {
        let source = names.split(", ").find_map(|name| self.source(name));
        let first = names.split(", ").next()?;
        source.or_else(|| self.graph.far_end(self.pipe()?, first))
    }

    /// Node that an input is linked to.
    pub fn linked(self, name: &str) -> Option<Self> {
        self.link(name)?;
        self.source(name)?.node()
    }

    /// The node, and each that `next` finds from the one before.
    pub fn chain(self, next: impl Fn(Self) -> Option<Self>) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), move |node| next(*node)).take(MAX_CHAIN)
    }

    /// Counts an input as read.
    pub fn use_input(self, name: &str) {
        let input = self.input(name).map(std::ptr::from_ref);
        let input = input.map(<*const NodeInput>::cast);
        self.graph.read.borrow_mut().extend(input);
    }

    /// Counts a node and all its inputs as read: it is used, or named, as a whole.
    pub fn use_all(self) {
        let node = std::ptr::from_ref(self.node).cast();
        self.graph.read.borrow_mut().insert(node);
        let names = self.node.inputs.keys();
        names.for_each(|name| self.use_input(name));
    }

    pub fn is_read(self, input: &NodeInput) -> bool {
        let input = std::ptr::from_ref(input).cast();
        self.graph.read.borrow().contains(&input)
    }

    /// Returns whether any input of a node was read.
    pub fn is_used(self) -> bool {
        let node = std::ptr::from_ref(self.node).cast();
        let is_named = self.graph.read.borrow().contains(&node);
        is_named || self.node.inputs.values().any(|it| self.is_read(it))
    }
}

/// Returns whether a text contains one of these words, which spaces separate.
pub(super) fn has_word(text: &str, words: &str) -> bool {
    words.split(' ').any(|word| text.contains(word))
}

pub(super) fn id_of(value: &Value) -> Option<Id> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
