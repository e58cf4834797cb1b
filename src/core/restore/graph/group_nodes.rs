//! Group nodes of older canvases (`workflow>name`), each of which becomes a subgraph.
//!
//! Their definitions count nodes, slots and values in a row. A group node whose rows do not fit its definition, such as one
//! with hidden values, stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::forms::{INPUTS_ID, OUTPUTS_ID};
use crate::restore::short;

/// Group nodes within each other.
const MAX_DEPTH: usize = 8;
/// Bytes of JSON of all definitions, each as often as it is used.
const BUDGET: usize = 1 << 22;

/// Canvas with subgraphs for its group nodes; `None` for a canvas without definitions of groups.
pub(super) fn as_subgraphs(canvas: &Map<String, Value>) -> Option<Map<String, Value>> {
    let groups = canvas.get("extra")?.get("groupNodes")?.as_object()?;
    let mut canvas = canvas.clone();
    let mut expander = GroupExpander {
        groups,
        left: BUDGET,
        subgraphs: Vec::new(),
    };
    expander.expand(canvas.get_mut("nodes")?, MAX_DEPTH);
    let definitions = canvas.entry("definitions").or_insert_with(|| json!({}));
    let subgraphs = definitions.as_object_mut()?.entry("subgraphs");
    let subgraphs = subgraphs.or_insert_with(|| json!([])).as_array_mut()?;
    subgraphs.extend(expander.subgraphs);
    Some(canvas)
}

struct GroupExpander<'a> {
    groups: &'a Map<String, Value>,
    /// Rest of [`BUDGET`].
    left: usize,
    subgraphs: Vec<Value>,
}

impl GroupExpander<'_> {
    /// Adds subgraphs for group nodes, to `depth` within each other.
    fn expand(&mut self, nodes: &mut Value, depth: usize) {
        for node in nodes.as_array_mut().into_iter().flatten() {
            let class = node["type"].as_str().unwrap_or_default();
            let name = class.strip_prefix("workflow").unwrap_or_default();
            let group = name.strip_prefix(['>', '/']);
            let group = group.and_then(|name| self.groups.get(name));
            let Some(group) = group.filter(|_| self.left > 0 && depth > 0) else {
                continue;
            };
            self.left = self.left.saturating_sub(group.to_string().len());
            if let Some(mut subgraph) = subgraph_of(node, group).filter(|_| self.left > 0) {
                // Each group node has values of its own, and another rest.
                let id = format!("{} {}", short(class), self.left);
                self.expand(&mut subgraph["nodes"], depth - 1);
                subgraph["id"] = json!(id);
                node["type"] = json!(id);
                self.subgraphs.push(subgraph);
            }
        }
    }
}

/// Subgraph with the inputs and values of a group node; `None` where these do not fit the group.
fn subgraph_of(node: &Value, group: &Value) -> Option<Value> {
    let list = |object: &Value, name: &str| object[name].as_array().cloned().unwrap_or_default();
    let numbers = |value: &Value, count: usize| -> Option<Vec<u64>> {
        (0..count).map(|at| value[at].as_u64()).collect()
    };
    let is_plain = |input: &&Value| input["widget"].is_null();
    // From node and slot to node and slot. The others lead to nodes that the group was made from.
    let inside = list(group, "links");
    let inside: Vec<_> = inside.iter().filter_map(|it| numbers(it, 4)).collect();
    let starts: BTreeSet<_> = inside.iter().map(|link| &link[..2]).collect();
    let starts_of: BTreeMap<_, _> = inside.iter().map(|it| (&it[2..], &it[..2])).collect();
    let shown = list(group, "external");
    let shown: BTreeSet<_> = shown.iter().filter_map(|it| numbers(it, 2)).collect();

    let (mut nodes, values) = (list(group, "nodes"), list(node, "widgets_values"));
    let outer = list(node, "inputs");
    let mut outer_inputs = outer.iter().filter(is_plain);
    let (mut links, mut inputs) = (Vec::new(), Vec::new());
    let (mut num_values, mut num_outputs) = (0, 0);
    for (index, inner) in (0_u64..).zip(&mut nodes) {
        let inner = inner.as_object_mut()?;
        inner.insert("id".to_owned(), json!(index));
        if let Some(Value::Array(own)) = inner.get_mut("widgets_values") {
            let end = num_values + own.len();
            own.clone_from_slice(values.get(num_values..end)?);
            num_values = end;
        }
        let slots = inner.get_mut("inputs").and_then(Value::as_array_mut);
        for (slot, input) in (0_u64..).zip(slots.into_iter().flatten()) {
            let start = match starts_of.get(&[index, slot][..]) {
                Some(start) => json!(start),
                None if !is_plain(&&*input) => continue,
                None => {
                    inputs.push(json!({"name": outer_inputs.next()?["name"]}));
                    json!([INPUTS_ID, inputs.len() - 1])
                }
            };
            let id = links.len();
            links.push(json!([id, start[0], start[1], index, slot, input["type"]]));
            input.as_object_mut()?.insert("link".to_owned(), json!(id));
        }
        let slots = inner.get("outputs").and_then(Value::as_array);
        for slot in 0..slots.map_or(0, Vec::len) as u64 {
            let start = [index, slot];
            if shown.contains(&start[..]) || !starts.contains(&start[..]) {
                links.push(json!([links.len(), index, slot, OUTPUTS_ID, num_outputs]));
                num_outputs += 1;
            }
        }
    }
    let is_bound = |input: &Value| !is_plain(&input) && !input["link"].is_null();
    let fits = outer_inputs.next().is_none()
        && !outer.iter().any(is_bound)
        && num_values == values.len()
        && num_outputs == list(node, "outputs").len();
    fits.then(|| json!({"nodes": nodes, "links": links, "inputs": inputs}))
}
