//! What a graph says of how its result was made: from its sampler back to noise, words, model and size.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use super::walk::Walk;
use super::{Graph, Id, Node};
use crate::media::has_clip_name;
use crate::restore::{MAX_LORAS, Restored, RestoredLora, fields, file_name, names, short};

/// Nodes of one chain, such as LoRAs behind each other.
const MAX_CHAIN: usize = 200;
/// The names of a link to the latents that a sampler goes on from.
const LATENTS: [&str; 4] = ["latent_image", "samples", "latent", "image_embeds"];

pub(super) fn read(graph: &Graph) -> Option<Restored> {
    let walk = Walk::of(graph);
    let passes = passes(&walk)?;
    let (first, last) = (passes.first()?, passes.last()?);
    let mut restored = Restored::of("ComfyUI");
    read_sampler(&walk, first.1, &mut restored);
    if passes.len() > 1 {
        read_second(&walk, first.1, last.1, &mut restored);
    }
    read_rate(&walk, &mut restored);
    note_controls(&walk, &mut restored);
    note_control_clips(&walk, &mut restored);
    Some(restored)
}

fn is_sampler(node: &Node) -> bool {
    let has_noise = ["seed", "noise_seed", "noise"]
        .iter()
        .any(|name| node.has(name));
    let has_steps = ["steps", "sigmas"].iter().any(|name| node.has(name));
    !node.is_bypassed && has_noise && has_steps
}

/// The samplers of the result, the first pass first: from what is written, or all of them, back along the latents.
fn passes<'a>(walk: &Walk<'a>) -> Option<Vec<(&'a Id, &'a Node)>> {
    let nodes = &walk.graph.nodes;
    let ends = nodes.iter().filter(|(_, node)| {
        let class = node.class.to_lowercase();
        let writes = ["save", "preview", "combine"]
            .iter()
            .any(|word| class.contains(word));
        writes && !node.is_bypassed
    });
    let found = nearest_sampler(walk, ends.map(|(id, _)| id));
    let mut at = found.or_else(|| nodes.iter().rev().find(|(_, node)| is_sampler(node)))?;
    let mut passes = vec![at];
    let mut seen = BTreeSet::from([at.0]);
    while passes.len() < 16 {
        let behind = LATENTS.iter().find_map(|name| at.1.link(name));
        let before = behind.and_then(|(id, _)| nearest_sampler(walk, std::iter::once(id)));
        match before {
            Some(before) if seen.insert(before.0) => {
                passes.insert(0, before);
                at = before;
            }
            _ => break,
        }
    }
    Some(passes)
}

/// The first sampler that is met against the links.
fn nearest_sampler<'a>(
    walk: &Walk<'a>,
    from: impl Iterator<Item = &'a Id>,
) -> Option<(&'a Id, &'a Node)> {
    let mut waiting: VecDeque<&Id> = from.collect();
    let mut seen: BTreeSet<&Id> = waiting.iter().copied().collect();
    while let Some(id) = waiting.pop_front() {
        if !walk.may_go_on() {
            break;
        }
        let Some((id, node)) = walk.graph.nodes.get_key_value(id) else {
            continue;
        };
        if is_sampler(node) {
            return Some((id, node));
        }
        for (next, _) in node.links() {
            if seen.insert(next) {
                waiting.push_back(next);
            }
        }
    }
    None
}

fn read_sampler<'a>(walk: &Walk<'a>, sampler: &'a Node, restored: &mut Restored) {
    // The parts of a sampler may be nodes of their own.
    let noise = walk.linked(sampler, "noise");
    let guider = walk.linked(sampler, "guider");
    let select = walk.linked(sampler, "sampler");
    let sigmas = scheduler(walk, sampler);
    let parts = [Some(sampler), noise, guider, select, sigmas];
    let parts = || parts.into_iter().flatten();

    let names = ["seed", "noise_seed"];
    let usable = parts().find_map(|part| {
        walk.value(part, &names)
            .filter(|it| fields::seed(it).is_some())
    });
    if let Some(seed) = usable.or_else(|| parts().find_map(|part| walk.value(part, &names))) {
        restored.take_seed(&seed);
    }
    restored.num_steps = parts().find_map(|part| walk.count(part, &["steps"]));
    restored.cfg_scale = parts().find_map(|part| walk.number(part, &["cfg", "cfg_conds"]));
    restored.shift = parts().find_map(|part| walk.number(part, &["shift"]));
    restored.distilled_guidance =
        parts().find_map(|part| walk.number(part, &["guidance_scale", "guidance"]));
    restored.secs = parts().find_map(|part| walk.number(part, &["total_second_length"]));
    read_names(walk, &parts().collect::<Vec<_>>(), sampler, restored);

    let guided = guider.filter(|guider| guider.has("model") || guider.has("conditioning"));
    let guided = guided.unwrap_or(sampler);
    read_model(walk, guided, restored);
    read_words(walk, guided, restored);
    read_latents(walk, sampler, restored);
    let strength = parts().find_map(|part| walk.number(part, &["denoise", "denoise_strength"]));
    restored.strength = strength.filter(|strength| *strength < 1.0);
}

fn read_names<'a>(walk: &Walk<'a>, parts: &[&'a Node], sampler: &'a Node, restored: &mut Restored) {
    let name = |wanted: &[&str]| parts.iter().find_map(|part| walk.text(part, wanted));
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

/// The node that has the steps of a sampler's sigmas, behind those that cut them.
fn scheduler<'a>(walk: &Walk<'a>, sampler: &'a Node) -> Option<&'a Node> {
    let mut node = walk.linked(sampler, "sigmas")?;
    for _ in 0..MAX_CHAIN {
        match walk.linked(node, "sigmas") {
            Some(next) if !node.has("steps") => node = next,
            _ => break,
        }
    }
    Some(node)
}

/// The model that goes into a node, and what changes it on the way: LoRAs and the shift.
fn read_model<'a>(walk: &Walk<'a>, node: &'a Node, restored: &mut Restored) {
    let mut at = node;
    let mut loras = Vec::new();
    for _ in 0..MAX_CHAIN {
        let link = ["model", "MODEL", "unet"]
            .iter()
            .find_map(|name| walk.linked(at, name));
        let Some(next) = link else {
            break;
        };
        at = next;
        loras_of(walk, at, &mut loras);
        if restored.shift.is_none() {
            restored.shift = walk.number(at, &["shift"]);
        }
    }
    const MODELS: [&str; 6] = [
        "unet_name",
        "ckpt_name",
        "model_name",
        "gguf_name",
        "model_path",
        "model",
    ];
    let name = walk.text(at, &MODELS).filter(|name| !name.is_empty());
    restored.model = name.map(|name| file_name(&name).to_owned());
    // Nearest to the sampler was read first, and is applied last.
    for lora in loras.into_iter().rev() {
        restored.add_lora(lora);
    }
}

fn loras_of<'a>(walk: &Walk<'a>, node: &'a Node, loras: &mut Vec<RestoredLora>) {
    if loras.len() >= MAX_LORAS {
        return;
    }
    if let Some(name) = walk.text(node, &["lora_name"]) {
        let strength = walk.number(node, &["strength_model", "strength"]);
        loras.push(RestoredLora::new(&name, strength.unwrap_or(1.0)));
    }
    // Many in one node, an object each.
    for (name, input) in &node.inputs {
        if loras.len() >= MAX_LORAS {
            return;
        }
        if let super::Input::Value(value) = input
            && name.starts_with("lora_")
            && let Some(lora) = fields::Fields::of(value)
            && lora.is_on("on")
            && let Some(name) = lora.name(&["lora"])
        {
            let strength = lora.number(&["strength"]).unwrap_or(1.0);
            loras.push(RestoredLora::new(&name, strength));
        }
    }
    // A chain of its own beside the model.
    let mut chain = walk.linked(node, "lora");
    for _ in 0..MAX_LORAS {
        let Some(link) = chain.filter(|_| loras.len() < MAX_LORAS) else {
            break;
        };
        if let Some(name) = walk.text(link, &["lora", "lora_0", "lora_name"]) {
            let strength = walk.number(link, &["strength", "strength_0"]);
            loras.push(RestoredLora::new(&name, strength.unwrap_or(1.0)));
        }
        chain = walk.linked(link, "prev_lora");
    }
}

/// The prompts, the guidance among them, and a size that stands on their way.
fn read_words<'a>(walk: &Walk<'a>, guided: &'a Node, restored: &mut Restored) {
    if let Some(words) = walk.linked(guided, "text_embeds") {
        restored.prompt = walk.text(words, &["positive_prompt"]);
        restored.negative_prompt = walk.text(words, &["negative_prompt"]);
    }
    let positive = guided
        .link("positive")
        .or_else(|| guided.link("conditioning"));
    if let Some((id, slot)) = positive {
        let prompt = words(walk, id, slot, true, restored);
        restored.prompt = prompt.or_else(|| restored.prompt.take());
    }
    if let Some((id, slot)) = guided.link("negative") {
        let negative = words(walk, id, slot, false, restored);
        restored.negative_prompt = negative.or_else(|| restored.negative_prompt.take());
    }
}

/// The text behind a conditioning.
fn words<'a>(
    walk: &Walk<'a>,
    id: &'a Id,
    slot: u64,
    is_positive: bool,
    restored: &mut Restored,
) -> Option<String> {
    let (mut id, mut slot) = (id, slot);
    let mut references = Vec::new();
    let mut prompts = Vec::new();
    for _ in 0..MAX_CHAIN {
        let Some((node, from_slot)) = walk.node(id, slot) else {
            break;
        };
        if is_positive && restored.distilled_guidance.is_none() {
            restored.distilled_guidance = walk.number(node, &["guidance"]);
        }
        // The first of a chain lies deepest.
        references.splice(0..0, references_of(walk, node));
        prompts.splice(0..0, prompt_picture_of(walk, node));
        read_size(walk, node, restored);
        if node.class.contains("ZeroOut") {
            return Some(String::new());
        }
        let text = walk.text(node, &["text", "t5xxl", "prompt", "clip_l", "text_g"]);
        if text.is_some() {
            if is_positive {
                note_references(&references, restored);
                note_prompt_pictures(&prompts, restored);
            }
            return text;
        }
        let pair = if from_slot == 1 {
            "negative"
        } else {
            "positive"
        };
        let next = [pair, "conditioning", "conditioning_1", "positive"]
            .iter()
            .find_map(|name| node.link(name));
        let Some(next) = next else {
            break;
        };
        (id, slot) = next;
    }
    None
}

/// The files of the pictures that a node gives the model to look at, in their order.
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

/// The file of the picture that a node makes a part of the prompt, with its strength.
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

/// The file behind what a node is given: a picture, scaled or in latents.
fn loaded_file<'a>(walk: &Walk<'a>, node: &'a Node, name: &str) -> Option<String> {
    let mut source = walk.linked(node, name)?;
    for _ in 0..MAX_CHAIN {
        if let Some(file) = walk.text(source, &["image", "video", "file"]) {
            return Some(short(file_name(&file)));
        }
        let inputs = ["pixels", "image", "samples", "latent", "video", "mask"];
        source = inputs.iter().find_map(|name| walk.linked(source, name))?;
    }
    None
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

/// What brought control pictures in: neither those nor the networks are in the file.
fn note_controls(walk: &Walk<'_>, restored: &mut Restored) {
    let nodes = walk.graph.nodes.values().filter(|node| !node.is_bypassed);
    let appliers: Vec<&Node> = nodes
        .filter(|node| {
            let class = node.class.to_lowercase();
            // ControlNetApplyAdvanced, ControlNetApplySD3, QwenImageDiffsynthControlnet, ...
            class.contains("controlnet") && node.link("image").is_some()
        })
        .collect();
    for node in appliers {
        let network = ["control_net", "model_patch"].iter().find_map(|name| {
            let mut loader = walk.linked(node, name)?;
            for _ in 0..MAX_CHAIN {
                let names = ["control_net_name", "name", "model_name"];
                if let Some(name) = walk.text(loader, &names) {
                    return Some(short(file_name(&name)));
                }
                loader = walk.linked(loader, "control_net")?;
            }
            None
        });
        let file = loaded_file(walk, node, "image");
        let strength = walk.number(node, &["strength"]).unwrap_or(1.0);
        let from = walk.number(node, &["start_percent"]).unwrap_or(0.0);
        let until = walk.number(node, &["end_percent"]).unwrap_or(1.0);
        let network = network.map_or_else(String::new, |name| format!(" {name}"));
        let file = file.map_or_else(String::new, |name| format!(", {name},"));
        restored.note_picture(format!(
            "It was made with the ControlNet{network} at strength {strength} in the steps {from} to {until}: its control picture{file} is not in the file, add it separately"
        ));
    }
}

/// What a model with layers for a control clip was shown, of which nothing is in the file.
fn note_control_clips(walk: &Walk<'_>, restored: &mut Restored) {
    let nodes = walk.graph.nodes.values().filter(|node| !node.is_bypassed);
    for node in nodes.filter(|node| node.class == "WanVaceToVideo") {
        let strength = walk.number(node, &["strength"]).unwrap_or(1.0);
        for (name, what) in [
            ("control_video", "control clip"),
            ("control_masks", "mask of the control clip"),
            ("reference_image", "reference picture"),
        ] {
            if node.link(name).is_none() {
                continue;
            }
            let file = loaded_file(walk, node, name);
            let file = file.map_or_else(String::new, |name| format!(", {name},"));
            let heard = match name {
                "control_video" => format!(" at strength {strength}"),
                _ => String::new(),
            };
            restored.note_picture(format!(
                "Its {what}{heard}{file} is not in the file: add it separately"
            ));
        }
    }
}

/// The size and length where a node has them; the start picture that it is given.
fn read_size<'a>(walk: &Walk<'a>, node: &'a Node, restored: &mut Restored) {
    let (width, height) = (
        walk.count(node, &["width", "generation_width"]),
        walk.count(node, &["height", "generation_height"]),
    );
    restored.take_size(width.zip(height));
    if restored.num_frames.is_none() {
        restored.num_frames = walk.count(node, &["length", "num_frames"]);
    }
    let is_control = node.class.to_lowercase().contains("controlnet");
    let pictures = ["start_image", "image", "pixels", "end_image", "reference"];
    for name in pictures.into_iter().filter(|_| !is_control) {
        let Some(source) = walk.linked(node, name) else {
            continue;
        };
        if let Some(image) = walk.text(source, &["image"]) {
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

fn read_latents<'a>(walk: &Walk<'a>, sampler: &'a Node, restored: &mut Restored) {
    let mut node = sampler;
    for _ in 0..MAX_CHAIN {
        let next = LATENTS.iter().find_map(|name| walk.linked(node, name));
        let Some(next) = next else {
            break;
        };
        if is_sampler(next) {
            break;
        }
        node = next;
        read_size(walk, node, restored);
    }
}

/// A second pass: the other of two experts, or a refinement that is not made here.
fn read_second<'a>(walk: &Walk<'a>, first: &'a Node, last: &'a Node, restored: &mut Restored) {
    let mut second = Restored::default();
    read_sampler(walk, last, &mut second);
    let starts_within = walk.number(last, &["start_at_step", "start_step"]);
    let is_split = starts_within.is_some_and(|start| start > 0.0)
        || (first.has("sigmas") && second.model != restored.model);
    if !is_split {
        restored.note("It was refined in a second pass, which Safelight does not run");
        return;
    }
    restored.cfg_scale_2 = second.cfg_scale;
    if second.model == restored.model {
        return;
    }
    restored.model_2 = second.model;
    for lora in &mut restored.loras {
        lora.strength_2 = Some(0.0);
    }
    for lora in second.loras {
        let same = restored
            .loras
            .iter_mut()
            .find(|known| known.name == lora.name);
        match same {
            Some(known) => known.strength_2 = Some(lora.strength),
            None => restored.add_lora(RestoredLora {
                strength: 0.0,
                strength_2: Some(lora.strength),
                ..lora
            }),
        }
    }
}

fn read_rate(walk: &Walk<'_>, restored: &mut Restored) {
    let writers = walk.graph.nodes.values().filter(|node| !node.is_bypassed);
    let mut rates = writers.filter_map(|node| walk.number(node, &["fps", "frame_rate"]));
    restored.fps = rates.find(|rate| *rate >= 1.0);
}
