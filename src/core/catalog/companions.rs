//! The parts that a transformer's file does not hold: where they lie, and whether they are the right ones.
//!
//! What a file is comes from its header alone. Among several that fit, the nearest folder wins, then the
//! usual name. Nothing is loaded.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::configs::{Umt5Config, WanTransformerConfig, sorted_entries};
use super::library::{Item, Library, Role, place_of};
use super::names::{model_words, possible_side};
use super::tokenizer;
use super::wan::Wanted;
use super::weights::{is_pickle, pickle_instead};
use super::{CatalogError, ModelFiles};

/// Places that the user named; they win over all that could be found.
///
/// Each is a file or a component's folder. A text encoder's folder brings the tokenizer beside it along.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Companions {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vae: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_encoder: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_encoder_2: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_encoder: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer_2: Option<PathBuf>,
}

impl Companions {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the user named a component of a diffusers folder. A text encoder brings its tokenizer.
    pub(super) fn names(&self, component: &str) -> bool {
        match component {
            "vae" => self.vae.is_some(),
            "text_encoder" => self.text_encoder.is_some(),
            "text_encoder_2" => self.text_encoder_2.is_some(),
            "image_encoder" => self.image_encoder.is_some(),
            "tokenizer" => self.tokenizer.is_some(),
            "tokenizer_2" => self.tokenizer_2.is_some(),
            _ => false,
        }
    }
}

/// Puts the parts that the user named into those of a diffusers folder.
pub(super) fn replace(
    files: &mut ModelFiles,
    companions: &Companions,
    library: &Library,
) -> Result<(), CatalogError> {
    let transformer = WanTransformerConfig::read(&files.transformer)?;
    let around = files.transformer.clone();
    let search = Search {
        library,
        companions,
        around: &around,
        transformer: &transformer,
    };
    if let Some(named) = &companions.vae {
        files.vae = search.find(&Wanted::vae(&transformer), Some(named))?;
    }
    if let Some(named) = &companions.image_encoder {
        files.image_encoder = Some(search.find(&Wanted::image_encoder(), Some(named))?);
    }
    if let Some(named) = &companions.text_encoder {
        files.text_encoder = search.find(&Wanted::text_encoder(), Some(named))?;
    }
    if companions.text_encoder.is_some() || companions.tokenizer.is_some() {
        files.tokenizer = search.tokenizer(&files.text_encoder)?;
        files.tokenizer_class = None;
    }
    Ok(())
}

/// How deep below a folder for transformers one may lie: `diffusion_models/wan/2.2`.
const MAX_DEPTH: usize = 4;
/// Folders for transformers, whose neighbours hold the other parts.
const TRANSFORMER_FOLDERS: [&str; 9] = [
    "diffusion_models",
    "unet",
    "checkpoints",
    "stable-diffusion",
    "diffusers",
    "transformer",
    "transformer_2",
    "high_noise_model",
    "low_noise_model",
];
/// How many folders of one kind below a models folder are looked at.
const MAX_FOLDERS: usize = 100;

/// The folders in which ComfyUI, diffusers and others keep parts of one kind.
fn folder_names(role: Role) -> &'static [&'static str] {
    match role {
        Role::Vae => &["vae", "VAE"],
        Role::TextEncoder => &["text_encoders", "clip", "text_encoder", "text_encoders_t5"],
        Role::ImageEncoder => &["clip_vision", "image_encoder", "image_encoders"],
        Role::Transformer | Role::Foreign => &[],
    }
}

/// The places around one transformer.
pub(super) struct Search<'a> {
    pub library: &'a Library,
    pub companions: &'a Companions,
    /// The transformer's file or folder.
    pub around: &'a Path,
    pub transformer: &'a WanTransformerConfig,
}

impl Search<'_> {
    /// The part of one kind: the named one, or the nearest that fits.
    pub(super) fn find(
        &self,
        wanted: &Wanted,
        named: Option<&PathBuf>,
    ) -> Result<PathBuf, CatalogError> {
        if let Some(named) = named {
            let place = named_place(named, folder_names(wanted.role), wanted)?;
            wanted.check(&place, self.transformer)?;
            return Ok(place);
        }
        let mut first_error = None;
        for folder in self.folders(wanted.role) {
            for place in in_usual_order(&self.library.in_folder(&folder), wanted) {
                match wanted.check(&place, self.transformer) {
                    Ok(()) => return Ok(place),
                    Err(err) => first_error = first_error.or(Some(err)),
                }
            }
        }
        for place in in_usual_order(&self.library.known, wanted) {
            if wanted.check(&place, self.transformer).is_ok() {
                return Ok(place);
            }
        }
        Err(first_error.unwrap_or_else(|| self.missing(wanted)))
    }

    /// The folders to look into, nearest first.
    fn folders(&self, role: Role) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for folder in self.homes() {
            folders.push(folder.to_owned());
            for name in folder_names(role) {
                folders.extend(below(&folder.join(name)));
            }
        }
        let mut seen = HashSet::new();
        folders.retain(|folder| seen.insert(folder.clone()));
        folders
    }

    /// The folder that the transformer lies in, or is, and the one around a folder for transformers. No
    /// others above: whatever lies in a user's own folder need not belong to the model.
    fn homes(&self) -> Vec<&Path> {
        let own = usize::from(!self.around.is_dir());
        let above: Vec<&Path> = self.around.ancestors().skip(own).collect();
        let mut homes: Vec<&Path> = above.first().copied().into_iter().collect();
        for (distance, pair) in above.windows(2).take(MAX_DEPTH).enumerate() {
            let name = pair[0].file_name().unwrap_or_default().to_string_lossy();
            let is_for_transformers = TRANSFORMER_FOLDERS
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known));
            // Two experts may each have a folder beside their companions.
            if is_for_transformers || (distance == 0 && possible_side(&name).is_some()) {
                homes.push(pair[1]);
            }
        }
        homes
    }

    fn missing(&self, wanted: &Wanted) -> CatalogError {
        let folders = self.folders(wanted.role);
        // The authors publish these parts as pickles.
        let pickled = folders.iter().find_map(|folder| {
            let entries = sorted_entries(folder).unwrap_or_default();
            entries.into_iter().find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                is_pickle(path) && wanted.is_named_in(&name)
            })
        });
        if let Some(path) = pickled {
            return pickle_instead(&path, wanted.example);
        }
        CatalogError::MissingCompanion {
            what: wanted.what.clone(),
            example: wanted.example,
            looked: looked_in(&folders),
            path: self.around.to_owned(),
        }
    }

    /// The tokenizer of a text encoder: the named one, the one in its file or beside it, or any
    /// other with its vocabulary.
    pub(super) fn tokenizer(&self, text_encoder: &Path) -> Result<PathBuf, CatalogError> {
        let vocab_size = Umt5Config::read(text_encoder)?.vocab_size;
        if let Some(named) = &self.companions.tokenizer {
            let place = named_tokenizer(named)?;
            tokenizer::check(&place, vocab_size)?;
            return Ok(place);
        }
        if tokenizer::is_place(text_encoder) {
            tokenizer::check(text_encoder, vocab_size)?;
            return Ok(text_encoder.to_owned());
        }
        let beside = text_encoder.parent().unwrap_or_else(|| Path::new(""));
        let mut places = vec![beside.to_owned()];
        let around = self.homes().into_iter().map(Path::to_owned);
        for folder in std::iter::once(beside.to_owned()).chain(around) {
            let names = [
                "tokenizer",
                "google/umt5-xxl",
                "umt5-xxl",
                "tokenizers/umt5-xxl",
            ];
            places.extend(names.map(|name| folder.join(name)));
        }
        // Another text encoder's file may carry the same tokenizer.
        for folder in self.folders(Role::TextEncoder) {
            let items = self.library.in_folder(&folder);
            let others = items.iter().filter(|item| item.role == Role::TextEncoder);
            places.extend(others.map(|item| item.place.clone()));
        }
        places.extend(self.library.tokenizers.iter().cloned());
        let mut first_error = None;
        for place in &places {
            if !tokenizer::is_place(place) {
                continue;
            }
            match self.library.num_token_ids(place) {
                Ok(count) if tokenizer::is_of_vocabulary(count, vocab_size) => {
                    return Ok(place.clone());
                }
                Ok(_) => {}
                Err(err) => first_error = first_error.or(Some(err)),
            }
        }
        Err(
            first_error.unwrap_or_else(|| CatalogError::MissingCompanion {
                what: "the tokenizer of UMT5".to_owned(),
                example: "the folder google/umt5-xxl of Wan-AI/Wan2.1-T2V-1.3B, or umt5_xxl_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged, which carries one",
                looked: looked_in(&places),
                path: text_encoder.to_owned(),
            }),
        )
    }
}

/// Folders as part of a sentence: those that are there.
fn looked_in(folders: &[PathBuf]) -> String {
    let mut text = String::new();
    let there: Vec<&PathBuf> = folders.iter().filter(|folder| folder.is_dir()).collect();
    for folder in there.iter().take(4) {
        let comma = if text.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        write!(text, "{comma}{}", folder.display()).ok();
    }
    if there.len() > 4 {
        write!(text, " and {} more", there.len() - 4).ok();
    }
    if text.is_empty() {
        text.push_str("no folder that is there");
    }
    text
}

/// A folder and those in it, two deep.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut waiting = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        if !folder.is_dir() || folders.len() == MAX_FOLDERS {
            continue;
        }
        if depth < 2 {
            let inner = sorted_entries(&folder).unwrap_or_default();
            waiting.extend(inner.into_iter().rev().map(|path| (path, depth + 1)));
        }
        folders.push(folder);
    }
    folders
}

/// The candidates of one kind, those with the usual name first.
fn in_usual_order(items: &[Item], wanted: &Wanted) -> Vec<PathBuf> {
    let mut places: Vec<&PathBuf> = items
        .iter()
        .filter(|item| item.role == wanted.role)
        .map(|item| &item.place)
        .collect();
    let words = |name: &str| {
        let stem = name.trim_end_matches(".safetensors");
        model_words(stem.trim_end_matches(".gguf"))
    };
    let usual: Vec<Vec<String>> = wanted.usual.iter().map(|name| words(name)).collect();
    places.sort_by_key(|place| {
        let own = words(&place.file_name().unwrap_or_default().to_string_lossy());
        usual
            .iter()
            .position(|name| *name == own)
            .unwrap_or(usual.len())
    });
    places.into_iter().cloned().collect()
}

/// The place that a user means by a path: a file, a component's folder, or the model folder around one.
fn named_place(path: &Path, inner: &[&str], wanted: &Wanted) -> Result<PathBuf, CatalogError> {
    let path = std::path::absolute(path).map_err(|source| CatalogError::Io {
        source,
        path: path.to_owned(),
    })?;
    if !path.exists() {
        return Err(CatalogError::NoSuchPath { path });
    }
    if is_pickle(&path) {
        return Err(pickle_instead(&path, wanted.example));
    }
    if path.is_dir() {
        if path.join("model_index.json").is_file()
            && let Some(part) = inner
                .iter()
                .map(|name| path.join(name))
                .find(|p| p.is_dir())
        {
            return Ok(part);
        }
        return Ok(path);
    }
    Ok(place_of(&path))
}

fn named_tokenizer(path: &Path) -> Result<PathBuf, CatalogError> {
    let absolute = std::path::absolute(path).map_err(|source| CatalogError::Io {
        source,
        path: path.to_owned(),
    })?;
    let is_own_file = absolute
        .file_name()
        .is_some_and(|name| name == "tokenizer.json" || name == "spiece.model");
    let folder = absolute.parent().filter(|_| is_own_file);
    let places = [
        folder.map(Path::to_owned),
        Some(absolute.clone()),
        Some(absolute.join("tokenizer")),
        Some(absolute.join("google/umt5-xxl")),
    ];
    places
        .into_iter()
        .flatten()
        .find(|place| tokenizer::is_place(place))
        .ok_or_else(|| {
            if absolute.exists() {
                CatalogError::Missing {
                    what:
                        "a tokenizer.json, a spiece.model or a weight file with a tokenizer in it"
                            .to_owned(),
                    path: absolute,
                }
            } else {
                CatalogError::NoSuchPath { path: absolute }
            }
        })
}
