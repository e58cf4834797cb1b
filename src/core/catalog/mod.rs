//! Model catalogue: entries of `models.toml`, models on disk, and missing files.
//!
//! Reads headers and configs only; the engine reads weights.
//! A model is defined by its configs and headers; its folder's name only selects the catalogue entry.

mod build;
mod default_job;
mod details;
mod entry;
mod helper;
mod inspect_report;
mod source;
#[cfg(test)]
mod tests;
mod unusable;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

pub use default_job::DefaultJob;
pub use entry::{CatalogEntry, known_models};
pub use helper::{HelperKind, helper_entry};
pub use inspect_report::{ComponentCard, IdentityCard};
pub use source::DownloadSource;
pub use unusable::{ModelProblem, NeededFile, UnusableModel};

use crate::library::identify::{self, ModelTarget};
use crate::library::scan::{self, PipelineFolder, ScanResult};
use crate::library::single::{self, AssembledModel};
use crate::library::watch::{self, FolderWatch, PathStamp};
use crate::library::{
    self, ComponentCandidate, ComponentLibrary, KnownComponents, SearchPath, SearchPaths,
    WeightFileRole,
};
use crate::model::{CatalogError, ComponentOverrides, ModelSpec, SEE_MODELS};
use crate::networks::PartKind;
use crate::settings::{AppPaths, Settings};
use crate::units::size_text;
use crate::{families, fitting};
use build::{build, claiming};
use entry::ModelEntry;
use source::LocalFileCheck;

/// The id of the model that ships with the app.
pub const EMBEDDED_MODEL: &str = "little-world";
/// Limit of single files of one kind that are listed.
const MAX_SINGLE_FILES: usize = 1000;
/// Models that a LoRA's card compares it with.
const MAX_COMPARED: usize = 8;

/// All models of one user on one machine.
#[derive(Debug, Default)]
pub struct ModelCatalog {
    /// On the disk, whole, and of a family that this version runs.
    pub available: Vec<ModelSpec>,
    /// Known, but not on the disk.
    pub missing: Vec<CatalogEntry>,
    /// Places where models were searched, existing or not.
    pub searched: Vec<SearchPath>,
    /// Broken models, and what is wrong with the user's own `models.toml`.
    pub problems: Vec<CatalogError>,
    /// Models of families, variants and storages that this version cannot run.
    pub unsupported: Vec<CatalogError>,
    /// Paths whose change means that another search may find something else.
    pub watched: FolderWatch,
    entries: Vec<ModelEntry>,
    /// Ids of known models whose folders are there and not whole.
    broken: Vec<(String, PathBuf)>,
    /// Transformers or folders of models with problems, and the indices of those.
    affected: Vec<(PathBuf, usize)>,
    /// Components in the searched folders.
    known: KnownComponents,
}

impl ModelCatalog {
    /// Finds out what there is. Takes milliseconds for each model, more on a sleeping disk: call it from no thread that
    /// draws.
    pub fn load(paths: &AppPaths, settings: &Settings) -> Self {
        let (entries, problem) = entry::with_users(&paths.models_file());
        let places = SearchPaths::gather(paths, settings);
        let mut catalog = Self {
            searched: places.all,
            problems: problem.into_iter().chain(places.problems).collect(),
            entries,
            ..Self::default()
        };
        let shipped = paths.assets.as_ref();
        catalog.known.shipped_tokenizers = shipped.map(|it| it.join(library::TOKENIZERS));
        let (found, library) = catalog.search();
        for candidate in &found.candidates {
            catalog.take(candidate);
        }
        catalog.take_single_files(&found, &library);
        catalog.watched = catalog.to_watch(found.visited, paths);
        catalog.list_missing();
        catalog
    }

    /// Missing and broken paths first, then the folders that were searched.
    fn to_watch(&self, visited: Vec<(PathBuf, PathStamp)>, paths: &AppPaths) -> FolderWatch {
        let absent = self.searched.iter().filter(|it| !it.exists);
        let absent = absent.map(|place| (place.path.clone(), None));
        let lists = self.searched.iter().filter_map(|it| it.named_in.clone());
        let broken = self.problems.iter().filter_map(CatalogError::path);
        let files = lists
            .chain(broken.map(Path::to_owned))
            .chain([paths.models_file()])
            .map(|path| {
                let look = watch::path_stamp(&path);
                (path, look)
            });
        let mut seen = HashSet::new();
        let watched = absent.chain(files).chain(visited);
        FolderWatch::since(watched.filter(|(path, _)| seen.insert(path.clone())))
    }

    /// Lists what is known and not here, and what would have to be fetched.
    fn list_missing(&mut self) {
        let mut present = LocalFileCheck::new(&self.known.parts, !self.known.tokenizers.is_empty());
        let is_here = |entry: &&ModelEntry| self.available.iter().any(|spec| spec.id == entry.id);
        let missing = self.entries.iter().filter(|entry| !is_here(entry));
        self.missing = missing
            .map(|entry| entry.listed(present.sources(entry)))
            .collect();
    }

    /// Searches all folders and collects their components.
    fn search(&mut self) -> (ScanResult, ComponentLibrary) {
        let mut found = ScanResult::default();
        let own_places = self.entries.iter().filter_map(|entry| entry.path.as_ref());
        let searched = self.searched.iter().map(|place| &place.path);
        for path in own_places.chain(searched) {
            scan::search(path, &mut found);
        }
        for place in &found.cut_short {
            self.problems.push(CatalogError::config(
                "too many folders: only some of them were searched",
                place.clone(),
            ));
        }
        // Folders are read once for both.
        let mut library = self.library();
        self.known.parts = scan::parts(&found, &library);
        self.known.tokenizers = scan::tokenizers(&found, &self.known.parts);
        self.known.llama_tokenizers = scan::llama_tokenizers(&found);
        library.known.clone_from(&self.known);
        (found, library)
    }

    /// The model with this id, or the one in the file or folder at this path.
    pub fn find(&self, id_or_path: &str) -> Result<ModelSpec, CatalogError> {
        self.open_with(id_or_path, &ComponentOverrides::default())
    }

    /// As [`Self::find`], with parts that the user named in place of those that were found.
    pub fn open_with(
        &self,
        id_or_path: &str,
        companions: &ComponentOverrides,
    ) -> Result<ModelSpec, CatalogError> {
        if let Some(spec) = self.available.iter().find(|spec| spec.id == id_or_path) {
            if companions.is_empty() {
                return Ok(spec.clone());
            }
            // The entry's own words stay; only the parts are others.
            let opened = self.open(&spec.folder, companions)?;
            return Ok(ModelSpec {
                files: opened.files,
                bytes: opened.bytes,
                ..spec.clone()
            });
        }
        let path = Path::new(id_or_path);
        // An id is one word; what has a slash in it or is there is a path.
        if !id_or_path.is_empty() && (id_or_path.contains('/') || fs::metadata(path).is_ok()) {
            return self.open(path, companions);
        }
        if let Some((_, folder)) = self.broken.iter().find(|(id, _)| id == id_or_path) {
            // Its problem is more useful than that it is missing.
            return self.open(folder, companions);
        }
        Err(self.not_found(id_or_path))
    }

    /// Library of the parts that the search found.
    fn library(&self) -> ComponentLibrary {
        ComponentLibrary::new(self.known.clone())
    }

    fn open(
        &self,
        path: &Path,
        companions: &ComponentOverrides,
    ) -> Result<ModelSpec, CatalogError> {
        let library = self.library();
        open(path, &self.entries, companions, &library)
    }

    /// Inspection report of a file or folder, whose components may also be in the searched folders.
    pub fn card(&self, path: &Path) -> Result<IdentityCard, CatalogError> {
        let library = self.library();
        let mut card = IdentityCard::read_with(path, &library, |path| {
            open(
                path,
                &self.entries,
                &ComponentOverrides::default(),
                &library,
            )
        })?;
        if let Some(lora) = &mut card.lora {
            let models = self.available.iter();
            let models = models.filter(|spec| spec.family.id == lora.family);
            let fits = models.take(MAX_COMPARED);
            lora.fits
                .extend(fits.map(|spec| fitting::fit_with(spec, path)));
        }
        Ok(card)
    }

    fn not_found(&self, id: &str) -> CatalogError {
        if let Some(entry) = self.missing.iter().find(|entry| entry.id == id) {
            let bytes = Some(entry.download_bytes).filter(|bytes| *bytes > 0);
            let size = bytes.map_or_else(String::new, |it| format!(", {}", size_text(it)));
            return CatalogError::Request {
                reason: format!(
                    "{} is not downloaded: it needs {}{size}",
                    entry.name, entry.what
                ),
                advice: "Download it with `safelight download` and its id, put its folder into one that `safelight models` lists, or name the folder with --model",
            };
        }
        let known: Vec<&str> = self
            .available
            .iter()
            .map(|spec| spec.id.as_str())
            .chain(self.missing.iter().map(|entry| entry.id.as_str()))
            .collect();
        CatalogError::Request {
            reason: format!("there is no model '{id}'; available: {}", known.join(", ")),
            advice: SEE_MODELS,
        }
    }

    fn take(&mut self, candidate: &PipelineFolder) {
        // One of parts for other models is no model.
        let is_embedder = |item: &ComponentCandidate| {
            item.role == WeightFileRole::Part(PartKind::Redux)
                && item.place.starts_with(&candidate.folder)
        };
        if self.known.parts.iter().any(is_embedder) {
            return;
        }
        let library = ComponentLibrary::default();
        let name = &candidate.name;
        let model = pipeline(&candidate.folder, &ComponentOverrides::default(), &library);
        let model = model.map(|model| AssembledModel {
            name: name.clone(),
            ..model
        });
        self.offer(model, &candidate.folder, |entry| {
            entry.has_folder_name(name)
        });
    }

    /// Takes a model in, or notes what is wrong with it and which known one it would be.
    fn offer(
        &mut self,
        model: Result<AssembledModel, CatalogError>,
        place: &Path,
        is_named: impl Fn(&ModelEntry) -> bool,
    ) {
        match model.and_then(|model| self.claim_and_build(&model)) {
            Ok(spec) => self.available.push(spec),
            Err(err @ CatalogError::Unsupported { .. }) => self.unsupported.push(err),
            Err(err) => {
                let problem = self.note(err);
                self.affected.push((place.to_owned(), problem));
                if let Some(entry) = self.entries.iter().find(|entry| is_named(entry)) {
                    self.broken.push((entry.id.clone(), place.to_owned()));
                }
            }
        }
    }

    /// Notes what is wrong with a model, once where several share a damaged part, and returns its index.
    fn note(&mut self, problem: CatalogError) -> usize {
        let text = problem.to_string();
        let mut noted = self.problems.iter();
        noted
            .position(|noted| noted.to_string() == text)
            .unwrap_or_else(|| {
                self.problems.push(problem);
                self.problems.len() - 1
            })
    }

    /// Offers single transformer files, two experts as one model.
    fn take_single_files(&mut self, found: &ScanResult, library: &ComponentLibrary) {
        let of_role = |is_wanted: fn(&WeightFileRole) -> bool| {
            let parts = self.known.parts.iter().filter(|item| is_wanted(&item.role));
            parts.map(|item| item.place.clone()).collect::<Vec<_>>()
        };
        let transformers = of_role(|role| matches!(role, WeightFileRole::Transformer(_)));
        let foreign = of_role(|role| *role == WeightFileRole::Foreign);
        for place in foreign.iter().take(MAX_SINGLE_FILES) {
            match identify::foreign_file(place) {
                err @ CatalogError::Unsupported { .. } => self.unsupported.push(err),
                err => _ = self.note(err),
            }
        }
        if transformers.len() > MAX_SINGLE_FILES {
            self.problems.push(CatalogError::config(format!(
                    "there are {} single-file models, and only the first {MAX_SINGLE_FILES} are listed",
                    transformers.len()
                ), transformers[MAX_SINGLE_FILES].clone()));
        }
        let mut taken: HashSet<PathBuf> = HashSet::new();
        for place in transformers.iter().take(MAX_SINGLE_FILES) {
            let mut folders = found.candidates.iter().map(|candidate| &candidate.folder);
            if taken.contains(place) || folders.any(|folder| place.starts_with(folder)) {
                continue;
            }
            let model = families::assemble(place, &ComponentOverrides::default(), library);
            if let Ok(model) = &model {
                taken.insert(model.files.transformer.clone());
                taken.extend(model.files.transformer_2.clone());
            }
            let name = single::file_stem(place);
            self.offer(model, place, |entry| entry.has_file_name(&name));
        }
    }

    /// The spec of a model, by the entry that it is unless another has taken that.
    fn claim_and_build(&self, model: &AssembledModel) -> Result<ModelSpec, CatalogError> {
        let is_taken = |id: &str| self.available.iter().any(|spec| spec.id == id);
        let claim = claiming(&self.entries, model).filter(|entry| !is_taken(&entry.id));
        build(model, claim, &self.entries, &self.known.parts)
    }
}

impl ModelSpec {
    /// The model in a diffusers folder, or that of a transformer's file with the parts around it, checked
    /// whole. Its id is its path, so that a request for it can be repeated.
    pub fn open(path: &Path) -> Result<Self, CatalogError> {
        let companions = ComponentOverrides::default();
        let library = ComponentLibrary::of_this_program();
        open(path, &entry::built_in(), &companions, &library)
    }
}

fn open(
    path: &Path,
    entries: &[ModelEntry],
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<ModelSpec, CatalogError> {
    let model = match identify::target(path)? {
        ModelTarget::Pipeline(folder) => pipeline(&folder, companions, library)?,
        ModelTarget::Parts(path) => {
            let place = match families::transformer_at(&path, library) {
                Err(CatalogError::NoModel { path }) => return Err(identify::without_index(&path)),
                other => other?,
            };
            families::assemble(&place, companions, library)?
        }
    };
    let mut parts = library.known.parts.clone();
    let near = [PartKind::Redux, PartKind::Siglip];
    parts.extend(library::component_search::around(
        &model.files.transformer,
        &near,
    ));
    build(&model, None, entries, &parts)
}

/// A diffusers folder, checked whole.
fn pipeline(
    folder: &Path,
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<AssembledModel, CatalogError> {
    let (files, facts) = families::check_folder(folder, companions, library)?;
    Ok(AssembledModel {
        place: folder.to_owned(),
        name: scan::model_name(folder),
        files,
        facts,
    })
}
