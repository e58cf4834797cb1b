//! Models on disk that cannot be used: their missing files, and downloads that complete them.
//!
//! Only sentences and paths: the search found the problems.

use std::path::{Path, PathBuf};

use super::entry::ModelEntry;
use super::{CatalogEntry, DownloadSource, ModelCatalog};
use crate::library::names;
use crate::model::{CatalogError, advice_for};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelProblem {
    /// Files are missing next to it.
    Incomplete,
    /// A file is damaged, or says something that cannot be.
    Broken,
    /// Of a family or storage that this version cannot run.
    Unsupported,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededFile {
    /// Description: `a Wan 2.1 VAE`.
    pub what: String,
    /// Its name, and where it is published: `wan_2.1_vae.safetensors from Comfy-Org/…`.
    pub example: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct UnusableModel {
    pub name: String,
    /// Its file or folder.
    pub path: PathBuf,
    pub ailment: ModelProblem,
    pub needs: Vec<NeededFile>,
    /// Problem in a sentence, and the advice.
    pub summary: String,
    pub advice: String,
    /// Files that would complete it, where the catalogue knows sources.
    pub fetch: Option<CatalogEntry>,
}

impl ModelCatalog {
    /// All files there and cannot be used: each model once, by its transformer's file or its folder.
    pub fn unusable(&self) -> Vec<UnusableModel> {
        let problems = self.problems.iter().chain(&self.unsupported);
        let models = problems.enumerate().flat_map(|(index, problem)| {
            let of_it = self.affected.iter().filter(|(_, own)| *own == index);
            let mut places: Vec<&Path> = of_it.map(|(place, _)| place.as_path()).collect();
            if places.is_empty() {
                places.extend(problem.path());
            }
            places
                .into_iter()
                .filter_map(|path| self.unusable_at(path, problem))
        });
        models.collect()
    }

    fn unusable_at(&self, path: &Path, problem: &CatalogError) -> Option<UnusableModel> {
        let ailment = ailment_of(problem)?;
        let needs = needs_of(problem);
        Some(UnusableModel {
            name: name_of(path),
            path: path.to_owned(),
            ailment,
            fetch: (ailment != ModelProblem::Unsupported)
                .then(|| self.remedy(path, &needs))
                .flatten(),
            needs,
            summary: problem.to_string(),
            advice: advice_for(problem).into_owned(),
        })
    }

    /// Files that a download could add: those that the known model still lacks, else those of the needed names.
    fn remedy(&self, path: &Path, needs: &[NeededFile]) -> Option<CatalogEntry> {
        let known = self.broken.iter().find(|(_, place)| place == path);
        let known = known.and_then(|(id, _)| self.missing.iter().find(|entry| entry.id == *id));
        if let Some(entry) = known.filter(|entry| entry.to_fetch().next().is_some()) {
            return Some(entry.clone());
        }
        let all = || self.entries.iter().flat_map(|entry| &entry.sources.0);
        let source = |needed: &NeededFile| {
            let (file, repository) = needed.example.split_once(" from ")?;
            let by_name = all().find(|(_, source)| source.name == file);
            let like = |source: &DownloadSource| {
                source.repository == repository && first_word(&source.name) == first_word(file)
            };
            by_name
                .or_else(|| all().find(|(_, source)| like(source)))
                .map(|(_, source)| source.clone())
        };
        let sources: Vec<DownloadSource> = needs.iter().filter_map(source).collect();
        if sources.is_empty() || sources.len() < needs.len() {
            return None;
        }
        let entry = self.like(path)?;
        Some(CatalogEntry {
            id: path.display().to_string(),
            name: name_of(path),
            description: "What is missing beside this model".to_owned(),
            sources,
            ..entry.listed(Vec::new())
        })
    }

    /// Any entry, for what it says of licences; the nearest by name.
    fn like(&self, path: &Path) -> Option<&ModelEntry> {
        let name = name_of(path).to_lowercase();
        let nearness = |entry: &&ModelEntry| {
            let known = names::model_words(&entry.id);
            known
                .iter()
                .filter(|word| name.contains(word.as_str()))
                .count()
        };
        self.entries.iter().rev().max_by_key(nearness)
    }
}

/// `None` for what is no model's.
fn ailment_of(problem: &CatalogError) -> Option<ModelProblem> {
    match problem {
        CatalogError::Missing { .. }
        | CatalogError::MissingCompanion { .. }
        | CatalogError::MissingCompanions { .. }
        | CatalogError::WrongCompanion { .. }
        | CatalogError::Expert { .. } => Some(ModelProblem::Incomplete),
        CatalogError::Unsupported { .. } | CatalogError::Pickle { .. } => {
            Some(ModelProblem::Unsupported)
        }
        CatalogError::Catalogue { .. }
        | CatalogError::Request { .. }
        | CatalogError::NoSuchPath { .. } => None,
        _ => Some(ModelProblem::Broken),
    }
}

fn needs_of(problem: &CatalogError) -> Vec<NeededFile> {
    let needed = |what: &str, example: &str| NeededFile {
        what: what.to_owned(),
        example: example.to_owned(),
    };
    match problem {
        CatalogError::MissingCompanion { what, example, .. }
        | CatalogError::WrongCompanion { what, example, .. } => vec![needed(what, example)],
        CatalogError::MissingCompanions { parts, .. } => {
            let parts = parts.iter();
            parts.map(|(what, example)| needed(what, example)).collect()
        }
        _ => Vec::new(),
    }
}

/// The name of a file without its extension, or of a folder.
fn name_of(path: &Path) -> String {
    let name = if path.is_dir() {
        path.file_name()
    } else {
        path.file_stem()
    };
    name.unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn first_word(name: &str) -> &str {
    name.split(['_', '.', '-']).next().unwrap_or(name)
}
