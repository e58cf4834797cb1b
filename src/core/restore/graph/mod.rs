//! `ComfyUI`'s graphs, in both writings: the one that is run (`prompt`: nodes by id, links inline) and the one that is
//! edited (`workflow`: nodes with widgets' values in a row, links in a list).
//!
//! Both become one [`Graph`]; [`reading`] walks it from its sampler. Graphs can be anything, so this is best effort,
//! and every walk has a budget: circles and endless chains end it.

mod reading;
mod walk;
mod widgets;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Restored;
use super::fields::{self, Fields};

/// Larger graphs are not read: nobody can have drawn them.
const MAX_NODES: usize = 20_000;

/// The number or name of a node.
type Id = String;

#[derive(Debug, Default)]
struct Graph {
    nodes: BTreeMap<Id, Node>,
}

#[derive(Debug, Default)]
struct Node {
    class: String,
    inputs: BTreeMap<String, Input>,
    /// It is not run: what goes in comes out, or nothing does.
    is_bypassed: bool,
}

#[derive(Clone, Debug)]
enum Input {
    Value(Value),
    Link { from: Id, slot: u64 },
}

impl Node {
    fn link(&self, name: &str) -> Option<(&Id, u64)> {
        match self.inputs.get(name)? {
            Input::Link { from, slot } => Some((from, *slot)),
            Input::Value(_) => None,
        }
    }

    fn links(&self) -> impl Iterator<Item = (&Id, u64)> {
        self.inputs.values().filter_map(|input| match input {
            Input::Link { from, slot } => Some((from, *slot)),
            Input::Value(_) => None,
        })
    }

    fn has(&self, name: &str) -> bool {
        self.inputs.contains_key(name)
    }
}

/// What a graph says, in any of the wrappings that graphs come in; nothing where there is none.
pub(super) fn read(value: &Value) -> Option<Restored> {
    let object = value.as_object()?;
    if let Some(found) = of_object(object) {
        return Some(found);
    }
    // Clips carry both writings in one comment, each perhaps as a text.
    let inner = |name: &str| {
        let inner = object.get(name)?;
        let parsed = inner.as_str().and_then(fields::parse);
        of_object(parsed.as_ref().unwrap_or(inner).as_object()?)
    };
    match (inner("prompt"), inner("workflow")) {
        (Some(run), Some(drawn)) => Some(run.filled_from(drawn)),
        (run, drawn) => run.or(drawn),
    }
}

fn of_object(object: &Map<String, Value>) -> Option<Restored> {
    if let Some(Value::Array(nodes)) = object.get("nodes") {
        let found = reading::read(&Graph::drawn(nodes, object.get("links")));
        // What is packed into a subgraph may be the whole of it.
        return found.or_else(|| {
            let definitions = object.get("definitions").and_then(Fields::of)?;
            definitions.list(&["subgraphs"]).iter().find_map(|inner| {
                let inner = Fields::of(inner)?;
                let nodes = inner.list(&["nodes"]);
                reading::read(&Graph::drawn(nodes, inner.get(&["links"])))
            })
        });
    }
    let graph = Graph::run(object);
    (!graph.nodes.is_empty())
        .then(|| reading::read(&graph))
        .flatten()
}

impl Graph {
    /// Of the writing that is run.
    fn run(object: &Map<String, Value>) -> Self {
        let nodes = object.iter().take(MAX_NODES);
        let nodes = nodes.filter_map(|(id, node)| {
            let node = Fields::of(node)?;
            let class = node.text(&["class_type"])?;
            let inputs = node.object(&["inputs"])?;
            let inputs = inputs.0.iter().map(|(name, value)| {
                let link = value.as_array().filter(|pair| pair.len() == 2);
                let link = link.and_then(|pair| Some((id_of(&pair[0])?, pair[1].as_u64()?)));
                let input = match link {
                    Some((from, slot)) if object.contains_key(&from) => Input::Link { from, slot },
                    _ => Input::Value(value.clone()),
                };
                (name.clone(), input)
            });
            let node = Node {
                class,
                inputs: inputs.collect(),
                is_bypassed: false,
            };
            Some((id.clone(), node))
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// Of the writing that is edited.
    fn drawn(nodes: &[Value], links: Option<&Value>) -> Self {
        let links = links_of(links);
        let nodes = nodes.iter().take(MAX_NODES).filter_map(|node| {
            let node = Fields::of(node)?;
            let id = id_of(node.get(&["id"])?)?;
            let class = node.text(&["type"])?;
            // Muted nodes and those that only pass on.
            let mode = node.number(&["mode"]).unwrap_or(0.0);
            let mut inputs = widgets::values(&class, node);
            for input in node.list(&["inputs"]) {
                let linked = Fields::of(input).and_then(|input| {
                    let link = links.get(&id_of(input.get(&["link"])?)?)?;
                    Some((input.text(&["name"])?, link.clone()))
                });
                inputs.extend(linked);
            }
            let node = Node {
                class,
                inputs,
                is_bypassed: mode == 2.0 || mode == 4.0,
            };
            Some((id, node))
        });
        Self {
            nodes: nodes.collect(),
        }
    }
}

/// The links by their numbers: `[number, from, slot, to, slot, kind]`, or as objects.
fn links_of(links: Option<&Value>) -> BTreeMap<Id, Input> {
    let links = links.and_then(Value::as_array);
    let links = links.map_or(&[][..], Vec::as_slice).iter();
    let links = links.take(4 * MAX_NODES).filter_map(|link| {
        let part = |index: usize, name: &str| match link {
            Value::Array(parts) => parts.get(index),
            Value::Object(parts) => parts.get(name),
            _ => None,
        };
        let input = Input::Link {
            from: id_of(part(1, "origin_id")?)?,
            slot: part(2, "origin_slot")?.as_u64()?,
        };
        Some((id_of(part(0, "id")?)?, input))
    });
    links.collect()
}

fn id_of(value: &Value) -> Option<Id> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
