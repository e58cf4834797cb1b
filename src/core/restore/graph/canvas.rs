//! The `workflow` writing: nodes with widget values, links in a list, subgraphs and Set/Get nodes, as one flat graph.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::broadcasts::{BroadcastLinks, is_broadcaster};
use super::{
    ComfyGraph, ComfyNode, Id, MAX_NODES, NodeInput, NodeLink, NodeMode, NodeSlot, id_of, widgets,
};
use crate::restore::fields::JsonFields;

/// Subgraphs within each other.
const MAX_DEPTH: usize = 16;
/// Id of the node within a subgraph for the inputs of the subgraph.
const INPUTS_ID: &str = "-10";
/// As `INPUTS_ID`, for the outputs.
const OUTPUTS_ID: &str = "-20";

/// Nodes and links of the canvas or of one subgraph.
struct CanvasGraph<'a> {
    nodes: &'a [Value],
    links: BTreeMap<Id, NodeLink>,
    broadcasts: BroadcastLinks,
    /// Links into the outputs of a subgraph, by slot.
    outputs: BTreeMap<u64, NodeLink>,
    /// Names of a subgraph's inputs, in order of their slots.
    input_names: Vec<String>,
    /// Those of them that are widgets of nodes within.
    widget_names: Vec<String>,
}

impl<'a> CanvasGraph<'a> {
    fn from_fields(object: JsonFields<'a>) -> Self {
        let (mut links, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        for link in object.list("links").iter().take(4 * MAX_NODES) {
            // `[id, from, slot, to, slot, type]`, or an object within subgraphs.
            let part = |index: usize, name: &str| match link {
                Value::Array(parts) => parts.get(index),
                Value::Object(parts) => parts.get(name),
                _ => None,
            };
            let read = || {
                let found = NodeLink {
                    from: id_of(part(1, "origin_id")?)?,
                    slot: part(2, "origin_slot")?.as_u64()?,
                    kind: part(5, "type")
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned(),
                };
                let to = part(3, "target_id").and_then(id_of);
                let slot = part(4, "target_slot").and_then(Value::as_u64);
                Some((id_of(part(0, "id")?)?, found, to, slot))
            };
            let Some((id, found, to, slot)) = read() else {
                continue;
            };
            if to.as_deref() == Some(OUTPUTS_ID) {
                outputs.extend(slot.map(|slot| (slot, found.clone())));
            }
            links.insert(id, found);
        }
        let names = object.list("inputs").iter().take(MAX_NODES);
        let name = |slot: &Value| JsonFields::from_value(slot).and_then(|slot| slot.text("name"));
        let input_names: Vec<String> = names.map(|slot| name(slot).unwrap_or_default()).collect();
        let nodes = object.list("nodes");
        let inputs = nodes.iter().filter_map(JsonFields::from_value);
        let inputs = inputs.flat_map(|node| node.list("inputs"));
        let widget_slots: BTreeSet<u64> = inputs
            .filter_map(|input| {
                let input = JsonFields::from_value(input)?;
                let link = links.get(&id_of(input.get("link")?)?)?;
                let is_widget = input.object("widget").is_some();
                (is_widget && link.from == INPUTS_ID).then_some(link.slot)
            })
            .collect();
        let widgets = (0..).zip(&input_names);
        let widgets = widgets.filter(|(slot, _)| widget_slots.contains(slot));
        Self {
            nodes,
            widget_names: widgets.map(|(_, name)| name.clone()).collect(),
            broadcasts: BroadcastLinks::new(object, &links),
            links,
            outputs,
            input_names,
        }
    }
}

/// Definitions of the subgraphs of a canvas.
pub(super) fn definitions(object: &Map<String, Value>) -> Vec<&Map<String, Value>> {
    let definitions = object.get("definitions").and_then(JsonFields::from_value);
    let list = definitions.map_or(&[][..], |it| it.list("subgraphs"));
    list.iter()
        .take(MAX_NODES)
        .filter_map(Value::as_object)
        .collect()
}

/// Flattens a canvas: the nodes of a subgraph get ids such as `20:3`, as in the other writing.
pub(super) fn read(object: &Map<String, Value>) -> ComfyGraph {
    let inner = definitions(object).into_iter().filter_map(|inner| {
        let inner = JsonFields::new(inner);
        Some((inner.text("id")?, CanvasGraph::from_fields(inner)))
    });
    let mut flattening = GraphFlattening {
        graph: ComfyGraph {
            is_drawn: true,
            ..ComfyGraph::default()
        },
        left: MAX_NODES,
        subgraphs: inner.collect(),
    };
    flattening.add(
        &CanvasGraph::from_fields(JsonFields::new(object)),
        "",
        &[],
        0,
    );
    flattening.graph
}

struct GraphFlattening<'a> {
    graph: ComfyGraph,
    left: usize,
    subgraphs: BTreeMap<String, CanvasGraph<'a>>,
}

impl GraphFlattening<'_> {
    /// Adds the nodes of a drawing, below `prefix`; `outer` are the inputs of a subgraph, by slot.
    fn add(
        &mut self,
        drawing: &CanvasGraph<'_>,
        prefix: &str,
        outer: &[Option<NodeInput>],
        depth: usize,
    ) {
        let mut added: Vec<ComfyNode> = Vec::new();
        for node in drawing.nodes {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            added.extend(self.node_of(node, drawing, prefix, outer));
        }
        route_set_nodes(&mut added);
        for mut node in added {
            // Taken out meanwhile, so that a subgraph within itself ends.
            if depth < MAX_DEPTH
                && node.mode == NodeMode::Runs
                && let Some(inner) = self.subgraphs.remove(&node.class)
            {
                let inside = format!("{}:", node.id);
                let names = inner.input_names.iter();
                let inputs: Vec<_> = names.map(|name| node.inputs.get(name).cloned()).collect();
                self.add(&inner, &inside, &inputs, depth + 1);
                let outputs = inner.outputs.iter();
                let routes = outputs
                    .filter_map(|(slot, link)| Some((*slot, input_of(link, &inside, &inputs)?)));
                node.routes = routes.collect();
                self.subgraphs.insert(node.class.clone(), inner);
            }
            let id = node.id.clone();
            if self.graph.nodes.insert(id.clone(), node).is_some() {
                self.graph.repeated_id = Some(id);
            }
        }
    }

    fn node_of(
        &self,
        value: &Value,
        drawing: &CanvasGraph<'_>,
        prefix: &str,
        outer: &[Option<NodeInput>],
    ) -> Option<ComfyNode> {
        let node = JsonFields::from_value(value)?;
        let id = id_of(node.get("id")?)?;
        let class = node.text("type")?;
        let subgraph = self.subgraphs.get(&class);
        let widgets = subgraph.map_or(&[][..], |subgraph| &subgraph.widget_names);
        let mut inputs = widgets::values(&class, node, widgets);
        let broadcasts = &drawing.broadcasts;
        let mut kinds = Vec::new();
        for (slot, input) in (0..).zip(node.list("inputs")) {
            let linked = JsonFields::from_value(input).and_then(|input| {
                let link = match input.get("link").and_then(id_of) {
                    Some(link) => drawing.links.get(&link)?,
                    None if is_broadcaster(node) => return None,
                    None => &broadcasts.find(&id, slot, input)?,
                };
                let kind = input.text("type").filter(|kind| kind != "*");
                let linked = input_of(link, prefix, outer)?;
                kinds.push((
                    slot,
                    kind.unwrap_or_else(|| link.kind.clone()),
                    linked.clone(),
                ));
                Some((input.text("name")?, linked))
            });
            inputs.extend(linked);
        }
        let outputs = node.list("outputs").iter().take(MAX_NODES).map(|slot| {
            let slot = JsonFields::from_value(slot);
            let text = |name| slot.and_then(|slot| slot.text(name)).unwrap_or_default();
            NodeSlot {
                name: text("name"),
                kind: text("type"),
            }
        });
        let outputs: Vec<NodeSlot> = outputs.collect();
        let bypassed = node.number("mode") == Some(4.0);
        let routes = (0..).zip(outputs.iter().filter(|_| bypassed));
        // Of the output's type the input in the same place, else the first.
        let routes = routes.filter_map(|(slot, output)| {
            let mut same = kinds.iter().filter(|(_, kind, _)| *kind == output.kind);
            let first = same.clone().next();
            let found = same.find(|(place, ..)| *place == slot).or(first)?;
            Some((slot, found.2.clone()))
        });
        Some(ComfyNode {
            title: node.text("title").unwrap_or_default(),
            inputs,
            routes: routes.collect(),
            outputs,
            mode: match node.number("mode") {
                Some(2.0) => NodeMode::Muted,
                Some(4.0) => NodeMode::Bypassed,
                _ if is_broadcaster(node) && broadcasts.reads(node) => NodeMode::Muted,
                _ => NodeMode::Runs,
            },
            ..ComfyNode::new(format!("{prefix}{id}"), class)
        })
    }
}

/// The input at the end of a link; a link from the subgraph's own inputs gives what is outside.
fn input_of(link: &NodeLink, prefix: &str, outer: &[Option<NodeInput>]) -> Option<NodeInput> {
    if link.from == INPUTS_ID {
        return outer.get(usize::try_from(link.slot).ok()?)?.clone();
    }
    Some(NodeInput::Link(NodeLink {
        from: format!("{prefix}{}", link.from),
        ..link.clone()
    }))
}

/// Lets each Get node hand on the input of the Set node of its name.
fn route_set_nodes(nodes: &mut [ComfyNode]) {
    let name = |node: &ComfyNode| {
        let mut values = node.inputs.values();
        values.find_map(|input| match input {
            NodeInput::Value(Value::String(name)) => Some(name.clone()),
            _ => None,
        })
    };
    let set = nodes
        .iter()
        .filter(|node| node.plain_class.ends_with("setnode"));
    let set: BTreeMap<String, NodeLink> = set
        .filter_map(|node| Some((name(node)?, node.links().next()?.1.clone())))
        .collect();
    for node in nodes {
        if node.plain_class.ends_with("getnode") {
            match name(node).and_then(|name| set.get(&name)) {
                Some(link) => {
                    node.routes.insert(0, NodeInput::Link(link.clone()));
                }
                // The name is not the value.
                None => node.inputs.clear(),
            }
        }
    }
}
