//! Installations of other programs on this machine, and the model folders in them.
//!
//! A program is recognised by its folders; its name only tells where to look. Bounded: the usual places are listed
//! once, and nothing is searched here.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files::read_text_bounded;
use crate::formats::sorted_entries;
use crate::settings::ProgramPaths;

/// Programs' folders have names that begin so, but for their case and punctuation.
const NAMES: &[&str] = &[
    "comfy",
    "fooocus",
    "forge",
    "framepack",
    "pinokio",
    "reforge",
    "sdnext",
    "sdwebui",
    "stabilitymatrix",
    "stablediffusion",
    "stableswarmui",
    "swarmui",
    "wan2gp",
    "wangp",
    "webui",
];
/// Folders below the home folder where people put programs.
const USUAL_PLACES: &[&str] = &[
    "",
    "AI",
    "Apps",
    "Applications",
    "Code",
    "Documents",
    "Projects",
    "Software",
    "ai",
    "apps",
    "code",
    "dev",
    "git",
    "projects",
    "repos",
    "software",
    "src",
];
/// A folder with one of these in it holds models, but for their case and punctuation.
const KINDS: &[&str] = &[
    "checkpoints",
    "clip",
    "clipvision",
    "diffusers",
    "diffusionmodels",
    "lora",
    "loras",
    "stablediffusion",
    "textencoder",
    "textencoders",
    "unet",
    "vae",
];
/// Limit of entries of one usual place.
const MAX_ENTRIES: usize = 5_000;
/// Limit of folders of programs.
const MAX_INSTALLS: usize = 64;
/// More than any program's own settings.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Program folders in the usual places.
pub(crate) fn known(programs: &ProgramPaths) -> Vec<PathBuf> {
    let under_home = USUAL_PLACES.iter().map(|name| programs.home.join(name));
    let places = under_home
        .chain([programs.data.clone(), programs.config.clone()])
        .chain(programs.system.iter().cloned());
    let roots = places.flat_map(|place| {
        let entries = sorted_entries(&place).unwrap_or_default().into_iter();
        entries
            .take(MAX_ENTRIES)
            .filter(|entry| has_known_name(entry))
    });
    let mut installs = Vec::new();
    for root in roots.filter(|root| root.is_dir()) {
        for folder in within(&root) {
            if !installs.contains(&folder) {
                installs.push(folder);
            }
        }
    }
    installs.truncate(MAX_INSTALLS);
    installs
}

/// A program's folder, and those of programs that it brings or manages.
fn within(root: &Path) -> Vec<PathBuf> {
    let children = |folder: PathBuf| {
        let entries = sorted_entries(&folder).unwrap_or_default();
        entries
            .into_iter()
            .filter(|entry| entry.is_dir())
            .take(MAX_INSTALLS)
    };
    let mut folders = vec![root.to_owned(), root.join("ComfyUI"), root.join("app")];
    // SwarmUI's own ComfyUI.
    folders.extend(["dlbackend/ComfyUI", "dlbackend/comfy/ComfyUI"].map(|name| root.join(name)));
    // Stability Matrix keeps everything in a folder of the user's choice, or next to itself.
    let chosen = text_in(&root.join("library.json"), "LibraryPath").map(PathBuf::from);
    for data in [Some(root.to_owned()), Some(root.join("Data")), chosen]
        .into_iter()
        .flatten()
    {
        folders.extend(children(data.join("Packages")));
        folders.push(data);
    }
    // Pinokio has an app in a folder of a launcher.
    for launcher in children(root.join("api")) {
        folders.extend([launcher.join("app"), launcher]);
    }
    folders.retain(|folder| !model_folders(folder).is_empty() || extra_paths_in(folder).is_file());
    folders
}

/// ComfyUI's list of further folders, whether or not it is there.
pub(crate) fn extra_paths_in(install: &Path) -> PathBuf {
    install.join("extra_model_paths.yaml")
}

/// Folders of models in a program's folder; none in any other folder.
pub(crate) fn model_folders(install: &Path) -> Vec<PathBuf> {
    let is_kind = |path: &PathBuf| KINDS.contains(&plain_name(path).as_str()) && path.is_dir();
    let has_kinds = |folder: &PathBuf| {
        let entries = sorted_entries(folder).unwrap_or_default();
        entries.iter().any(is_kind)
    };
    // ComfyUI, Forge, A1111; SwarmUI, Stability Matrix.
    let own = ["models", "Models"].map(|name| install.join(name));
    let own = own
        .into_iter()
        .chain(swarm_roots(install))
        .filter(has_kinds);
    // Wan2GP; FramePack, whose folder is a HF_HOME.
    let others = ["ckpts", "hf_download/hub"].map(|name| install.join(name));
    let others = others.into_iter().chain(wan2gp_folders(install));
    let mut folders = Vec::new();
    for folder in own.chain(others.filter(|folder| folder.is_dir())) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// The folders that SwarmUI's settings name, one or several with `;` between.
fn swarm_roots(install: &Path) -> Vec<PathBuf> {
    let text = small_text(&install.join("Data/Settings.fds")).unwrap_or_default();
    let mut values = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("ModelRoot:"));
    let roots = values.next().unwrap_or_default().split(';').map(str::trim);
    roots
        .filter(|root| !root.is_empty())
        .map(|root| install.join(root))
        .collect()
}

fn wan2gp_folders(install: &Path) -> Vec<PathBuf> {
    let config = small_text(&install.join("wgp_config.json")).unwrap_or_default();
    let config: Value = serde_json::from_str(&config).unwrap_or_default();
    let named = config.get("checkpoints_paths").and_then(Value::as_array);
    let named = named.into_iter().flatten().filter_map(Value::as_str);
    // The program's own folder, which is in that list, holds programs.
    let named = named
        .map(str::trim)
        .filter(|name| !matches!(*name, "" | "." | "./"));
    named.map(|name| install.join(name)).collect()
}

fn text_in(json: &Path, key: &str) -> Option<String> {
    let value: Value = serde_json::from_str(&small_text(json)?).ok()?;
    Some(value.get(key)?.as_str()?.to_owned())
}

fn small_text(path: &Path) -> Option<String> {
    let text = read_text_bounded(path, MAX_CONFIG_BYTES).ok()?;
    Some(text.trim_start_matches('\u{feff}').to_owned())
}

fn has_known_name(path: &Path) -> bool {
    let name = plain_name(path);
    NAMES.iter().any(|known| name.starts_with(known))
}

/// A name without case and punctuation.
pub(crate) fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_lowercase())
        .collect()
}
