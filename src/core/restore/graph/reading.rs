//! Settings of a result: from the samplers that made it back to noise, prompts, model and size.

use super::conditioning::{EncodedPrompt, named_side};
use super::models::read_models;
use super::nodes::{ComfyGraph, InputSource, LinkKind, MAX_CHAIN, NodeRef, has_word};
use super::passes::{
    SamplerParts, StepRange, adds_no_noise, denoise, differences, note_missing_steps, num_steps,
    read_rate, read_refinement, restores_image, starts_within, takes_image,
};
use super::results::{MAX_RESULTS, PassChain, SamplerPass, is_sampler, results};
use super::unused::{note_unused, read_controls};
use super::values::{note_unread, number_or_note};
use crate::job::SigmaSchedule;
use crate::restore::{ForeignSettings, fields, names, short};

/// Steps of all that is read of one result.
const BUDGET: usize = 100_000;
/// As `BUDGET`, for all results.
const ALL_BUDGET: usize = 400_000;
const MAX_BROADCASTERS: usize = 16;

/// Settings of the result that most passes made.
pub(super) fn read(graph: &ComfyGraph) -> Option<ForeignSettings> {
    graph.start(BUDGET);
    let results = results(graph);
    let chain = results.first()?;
    let mut restored = read_result(graph, chain);
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
    graph.start(BUDGET);
    let mut results = results(graph);
    let numbers = |node: NodeRef<'_>| {
        let parts = node
            .id
            .split(':')
            .map(|part| part.parse().unwrap_or(u64::MAX));
        (parts.collect::<Vec<_>>(), node.id.clone())
    };
    results.sort_by_cached_key(|chain| (chain.end.map(numbers), numbers(chain.last())));
    let budget = BUDGET.min(ALL_BUDGET / results.len().max(1));
    let results = results.iter().map(|chain| {
        // A node that one result uses may be one that another does not.
        graph.start(budget);
        read_result(graph, chain)
    });
    let mut results: Vec<_> = results.collect();
    if let Some(last) = results.get_mut(MAX_RESULTS - 1) {
        last.note(format!(
            "The graph may save more than {MAX_RESULTS} results: the others are not read"
        ));
    }
    results
}

fn read_result(graph: &ComfyGraph, chain: &PassChain<'_>) -> ForeignSettings {
    let mut restored = ForeignSettings::of("ComfyUI");
    restored.output = chain.output();
    let (first, later) = (chain.passes[0].sampler, &chain.passes[1..]);
    read_first(first, &mut restored);
    for pass in later {
        read_later(first, pass, &mut restored);
    }
    note_missing_steps(chain, &mut restored);
    if let Some(source) = chain.source {
        restored.note_input(format!(
            "It was made from a result of the same graph ({source}), which is not in the file: add it separately"
        ));
    }
    if let Some(id) = &graph.repeated_id {
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
    restored.is_resized =
        acting.any(|node| node.is_called("RESIZERS") || (is_sampler(*node) && takes_image(*node)));
    for (result, nodes) in [
        ("The finished result", &chain.after),
        ("Another saved result", &chain.after_others),
    ] {
        for node in nodes.iter().filter(|node| node.is_called("FINISHERS")) {
            node.use_all();
            restored.note(format!(
                "{result} was changed by {node}, which is not repeated: upscale it or interpolate its frames afterwards"
            ));
        }
    }
    for node in graph.broadcasters().take(MAX_BROADCASTERS) {
        restored.note(format!(
            "{} gives values to nodes without links to them, in a way that Safelight does not read: compare the settings",
            node.at_start()
        ));
    }
    read_rate(chain, &mut restored);
    read_controls(graph, &mut restored);
    let mut encoders = graph.refs();
    let layer = encoders.find_map(|node| {
        let layer = node.number("stop_at_clip_layer")?;
        node.use_all();
        Some(layer)
    });
    restored.clip_skip = layer.map(|layer| -layer);
    note_unused(chain, &mut restored);
    if graph.is_exhausted.get() {
        restored.note("The graph is too large or its links go in circles: not all of it was read");
    }
    // The window of ComfyUI changes such a prompt before it runs the graph.
    let texts = [&restored.prompt, &restored.negative_prompt].into_iter();
    let is_dynamic = texts.flatten().any(|text| has_word(text, "{ /* //"));
    if graph.is_drawn && is_dynamic {
        restored.note(
            "The prompt is as it was typed: ComfyUI would choose from {…|…} and leave out comments when it runs the graph, here they stay as text",
        );
    }
    restored
}

/// Reads the first pass, which may upscale or detail a loaded image.
fn read_first(sampler: NodeRef<'_>, restored: &mut ForeignSettings) {
    read_sampler(sampler, restored);
    let is_detailer = sampler.is_called("DETAILERS") && takes_image(sampler);
    if !is_detailer && !restores_image(sampler) {
        return;
    }
    (restored.width, restored.height, restored.unread_size) = (None, None, None);
    if restored.strength.is_none() && !sampler.has("DENOISE_NAMES") {
        restored.note(format!(
            "The denoising strength could not be read: {sampler} has none. Set one yourself"
        ));
    }
    restored.note_input(format!(
        "A finished image was upscaled or detailed by {sampler}, in parts or at another size: here the image that you add is denoised as a whole. Draw a mask to change a part alone"
    ));
}

fn read_sampler(sampler: NodeRef<'_>, restored: &mut ForeignSettings) {
    sampler
        .links()
        .for_each(|(name, _)| sampler.use_input(name));
    let parts = SamplerParts::new(sampler);
    read_names(&parts, restored);
    let seeds = parts.0.iter().filter_map(|part| part.value("SEEDS"));
    let (usable, others): (Vec<_>, Vec<_>) = seeds.partition(|it| fields::seed(it).is_some());
    let seed = usable.first().or_else(|| others.first());
    if !seed.is_some_and(|seed| restored.take_seed(seed)) {
        note_unread(&parts.0, "SEEDS", "seed", restored);
    }
    restored.num_steps = num_steps(sampler);
    if restored.num_steps.is_none() {
        note_unread(&parts.0, "steps, sigmas", "number of steps", restored);
    }
    let mut number = |names, what| number_or_note(&parts.0, names, what, restored);
    let cfg_scale = number("cfg, cfg_conds", "guidance");
    let guidance = number("guidance_scale, guidance", "guidance");
    // 0 of a sampler leaves it to the model.
    let shift = number("shift, sigma_shift", "shift").filter(|shift| *shift != 0.0);
    number("DENOISE_NAMES", "denoising strength");
    (restored.cfg_scale, restored.shift) = (cfg_scale, shift);
    restored.distilled_guidance = guidance;
    restored.secs = parts.number("total_second_length");
    if parts.name("SAMPLERS").is_none() {
        note_unread(&parts.0, "SAMPLERS", "sampler", restored);
    }
    let has_schedule = parts.name("scheduler").is_some() || parts.is_called("OWN_SCHEDULERS");
    if !has_schedule && restored.sigma_schedule.is_none() {
        note_unread(&parts.0, "scheduler, sigmas", "schedule", restored);
    }
    let guider = sampler.linked("guider");
    let guided = guider.filter(|guider| guider.has("model, conditioning"));
    let guided = guided.unwrap_or(sampler);
    // Latents first: a text encoder may be given another size.
    let (latents, starts_from_noise) = read_latents(sampler, restored);
    read_prompts(guided, restored);
    read_models(guided, restored);
    if restored.width.is_none() {
        restored.unread_size = unread_size(sampler, latents);
    }
    let is_part = |strength: &f64| *strength < 1.0;
    restored.strength = denoise(sampler).filter(is_part);
    let own = parts.whole().number("DENOISE_NAMES").filter(is_part);
    if let Some(strength) = own.filter(|_| starts_from_noise) {
        restored.strength = None;
        let steps = SamplerParts::new(sampler).number("steps");
        restored.num_steps = steps.and_then(|it| fields::count(&it.into()));
        restored.note(format!(
            "Its denoising strength, {strength}, was for an empty image, which cannot be repeated: 1 is used"
        ));
    }
}

/// Reads the names of sampler and schedule.
fn read_names(parts: &SamplerParts<'_>, restored: &mut ForeignSettings) {
    let schedule = parts.name("scheduler");
    if parts.0[0].class.starts_with("WanVideo") {
        // Its one name is of both.
        if let Some(name) = schedule {
            restored.take_sampler(&name);
            restored.take_names_of_diffusers();
        }
        return;
    }
    if let Some(name) = parts.name("SAMPLERS") {
        restored.take_sampler(names::comfy_sampler(&name));
    }
    if let Some(name) = schedule {
        restored.take_schedule(&name);
    }
    // Such as a KarrasScheduler, which has no name of a schedule.
    let classes = parts.0.iter().map(|part| &part.plain_class);
    let mut own = classes.filter_map(|it| names::schedule(it.strip_suffix("scheduler")?));
    restored.sigma_schedule = restored.sigma_schedule.or_else(|| own.next());
}

fn read_prompts(guided: NodeRef<'_>, restored: &mut ForeignSettings) {
    let mut positive = EncodedPrompt::read(guided, "positive", restored);
    for node in &positive.visited {
        if restored.distilled_guidance.is_none() {
            restored.distilled_guidance =
                number_or_note(&[*node], "guidance", "guidance", restored);
        }
        if node.is_called("conditioning") {
            restored.fps = restored.fps.or_else(|| node.number("RATES"));
        }
        read_size(*node, restored);
    }
    let has_negative = guided.inputs().any(|(name, input)| {
        let is_text = input.value().is_none_or(serde_json::Value::is_string);
        is_text && named_side(name) == Some("negative")
    });
    let has_embeds = guided.has("text_embeds");
    if has_negative || has_embeds || !guided.links_of(LinkKind::Pipe).is_empty() {
        let negative = EncodedPrompt::read(guided, "negative", restored);
        for node in negative.visited {
            read_size(node, restored);
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

/// Reads the size and length of a node.
fn read_size(node: NodeRef<'_>, restored: &mut ForeignSettings) {
    // A box within the image has a position.
    if restored.width.is_none() && !node.has("x, y") {
        restored.take_size(node.size());
    }
    // A part of a batch is not a video.
    if restored.num_frames.is_none() && !node.is_called("frombatch") {
        let found = number_or_note(&[node], "length, num_frames", "number of frames", restored);
        restored.num_frames = found.and_then(|it| fields::count(&it.into()));
    }
}

/// Reads the size from the sampler's latents, or from the image that they encode; returns the node that makes it where
/// it could not be read, and whether the latents are empty ones of some size.
fn read_latents<'g>(
    sampler: NodeRef<'g>,
    restored: &mut ForeignSettings,
) -> (Option<NodeRef<'g>>, bool) {
    let mut last = None;
    let mut node = sampler;
    // By which latents are enlarged before they are denoised; NaN where unknown.
    let mut scale = 1.0;
    let mut is_encoded = false;
    for _ in 0..MAX_CHAIN {
        let latents = node.links_of(LinkKind::Latent);
        let is_image = latents.is_empty() && !is_sampler(node) && restored.width.is_none();
        let images = node.links_of(LinkKind::Image);
        let image = images.first().filter(|_| is_image);
        let next = match image.or_else(|| latents.first()) {
            Some(name) => node.source(name),
            None => node.source_or_piped("latent_image, samples, latent"),
        };
        let next = next.and_then(InputSource::node);
        let Some(next) = next.filter(|next| !is_sampler(*next)) else {
            break;
        };
        is_encoded |= image.is_some();
        if image.is_none() || next.is_called("RESIZERS") {
            last = Some(next);
        }
        if next.is_switch() {
            break;
        }
        node = next;
        if restored.width.is_some() {
            // Replaced, and so not named as unused.
            _ = node.size();
            read_size(node, restored);
            continue;
        }
        read_size(node, restored);
        let scaled =
            |edge: u32| fields::count(&((f64::from(edge) / 8.0 * scale).round() * 8.0).into());
        match (restored.width, restored.height) {
            (Some(width), Some(height)) if scale != 1.0 => {
                (restored.width, restored.height) = (scaled(width), scaled(height));
            }
            (None, _) if node.is_called("scale") => {
                scale *= node.number("scale_by").unwrap_or(f64::NAN);
            }
            _ => {}
        }
    }
    // Else it is that of the image, which has to be added.
    let is_unread = |node: &NodeRef<'_>| !takes_image(*node) || node.is_called("RESIZERS");
    let last = last.filter(is_unread).filter(|_| restored.width.is_none());
    let is_first = !is_sampler(node) && node.links_of(LinkKind::Latent).is_empty();
    // The wrapper for Wan is given the size apart from the video that it changes.
    let changed = sampler.linked("samples");
    let is_changed = changed.is_some_and(|it| it.is_called("encode"));
    let is_empty = is_first && !is_encoded && !takes_image(node) && node.size().is_some();
    (last, is_empty && !is_changed)
}

/// Sentence on a size that could not be read; `latents` is the node that makes it.
fn unread_size(sampler: NodeRef<'_>, latents: Option<NodeRef<'_>>) -> Option<String> {
    let broadcaster = || {
        sampler
            .graph
            .broadcasters()
            .next()
            .filter(|_| !takes_image(sampler))
    };
    let source = || {
        sampler
            .source_or_piped("LATENTS")
            .and_then(InputSource::node)
    };
    let Some(node) = latents.or_else(broadcaster) else {
        let is_missing = sampler.has("LATENTS") && source().is_none();
        return is_missing.then(|| format!("The size could not be read: {sampler} has none"));
    };
    // Such as a node that computes it.
    let maker = node.linked("width").unwrap_or(node);
    if !node.is_called("RESHAPERS") {
        node.use_all();
        maker.use_all();
    }
    Some(format!("The size could not be read: {maker} makes it"))
}

/// Reads a pass after the first: the other of two experts, a part of the same steps with other settings, or a
/// refinement of the result.
fn read_later(first: NodeRef<'_>, pass: &SamplerPass<'_>, restored: &mut ForeignSettings) {
    let sampler = pass.sampler;
    let mut own = ForeignSettings::default();
    read_sampler(sampler, &mut own);
    if sampler.is_called("CHAINED_SAMPLERS") {
        own = own.filled_from(restored.clone());
    }
    let is_scaled = pass.before.iter().any(|node| node.is_called("scale"));
    let is_split = starts_within(sampler) || (first.has("sigmas") && own.model != restored.model);
    if !is_split || is_scaled || takes_image(sampler) {
        read_refinement(pass, &own, restored);
        return;
    }
    let models = restored.model.as_deref().zip(own.model.as_deref());
    let is_expert = restored.model_2.is_none()
        && models.is_some_and(|(high, low)| names::are_experts(high, low));
    let mut ignored = Vec::new();
    if adds_no_noise(sampler) {
        ignored.push("seed");
    }
    if is_expert {
        ignored.extend(["model", "LoRAs", "guidance"]);
    }
    let differences = differences(&own, restored, &ignored).join(", ");
    if !differences.is_empty() {
        restored.note(format!(
            "Some of the steps had settings of their own ({sampler}): {differences}. Those of the first sampler are used for all"
        ));
    }
    if is_expert {
        let shift = restored.shift.or(own.shift);
        let shift = shift.filter(|_| restored.sigma_schedule == Some(SigmaSchedule::Simple));
        let (model, steps) = (restored.model.as_deref(), restored.num_steps.unwrap_or(0));
        let here = shift.and_then(|shift| names::expert_step(model?, shift, steps));
        let range = StepRange::new(sampler).filter(|it| it.start > 0.0);
        if let Some(range) = range.filter(|it| here.map(f64::from) != Some(it.start)) {
            restored.note(format!(
                "The second expert took over at step {} of {}: Safelight changes experts by the noise level, which may be another step",
                range.start, range.total
            ));
        }
        restored.take_second_expert(own);
    }
}
