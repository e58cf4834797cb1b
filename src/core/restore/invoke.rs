//! JSON of InvokeAI, and of its second version's images.

use super::fields::JsonFields;
use super::others::{common, take_names};
use super::{ForeignSettings, RestoredControl, short};
use crate::job::SecondPass;

/// Reads its members; `all` is the object around them.
pub(super) fn read(fields: JsonFields<'_>, all: JsonFields<'_>) -> ForeignSettings {
    let mut restored = common(fields, "InvokeAI");
    let mut notes = Vec::new();
    let model = fields.object("model");
    restored.model = model
        .and_then(|model| model.name("name, model_name, key"))
        .or_else(|| fields.name("model"))
        .or_else(|| all.name("model_weights"));
    let again = fields.count("num_steps");
    restored.num_steps = restored.num_steps.or(again);
    if let Some(image) = fields.name("init_image") {
        restored.note_file("start image", Some(&image));
    }
    restored.model_hash = model.and_then(|model| model.name("hash"));
    for control in fields.objects("controlnets") {
        let named = |object: &str, name: &str| control.object(object)?.name(name);
        let network = named("control_model", "name, model_name, key");
        let [mode, fit] = ["control_mode", "resize_mode"].map(|name| control.name(name));
        let ways = [
            ("control mode", mode.as_deref()),
            ("resize mode", fit.as_deref()),
            ("", None),
        ];
        restored.note_control_ways(network.as_deref().unwrap_or_default(), ways);
        let numbers = ["control_weight", "begin_step_percent", "end_step_percent"];
        restored.add_control(RestoredControl {
            image: named("image", "image_name"),
            ..RestoredControl::new(network, numbers.map(|name| control.number(name)))
        });
    }
    if fields.is_on("hrf_enabled") {
        let strength = fields
            .number("hrf_strength")
            .unwrap_or(SecondPass::STRENGTH);
        let method = fields.name("hrf_method").unwrap_or_default();
        let described = format!("high resolution fix {}", short(&method));
        restored.add_second_pass(None, strength, described.trim(), "");
    }
    for (prompt, style) in [
        (&mut restored.prompt, "positive_style_prompt"),
        (&mut restored.negative_prompt, "negative_style_prompt"),
    ] {
        let style = fields.name(style);
        if let Some(style) = style.filter(|style| prompt.as_ref() != Some(style)) {
            let note = format!(
                "Its style prompt, {}, is added to the prompt",
                short(&style)
            );
            notes.push(note);
            let own = prompt.take().filter(|own| !own.is_empty());
            *prompt = Some(own.map_or_else(|| style.clone(), |own| format!("{own}, {style}")));
        }
    }
    restored.add_notes(notes);
    take_names(&mut restored, fields, "scheduler, sampler", "");
    restored.take_names_of_diffusers();
    if all.has("model_weights") {
        take_bracketed(&mut restored);
    }
    restored
}

/// Moves `[words]` of a prompt of InvokeAI 2, which made the negative prompt of them.
fn take_bracketed(restored: &mut ForeignSettings) {
    let prompt = restored.prompt.take().unwrap_or_default();
    let (mut kept, mut negative) = (String::new(), Vec::new());
    let mut rest = prompt.as_str();
    while let Some((before, (inside, after))) = rest
        .split_once('[')
        .and_then(|(before, from)| Some((before, from.split_once(']')?)))
    {
        kept.push_str(before);
        negative.push(inside.trim());
        rest = after;
    }
    kept.push_str(rest);
    restored.prompt = Some(kept.trim().to_owned());
    restored.negative_prompt = Some(negative.join(" "));
}
