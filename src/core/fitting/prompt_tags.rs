//! LoRA files by the names that prompts, the command line and the settings of other programs give them, and embeddings.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use icu_normalizer::ComposingNormalizerBorrowed;

use super::embeddings::SHELF;
use super::{find, fitting_plan};
use crate::families::def_of;
use crate::lora::LoraFile;
use crate::media::component_fingerprint;
use crate::model::{ModelFamily, ModelFiles};
use crate::settings::{AppPaths, Settings};

/// Files that are named to choose from.
const MAX_LISTED: usize = 4;

/// The LoRA and embedding files of this computer. Folders are searched at the first use.
#[derive(Debug, Default)]
pub struct LoraIndex {
    places: Option<(AppPaths, Settings)>,
    files: OnceCell<Vec<PathBuf>>,
    embeddings: OnceCell<Vec<PathBuf>>,
}

impl From<Vec<PathBuf>> for LoraIndex {
    fn from(files: Vec<PathBuf>) -> Self {
        Self {
            places: None,
            files: files.into(),
            embeddings: OnceCell::new(),
        }
    }
}

impl LoraIndex {
    pub fn new(paths: &AppPaths, settings: &Settings) -> Self {
        Self {
            places: Some((paths.clone(), settings.clone())),
            files: OnceCell::new(),
            embeddings: OnceCell::new(),
        }
    }

    /// Files of embeddings, pickles included.
    pub(super) fn embeddings(&self) -> &[PathBuf] {
        self.embeddings.get_or_init(|| {
            let places = self.places.as_ref();
            places.map_or_else(Vec::new, |(paths, settings)| SHELF.files(paths, settings))
        })
    }

    /// The file that `name` means, in folders of these names where it has any; the error is a sentence.
    pub fn file_named(&self, name: &str, fits: &dyn Fn(&Path) -> bool) -> Result<PathBuf, String> {
        let files = self.files.get_or_init(|| {
            let places = self.places.as_ref();
            places.map_or_else(Vec::new, |(paths, settings)| find(paths, settings))
        });
        let num_folders = comparable(name).matches('/').count();
        let mut found = files_named(files, name, fits);
        found.retain(|file| shared_folders(file, name) >= Some(num_folders));
        match &found[..] {
            [] => Err(format!(
                "there is no LoRA {name:?} on this computer: put its file into the folder models/loras"
            )),
            [file] => Ok(file.clone()),
            several => Err(ambiguity(name, several)),
        }
    }
}

/// A sentence that lists the files of a name.
pub(crate) fn ambiguity(name: &str, files: &[PathBuf]) -> String {
    let listed = files.iter().take(MAX_LISTED);
    let mut listed: Vec<String> = listed.map(|file| file.display().to_string()).collect();
    if files.len() > listed.len() {
        listed.push("and others".to_owned());
    }
    format!(
        "several LoRAs are called {name}, choose one by its folder: {}",
        listed.join(", ")
    )
}

/// The files that `name` means, which may have folders and an ending: of those with the most of its folders the ones
/// that fit, or all of them where none does. Copies of one file count once.
pub(crate) fn files_named(
    files: &[PathBuf],
    name: &str,
    fits: &dyn Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let named = files
        .iter()
        .filter_map(|file| Some((shared_folders(file, name)?, file)));
    let named: Vec<(usize, &PathBuf)> = named.collect();
    let most = named.iter().map(|(count, _)| *count).max();
    let nearest = named.iter().filter(|(count, _)| Some(*count) == most);
    let mut nearest: Vec<PathBuf> = nearest.map(|(_, file)| (*file).clone()).collect();
    if nearest.len() > 1 {
        let fitting = nearest.iter().filter(|file| fits(file));
        let fitting: Vec<PathBuf> = fitting.cloned().collect();
        if !fitting.is_empty() {
            nearest = fitting;
        }
        let mut known = Vec::new();
        nearest.retain(|file| match component_fingerprint(file) {
            Ok(print) if known.contains(&print) => false,
            Ok(print) => {
                known.push(print);
                true
            }
            Err(_) => true,
        });
    }
    nearest
}

/// Number of folders that a name and the path of a file of this name share, counted from the file; `None` where it is
/// called otherwise.
fn shared_folders(file: &Path, name: &str) -> Option<usize> {
    let (path, name) = (comparable(&file.to_string_lossy()), comparable(name));
    let (mut path, mut name) = (path.rsplit('/'), name.rsplit('/'));
    let (own, wanted) = (path.next()?, name.next()?);
    let is_named = own == wanted || without_ending(own) == wanted;
    let folders = path.zip(name).take_while(|(own, wanted)| own == wanted);
    is_named.then(|| folders.count())
}

/// A test of LoRA files against the networks of a model, which reads the model's headers at its first use.
pub fn fitting_test(family: ModelFamily, files: &ModelFiles) -> impl Fn(&Path) -> bool {
    let tables = OnceCell::new();
    move |path| {
        let tables = tables.get_or_init(|| def_of(family).lora_tables(files).unwrap_or_default());
        LoraFile::read(path).is_ok_and(|file| fitting_plan(&file, family, tables).is_ok())
    }
}

/// One spelling for paths of all systems: composed letters in lower case, with `/`.
pub(crate) fn comparable(path: &str) -> String {
    let path = ComposingNormalizerBorrowed::new_nfc().normalize(path);
    path.replace('\\', "/").to_lowercase()
}

/// Names may contain dots, so only the extension of weight files is cut.
fn without_ending(name: &str) -> &str {
    name.strip_suffix(".safetensors").unwrap_or(name)
}
