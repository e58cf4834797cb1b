//! JSON of known programs: SwarmUI, Wan2GP, FramePack and its Studio, Draw Things, and the characters of NovelAI.

use crate::restore::names::file_name;
use serde_json::Value;

use super::controls::kind_named;
use super::fields::{JsonFields, ReadNames};
use super::names::stem;
use super::others::{common, take_loras, take_names, unread, words_of};
use super::{ForeignSettings, RestoredControl, RestoredLora, invoke, names, short};
use crate::job::{SectionOrder, StepCache, StepCacheKind};
use crate::model::ModelFamily;

/// Reads the settings of the program that its members tell; `all` is the object around them.
pub(super) fn read(fields: JsonFields<'_>, all: JsonFields<'_>) -> Option<ForeignSettings> {
    let kind = fields.text("type").unwrap_or_default();
    let is_wan2gp = kind.starts_with("WanGP")
        || (fields.has("num_inference_steps") && fields.has("resolution"))
        || fields.has("activated_loras");
    Some(if all.has("sui_image_params") {
        swarm(fields, all)
    } else if is_wan2gp {
        wan2gp(fields)
    } else if fields.has("total_second_length") || fields.has("latent_window_size") {
        framepack(fields)
    } else if fields.has("c") && (fields.has("uc") || fields.has("sampler")) {
        draw_things(fields)
    } else if fields.has("positive_prompt") || fields.has("app_version") || all.has("model_weights")
    {
        invoke::read(fields, all)
    } else {
        return None;
    })
}

fn swarm(params: JsonFields<'_>, all: JsonFields<'_>) -> ForeignSettings {
    let mut restored = common(params, "SwarmUI");
    let common_loras = std::mem::take(&mut restored.loras);
    if let Some(prompt) = restored.prompt.take() {
        let prompt = restored.take_parts(&prompt);
        restored.prompt = Some(restored.take_tags(&prompt, false));
    }
    if let Some(negative) = restored.negative_prompt.take() {
        restored.negative_prompt = Some(restored.take_parts(&negative));
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
    // The hash of the model itself among all files that were used.
    let model = restored.model.clone().unwrap_or_default();
    restored.model_hash = all.objects("sui_models").find_map(|file| {
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
        let numbers = ["strength", "start", "end"];
        let numbers = numbers.map(|name| params.number(&format!("{start}{name}")));
        let network = params.name(&format!("{start}model"));
        if let Some(network) = network.filter(|network| !names::is_automatic(network)) {
            let network = Some(file_name(&network).to_owned());
            let kind = params.name(&format!("{start}uniontype"));
            restored.add_control(RestoredControl {
                kind: kind.as_deref().and_then(kind_named),
                ..RestoredControl::new(network, numbers)
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
    // Those of the prompt's tags are in the list again, each with its weight and stage.
    let has_low = restored.model_2.is_some();
    let mut listed = ForeignSettings::default();
    match params.read("loras", words_of) {
        Some(names) => {
            let list = |name: &str| params.read(name, words_of).unwrap_or_default().into_iter();
            let (mut weights, mut stages) = (list("loraweights"), list("lorasectionconfinement"));
            for name in names {
                let weight = weights.next().filter(|weight| !weight.is_empty());
                let weight = weight.map(Value::from);
                match (stages.next().as_deref(), has_low) {
                    (Some("5"), true) => listed.add_expert_lora(&name, weight.as_ref(), false),
                    (Some("1" | "3"), true) => listed.add_expert_lora(&name, weight.as_ref(), true),
                    // Everywhere, or on the base stage alone.
                    (None | Some("" | "-1" | "0" | "5"), _) => {
                        listed.add_listed_lora(&name, weight.as_ref());
                    }
                    (Some(_), _) => listed.note(format!(
                        "The LoRA {} acted on another stage alone and is not used",
                        short(file_name(&name))
                    )),
                }
            }
        }
        None => listed.loras = common_loras,
    }
    restored.add_unknown_loras(listed);
    if let Some(video) = params.name("videomodel") {
        restored.note(format!(
            "The image was made into a video by {} in a second stage, which is not repeated",
            short(&video)
        ));
    }
    if params.get("initimage").is_some() {
        restored.note_file("start image", None);
    }
    restored
}

impl ForeignSettings {
    /// Returns a prompt of SwarmUI without the parts for other stages and for regions, which are named. Words for the
    /// base stage stay.
    fn take_parts(&mut self, prompt: &str) -> String {
        const PARTS: &str = "base refiner video videoswap edit segment object region extend clear";
        let mut kept = String::new();
        let (mut start, mut is_kept) = (0, true);
        let mut take = |part: &str, is_kept: bool| {
            if is_kept {
                let (words, part) = (kept.trim_end().len(), part.trim());
                kept.truncate(words);
                let space = if kept.is_empty() || part.is_empty() {
                    ""
                } else {
                    " "
                };
                kept.extend([space, part]);
            } else {
                let part = short(part);
                self.note(format!(
                    "The part {part} of the prompt is not used: it was for another stage or region"
                ));
            }
        };
        for (at, _) in prompt.match_indices('<') {
            let tag = &prompt[at + 1..];
            let letters = tag.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (name, behind) = tag.split_at(letters);
            let is_part = behind.starts_with(['>', ':', '/'])
                && PARTS.split(' ').any(|part| part.eq_ignore_ascii_case(name));
            let Some(end) = behind.find('>').filter(|_| is_part) else {
                continue;
            };
            take(&prompt[start..at], is_kept);
            is_kept = name.eq_ignore_ascii_case("base") || behind.starts_with(":end>");
            start = if is_kept {
                at + 1 + letters + end + 1
            } else {
                at
            };
        }
        take(&prompt[start..], is_kept);
        kept
    }
}

fn wan2gp(fields: JsonFields<'_>) -> ForeignSettings {
    let mut restored = common(fields, "Wan2GP");
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
    take_names(&mut restored, fields, "sample_solver", "");
    wan2gp_loras(fields, &mut restored);
    // It makes images as videos of one frame.
    if fields.number("image_mode").is_some_and(|mode| mode > 0.0) {
        restored.num_frames = Some(1);
    }
    for (name, what) in [
        ("image_start", "start image"),
        ("image_end", "end image"),
        ("image_refs", "reference image"),
        ("video_source", "video to extend"),
        ("video_guide", "control video"),
    ] {
        let files = fields.read(name, words_of);
        let others = fields.list(name).iter().take(1);
        let others = others.filter(|_| files.is_none()).map(|_| None);
        let files = files.iter().flatten().map(|file| Some(file.as_str()));
        for file in files.chain(others) {
            restored.note_file(what, file);
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
    let strengths = fields.read("loras_multipliers", |value| match value {
        Value::String(text) => Some(text.clone()),
        list => Some(words_of(list)?.join(" ")),
    });
    let strengths = strengths.unwrap_or_default();
    let mut strengths = strengths
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split([' ', '|']))
        .filter(|word| !word.is_empty());
    let names = fields.read("activated_loras, loras_choices", words_of);
    for name in names.unwrap_or_default() {
        let word = strengths.next().unwrap_or("1");
        // Of strengths that change with the steps the first.
        let phases = word.split(';').map(|phase| phase.split(',').next());
        let phases: Option<Vec<f64>> = phases
            .map(|first| first?.parse().ok().filter(|it: &f64| it.is_finite()))
            .collect();
        let Some([strength, others @ ..]) = phases.as_deref() else {
            restored.add_listed_lora(&name, Some(&word.into()));
            continue;
        };
        let mut lora = RestoredLora::new(&name, *strength);
        lora.strength_2 = others.first().copied();
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
    restored.window = fields.count("latent_window_size");
    for (kind, switch, thresholds) in [
        (
            StepCacheKind::TeaCache,
            "use_teacache",
            "teacache_rel_l1_thresh, teacache_thresh",
        ),
        (
            StepCacheKind::MagCache,
            "use_magcache",
            "magcache_threshold",
        ),
    ] {
        let named = fields.number(thresholds);
        if fields.is_on(switch) && restored.step_cache.is_none() {
            let mut cache = StepCache::from(kind);
            let named = named.filter(|it| kind.thresholds().contains(it));
            cache.threshold = named.unwrap_or(cache.threshold);
            restored.step_cache = Some(cache);
        }
    }
    for (switch, path, what) in [
        ("has_input_image", "input_image_path", "start image"),
        ("end_frame_used", "end_frame_image_path", "end image"),
    ] {
        let path = fields.name(path).filter(|it| !names::is_automatic(it));
        if fields.is_on(switch) || path.is_some() {
            restored.note_file(what, path.as_deref());
        }
    }
    if !restored.loras.is_empty() {
        fields.get("lora_values");
    }
    restored
}

/// Members of Draw Things' `v2` that act with others alone, or not on models that run here.
const IDLE: &str = "id, name, model, steps, seed, sampler, width, height, guidanceScale, guidanceEmbed, strength, shift, resolutionDependentShift, speedUpWithGuidanceEmbed, t5TextEncoder, t5TextEncoderDecoding, preserveOriginalAfterInpaint, negativePromptForImagePrior, imagePriorSteps, seedMode, numFrames, fps, motionScale, guidingFrameNoise, startFrameGuidance, stage2Steps, stage2Guidance, stage2Shift, aestheticScore, negativeAestheticScore, originalImageWidth, originalImageHeight, targetImageWidth, targetImageHeight, negativeOriginalImageWidth, negativeOriginalImageHeight, cropTop, cropLeft, refinerStart, hiresFix, hiresFixWidth, hiresFixHeight, hiresFixStrength, decodingTileWidth, decodingTileHeight, decodingTileOverlap, diffusionTileWidth, diffusionTileHeight, diffusionTileOverlap, causalInference, causalInferencePad, compressionArtifactsQuality, batchCount, batchSize, maskBlur, maskBlurOutset";

/// Defaults of the other members of `v2`.
const USUAL: [(&str, f64); 5] = [
    ("clipSkip", 1.0),
    ("clipWeight", 1.0),
    ("imageGuidanceScale", 1.5),
    ("stochasticSamplingGamma", 0.3),
    ("shiftForAudio", 1.0),
];

fn draw_things(fields: JsonFields<'_>) -> ForeignSettings {
    const IDLE_OUTSIDE: &str =
        "mask_blur, mask_blur_outset, first_stage_size, second_stage_strength, refiner_start";
    let mut restored = common(fields, "Draw Things");
    restored.prompt = fields.text("c");
    restored.negative_prompt = fields.text("uc");
    restored.model = fields.name("model");
    restored.cfg_scale = fields.number("scale");
    take_names(&mut restored, fields, "sampler", "");
    IDLE_OUTSIDE
        .split(", ")
        .for_each(|name| _ = fields.get(name));
    let (empty, names) = (serde_json::Map::new(), ReadNames::default());
    let all = fields
        .object("v2")
        .unwrap_or_else(|| JsonFields::new(&empty))
        .noting(&names);
    // Models with distilled guidance embed the scale, unless that is turned off.
    if all.get("speedUpWithGuidanceEmbed") == Some(&Value::Bool(false)) {
        restored.distilled_guidance = all.number("guidanceEmbed");
    }
    let refiner = fields.name("refiner").or_else(|| all.name("refinerModel"));
    let high = restored.model.clone().unwrap_or_default();
    restored.model_2 = refiner.filter(|low| {
        let are_experts = names::are_experts(&high, low);
        if !are_experts {
            restored.note(format!("Not used: the refiner {}", short(low)));
        }
        are_experts
    });
    let loras = all.read("loras", |loras| loras.is_array().then_some(loras));
    if restored.loras.is_empty()
        && let Some(loras) = loras
    {
        take_loras(loras, &mut restored);
    }
    if restored.model_2.is_some() {
        for lora in fields.objects("lora").chain(all.objects("loras")) {
            let (name, mode) = (lora.name("file, model"), lora.name("mode"));
            let known = restored
                .loras
                .iter_mut()
                .find(|it| Some(&it.path) == name.as_ref());
            match known.zip(mode.as_deref()) {
                Some((known, "base")) => known.strength_2 = Some(0.0),
                Some((known, "refiner")) => {
                    known.strength_2 = Some(std::mem::take(&mut known.strength));
                }
                _ => {}
            }
        }
    }
    let family = names::family(&high);
    if family.is_some_and(|family| !family.makes_images) {
        restored.num_frames = all.count("numFrames");
    }
    if fields.is_on("hires_fix") || all.is_on("hiresFix") {
        let first = fields.size("first_stage_size").or_else(|| {
            let width = all.count("hiresFixWidth");
            width.zip(all.count("hiresFixHeight"))
        });
        let strength = fields.number("second_stage_strength");
        let strength = strength.or_else(|| all.number("hiresFixStrength"));
        let scale = restored.width.zip(first);
        let scale = scale.map(|(width, first)| f64::from(width) / f64::from(first.0));
        restored.add_second_pass(scale, strength.unwrap_or(0.7), "high resolution fix", "");
        if restored.second_pass.is_some() {
            (restored.width, restored.height) = first.unzip();
        }
    }
    for control in all.objects("controls") {
        let numbers = ["weight", "guidanceStart", "guidanceEnd"].map(|name| control.number(name));
        let kind = control.name("inputOverride");
        restored.add_control(RestoredControl {
            kind: kind.as_deref().and_then(kind_named),
            ..RestoredControl::new(control.name("file"), numbers)
        });
    }
    let is_usual = |name: &str, value: &str| {
        let value: f64 = value.parse().unwrap_or(f64::NAN);
        USUAL
            .iter()
            .any(|(known, usual)| *known == name && (value - usual).abs() < 1e-5)
    };
    let mut unused = unread(all, IDLE);
    unused.retain(|(name, value)| !is_usual(name, value));
    restored.note_unused(&unused);
    restored
}

/// Adds the prompts of NovelAI's characters to those of the image.
pub(super) fn take_characters(restored: &mut ForeignSettings, fields: JsonFields<'_>) {
    for (member, is_negative) in [("v4_prompt", false), ("v4_negative_prompt", true)] {
        let Some(caption) = fields.object(member).and_then(|it| it.object("caption")) else {
            continue;
        };
        let characters = caption.objects("char_captions");
        let characters = characters.filter_map(|it| it.name("char_caption"));
        let characters: Vec<String> = characters.collect();
        let prompt = if is_negative {
            fields.text("uc").or_else(|| caption.text("base_caption"))
        } else {
            let own = restored.prompt.take();
            own.or_else(|| caption.text("base_caption"))
        };
        let all = prompt.into_iter().chain(characters.clone());
        let all: Vec<String> = all.filter(|text| !text.trim().is_empty()).collect();
        let field = if is_negative {
            &mut restored.negative_prompt
        } else {
            &mut restored.prompt
        };
        *field = Some(all.join(", "));
        if !characters.is_empty() {
            restored.note(
                "The prompts of its characters are added to the prompt, without their places",
            );
        }
    }
}
