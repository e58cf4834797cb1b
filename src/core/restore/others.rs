//! Settings that other programs write as plain JSON, or as labels with values: those of known programs by
//! [`super::programs`], and of whatever uses the same words as most.

use crate::restore::names::file_name;
use serde_json::{Map, Value};

use super::fields::{self, JsonFields, ReadNames};
use super::{ForeignSettings, a1111, names, programs, short};
use crate::job::prompt::TaggedPrompt;
use crate::media::MetadataText;

/// Members without an effect on the result, and repetitions of others.
const UNMENTIONED: &str = "version, app_version, swarm_version, settings_version, metadata_version, metadata_scheme, software, generator, type, mode, state, id, uuid, date, time, timestamp, created_at, created_by, creation_date, creation_timestamp, generation_time, generation_mode, request_type, signed_hash, user, filename, path, url, model_type, base_model_type, model_filename, full_prompt, full_negative_prompt, original_prompt, aspect_ratio, rand_device, latent_window_size, profile, hide_debug_overlay, n_samples, num_outputs, stream, extra_passthrough_testing, session_id, vram_usage_level, output_format, output_quality, output_lossless, metadata_output_format, save_to_disk_path, used_random_seed, show_only_filtered_image, stream_progress_updates, stream_image_progress, stream_image_progress_interval, seed_mode, engine, model_key, ml_compute_unit, image_index, images, side_length, automatic_vae";

/// Programs, by a word in the members that name them.
const TOOLS: [(&str, &str); 4] = [
    ("fooocus", "Fooocus"),
    ("mochi", "Mochi Diffusion"),
    ("novelai", "NovelAI"),
    ("diffusionbee", "DiffusionBee"),
];

/// Reads JSON; `None` where it is of no known program.
pub(super) fn read(value: &Value) -> Option<ForeignSettings> {
    // Of queues and lists the first job.
    let (value, num_jobs) = match value.get("items").unwrap_or(value) {
        Value::Array(jobs) => (jobs.first()?, jobs.len()),
        value => (value, 1),
    };
    let all = JsonFields::from_value(value)?;
    let names = ReadNames::default();
    let inner = ["sui_image_params", "params", "meta", "metadata", "image"];
    let mut inner = inner.iter().filter_map(|name| all.object(name));
    let inner = inner.find(|it| it.has_like("prompt") || it.has_like("cfgscale"));
    let fields = inner.unwrap_or(all).noting(&names);
    let known = programs::read(fields, all);
    let is_known = known.is_some();
    let mut restored = known.or_else(|| plain(fields))?;
    // Civitai's own size of an image is outside of its settings.
    restored.take_size(all.count("width").zip(all.count("height")));
    let mut unread = unread(fields, UNMENTIONED);
    if !is_known {
        unread = a1111::take_settings(&mut restored, unread);
    }
    restored.note_unused(&unread);
    if num_jobs > 1 {
        restored.note(format!("Of {num_jobs} jobs in the file the first is used"));
    }
    Some(restored)
}

/// Reads settings of Easy Diffusion and FramePack Studio, each of which is a separate text.
pub(super) fn of_separate_texts(texts: &[MetadataText]) -> Option<ForeignSettings> {
    let mut texts_by_name = Map::new();
    for text in texts {
        texts_by_name.insert(text.name.clone(), text.text.clone().into());
    }
    let known = ["use_stable_diffusion_model", "total_second_length"];
    let is_it = known.iter().any(|name| texts_by_name.contains_key(*name));
    is_it.then(|| read(&texts_by_name.into()))?
}

/// Reads labels with values, a line each or with semicolons between them: the texts of Easy Diffusion and Mochi
/// Diffusion. What has no label belongs to the value before.
pub(super) fn of_labels(text: &str) -> Option<ForeignSettings> {
    const STARTS: [&str; 3] = ["prompt:", "include in image:", "metadata version:"];
    const MAX_LABEL_BYTES: usize = 32;
    let text = text.trim();
    let start: String = text.chars().take(20).collect();
    let is_lower = start.starts_with(char::is_lowercase);
    let first = STARTS
        .iter()
        .find(|it| start.to_lowercase().starts_with(**it))?;
    let is_one_line = ["; Seed: ", "; Exclude from Image: "]
        .iter()
        .any(|label| text.contains(label));
    let separator = if is_one_line { "; " } else { "\n" };
    let mut members: Map<String, Value> = Map::new();
    let mut last = String::new();
    for part in text.split(separator) {
        let pair = part.split_once(':').filter(|(label, value)| {
            let is_word = |it: char| it.is_alphanumeric() || " _-".contains(it);
            (value.trim().is_empty() || value.starts_with(' '))
                && label.len() <= MAX_LABEL_BYTES
                && label.starts_with(|it: char| it.is_uppercase() || is_lower)
                && label.chars().all(is_word)
                && !members.contains_key(*label)
        });
        if let Some((label, value)) = pair {
            label.clone_into(&mut last);
            members.insert(last.clone(), value.trim().into());
        } else if let Some(Value::String(value)) = members.get_mut(&last) {
            value.push_str(separator);
            value.push_str(part);
        }
    }
    if *first == STARTS[2] {
        // Mochi Diffusion escapes the breaks of lines and the sign that does so.
        for value in members.values_mut() {
            let parts = fields::written(value);
            let parts = parts.split("\\\\").map(|part| part.replace("\\n", "\n"));
            *value = parts.collect::<Vec<_>>().join("\\").into();
        }
    }
    read(&members.into())
}

/// Names and values of the members that were not read.
pub(super) fn unread(fields: JsonFields<'_>, unmentioned: &str) -> Vec<(String, String)> {
    const MOST: usize = 500;
    let is_mentioned = |name: &str| {
        let mut unmentioned = unmentioned.split(", ");
        !unmentioned.any(|known| fields::is_called(name, known))
    };
    let unread = fields.unread().filter(|(name, _)| is_mentioned(name));
    unread
        .take(MOST)
        .map(|(name, value)| (name.to_owned(), fields::written(value)))
        .collect()
}

/// The words that nearly all use.
pub(super) fn common(fields: JsonFields<'_>, tool: &str) -> ForeignSettings {
    let mut restored = ForeignSettings::of(tool);
    restored.prompt = fields.read("prompt, positive_prompt, include_in_image", words);
    restored.negative_prompt = fields.read("negative_prompt, n_prompt, exclude_from_image", words);
    fields.read("seed", |seed| restored.take_seed(seed).then_some(()));
    let steps = "steps, num_inference_steps, sample_steps, inference_steps, dif_steps";
    restored.num_steps = fields.count(steps);
    if restored.num_steps.is_none()
        && let Some(steps) = fields.get(steps)
    {
        let steps = short(&steps.to_string());
        restored.note(format!("Its number of steps, {steps}, cannot be used"));
    }
    let width = fields.count("width, image_width, img_width");
    restored.take_size(width.zip(fields.count("height, image_height, img_height")));
    restored.take_size(fields.size("resolution, size"));
    restored.fps = fields.number("fps, force_fps, frame_rate");
    restored.num_frames = fields.count("num_frames, video_length, video_frames");
    restored.cfg_scale = fields.number("true_cfg_scale, cfg_scale, cfg");
    restored.distilled_guidance = fields.number("distilled_guidance_scale, distilled_guidance, distilled_cfg_scale, guidance, embedded_guidance_scale, flux_guidance_scale, gs");
    // Beside a CFG scale it is that of a distilled model.
    let guidance = match restored.cfg_scale {
        Some(_) => &mut restored.distilled_guidance,
        None => &mut restored.cfg_scale,
    };
    if guidance.is_none() {
        *guidance = fields.number("guidance_scale");
    }
    restored.shift = fields.number("shift, flow_shift, sigma_shift");
    restored.strength = fields
        .number("strength, denoising_strength, init_image_creativity, prompt_strength")
        .filter(|strength| *strength < 1.0);
    fields.read("loras, lora, lora_values", |loras| {
        take_loras(loras, &mut restored).then_some(())
    });
    restored
}

/// A text, perhaps in a list, perhaps with a weight.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => match &list[..] {
            [Value::String(text)] => Some(text.clone()),
            [only] => JsonFields::from_value(only)?.text("prompt"),
            _ => None,
        },
        _ => None,
    }
}

/// Texts and numbers of a list, or of one text, which may be a list as Python writes it.
pub(super) fn words_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(words) => {
            let word = |word: &Value| match word {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            };
            words.iter().map(word).collect()
        }
        Value::String(text) => {
            let text = text.trim();
            let inside = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            let words = inside.unwrap_or(text).split(',');
            let words = words.map(|word| match inside {
                Some(_) => word.trim().trim_matches(['\'', '"']).to_owned(),
                None => word.trim().to_owned(),
            });
            Some(words.filter(|word| !word.is_empty()).collect())
        }
        Value::Number(number) => Some(vec![number.to_string()]),
        _ => None,
    }
}

/// Adds the LoRAs of `{"name": 0.8}`, of a list, or of a text of either. Returns whether it is one of these.
pub(super) fn take_loras(value: &Value, restored: &mut ForeignSettings) -> bool {
    match value {
        Value::Object(_) if take_lora(value, restored) => {}
        Value::Object(loras) => {
            for (name, strength) in loras {
                restored.add_listed_lora(name, Some(strength));
            }
        }
        Value::Array(loras) => {
            for lora in loras {
                if !take_lora(lora, restored) {
                    let lora = short(&lora.to_string());
                    restored.note(format!("A LoRA could not be read: {lora}"));
                }
            }
        }
        Value::String(text) if text.contains("<lora:") => {
            restored.add_tags(TaggedPrompt::of_foreign(text, true));
        }
        Value::String(text) => {
            let parsed = fields::parse(text).or_else(|| fields::parse(&text.replace('\'', "\"")));
            if let Some(loras) = parsed {
                return take_loras(&loras, restored);
            }
            let mut start = 0;
            let ends = text.match_indices(',').map(|(at, _)| at);
            for end in ends.chain([text.len()]) {
                let is_digit = |it: Option<char>| it.is_some_and(|it| it.is_ascii_digit());
                let behind = text.get(end + 1..).unwrap_or_default().chars().next();
                // The comma of a decimal.
                if is_digit(text[..end].chars().next_back()) && is_digit(behind) {
                    continue;
                }
                let word = text[start..end].trim();
                start = (end + 1).min(text.len());
                if !names::is_automatic(word) {
                    take_pair(word, restored);
                }
            }
        }
        _ => return false,
    }
    true
}

/// Adds the LoRA of `name : 0.8`, or at 1 of `name`.
fn take_pair(text: &str, restored: &mut ForeignSettings) {
    let pair = text.rsplit_once(':');
    let pair = pair.map(|(name, strength)| (name.trim(), Value::from(strength.trim())));
    match pair.filter(|(_, strength)| fields::number(strength).is_some()) {
        Some((name, strength)) => restored.add_listed_lora(name, Some(&strength)),
        None => restored.add_listed_lora(text, None),
    }
}

/// Adds one LoRA of a list; returns whether it is read, or turned off.
fn take_lora(lora: &Value, restored: &mut ForeignSettings) -> bool {
    let strengths = "weight, strength, scale, multiplier, model_weight, strength_model";
    if let Some(name) = lora.as_str() {
        take_pair(name, restored);
    } else if let Some([Value::String(name), strength, ..]) = lora.as_array().map(Vec::as_slice) {
        // Fooocus: name, strength, hash.
        restored.add_listed_lora(name, Some(strength));
    } else if let Some(lora) = JsonFields::from_value(lora) {
        let is_off = |value: &Value| (*value == Value::Bool(false)).then_some(());
        if lora
            .read("enabled, is_enabled, on, active", is_off)
            .is_some()
        {
            return true;
        }
        let model = lora.object("model, lora");
        let name = lora
            .name("name, file, path, lora, model, model_name")
            .or_else(|| model?.name("name, model_name, key"));
        let Some(name) = name else {
            return false;
        };
        restored.add_listed_lora(&name, lora.get(strengths));
    } else {
        return false;
    }
    true
}

pub(super) fn take_names(
    restored: &mut ForeignSettings,
    fields: JsonFields<'_>,
    samplers: &str,
    schedules: &str,
) {
    if let Some(name) = fields.name(samplers) {
        restored.take_sampler(&name);
    }
    match fields.name(schedules) {
        // Some call the sampler so.
        Some(name) if names::schedule(&name).is_none() && names::sampler(&name).0.is_some() => {
            restored.take_sampler(&name);
        }
        Some(name) => restored.take_schedule(&name),
        None => {}
    }
}

/// JSON of an unknown program: taken where it has a prompt, and a seed or steps.
fn plain(fields: JsonFields<'_>) -> Option<ForeignSettings> {
    let mut restored = common(fields, "another program");
    programs::take_characters(&mut restored, fields);
    let says = restored.seed.is_some() || restored.num_steps.is_some();
    if !says || (restored.prompt.is_none() && !fields.has_like("prompt")) {
        return None;
    }
    let model = "model, model_name, checkpoint, model_id, base_model, use_stable_diffusion_model, stable_diffusion_model, selected_model";
    let name = fields.name(model);
    let name = name.or_else(|| fields.object("model")?.name("name, model_name, title, key"));
    restored.model = name.map(|model| file_name(&model).to_owned());
    restored.model_hash = fields.name("model_hash, base_model_hash");
    take_names(
        &mut restored,
        fields,
        "sampler, sampler_name, sampler_type, sample_method",
        "scheduler, scheduler_name, schedule, schedule_type, noise_schedule",
    );
    // Easy Diffusion.
    let strengths = fields.read("lora_alpha", words_of).unwrap_or_default();
    let mut strengths = strengths.into_iter().map(Value::from);
    for name in fields
        .read("use_lora_model, lora_model", words_of)
        .unwrap_or_default()
    {
        let strength = strengths.next();
        if name != "None" {
            restored.add_listed_lora(&name, strength.as_ref());
        }
    }
    take_numbered_loras(&mut restored, fields);
    let tool = fields
        .text("version, generator, software, app")
        .unwrap_or_default();
    let tool = tool.to_lowercase();
    if let Some((_, name)) = TOOLS.iter().find(|(word, _)| tool.contains(word)) {
        restored.tool = (*name).to_owned();
    } else if fields
        .get("use_stable_diffusion_model, stable_diffusion_model")
        .is_some()
    {
        restored.tool = "Easy Diffusion".to_owned();
    } else if fields.has("uc") && fields.has("scale") {
        restored.tool = "NovelAI".to_owned();
        restored.negative_prompt = restored.negative_prompt.or_else(|| fields.text("uc"));
        restored.cfg_scale = fields.number("scale");
    } else if fields.has("civitaiResources") || fields.has("resources") {
        restored.tool = "Civitai".to_owned();
    }
    if let Some(prompt) = restored.prompt.take() {
        let loras = std::mem::take(&mut restored.loras);
        restored.prompt = Some(restored.take_tags(&prompt, true));
        restored.add_unknown_loras(ForeignSettings {
            loras,
            ..ForeignSettings::default()
        });
    }
    Some(restored)
}

/// Adds Fooocus' LoRAs, `"lora_combined_1": "name : 0.8"`, which may be in a list too.
fn take_numbered_loras(restored: &mut ForeignSettings, fields: JsonFields<'_>) {
    let mut listed = ForeignSettings::default();
    for name in fields.0.keys() {
        let plain = names::plain(name);
        let number = plain.strip_prefix("lora").unwrap_or("none");
        let number = number.strip_prefix("combined").unwrap_or(number);
        if number.parse::<u32>().is_ok()
            && let Some(text) = fields.text(name)
        {
            take_pair(&text, &mut listed);
        }
    }
    restored.add_unknown_loras(listed);
}
