//! Settings of a graph: from the sampler that made the result back to noise, prompts, model and size.

use std::path::Path;

use serde_json::Value;

use super::controls::{loaded_file, note_control_videos, read_controls};
use super::loras::NodeLoras;
use super::passes::{self, Pass, denoise, parts, read_refinement, starts_within, takes_image};
use super::walk::{LinkKind, Source, Walk, is_sampler};
use super::{Graph, Input, Node, has_word};
use crate::media::has_clip_name;
use crate::restore::{Restored, fields, file_name, names, short};

/// Nodes of one chain, such as LoRAs after each other.
const MAX_CHAIN: usize = 200;
const MODEL_NAMES: [&str; 6] = [
    "unet_name",
    "ckpt_name",
    "model_name",
    "gguf_name",
    "model_path",
    "model",
];
/// Nodes on the way of a model that change its result by nothing but rounding, or whose settings are read.
const IDLE_MODEL_NODES: &str = "lora load modelsampling sage compile blockswap torch accumulation reroute controlnet wildcard prompt";

pub(super) fn read(graph: &Graph) -> Option<Restored> {
    let walk = Walk::of(graph);
    let chain = passes::chain(&walk)?;
    let mut restored = Restored::of("ComfyUI");
    let (first, later) = chain.passes.split_first()?;
    read_first(&walk, first.sampler, &mut restored);
    for pass in later {
        read_later(&walk, first.sampler, pass, &mut restored);
    }
    if let Some(source) = chain.source {
        let node = source.described();
        restored.note_picture(format!(
            "It was made from a result of the same graph ({node}), which is not in the file: add it separately"
        ));
    }
    if chain.is_one_of_several {
        let node = first.sampler.described();
        restored.note(format!(
            "The graph saves several results: the settings are those of {node}"
        ));
    }
    for node in chain.after {
        if node.is_called("upscale interpol vfi facerestore") {
            let node = node.described();
            restored.note(format!(
                "The finished result was changed by {node}, which is not repeated: upscale it or interpolate its frames afterwards"
            ));
        }
    }
    read_rate(&walk, &mut restored);
    read_controls(&walk, &mut restored);
    note_control_videos(&walk, &mut restored);
    if walk.is_exhausted() {
        restored.note("The graph is too large or its links go in circles: not all of it was read");
    }
    Some(restored)
}

/// Reads the first pass. An upscaler or detailer of a loaded image tells nothing of how that image was made but words
/// and model.
fn read_first<'a>(walk: &Walk<'a>, sampler: &'a Node, restored: &mut Restored) {
    let is_detailer = takes_image(walk, sampler) && sampler.is_called("upscale detail");
    if !is_detailer {
        read_sampler(walk, sampler, restored);
        if let Some(script) = walk.linked(sampler, "script") {
            read_script(walk, script, restored);
        }
        return;
    }
    let mut own = Restored::default();
    read_sampler(walk, sampler, &mut own);
    restored.model = own.model;
    restored.loras = own.loras;
    restored.prompt = own.prompt;
    restored.negative_prompt = own.negative_prompt;
    restored.unread_prompt = own.unread_prompt;
    restored.notes = own.notes;
    let node = sampler.described();
    restored.note_picture(format!(
        "A finished image was upscaled or detailed by {node}, whose seed, steps and strength are not used: the image is not in the file"
    ));
}

/// Reads a node with which a sampler of a loader pack runs again.
fn read_script<'a>(walk: &Walk<'a>, script: &'a Node, restored: &mut Restored) {
    let node = script.described();
    let scale = walk.number(script, &["upscale_by"]);
    match (scale, walk.number(script, &["denoise"])) {
        (Some(_), Some(strength)) => {
            let steps = walk.count(script, &["hires_steps"]);
            let steps = steps.map_or_else(String::new, |steps| format!("{steps} steps"));
            restored.add_second_pass(scale, strength, &node, &steps);
        }
        _ => restored.note(format!("A script of the sampler is not used: {node}")),
    }
}

fn read_sampler<'a>(walk: &Walk<'a>, sampler: &'a Node, restored: &mut Restored) {
    let parts = parts(walk, sampler);
    let number = |names: &[&str]| parts.iter().find_map(|part| walk.number(part, names));

    let names = ["seed", "noise_seed"];
    let mut seeds = parts.iter().filter_map(|part| walk.value(part, &names));
    let first_seed = seeds.next();
    let usable = first_seed
        .iter()
        .cloned()
        .chain(seeds)
        .find(|it| fields::seed(it).is_some());
    if let Some(seed) = usable.or(first_seed) {
        restored.take_seed(&seed);
    }
    restored.num_steps = parts.iter().find_map(|part| walk.count(part, &["steps"]));
    restored.cfg_scale = number(&["cfg", "cfg_conds"]);
    restored.shift = number(&["shift", "sigma_shift"]);
    restored.distilled_guidance = number(&["guidance_scale", "guidance"]);
    restored.secs = number(&["total_second_length"]);
    read_names(walk, &parts, sampler, restored);
    for (what, is_read, names) in [
        ("seed", restored.seed.is_some(), &["seed", "noise_seed"][..]),
        ("number of steps", restored.num_steps.is_some(), &["steps"]),
        ("guidance", restored.cfg_scale.is_some(), &["cfg"]),
    ] {
        let mut sources = parts
            .iter()
            .flat_map(|part| names.iter().map(|name| walk.linked(part, name)));
        if !is_read && let Some(Some(node)) = sources.find(Option::is_some) {
            let node = node.described();
            let instead = if what == "seed" {
                "The form keeps its own"
            } else {
                "The model's own is used"
            };
            restored.note(format!(
                "The {what} could not be read: {node} makes it. {instead}"
            ));
        }
    }

    let guider = walk.linked(sampler, "guider");
    let guided = guider.filter(|guider| guider.has("model") || guider.has("conditioning"));
    let guided = guided.unwrap_or(sampler);
    // Latents first: a text encoder may be given another size.
    let latents = read_latents(walk, sampler, restored);
    read_prompts(walk, guided, restored);
    read_models(walk, guided, restored);
    if let Some(node) = latents.filter(|node| restored.width.is_none() && !takes_image(walk, node))
    {
        let node = node.described();
        restored.note(format!(
            "The size could not be read: {node} makes it. The model's own is used"
        ));
    }
    restored.strength = denoise(walk, sampler).filter(|strength| *strength < 1.0);
}

fn read_names<'a>(walk: &Walk<'a>, parts: &[&'a Node], sampler: &'a Node, restored: &mut Restored) {
    let name = |wanted: &[&str]| parts.iter().find_map(|part| walk.name(part, wanted));
    if sampler.class.starts_with("WanVideo") {
        // Its one name is of both.
        if let Some(name) = name(&["scheduler"]) {
            restored.take_sampler(&name);
        }
        return;
    }
    if let Some(name) = name(&["sampler_name", "sampler"]) {
        restored.take_sampler(names::comfy_sampler(&name));
    }
    if let Some(name) = name(&["scheduler"]) {
        restored.take_schedule(&name);
    }
}

/// Reads the model; of samplers with two experts both, with a guidance for each.
fn read_models<'a>(walk: &Walk<'a>, sampler: &'a Node, restored: &mut Restored) {
    let of_expert = |what: &str, expert: &str| {
        let mut names = sampler.inputs.keys().map(String::as_str);
        names.find(|name| name.contains(what) && name.contains(expert))
    };
    let model = |name: &str| {
        let source = sampler
            .inputs
            .get(name)
            .and_then(|input| walk.follow(input, name));
        source.and_then(Source::node)
    };
    let high = of_expert("model", "high").and_then(model);
    let low = of_expert("model", "low").and_then(model);
    let Some((high, low)) = high.zip(low) else {
        let next = model_of(walk, sampler);
        read_model(walk, sampler, next, restored);
        return;
    };
    let cfg = |expert| of_expert("cfg", expert).and_then(|name| walk.number(sampler, &[name]));
    restored.cfg_scale = cfg("high").or(restored.cfg_scale);
    read_model(walk, sampler, Some(high), restored);
    let mut second = Restored {
        cfg_scale: cfg("low").or(restored.cfg_scale),
        ..Restored::default()
    };
    read_model(walk, sampler, Some(low), &mut second);
    restored.take_second_expert(second);
}

/// Node from which a node gets its model.
fn model_of<'a>(walk: &Walk<'a>, node: &'a Node) -> Option<&'a Node> {
    let named = ["model", "MODEL", "unet"]
        .iter()
        .find(|name| node.link(name).is_some());
    let input = match named {
        Some(name) => Some((*name, &node.inputs[*name])),
        None => walk.links_of(node, LinkKind::Model).first().copied(),
    };
    let source = match input {
        Some((name, input)) => walk.follow(input, name),
        None => walk.source(node, &["model"]).filter(|source| {
            source
                .node()
                .is_some_and(|source| !std::ptr::eq(source, node))
        }),
    };
    source?.node()
}

/// Reads the model's name, and what changes the model on the way: LoRAs and the shift.
fn read_model<'a>(
    walk: &Walk<'a>,
    sampler: &'a Node,
    next: Option<&'a Node>,
    restored: &mut Restored,
) {
    let mut next = next;
    let mut chain = vec![sampler];
    while let Some(node) = next.filter(|_| chain.len() < MAX_CHAIN) {
        chain.push(node);
        next = model_of(walk, node);
    }
    let mut unread = Vec::new();
    // Nearest the loader first, as they are applied.
    let mut loras = NodeLoras::default();
    for node in chain.iter().rev() {
        walk.read_loras(node, &mut loras);
    }
    for lora in loras.found {
        restored.add_lora(lora);
    }
    for node in loras.unread {
        let node = node.described();
        restored.note(format!(
            "The {node} sets a LoRA in a way that Safelight does not read as a whole: check its name and strength"
        ));
    }
    let loader = chain[chain.len() - 1];
    for node in &chain[1..] {
        if restored.shift.is_none() {
            restored.shift = walk.number(node, &["shift"]);
        }
        let is_idle =
            std::ptr::eq(*node, loader) || node.is_called(IDLE_MODEL_NODES) || is_sampler(node);
        if !is_idle {
            unread.push(node.described());
        }
    }
    match walk
        .name(loader, &MODEL_NAMES)
        .or_else(|| weight_file(loader))
    {
        Some(name) if !name.trim().is_empty() => {
            restored.model = Some(file_name(&name).to_owned());
        }
        _ if chain.len() > 1 => {
            let node = loader.described();
            restored.note(format!("The model could not be read: {node} loads it"));
        }
        _ => {}
    }
    if !unread.is_empty() {
        let nodes = unread.join(", ");
        restored.note(format!("Changes of the model that are not used: {nodes}"));
    }
}

/// Name of a transformer's file in a loader whose inputs have other names.
fn weight_file(loader: &Node) -> Option<String> {
    loader.inputs.iter().find_map(|(name, input)| match input {
        Input::Value(Value::String(file)) => {
            let is_other = has_word(name, "vae clip lora encoder control");
            let is_file = has_word(file, ".safetensors .gguf .sft .ckpt");
            (is_file && !is_other).then(|| file.clone())
        }
        _ => None,
    })
}

fn read_prompts<'a>(walk: &Walk<'a>, guided: &'a Node, restored: &mut Restored) {
    // No slot of the sampler itself is meant.
    let source = Some(Source::Node(guided, u64::MAX));
    let positive = walk.read_prompt(source, "positive", restored);
    let (mut references, mut prompts) = (Vec::new(), Vec::new());
    for node in &positive.visited {
        if restored.distilled_guidance.is_none() {
            restored.distilled_guidance = walk.number(node, &["guidance"]);
        }
        // The first of a chain is the farthest from the sampler.
        references.splice(0..0, references_of(walk, node));
        prompts.splice(0..0, prompt_picture_of(walk, node));
        read_size(walk, node, restored);
    }
    if restored.prompt.is_some() {
        note_references(&references, restored);
        note_prompt_pictures(&prompts, restored);
    }
    let mut names = guided.inputs.keys();
    let has_embeds = guided.has("text_embeds");
    let has_pipe = !walk.links_of(guided, LinkKind::Pipe).is_empty();
    if names.any(|name| name.contains("neg")) || has_embeds || has_pipe {
        let negative = walk.read_prompt(source, "negative", restored);
        for node in negative.visited {
            read_size(walk, node, restored);
        }
        // An encoder of one text gives the positive prompt alone.
        if has_embeds && restored.negative_prompt == restored.prompt {
            restored.negative_prompt = None;
        }
    }
}

/// Files of the images that a node shows the model, in order.
fn references_of<'a>(walk: &Walk<'a>, node: &'a Node) -> Vec<String> {
    let names: &[&str] = if node.class.contains("ReferenceLatent") {
        &["latent"]
    } else if node.class.contains("TextEncodeQwenImageEdit") {
        &["image", "image1", "image2", "image3"]
    } else {
        &[]
    };
    let files = names
        .iter()
        .filter_map(|name| loaded_file(walk, node, name));
    files.collect()
}

/// File of an image that a node makes a part of the prompt, with its strength.
fn prompt_picture_of<'a>(walk: &Walk<'a>, node: &'a Node) -> Option<String> {
    if !node.class.contains("StyleModelApply") {
        return None;
    }
    let file = loaded_file(walk, node, "clip_vision_output")?;
    let strength = walk.number(node, &["strength"]).unwrap_or(1.0);
    Some(format!("{file} ({strength})"))
}

fn note_prompt_pictures(files: &[String], restored: &mut Restored) {
    if !files.is_empty() {
        restored.note_picture(format!(
            "Its pictures as prompts, with their strengths, are not in the file: add them separately: {}",
            files.join(", ")
        ));
    }
}

fn note_references(files: &[String], restored: &mut Restored) {
    let note = match files {
        [] => return,
        [file] => format!("Its reference picture, {file}, is not in the file: add it separately"),
        files => format!(
            "Its reference pictures, {}, are not in the file: add them separately",
            files.join(", ")
        ),
    };
    restored.note_picture(note);
}

/// Reads the size and length of a node, and names the image that it starts from.
fn read_size<'a>(walk: &Walk<'a>, node: &'a Node, restored: &mut Restored) {
    restored.take_size(walk.size(node));
    if restored.num_frames.is_none() {
        restored.num_frames = walk.count(node, &["length", "num_frames"]);
    }
    let is_control = node.is_called("controlnet");
    let pictures = ["start_image", "image", "pixels", "end_image", "reference"];
    for name in pictures.into_iter().filter(|_| !is_control) {
        let Some(source) = walk.linked(node, name) else {
            continue;
        };
        if let Some(image) = walk.name(source, &["image"]) {
            let image = short(file_name(&image));
            let which = match name {
                "end_image" => "end picture",
                _ if has_clip_name(Path::new(&image)) => "clip",
                _ => "start picture",
            };
            restored.note_picture(format!(
                "Its {which}, {image}, is not in the file: add it separately"
            ));
        }
    }
}

/// Reads the size from the sampler's latents; returns the node where they begin.
fn read_latents<'a>(
    walk: &Walk<'a>,
    sampler: &'a Node,
    restored: &mut Restored,
) -> Option<&'a Node> {
    let mut last = None;
    let mut node = sampler;
    for _ in 0..MAX_CHAIN {
        let next = match walk.links_of(node, LinkKind::Latent).first() {
            Some((name, input)) => walk.follow(input, name),
            None => walk.source(node, &["latent_image", "samples", "latent"]),
        };
        let Some(next) = next.and_then(Source::node).filter(|next| !is_sampler(next)) else {
            break;
        };
        last = Some(next);
        node = next;
        read_size(walk, node, restored);
    }
    last
}

/// Reads a pass after the first: the other of two experts, or a refinement of the result.
fn read_later<'a>(walk: &Walk<'a>, first: &'a Node, pass: &Pass<'a>, restored: &mut Restored) {
    let mut own = Restored::default();
    read_sampler(walk, pass.sampler, &mut own);
    let is_scaled = pass.before.iter().any(|node| node.is_called("scale"));
    let is_split =
        starts_within(walk, pass.sampler) || (first.has("sigmas") && own.model != restored.model);
    if is_split && !takes_image(walk, pass.sampler) && !is_scaled {
        restored.take_second_expert(own);
    } else {
        read_refinement(walk, pass, &own, restored);
    }
}

fn read_rate(walk: &Walk<'_>, restored: &mut Restored) {
    let names = ["fps", "frame_rate"];
    let nodes = walk.graph.nodes.values();
    let writers = nodes.filter(|node| node.runs() && names.iter().any(|name| node.has(name)));
    let mut rates = writers.filter_map(|node| walk.number(node, &names));
    restored.fps = rates.find(|rate| *rate >= 1.0);
}
