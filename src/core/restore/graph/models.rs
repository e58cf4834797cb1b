//! The model of a sampler, and what changes it on the way: LoRAs and the shift.

use serde_json::Value;

use super::loras::NodeLoras;
use super::sizes::number_or_note;
use super::walk::{GraphWalk, InputSource, LinkKind};
use super::{ComfyNode, MAX_CHAIN, NodeInput, has_word};
use crate::restore::names::file_name;
use crate::restore::{ForeignSettings, short};

const MODEL_NAMES: &str = "unet_name, ckpt_name, model_name, gguf_name, model_path, model";

/// Reads the model; of samplers with two experts both, with a guidance for each.
pub(super) fn read_models<'a>(
    walk: &GraphWalk<'a>,
    sampler: &'a ComfyNode,
    restored: &mut ForeignSettings,
) {
    let of_expert = |what: &str, expert: &str| {
        let mut names = sampler.inputs.keys().map(String::as_str);
        names.find(|name| name.contains(what) && name.contains(expert))
    };
    let model = |name: &str| {
        let source = sampler
            .inputs
            .get(name)
            .and_then(|input| walk.follow(input, name));
        source.and_then(InputSource::node)
    };
    let high = of_expert("model", "high").and_then(model);
    let low = of_expert("model", "low").and_then(model);
    let Some((high, low)) = high.zip(low) else {
        let next = model_of(walk, sampler);
        read_model(walk, sampler, next, restored);
        return;
    };
    let cfg = |expert| of_expert("cfg", expert).and_then(|name| walk.number(sampler, name));
    restored.cfg_scale = cfg("high").or(restored.cfg_scale);
    read_model(walk, sampler, Some(high), restored);
    let mut second = ForeignSettings {
        cfg_scale: cfg("low").or(restored.cfg_scale),
        ..ForeignSettings::default()
    };
    read_model(walk, sampler, Some(low), &mut second);
    restored.take_second_expert(second);
}

/// Node from which a node gets its model.
fn model_of<'a>(walk: &GraphWalk<'a>, node: &'a ComfyNode) -> Option<&'a ComfyNode> {
    let named = ["model", "MODEL", "unet"].into_iter();
    let named = named.filter(|name| node.link(name).is_some());
    let named = named.map(|name| (name, &node.inputs[name]));
    let source = match named.chain(walk.links_of(node, LinkKind::Model)).next() {
        Some((name, input)) => walk.follow(input, name),
        None => walk.source(node, "model"),
    };
    let source = source?.node();
    source.filter(|source| !std::ptr::eq(*source, node))
}

/// Reads the model's name, and what changes the model on the way: LoRAs and the shift.
fn read_model<'a>(
    walk: &GraphWalk<'a>,
    sampler: &'a ComfyNode,
    next: Option<&'a ComfyNode>,
    restored: &mut ForeignSettings,
) {
    let mut next = next;
    let mut chain = vec![sampler];
    while let Some(node) = next.filter(|_| chain.len() < MAX_CHAIN) {
        chain.push(node);
        // It is not known which model such a switch chooses.
        next = model_of(walk, node).filter(|_| !node.is_switch());
    }
    // Nearest the loader first, as they are applied.
    let mut loras = NodeLoras::default();
    for node in chain.iter().rev() {
        walk.read_loras(node, &mut loras);
    }
    for lora in loras.found {
        restored.add_lora(lora);
    }
    restored.add_notes(loras.notes);
    let loader = chain[chain.len() - 1];
    for node in &chain[1..] {
        if restored.shift.is_none() {
            restored.shift = if node.has("base_shift") && node.has("width") {
                shift_by_size(walk, node, restored)
            } else {
                number_or_note(walk, node, "shift", "shift", restored)
            };
        }
        let others = walk.links_of(node, LinkKind::Model).into_iter().skip(1);
        for (name, input) in others.filter(|_| !node.is_switch()) {
            let other = walk.follow(input, name).and_then(InputSource::node);
            let other = other.and_then(|other| walk.name(other, MODEL_NAMES));
            let other =
                other.map_or_else(String::new, |it| format!(", {},", short(file_name(&it))));
            restored.note(format!(
                "The model was joined with another one{other} by {node}: only the first is used"
            ));
        }
    }
    match walk
        .name(loader, MODEL_NAMES)
        .or_else(|| weight_file(walk, loader))
    {
        Some(name) if !name.trim().is_empty() => {
            restored.model = Some(file_name(&name).to_owned());
        }
        _ => {
            let found = walk.broadcasters.first().copied();
            let found = found.or_else(|| Some(loader).filter(|_| chain.len() > 1));
            found.inspect(|node| walk.name_node(node));
            restored.note(found.map_or_else(
                || format!("The model could not be read: {sampler} has none. Choose a model"),
                |node| format!("The model could not be read: {node} loads it. Choose a model"),
            ));
        }
    }
}

/// Shift of a node that makes it from the size, as in diffusers' dynamic shifting: linear in the logarithm, from 256
/// tokens of 16 × 16 pixels to 4096.
fn shift_by_size<'a>(
    walk: &GraphWalk<'a>,
    node: &'a ComfyNode,
    restored: &mut ForeignSettings,
) -> Option<f64> {
    let size = ["width", "height"].map(|name| walk.count(node, name));
    let mut read = |name| number_or_note(walk, node, name, "shift", restored).unwrap_or(f64::NAN);
    let share = (read("width") * read("height") / 256.0 - 256.0) / (4096.0 - 256.0);
    let (least, most) = (read("base_shift"), read("max_shift"));
    let is_own = (least, most) == (0.5, 1.15) && size == [restored.width, restored.height];
    if is_own && restored.distilled_guidance.is_some() {
        // Models with an embedded guidance do it themselves.
        return None;
    }
    let shift = (least + (most - least) * share).exp();
    Some((shift * 1e4).round() / 1e4).filter(|shift| shift.is_finite())
}

/// Name of a transformer's file in a loader whose inputs have other names.
fn weight_file(walk: &GraphWalk<'_>, loader: &ComfyNode) -> Option<String> {
    loader.inputs.iter().find_map(|(name, input)| match input {
        NodeInput::Value(Value::String(file)) => {
            let is_other = has_word(name, "vae clip lora encoder control");
            let is_file = has_word(file, ".safetensors .gguf .sft .ckpt");
            (is_file && !is_other).then(|| {
                walk.use_input(input);
                file.clone()
            })
        }
        _ => None,
    })
}
