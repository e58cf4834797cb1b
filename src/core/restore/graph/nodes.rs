//! Nodes and links of a graph, and a record of what was read of them.
//!
//! Nodes of all packs are known by words in their classes and in the names of their inputs: the rows of `nodes.txt`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::LazyLock;
use std::{fmt, ptr};

use fancy_regex::Regex;
use serde_json::Value;

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

impl NodeInput {
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Link(_) => None,
        }
    }

    pub fn link(&self) -> Option<&NodeLink> {
        match self {
            Self::Link(link) => Some(link),
            Self::Value(_) => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct NodeLink {
    pub from: Id,
    pub slot: u64,
    /// Type as the file writes it; empty where unknown.
    pub kind: String,
}

/// Type of a link, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LinkKind {
    Conditioning,
    Model,
    Latent,
    Image,
    Text,
    /// Bundle of several links: contexts and pipes.
    Pipe,
    Lora,
    Number,
    Other,
    Unknown,
}

impl LinkKind {
    pub fn from_type(kind: &str) -> Self {
        match kind {
            "CONDITIONING" | "WANVIDEOTEXTEMBEDS" => Self::Conditioning,
            "MODEL" | "WANVIDEOMODEL" => Self::Model,
            "LATENT" | "WANVIDIMAGE_EMBEDS" => Self::Latent,
            "IMAGE" | "VIDEO" => Self::Image,
            "STRING" => Self::Text,
            "RGTHREE_CONTEXT" | "BUS" => Self::Pipe,
            // Not models' pipelines, such as PuLID's.
            kind if kind.contains("PIPE") && !kind.contains("PIPELINE") => Self::Pipe,
            kind if kind == "HOOKS" || kind.contains("LORA") => Self::Lora,
            "INT" | "FLOAT" | "BOOLEAN" | "COMBO" => Self::Number,
            // `*`, and what is no type.
            kind if kind.len() < 3 => Self::Unknown,
            _ => Self::Other,
        }
    }

    /// Guesses from the name of the input.
    pub fn from_name(name: &str) -> Self {
        let name = name.to_lowercase();
        let is = |words| has_word(&name, words);
        match &*name {
            "context" | "bus" => Self::Pipe,
            _ if is("strength weight") => Self::Number,
            _ if is("OTHER_LINKS") => Self::Other,
            _ if is("pipe ctx") => Self::Pipe,
            _ if is("lora hooks") => Self::Lora,
            _ if is("_prompt") => Self::Text,
            _ if is("cond positive negative text_embeds") => Self::Conditioning,
            _ if is("model unet") => Self::Model,
            _ if is("latent samples image_embeds") => Self::Latent,
            _ if is("image pixels frames video") => Self::Image,
            _ if is("clip") => Self::Other,
            _ if is("text string prompt") => Self::Text,
            _ => Self::Unknown,
        }
    }
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
        let nodes = self.refs().filter(|_| self.is_drawn);
        nodes.filter(|node| node.is_called("BROADCASTERS"))
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
    pub fn nested<T>(&self, read: impl FnOnce() -> Option<T>) -> Option<T> {
        let depth = self.depth.get();
        if depth == MAX_DEPTH || !self.spend(1) {
            return None;
        }
        self.depth.set(depth + 1);
        let found = read();
        self.depth.set(depth);
        found
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

    /// Returns whether the node has one of these inputs.
    pub fn has(&self, names: &str) -> bool {
        names_of(names).any(|name| self.inputs.contains_key(name))
    }

    pub fn output(&self, slot: u64) -> Option<&NodeSlot> {
        self.outputs.get(usize::try_from(slot).ok()?)
    }

    pub fn is_switch(&self) -> bool {
        self.is_called("SWITCHES")
    }

    /// Returns whether the node only bundles or unbundles links, as contexts and pipes do.
    pub fn is_bundle(&self) -> bool {
        self.is_called("BUNDLES") && !self.is_called("options window")
    }

    /// Returns whether the class contains one of these words.
    pub fn is_called(&self, words: &str) -> bool {
        has_word(&self.plain_class, words)
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

/// `node 12 (KSampler)`
impl fmt::Display for NodeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} ({})", short(&self.id), short(&self.class))
    }
}

impl PartialEq for NodeRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<'g> NodeRef<'g> {
    /// The node at the start of a sentence: `Node 12 (KSampler)`.
    pub fn at_start(self) -> String {
        self.to_string().replacen('n', "N", 1)
    }

    pub fn input(self, name: &str) -> Option<&'g NodeInput> {
        self.node.inputs.get(name)
    }

    /// Inputs in natural order: `text2` before `text10`.
    pub fn inputs(self) -> impl DoubleEndedIterator<Item = (&'g str, &'g NodeInput)> {
        let inputs = self.node.inputs.iter().map(|(name, it)| (&**name, it));
        let mut inputs: Vec<_> = inputs.collect();
        inputs.sort_by_cached_key(|(name, _)| numbered(name));
        inputs.into_iter()
    }

    /// Inputs that are values, in natural order.
    pub fn values(self) -> impl Iterator<Item = (&'g str, &'g Value)> {
        self.inputs()
            .filter_map(|(name, input)| Some((name, input.value()?)))
    }

    /// Inputs that are texts, in natural order.
    pub fn texts(self) -> impl Iterator<Item = (&'g str, &'g str)> {
        self.values()
            .filter_map(|(name, value)| Some((name, value.as_str()?)))
    }

    /// Linked inputs in natural order.
    pub fn links(self) -> impl DoubleEndedIterator<Item = (&'g str, &'g NodeLink)> {
        self.inputs()
            .filter_map(|(name, input)| Some((name, input.link()?)))
    }

    pub fn link(self, name: &str) -> Option<&'g NodeLink> {
        self.input(name)?.link()
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
        let source = names_of(names).find_map(|name| self.source(name));
        source.or_else(|| self.graph.far_end(self.pipe()?, names_of(names).next()?))
    }

    /// Node that an input is linked to.
    pub fn linked(self, name: &str) -> Option<Self> {
        self.link(name)?;
        self.source(name)?.node()
    }

    /// Nodes that the node's inputs are linked to.
    pub fn all_linked(self) -> impl Iterator<Item = Self> {
        self.links().filter_map(move |(name, _)| self.linked(name))
    }

    /// The node, and each that `next` finds from the one before.
    pub fn chain(self, next: impl Fn(Self) -> Option<Self>) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), move |node| next(*node)).take(MAX_CHAIN)
    }

    /// Counts an input as read.
    pub fn use_input(self, name: &str) {
        let input = self.input(name).map(|input| ptr::from_ref(input).cast());
        self.graph.read.borrow_mut().extend(input);
    }

    /// Counts a node and all its inputs as read: it is used, or named, as a whole.
    pub fn use_all(self) {
        let node = ptr::from_ref(self.node).cast();
        self.graph.read.borrow_mut().insert(node);
        self.node
            .inputs
            .keys()
            .for_each(|name| self.use_input(name));
    }

    pub fn is_read(self, input: &NodeInput) -> bool {
        let input = ptr::from_ref(input).cast();
        self.graph.read.borrow().contains(&input)
    }

    /// Returns whether any input of a node was read.
    pub fn is_used(self) -> bool {
        let node = ptr::from_ref(self.node).cast();
        let is_named = self.graph.read.borrow().contains(&node);
        is_named || self.node.inputs.values().any(|it| self.is_read(it))
    }
}

/// Words in a row of `nodes.txt`; any other text is the words themselves.
fn row(words: &str) -> &str {
    static ROWS: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
        let lines = include_str!("nodes.txt").lines();
        let rows = lines.filter(|line| !line.starts_with('#'));
        rows.filter_map(|row| row.split_once(": ")).collect()
    });
    ROWS.get(words).copied().unwrap_or(words)
}

/// Returns whether a text contains one of these words, which spaces separate.
pub(super) fn has_word(text: &str, words: &str) -> bool {
    row(words).split(' ').any(|word| text.contains(word))
}

/// Names of inputs, which `, ` separates.
pub(super) fn names_of(names: &str) -> impl Iterator<Item = &str> + Clone {
    row(names).split(", ")
}

/// Name and the number at its end, which is 0 without one.
pub(super) fn numbered(name: &str) -> (&str, u32) {
    let start = name.trim_end_matches(|it: char| it.is_ascii_digit());
    (start, name[start.len()..].parse().unwrap_or(0))
}

/// First match of a pattern in a text, of its last group that takes part.
pub(super) fn first_match<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
    let found = Regex::new(pattern).ok()?.captures(text).ok()??;
    found.iter().flatten().last().map(|group| group.as_str())
}

pub(super) fn id_of(value: &Value) -> Option<Id> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
