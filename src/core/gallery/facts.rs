//! Metadata of one result file: size, length, and embedded settings.
//!
//! Files are untrusted: unexpected values are dropped, and long texts are cut. Restoring a form is done elsewhere.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::job::{PostprocessKind, SamplerKind};
use crate::media::{
    FoundSound, MediaError, SoundCodec, VideoFormat, VideoInfo, media_info, read_settings,
    sound_for, video_files, video_info,
};
use crate::restore::{self, ForeignSettings, RestoredLora};

/// Longer prompts are cut in the index, not in the file.
const MAX_PROMPT_CHARS: usize = 20_000;
/// Longer names are no names.
const MAX_NAME_CHARS: usize = 300;
/// More LoRAs than anybody uses at once.
const MAX_LORAS: usize = 64;
const MAX_REFERENCES: usize = 16;
/// Nobody finishes a result as often.
const MAX_FINISHED: usize = 16;
/// Further values by their JSON pointer in a request, each with a label and the default that is left out.
const OTHERS: [(&str, &str, &str); 20] = [
    ("/computer", "Computer", ""),
    ("/prompt_template", "Prompt as written", ""),
    ("/negative_prompt_template", "Negative as written", ""),
    ("/prompt_weights", "Prompt weights", "off"),
    ("/guidance_scale_2", "Low-noise guidance", ""),
    ("/true_cfg_scale", "CFG scale", "1"),
    ("/guidance_range", "Guidance range", "0-1"),
    ("/start_step", "First step", "0"),
    ("/end_step", "Last step", ""),
    ("/step_cache", "Step cache", ""),
    ("/keeps_unmasked", "Keep unmasked", "off"),
    ("/fit", "Fit", "stretch"),
    ("/sections/order", "Order", ""),
    ("/batch_size", "Batch", "1"),
    ("/dtype", "Precision", "auto"),
    ("/vae_tile", "VAE tiles", ""),
    ("/max_sequence_length", "Text tokens", ""),
    ("/companions/vae", "VAE", ""),
    ("/companions/text_encoder", "Text encoder", ""),
    ("/companions/text_encoder_2", "Text encoder 2", ""),
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaKind {
    #[default]
    Image,
    Video,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultMetadata {
    pub kind: MediaKind,
    pub width: u32,
    pub height: u32,
    pub num_frames: u32,
    /// Frames a second; 0 of an image.
    pub fps: f64,
    pub prompt: String,
    pub negative_prompt: String,
    pub model: String,
    pub seed: Option<u64>,
    pub sampler: String,
    pub num_steps: Option<u64>,
    pub guidance_scale: Option<f64>,
    pub made_from: Box<MadeFrom>,
    /// Post-processing that was applied, in order.
    pub finished: Vec<PostprocessInfo>,
    pub sound: Option<SoundCodec>,
    /// Time that the job took.
    pub secs: Option<f64>,
    pub has_settings: bool,
    pub is_frame: bool,
}

/// Post-processing of an existing image or video.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostprocessInfo {
    /// Path as its user named it; a relative one is next to the result.
    pub source: PathBuf,
    /// Size, length and rate of the source.
    pub before: VideoInfo,
    /// And of what was made of it.
    pub after: VideoInfo,
    #[serde(flatten)]
    pub work: PostprocessKind,
}

/// Inputs of a result in addition to its prompt; file names are empty if there was none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MadeFrom {
    /// Each with its strength: `ink (0.8)`.
    pub loras: Vec<String>,
    /// Denoising strength of the start image.
    pub strength: Option<f64>,
    pub scheduler: String,
    pub shift: String,
    pub guider: String,
    /// Scale and strength: `×2, strength 0.4`.
    pub second_pass: String,
    pub start: String,
    pub end: String,
    pub mask: String,
    /// The video that it continues.
    pub extended: String,
    /// The video that it was made of.
    pub source_video: String,
    pub references: Vec<String>,
    /// Each with its strength: `depth.png (0.8)`.
    pub controls: Vec<String>,
    /// Each with its strength.
    pub prompt_images: Vec<String>,
    /// Names and values of everything else that is not as usual.
    pub others: Vec<(String, String)>,
}

impl ResultMetadata {
    pub fn video_secs(&self) -> Option<f64> {
        let secs = f64::from(self.num_frames) / self.fps;
        (self.kind == MediaKind::Video && secs.is_finite()).then_some(secs)
    }
}

/// Reads what the file at `path` says of itself.
pub fn read_facts(path: &Path) -> Result<ResultMetadata, MediaError> {
    let info = media_info(path)?;
    let mut facts = ResultMetadata {
        width: info.width,
        height: info.height,
        num_frames: info.num_frames,
        fps: info.fps,
        ..ResultMetadata::default()
    };
    // Settings that cannot be read are none: the image is still there.
    let settings = read_settings(path).ok().flatten();
    let settings: Option<Value> = settings.and_then(|text| serde_json::from_str(&text).ok());
    if let Some(settings) = settings {
        facts.take_finished(&settings);
        facts.take_settings(&settings, path);
    }
    if !facts.has_settings
        && let Ok(Some(restore::FileSettings::Other(restored))) = restore::read(path)
    {
        facts.take_restored(*restored);
    }
    if facts.num_frames > 1 {
        facts.kind = MediaKind::Video;
    }
    if matches!(VideoFormat::from_path(path), Ok(VideoFormat::Mp4))
        && let Ok(FoundSound {
            sound: Some(sound), ..
        }) = sound_for(path, path)
    {
        facts.sound = Some(sound.codec());
    }
    Ok(facts)
}

impl ResultMetadata {
    fn take_restored(&mut self, restored: ForeignSettings) {
        let text = |text: Option<String>, max: usize| -> String {
            text.unwrap_or_default().chars().take(max).collect()
        };
        self.prompt = text(restored.prompt, MAX_PROMPT_CHARS);
        self.negative_prompt = text(restored.negative_prompt, MAX_PROMPT_CHARS);
        self.model = text(restored.model, MAX_NAME_CHARS);
        self.sampler = text(
            restored.sampler.map(SamplerKind::name).map(str::to_owned),
            MAX_NAME_CHARS,
        );
        self.seed = restored.seed;
        self.num_steps = restored.num_steps.map(u64::from);
        self.guidance_scale = restored.distilled_guidance.or(restored.cfg_scale);
        self.made_from.strength = restored.strength;
        let loras = restored.loras.iter().map(RestoredLora::described);
        self.made_from.loras = loras.collect();
        self.has_settings = true;
    }

    fn take_finished(&mut self, settings: &Value) {
        let done = settings["finished"].as_array().into_iter().flatten();
        let done = done.take(MAX_FINISHED).map(PostprocessInfo::deserialize);
        self.finished = done.filter_map(Result::ok).collect();
    }

    fn take_settings(&mut self, settings: &Value, path: &Path) {
        let request = &settings["request"];
        if !request.is_object() {
            return;
        }
        let text = |value: &Value, max: usize| -> String {
            value
                .as_str()
                .unwrap_or_default()
                .chars()
                .take(max)
                .collect()
        };
        let number = |value: &Value| value.as_f64().filter(|number| number.is_finite());
        self.prompt = text(&request["prompt"], MAX_PROMPT_CHARS);
        self.negative_prompt = text(&request["negative_prompt"], MAX_PROMPT_CHARS);
        self.model = text(&request["model"], MAX_NAME_CHARS);
        self.sampler = text(&request["sampler"], MAX_NAME_CHARS);
        self.seed = request["seed"].as_u64();
        self.num_steps = request["num_steps"].as_u64();
        self.guidance_scale = number(&request["guidance_scale"]);
        let loras = request["loras"].as_array().into_iter().flatten();
        let references = request["references"].as_array().into_iter().flatten();
        let controls = request["controls"].as_array().into_iter().flatten();
        let prompts = request["prompt_images"].as_array().into_iter().flatten();
        *self.made_from = MadeFrom {
            loras: loras.take(MAX_LORAS).filter_map(lora_text).collect(),
            strength: number(&request["strength"]),
            scheduler: text(&request["sigma_schedule"], MAX_NAME_CHARS),
            shift: match number(&request["shift"]) {
                Some(shift) => shift.to_string(),
                None if request["dynamic_shift"] == true => "dynamic".to_owned(),
                None => String::new(),
            },
            guider: text(&request["guider"], MAX_NAME_CHARS),
            second_pass: second_pass_text(&request["second_pass"]).unwrap_or_default(),
            start: file_name(&request["image"]),
            end: file_name(&request["last_image"]),
            mask: file_name(&request["mask"]),
            references: references.take(MAX_REFERENCES).map(file_name).collect(),
            controls: controls.take(MAX_REFERENCES).map(control_text).collect(),
            prompt_images: prompts
                .take(MAX_REFERENCES)
                .filter_map(image_text)
                .collect(),
            extended: file_name(&request["extend"]),
            source_video: file_name(&request["source_video"]),
            others: other_values(request),
        };
        self.secs = number(&settings["secs"]).filter(|secs| *secs >= 0.0);
        self.has_settings = true;
        let num_frames = request["num_frames"].as_u64().unwrap_or(1);
        let is_still = VideoFormat::from_path(path).is_ok_and(VideoFormat::is_still);
        // A frame that was saved separately has its video's settings, and its number in addition.
        let is_alone = settings.get("frame").is_some();
        if is_still && num_frames > 1 && !is_alone && number_of(path).is_some() {
            self.is_frame = true;
            // The number of existing files: a stopped job made fewer than requested, one that extends a video more.
            // Only the first one is listed and counted.
            let asked = u32::try_from(num_frames).unwrap_or(u32::MAX);
            let is_first = number_of(path).is_some_and(|(_, number)| number <= 1);
            let info = is_first.then(|| video_info(path).ok()).flatten();
            self.num_frames = info.map_or(asked, |info| info.num_frames);
            self.fps = number(&request["fps"]).unwrap_or_default().max(0.0);
        }
    }
}

/// The end of a path, which is what people know of it.
fn file_name(value: &Value) -> String {
    let path = value.as_str().unwrap_or_default();
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    name.chars().take(MAX_NAME_CHARS).collect()
}

fn other_values(request: &Value) -> Vec<(String, String)> {
    let values = OTHERS.iter().filter_map(|(place, name, usual)| {
        let value = request.pointer(place)?;
        let is_file = place.starts_with("/companions");
        let text = if is_file {
            file_name(value)
        } else {
            value_text(value)
        };
        (!text.is_empty() && text != *usual).then(|| ((*name).to_owned(), text))
    });
    values.collect()
}

/// A number, a word, `on`, `off`, or several of them; empty for nothing.
fn value_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(is_on) => if *is_on { "on" } else { "off" }.to_owned(),
        Value::Number(number) => number.as_f64().unwrap_or_default().to_string(),
        Value::String(text) => text.chars().take(MAX_PROMPT_CHARS).collect(),
        Value::Array(values) => joined(values.iter().take(MAX_REFERENCES)),
        Value::Object(values) => joined(values.values().take(MAX_REFERENCES)),
    }
}

fn joined<'a>(values: impl Iterator<Item = &'a Value>) -> String {
    values.map(value_text).collect::<Vec<_>>().join(", ")
}

/// `depth.png`, and with what is not as usual `depth.png (0.8, depth, from 0.1, until 0.6, network depth-net)`.
fn control_text(control: &Value) -> String {
    let values = ["strength", "kind", "from", "until", "edges"];
    let values = values.map(|key| (key, value_text(&control[key])));
    let files = ["mask", "network"].map(|key| (key, file_name(&control[key])));
    let notes = values.into_iter().chain(files);
    let notes = notes.filter(|(_, text)| !text.is_empty());
    let notes = notes.map(|(key, text)| match key {
        "strength" | "kind" => text,
        _ => format!("{key} {text}"),
    });
    let (name, notes) = (file_name(&control["file"]), notes.collect::<Vec<_>>());
    if notes.is_empty() {
        return name;
    }
    format!("{name} ({})", notes.join(", "))
}

/// `ink (0.8)`, and with the strength on the low-noise expert `ink (0.8, 1)`.
fn lora_text(lora: &Value) -> Option<String> {
    let name = file_name(&lora["path"]);
    let name = name.strip_suffix(".safetensors").unwrap_or(&name);
    let strength = lora["strength"].as_f64().filter(|it| it.is_finite())?;
    Some(match lora["strength_2"].as_f64() {
        Some(second) => format!("{name} ({strength}, {second})"),
        None => format!("{name} ({strength})"),
    })
}

/// `×2, strength 0.4`
fn second_pass_text(pass: &Value) -> Option<String> {
    let [scale, strength] = [&pass["scale"], &pass["strength"]].map(Value::as_f64);
    Some(format!("×{}, strength {}", scale?, strength?))
}

/// `boat.png (0.5)`
fn image_text(image: &Value) -> Option<String> {
    let strength = image["strength"].as_f64().filter(|it| it.is_finite())?;
    Some(format!("{} ({strength})", file_name(&image["path"])))
}

/// `video` and 12 of `video_0012.png`.
pub(super) fn number_of(path: &Path) -> Option<(&str, u64)> {
    let (stem, digits) = path.file_stem()?.to_str()?.rsplit_once('_')?;
    let is_number = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((stem, digits.parse().ok().filter(|_| is_number)?))
}

/// All files of a result: itself, the other images of a numbered sequence, and its sidecar settings.
pub fn files_of(path: &Path, is_frame: bool) -> Vec<PathBuf> {
    let mut files = if is_frame {
        video_files(path).unwrap_or_else(|_| vec![path.to_path_buf()])
    } else {
        vec![path.to_path_buf()]
    };
    let mut sidecars = vec![path.with_extension("json")];
    if let Some((stem, _)) = number_of(path).filter(|_| is_frame) {
        sidecars.push(path.with_file_name(format!("{stem}.json")));
    }
    files.extend(sidecars.into_iter().find(|sidecar| is_ours(sidecar, path)));
    files
}

/// Returns whether the sidecar holds the settings of this result, and of no other next to it.
fn is_ours(sidecar: &Path, result: &Path) -> bool {
    let is_other = |extension: &str| {
        let other = sidecar.with_extension(extension);
        other != result && other.is_file()
    };
    sidecar.is_file()
        && !["mp4", "gif", "webp", "png", "jpg"]
            .iter()
            .any(|extension| is_other(extension))
        && read_settings(sidecar)
            .ok()
            .flatten()
            .and_then(|text| serde_json::from_str::<Value>(&text).ok())
            .is_some_and(|json| json["app"] == "Safelight" && json["request"].is_object())
}
