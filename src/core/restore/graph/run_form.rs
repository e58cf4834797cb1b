//! The `prompt` form of a graph, which is run: nodes by id, links inline.

use serde_json::{Map, Value};

use super::nodes::{ComfyGraph, ComfyNode, MAX_NODES, NodeInput, NodeLink, id_of};
use super::tables::DISPLAYS;
use crate::restore::fields::JsonFields;

/// The graph to run that a value is.
pub(super) fn of(value: &Value) -> Option<&Map<String, Value>> {
    let object = value.as_object()?;
    let is_node = |node: JsonFields<'_>| node.has("class_type") && node.object("inputs").is_some();
    let mut nodes = object.values().filter_map(JsonFields::from_value);
    nodes.any(is_node).then_some(object)
}

/// Reads a graph. Slot names and types come from the canvas, as do the texts that display nodes show: there they are
/// those of the run itself, here still those of the run before.
pub(super) fn read(object: &Map<String, Value>, canvas: Option<&ComfyGraph>) -> ComfyGraph {
    let nodes = object.iter().take(MAX_NODES).filter_map(|(id, value)| {
        let mut node = node_of(object, id, value)?;
        let drawn = canvas.and_then(|canvas| canvas.nodes.get(id));
        if let Some(drawn) = drawn.filter(|drawn| drawn.class == node.class) {
            node.outputs.clone_from(&drawn.outputs);
            if !drawn.title.is_empty() {
                node.title.clone_from(&drawn.title);
            }
            let is_shown = |input: &NodeInput| matches!(input, NodeInput::Value(Value::String(text)) if !text.is_empty());
            if node.is_called(DISPLAYS) {
                let shown = drawn.inputs.iter().filter(|(_, input)| is_shown(input));
                let shown = shown.map(|(name, input)| (name.clone(), input.clone()));
                node.inputs.extend(shown);
            }
        }
        Some((id.clone(), node))
    });
    ComfyGraph {
        nodes: nodes.collect(),
        ..ComfyGraph::default()
    }
}

fn node_of(object: &Map<String, Value>, id: &str, value: &Value) -> Option<ComfyNode> {
    let node = JsonFields::from_value(value)?;
    let inputs = node.object("inputs")?.0.iter().map(|(name, value)| {
        let link = value.as_array().filter(|pair| pair.len() == 2);
        let link = link.and_then(|pair| Some((id_of(&pair[0])?, pair[1].as_u64()?)));
        let link = link.filter(|(from, _)| object.contains_key(from));
        let input = match link {
            Some((from, slot)) => NodeInput::Link(NodeLink {
                from,
                slot,
                kind: String::new(),
            }),
            None => NodeInput::Value(value.clone()),
        };
        (name.clone(), input)
    });
    let title = node.object("_meta").and_then(|it| it.text("title"));
    Some(ComfyNode {
        title: title.unwrap_or_default(),
        inputs: inputs.collect(),
        ..ComfyNode::new(id.to_owned(), node.text("class_type")?)
    })
}
