//! Settings that other programs write as plain JSON: SwarmUI, Wan2GP, FramePack and its Studio, InvokeAI, Draw Things,
//! Fooocus, NovelAI, and whatever uses the same words as most.

use serde_json::{Map, Value};

use super::fields::{self, JsonFields, ReadNames, size};
use super::matching::stem;
use super::{ForeignSettings, RestoredControl, RestoredLora, file_name, names, short};
use crate::families::ModelFamily;
use crate::job::{SecondPass, SectionOrder, StepCache, StepCacheKind};
use crate::media::MetadataText;

/// Members without an effect on the result, and repetitions of others.
const UNMENTIONED: &str = "version, app_version, swarm_version, settings_version, metadata_version, metadata_scheme, software, type, mode, state, id, uuid, date, time, timestamp, created_at, created_by, creation_date, creation_timestamp, generation_time, generation_mode, request_type, signed_hash, user, filename, path, url, model_type, base_model_type, model_filename, full_prompt, full_negative_prompt, aspectratio, rand_device, latent_window_size, v2, profile";

/// Reads JSON; `None` where it is of no known program.
pub(super) fn read(value: &Value) -> Option<ForeignSettings> {
    // Of queues the first job.
    let value = match value {
        Value::Array(jobs) => jobs.first()?,
        value => value,
    };
    let all = JsonFields::from_value(value)?;
    let names = ReadNames::default();
    if let Some(params) = all.object("sui_image_params") {
        let params = params.noting(&names);
        return Some(with_unread(swarm(params, all), params));
    }
    let fields = all.object("params").unwrap_or(all).noting(&names);
    let kind = fields.text("type").unwrap_or_default();
    let is_wan2gp = kind.starts_with("WanGP")
        || (fields.has("num_inference_steps") && fields.has("resolution"))
        || fields.has("activated_loras");
    let restored = if is_wan2gp {
        wan2gp(fields)
    } else if fields.has("total_second_length") || fields.has("latent_window_size") {
        framepack(fields)
    } else if fields.has("c") && (fields.has("uc") || fields.has("sampler")) {
        draw_things(fields)
    } else if fields.has("positive_prompt") || fields.has("app_version") {
        invoke(fields)
    } else {
        plain(fields)?
    };
    Some(with_unread(restored, fields))
}

/// Reads Easy Diffusion's settings, each of which is a separate text.
pub(super) fn of_separate_texts(texts: &[MetadataText]) -> Option<ForeignSettings> {
    let mut texts_by_name = Map::new();
    for text in texts {
        texts_by_name.insert(text.name.clone(), text.text.clone().into());
    }
    let is_it = texts_by_name.contains_key("use_stable_diffusion_model");
    let mut restored = is_it.then(|| read(&texts_by_name.into()))??;
    restored.tool = "Easy Diffusion".to_owned();
    Some(restored)
}

/// Names the members that were not read.
fn with_unread(mut restored: ForeignSettings, fields: JsonFields<'_>) -> ForeignSettings {
    const MOST: usize = 24;
    let mut unread = fields.unread();
    unread.retain(|name| {
        let mut unmentioned = UNMENTIONED.split(", ");
        !unmentioned.any(|known| known.eq_ignore_ascii_case(name))
            // Fooocus writes its list of LoRAs twice.
            && !name.starts_with("lora_combined_")
    });
    let more = unread.len().saturating_sub(MOST);
    let names: Vec<String> = unread.into_iter().take(MOST).map(short).collect();
    if !names.is_empty() {
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        restored.note(format!("Not used: {}{more}", names.join(", ")));
    }
    restored
}

/// The words that nearly all use.
fn common(fields: JsonFields<'_>, tool: &str) -> ForeignSettings {
    let mut restored = ForeignSettings::of(tool);
    restored.prompt = fields.text("prompt, positive_prompt, positivePrompt");
    restored.negative_prompt =
        fields.text("negative_prompt, negativeprompt, negativePrompt, n_prompt");
    if let Some(seed) = fields.get("seed") {
        restored.take_seed(seed);
    }
    if let Some(steps) = fields.get("steps, num_inference_steps, sample_steps") {
        restored.num_steps = fields::count(steps);
        if restored.num_steps.is_none() {
            let steps = short(&steps.to_string());
            restored.note(format!("Its number of steps, {steps}, cannot be used"));
        }
    }
    let width = fields.count("width");
    restored.take_size(width.zip(fields.count("height")));
    restored.fps = fields.number("fps, force_fps, frame_rate");
    restored.num_frames = fields.count("num_frames, video_length, video_frames");
    restored.cfg_scale = fields.number("cfg_scale, guidance_scale, cfgscale, cfg");
    restored.distilled_guidance = fields
        .number("distilled_guidance, guidance, embedded_guidance_scale, fluxguidancescale, gs");
    restored.shift = fields.number("shift, flow_shift, sigmashift");
    restored.strength = fields.number("strength, denoising_strength, initimagecreativity");
    // `{"name": 0.8}`, or a list.
    match fields.get("loras, lora, lora_values") {
        Some(Value::Object(loras)) => {
            for (name, strength) in loras {
                restored.add_listed_lora(name, Some(strength));
            }
        }
        Some(Value::Array(loras)) => {
            for lora in loras {
                take_lora(lora, &mut restored);
            }
        }
        _ => {}
    }
    restored
}

fn swarm(params: JsonFields<'_>, all: JsonFields<'_>) -> ForeignSettings {
    let mut restored = common(params, "SwarmUI");
    // Read below, together with their separate weights.
    restored.loras.clear();
    if let Some(prompt) = restored.prompt.take() {
        restored.prompt = Some(restored.take_tags(&prompt, false));
    }
    let model = params.name("model");
    restored.model = model.map(|model| file_name(&model).to_owned());
    restored.num_frames = params.count("text2videoframes, videoframes, texttovideoframes, frames");
    restored.fps = params.number("videofps, text2videofps, texttovideofps");
    if let Some(name) = params.name("sampler, comfyuisampler") {
        restored.take_sampler(names::comfy_sampler(&name));
    }
    if let Some(name) = params.name("scheduler, comfyuischeduler") {
        restored.take_schedule(&name);
    }
    let mut weights = words_of(params.get("loraweights")).into_iter();
    let mut listed = ForeignSettings::default();
    for name in words_of(params.get("loras")) {
        listed.add_listed_lora(&name, weights.next().map(Value::from).as_ref());
    }
    restored.add_notes(listed.notes);
    // Those of the prompt's tags are in the list again.
    for lora in restored.unknown_loras(listed.loras) {
        restored.add_lora(lora);
    }
    // The hash of the model itself among all files that were used.
    let model = restored.model.clone().unwrap_or_default();
    restored.model_hash = all.list("sui_models").iter().find_map(|file| {
        let file = JsonFields::from_value(file)?;
        let name = file.name("name")?;
        let is_model = stem(file_name(&name)) == stem(&model);
        is_model.then(|| file.name("hash")).flatten()
    });
    if let Some(scale) = params.number("refinerupscale").filter(|scale| *scale > 1.0) {
        let strength = params.number("refinercontrolpercentage").unwrap_or(0.2);
        let steps = params.count("refinersteps");
        let steps = steps.map(|steps| format!("{steps} steps"));
        restored.add_second_pass(Some(scale), strength, "refiner", &steps.unwrap_or_default());
    }
    for start in ["controlnet", "controlnettwo", "controlnetthree"] {
        let number = |name: &str| params.number(&format!("{start}{name}"));
        if let Some(network) = params.name(&format!("{start}model")) {
            restored.add_control(RestoredControl {
                network: Some(file_name(&network).to_owned()),
                image: None,
                strength: number("strength").unwrap_or(1.0),
                from: number("start").unwrap_or(0.0),
                until: number("end").unwrap_or(1.0),
            });
        }
    }
    // The expert for low noise takes over as a refiner (StepSwap) or as the swap model of videos.
    let high = restored.model.clone().unwrap_or_default();
    for (model, cfg) in [
        ("refinermodel", "refinercfgscale"),
        ("videoswapmodel", "videoswapcfg"),
    ] {
        let low = params
            .0
            .get(model)
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !low.is_empty() && names::are_experts(&high, file_name(low)) {
            restored.model_2 = params.name(model).map(|low| file_name(&low).to_owned());
            restored.cfg_scale_2 = params.number(cfg);
        }
    }
    if let Some(video) = params.name("videomodel") {
        restored.note(format!(
            "The image was made into a video by {} in a second stage, which is not repeated",
            short(&video)
        ));
    }
    if params.get("initimage").is_some() {
        restored.note_input("Its start image is not in the file: add it separately");
    }
    restored
}

/// A list of texts, or one text with commas between them.
fn words_of(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(words)) => words
            .iter()
            .filter_map(|word| match word {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
            .collect(),
        Some(Value::String(text)) => text
            .split(',')
            .map(|word| word.trim().to_owned())
            .filter(|word| !word.is_empty())
            .collect(),
        _ => Vec::new(),
    }
}

fn wan2gp(fields: JsonFields<'_>) -> ForeignSettings {
    let mut restored = common(fields, "Wan2GP");
    if let Some(text) = fields.text("resolution") {
        restored.take_size(size(&text));
    }
    // `WanGP v9.1 by DeepBeepMeep - Wan2.2 Image2video 14B`
    let kind = fields.text("type").unwrap_or_default();
    let name = kind.split_once(" - ").map(|(_, name)| name.to_owned());
    restored.model = name
        .or_else(|| fields.name("model_filename"))
        .or_else(|| fields.name("model_type, base_model_type"))
        .map(|name| file_name(&name).to_owned());
    restored.family = wan2gp_family(fields, restored.model.as_deref());
    let phases = fields.number("guidance_phases");
    if phases.is_some_and(|phases| phases >= 2.0) {
        restored.cfg_scale_2 = fields.number("guidance2_scale");
    }
    restored.strength = restored.strength.filter(|it| *it < 1.0);
    take_names(&mut restored, fields, "sample_solver", "");
    wan2gp_loras(fields, &mut restored);
    for name in ["image_start", "image_end", "video_source", "video_guide"] {
        if fields.name(name).is_some() || !fields.list(name).is_empty() {
            restored.note_input("Its images or videos are not in the file: add them separately");
        }
    }
    if fields.number("repeat_generation").unwrap_or(1.0) > 1.0 {
        restored.note("It was one of a batch; one is made here");
    }
    restored
}

fn wan2gp_family(fields: JsonFields<'_>, model: Option<&str>) -> Option<ModelFamily> {
    let kind = fields.name("base_model_type, model_type")?;
    let kind = kind.to_lowercase();
    let is_of = |family: &ModelFamily| {
        let mut types = family.wan2gp_types.iter();
        types.any(|start| kind.starts_with(start))
    };
    names::family(&kind)
        .or_else(|| model.and_then(names::family))
        .or_else(|| ModelFamily::all().find(is_of))
}

/// `"1.0 0.8;0.5"`: a strength for each, where `;` parts the phases and `,` the steps.
fn wan2gp_loras(fields: JsonFields<'_>, restored: &mut ForeignSettings) {
    let strengths = match fields.get("loras_multipliers") {
        Some(Value::String(text)) => text.clone(),
        list => words_of(list).join(" "),
    };
    let mut strengths = strengths
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split([' ', '|']))
        .filter(|word| !word.is_empty());
    for name in words_of(fields.get("activated_loras")) {
        let word = strengths.next().unwrap_or("1");
        let mut phases = word.split(';').map(|phase| {
            // Of strengths that change with the steps the first.
            let first = phase.split(',').next().unwrap_or_default();
            first.parse::<f64>().ok().filter(|it| it.is_finite())
        });
        let strength = phases.next().flatten().unwrap_or(1.0);
        let mut lora = RestoredLora::new(&name, strength);
        lora.strength_2 = phases.next().flatten();
        if word.contains(',') {
            restored.note("LoRA strengths that change with the steps are not used");
        }
        restored.add_lora(lora);
    }
}

fn framepack(fields: JsonFields<'_>) -> ForeignSettings {
    let mut restored = common(fields, "FramePack");
    restored.family = names::family("framepack");
    if fields.has("model_type") {
        restored.tool = "FramePack Studio".to_owned();
    }
    let kind = fields.text("model_type").unwrap_or_default();
    restored.section_order = match kind.to_lowercase() {
        kind if kind.contains("f1") => Some(SectionOrder::F1),
        kind if kind.contains("original") => Some(SectionOrder::Original),
        _ => None,
    };
    restored.model = fields.name("model_type").map(|kind| {
        if kind.to_lowercase().contains("framepack") {
            kind
        } else {
            format!("FramePack {kind}")
        }
    });
    restored.secs = fields.number("total_second_length");
    let width = fields.count("resolutionW");
    restored.take_size(width.zip(fields.count("resolutionH")));
    if fields.is_on("use_teacache") {
        let mut cache = StepCache::from(StepCacheKind::TeaCache);
        let named = fields.number("teacache_rel_l1_thresh, teacache_thresh");
        if let Some(threshold) = named.filter(|it| cache.kind.thresholds().contains(it)) {
            cache.threshold = threshold;
        }
        restored.step_cache = Some(cache);
    } else if fields.is_on("use_magcache") {
        restored.step_cache = Some(StepCacheKind::MagCache.into());
    }
    if fields.is_on("has_input_image") || fields.name("input_image_path").is_some() {
        restored.note_input("Its start image is not in the file: add it separately");
    }
    if fields.is_on("end_frame_used") {
        restored.note_input("Its end image is not in the file: add it separately");
    }
    restored
}

fn take_names(
    restored: &mut ForeignSettings,
    fields: JsonFields<'_>,
    samplers: &str,
    schedules: &str,
) {
    if let Some(name) = fields.name(samplers) {
        restored.take_sampler(&name);
    }
    if let Some(name) = fields.name(schedules) {
        restored.take_schedule(&name);
    }
}

fn take_lora(lora: &Value, restored: &mut ForeignSettings) {
    if let Some(name) = lora.as_str() {
        restored.add_listed_lora(name, None);
    } else if let Some([Value::String(name), strength, ..]) = lora.as_array().map(Vec::as_slice) {
        // Fooocus: name, strength, hash.
        restored.add_listed_lora(name, Some(strength));
    } else if let Some(lora) = JsonFields::from_value(lora) {
        let model = lora.object("model, lora");
        let name = lora
            .name("name, file, path, lora, model")
            .or_else(|| model?.name("name, model_name, key"));
        if let Some(name) = name {
            restored.add_listed_lora(&name, lora.get("weight, strength, scale"));
        }
    }
}

fn draw_things(fields: JsonFields<'_>) -> ForeignSettings {
    let mut restored = common(fields, "Draw Things");
    restored.prompt = fields.text("c");
    restored.negative_prompt = fields.text("uc");
    restored.model = fields.name("model");
    restored.cfg_scale = fields.number("scale");
    if let Some(text) = fields.text("size") {
        restored.take_size(size(&text));
    }
    restored.strength = restored.strength.filter(|it| *it < 1.0);
    take_names(&mut restored, fields, "sampler", "");
    restored
}

fn invoke(fields: JsonFields<'_>) -> ForeignSettings {
    let mut restored = common(fields, "InvokeAI");
    let mut notes = Vec::new();
    let model = fields.object("model");
    restored.model = model
        .and_then(|model| model.name("name, model_name, key"))
        .or_else(|| fields.name("model"));
    restored.model_hash = model.and_then(|model| model.name("hash"));
    for control in fields
        .list("controlnets")
        .iter()
        .filter_map(JsonFields::from_value)
    {
        let named = |object: &str, name: &str| control.object(object)?.name(name);
        restored.add_control(RestoredControl {
            network: named("control_model", "name, model_name, key"),
            image: named("image", "image_name"),
            strength: control.number("control_weight").unwrap_or(1.0),
            from: control.number("begin_step_percent").unwrap_or(0.0),
            until: control.number("end_step_percent").unwrap_or(1.0),
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
    restored.strength = restored.strength.filter(|it| *it < 1.0);
    take_names(&mut restored, fields, "scheduler", "");
    restored
}

/// JSON of an unknown program: taken where it has a prompt, and a seed or steps.
fn plain(fields: JsonFields<'_>) -> Option<ForeignSettings> {
    let mut restored = common(fields, "another program");
    let says = restored.seed.is_some() || restored.num_steps.is_some();
    if restored.prompt.is_none() || !says {
        return None;
    }
    restored.model = fields
        .name("model, model_name, checkpoint, model_id, base_model, use_stable_diffusion_model")
        .map(|model| file_name(&model).to_owned());
    restored.model_hash = fields.name("model_hash, base_model_hash");
    restored.take_size(fields.text("resolution").as_deref().and_then(size));
    take_names(
        &mut restored,
        fields,
        "sampler, sampler_name, sample_method",
        "scheduler, schedule, noise_schedule",
    );
    // Easy Diffusion.
    let lora = fields.name("use_lora_model").filter(|name| name != "None");
    if let Some(name) = lora {
        restored.add_listed_lora(&name, fields.get("lora_alpha"));
    }
    if fields
        .text("version")
        .is_some_and(|version| version.starts_with("Fooocus"))
    {
        restored.tool = "Fooocus".to_owned();
    } else if fields.has("uc") && fields.has("scale") {
        restored.tool = "NovelAI".to_owned();
        restored.negative_prompt = fields.text("uc");
        restored.cfg_scale = fields.number("scale");
    }
    Some(restored)
}
