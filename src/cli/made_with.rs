//! `safelight inspect` for images, videos and JSON files: the settings of their making, by this or another program.

use std::fmt::Write as _;
use std::path::Path;

use safelight_core::catalog::ModelCatalog;
use safelight_core::job::{DtypeChoice, GenerateRequest, JobError, JobErrorKind, ResizeMode};
use safelight_core::media::{
    MediaError, MediaErrorKind, has_image_name, has_video_name, media_info,
};
use safelight_core::restore::{self, ComfyWorkflow, FileSettings, ForeignSettings};
use safelight_core::{fitting, sanitize};
use serde_json::{Value, json};

use super::CliEnvironment;
use super::generate::GenerateArgs;
use super::generate::restored::fit;

/// Endings of texts that can say how something was made.
const TEXTS: [&str; 2] = ["json", "txt"];
/// More characters than a prompt has.
const MAX_TEXT: usize = 20_000;

/// Settings of each result that a file makes, of most files one. Images and videos need not have any; `None` where it is
/// no such file, and may be a model.
pub(super) fn read(path: &Path) -> Option<Result<Vec<FileSettings>, JobError>> {
    let end = path.extension().unwrap_or_default();
    let is_text = TEXTS.iter().any(|known| end.eq_ignore_ascii_case(known));
    let is_known = is_text || has_image_name(path) || has_video_name(path);
    let is_media = || match media_info(path) {
        Ok(_) => true,
        Err(err) if err.kind == MediaErrorKind::NotAnImage => false,
        // Damaged, or a video that ffmpeg is missing for.
        Err(_) => path.metadata().is_ok_and(|meta| meta.len() > 0),
    };
    if !path.is_file() || !(is_known || is_media()) {
        return None;
    }
    Some(match restore::read_outputs(path) {
        Ok(found) if found.is_empty() => match media_info(path) {
            Ok(_) => Ok(found),
            Err(err) if err.kind == MediaErrorKind::NotAnImage => Err(restore::says_nothing(path)),
            // Damaged and empty files.
            Err(err) => Err(unreadable(&err)),
        },
        Ok(found) => Ok(found),
        Err(err) => Err(unreadable(&err)),
    })
}

fn unreadable(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err)
        .advise("Choose an image, a video, a JSON file, or a model's file or folder")
}

/// Use of a file's settings on this computer.
#[derive(Default)]
struct SettingsUse {
    /// Name of the model that they are used with.
    model: Option<String>,
    /// Settings that are not used or used differently, each as a sentence.
    notes: Vec<String>,
}

impl SettingsUse {
    fn of(found: &FileSettings, environment: &CliEnvironment) -> Self {
        let files = || fitting::find(&environment.paths, environment.settings());
        match found {
            FileSettings::Own(carried) => {
                let mut carried = carried.clone();
                let mut notes = carried.find_moved_loras(files);
                notes.extend(missing_files(&carried.request));
                let catalog = ModelCatalog::load(&environment.paths, environment.settings());
                let model = match catalog.find(&carried.request.model) {
                    Ok(spec) => Some(spec.name),
                    Err(err) => {
                        notes.push(err.to_string());
                        None
                    }
                };
                notes.extend(GenerateArgs::default().with_own(*carried).1);
                Self { model, notes }
            }
            FileSettings::Other(restored) => match fit(restored, true, None, environment) {
                Ok(fitted) => Self {
                    model: Some(fitted.spec.name),
                    notes: fitted.warnings,
                },
                Err(err) => {
                    let mut notes = restored.notes.clone();
                    notes.push(err.summary);
                    let (_, missing) = restored.find_loras(&files());
                    notes.extend(ForeignSettings::without_loras(&missing));
                    Self { model: None, notes }
                }
            },
        }
    }
}

/// Names the files of a job that are gone.
fn missing_files(request: &GenerateRequest) -> impl Iterator<Item = String> {
    request
        .inputs()
        .filter(|path| !path.exists())
        .map(|path| format!("this file is missing: {}", path.display()))
}

/// The workflow of `ComfyUI` for a result of Safelight.
pub(super) fn comfy_workflow(
    path: &Path,
    environment: &CliEnvironment,
) -> Result<ComfyWorkflow, JobError> {
    match restore::read(path).map_err(|err| unreadable(&err))? {
        Some(FileSettings::Own(carried)) => {
            let request = carried.request;
            let catalog = ModelCatalog::load(&environment.paths, environment.settings());
            let spec = catalog.find(&request.model).ok();
            ComfyWorkflow::from_request(&request, spec.as_ref())
        }
        Some(FileSettings::Other(_)) => {
            let text = format!("this file was not made with Safelight: {}", path.display());
            Err(JobError::invalid(text)
                .advise("Make the result again with `safelight generate --from FILE`"))
        }
        None => Err(restore::says_nothing(path)),
    }
}

/// The members of the first result are those of the file, too.
pub(super) fn as_json(
    path: &Path,
    found: &[FileSettings],
    facts: &[String],
    environment: &CliEnvironment,
) -> Value {
    let tool = found.first().map(FileSettings::tool);
    let mut json = json!({"path": path, "facts": facts, "tool": tool});
    let outputs = found.iter().map(|found| {
        let SettingsUse { model, notes } = SettingsUse::of(found, environment);
        let mut json = json!({"model_here": model, "notes": notes});
        match found {
            FileSettings::Own(carried) => json["request"] = json!(carried.request),
            FileSettings::Other(restored) => json["settings"] = json!(restored),
        }
        json
    });
    let outputs: Vec<Value> = outputs.collect();
    if let Some(members) = outputs.first().and_then(Value::as_object) {
        for (name, value) in members {
            json[name] = value.clone();
        }
        json["outputs"] = json!(outputs);
    }
    json
}

/// Settings of each result of a file, a line each, and for another program's those that are not used here.
pub(super) fn as_text(
    path: &Path,
    found: &[FileSettings],
    facts: &[String],
    environment: &CliEnvironment,
) -> String {
    let mut text = format!("{}\n", one_line(&path.to_string_lossy()));
    for fact in facts {
        // Writing to a string cannot fail.
        writeln!(text, "  {}", one_line(fact)).ok();
    }
    let Some(first) = found.first() else {
        let what = if restore::holds_graph(path) {
            restore::UNREAD_GRAPH
        } else {
            "no settings"
        };
        writeln!(text, "  holds {what}").ok();
        return text;
    };
    writeln!(text, "  made with {}", first.tool()).ok();
    let are_several = found.len() > 1;
    let mut has_model = false;
    for (number, found) in (1..).zip(found) {
        if are_several {
            writeln!(text, "\n{number}. {}", one_line(&output_name(found))).ok();
        }
        has_model |= write_settings(&mut text, found, environment);
    }
    let choice = if has_model { "" } else { " --model ID" };
    let command = format!("safelight generate --from FILE{choice}");
    if are_several {
        writeln!(
            text,
            "\nMake all of them with `{command}`, one with `{command} --output N`"
        )
        .ok();
    } else {
        writeln!(text, "\nRepeat it with `{command}`").ok();
    }
    text
}

/// Node that saves a result, where the file says one.
fn output_name(found: &FileSettings) -> String {
    match found {
        FileSettings::Other(restored) => restored.output.clone().unwrap_or_default(),
        FileSettings::Own(_) => String::new(),
    }
}

/// Returns whether a model for them is on this computer.
fn write_settings(text: &mut String, found: &FileSettings, environment: &CliEnvironment) -> bool {
    let (restored, all) = match found {
        FileSettings::Own(carried) => {
            let request = &carried.request;
            let restored = ForeignSettings {
                num_steps: Some(request.sampling.num_steps),
                sampler: Some(request.sampling.sampler),
                sigma_schedule: Some(request.sampling.sigma_schedule),
                cfg_scale: Some(request.sampling.guidance_scale),
                shift: request.sampling.shift,
                ..ForeignSettings::from(request)
            };
            (restored, request.carried()["request"].take())
        }
        FileSettings::Other(restored) => {
            let mut all = json!(restored);
            // Sentences name them.
            all["controls"].take();
            ((**restored).clone(), all)
        }
    };
    for (name, value) in lines(&restored).into_iter().chain(more_lines(&all)) {
        writeln!(text, "  {name}: {}", one_line(&value)).ok();
    }
    let SettingsUse { model, notes } = SettingsUse::of(found, environment);
    if let Some(model) = &model {
        writeln!(text, "  model here: {}", one_line(model)).ok();
    }
    for note in &notes {
        writeln!(text, "  {}", one_line(note)).ok();
    }
    model.is_some()
}

fn text_of(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn lines(restored: &ForeignSettings) -> Vec<(String, String)> {
    let size = restored.width.zip(restored.height);
    // Folders tell files of one name apart; those of this computer go without saying.
    let loras = restored.loras.iter().map(|lora| match &lora.path {
        path if path.starts_with('/') => lora.described(),
        path => lora.described().replacen(&lora.name, path, 1),
    });
    let loras = loras.collect::<Vec<_>>().join(", ");
    let size = size.map(|(width, height)| format!("{width}x{height}"));
    let second = restored.second_pass;
    let second =
        second.map(|pass| format!("x{} at denoising strength {}", pass.scale, pass.strength));
    let cache = restored.step_cache;
    let cache = cache.map(|it| format!("{} at threshold {}", it.kind.name(), it.threshold));
    let found = [
        ("model", restored.model.clone()),
        ("low-noise model", restored.model_2.clone()),
        ("model hash", restored.model_hash.clone()),
        ("prompt", restored.prompt.clone()),
        ("negative prompt", restored.negative_prompt.clone()),
        (
            "prompt weights",
            restored.has_weights().then(|| "on".to_owned()),
        ),
        ("size", size),
        ("frames", text_of(restored.num_frames)),
        ("seconds", text_of(restored.secs)),
        ("frames per second", text_of(restored.fps)),
        ("seed", text_of(restored.seed)),
        ("steps", text_of(restored.num_steps)),
        ("guidance", text_of(restored.cfg_scale)),
        ("low-noise guidance", text_of(restored.cfg_scale_2)),
        ("distilled guidance", text_of(restored.distilled_guidance)),
        ("shift", text_of(restored.shift)),
        ("sampler", text_of(restored.sampler)),
        ("schedule", text_of(restored.sigma_schedule)),
        ("strength", text_of(restored.strength)),
        ("hires fix", second),
        ("order of sections", text_of(restored.section_order)),
        ("latent frames of a section", text_of(restored.window)),
        ("step cache", cache),
        ("LoRAs", Some(loras)),
    ];
    let found = found.map(|(name, value)| Some((name.to_owned(), value?)));
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    found.retain(|(_, value)| !value.is_empty());
    found
}

/// Members of settings that [`lines`] does not name and that differ from what is usual.
fn more_lines(all: &Value) -> impl Iterator<Item = (String, String)> {
    const NAMED: &str = "model model_2 model_hash prompt negative_prompt prompt_weights width height num_frames secs sections fps seed num_steps guidance_scale cfg_scale cfg_scale_2 distilled_guidance shift sampler sigma_schedule strength second_pass section_order window step_cache has_random_seed loras tool output family notes from_image memory";
    let usual = [
        ("batch_size", json!(1)),
        ("fit", json!(ResizeMode::default())),
        ("dtype", json!(DtypeChoice::default())),
    ];
    let members = all.as_object().into_iter().flatten();
    members.filter_map(move |(name, value)| {
        let is_named = NAMED.split(' ').any(|named| named == name);
        let is_usual = usual
            .iter()
            .any(|(known, usual)| known == name && usual == value);
        let text = match value {
            Value::Null | Value::Bool(false) => String::new(),
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let is_empty = matches!(&*text, "" | "0" | "[]" | "{}");
        (!is_named && !is_usual && !is_empty).then(|| (name.replace('_', " "), text))
    })
}

/// Prompts have lines, and terminals obey what is not a letter.
fn one_line(text: &str) -> String {
    sanitize::one_line(text, MAX_TEXT).into_owned()
}

#[cfg(test)]
mod tests {
    use safelight_core::settings::{AppPaths, LoadedSettings};

    use super::*;

    #[test]
    fn each_result_of_a_workflow_is_listed_and_the_first_is_the_file_in_json() {
        let settings = |output: &str, prompt: &str| {
            let restored = ForeignSettings {
                tool: "ComfyUI".into(),
                output: Some(output.into()),
                prompt: Some(prompt.into()),
                model: Some("flux1-dev.safetensors".into()),
                ..ForeignSettings::default()
            };
            FileSettings::Other(Box::new(restored))
        };
        let found = [
            settings("Save Image (node 9)", "a fox"),
            settings("Save Image (node 12)", "a boat"),
        ];
        let home = tempfile::tempdir().unwrap();
        let environment = CliEnvironment {
            paths: AppPaths::under(home.path()),
            loaded: LoadedSettings::default(),
        };
        let path = Path::new("flow.json");
        let text = as_text(path, &found, &[], &environment);
        for part in [
            "flow.json\n  made with ComfyUI\n\n1. Save Image (node 9)\n",
            "\n2. Save Image (node 12)\n  model: flux1-dev.safetensors\n  prompt: a boat\n",
            "one with `safelight generate --from FILE --model ID --output N`",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        let json = as_json(path, &found, &[], &environment);
        assert_eq!(json["settings"]["prompt"], "a fox");
        let outputs = json["outputs"].as_array().unwrap();
        let prompts = outputs.iter().map(|output| &output["settings"]["prompt"]);
        assert_eq!(prompts.collect::<Vec<_>>(), ["a fox", "a boat"]);
        assert_eq!(json["notes"], outputs[0]["notes"]);
        assert_eq!(
            as_json(path, &found[..1], &[], &environment)["outputs"][0]["settings"]["prompt"],
            "a fox"
        );
    }
}
