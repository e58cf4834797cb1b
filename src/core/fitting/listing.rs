//! LoRA files on this disk, and their fit to a model.
//!
//! Lists folders and reads headers; both are bounded, and unreadable folders or files are skipped.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{LoraInfo, fitting_plan};
use crate::families;
use crate::families::def_of;
use crate::files::has_ending;
use crate::library::networks::FileSearch;
use crate::library::{SearchPaths, is_for_loras};
use crate::lora::{LayerTable, LoraCoverage, LoraFile, LoraPlan};
use crate::model::{CatalogError, ModelSpec};
use crate::settings::{AppPaths, Settings};

/// Folders in folders.
const MAX_DEPTH: usize = 6;
const MAX_FILES: usize = 20_000;

#[derive(Clone, Debug)]
pub struct FoundLora {
    pub path: PathBuf,
    pub bytes: u64,
    /// Info of the file, if it is a LoRA.
    pub card: Option<LoraInfo>,
    pub fit: LoraFit,
    /// With it the model sees a control image next to the noise ([`with_control_lora`](crate::families::with_control_lora)).
    pub is_of_control: bool,
    /// All that a search looks at, in small letters.
    haystack: String,
}

#[derive(Clone, Debug)]
pub enum LoraFit {
    /// With this coverage, as far as the header states it.
    Yes(LoraCoverage),
    /// Why not, in a sentence.
    No(String),
    /// There is no such file any more.
    Gone,
}

impl FoundLora {
    pub fn new(path: &Path, bytes: u64, card: Option<LoraInfo>, fit: LoraFit) -> Self {
        let mut haystack = path.to_string_lossy().into_owned();
        if let Some(card) = &card {
            let about = card.title.iter().chain(&card.base_model);
            for part in about.chain(&card.trained_words).chain([&card.made_for]) {
                haystack.push(' ');
                haystack.push_str(part);
            }
        }
        Self {
            path: path.to_owned(),
            bytes,
            card,
            fit,
            is_of_control: false,
            haystack: haystack.to_lowercase(),
        }
    }

    /// Returns true if each of the words, in small letters, is in its path, in its model's name, or among the words it was
    /// trained on.
    pub fn has_words(&self, words: &str) -> bool {
        words
            .split_whitespace()
            .all(|word| self.haystack.contains(word))
    }

    /// The file's name without its ending.
    pub fn name(&self) -> String {
        crate::lora::stem(&self.path)
    }

    /// The last two folders of its path, which tell files of one name apart.
    pub fn folder(&self) -> String {
        let folders = self.path.parent().into_iter().flat_map(Path::components);
        let folders: Vec<&OsStr> = folders.rev().take(2).map(|it| it.as_os_str()).collect();
        let folders = folders.into_iter().rev().collect::<PathBuf>();
        folders.to_string_lossy().into_owned()
    }

    pub fn fits(&self) -> bool {
        matches!(self.fit, LoraFit::Yes(_))
    }
}

/// A model whose layers LoRAs are compared with.
pub struct LoraMatcher {
    spec: ModelSpec,
    tables: Vec<LayerTable>,
}

impl LoraMatcher {
    /// Reads the headers of the model's networks.
    pub fn of(spec: &ModelSpec) -> Result<Self, CatalogError> {
        Ok(Self {
            tables: def_of(spec.family).lora_tables(&spec.files)?,
            spec: spec.clone(),
        })
    }

    /// Looks at one file.
    pub fn look(&self, path: &Path) -> FoundLora {
        let bytes = fs::metadata(path).map(|stat| stat.len());
        let mut is_of_control = false;
        let (card, fit) = match (LoraFile::read(path), &bytes) {
            (_, Err(err)) if err.kind() == std::io::ErrorKind::NotFound => (None, LoraFit::Gone),
            (Err(err), _) => (None, LoraFit::No(reason(err))),
            (Ok(file), _) => {
                let fit = match self.fitting_plan(&file) {
                    Ok(plan) => {
                        is_of_control = plan.widened().is_some();
                        LoraFit::Yes(plan.coverage)
                    }
                    Err(reason) => LoraFit::No(reason),
                };
                (Some(LoraInfo::of(&file)), fit)
            }
        };
        FoundLora {
            is_of_control,
            ..FoundLora::new(path, bytes.unwrap_or(0), card, fit)
        }
    }

    /// The plan, or why there is none, in a sentence without the path.
    fn fitting_plan(&self, file: &LoraFile) -> Result<LoraPlan, String> {
        let plan = fitting_plan(file, self.spec.family, &self.tables).map_err(reason)?;
        if plan.widened().is_some() {
            families::with_control_lora(&self.spec, &file.path)?;
        }
        Ok(plan)
    }
}

/// Use of a LoRA by a model, as a sentence that begins with the model's name.
pub(crate) fn fit_with(spec: &ModelSpec, path: &Path) -> String {
    let found = LoraMatcher::of(spec).map(|fitting| fitting.look(path).fit);
    let name = &spec.name;
    match found {
        Ok(LoraFit::Yes(coverage)) => format!("{name}: {coverage:#}"),
        Ok(LoraFit::No(reason)) => format!("{name}: {reason}"),
        Ok(LoraFit::Gone) => format!("{name}: there is no such file"),
        Err(err) => format!("{name}: {err}"),
    }
}

/// The sentence without the path, which is shown next to it.
fn reason(err: CatalogError) -> String {
    match err {
        CatalogError::WrongFile { reason, .. } => reason,
        err => err.to_string(),
    }
}

/// The files on this disk that are LoRAs by their names or their folders', in the order of their names.
pub fn find(paths: &AppPaths, settings: &Settings) -> Vec<PathBuf> {
    let mut search = FileSearch::new(MAX_FILES);
    for (place, is_for_loras_alone) in SearchPaths::gather(paths, settings).of_loras() {
        let is_wanted = |path: &Path| {
            let mut within = path.ancestors().take_while(|it| *it != place);
            has_ending(path, &["safetensors"]) && (is_for_loras_alone || within.any(is_for_loras))
        };
        search.walk(&place, MAX_DEPTH, &is_wanted);
    }
    search.found.sort_by_cached_key(|path| {
        let name = crate::lora::stem(path).to_lowercase();
        (name, path.clone())
    });
    search.found
}
