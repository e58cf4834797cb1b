//! Networks besides models on this disk, in our own folders and where other programs keep theirs: listing those
//! of one kind, and the one that a user names.
//!
//! Lists folders and reads headers; both are bounded, and a folder or file that cannot be read costs itself alone.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use super::places::ListedFolders;
use super::places::SearchPaths;
use crate::files::has_ending;
use crate::formats::sorted_entries;
use crate::formats::weights::is_pickle;
use crate::model::CatalogError;
use crate::settings::{AppPaths, Settings};

/// Folders in such folders.
const MAX_DEPTH: usize = 3;
const MAX_FILES: usize = 2_000;
/// Folders and files of one search.
const MAX_VISITED: usize = 40_000;

/// Folders of networks of one kind.
pub(crate) struct NetworkFolders {
    /// The names of folders, without case and punctuation, ours first.
    pub folders: &'static [&'static str],
    /// By which key of other programs' lists they are known.
    pub listed: ListedFolders,
    /// Our own folder for them, which has ComfyUI's name.
    pub home: &'static str,
    /// Noun phrase for such networks that follows "put".
    pub what: &'static str,
}

/// A network that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledNetwork<C> {
    pub path: PathBuf,
    /// The file's name without its ending.
    pub name: String,
    pub config: C,
}

impl<C> InstalledNetwork<C> {
    pub(crate) fn read(
        read: fn(&Path) -> Result<C, CatalogError>,
        path: &Path,
    ) -> Result<Self, CatalogError> {
        Ok(Self {
            path: path.to_owned(),
            name: name_of(path),
            config: read(path)?,
        })
    }
}

/// All that are of a kind, in the order of their names.
pub(crate) fn find<C>(
    read: fn(&Path) -> Result<C, CatalogError>,
    files: &[PathBuf],
) -> Vec<InstalledNetwork<C>> {
    let known = files
        .iter()
        .filter_map(|path| InstalledNetwork::read(read, path).ok());
    let mut found: Vec<InstalledNetwork<C>> = known.collect();
    found.sort_by_cached_key(|network| (network.name.to_lowercase(), network.path.clone()));
    found
}

impl NetworkFolders {
    /// Weight files of any kind, so that a pickle can be named.
    pub fn files(&self, paths: &AppPaths, settings: &Settings) -> Vec<PathBuf> {
        let mut search = FileSearch::new(MAX_FILES);
        let is_wanted = |path: &Path| has_ending(path, &["safetensors"]) || is_pickle(path);
        for place in SearchPaths::gather(paths, settings).of_networks(self.folders, self.listed) {
            search.walk(&place, MAX_DEPTH, &is_wanted);
        }
        search.found
    }

    /// The file of a network that a user names: a path, or the name of one that is found here. `known`: the names of those
    /// that can be chosen.
    pub fn named(
        &self,
        wanted: &str,
        paths: &AppPaths,
        settings: &Settings,
        known: impl FnOnce() -> Vec<String>,
    ) -> Result<PathBuf, CatalogError> {
        named(wanted, &self.files(paths, settings)).ok_or_else(|| {
            let (what, home) = (self.what, self.home);
            let known = match &*known() {
                [] => format!(
                    "none; put {what} as .safetensors into {} or ComfyUI's models/{home}",
                    paths.models().join(home).display(),
                ),
                known => known.join(", "),
            };
            CatalogError::Request {
                reason: format!("none of the {what} here is called '{wanted}'; available: {known}"),
                advice: "",
            }
        })
    }
}

fn named(wanted: &str, all: &[PathBuf]) -> Option<PathBuf> {
    let path = Path::new(wanted);
    if path.exists() || path.components().count() > 1 {
        return Some(path.to_owned());
    }
    let is_it = |file: &&PathBuf| {
        let full = file.file_name().unwrap_or_default().to_string_lossy();
        full.eq_ignore_ascii_case(wanted) || name_of(file).eq_ignore_ascii_case(wanted)
    };
    // One that can be opened is meant before a pickle of the same name.
    let mut named = all.iter().filter(is_it).collect::<Vec<_>>();
    named.sort_by_key(|file| is_pickle(file));
    named.first().map(|file| (*file).clone())
}

/// A search of folders for files, limited in both.
pub(crate) struct FileSearch {
    pub found: Vec<PathBuf>,
    max_files: usize,
    /// Real paths that were visited: links lead in circles, and two programs may share their files.
    seen: HashSet<PathBuf>,
}

impl FileSearch {
    pub fn new(max_files: usize) -> Self {
        Self {
            found: Vec::new(),
            max_files,
            seen: HashSet::new(),
        }
    }

    /// Adds the files that are wanted in a folder and in folders of it down to a depth.
    pub fn walk(&mut self, folder: &Path, depth: usize, is_wanted: &dyn Fn(&Path) -> bool) {
        if self.seen.len() >= MAX_VISITED || !self.is_new(folder) {
            return;
        }
        for path in sorted_entries(folder).unwrap_or_default() {
            if is_hidden(&path) {
                continue;
            }
            if path.is_dir() {
                if depth > 0 {
                    self.walk(&path, depth - 1, is_wanted);
                }
            } else if is_wanted(&path) && self.found.len() < self.max_files && self.is_new(&path) {
                self.found.push(path);
            }
        }
    }

    fn is_new(&mut self, path: &Path) -> bool {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.seen.insert(real)
    }
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with('.') || name == "node_modules" || name == "venv"
}

/// Name of a network: its file's, or that of the folder with diffusers' file of one name.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    // A folder has no ending: the part after its last dot is a version.
    let folder = path.parent().and_then(Path::file_name);
    let name = folder.filter(|_| stem == "diffusion_pytorch_model");
    name.unwrap_or(stem).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_folder_names_keep_text_after_the_last_dot() {
        let union = "/nets/Z-Image-Turbo-Fun-Controlnet-Union-2.1";
        let folder = Path::new(union).join("diffusion_pytorch_model.safetensors");
        let expected = "Z-Image-Turbo-Fun-Controlnet-Union-2.1";
        assert_eq!(name_of(&folder), expected);
        let file = format!("{union}.safetensors");
        assert_eq!(name_of(Path::new(&file)), expected);
    }
}
