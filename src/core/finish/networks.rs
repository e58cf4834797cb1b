//! The networks for finishing that lie on this disk: in our own folder for models, and where other programs keep theirs.
//!
//! Lists folders and reads headers; both are bounded, and a folder or file that cannot be read costs itself alone.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::files::has_ending;
use crate::formats::weights::is_pickle;
use crate::library::Places;
use crate::model::CatalogError;
use crate::model::configs::sorted_entries;
use crate::networks::{IfnetConfig, UpscalerConfig};
use crate::settings::{Paths, Settings};

/// Folders that other programs keep upscalers in, without case and punctuation: those of ComfyUI, and of Forge and A1111.
const UPSCALERS: [&str; 4] = ["upscalemodels", "esrgan", "realesrgan", "upscalers"];
/// As those, for what makes frames between frames: that of ComfyUI.
const INTERPOLATORS: [&str; 2] = ["frameinterpolation", "rife"];
/// Folders in such folders.
const MAX_DEPTH: usize = 3;
const MAX_FILES: usize = 2_000;

/// A network that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<C> {
    pub path: PathBuf,
    /// The file's name without its ending.
    pub name: String,
    pub config: C,
}

pub type FoundUpscaler = Found<UpscalerConfig>;
pub type FoundInterpolator = Found<IfnetConfig>;

impl FoundUpscaler {
    /// For lists: `4x-UltraSharp, ESRGAN ×4`.
    pub fn label(&self) -> String {
        format!(
            "{}, {} ×{}",
            self.name,
            self.config.kind(),
            self.config.scale()
        )
    }
}

impl FoundInterpolator {
    /// For lists: `rife_v4.26, RIFE 4.25 or 4.26`.
    pub fn label(&self) -> String {
        match self.config.version() {
            Some(version) => format!("{}, RIFE {version}", self.name),
            None => format!("{}, RIFE", self.name),
        }
    }
}

/// All of them, in the order of their names.
pub fn find_upscalers(paths: &Paths, settings: &Settings) -> Vec<FoundUpscaler> {
    find(UpscalerConfig::read, &files(&UPSCALERS, paths, settings))
}

/// All that make frames between frames, in the order of their names.
pub fn find_interpolators(paths: &Paths, settings: &Settings) -> Vec<FoundInterpolator> {
    find(IfnetConfig::read, &files(&INTERPOLATORS, paths, settings))
}

fn find<C>(read: fn(&Path) -> Result<C, CatalogError>, files: &[PathBuf]) -> Vec<Found<C>> {
    let known = files.iter().filter_map(|path| {
        Some(Found {
            name: name_of(path),
            config: read(path).ok()?,
            path: path.clone(),
        })
    });
    let mut found: Vec<Found<C>> = known.collect();
    found.sort_by_cached_key(|network| (network.name.to_lowercase(), network.path.clone()));
    found
}

/// The file of a network that a user names: a path, or the name of one that lies where networks are looked for.
pub fn upscaler_named(
    wanted: &str,
    paths: &Paths,
    settings: &Settings,
) -> Result<PathBuf, CatalogError> {
    named(wanted, &files(&UPSCALERS, paths, settings)).map_or_else(
        || {
            let known = find_upscalers(paths, settings);
            let names: Vec<&str> = known.iter().map(|it| it.name.as_str()).collect();
            let home = paths.models().join("upscale_models");
            Err(unknown(wanted, &names, "upscalers", &home))
        },
        Ok,
    )
}

/// The same of one that makes frames between frames.
pub fn interpolator_named(
    wanted: &str,
    paths: &Paths,
    settings: &Settings,
) -> Result<PathBuf, CatalogError> {
    named(wanted, &files(&INTERPOLATORS, paths, settings)).map_or_else(
        || {
            let known = find_interpolators(paths, settings);
            let names: Vec<&str> = known.iter().map(|it| it.name.as_str()).collect();
            let home = paths.models().join("frame_interpolation");
            Err(unknown(wanted, &names, "RIFE", &home))
        },
        Ok,
    )
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

/// `what`: what to get, and `home`: our own folder for it.
fn unknown(wanted: &str, known: &[&str], what: &str, home: &Path) -> CatalogError {
    // The folder bears the same name with other programs.
    let folder = home.file_name().unwrap_or_default().to_string_lossy();
    CatalogError::Unknown {
        name: wanted.to_owned(),
        known: match known {
            [] => format!(
                "none; put {what} as .safetensors into {} or ComfyUI's models/{folder}",
                home.display()
            ),
            known => known.join(", "),
        },
    }
}

/// Weight files of any kind, so that a pickle can be told from nothing.
fn files(folders: &[&str], paths: &Paths, settings: &Settings) -> Vec<PathBuf> {
    let mut search = Search::default();
    for place in Places::gather(paths, settings).of_finishers(folders) {
        search.walk(&place, 0);
    }
    search.found
}

#[derive(Default)]
struct Search {
    found: Vec<PathBuf>,
    /// What was seen, under its real name: links lead in circles, and two programs may share their files.
    seen: HashSet<PathBuf>,
}

impl Search {
    fn walk(&mut self, place: &Path, depth: usize) {
        let is_new = |seen: &mut HashSet<PathBuf>, path: &Path| {
            fs::canonicalize(path).is_ok_and(|real| seen.insert(real))
        };
        if !is_new(&mut self.seen, place) {
            return;
        }
        for path in sorted_entries(place).unwrap_or_default() {
            if path.is_dir() {
                if depth < MAX_DEPTH {
                    self.walk(&path, depth + 1);
                }
            } else if (has_ending(&path, &["safetensors"]) || is_pickle(&path))
                && self.found.len() < MAX_FILES
                && is_new(&mut self.seen, &path)
            {
                self.found.push(path);
            }
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
