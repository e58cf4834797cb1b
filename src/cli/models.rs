//! `safelight models`: what is here, what is known, and where it was looked for.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use safelight_core::catalog::{CatalogEntry, ModelCatalog};
use safelight_core::model::{CatalogError, ModelSpec, advice_for};
use safelight_core::units::size_text;
use serde_json::{Value, json};

use super::{CliEnvironment, out};

/// List installed models, models to download, and the model folders
#[derive(Args, Debug)]
pub struct ModelsArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command. What is broken is listed and is no failure of the listing.
pub fn run(args: &ModelsArgs, environment: &CliEnvironment) -> ExitCode {
    let catalog = ModelCatalog::load(&environment.paths, environment.settings());
    out::print_either(args.json, &as_json(&catalog), &as_text(&catalog), 0)
}

fn as_json(catalog: &ModelCatalog) -> Value {
    let errors = |errors: &[CatalogError]| -> Vec<Value> {
        errors
            .iter()
            .map(|err| json!({"message": err.to_string(), "advice": advice_for(err)}))
            .collect()
    };
    json!({
        "available": catalog.available,
        "missing": catalog.missing,
        "unsupported": errors(&catalog.unsupported),
        "problems": errors(&catalog.problems),
        "searched": catalog.searched,
    })
}

fn as_text(catalog: &ModelCatalog) -> String {
    let mut text = String::from("Models on this disk\n");
    if catalog.available.is_empty() {
        text.push_str("  none\n");
    }
    for spec in &catalog.available {
        text.push_str(&available(spec));
    }
    if !catalog.missing.is_empty() {
        text.push_str("\nNot downloaded yet (`safelight download ID` downloads one)\n");
        let rows: Vec<Vec<String>> = catalog.missing.iter().map(missing_row).collect();
        text.push_str(&out::table(&rows));
    }
    for (title, errors) in [
        ("Not supported by this version", &catalog.unsupported),
        ("Problems", &catalog.problems),
    ] {
        if !errors.is_empty() {
            // Writing to a string cannot fail.
            write!(text, "\n{title}\n").ok();
            for err in errors {
                writeln!(text, "  {err}").ok();
            }
        }
    }
    text.push_str("\nLooked in\n");
    for place in &catalog.searched {
        let note = if place.exists { "" } else { "  (not there)" };
        let list = place.named_in.as_ref();
        let named = list.map(|list| format!("  (listed in {})", list.display()));
        let named = named.unwrap_or_default();
        writeln!(text, "  {}{note}{named}", place.path.display()).ok();
    }
    text
}

fn available(spec: &ModelSpec) -> String {
    let defaults = &spec.defaults;
    let (frames, fps) = (defaults.num_frames, defaults.fps);
    let frames = format!(", {frames} frames at {fps} fps");
    let frames = if spec.family.makes_images {
        ""
    } else {
        &frames
    };
    let (kind, licence) = (spec.family.kind_text(&spec.variant), &spec.licence);
    let (bytes, size) = (size_text(spec.bytes), (defaults.width, defaults.height));
    let what = format!("{kind}, {bytes}, licence {licence}");
    let mut rows = vec![
        vec![spec.id.clone(), spec.name.clone()],
        vec![String::new(), spec.description.clone()],
        vec![
            String::new(),
            format!("{what}; {}x{}{frames} by default", size.0, size.1),
        ],
    ];
    let folder = spec.folder.display().to_string();
    if folder != spec.id {
        rows.push(vec![String::new(), folder]);
    }
    out::table(&rows)
}

fn missing_row(entry: &CatalogEntry) -> Vec<String> {
    let size = if entry.download_bytes > 0 {
        format!(", {}", size_text(entry.download_bytes))
    } else {
        String::new()
    };
    vec![
        entry.id.clone(),
        entry.name.clone(),
        format!("get {}{size}", entry.what),
    ]
}
