//! Folders searched for models, in order of precedence, with their origin.
//!
//! Each folder counts once, under any name. Nothing is searched here: see `scan`.

mod extra_paths;
mod installs;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::files::has_ending;
use crate::formats::sorted_entries;
use crate::model::CatalogError;
use crate::settings::{AppPaths, Settings};
use extra_paths::ConfigEnvironment;
pub(crate) use extra_paths::ListedFolders;

/// Limit of programs in one folder that the user named.
const MAX_PROGRAMS: usize = 200;

/// A place where models were looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SearchPath {
    pub path: PathBuf,
    /// True if anything was there at that time.
    pub exists: bool,
    /// ComfyUI's list of folders that names it.
    pub named_in: Option<PathBuf>,
}

/// All places, in the order in which they win.
#[derive(Debug, Default)]
pub(crate) struct SearchPaths {
    pub all: Vec<SearchPath>,
    /// Lists that could not be read, and folders of the settings that are gone.
    pub problems: Vec<CatalogError>,
    /// Folders of programs, and the lists of folders that were read.
    installs: Vec<PathBuf>,
    lists: Vec<PathBuf>,
    home: Option<PathBuf>,
    seen: HashSet<PathBuf>,
}

impl SearchPaths {
    pub(crate) fn gather(paths: &AppPaths, settings: &Settings) -> Self {
        let programs = paths.programs.as_ref();
        let mut places = Self {
            home: programs.map(|programs| programs.home.clone()),
            ..Self::default()
        };
        if let Some(path) = &paths.assets {
            places.add(path, None);
        }
        for folder in &settings.models.folders {
            places.add_named(folder);
        }
        places.add(&paths.models(), None);
        if let Some(programs) = programs.filter(|_| settings.models.search_installs) {
            for install in installs::known(programs) {
                places.add_install(&install);
            }
            // ComfyUI Desktop keeps it among its settings.
            places.add_listed(&programs.config.join("ComfyUI/extra_models_config.yaml"));
        }
        if let Some(path) = &paths.huggingface {
            places.add(path, None);
        }
        places
    }

    /// Folders of LoRAs: next to and below models, in programs' own folders, and in the folders that lists name for
    /// them; with each, whether all weights in it are LoRAs. What is there is not looked at.
    pub(crate) fn of_loras(&self) -> Vec<(PathBuf, bool)> {
        let listed = self.listed(ListedFolders::Loras);
        let places = self.all.iter().map(|place| place.path.clone());
        let beside = self.all.iter().filter_map(|place| place.path.parent());
        let programs = self.installs.iter().map(PathBuf::as_path).chain(beside);
        let inner = programs
            .flat_map(|program| sorted_entries(program).unwrap_or_default())
            .filter(|folder| is_for_loras(folder) && folder.is_dir());
        let others = places.chain(inner).map(|place| {
            let is_for_loras = is_for_loras(&place);
            (place, is_for_loras)
        });
        listed.map(|place| (place, true)).chain(others).collect()
    }

    /// Folders of other networks: those of these names, without case and punctuation, in the places and in
    /// programs, and those that lists name for such networks.
    pub(crate) fn of_networks(&self, names: &[&str], listed: ListedFolders) -> Vec<PathBuf> {
        let is_named = |place: &Path| names.contains(&installs::plain_name(place).as_str());
        let places = self.all.iter().map(|place| place.path.as_path());
        let around = places
            .clone()
            .chain(self.installs.iter().map(PathBuf::as_path));
        let inner = around.flat_map(|place| sorted_entries(place).unwrap_or_default());
        let own = places.map(Path::to_owned).chain(inner);
        let own = own.filter(|place| is_named(place) && place.is_dir());
        own.chain(self.listed(listed)).collect()
    }

    /// The folders that lists name for this; what is wrong with a list is reported with the models.
    fn listed(&self, wanted: ListedFolders) -> impl Iterator<Item = PathBuf> {
        let environment = self.environment();
        let folders = self
            .lists
            .iter()
            .flat_map(|list| extra_paths::read(list, &environment, wanted).unwrap_or_default());
        folders.collect::<Vec<_>>().into_iter()
    }

    fn folders_listed_in(&self, list: &Path) -> Result<Vec<PathBuf>, CatalogError> {
        extra_paths::read(list, &self.environment(), ListedFolders::Models)
    }

    fn environment(&self) -> ConfigEnvironment<'_> {
        ConfigEnvironment {
            home: self.home.as_deref(),
            variable: &|name| std::env::var(name).ok(),
        }
    }

    fn add(&mut self, path: &Path, named_in: Option<&Path>) {
        let real = fs::canonicalize(path);
        let exists = real.is_ok();
        if self.seen.insert(real.unwrap_or_else(|_| path.to_owned())) {
            self.all.push(SearchPath {
                path: path.to_owned(),
                exists,
                named_in: named_in.map(Path::to_owned),
            });
        }
    }

    /// A folder of the settings: models, a program with models, a folder of such, or a list of folders.
    fn add_named(&mut self, folder: &Path) {
        if has_ending(folder, &["yaml", "yml"]) && folder.is_file() {
            self.add_listed(folder);
            return;
        }
        if !folder.is_dir() {
            self.problems.push(CatalogError::missing(
                "a folder named in the setting models.folders",
                folder,
            ));
        }
        // Before the folder itself, so that each is searched to its full depth.
        self.add_install(folder);
        let inner = sorted_entries(folder).unwrap_or_default().into_iter();
        for program in inner.filter(|path| path.is_dir()).take(MAX_PROGRAMS) {
            self.add_install(&program);
        }
        let is_models = folder.file_name().is_some_and(|name| name == "models");
        if let Some(install) = folder.parent().filter(|_| is_models) {
            self.add_listed(&installs::extra_paths_in(install));
        }
        self.add(folder, None);
    }

    /// The places of one program; none where the folder is no program's.
    fn add_install(&mut self, install: &Path) {
        self.add_listed(&installs::extra_paths_in(install));
        let folders = installs::model_folders(install);
        if !folders.is_empty() {
            self.installs.push(install.to_owned());
        }
        for folder in folders {
            self.add(&folder, None);
        }
    }

    fn add_listed(&mut self, list: &Path) {
        self.lists.push(list.to_owned());
        match self.folders_listed_in(list) {
            Ok(listed) => {
                for path in listed {
                    self.add(&path, Some(list));
                }
            }
            Err(err) => self.problems.push(err),
        }
    }
}

/// The folders with models that a list of another program names, as a search takes them. Looks into none of them.
pub fn folders_listed_in(list: &Path) -> Result<Vec<PathBuf>, CatalogError> {
    SearchPaths::default().folders_listed_in(list)
}

pub(crate) fn is_for_loras(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // In the middle of a word it is part of another: exploration, floral.
    let lower = name.to_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_alphanumeric());
    words.any(|word| {
        ["lora", "loras", "lycoris"]
            .iter()
            .any(|sign| word.starts_with(sign) || word.ends_with(sign))
    })
}
