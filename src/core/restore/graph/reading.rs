//! Settings of a graph: from the sampler that made the result back to noise, prompts, model and size.

use crate::restore::names::file_name;
use serde_json::Value;

use super::broadcasts::broadcasters;
use super::conditioning::named_side;
use super::controls::read_controls;
use super::loras::NodeLoras;
use super::pass_differences::differences;
use super::passes::{
    self, DENOISE, SPLITTER, SamplerPass, adds_no_noise, denoise, parts, read_refinement,
    restores_image, starts_within, takes_image,
};
use super::sizes::number_or_note;
use super::sizes::{RESIZERS, read_latents, read_size, starts_from_noise};
use super::unused::note_unused;
use super::walk::{GraphWalk, InputSource, LinkKind, is_sampler};
use super::{ComfyGraph, ComfyNode, MAX_CHAIN, NodeInput, has_word};
use crate::job::SigmaSchedule;
use crate::restore::{ForeignSettings, fields, names, short};

/// Nodes that Safelight has as steps after a job.
const FINISHERS: &str = "upscale interpol vfi facerestore";
const MAX_BROADCASTERS: usize = 16;
const SAMPLERS: &str = "sampler_name, sampler";
const MODEL_NAMES: &str = "unet_name, ckpt_name, model_name, gguf_name, model_path, model";

pub(super) fn read(graph: &ComfyGraph) -> Option<ForeignSettings> {
    let walk = GraphWalk::new(graph);
    let chain = passes::chain(&walk)?;
    let mut restored = ForeignSettings::of("ComfyUI");
    let (first, later) = chain.passes.split_first()?;
    read_first(&walk, first.sampler, &mut restored);
    for pass in later {
        read_later(&walk, first.sampler, pass, &mut restored);
    }
    passes::note_missing_steps(&walk, &chain, &mut restored);
    if let Some(source) = chain.source {
        restored.note_input(format!(
            "It was made from a result of the same graph ({source}), which is not in the file: add it separately"
        ));
    }
    if chain.is_one_of_several {
        let node = first.sampler;
        restored.note(format!(
            "The graph saves several results: the settings are those of {node}"
        ));
    }
    let acting = later.iter();
    let acting = acting.flat_map(|pass| pass.before.iter().chain([&pass.sampler]));
    let mut acting = acting.chain(&chain.after).chain(&chain.after_others);
    restored.is_resized = acting
        .any(|node| node.is_called(RESIZERS) || (is_sampler(node) && takes_image(&walk, node)));
    for (result, nodes) in [
        ("The finished result", &chain.after),
        ("Another saved result", &chain.after_others),
    ] {
        for node in nodes.iter().filter(|node| node.is_called(FINISHERS)) {
            walk.use_node(node);
            restored.note(format!(
                "{result} was changed by {node}, which is not repeated: upscale it or interpolate its frames afterwards"
            ));
        }
    }
    for node in broadcasters(&walk).take(MAX_BROADCASTERS) {
        restored.note(format!(
            "The {node} gives values to nodes without links to them, in a way that Safelight does not read: compare the settings"
        ));
    }
    let last = later.last().unwrap_or(first).sampler;
    passes::read_rate(&walk, last, &mut restored);
    read_controls(&walk, &mut restored);
    note_unused(&walk, &chain, &mut restored);
    if walk.is_exhausted() {
        restored.note("The graph is too large or its links go in circles: not all of it was read");
    }
    Some(restored)
}

/// Reads the first pass. An upscaler or detailer of a loaded image says nothing of how that image was made but words
/// and model.
fn read_first<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode, restored: &mut ForeignSettings) {
    let is_detailer = restores_image(walk, sampler)
        || (takes_image(walk, sampler) && sampler.is_called("upscale detail"));
    if !is_detailer {
        read_sampler(walk, sampler, restored);
        if let Some(script) = walk.linked(sampler, "script") {
            read_script(walk, script, restored);
        }
        return;
    }
    let mut own = ForeignSettings::default();
    read_sampler(walk, sampler, &mut own);
    walk.use_node(sampler);
    restored.model = own.model;
    restored.loras = own.loras;
    restored.prompt = own.prompt;
    restored.negative_prompt = own.negative_prompt;
    restored.unread_prompt = own.unread_prompt;
    restored.notes = own.notes;
    restored.note_input(format!(
        "A finished image was upscaled or detailed by {sampler}, whose seed, steps and strength are not used: the image is not in the file"
    ));
}

/// Reads a node with which a sampler of a loader pack runs again.
fn read_script<'a>(walk: &GraphWalk<'a>, script: &'a ComfyNode, restored: &mut ForeignSettings) {
    let scale = walk.number(script, "upscale_by");
    if let (Some(_), Some(strength)) = (scale, walk.number(script, "denoise")) {
        walk.use_node(script);
        let steps = walk.count(script, "hires_steps");
        let all = |steps: u32| Some((f64::from(steps) / strength) as u32);
        let steps = steps.filter(|steps| all(*steps) != restored.num_steps);
        let steps = steps.map_or_else(String::new, |steps| format!("{steps} steps"));
        restored.add_second_pass(scale, strength, &script.to_string(), &steps);
    }
}

fn read_sampler<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode, restored: &mut ForeignSettings) {
    for (name, _) in sampler.links() {
        walk.use_input(&sampler.inputs[name]);
    }
    let parts = parts(walk, sampler);
    let number = |names| parts.iter().find_map(|part| walk.number(part, names));

    let seeds = "seed, noise_seed, main_seed";
    let mut seeds = parts.iter().filter_map(|part| walk.value(part, seeds));
    let first_seed = seeds.next();
    let mut all = first_seed.iter().cloned().chain(seeds);
    let usable = all.find(|it| fields::seed(it).is_some());
    let seed = usable.or(first_seed);
    let is_seed_known = seed.is_some_and(|seed| restored.take_seed(&seed));
    restored.num_steps = passes::num_steps(walk, sampler);
    restored.cfg_scale = number("cfg, cfg_conds");
    let shift = number("shift, sigma_shift");
    // 0 of a sampler leaves it to the model.
    restored.shift = shift.filter(|shift| *shift != 0.0);
    restored.distilled_guidance = number("guidance_scale, guidance");
    restored.secs = number("total_second_length");
    read_names(walk, &parts, sampler, restored);
    let has_name = |names| parts.iter().any(|part| walk.name(part, names).is_some());
    let mut own = parts.iter();
    let is_own_schedule = own.any(|part| part.is_called("flux2scheduler ltxvscheduler"));
    for (what, is_read, names) in [
        ("seed", is_seed_known, "seed, noise_seed, main_seed"),
        (
            "number of steps",
            restored.num_steps.is_some(),
            "steps, sigmas",
        ),
        ("guidance", restored.cfg_scale.is_some(), "cfg"),
        (
            "guidance",
            restored.distilled_guidance.is_some(),
            "guidance_scale, guidance",
        ),
        ("shift", shift.is_some(), "shift, sigma_shift"),
        ("denoising strength", number(DENOISE).is_some(), DENOISE),
        ("sampler", has_name(SAMPLERS), SAMPLERS),
        (
            "schedule",
            has_name("scheduler") || is_own_schedule || restored.sigma_schedule.is_some(),
            "scheduler, sigmas",
        ),
    ] {
        let linked = |name| parts.iter().find_map(|part| walk.linked(part, name));
        let node = names.split(", ").find_map(linked);
        let value = || parts.iter().find_map(|part| walk.value(part, names));
        let why = match node {
            _ if is_read => continue,
            Some(node) => {
                walk.use_node(node);
                format!("{node} makes it")
            }
            None => match value() {
                Some(value) => format!("it is {}", short(&value.to_string())),
                None => continue,
            },
        };
        let instead = match what {
            "seed" => "The form keeps its own",
            "denoising strength" => "1 is used",
            _ => "The model's own is used",
        };
        restored.note(format!("The {what} could not be read: {why}. {instead}"));
    }
    let guider = walk.linked(sampler, "guider");
    let guided = guider.filter(|guider| guider.has("model") || guider.has("conditioning"));
    let guided = guided.unwrap_or(sampler);
    // Latents first: a text encoder may be given another size.
    let latents = read_latents(walk, sampler, restored);
    read_prompts(walk, guided, restored);
    read_models(walk, guided, restored);
    if restored.width.is_none() {
        let maker = latents.or_else(|| broadcasters(walk).find(|_| !takes_image(walk, sampler)));
        restored.unread_size = maker.map(|node| {
            // Such as a node that computes it.
            let maker = walk.linked(node, "width").unwrap_or(node);
            if !node.is_called("pad crop stitch") {
                walk.use_node(node);
                walk.name_node(maker);
            }
            let node = maker;
            format!("The size could not be read: {node} makes it")
        });
    }
    restored.strength = denoise(walk, sampler).filter(|strength| *strength < 1.0);
    let mut whole = parts.iter().filter(|part| !part.is_called(SPLITTER));
    let own = whole.find_map(|part| walk.number(part, DENOISE));
    let own = own.filter(|strength| *strength < 1.0);
    if let Some(strength) = own.filter(|_| starts_from_noise(walk, sampler)) {
        restored.strength = None;
        restored.num_steps = number("steps").and_then(|steps| fields::count(&steps.into()));
        restored.note(format!(
            "Its denoising strength, {strength}, was for an empty image, which cannot be repeated: 1 is used"
        ));
    }
}

fn read_names<'a>(
    walk: &GraphWalk<'a>,
    parts: &[&'a ComfyNode],
    sampler: &'a ComfyNode,
    restored: &mut ForeignSettings,
) {
    let name = |wanted| parts.iter().find_map(|part| walk.name(part, wanted));
    if sampler.class.starts_with("WanVideo") {
        // Its one name is of both.
        if let Some(name) = name("scheduler") {
            restored.take_sampler(&name);
            restored.take_names_of_diffusers();
        }
        return;
    }
    if let Some(name) = name(SAMPLERS) {
        restored.take_sampler(names::comfy_sampler(&name));
    }
    if let Some(name) = name("scheduler") {
        restored.take_schedule(&name);
    }
    // Such as a KarrasScheduler, which has no name of a schedule.
    let classes = parts.iter().map(|part| part.plain_class());
    let mut own = classes.filter_map(|it| names::schedule(it.strip_suffix("scheduler")?));
    restored.sigma_schedule = restored.sigma_schedule.or_else(|| own.next());
}

/// Reads the model; of samplers with two experts both, with a guidance for each.
fn read_models<'a>(walk: &GraphWalk<'a>, sampler: &'a ComfyNode, restored: &mut ForeignSettings) {
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
            let found = broadcasters(walk).next();
            let found = found.or_else(|| Some(loader).filter(|_| chain.len() > 1));
            found.inspect(|node| walk.name_node(node));
            restored.note(found.map_or_else(
                || format!("The model could not be read: {sampler} has none"),
                |node| format!("The model could not be read: {node} loads it"),
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

fn read_prompts<'a>(walk: &GraphWalk<'a>, guided: &'a ComfyNode, restored: &mut ForeignSettings) {
    // No slot of the sampler itself is meant.
    let source = Some(InputSource::Node(guided, u64::MAX));
    let mut positive = walk.read_prompt(source, "positive", restored);
    for node in &positive.visited {
        if restored.distilled_guidance.is_none() {
            restored.distilled_guidance =
                number_or_note(walk, node, "guidance", "guidance", restored);
        }
        read_size(walk, node, restored);
    }
    let has_negative = guided.inputs.iter().any(|(name, input)| {
        let is_text = matches!(
            input,
            NodeInput::Link(_) | NodeInput::Value(Value::String(_))
        );
        is_text && named_side(name) == Some("negative")
    });
    let has_embeds = guided.has("text_embeds");
    let has_pipe = !walk.links_of(guided, LinkKind::Pipe).is_empty();
    if has_negative || has_embeds || has_pipe {
        let negative = walk.read_prompt(source, "negative", restored);
        for node in negative.visited {
            read_size(walk, node, restored);
        }
        positive.tagged.extend(negative.tagged);
        // An encoder of one text gives the positive prompt alone.
        if has_embeds && restored.negative_prompt == restored.prompt {
            restored.negative_prompt = None;
        }
    }
    for tagged in positive.tagged.into_values() {
        restored.add_tags(tagged);
    }
}

/// Reads a pass after the first: the other of two experts, a part of the same steps with other settings, or a
/// refinement of the result.
fn read_later<'a>(
    walk: &GraphWalk<'a>,
    first: &'a ComfyNode,
    pass: &SamplerPass<'a>,
    restored: &mut ForeignSettings,
) {
    let mut own = ForeignSettings::default();
    read_sampler(walk, pass.sampler, &mut own);
    let is_scaled = pass.before.iter().any(|node| node.is_called("scale"));
    let is_split =
        starts_within(walk, pass.sampler) || (first.has("sigmas") && own.model != restored.model);
    if !is_split || takes_image(walk, pass.sampler) || is_scaled {
        read_refinement(walk, pass, &own, restored);
        return;
    }
    let models = restored.model.as_deref().zip(own.model.as_deref());
    let is_second = restored.model_2.is_none();
    let is_expert = is_second && models.is_some_and(|(high, low)| names::are_experts(high, low));
    let mut ignored = Vec::new();
    if adds_no_noise(walk, pass.sampler) {
        ignored.push("seed");
    }
    if is_expert {
        ignored.extend(["model", "LoRAs", "guidance"]);
    }
    let differences = differences(&own, restored, &ignored).join(", ");
    if !differences.is_empty() {
        let node = pass.sampler;
        restored.note(format!(
            "Some of the steps had settings of their own ({node}): {differences}. Those of the first sampler are used for all"
        ));
    }
    if is_expert {
        let range = passes::step_range(walk, pass.sampler);
        let shift = restored.shift.or(own.shift);
        let shift = shift.filter(|_| restored.sigma_schedule == Some(SigmaSchedule::Simple));
        let (model, steps) = (restored.model.as_deref(), restored.num_steps.unwrap_or(0));
        let here = shift.and_then(|shift| names::expert_step(model?, shift, steps));
        let is_other = |start: f64| start > 0.0 && here.map(f64::from) != Some(start);
        if let Some(range) = range.filter(|it| is_other(it.start)) {
            restored.note(format!(
                "The second expert took over at step {} of {}: Safelight changes experts by the noise level, which may be another step",
                range.start, range.total
            ));
        }
        restored.take_second_expert(own);
    }
}
