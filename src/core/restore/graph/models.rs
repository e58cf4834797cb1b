//! The model of a sampler, and what changes it on the way: LoRAs and the shift.

use super::link_kind::LinkKind;
use super::loras::NodeLoras;
use super::nodes::{InputSource, NodeRef, has_word};
use super::tables::MODEL_NAMES;
use super::values::number_or_note;
use crate::restore::names::{dynamic_shift, file_name};
use crate::restore::{ForeignSettings, short};

/// Reads the model; of samplers with two experts both, with a guidance for each.
pub(super) fn read_models(sampler: NodeRef<'_>, restored: &mut ForeignSettings) {
    let of_expert = |what: &str, expert: &str| {
        let mut names = sampler.node.inputs.keys();
        names.find(|name| name.contains(what) && name.contains(expert))
    };
    let model = |expert| of_expert("model", expert).and_then(|name| sampler.source(name)?.node());
    let Some((high, low)) = model("high").zip(model("low")) else {
        return read_model(sampler, model_of(sampler), restored);
    };
    let mut cfg = |expert| {
        let name = of_expert("cfg", expert)?;
        number_or_note(&[sampler], name, "guidance", restored)
    };
    let (cfg_high, cfg_low) = (cfg("high"), cfg("low"));
    restored.cfg_scale = cfg_high.or(restored.cfg_scale);
    read_model(sampler, Some(high), restored);
    let mut second = ForeignSettings {
        cfg_scale: cfg_low.or(restored.cfg_scale),
        ..ForeignSettings::default()
    };
    read_model(sampler, Some(low), &mut second);
    restored.take_second_expert(second);
}

/// Node from which a node gets its model.
fn model_of(node: NodeRef<'_>) -> Option<NodeRef<'_>> {
    let mut named = ["model", "MODEL", "unet"].into_iter();
    let named = named.find(|name| node.link(name).is_some());
    let name = named.or_else(|| node.links_of(LinkKind::Model).first().copied());
    let source = match name {
        Some(name) => node.source(name),
        None => node.source_or_piped("model"),
    };
    source.and_then(InputSource::node).filter(|it| *it != node)
}

/// Reads the model's name, and what changes the model on the way: LoRAs and the shift.
fn read_model<'g>(
    sampler: NodeRef<'g>,
    model: Option<NodeRef<'g>>,
    restored: &mut ForeignSettings,
) {
    // It is not known which model such a switch chooses.
    let before = |node: NodeRef<'g>| model_of(node).filter(|_| !node.is_switch());
    let models = model.into_iter().flat_map(|model| model.chain(before));
    let chain: Vec<_> = std::iter::once(sampler).chain(models).collect();
    // Nearest the loader first, as they are applied.
    let mut loras = NodeLoras::default();
    chain.iter().rev().for_each(|node| loras.read(*node));
    for lora in loras.found {
        restored.add_lora(lora);
    }
    restored.add_notes(loras.notes);
    for node in &chain[1..] {
        if restored.shift.is_none() {
            restored.shift = if node.has("base_shift") && node.has("width") {
                shift_by_size(*node, restored)
            } else {
                number_or_note(&[*node], "shift", "shift", restored)
            };
        }
        let others = node.links_of(LinkKind::Model).into_iter().skip(1);
        for name in others.filter(|_| !node.is_switch()) {
            let other = node.linked(name).and_then(|other| other.name(MODEL_NAMES));
            let other = other.map(|it| format!(", {},", short(file_name(&it))));
            let other = other.unwrap_or_default();
            restored.note(format!(
                "The model was joined with another one{other} by {node}: only the first is used"
            ));
        }
    }
    let loader = chain[chain.len() - 1];
    let name = loader.name(MODEL_NAMES).or_else(|| weight_file(loader));
    restored.model = name
        .filter(|name| !name.trim().is_empty())
        .map(|name| file_name(&name).to_owned());
    if restored.model.is_none() {
        let found = sampler.graph.broadcasters().next();
        let found = found.or_else(|| Some(loader).filter(|_| chain.len() > 1));
        let why = found.map_or_else(
            || format!("{sampler} has none"),
            |node| {
                node.use_all();
                format!("{node} loads it")
            },
        );
        restored.note(format!(
            "The model could not be read: {why}. Choose a model"
        ));
    }
}

/// Shift of a node that makes it from the size.
fn shift_by_size(node: NodeRef<'_>, restored: &mut ForeignSettings) -> Option<f64> {
    let size = ["width", "height"].map(|name| node.count(name));
    let names = ["width", "height", "base_shift", "max_shift"];
    let values = names.map(|name| number_or_note(&[node], name, "shift", restored));
    let [width, height, least, most] = values.map(|it| it.unwrap_or(f64::NAN));
    let is_own = (least, most) == (0.5, 1.15) && size == [restored.width, restored.height];
    if is_own && restored.distilled_guidance.is_some() {
        // Models with an embedded guidance do it themselves.
        return None;
    }
    Some(dynamic_shift(width, height, [least, most])).filter(|shift| shift.is_finite())
}

/// Name of a transformer's file in a loader whose inputs have other names.
fn weight_file(loader: NodeRef<'_>) -> Option<String> {
    let is_other = |name: &str| has_word(name, "vae clip lora encoder control");
    let is_file = |text: &str| has_word(text, ".safetensors .gguf .sft .ckpt");
    let mut texts = loader.texts();
    let (name, file) = texts.find(|(name, text)| is_file(text) && !is_other(name))?;
    loader.use_input(name);
    Some(file.to_owned())
}
