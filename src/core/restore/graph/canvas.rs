//! The `workflow` form of a graph: nodes with widget values, links in a list, subgraphs and Set/Get nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::group_nodes;
use super::nodes::{ComfyGraph, ComfyNode, Id, MAX_NODES, NodeInput, NodeLink, NodeSlot, id_of};
use super::tables::BROADCASTERS;
use super::widgets;
use crate::restore::fields::JsonFields;

/// Subgraphs within each other.
const MAX_DEPTH: usize = 16;
/// Id of the node within a subgraph for the inputs of the subgraph.
pub(super) const INPUTS_ID: &str = "-10";
/// As `INPUTS_ID`, for the outputs.
pub(super) const OUTPUTS_ID: &str = "-20";

/// The canvas that a value is.
pub(super) fn of(value: &Value) -> Option<&Map<String, Value>> {
    let object = value.as_object()?;
    let has_nodes = object.get("nodes").is_some_and(Value::is_array);
    has_nodes.then_some(object)
}

/// Reads a canvas: the nodes of a subgraph get ids such as `20:3`, as in the other form.
pub(super) fn read(object: &Map<String, Value>) -> ComfyGraph {
    let expanded = group_nodes::as_subgraphs(object);
    let object = expanded.as_ref().unwrap_or(object);
    let canvas = JsonFields::new(object);
    let definitions = canvas.object("definitions").into_iter();
    let inner = definitions.flat_map(|it| it.objects("subgraphs"));
    let inner = inner.filter_map(|inner| Some((inner.text("id")?, CanvasGraph::new(inner))));
    let mut reader = CanvasReader {
        graph: ComfyGraph {
            is_drawn: true,
            ..ComfyGraph::default()
        },
        left: MAX_NODES,
        subgraphs: inner.collect(),
    };
    reader.add(&CanvasGraph::new(canvas), "", &[], 0);
    reader.graph
}

/// Nodes and links of the canvas or of one subgraph.
struct CanvasGraph<'a> {
    nodes: Vec<JsonFields<'a>>,
    links: BTreeMap<Id, NodeLink>,
    /// Links that "Anything Everywhere" nodes make, by node and number of the input; `None` where the canvas does not
    /// list them.
    broadcasts: Option<BTreeMap<(Id, u64), NodeLink>>,
    /// Links into the outputs of a subgraph, by slot.
    outputs: BTreeMap<u64, NodeLink>,
    /// Names of a subgraph's inputs, in order of their slots.
    input_names: Vec<String>,
    /// Those of them that are widgets of nodes within.
    widget_names: Vec<String>,
}

impl<'a> CanvasGraph<'a> {
    fn new(object: JsonFields<'a>) -> Self {
        let (mut links, mut outputs) = (BTreeMap::new(), BTreeMap::new());
        for link in object.list("links").iter().take(4 * MAX_NODES) {
            // `[id, from, slot, to, slot, type]`, or an object within subgraphs.
            let part = |index: usize, name: &str| link.get(index).or_else(|| link.get(name));
            let read = || {
                let kind = part(5, "type").and_then(Value::as_str);
                let found = NodeLink {
                    from: id_of(part(1, "origin_id")?)?,
                    slot: part(2, "origin_slot")?.as_u64()?,
                    kind: kind.unwrap_or_default().to_owned(),
                };
                Some((id_of(part(0, "id")?)?, found))
            };
            let Some((id, found)) = read() else {
                continue;
            };
            let to = part(3, "target_id").and_then(id_of);
            if to.as_deref() == Some(OUTPUTS_ID) {
                let slot = part(4, "target_slot").and_then(Value::as_u64);
                outputs.extend(slot.map(|slot| (slot, found.clone())));
            }
            links.insert(id, found);
        }
        let nodes: Vec<_> = object.objects("nodes").collect();
        let inputs = nodes.iter().flat_map(|node| node.objects("inputs"));
        let widgets = inputs.filter(|input| input.object("widget").is_some());
        let widgets = widgets.filter_map(|input| links.get(&id_of(input.get("link")?)?));
        let widgets = widgets.filter(|link| link.from == INPUTS_ID);
        let widget_slots: BTreeSet<u64> = widgets.map(|link| link.slot).collect();
        let names = object
            .objects("inputs")
            .map(|slot| slot.text("name").unwrap_or_default());
        let input_names: Vec<String> = names.collect();
        let widgets = (0..).zip(&input_names);
        let widgets = widgets.filter(|(slot, _)| widget_slots.contains(slot));
        Self {
            widget_names: widgets.map(|(_, name)| name.clone()).collect(),
            broadcasts: broadcasts_of(object),
            nodes,
            links,
            outputs,
            input_names,
        }
    }
}

fn broadcasts_of(canvas: JsonFields<'_>) -> Option<BTreeMap<(Id, u64), NodeLink>> {
    let extra = canvas.object("extra").filter(|it| it.has("ue_links"))?;
    let links = extra.objects("ue_links").filter_map(|link| {
        let slot = |name| link.get(name)?.as_u64();
        let to = (id_of(link.get("downstream")?)?, slot("downstream_slot")?);
        let found = NodeLink {
            from: id_of(link.get("upstream")?)?,
            slot: slot("upstream_slot")?,
            kind: link.text("type").unwrap_or_default(),
        };
        Some((to, found))
    });
    Some(links.collect())
}

struct CanvasReader<'a> {
    graph: ComfyGraph,
    left: usize,
    subgraphs: BTreeMap<String, CanvasGraph<'a>>,
}

impl CanvasReader<'_> {
    /// Adds the nodes of a drawing, below `prefix`; `outer` are the inputs of a subgraph, by slot.
    fn add(
        &mut self,
        drawing: &CanvasGraph<'_>,
        prefix: &str,
        outer: &[Option<NodeInput>],
        depth: usize,
    ) {
        let nodes = drawing.nodes.iter().take(self.left);
        self.left -= nodes.len();
        let nodes = nodes.filter_map(|node| self.node_of(*node, drawing, prefix, outer));
        let mut added: Vec<ComfyNode> = nodes.collect();
        route_get_nodes(&mut added);
        for mut node in added {
            // Taken out meanwhile, so that a subgraph within itself ends.
            if depth < MAX_DEPTH
                && !node.is_bypassed
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
        node: JsonFields<'_>,
        drawing: &CanvasGraph<'_>,
        prefix: &str,
        outer: &[Option<NodeInput>],
    ) -> Option<ComfyNode> {
        let id = id_of(node.get("id")?)?;
        let class = node.text("type")?;
        let found = ComfyNode::new(format!("{prefix}{id}"), class.clone());
        // The list does not have the links of nodes for a global seed or sampler.
        let is_listed = drawing.broadcasts.is_some() && !class.contains("Global");
        if node.number("mode") == Some(2.0) || (is_listed && found.is_called(BROADCASTERS)) {
            return None;
        }
        let subgraph = self.subgraphs.get(&class);
        let widgets = subgraph.map_or(&[][..], |subgraph| &subgraph.widget_names);
        let mut inputs = widgets::values(&class, node, widgets);
        // Place and type of each linked input.
        let mut linked = Vec::new();
        for (place, input) in (0..).zip(node.objects("inputs")) {
            let link = match input.get("link").and_then(id_of) {
                Some(link) => drawing.links.get(&link),
                None => drawing
                    .broadcasts
                    .as_ref()
                    .and_then(|listed| listed.get(&(id.clone(), place))),
            };
            let Some((link, name)) = link.zip(input.text("name")) else {
                continue;
            };
            if let Some(source) = input_of(link, prefix, outer) {
                let kind = input.text("type").filter(|kind| kind != "*");
                linked.push((
                    place,
                    kind.unwrap_or_else(|| link.kind.clone()),
                    source.clone(),
                ));
                inputs.insert(name, source);
            }
        }
        let outputs = node.objects("outputs").map(|slot| NodeSlot {
            name: slot.text("name").unwrap_or_default(),
            kind: slot.text("type").unwrap_or_default(),
        });
        let outputs: Vec<NodeSlot> = outputs.collect();
        let is_bypassed = node.number("mode") == Some(4.0);
        let bypassed = outputs.iter().filter(|_| is_bypassed);
        // Of the output's type the input in the same place, else the first.
        let routes = (0..).zip(bypassed).filter_map(|(slot, output)| {
            let same = linked.iter().filter(|(_, kind, _)| *kind == output.kind);
            let (.., source) = same.min_by_key(|(place, ..)| *place != slot)?;
            Some((slot, source.clone()))
        });
        Some(ComfyNode {
            title: node.text("title").unwrap_or_default(),
            inputs,
            routes: routes.collect(),
            outputs,
            is_bypassed,
            ..found
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
fn route_get_nodes(nodes: &mut [ComfyNode]) {
    let name = |node: &ComfyNode| {
        let mut values = node.inputs.values();
        values.find_map(|input| match input {
            NodeInput::Value(value) => value.as_str().map(str::to_owned),
            NodeInput::Link(_) => None,
        })
    };
    let set = nodes
        .iter()
        .filter(|node| node.plain_class.ends_with("setnode"));
    let set = set.filter_map(|node| {
        let mut inputs = node.inputs.values();
        let link = inputs.find(|input| matches!(input, NodeInput::Link(_)));
        Some((name(node)?, link?.clone()))
    });
    let set: BTreeMap<String, NodeInput> = set.collect();
    for node in nodes
        .iter_mut()
        .filter(|node| node.plain_class.ends_with("getnode"))
    {
        match name(node).and_then(|name| set.get(&name)) {
            Some(input) => _ = node.routes.insert(0, input.clone()),
            // The name is not the value.
            None => node.inputs.clear(),
        }
    }
}
