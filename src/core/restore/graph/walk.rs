//! Following links to the node or value at their other end: through reroutes, bypassed nodes, subgraphs, switches,
//! contexts and pipes.
//!
//! All traversals of a graph share a budget of steps and a greatest depth, so circles end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde_json::Value;

use super::broadcasts::BROADCASTERS;
pub(super) use super::link_kind::LinkKind;
use super::sizes::{measures_image, size_preset};
use super::{ComfyGraph, ComfyNode, NodeInput, NodeLink, NodeMode, has_word};
use crate::restore::fields;

/// Links in a row, and calls within each other.
const MAX_DEPTH: u32 = 100;
/// Nodes of a size whose edges come from each other.
const MAX_SIZE_DEPTH: u32 = 3;
/// Pixels of an edge.
const MIN_EDGE: f64 = 16.0;
/// Names of a switch's input that say which of the others it chooses.
const SELECTORS: &str = "select, index, input, Input, switch, boolean, condition, cond";

/// Nodes that give the opposite of their value.
const NEGATIONS: &str = "not neg inver opposite";
/// Nodes that compute a number from one.
const FUNCTIONS: &str = "negat inver abs sqrt square math increment round ceil floor";
/// Nodes that give their value, whatever else is in their names.
const HOLDERS: &str = "primitive constant note notif annot passthr display show preview";

/// Far end of an input.
#[derive(Clone, Copy, Debug)]
pub(super) enum InputSource<'a> {
    Value(&'a Value),
    /// Output slot of a node that has an effect.
    Node(&'a ComfyNode, u64),
}

impl<'a> InputSource<'a> {
    pub fn node(self) -> Option<&'a ComfyNode> {
        match self {
            Self::Node(node, _) => Some(node),
            Self::Value(_) => None,
        }
    }
}

pub(super) struct GraphWalk<'a> {
    pub graph: &'a ComfyGraph,
    /// Nodes that give unlinked inputs what they need, by rules.
    pub broadcasters: Vec<&'a ComfyNode>,
    /// Node whose stored text was taken for a prompt.
    pub stored_text: Cell<Option<&'a ComfyNode>>,
    /// Inputs and nodes that are used, or named as not used.
    read: RefCell<BTreeSet<*const ()>>,
    left: Cell<u32>,
    depth: Cell<u32>,
    size_depth: Cell<u32>,
}

/// Counts one call within others until it is dropped.
pub(super) struct DepthGuard<'w>(&'w Cell<u32>);

impl<'w> DepthGuard<'w> {
    fn enter(depth: &'w Cell<u32>, most: u32) -> Option<Self> {
        let entered = depth.get();
        (entered < most).then(|| {
            depth.set(entered + 1);
            Self(depth)
        })
    }
}

impl Drop for DepthGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<'a> GraphWalk<'a> {
    /// `budget`: steps of all traversals.
    pub fn new(graph: &'a ComfyGraph, budget: u32) -> Self {
        let nodes = graph.nodes.values();
        let broadcasters = nodes.filter(|node| node.runs() && node.is_called(BROADCASTERS));
        Self {
            graph,
            broadcasters: broadcasters.collect(),
            stored_text: Cell::new(None),
            read: RefCell::default(),
            left: Cell::new(budget),
            depth: Cell::new(0),
            size_depth: Cell::new(0),
        }
    }

    /// Enters a recursive call; `None` where depth or budget end.
    pub fn enter(&self) -> Option<DepthGuard<'_>> {
        DepthGuard::enter(&self.depth, MAX_DEPTH).filter(|_| self.spend(1))
    }

    /// As `enter`, for nodes of a size.
    pub fn enter_size(&self) -> Option<DepthGuard<'_>> {
        DepthGuard::enter(&self.size_depth, MAX_SIZE_DEPTH)
    }

    /// Returns whether the budget is used up.
    pub fn is_exhausted(&self) -> bool {
        self.left.get() == 0
    }

    /// Returns whether there was budget for the steps.
    pub fn spend(&self, steps: usize) -> bool {
        let left = self.left.get();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.left.set(left.saturating_sub(steps));
        left > steps
    }

    /// Counts an input as read.
    pub fn use_input(&self, input: &NodeInput) {
        self.read
            .borrow_mut()
            .insert(std::ptr::from_ref(input).cast());
    }

    /// Counts all inputs of a node as read: it is used, or named, as a whole.
    pub fn use_node(&self, node: &ComfyNode) {
        for input in node.inputs.values() {
            self.use_input(input);
        }
    }

    /// As `use_node`, also for a node without inputs: a sentence names it.
    pub fn name_node(&self, node: &ComfyNode) {
        let node_itself = std::ptr::from_ref(node).cast();
        self.read.borrow_mut().insert(node_itself);
        self.use_node(node);
    }

    pub fn is_read(&self, input: &NodeInput) -> bool {
        self.read
            .borrow()
            .contains(&std::ptr::from_ref(input).cast())
    }

    /// Returns whether any input of a node was read.
    pub fn is_used(&self, node: &ComfyNode) -> bool {
        self.read
            .borrow()
            .contains(&std::ptr::from_ref(node).cast())
            || node.inputs.values().any(|input| self.is_read(input))
    }

    /// Type of a link as the file writes it; empty where it does not.
    pub fn kind_name<'l>(&self, link: &'l NodeLink) -> &'l str
    where
        'a: 'l,
    {
        let source = self.graph.nodes.get(&link.from);
        let declared = source.and_then(|node| node.output(link.slot));
        let kinds = [declared.map_or("", |slot| slot.kind.as_str()), &link.kind];
        let is_known = |kind: &&str| LinkKind::from_type(kind) != LinkKind::Unknown;
        kinds.into_iter().find(is_known).unwrap_or_default()
    }

    pub fn kind(&self, name: &str, link: &NodeLink) -> LinkKind {
        match LinkKind::from_type(self.kind_name(link)) {
            LinkKind::Unknown => LinkKind::from_name(name),
            kind => kind,
        }
    }

    /// Linked inputs of a type, in natural order of their names.
    pub fn links_of(&self, node: &'a ComfyNode, kind: LinkKind) -> Vec<(&'a str, &'a NodeInput)> {
        let inputs = node.sorted_inputs().into_iter();
        inputs
            .filter(|(name, input)| match input {
                NodeInput::Link(link) => self.kind(name, link) == kind,
                NodeInput::Value(_) => false,
            })
            .collect()
    }

    /// Source of the first of these inputs that the node has, else of the pipe that the node is given.
    pub fn source(&self, node: &'a ComfyNode, names: &str) -> Option<InputSource<'a>> {
        let mut names = names.split(", ").peekable();
        let first = *names.peek()?;
        let source = names.find_map(|name| self.follow(node.inputs.get(name)?, name));
        source.or_else(|| self.follow(self.pipe(node)?, first))
    }

    /// Pipe that a node is given; `None` for a bundle of several, of which it is not known which wins.
    pub fn pipe(&self, node: &'a ComfyNode) -> Option<&'a NodeInput> {
        let pipes = self.links_of(node, LinkKind::Pipe);
        let is_known = pipes.len() == 1 || !node.is_bundle();
        pipes.first().filter(|_| is_known).map(|it| it.1)
    }

    /// Node that an input is linked to.
    pub fn linked(&self, node: &'a ComfyNode, name: &str) -> Option<&'a ComfyNode> {
        node.link(name)?;
        self.follow(node.inputs.get(name)?, name)?.node()
    }

    /// Far end of an input, whose name says which member of a pipe is meant.
    pub fn follow(&self, input: &'a NodeInput, name: &str) -> Option<InputSource<'a>> {
        let (mut input, mut wanted) = (input, name.to_owned());
        for _ in 0..MAX_DEPTH {
            if !self.spend(1) {
                return None;
            }
            let link = match input {
                NodeInput::Value(value) => return Some(InputSource::Value(value)),
                NodeInput::Link(link) => link,
            };
            let node = self.graph.nodes.get(&link.from)?;
            // Work on a node takes time by its inputs.
            if node.mode == NodeMode::Muted || !self.spend(node.inputs.len() / 4) {
                return None;
            }
            match self.handed_on(node, link, &mut wanted) {
                Some(next) => input = next,
                None => return Some(InputSource::Node(node, link.slot)),
            }
        }
        None
    }

    /// Input that leaves the node unchanged at the link's slot; `None` where the node has an effect.
    fn handed_on(
        &self,
        node: &'a ComfyNode,
        link: &NodeLink,
        wanted: &mut String,
    ) -> Option<&'a NodeInput> {
        if let Some(route) = node.routes.get(&link.slot) {
            return Some(route);
        }
        let class = &node.plain_class;
        if node.mode == NodeMode::Bypassed {
            let kind = self.kind(wanted, link);
            return self.links_of(node, kind).first().map(|(_, input)| *input);
        }
        if class.starts_with("reroute") || class.ends_with("setnode") {
            return first_link(node);
        }
        if node.is_switch() {
            return self.chosen(node);
        }
        let mut pipes = self.links_of(node, LinkKind::Pipe);
        if (pipes.is_empty() && !node.is_bundle()) || is_sampler(node) {
            return None;
        }
        if let Some(slot) = node
            .output(link.slot)
            .filter(|slot| LinkKind::from_type(&slot.kind) != LinkKind::Pipe)
            && !matches!(slot.name.as_str(), "" | "*")
        {
            wanted.clone_from(&slot.name);
        }
        let member = node.inputs.iter().find(|(name, _)| is_member(name, wanted));
        if member.is_some() || !class.contains("merge") {
            return member.map(|(_, input)| input).or_else(|| self.pipe(node));
        }
        // Of merged contexts the last one that has the member.
        let _guard = self.enter()?;
        pipes.reverse();
        let has_member = |(_, pipe): &(_, &'a NodeInput)| {
            let source = self.follow(pipe, wanted);
            source.is_some_and(|source| source.node().is_none_or(|node| !node.is_bundle()))
        };
        pipes.into_iter().find(has_member).map(|it| it.1)
    }

    /// Input that a switch chooses.
    fn chosen(&self, node: &'a ComfyNode) -> Option<&'a NodeInput> {
        let _guard = self.enter()?;
        let selector = SELECTORS.split(", ").find(|name| node.has(name));
        let mut inputs = node.sorted_inputs().into_iter();
        let Some(selector) = selector else {
            // The first that gives something.
            let is_any = node.is_called("any context");
            let mut links = inputs.filter(|(_, input)| matches!(input, NodeInput::Link(_)));
            return links
                .find(|(name, it)| is_any && self.follow(it, name).is_some())
                .map(|it| it.1);
        };
        let value = self.value(node, selector)?;
        let number =
            fields::count(&value).or_else(|| (fields::number(&value)? == 0.0).then_some(0));
        let is_on = match &value {
            Value::Bool(is_on) => Some(*is_on),
            Value::String(text) => match text.to_lowercase().as_str() {
                "true" | "on" => Some(true),
                "false" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        };
        let is_chosen = |name: &str| match (is_on, number) {
            (Some(true), _) => has_word(&name.to_lowercase(), "true tt_"),
            (Some(false), _) => has_word(&name.to_lowercase(), "false ff_"),
            (None, Some(number)) => {
                let start = name.trim_end_matches(|it: char| it.is_ascii_digit());
                name[start.len()..].parse() == Ok(number)
            }
            (None, None) => false,
        };
        let is_selector = |name| SELECTORS.split(", ").any(|selector| selector == name);
        let chosen = inputs.find(|(name, _)| !is_selector(*name) && is_chosen(name));
        chosen.map(|(_, input)| input)
    }

    /// Value of the first of these inputs, which `, ` separates, that has one, wherever it comes from.
    pub fn value(&self, node: &'a ComfyNode, names: &str) -> Option<Value> {
        let mut own = names.split(", ");
        let own = own.find_map(|name| self.value_of(node.inputs.get(name)?, name));
        own.or_else(|| {
            let pipe = self.pipe(node)?;
            let mut held = names.split(", ");
            held.find_map(|name| match self.follow(pipe, name)? {
                InputSource::Value(value) => scalar(value),
                InputSource::Node(held, _) => self.value_of(held.inputs.get(name)?, name),
            })
        })
    }

    fn value_of(&self, input: &'a NodeInput, name: &str) -> Option<Value> {
        let _guard = self.enter()?;
        let found = match self.follow(input, name)? {
            InputSource::Value(value) => scalar(value),
            InputSource::Node(node, slot) => self.held_value(node, slot, name),
        }?;
        // Nodes that change a sampler or its sigmas on the way are unused with them.
        if !matches!((input, name), (NodeInput::Link(_), "sampler" | "sigmas")) {
            self.use_input(input);
        }
        Some(found)
    }

    /// Value that a node without an effect gives at a slot, such as a primitive's.
    fn held_value(&self, node: &'a ComfyNode, slot: u64, name: &str) -> Option<Value> {
        if matches!(name, "width" | "height")
            && (size_preset(node).is_some() || node.has("height") || measures_image(node))
        {
            let (width, height) = self.size(node)?;
            let is_height = self.is_height(node, slot, name);
            return Some(if is_height { height } else { width }.into());
        }
        if node.is_switch() {
            // It did not choose.
            return None;
        }
        if let Some(number) = self.computed_number(node, slot) {
            return Some(number);
        }
        // Named after the input it is for, or the only one.
        let is_named = |it: &&str| {
            let it = it.to_lowercase();
            it == name || (it.starts_with(name) && it.ends_with("_total"))
        };
        let named = node.inputs.keys().map(String::as_str).find(is_named);
        let only = |is_plain: fn(&NodeInput) -> bool| {
            let inputs = node.inputs.iter();
            let is_pixels = |key: &str, input: &NodeInput| match input {
                NodeInput::Link(link) => {
                    matches!(self.kind(key, link), LinkKind::Image | LinkKind::Latent)
                }
                NodeInput::Value(_) => false,
            };
            let inputs =
                inputs.filter(|(key, it)| !(key.starts_with("control_") || is_pixels(key, it)));
            let mut plain = inputs.filter(|(_, input)| is_plain(input));
            let (key, _) = plain.next().filter(|_| plain.next().is_none())?;
            Some(key.as_str())
        };
        let number = |it: &NodeInput| !matches!(it, NodeInput::Value(it) if !it.is_number() && !it.is_string());
        let only =
            only(number).or_else(|| only(|it| matches!(it, NodeInput::Value(Value::Bool(_)))));
        let key = named.or(only)?;
        let value = self.value_of(&node.inputs[key], key)?;
        let class = &node.plain_class;
        // Such as a number of megapixels.
        let is_edge = fields::number(&value).is_none_or(|edge| edge >= MIN_EDGE);
        match value {
            _ if matches!(name, "width" | "height") && !is_edge => None,
            _ if has_word(class, HOLDERS) => Some(value),
            Value::Bool(is_on) if has_word(class, NEGATIONS) => Some((!is_on).into()),
            // It is not known what the node makes of it.
            Value::Bool(_) if node.link(key).is_some() => None,
            Value::Number(_) if has_word(class, FUNCTIONS) => None,
            value => Some(value),
        }
    }

    pub fn name(&self, node: &'a ComfyNode, names: &str) -> Option<String> {
        self.value(node, names)?.as_str().map(str::to_owned)
    }

    pub fn number(&self, node: &'a ComfyNode, names: &str) -> Option<f64> {
        fields::number(&self.value(node, names)?)
    }

    pub fn count(&self, node: &'a ComfyNode, names: &str) -> Option<u32> {
        fields::count(&self.value(node, names)?)
    }
}

/// Returns whether a node denoises: it has a source of noise and steps, and does not only hand them on.
pub(super) fn is_sampler(node: &ComfyNode) -> bool {
    let hands_on = node.is_called("context pipe") && !node.is_called("sampl detail upscale");
    let has_linked_steps = node.is_called("sampler") && node.link("scheduler").is_some();
    node.runs()
        && node.has("seed, noise_seed, noise, main_seed")
        && (node.has("steps, sigmas") || has_linked_steps)
        && !(hands_on || node.has("base_ctx"))
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

fn first_link(node: &ComfyNode) -> Option<&NodeInput> {
    let mut inputs = node.inputs.values();
    inputs.find(|input| matches!(input, NodeInput::Link(_)))
}

/// A value that is neither list nor object, but for a chosen file with its preview image.
fn scalar(value: &Value) -> Option<Value> {
    let value = value
        .get("content")
        .filter(|it| it.is_string())
        .unwrap_or(value);
    (!value.is_array() && !value.is_object() && !value.is_null()).then(|| value.clone())
}
