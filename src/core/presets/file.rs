//! The user's presets, in `presets.toml` of the settings folder.
//!
//! Manual edits survive: comments, order, and keys that this version does not know. A file that cannot be read is never
//! overwritten: the next save moves it aside and reports its new name.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;
use thiserror::Error;
use toml_edit::{ArrayOfTables, Document, DocumentMut, Item, Table};

use super::{PresetContent, PresetValues};
use crate::files::{FileError, aside_path, read_text_bounded, write_private};
use crate::job::PartialSampling;

const HEAD: &str = "\
# Your own presets. Each sets what it names, and leaves everything else as it is.
#   size = \"auto\", \"16:9\" or \"832x480\"; shift = 0 and end_step = 0: the model's own;
#   step_cache = \"off\" or \"teacache:0.15\"; guider = \"cfg\", \"cfg_zero:1\", \"apg:0:15:-0.5\" or \"slg:9:2.8:0.01-0.2\";
#   guidance_range = \"0.1-0.8\"; vae_tile = 0: whole frames;
#   prompt = { prompt = \"a boat\", negative = \"fog\" }; loras = [{ path = \"/a.safetensors\", is_on = true, strength = 0.8 }].

";
/// Size limit of the file.
const MAX_BYTES: u64 = 1 << 20;
/// Letters of a name.
const MAX_NAME: usize = 60;
/// Keys of a preset.
const KEYS: &str = "size frames seconds fps steps start_step end_step guidance guidance_2 true_cfg guider guidance_range \
                    shift sampler schedule strength step_cache vae_tile";
/// The keys that say which preset it is, and not what it sets.
const NAMES: [&str; 2] = ["name", "model"];
/// Keys of [`PresetContent`].
const CONTENT: [&str; 2] = ["prompt", "loras"];

fn value_keys() -> impl Iterator<Item = &'static str> {
    KEYS.split_whitespace()
}

#[derive(Debug, Error)]
pub enum PresetsError {
    #[error(transparent)]
    Broken(FileError),
    #[error(transparent)]
    Other(#[from] FileError),
    #[error("a preset's name must have 1 to {MAX_NAME} characters: {found:?}")]
    Name { found: String },
}

#[derive(Clone, Debug, PartialEq)]
pub struct OwnPreset {
    pub name: String,
    /// The id of the model that it was made with; it may be used with others.
    pub model: Option<String>,
    pub values: PresetValues,
    pub content: PresetContent,
}

#[derive(Debug, Default)]
pub struct LoadedPresets {
    pub presets: Vec<OwnPreset>,
    /// Presets that were left out, a sentence each.
    pub problems: Vec<String>,
    /// Why nothing of the file could be used.
    pub error: Option<PresetsError>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum PresetEdit {
    /// Adds a preset, or gives the one of this name these values.
    Save(Box<OwnPreset>),
    Rename {
        from: String,
        to: String,
    },
    Delete(String),
}

/// Reads the presets. Without a file there are none.
pub fn load(path: &Path) -> LoadedPresets {
    let failed = |error| LoadedPresets {
        error: Some(error),
        ..LoadedPresets::default()
    };
    let document = match read(path) {
        Ok(document) => document,
        Err(err) => return failed(err),
    };
    let mut loaded = LoadedPresets::default();
    let Some(tables) = document.get("preset").and_then(Item::as_array_of_tables) else {
        return loaded;
    };
    for (index, table) in tables.iter().enumerate() {
        match preset_of(table) {
            Ok(preset) if loaded.presets.iter().all(|known| known.name != preset.name) => {
                let keys = table.iter().map(|(key, _)| key);
                let known = |key: &&str| {
                    let mut all = value_keys().chain(NAMES).chain(CONTENT);
                    all.any(|known| known == *key)
                };
                let unknown: Vec<&str> = keys.filter(|key| !known(key)).collect();
                if !unknown.is_empty() {
                    loaded.problems.push(format!(
                        "the preset {:?} has unknown values: {}",
                        preset.name,
                        unknown.join(", ")
                    ));
                }
                loaded.presets.push(preset);
            }
            Ok(preset) => loaded
                .problems
                .push(format!("the preset {:?} is there twice", preset.name)),
            Err(reason) => {
                let name = name_of(table).map_or_else(
                    || format!("number {}", index + 1),
                    |name| format!("{name:?}"),
                );
                loaded
                    .problems
                    .push(format!("the preset {name} is ignored: {reason}"));
            }
        }
    }
    loaded
}

/// Changes the file. Where it is broken it is moved aside first, and the answer is where to.
pub fn edit(path: &Path, edit: &PresetEdit) -> Result<Option<PathBuf>, PresetsError> {
    let write_failed = |err| FileError::new(format!("cannot save the presets: {err}"), path);
    let (mut document, aside) = match read(path) {
        Ok(document) => (document, None),
        Err(PresetsError::Broken(_)) => (DocumentMut::new(), Some(aside_path(path))),
        Err(err) => return Err(err),
    };
    change(&mut document, edit, path)?;
    if let Some(aside) = &aside {
        fs::rename(path, aside).map_err(write_failed)?;
    }
    write_private(path, document.to_string().as_bytes()).map_err(write_failed)?;
    Ok(aside)
}

fn read(path: &Path) -> Result<DocumentMut, PresetsError> {
    let broken = |text: &str, span: Option<Range<usize>>, reason: &str| {
        let offset = span.map(|span| span.start);
        let err = FileError::in_text(text, offset, " of the presets", reason, path);
        PresetsError::Broken(err)
    };
    let text = match read_text_bounded(path, MAX_BYTES) {
        Ok(text) => text,
        Err(err) if err.kind() == io::ErrorKind::InvalidData => {
            return Err(broken("", None, &err.to_string()));
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(DocumentMut::new()),
        Err(err) => Err(FileError::new(
            format!("cannot read the presets: {err}"),
            path,
        ))?,
    };
    let document =
        Document::parse(text.as_str()).map_err(|err| broken(&text, err.span(), err.message()))?;
    match document.get("preset") {
        Some(item) if !item.is_array_of_tables() => {
            Err(broken(&text, item.span(), "expected tables [[preset]]"))
        }
        _ => Ok(document.into_mut()),
    }
}

fn name_of(table: &Table) -> Option<&str> {
    table.get("name").and_then(Item::as_str)
}

fn preset_of(table: &Table) -> Result<OwnPreset, String> {
    #[derive(Deserialize)]
    struct PresetNames {
        name: String,
        model: Option<String>,
        #[serde(flatten)]
        content: PresetContent,
    }
    let mut values = table.clone();
    values.retain(|key, _| value_keys().any(|known| known == key));
    for (key, name) in PartialSampling::PRESET_KEYS {
        if let Some(item) = values.remove(key) {
            values.insert(name, item);
        }
    }
    let text = |table: &Table| DocumentMut::from(table.clone()).to_string();
    let names: PresetNames =
        toml::from_str(&text(table)).map_err(|err| err.message().replace('\n', ", "))?;
    let values = toml::from_str(&text(&values)).map_err(|err| err.message().replace('\n', ", "))?;
    Ok(OwnPreset {
        name: checked_name(&names.name).map_err(|err| err.to_string())?,
        model: names.model,
        values,
        content: names.content,
    })
}

/// The name without blanks around it.
fn checked_name(name: &str) -> Result<String, PresetsError> {
    let trimmed = name.trim();
    let is_right =
        (1..=MAX_NAME).contains(&trimmed.chars().count()) && !trimmed.chars().any(char::is_control);
    if is_right {
        Ok(trimmed.to_owned())
    } else {
        Err(PresetsError::Name {
            found: name.to_owned(),
        })
    }
}

fn change(document: &mut DocumentMut, edit: &PresetEdit, path: &Path) -> Result<(), PresetsError> {
    let missing = |name: &str| {
        let sentence = format!("there is no preset called {name:?}");
        FileError::new(sentence, path)
    };
    let item = document
        .entry("preset")
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    // A key of another kind is a broken file.
    let Some(tables) = item.as_array_of_tables_mut() else {
        return Ok(());
    };
    let place = |tables: &ArrayOfTables, wanted: &str| {
        let mut names = tables.iter().map(name_of);
        names.position(|name| name.is_some_and(|name| name.trim() == wanted))
    };
    match edit {
        PresetEdit::Save(preset) => {
            let name = checked_name(&preset.name)?;
            let index = place(tables, &name).unwrap_or_else(|| {
                let mut table = Table::new();
                // The header comment precedes the first table: comments of a file without tables would be moved to its
                // end.
                let before = if tables.is_empty() { HEAD } else { "\n" };
                table.decor_mut().set_prefix(before);
                tables.push(table);
                tables.len() - 1
            });
            if let Some(table) = tables.get_mut(index) {
                fill(table, &name, preset);
            }
        }
        PresetEdit::Rename { from, to } => {
            let to = checked_name(to)?;
            let index = place(tables, from).ok_or_else(|| missing(from))?;
            if place(tables, &to).is_some_and(|taken| taken != index) {
                let sentence = format!("there is a preset called {to:?} already");
                Err(FileError::new(sentence, path))?;
            }
            if let Some(table) = tables.get_mut(index) {
                table["name"] = toml_edit::value(to);
            }
        }
        PresetEdit::Delete(name) => {
            let index = place(tables, name).ok_or_else(|| missing(name))?;
            tables.remove(index);
        }
    }
    Ok(())
}

fn fill(table: &mut Table, name: &str, preset: &OwnPreset) {
    // Numbers and words alone cannot fail to be written, nor what was written to be read.
    let known = toml::to_string(&preset.values).unwrap_or_default();
    let mut known: DocumentMut = known.parse().unwrap_or_default();
    for (key, name) in PartialSampling::PRESET_KEYS {
        if let Some(item) = known.remove(name) {
            known.insert(key, item);
        }
    }
    // Keys that an earlier version of the preset set, and this one does not.
    for key in value_keys() {
        if !known.contains_key(key) {
            table.remove(key);
        }
    }
    table["name"] = toml_edit::value(name);
    match &preset.model {
        Some(model) => table["model"] = toml_edit::value(model),
        None => {
            table.remove("model");
        }
    }
    for key in value_keys() {
        if let Some(item) = known.get(key) {
            table[key] = item.clone();
        }
    }
    let content = toml::to_string(&preset.content).unwrap_or_default();
    let mut content: DocumentMut = content.parse().unwrap_or_default();
    for key in CONTENT {
        match content.remove(key).map(Item::into_value) {
            Some(Ok(value)) => table[key] = Item::Value(value),
            _ => drop(table.remove(key)),
        }
    }
}
