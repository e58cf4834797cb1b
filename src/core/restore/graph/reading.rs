//! Settings of a graph: from the sampler that made the result back to noise, prompts, model and size.

use serde_json::Value;

use super::conditioning::named_side;
use super::controls::read_controls;
use super::models::read_models;
use super::pass_differences::differences;
use super::passes::{
    self, DENOISE, SPLITTER, adds_no_noise, denoise, parts, read_refinement, restores_image,
    starts_within, takes_image,
};
use super::results::{self, LATENTS, PassChain, SamplerPass};
use super::sizes::number_or_note;
use super::sizes::{RESIZERS, read_latents, read_size, starts_from_noise};
use super::unused::{is_idle, note_unused};
use super::walk::{GraphWalk, InputSource, LinkKind, is_sampler};
use super::{ComfyGraph, ComfyNode, NodeInput, has_word};
use crate::job::SigmaSchedule;
use crate::restore::{ForeignSettings, fields, names, short};

/// Nodes that Safelight has as steps after a job.
const FINISHERS: &str = "upscale interpol vfi facerestore";
/// Steps of all traversals of one graph for one result.
const BUDGET: u32 = 100_000;
/// As `BUDGET`, for all results.
const ALL_BUDGET: u32 = 400_000;
const MAX_BROADCASTERS: usize = 16;
const SAMPLERS: &str = "sampler_name, sampler";

/// Settings of the result that most passes made.
pub(super) fn read(graph: &ComfyGraph) -> Option<ForeignSettings> {
    let walk = GraphWalk::new(graph, BUDGET);
    let results = results::results(&walk);
    let chain = results.first()?;
    let mut restored = read_result(&walk, chain);
    if results.len() > 1 {
        let node = chain.passes[0].sampler;
        restored.note(format!(
            "The graph saves several results: the settings are those of {node}"
        ));
    }
    Some(restored)
}

/// Settings of each result, in the order of the nodes that save them.
pub(super) fn read_all(graph: &ComfyGraph) -> Vec<ForeignSettings> {
    let walk = GraphWalk::new(graph, BUDGET);
    let mut results = results::results(&walk);
    results.sort_by_cached_key(|chain| {
        let last = chain.passes.last().map(|pass| pass.sampler);
        [chain.end, last].map(|node| node.map(ComfyNode::number))
    });
    let budget = ALL_BUDGET / u32::try_from(results.len().max(1)).unwrap_or(u32::MAX);
    let results = results.iter().map(|chain| {
        // A node that one result uses may be one that another does not.
        let walk = GraphWalk::new(graph, budget.min(BUDGET));
        read_result(&walk, chain)
    });
    let mut results: Vec<_> = results.collect();
    if let Some(last) = results.get_mut(results::MAX_RESULTS - 1) {
        last.note(format!(
            "The graph may save more than {} results: the others are not read",
            results::MAX_RESULTS
        ));
    }
    results
}

/// Node that makes what is saved, where no sampler does.
pub(super) fn unread_maker(graph: &ComfyGraph) -> Option<String> {
    let walk = GraphWalk::new(graph, BUDGET);
    let mut nodes = graph.nodes.values();
    let mut node = nodes.find(|node| node.runs() && node.is_called(results::ENDS))?;
    for _ in 0..passes::MAX_PASSES {
        let inputs = results::image_inputs(&walk, node).into_iter();
        let mut sources = inputs.filter_map(|(name, _)| walk.linked(node, name));
        node = sources.next()?;
        if !is_idle(node) {
            return Some(node.to_string());
        }
    }
    None
}

fn read_result<'a>(walk: &GraphWalk<'a>, chain: &PassChain<'a>) -> ForeignSettings {
    let mut restored = ForeignSettings::of("ComfyUI");
    restored.output = chain.output();
    let (first, later) = (&chain.passes[0], &chain.passes[1..]);
    read_first(walk, first.sampler, &mut restored);
    for pass in later {
        read_later(walk, first.sampler, pass, &mut restored);
    }
    passes::note_missing_steps(walk, chain, &mut restored);
    if let Some(source) = chain.source {
        restored.note_input(format!(
            "It was made from a result of the same graph ({source}), which is not in the file: add it separately"
        ));
    }
    if let Some(id) = &walk.graph.repeated_id {
        let id = short(id);
        restored.note(format!(
            "Several nodes have the id {id}, of which only the last is read: save the workflow again in ComfyUI"
        ));
    }
    if let Some(node) = chain.saved_part {
        restored.note(format!(
            "The graph also saves the result of an earlier pass ({node}): here only the last one is made"
        ));
    }
    let acting = later.iter();
    let acting = acting.flat_map(|pass| pass.before.iter().chain([&pass.sampler]));
    let mut acting = acting.chain(&chain.after).chain(&chain.after_others);
    restored.is_resized = acting
        .any(|node| node.is_called(RESIZERS) || (is_sampler(node) && takes_image(walk, node)));
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
    for node in walk.broadcasters.iter().take(MAX_BROADCASTERS) {
        restored.note(format!(
            "{} gives values to nodes without links to them, in a way that Safelight does not read: compare the settings",
            node.at_start()
        ));
    }
    let last = later.last().unwrap_or(first).sampler;
    passes::read_rate(walk, last, &mut restored);
    read_controls(walk, &mut restored);
    note_unused(walk, chain, &mut restored);
    if walk.is_exhausted() {
        restored.note("The graph is too large or its links go in circles: not all of it was read");
    }
    if walk.graph.is_drawn {
        note_dynamic_prompts(&mut restored);
    }
    restored
}

/// Notes what the window of `ComfyUI` would still change in a prompt before it runs the graph.
fn note_dynamic_prompts(restored: &mut ForeignSettings) {
    let texts = [&restored.prompt, &restored.negative_prompt];
    let is_dynamic = texts.map(|text| has_word(text.as_deref().unwrap_or(""), "{ /* //"));
    if is_dynamic.contains(&true) {
        restored.note(
            "The prompt is as it was typed: ComfyUI would choose from {…|…} and leave out comments when it runs the graph, here they stay as text",
        );
    }
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
        let maker = latents.or_else(|| {
            walk.broadcasters
                .first()
                .copied()
                .filter(|_| !takes_image(walk, sampler))
        });
        let source = walk.source(sampler, LATENTS).and_then(InputSource::node);
        restored.unread_size = if let Some(node) = maker {
            // Such as a node that computes it.
            let maker = walk.linked(node, "width").unwrap_or(node);
            if !node.is_called("pad crop stitch") {
                walk.use_node(node);
                walk.name_node(maker);
            }
            Some(format!("The size could not be read: {maker} makes it"))
        } else if sampler.has(LATENTS) && source.is_none() {
            Some(format!("The size could not be read: {sampler} has none"))
        } else {
            None
        };
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
    let classes = parts.iter().map(|part| &part.plain_class);
    let mut own = classes.filter_map(|it| names::schedule(it.strip_suffix("scheduler")?));
    restored.sigma_schedule = restored.sigma_schedule.or_else(|| own.next());
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
