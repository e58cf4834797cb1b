//! `safelight inspect`: the identity card of a model folder or of one weight file; of an image or video how it was made.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use safelight_core::catalog::{ComponentCard, IdentityCard, ModelCatalog};
use safelight_core::fitting::LoraInfo;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::media::{MediaErrorKind, describe_media};
use safelight_core::model::{CatalogError, ModelSpec};
use safelight_core::sanitize::one_line;
use safelight_core::units::size_text;
use serde_json::json;

use super::generate::say;
use super::{CliEnvironment, made_with, out};

const CANNOT_RUN: &str = "Safelight cannot run it";
const RUNS_NONE: &str =
    "Safelight cannot run it: choose one of the models that `safelight models` lists";
const A_COMPONENT: &str = "a component to use with a transformer";
/// Characters of a path or of what is wrong with a file.
const MAX_PROBLEM: usize = 1000;

/// Show what a model folder or a weight file is and what is missing or wrong, or how an image, a video or a JSON file was made, by Safelight or another program
#[derive(Args, Debug)]
pub struct InspectArgs {
    /// A folder, a file, a result, or the id of a model on this disk
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Print a ComfyUI workflow with the settings of a result of Safelight, to save as a .json file and open in ComfyUI
    #[arg(long)]
    comfyui: bool,
}

/// Runs the command: 0 for what is whole, else the code for wrong model files or for images that cannot be read.
pub fn run(args: &InspectArgs, environment: &CliEnvironment) -> ExitCode {
    let done = inspect(args, environment);
    done.unwrap_or_else(|err| out::print_job_error(&err, args.json))
}

fn inspect(args: &InspectArgs, environment: &CliEnvironment) -> Result<ExitCode, JobError> {
    if args.comfyui {
        let workflow = made_with::comfy_workflow(&args.path, environment)?;
        if !args.json {
            workflow.notes.iter().for_each(|note| say(note));
        }
        let object = json!({"workflow": workflow.nodes(), "notes": workflow.notes});
        let text = format!("{}\n", workflow.to_text());
        return Ok(out::print_either(args.json, &object, &text, 0));
    }
    if let Some(said) = made_with::read(&args.path) {
        let (facts, code) = match describe_media(&args.path) {
            Ok(facts) => (facts, 0),
            // A text has settings alone.
            Err(err) if err.kind == MediaErrorKind::NotAnImage => (Vec::new(), 0),
            Err(err) => (
                vec![err.to_string()],
                JobErrorKind::InvalidRequest.exit_code(),
            ),
        };
        let found = said?;
        return Ok(if args.json {
            let object = made_with::as_json(&args.path, &found, &facts, environment);
            out::print_json(&object, code)
        } else {
            let text = made_with::as_text(&args.path, &found, &facts, environment);
            out::print(&text, code)
        });
    }
    let card = read(args, environment)?;
    let code = if card.problems.is_empty() {
        0
    } else {
        JobErrorKind::BadModel.exit_code()
    };
    Ok(out::print_either(
        args.json,
        &json!(card),
        &as_text(&card),
        code,
    ))
}

fn read(args: &InspectArgs, environment: &CliEnvironment) -> Result<IdentityCard, CatalogError> {
    let catalog = ModelCatalog::load(&environment.paths, environment.settings());
    // A link that leads nowhere is no model's id.
    if args.path.symlink_metadata().is_ok() {
        return catalog.card(&args.path);
    }
    let spec = catalog.find(&args.path.to_string_lossy())?;
    catalog.card(&spec.folder)
}

fn as_text(card: &IdentityCard) -> String {
    // Writing to a string cannot fail.
    let mut text = format!("{}\n", one_line(&card.path.to_string_lossy(), MAX_PROBLEM));
    let runs = match (card.is_runnable, card.variant.is_empty()) {
        (true, _) => "Safelight can run it",
        (false, false) => "Safelight can run it once it is complete",
        (false, true) => use_of(card),
    };
    writeln!(text, "  {}: {}; {runs}", card.kind, card.what).ok();
    let (size, count) = (size_text(card.bytes), count_text(card.parameters));
    writeln!(text, "  {size} of weights, {count} parameters").ok();
    if let Some(spec) = &card.model {
        text.push_str(&can_make(spec));
    }
    if let Some(lora) = &card.lora {
        text.push_str(&changes(lora));
    }
    // A file of an unknown model has no component with a name.
    let named = card.components.iter().filter(|it| !it.name.is_empty());
    let rows: Vec<Vec<String>> = named.map(component_row).collect();
    if !rows.is_empty() {
        text.push_str("\nComponents\n");
        text.push_str(&out::table(&rows));
    }
    if !card.notes.is_empty() {
        text.push_str("\nMetadata of the file\n");
        for (key, value) in &card.notes {
            writeln!(text, "  {}: {}", shortened(key), shortened(value)).ok();
        }
    }
    if !card.problems.is_empty() {
        text.push_str("\nMissing or wrong\n");
        for problem in &card.problems {
            writeln!(text, "  {}", one_line(problem, MAX_PROBLEM)).ok();
        }
    }
    text
}

/// Use of a file that makes nothing alone.
fn use_of(card: &IdentityCard) -> &'static str {
    let is = |role: &str| card.components.iter().any(|part| part.name == role);
    // Of a whole model that no family runs, the parts are not used either.
    if card.kind == "diffusers folder" || is("transformer") {
        return if card.is_supported {
            CANNOT_RUN
        } else {
            RUNS_NONE
        };
    }
    let uses = [
        ("lora", "use it with `safelight generate --lora`"),
        ("upscaler", "use it with `safelight upscale --model`"),
        (
            "interpolator",
            "use it with `safelight interpolate --model`",
        ),
        (
            "depth_estimator",
            "use it with `safelight map depth --model`",
        ),
        ("vae", A_COMPONENT),
        ("text_encoder", A_COMPONENT),
        ("image_encoder", A_COMPONENT),
        ("tiny_decoder", "it decodes previews"),
        ("adapter", "use it with `safelight generate --prompt-image`"),
        (
            "controlnet",
            "use it with `safelight generate --control FILE,net=…`",
        ),
    ];
    match uses.into_iter().find(|(role, _)| is(role)) {
        Some(("lora", _)) if card.lora.is_none() => "Safelight cannot use it",
        Some(("lora", _)) if card.lora.as_ref().is_some_and(|it| !it.changes_transformer) => {
            "models whose text encoder Safelight does not change refuse it; try it with `safelight generate --lora`"
        }
        Some(("lora", _)) if card.family.is_empty() => {
            "its model is not known; try it with `safelight generate --lora`"
        }
        Some((_, text)) if card.is_supported => text,
        Some(("lora", _)) => "Safelight does not support models of this family",
        Some(("vae" | "text_encoder" | "image_encoder", _)) => {
            "no model that Safelight runs uses it"
        }
        _ => RUNS_NONE,
    }
}

fn changes(lora: &LoraInfo) -> String {
    let parts = match (lora.changes_transformer, lora.changes_text_encoder) {
        (true, true) => "transformer and text encoders",
        (false, true) => "text encoders",
        _ => "transformer",
    };
    let layers = match lora.layers {
        1 => "1 layer".to_owned(),
        n => format!("{n} layers"),
    };
    let mut text = format!("  changes {layers} of the {parts} ({} keys)\n", lora.keys);
    let said = [
        ("scale", &lora.scale),
        ("title", &lora.title),
        ("made with", &lora.base_model),
    ];
    for (name, value) in said {
        if let Some(value) = value {
            writeln!(text, "  {name}: {}", shortened(value)).ok();
        }
    }
    if !lora.trained_words.is_empty() {
        let words = lora.trained_words.join(", ");
        writeln!(text, "  trained words: {}", shortened(&words)).ok();
    }
    for fit in &lora.fits {
        writeln!(text, "  with {}", one_line(fit, MAX_PROBLEM)).ok();
    }
    for notice in &lora.notices {
        writeln!(text, "  {}", one_line(notice, MAX_PROBLEM)).ok();
    }
    text
}

fn can_make(spec: &ModelSpec) -> String {
    let (limits, defaults) = (spec.limits, &spec.defaults);
    let (kind, range, frames) = if spec.family.makes_images {
        ("makes images, ", String::new(), String::new())
    } else {
        let (stride, most) = (limits.frame_stride, limits.max_frames);
        let range = format!(", frames {stride}n+1 up to {most}");
        ("", range, format!("{} frames, ", defaults.num_frames))
    };
    let sizes = format!("sizes are multiples of {}{range}", limits.size_multiple);
    let size = format!("{}x{}", defaults.width, defaults.height);
    let sampling = &defaults.sampling;
    let (steps, guidance) = (sampling.num_steps, sampling.guidance_scale);
    format!("  {kind}{sizes}; by default {size}, {frames}{steps} steps, guidance {guidance}\n")
}

fn component_row(card: &ComponentCard) -> Vec<String> {
    let dtypes: Vec<&str> = card.dtypes.keys().map(String::as_str).collect();
    let files = match card.files.len() {
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    };
    vec![
        card.name.clone(),
        card.class.clone(),
        count_text(card.parameters),
        dtypes.join(" + "),
        size_text(card.bytes),
        files,
    ]
}

/// A count as people say it, such as `5.0 B`.
fn count_text(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1} k", count as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} M", count as f64 / 1e6),
        _ => format!("{:.1} B", count as f64 / 1e9),
    }
}

/// One line of a note, which may be a whole training configuration.
fn shortened(value: &str) -> Cow<'_, str> {
    one_line(value, 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_notes_stay_short() {
        let found = [0, 1_500, 9_000_000, 5_000_000_000].map(count_text);
        assert_eq!(found, ["0", "1.5 k", "9.0 M", "5.0 B"]);
        assert_eq!(shortened("a\nb"), "a b");
        assert!(shortened(&"é".repeat(1000)).chars().count() < 110);
    }
}
