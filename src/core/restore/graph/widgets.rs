//! Names of widgets' values on a canvas, which writes the values in a row.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use serde_json::Value;

use super::nodes::NodeInput;
use crate::restore::fields::JsonFields;

/// Names of the widgets of nodes that matter, by class and in their order; for drawings that do not name them.
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

/// Values with which drawings mark widgets for uploads.
const UPLOADS: [&str; 4] = ["", "image", "video", "audio"];

/// Widget values of a node by name. `subgraph`: widget names of the subgraph, if the node is one.
pub(super) fn values(
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
    // Newer drawings name each widget among the inputs, linked or not.
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
