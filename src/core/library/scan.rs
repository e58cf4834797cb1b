//! Search for model folders and files in one of the folders of `places`.
//!
//! Bounded in depth and number, and safe against link loops: it runs at every start. Single weight files are collected,
//! and read with one glance each.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::tokenizer;
use super::watch::{MAX_WATCHED, PathStamp, look_of};
use crate::files::read_text_bounded;
use crate::formats::sorted_entries;
use crate::library;
use crate::library::{ComponentCandidate, ComponentLibrary, WeightFileRole};
use crate::model::configs::ModelIndex;
use crate::networks::PartKind;

/// Depth below a searched place at which a model is found.
const MAX_DEPTH: usize = 4;
/// Limit of folders in one searched place.
const MAX_FOLDERS: usize = 10_000;
/// Far more than the name of a revision has.
const MAX_REVISION_BYTES: u64 = 4 << 10;

/// A folder with a `model_index.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PipelineFolder {
    pub folder: PathBuf,
    /// The folder's name, or `owner/name` in a Hugging Face cache.
    pub name: String,
}

#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    pub candidates: Vec<PipelineFolder>,
    /// Other folders with files that may hold weights.
    pub folders: Vec<PathBuf>,
    /// Files that a user named outright.
    pub files: Vec<PathBuf>,
    /// Folders with a tokenizer in them.
    pub tokenizers: Vec<PathBuf>,
    /// The folders that were gone through, as they were just before; the first of them.
    pub visited: Vec<(PathBuf, PathStamp)>,
    /// Places with more folders than the search goes through.
    pub cut_short: Vec<PathBuf>,
    seen: HashSet<(u64, u64)>,
}

/// Roles of the files that a search found, followed by the parts of diffusers folders.
pub(crate) fn parts(found: &ScanResult, library: &ComponentLibrary) -> Vec<ComponentCandidate> {
    let named = found.files.iter().filter_map(|path| {
        let role = library::glance(path)?;
        let place = library::place_of(path);
        Some(ComponentCandidate { role, place })
    });
    let in_candidates = found.candidates.iter().flat_map(|candidate| {
        [
            "vae",
            "text_encoder",
            "text_encoder_2",
            "image_encoder",
            "image_embedder",
        ]
        .map(|name| candidate.folder.join(name))
    });
    let folders = found.folders.iter().cloned().chain(in_candidates);
    named
        .chain(folders.flat_map(|folder| library.in_folder(&folder).to_vec()))
        .collect()
}

/// Tokenizers of UMT5: in their own folders, in Wan's diffusers folders, within text encoders.
pub(crate) fn tokenizers(found: &ScanResult, parts: &[ComponentCandidate]) -> Vec<PathBuf> {
    let is_umt5 = |item: &&ComponentCandidate| item.role == WeightFileRole::Part(PartKind::Umt5);
    let text_encoders = parts.iter().filter(is_umt5);
    let text_encoders = text_encoders.map(|item| item.place.clone());
    tokenizers_of(found, "Wan", text_encoders, |path| path.contains("umt5"))
}

/// Tokenizers of Llama 3: in folders named after it, and in those of HunyuanVideo and FramePack.
pub(crate) fn llama_tokenizers(found: &ScanResult) -> Vec<PathBuf> {
    let names = ["llama", "hunyuanvideo", "framepack"];
    tokenizers_of(found, "HunyuanVideo", std::iter::empty(), |path| {
        names.iter().any(|name| path.contains(name)) && !path.ends_with("/tokenizer_2")
    })
}

/// Those of the folders whose lower-case paths `is_own` accepts, then others, then those of the pipelines whose class
/// begins so.
fn tokenizers_of(
    found: &ScanResult,
    class: &str,
    others: impl Iterator<Item = PathBuf>,
    is_own: impl Fn(&str) -> bool,
) -> Vec<PathBuf> {
    let own = found.tokenizers.iter();
    let own = own.filter(|folder| is_own(&folder.to_string_lossy().to_lowercase()));
    let is_of = |folder: &&PathBuf| {
        ModelIndex::read(folder).is_ok_and(|index| index.class.starts_with(class))
    };
    let folders = found.candidates.iter().map(|candidate| &candidate.folder);
    let of_pipelines = folders.filter(is_of).map(|folder| folder.join("tokenizer"));
    let all = own.cloned().chain(others).chain(of_pipelines);
    all.filter(|place| tokenizer::is_place(place)).collect()
}

/// Looks through one place. A folder that was seen before, under whatever name, is not looked at again.
pub(crate) fn search(place: &Path, found: &mut ScanResult) {
    let mut waiting = vec![(place.to_owned(), 0)];
    let mut num_folders = 0;
    while let Some((folder, depth)) = waiting.pop() {
        let Ok(stat) = fs::metadata(&folder) else {
            continue;
        };
        if stat.is_file() && depth == 0 {
            // A user's own entry may name a file outright.
            found.files.push(folder.clone());
        }
        if !stat.is_dir() || !found.seen.insert((stat.dev(), stat.ino())) {
            continue;
        }
        num_folders += 1;
        if found.visited.len() < MAX_WATCHED {
            found.visited.push((folder.clone(), Some(look_of(&stat))));
        }
        if num_folders > MAX_FOLDERS {
            found.cut_short.push(place.to_owned());
            return;
        }
        if ModelIndex::path_in(&folder).is_some() {
            let name = model_name(&folder);
            found.candidates.push(PipelineFolder { folder, name });
            continue;
        }
        // A folder that may not be read holds no model that could be loaded.
        let inner = sorted_entries(&folder).unwrap_or_default();
        if !library::weight_files(&inner).is_empty() {
            found.folders.push(folder.clone());
        }
        if tokenizer::is_place(&folder) {
            found.tokenizers.push(folder.clone());
        }
        if depth == MAX_DEPTH {
            continue;
        }
        if folder.file_name().is_some_and(|name| name == "snapshots")
            && repository_of(&folder.join("revision")).is_some()
        {
            // A repository counts as a search folder: in some, single files are nested deeply.
            waiting.extend(preferred_snapshot(&folder).map(|path| (path, 1)));
            continue;
        }
        // Taken from the end, so that folders come in the order of their names.
        let next = inner.into_iter().filter(|path| may_hold(path)).rev();
        waiting.extend(next.map(|path| (path, depth + 1)));
    }
}

fn may_hold(path: &Path) -> bool {
    const OTHER_THINGS: [&str; 14] = [
        "blobs",
        "controlnet",
        "controlnets",
        "custom_nodes",
        "embeddings",
        "esrgan",
        "hypernetworks",
        "lora",
        "loras",
        "lycoris",
        "node_modules",
        "refs",
        "upscale_models",
        "venv",
    ];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut others = OTHER_THINGS.iter();
    !name.starts_with('.') && !others.any(|known| name.eq_ignore_ascii_case(known))
}

/// The name of the model in a folder: `owner/name` in a Hugging Face cache, else the folder's own.
pub(crate) fn model_name(folder: &Path) -> String {
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

/// The revision that `refs/main` names, else the newest; those with a diffusers folder come first.
fn preferred_snapshot(snapshots: &Path) -> Option<PathBuf> {
    let named = snapshots
        .parent()
        .and_then(|repository| {
            read_text_bounded(&repository.join("refs/main"), MAX_REVISION_BYTES).ok()
        })
        .map(|revision| revision.trim().to_owned())
        .filter(|revision| !revision.is_empty() && !revision.contains('/'))
        .map(|revision| snapshots.join(revision));
    let mut folders = sorted_entries(snapshots).unwrap_or_default();
    folders.retain(|folder| folder.is_dir());
    folders.into_iter().max_by_key(|folder| {
        let changed = fs::metadata(folder).and_then(|stat| stat.modified()).ok();
        let has_index = ModelIndex::path_in(folder).is_some();
        (has_index, Some(folder) == named.as_ref(), changed)
    })
}
