//! Where models may lie on this machine, and which folders there look like one.
//!
//! Bounded in depth and number, and blind to loops of links: it runs at every start. Opens no file.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::configs::sorted_entries;
use crate::settings::{Paths, Settings};

/// How deep below a searched place a model may lie.
const MAX_DEPTH: usize = 4;
/// How many folders one searched place may have before the search gives up on it.
const MAX_FOLDERS: usize = 10_000;

/// A folder with a `model_index.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub folder: PathBuf,
    /// The folder's name, or `owner/name` in a Hugging Face cache.
    pub name: String,
}

/// What a search found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub candidates: Vec<Candidate>,
    /// Places with more folders than the search goes through.
    pub cut_short: Vec<PathBuf>,
    seen: HashSet<(u64, u64)>,
}

/// All places, in the order in which they win.
pub(super) fn places(paths: &Paths, settings: &Settings) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = Vec::new();
    let all = paths
        .assets
        .iter()
        .chain(&settings.models.folders)
        .cloned()
        .chain([paths.models()])
        .chain(paths.huggingface.clone());
    for place in all {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Looks through one place. A folder that was seen before, under whatever name, is not looked at again.
pub(super) fn search(place: &Path, found: &mut Found) {
    let mut waiting = vec![(place.to_owned(), 0)];
    let mut num_folders = 0;
    while let Some((folder, depth)) = waiting.pop() {
        let Ok(stat) = fs::metadata(&folder) else {
            continue;
        };
        if !stat.is_dir() || !found.seen.insert((stat.dev(), stat.ino())) {
            continue;
        }
        num_folders += 1;
        if num_folders > MAX_FOLDERS {
            found.cut_short.push(place.to_owned());
            return;
        }
        if folder.join("model_index.json").is_file() {
            let name = model_name(&folder);
            found.candidates.push(Candidate { folder, name });
            continue;
        }
        if depth == MAX_DEPTH {
            continue;
        }
        // A folder that may not be read holds no model that could be loaded.
        let mut inner = sorted_entries(&folder).unwrap_or_default();
        if folder.file_name().is_some_and(|name| name == "snapshots")
            && repository_of(&folder.join("revision")).is_some()
        {
            inner = preferred_snapshot(&folder).into_iter().collect();
        }
        let may_hold = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !name.starts_with('.') && !matches!(&*name, "blobs" | "refs" | ".no_exist")
        };
        // Taken from the end, so that folders come in the order of their names.
        let next = inner.into_iter().filter(may_hold).rev();
        waiting.extend(next.map(|path| (path, depth + 1)));
    }
}

/// The name of the model in a folder: `owner/name` in a Hugging Face cache, else the folder's own.
pub(super) fn model_name(folder: &Path) -> String {
    repository_of(folder).unwrap_or_else(|| {
        folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    })
}

/// `…/models--owner--name/snapshots/revision` → `owner/name`.
fn repository_of(folder: &Path) -> Option<String> {
    let snapshots = folder.parent()?;
    if snapshots.file_name()? != "snapshots" {
        return None;
    }
    let name = snapshots.parent()?.file_name()?.to_str()?;
    Some(name.strip_prefix("models--")?.replacen("--", "/", 1))
}

/// The revision that `refs/main` names, else the newest with a model in it.
fn preferred_snapshot(snapshots: &Path) -> Option<PathBuf> {
    let named = snapshots
        .parent()
        .and_then(|repository| fs::read_to_string(repository.join("refs/main")).ok())
        .map(|revision| revision.trim().to_owned())
        .filter(|revision| !revision.is_empty() && !revision.contains('/'))
        .map(|revision| snapshots.join(revision))
        .filter(|folder| folder.join("model_index.json").is_file());
    named.or_else(|| {
        sorted_entries(snapshots)
            .unwrap_or_default()
            .into_iter()
            .filter(|folder| folder.join("model_index.json").is_file())
            .max_by_key(|folder| fs::metadata(folder).and_then(|stat| stat.modified()).ok())
    })
}
