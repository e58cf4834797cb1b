//! `ComfyUI`'s graphs, in both forms: `prompt`, which is run (nodes by id, links inline), and `workflow`, the canvas
//! (widget values in a row, links in a list, subgraphs).
//!
//! 1. Load ([`forms`]): both forms become one [`ComfyGraph`], and the canvas lends slot names and types to
//!    the other.
//! 2. Flatten ([`flat`]): each link is followed to the node or value that it means, so that nothing after it knows
//!    reroutes, switches, subgraphs or pipes. [`values`] and [`texts`] compute what nodes give.
//! 3. Walk: [`results`] finds what is saved and the samplers that made it, [`reading`] and [`passes`] the settings of
//!    each, [`conditioning`] the prompts, [`models`] the models and LoRAs.
//! 4. Name the files that are needed, and what was met and is not used ([`unused`]).
//!
//! Nodes are known by words in their class and by the names of their inputs, whatever pack they are of: the rows of
//! `nodes.txt`. Files are untrusted: nodes, depth and steps are bounded.

mod conditioning;
mod flat;
mod forms;
mod group_nodes;
mod models;
mod nodes;
mod passes;
mod reading;
mod results;
mod texts;
mod unused;
mod values;

use serde_json::Value;

use super::fields;
use super::settings::ForeignSettings;
use forms::{canvas_of, read_canvas, read_run_form, run_form_of};
use nodes::ComfyGraph;

/// Returns whether a JSON value is a graph in either form.
pub(super) fn is_graph(value: &Value) -> bool {
    canvas_of(value).or_else(|| run_form_of(value)).is_some()
}

/// Unwraps the members of a comment that holds both forms, each possibly as a text; else returns the value alone.
pub(super) fn unwrap(value: Value) -> Vec<Value> {
    let inner = ["prompt", "workflow"].into_iter().filter_map(|name| {
        let inner = value.get(name)?;
        let parsed = inner.as_str().and_then(fields::parse);
        Some(parsed.unwrap_or_else(|| inner.clone())).filter(is_graph)
    });
    let inner: Vec<Value> = inner.collect();
    if inner.is_empty() || is_graph(&value) {
        vec![value]
    } else {
        inner
    }
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
    let mut graphs = graphs_of(values);
    graphs.find_map(|graph| Some(results::unread_maker(&graph)?.to_string()))
}

/// Graphs in the JSON texts of one file, the one that says most first: what was run, and the canvas.
fn graphs_of(values: &[&Value]) -> impl Iterator<Item = ComfyGraph> {
    let canvas = values.iter().find_map(|value| canvas_of(value));
    let canvas = canvas.map(read_canvas);
    let mut others = values.iter().filter(|value| canvas_of(value).is_none());
    let run = others.find_map(|value| run_form_of(value));
    let run = run.map(|run| read_run_form(run, canvas.as_ref()));
    let graphs = run.into_iter().chain(canvas);
    graphs.map(ComfyGraph::flattened)
}
