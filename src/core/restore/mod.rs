//! Restoring settings from files: our own exactly, those of other programs as far as they can be had here.
//!
//! [`read`] finds the settings in an image, a video, a JSON file or a plain text; `matching` chooses the installed model
//! that comes nearest. Nothing here fills a form or an argument, and no pixel is read. Files of others are never
//! trusted: texts and nesting are bounded, and what cannot be understood is named or left out.

mod a1111;
mod civitai;
mod comfy_export;
mod controls;
mod fields;
mod fitting;
mod graph;
mod invoke;
mod loras;
mod matching;
mod names;
mod notes;
mod others;
mod own;
mod programs;
mod settings;
mod sidecar;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::formats::weights::without_content;
use crate::job::JobError;
use crate::media::{self, MediaError, MetadataText};

pub use comfy_export::ComfyWorkflow;
pub use controls::RestoredControl;
pub use loras::RestoredLora;
pub use matching::{ModelMatch, match_model};
pub use own::EmbeddedSettings;
pub use settings::ForeignSettings;
use settings::run_steps;

use loras::MAX_LORAS;
use names::short;

/// Words for what a file holds whose graph gives no settings.
pub const UNREAD_GRAPH: &str = "a ComfyUI graph without a sampler that Safelight reads";

/// Settings in a file.
#[derive(Clone, Debug)]
pub enum FileSettings {
    /// Of Safelight: all settings.
    Own(Box<EmbeddedSettings>),
    /// Of another program, as far as they can be read.
    Other(Box<ForeignSettings>),
}

impl FileSettings {
    /// The program that made the file, in words.
    pub fn tool(&self) -> &str {
        match self {
            Self::Own(_) => "Safelight",
            Self::Other(restored) => &restored.tool,
        }
    }
}

/// Reads the settings in the file at `path`, or in one that another program wrote next to it.
pub fn read(path: &Path) -> Result<Option<FileSettings>, MediaError> {
    if let Some(carried) = own::read(path)? {
        return Ok(Some(FileSettings::Own(Box::new(carried))));
    }
    let within = of_texts(&media::read_texts(path)?);
    let found = match within {
        Some(found) if found.says_how() => Some(found),
        // An image may carry the prompt alone, and its neighbour the rest.
        some => match (some, read_sidecar(path)) {
            (Some(within), Some(sidecar)) => Some(sidecar.filled_from(within)),
            (within, sidecar) => within.or(sidecar),
        },
    };
    Ok(found.map(|found| FileSettings::Other(Box::new(found.with_last_notes(path)))))
}

/// Reads the settings of every result that a workflow of `ComfyUI` saves, in the order of its nodes; of any other file
/// those of [`read`] alone. Empty where [`read`] finds none.
pub fn read_outputs(path: &Path) -> Result<Vec<FileSettings>, MediaError> {
    if own::read(path)?.is_none() {
        let values = parsed(&media::read_texts(path)?);
        let outputs = graph::read_all(&graphs(&values));
        if outputs.len() > 1 {
            let outputs = outputs.into_iter().map(|mut output| {
                // It is not known which of them is in the file.
                output.is_resized = true;
                FileSettings::Other(Box::new(output.with_last_notes(path)))
            });
            return Ok(outputs.collect());
        }
    }
    Ok(read(path)?.into_iter().collect())
}

/// JSON values in each of the texts.
fn parsed(texts: &[MetadataText]) -> Vec<Vec<Value>> {
    let parsed =
        |text: &MetadataText| fields::parse(&text.text).map_or_else(Vec::new, graph::unwrap);
    texts.iter().map(parsed).collect()
}

fn graphs(values: &[Vec<Value>]) -> Vec<&Value> {
    let values = values.iter().flatten();
    values.filter(|it| graph::is_graph(it)).collect()
}

/// Returns whether a file has a graph of `ComfyUI`, whatever is in it.
pub fn holds_graph(path: &Path) -> bool {
    let texts = media::read_texts(path).unwrap_or_default();
    !graphs(&parsed(&texts)).is_empty()
}

/// Error for a file in which [`read`] finds nothing.
pub fn says_nothing(path: &Path) -> JobError {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if holds_graph(path) {
        let values = parsed(&media::read_texts(path).unwrap_or_default());
        let maker = graph::unread_maker(&graphs(&values));
        let maker = maker.map_or_else(String::new, |node| format!(": {node} makes its result"));
        let summary = format!("the file {name} holds {UNREAD_GRAPH}{maker}");
        return JobError::invalid(summary)
            .advise("Use a file of a graph with a KSampler, a SamplerCustomAdvanced or the like. A group node of an older ComfyUI that hides some of its values is not read: convert it to a subgraph first");
    }
    if let Some((found, advice)) = without_content(path) {
        let summary = format!("the file {name} is {found}");
        return JobError::invalid(summary).advise(advice);
    }
    let texts = media::read_texts(path).unwrap_or_default();
    if let Some(fault) = texts.iter().find_map(|text| fields::fault(&text.text)) {
        let summary = format!("the settings in the file {name} are not valid JSON: {fault}");
        return JobError::invalid(summary)
            .advise("Save or download the file again, or correct it in a text editor");
    }
    let summary = format!("the file {name} does not say how it was made");
    JobError::invalid(summary).advise("Files from Safelight, ComfyUI, A1111, Forge, SwarmUI, Wan2GP, FramePack Studio, InvokeAI and Draw Things do, unless another program or a web site has saved them again")
}

/// Settings of the first file next to it that has any.
fn read_sidecar(path: &Path) -> Option<ForeignSettings> {
    let read = |place: &PathBuf| {
        let found = place.is_file().then(|| media::read_texts(place).ok())??;
        of_texts(&found)
    };
    sidecar::places(path).iter().find_map(read).or_else(|| {
        let found = read(&sidecar::numbered_place(path)?);
        found.filter(|found| found.tool == "FramePack Studio")
    })
}

/// Reads the texts of a file: the one with most settings, and over its gaps the others.
fn of_texts(texts: &[MetadataText]) -> Option<ForeignSettings> {
    if let Some(found) = others::of_separate_texts(texts) {
        return Some(found);
    }
    let values = parsed(texts);
    let mut of_graph = graph::read(&graphs(&values));
    let mut best: Option<ForeignSettings> = None;
    for (text, values) in texts.iter().zip(&values) {
        let found = match values.as_slice() {
            [] => of_text(text),
            [value, ..] if graph::is_graph(value) => of_graph.take(),
            [value, ..] => others::read(value),
        };
        let found = found.filter(|found| !found.is_empty());
        best = match (best, found) {
            (Some(best), Some(found)) if found.says_how() && !best.says_how() => {
                Some(found.filled_from(best))
            }
            (Some(best), Some(found)) => Some(best.filled_from(found)),
            (best, found) => best.or(found),
        };
    }
    best
}

/// Reads a text that is not JSON.
fn of_text(text: &MetadataText) -> Option<ForeignSettings> {
    // FramePack Studio's own texts in a PNG, next to those of graphs with the same names, which may be cut off.
    let starts_graph = |text: &str| {
        let inside = text.trim_start().strip_prefix('{');
        text.trim() == "null" || inside.is_some_and(|inside| inside.trim_start().starts_with('"'))
    };
    let mut studio = ForeignSettings::of("FramePack Studio");
    match text.name.as_str() {
        "prompt" => studio.prompt = Some(text.text.clone()).filter(|text| !starts_graph(text)),
        "seed" => _ = studio.take_seed(&text.text.as_str().into()),
        // NovelAI's name of the model, outside of its other settings.
        "Source"
            if ["NovelAI", "Stable Diffusion"]
                .iter()
                .any(|it| text.text.starts_with(it)) =>
        {
            studio.tool = "NovelAI".to_owned();
            studio.model = Some(text.text.clone());
        }
        _ => return others::of_labels(&text.text).or_else(|| a1111::read(&text.text)),
    }
    Some(studio)
}

#[cfg(test)]
mod tests;
