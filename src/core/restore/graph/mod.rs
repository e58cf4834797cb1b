//! `ComfyUI`'s graphs, in both writings: `prompt`, which is run (nodes by id, links inline), and `workflow`, the canvas
//! (widget values in a row, links in a list, subgraphs).
//!
//! Both become one [`ComfyGraph`], and the canvas lends slot names and types to the other. Links are followed by type and
//! name, whatever a node is called ([`walk`]): [`passes`] orders the samplers, [`conditioning`] and [`text`] find the
//! prompts, [`loras`] the LoRAs, [`reading`] the rest. What is met and not understood becomes a note.
//! Files are untrusted: nodes, depth and steps are bounded.

mod broadcasts;
mod canvas;
mod conditioning;
mod controls;
mod link_kind;
mod loras;
mod maths;
mod models;
mod nodes;
mod pass_differences;
mod passes;
mod reading;
mod results;
mod sizes;
mod text;
mod unused;
mod walk;
mod widgets;

use serde_json::{Map, Value};

use super::fields::{self, JsonFields};
use super::settings::ForeignSettings;
use nodes::{
    ComfyGraph, ComfyNode, Id, MAX_CHAIN, MAX_NODES, NodeInput, NodeLink, NodeMode, NodeSlot,
    has_word, id_of,
};

/// Subgraphs outside the canvas, each of which is read with another budget.
const MAX_LONE_SUBGRAPHS: usize = 16;

/// The canvas that a value is.
fn canvas_of(value: &Value) -> Option<&Map<String, Value>> {
    let object = value.as_object()?;
    let has_nodes = object.get("nodes").is_some_and(Value::is_array);
    has_nodes.then_some(object)
}

/// The graph to run that a value is.
fn run_of(value: &Value) -> Option<&Map<String, Value>> {
    let object = value.as_object()?;
    object.values().any(is_run_node).then_some(object)
}

fn is_run_node(value: &Value) -> bool {
    let node = JsonFields::from_value(value);
    node.is_some_and(|node| node.has("class_type") && node.object("inputs").is_some())
}

/// Unwraps the members of a comment that holds both writings, each possibly as a text; else returns the value alone.
pub(super) fn unwrap(value: Value) -> Vec<Value> {
    if is_graph(&value) {
        return vec![value];
    }
    let Value::Object(object) = value else {
        return vec![value];
    };
    let inner = ["prompt", "workflow"].iter().filter_map(|name| {
        let inner = object.get(*name)?;
        let parsed = inner.as_str().and_then(fields::parse);
        let inner = parsed.unwrap_or_else(|| inner.clone());
        is_graph(&inner).then_some(inner)
    });
    let inner: Vec<Value> = inner.collect();
    if inner.is_empty() {
        vec![Value::Object(object)]
    } else {
        inner
    }
}

pub(super) fn is_graph(value: &Value) -> bool {
    canvas_of(value).or_else(|| run_of(value)).is_some()
}

/// Reads the graph among the JSON texts of one file: the result that most passes made. `None` without a sampler.
pub(super) fn read(values: &[&Value]) -> Option<ForeignSettings> {
    graphs_of(values).find_map(|graph| reading::read(&graph))
}

/// As [`read`], for all results that are saved, in the order of their nodes.
pub(super) fn read_all(values: &[&Value]) -> Vec<ForeignSettings> {
    let mut all = graphs_of(values).map(|graph| reading::read_all(&graph));
    all.find(|found| !found.is_empty()).unwrap_or_default()
}

/// Node that makes what a graph without a sampler saves: `node 2 (MagicSampler)`.
pub(super) fn unread_maker(values: &[&Value]) -> Option<String> {
    graphs_of(values).find_map(|graph| reading::unread_maker(&graph))
}

/// Graphs in the JSON texts of one file, the one that says most first: what was run, the canvas, and subgraphs that the
/// canvas does not place.
fn graphs_of(values: &[&Value]) -> impl Iterator<Item = ComfyGraph> {
    let drawn = values.iter().find_map(|value| canvas_of(value));
    let canvas = drawn.map(canvas::read);
    let mut others = values.iter().filter(|value| canvas_of(value).is_none());
    let run = others.find_map(|value| run_of(value)).map(|object| {
        let mut graph = ComfyGraph::from_run(object);
        if let Some(canvas) = &canvas {
            graph.borrow_slots(canvas);
        }
        graph
    });
    let lone = drawn.into_iter().flat_map(canvas::definitions);
    let lone = lone.take(MAX_LONE_SUBGRAPHS).map(canvas::read);
    run.into_iter().chain(canvas).chain(lone)
}

impl ComfyGraph {
    fn from_run(object: &Map<String, Value>) -> Self {
        let nodes = object.iter().take(MAX_NODES);
        let nodes = nodes.filter_map(|(id, node)| {
            let node = JsonFields::from_value(node)?;
            let class = node.text("class_type")?;
            let inputs = node.object("inputs")?;
            let inputs = inputs.0.iter().map(|(name, value)| {
                let link = value.as_array().filter(|pair| pair.len() == 2);
                let link = link.and_then(|pair| Some((id_of(&pair[0])?, pair[1].as_u64()?)));
                let held = link
                    .as_ref()
                    .and_then(|(from, _)| broadcast_seed(object.get(from)?));
                let input = match link {
                    _ if held.is_some() => NodeInput::Value(held.unwrap_or_default()),
                    Some((from, slot)) if object.contains_key(&from) => NodeInput::Link(NodeLink {
                        from,
                        slot,
                        kind: String::new(),
                    }),
                    _ => NodeInput::Value(value.clone()),
                };
                (name.clone(), input)
            });
            let node = ComfyNode {
                title: node
                    .object("_meta")
                    .and_then(|it| it.text("title"))
                    .unwrap_or_default(),
                inputs: inputs.collect(),
                ..ComfyNode::new(id.clone(), class)
            };
            // The links that it replaces are there.
            if node.is_called(broadcasts::BROADCASTERS) {
                return None;
            }
            Some((id.clone(), node))
        });
        Self {
            nodes: nodes.collect(),
            ..Self::default()
        }
    }

    /// Takes slot names and types from the canvas, and the texts that display nodes show: those of the run itself,
    /// where `prompt` still holds those of the run before.
    fn borrow_slots(&mut self, canvas: &Self) {
        for (id, node) in &mut self.nodes {
            let drawn = canvas.nodes.get(id);
            let Some(drawn) = drawn.filter(|drawn| drawn.class == node.class) else {
                continue;
            };
            node.outputs.clone_from(&drawn.outputs);
            if !drawn.title.is_empty() {
                node.title.clone_from(&drawn.title);
            }
            if node.is_called(text::DISPLAYS) {
                let shown = drawn.inputs.iter().filter(
                    |(_, it)| matches!(it, NodeInput::Value(Value::String(text)) if !text.is_empty()),
                );
                let shown = shown.map(|(name, it)| (name.clone(), it.clone()));
                node.inputs.extend(shown);
            }
        }
    }
}

/// Seed of a node that gives it to others: the links to it are as good as the value.
fn broadcast_seed(node: &Value) -> Option<Value> {
    let node = JsonFields::from_value(node)?;
    let class = node.text("class_type")?.to_lowercase();
    let seed = node.object("inputs")?.get("seed")?;
    (has_word(&class, broadcasts::BROADCASTERS) && seed.is_number()).then(|| seed.clone())
}
