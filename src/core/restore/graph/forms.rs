//! Both forms of a graph as files write them: `workflow`, the canvas, with widgets' values in rows, links in a list,
//! subgraphs and Set/Get nodes; and `prompt`, which is run, with nodes by id and links inline.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::group_nodes;
use super::nodes::{ComfyGraph, ComfyNode, Id, MAX_NODES, NodeInput, NodeLink, NodeSlot, id_of};
use crate::restore::fields::JsonFields;

/// Names of the widgets of nodes that matter, by class and in their order; for canvases that do not name them.
static ORDERS: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let lines = include_str!("widgets.txt").lines();
    let mut orders = HashMap::new();
    for (classes, names) in lines.filter_map(|line| line.split_once(": ")) {
        for class in classes.split(" / ") {
            let names = || names.split(' ').collect();
            orders.entry(class).or_insert_with(names);
        }
    }
    orders
});
/// Values with which canvases mark widgets for uploads.
const UPLOADS: [&str; 4] = ["", "image", "video", "audio"];
/// Subgraphs within each other.
const MAX_DEPTH: usize = 16;
/// Id of the node within a subgraph for the inputs of the subgraph.
pub(super) const INPUTS_ID: &str = "-10";
/// As `INPUTS_ID`, for the outputs.
pub(super) const OUTPUTS_ID: &str = "-20";

/// The canvas that a value is.
pub(super) fn canvas_of(value: &Value) -> Option<&Map<String, Value>> {
    let object = value.as_object()?;
    let has_nodes = object.get("nodes").is_some_and(Value::is_array);
    has_nodes.then_some(object)
}

/// Reads a canvas: the nodes of a subgraph get ids such as `20:3`, as in the other form.
pub(super) fn read_canvas(object: &Map<String, Value>) -> ComfyGraph {
    let expanded = group_nodes::as_subgraphs(object);
    let canvas = JsonFields::new(expanded.as_ref().unwrap_or(object));
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
    /// Links by id; those that "Anything Everywhere" nodes make by node and number of the input, as in `7 2`.
    links: BTreeMap<Id, NodeLink>,
    /// It lists the links of such nodes.
    lists_broadcasts: bool,
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
            let part = |index: usize, name: &str| link.get(index).or_else(|| link.get(name));
            let id = part(0, "id").and_then(id_of);
            let Some((id, found)) = id.zip(link_of(link, "origin_id", "origin_slot")) else {
                continue;
            };
            if part(3, "target_id").and_then(id_of).as_deref() == Some(OUTPUTS_ID) {
                let slot = part(4, "target_slot").and_then(Value::as_u64);
                outputs.extend(slot.map(|slot| (slot, found.clone())));
            }
            links.insert(id, found);
        }
        let extra = object.object("extra").filter(|it| it.has("ue_links"));
        for link in extra.map_or(&[][..], |extra| extra.list("ue_links")) {
            let to = link.get("downstream").and_then(id_of);
            let slot = link.get("downstream_slot").and_then(Value::as_u64);
            let found = link_of(link, "upstream", "upstream_slot");
            let to = to.zip(slot).map(|(to, slot)| format!("{to} {slot}"));
            links.extend(to.zip(found));
        }
        let nodes: Vec<_> = object.objects("nodes").collect();
        let inputs = nodes.iter().flat_map(|node| node.objects("inputs"));
        let widgets = inputs.filter(|input| input.object("widget").is_some());
        let widgets = widgets.filter_map(|input| links.get(&id_of(input.get("link")?)?));
        let widgets = widgets.filter(|link| link.from == INPUTS_ID);
        let slots: BTreeSet<u64> = widgets.map(|link| link.slot).collect();
        let names = object.objects("inputs");
        let names = names.map(|slot| slot.text("name").unwrap_or_default());
        let input_names: Vec<String> = names.collect();
        let widgets = (0..).zip(&input_names).filter(|it| slots.contains(&it.0));
        Self {
            widget_names: widgets.map(|(_, name)| name.clone()).collect(),
            lists_broadcasts: extra.is_some(),
            nodes,
            links,
            outputs,
            input_names,
        }
    }
}

/// Link `[id, from, slot, to, slot, type]`, or an object with members of these names.
fn link_of(link: &Value, from: &str, slot: &str) -> Option<NodeLink> {
    let part = |index: usize, name: &str| link.get(index).or_else(|| link.get(name));
    let kind = part(5, "type").and_then(Value::as_str);
    Some(NodeLink {
        from: id_of(part(1, from)?)?,
        slot: part(2, slot)?.as_u64()?,
        kind: kind.unwrap_or_default().to_owned(),
    })
}

struct CanvasReader<'a> {
    graph: ComfyGraph,
    left: usize,
    subgraphs: BTreeMap<String, CanvasGraph<'a>>,
}

impl CanvasReader<'_> {
    /// Adds the nodes of a canvas or subgraph, below `prefix`; `outer` are the inputs of a subgraph, by slot.
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
        let mut found = ComfyNode::new(format!("{prefix}{id}"), node.text("type")?);
        let mode = node.number("mode");
        // The list does not have the links of nodes for a global seed or sampler.
        let is_listed = drawing.lists_broadcasts && !found.class.contains("Global");
        if mode == Some(2.0) || (is_listed && found.is_called("BROADCASTERS")) {
            return None;
        }
        let subgraph = self.subgraphs.get(&found.class);
        let widgets = subgraph.map_or(&[][..], |subgraph| &subgraph.widget_names);
        found.inputs = widget_values(&found.class, node, widgets);
        found.title = node.text("title").unwrap_or_default();
        let outputs = node.objects("outputs").map(|slot| NodeSlot {
            name: slot.text("name").unwrap_or_default(),
            kind: slot.text("type").unwrap_or_default(),
        });
        found.outputs = outputs.collect();
        // Place and type of each linked input.
        let mut linked = Vec::new();
        for (place, input) in (0_u64..).zip(node.objects("inputs")) {
            let link = input.get("link").and_then(id_of);
            let link = drawing
                .links
                .get(&link.unwrap_or_else(|| format!("{id} {place}")));
            let source = link.and_then(|link| Some((link, input_of(link, prefix, outer)?)));
            if let Some(((link, source), name)) = source.zip(input.text("name")) {
                let kind = input.text("type").filter(|kind| kind != "*");
                let kind = kind.unwrap_or_else(|| link.kind.clone());
                linked.push((place, kind, source.clone()));
                found.inputs.insert(name, source);
            }
        }
        found.is_bypassed = mode == Some(4.0);
        let bypassed = found.outputs.iter().filter(|_| found.is_bypassed);
        // Of the output's type the input in the same place, else the first.
        let routes = (0..).zip(bypassed).filter_map(|(slot, output)| {
            let same = linked.iter().filter(|(_, kind, _)| *kind == output.kind);
            let (.., source) = same.min_by_key(|(place, ..)| *place != slot)?;
            Some((slot, source.clone()))
        });
        found.routes = routes.collect();
        Some(found)
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
        let mut texts = node.inputs.values().filter_map(|it| it.value()?.as_str());
        texts.next().map(str::to_owned)
    };
    let set = nodes
        .iter()
        .filter(|node| node.plain_class.ends_with("setnode"));
    let set = set.filter_map(|node| {
        let link = node.inputs.values().find(|input| input.link().is_some());
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

/// Widgets' values of a node by name. `subgraph`: widget names of the subgraph, if the node is one.
fn widget_values(
    class: &str,
    node: JsonFields<'_>,
    subgraph: &[String],
) -> BTreeMap<String, NodeInput> {
    let value = |(name, value): (&str, &Value)| (name.to_owned(), NodeInput::Value(value.clone()));
    let objects = ["widgets_values_named", "widgets_values"];
    if let Some(named) = objects.iter().find_map(|name| node.object(name)) {
        // A seed's change after each run is there under its own name.
        let named = named.0.iter().filter(|(name, it)| *it != *name);
        return named.map(|(name, it)| value((name, it))).collect();
    }
    let row = node.list("widgets_values");
    // The node itself may list only some of them.
    if !subgraph.is_empty() && row.len() == subgraph.len() {
        let named = subgraph.iter().map(String::as_str).zip(row);
        return named.map(value).collect();
    }
    // Newer canvases name each widget among the inputs, linked or not.
    let named = node.objects("inputs");
    let named = named.filter_map(|input| input.object("widget")?.get("name")?.as_str());
    let named: Vec<&str> = named.collect();
    let known: Vec<&str> = ORDERS.get(class).cloned().unwrap_or_default();
    // If only some widgets were made inputs, as in older workflows, they name too few.
    let is_named = named.len() >= known.len() && named.len() >= num_widgets(row);
    let names = if is_named { named } else { known };
    let is_known = !names.is_empty();
    let mut names = names.into_iter();
    let mut found = BTreeMap::new();
    let mut is_after_seed = false;
    for it in row {
        // A display's text may be a list of one.
        let it = match it.as_array().map(Vec::as_slice) {
            Some([only @ Value::String(_)]) => only,
            _ => it,
        };
        // After a seed: its change after each run.
        let is_control = is_after_seed && (it.is_null() || is_seed_control(it));
        is_after_seed = false;
        if is_control {
            continue;
        }
        let name = names.next();
        let key = match name {
            // Loaders of many LoRAs keep an object for each.
            _ if it.get("lora").is_some() => format!("lora_{}", found.len()),
            Some(name) => name.to_owned(),
            // An unnamed value may still be found as the only text or number, or be named as unused.
            None if row.len() == 1 => "value".to_owned(),
            None if !is_known => format!("widget {}", found.len() + 1),
            None => continue,
        };
        is_after_seed = matches!(name, Some("seed" | "noise_seed" | "value"));
        found.insert(key, NodeInput::Value(it.clone()));
    }
    found
}

/// Number of the values of a row that need a name: neither a seed's change after each run, nor a preview or the kind of
/// an upload at the end.
fn num_widgets(row: &[Value]) -> usize {
    let before = std::iter::once(&Value::Null).chain(row);
    let values = before.zip(row).filter(|(before, it)| {
        !(it.is_object() || it.is_array() || (before.is_number() && is_seed_control(it)))
    });
    let values: Vec<_> = values.map(|(_, it)| it).collect();
    let is_upload =
        |it: &Value| it.is_null() || it.as_str().is_some_and(|it| UPLOADS.contains(&it));
    let end = values.iter().rposition(|it| !is_upload(it));
    end.map_or(0, |end| end + 1)
}

fn is_seed_control(value: &Value) -> bool {
    let controls = ["fixed", "increment", "decrement", "randomize"];
    value.as_str().is_some_and(|it| controls.contains(&it))
}

/// The graph to run that a value is.
pub(super) fn run_form_of(value: &Value) -> Option<&Map<String, Value>> {
    let object = value.as_object()?;
    let is_node = |node: JsonFields<'_>| node.has("class_type") && node.object("inputs").is_some();
    let mut nodes = object.values().filter_map(JsonFields::from_value);
    nodes.any(is_node).then_some(object)
}

/// Reads a graph to run. Slot names and types come from the canvas, as do the texts that display nodes show: there they are
/// those of the run itself, here still those of the run before.
pub(super) fn read_run_form(
    object: &Map<String, Value>,
    canvas: Option<&ComfyGraph>,
) -> ComfyGraph {
    let nodes = object.iter().take(MAX_NODES).filter_map(|(id, value)| {
        let mut node = node_of(object, id, value)?;
        let drawn = canvas.and_then(|canvas| canvas.nodes.get(id));
        if let Some(drawn) = drawn.filter(|drawn| drawn.class == node.class) {
            node.outputs.clone_from(&drawn.outputs);
            if !drawn.title.is_empty() {
                node.title.clone_from(&drawn.title);
            }
            if node.is_called("DISPLAYS") {
                let is_shown = |input: &NodeInput| {
                    let text = input.value().and_then(Value::as_str);
                    text.is_some_and(|text| !text.is_empty())
                };
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
        let pair = value.as_array().filter(|pair| pair.len() == 2);
        let link = pair.and_then(|pair| Some((id_of(&pair[0])?, pair[1].as_u64()?)));
        let input = match link.filter(|(from, _)| object.contains_key(from)) {
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
