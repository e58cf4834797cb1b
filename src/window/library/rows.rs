//! All models as one list to choose from: those here, those that lack something, those that could be fetched.
//!
//! Each is in the list once, under the first heading that fits; a search leaves out what has not all of its words.

use std::collections::HashMap;

use safelight_core::catalog::{CatalogEntry, ModelProblem, UnusableModel};
use safelight_core::model::{InputUse, ModelSpec};
use safelight_core::units::{GIB, size_text};

use crate::window::create::form::result_word;

/// Models that were used lately, above all others.
const MAX_RECENT: usize = 3;

const HEADINGS: [&str; 7] = [
    "Favourites",
    "Used recently",
    "On this disk",
    "On other computers",
    "Something is missing or wrong",
    "To download",
    "Not supported by this version",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPosition {
    Here(usize),
    Unusable(usize),
    Known(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedModel {
    /// Id in the catalogue, or a path.
    pub id: String,
    pub place: ModelPosition,
    pub name: String,
    pub facts: String,
    pub size: String,
    /// Its files may be missing, or of another program's kind.
    pub ailment: Option<ModelProblem>,
    /// It is on another computer.
    pub is_remote: bool,
    pub makes_images: bool,
    /// All that a search looks at, as [`searchable`] text.
    haystack: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LibraryRow {
    Heading(&'static str),
    /// Index in [`LibraryRows::models`].
    Model(usize),
}

#[derive(Debug, Default)]
pub struct LibraryRows {
    pub models: Vec<ListedModel>,
    pub shown: Vec<LibraryRow>,
}

impl LibraryRows {
    pub fn take(specs: &[ModelSpec], unusable: &[UnusableModel], known: &[CatalogEntry]) -> Self {
        let here = specs.iter().enumerate().map(|(at, spec)| of_spec(at, spec));
        let broken = unusable.iter().enumerate();
        let broken = broken.map(|(at, model)| of_unusable(at, model));
        let known = known.iter().enumerate();
        let known = known.filter(|(_, entry)| !entry.sources.is_empty());
        let known = known.map(|(at, entry)| of_known(at, entry));
        let mut models: Vec<ListedModel> = here.chain(broken).chain(known).collect();
        let mut counts = HashMap::new();
        for model in &models {
            *counts.entry(model.name.clone()).or_insert(0) += 1;
        }
        // Of several with one name the file or the id tells which is which.
        for model in models.iter_mut().filter(|model| counts[&model.name] > 1) {
            let which = match model.place {
                ModelPosition::Here(at) => specs[at].files.transformer.display().to_string(),
                ModelPosition::Unusable(_) | ModelPosition::Known(_) => model.id.clone(),
            };
            model.name = format!("{} ({which})", model.name);
        }
        Self {
            models,
            shown: Vec::new(),
        }
    }

    /// Shows those that have all words of the query; favourites first, then those used lately.
    pub fn search(&mut self, query: &str, favourites: &[String], recent: &[String]) {
        let words: Vec<String> = query.split_whitespace().map(searchable).collect();
        let is_found = |model: &ListedModel| words.iter().all(|word| model.haystack.contains(word));
        let recent: Vec<&String> = recent.iter().take(MAX_RECENT).collect();
        let section = |model: &ListedModel| {
            let is_usable = model.ailment.is_none();
            match model.place {
                _ if favourites.contains(&model.id) => 0,
                ModelPosition::Here(_) if is_usable && recent.contains(&&model.id) => 1,
                ModelPosition::Here(_) if model.is_remote => 3,
                ModelPosition::Here(_) => 2,
                ModelPosition::Unusable(_) if model.ailment == Some(ModelProblem::Unsupported) => 6,
                ModelPosition::Unusable(_) => 4,
                ModelPosition::Known(_) => 5,
            }
        };
        let mut found: Vec<Vec<usize>> = vec![Vec::new(); HEADINGS.len()];
        for (at, model) in self.models.iter().enumerate() {
            if is_found(model) {
                found[section(model)].push(at);
            }
        }
        // The last one used first.
        found[1].sort_by_key(|at| recent.iter().position(|id| **id == self.models[*at].id));
        self.shown.clear();
        for (heading, models) in HEADINGS.into_iter().zip(found) {
            if !models.is_empty() {
                self.shown.push(LibraryRow::Heading(heading));
                self.shown.extend(models.into_iter().map(LibraryRow::Model));
            }
        }
    }

    /// `None` for a heading.
    pub fn model_at(&self, line: usize) -> Option<&ListedModel> {
        match self.shown.get(line)? {
            LibraryRow::Heading(_) => None,
            LibraryRow::Model(at) => self.models.get(*at),
        }
    }

    pub fn line_of(&self, id: &str) -> Option<usize> {
        (0..self.shown.len()).find(|line| self.model_at(*line).is_some_and(|it| it.id == id))
    }

    /// Line this number of models further, without headings.
    pub fn step(&self, from: Option<usize>, by: isize) -> Option<usize> {
        let lines: Vec<usize> = (0..self.shown.len())
            .filter(|line| self.model_at(*line).is_some())
            .collect();
        let last = lines.len().checked_sub(1)?;
        let here = from.and_then(|from| lines.iter().position(|line| *line == from));
        let next = match here {
            Some(here) => here.saturating_add_signed(by).min(last),
            None if by < 0 => last,
            None => 0,
        };
        lines.get(next).copied()
    }
}

pub fn needs_text(spec: &ModelSpec) -> &'static str {
    use InputUse::{No, Optional, Required};
    if spec.mask == Required {
        return "image and mask";
    }
    if spec.limits.max_references > 0 {
        return "text or images";
    }
    if spec.limits.controls.is_required {
        return "text and a control image";
    }
    match (spec.start_image, spec.end_image) {
        (No, No) if spec.video_strength().is_some() => "text, or text and a video",
        (No, No) => "text",
        (Optional, No) => "text or image",
        (Required, No) => "image",
        (Required, Optional) => "image, or first and last",
        (Optional, Optional) => "text, image, or first and last",
        (Optional | Required, Required) => "first and last image",
        (No, Optional) => "text or last image",
        (No, Required) => "last image",
    }
}

fn of_spec(at: usize, spec: &ModelSpec) -> ListedModel {
    let family = spec.family.label;
    let thing = result_word(spec.family.makes_images);
    let kind = spec.family.kind_text(&spec.variant);
    let haystack = [
        &spec.name,
        &spec.id,
        &spec.description,
        family,
        &spec.variant,
        thing,
        &spec.folder.to_string_lossy(),
    ];
    ListedModel {
        id: spec.id.clone(),
        place: ModelPosition::Here(at),
        name: spec.name.clone(),
        facts: format!("{kind}  ·  {thing}s from {}", needs_text(spec)),
        size: size_text(spec.bytes),
        ailment: None,
        is_remote: spec.computer.is_some(),
        makes_images: spec.family.makes_images,
        haystack: searchable(&haystack.join(" ")),
    }
}

/// In small letters, and without what names of one model differ by: `z_image`, `Z-Image` and `Z Image` are one.
fn searchable(text: &str) -> String {
    let letters = text
        .chars()
        .filter(|letter| !matches!(letter, ' ' | '_' | '-'));
    letters.flat_map(char::to_lowercase).collect()
}

fn of_unusable(at: usize, model: &UnusableModel) -> ListedModel {
    let facts = match (&model.needs[..], model.ailment) {
        ([], ModelProblem::Incomplete) => "A file is missing".to_owned(),
        ([], ModelProblem::Broken) => "A file is damaged or does not belong to it".to_owned(),
        ([], ModelProblem::Unsupported) => "This version cannot run models of this kind".to_owned(),
        ([one], _) => format!("Needs {}", one.what),
        (several, _) => format!("Needs {} more files", several.len()),
    };
    let path = model.path.display().to_string();
    ListedModel {
        id: path.clone(),
        place: ModelPosition::Unusable(at),
        name: model.name.clone(),
        facts,
        size: String::new(),
        ailment: Some(model.ailment),
        is_remote: false,
        makes_images: false,
        haystack: searchable(&format!("{} {path} {}", model.name, model.summary)),
    }
}

fn of_known(at: usize, entry: &CatalogEntry) -> ListedModel {
    let family = entry.family.label;
    let size = match entry.bytes_to_fetch() {
        Some(bytes) => size_text(bytes),
        None => format!("about {} GiB", entry.about_bytes_to_fetch().div_ceil(GIB)),
    };
    let haystack = [
        &entry.name,
        &entry.id,
        &entry.description,
        family,
        &entry.variant,
        "download",
    ];
    ListedModel {
        id: entry.id.clone(),
        place: ModelPosition::Known(at),
        name: entry.name.clone(),
        facts: entry.description.clone(),
        size,
        ailment: None,
        is_remote: false,
        makes_images: entry.family.makes_images,
        haystack: searchable(&haystack.join(" ")),
    }
}
