//! The places around one transformer, and which of the files there are the parts that it wants.
//!
//! Among several that fit, the nearest folder wins, then the usual name.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::formats::sorted_entries;
use crate::formats::weights::{WeightSet, is_pickle, pickle_instead};
use crate::library::component_search::wanted::{ComponentQuery, WantedTokenizer};
use crate::library::names::{model_words, possible_side};
use crate::library::{ComponentCandidate, ComponentLibrary, WeightFileRole, place_of, tokenizer};
use crate::model::configs::ModelIndex;
use crate::model::{CatalogError, ComponentOverrides, ModelComponent, ModelFiles};
use crate::networks::PartKind;

/// Depth of a transformer below a folder for them: `diffusion_models/wan/2.2`.
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
/// Limit of folders of one kind below a models folder.
const MAX_FOLDERS: usize = 100;

/// The folders in which ComfyUI, diffusers and others keep parts of one kind.
fn folder_names(role: PartKind) -> &'static [&'static str] {
    match role {
        PartKind::WanVae
        | PartKind::KlVae
        | PartKind::VideoVae
        | PartKind::Ltx2Vae
        | PartKind::Ltx2Audio => &["vae", "VAE"],
        PartKind::Ltx2Text => &["text_encoders", "clip"],
        PartKind::LatentUpscaler => &["latent_upscale_models"],
        PartKind::Umt5 => &["text_encoders", "clip", "text_encoder", "text_encoders_t5"],
        PartKind::Clip => &["text_encoders", "clip", "text_encoder", "text_encoder_2"],
        PartKind::Llama | PartKind::Qwen | PartKind::Gemma => {
            &["text_encoders", "clip", "text_encoder"]
        }
        PartKind::AnimaAdapter => &["text_conditioner"],
        PartKind::T5 => &[
            "text_encoders",
            "clip",
            "text_encoder_2",
            "text_encoder",
            "text_encoders_t5",
        ],
        PartKind::ClipVision | PartKind::Siglip => {
            &["clip_vision", "image_encoder", "image_encoders"]
        }
        PartKind::Redux => &["style_models", "image_embedder"],
        PartKind::TinyDecoder => &[],
    }
}

/// Content of the folders for these parts around a transformer, nearest first; the transformer's own folder is not
/// looked into.
pub(crate) fn around(transformer: &Path, parts: &[PartKind]) -> Vec<ComponentCandidate> {
    let (companions, library) = (ComponentOverrides::default(), ComponentLibrary::default());
    let search = ComponentSearch::new(transformer, &companions, &library);
    let homes = search.homes();
    let folders = parts.iter().flat_map(|part| {
        let names = folder_names(*part);
        let named = homes
            .iter()
            .flat_map(|home| names.iter().map(|name| home.join(name)));
        named.collect::<Vec<_>>()
    });
    let mut folders: Vec<PathBuf> = folders.flat_map(|folder| below(&folder)).collect();
    let mut seen = HashSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    let items = folders
        .iter()
        .flat_map(|folder| library.in_folder(folder).to_vec());
    items
        .filter(|item| matches!(item.role, WeightFileRole::Part(part) if parts.contains(&part)))
        .collect()
}

/// The folders in which a diffusers folder may keep a part, the likeliest first.
fn inner_names(wanted: &ComponentQuery<'_>) -> Vec<&'static str> {
    let mut names = folder_names(wanted.part).to_vec();
    // CLIP is the first text encoder of some families, and the second of others.
    if wanted.component == ModelComponent::TextEncoder2 {
        names.sort_by_key(|name| *name != "text_encoder_2");
    }
    names
}

pub(crate) struct ComponentSearch<'a> {
    library: &'a ComponentLibrary,
    companions: &'a ComponentOverrides,
    /// The transformer's file or folder.
    around: &'a Path,
    /// The transformer's own weights, which may hold other parts too.
    own: Option<WeightSet>,
}

impl<'a> ComponentSearch<'a> {
    pub(crate) fn new(
        around: &'a Path,
        companions: &'a ComponentOverrides,
        library: &'a ComponentLibrary,
    ) -> Self {
        Self {
            library,
            companions,
            around,
            own: WeightSet::open(around).ok(),
        }
    }

    /// The part of one kind: the named one, that in the transformer's own file, or the nearest that fits.
    pub(crate) fn find(&self, wanted: &ComponentQuery<'_>) -> Result<PathBuf, CatalogError> {
        if let Some(named) = self.companions.path(wanted.component) {
            let place = named_place(named, &inner_names(wanted), wanted)?;
            wanted.check(&place)?;
            return Ok(place);
        }
        if self.own.as_ref().is_some_and(wanted.is_in) {
            wanted.check(self.around)?;
            return Ok(self.around.to_owned());
        }
        let mut first_error = None;
        for folder in self.folders(wanted.part) {
            for place in in_usual_order(&self.library.in_folder(&folder), wanted) {
                match wanted.check(&place) {
                    Ok(()) => return Ok(place),
                    // Of another model, whose folder is shared: this model's part is missing.
                    Err(CatalogError::WrongCompanion {
                        is_unreadable: false,
                        ..
                    }) => {}
                    Err(err) => first_error = first_error.or(Some(err)),
                }
            }
        }
        for place in in_usual_order(&self.library.known.parts, wanted) {
            if wanted.check(&place).is_ok() {
                return Ok(place);
            }
        }
        Err(first_error.unwrap_or_else(|| self.missing(wanted)))
    }

    pub(crate) fn add_tokenizer(
        &self,
        files: &mut ModelFiles,
        wanted: &ComponentQuery<'_>,
    ) -> Result<(), CatalogError> {
        if let Some(tokenizer) = &wanted.tokenizer
            && let Some(text_encoder) = files.path(wanted.component)
        {
            let place = self.tokenizer(wanted, tokenizer, text_encoder)?;
            files.put_tokenizer(wanted.component, place);
        }
        Ok(())
    }

    /// The folders to look into, nearest first.
    fn folders(&self, role: PartKind) -> Vec<PathBuf> {
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

    /// The folder that the transformer is in, or is, and the one around a folder for transformers. No
    /// others above: whatever is in a user's own folder need not belong to the model.
    fn homes(&self) -> Vec<&Path> {
        let own = usize::from(!self.around.is_dir());
        let above: Vec<&Path> = self.around.ancestors().skip(own).collect();
        let mut homes: Vec<&Path> = above.first().copied().into_iter().collect();
        for (distance, pair) in above.windows(2).take(MAX_DEPTH).enumerate() {
            let name = pair[0].file_name().unwrap_or_default().to_string_lossy();
            let is_for_transformers = TRANSFORMER_FOLDERS
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known));
            // Two experts may each have a folder next to their companions.
            if is_for_transformers || (distance == 0 && possible_side(&name).is_some()) {
                homes.push(pair[1]);
            }
        }
        homes
    }

    fn missing(&self, wanted: &ComponentQuery<'_>) -> CatalogError {
        let folders = self.folders(wanted.part);
        // The authors publish these parts as pickles.
        let pickled = folders.iter().find_map(|folder| {
            let entries = sorted_entries(folder).unwrap_or_default();
            entries.into_iter().find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                is_pickle(path) && name.to_lowercase().contains(wanted.word)
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

    /// The tokenizer of a text encoder: the named one, the one in its file or next to it, that of the app, or
    /// any other with its vocabulary.
    fn tokenizer(
        &self,
        wanted: &ComponentQuery<'_>,
        tokenizer: &WantedTokenizer,
        text_encoder: &Path,
    ) -> Result<PathBuf, CatalogError> {
        let vocab_size = (tokenizer.vocab_size)(text_encoder)?;
        let form = tokenizer.form;
        if let Some(named) = self.companions.tokenizer_of(wanted.component) {
            let place = named_tokenizer(named, tokenizer)?;
            tokenizer::check(&place, vocab_size, form)?;
            return Ok(place);
        }
        if tokenizer::is_place(text_encoder) && self.library.tokenizer(text_encoder)?.form == form {
            tokenizer::check(text_encoder, vocab_size, form)?;
            return Ok(text_encoder.to_owned());
        }
        let places = self.tokenizer_places(wanted, tokenizer, text_encoder);
        let mut first_error = None;
        for place in &places {
            if !tokenizer::is_place(place) {
                continue;
            }
            match self.library.tokenizer(place) {
                Ok(found) if found.form == form && found.is_of_vocabulary(vocab_size) => {
                    return Ok(place.clone());
                }
                Ok(_) => {}
                Err(err) => first_error = first_error.or(Some(err)),
            }
        }
        Err(
            first_error.unwrap_or_else(|| CatalogError::MissingCompanion {
                what: if tokenizer.bundled.is_some() {
                    format!("{} with {vocab_size} token ids", tokenizer.what)
                } else {
                    tokenizer.what.to_owned()
                },
                example: tokenizer.example,
                looked: looked_in(&places),
                path: text_encoder.to_owned(),
            }),
        )
    }

    /// Places of the tokenizer of a text encoder, nearest first.
    fn tokenizer_places(
        &self,
        wanted: &ComponentQuery<'_>,
        tokenizer: &WantedTokenizer,
        text_encoder: &Path,
    ) -> Vec<PathBuf> {
        let beside = text_encoder.parent().unwrap_or_else(|| Path::new(""));
        let mut places = vec![beside.to_owned()];
        let around = self.homes().into_iter().map(Path::to_owned);
        for folder in std::iter::once(beside.to_owned()).chain(around) {
            places.extend(tokenizer.folders.iter().map(|name| folder.join(name)));
        }
        let shipped = self.library.known.shipped_tokenizers.as_ref();
        places.extend(
            shipped
                .zip(tokenizer.bundled)
                .map(|(folder, name)| folder.join(name)),
        );
        // Another text encoder's file may carry the same tokenizer.
        for folder in self.folders(wanted.part) {
            let items = self.library.in_folder(&folder);
            let others = items
                .iter()
                .filter(|item| item.role == WeightFileRole::Part(wanted.part));
            places.extend(others.map(|item| item.place.clone()));
        }
        places.extend(self.library.known.tokenizers.iter().cloned());
        if wanted.part == PartKind::Llama {
            places.extend(self.library.known.llama_tokenizers.iter().cloned());
        }
        places
    }
}

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

fn in_usual_order(items: &[ComponentCandidate], wanted: &ComponentQuery<'_>) -> Vec<PathBuf> {
    let mut places: Vec<&PathBuf> = items
        .iter()
        .filter(|item| item.role == WeightFileRole::Part(wanted.part))
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
fn named_place(
    path: &Path,
    inner: &[&str],
    wanted: &ComponentQuery<'_>,
) -> Result<PathBuf, CatalogError> {
    let path = std::path::absolute(path).map_err(|source| CatalogError::io(source, path))?;
    if !path.exists() {
        return Err(CatalogError::NoSuchPath { path });
    }
    if is_pickle(&path) {
        return Err(pickle_instead(&path, wanted.example));
    }
    if path.is_dir() {
        if ModelIndex::path_in(&path).is_some()
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

fn named_tokenizer(path: &Path, wanted: &WantedTokenizer) -> Result<PathBuf, CatalogError> {
    let absolute = std::path::absolute(path).map_err(|source| CatalogError::io(source, path))?;
    let is_own_file = absolute.file_name().is_some_and(tokenizer::is_own_file);
    let folder = absolute.parent().filter(|_| is_own_file);
    let inner = wanted.folders.iter().map(|name| absolute.join(name));
    let mut places = folder
        .map(Path::to_owned)
        .into_iter()
        .chain([absolute.clone()])
        .chain(inner);
    places
        .find(|place| tokenizer::is_place(place))
        .ok_or_else(|| {
            if absolute.exists() {
                CatalogError::missing("a tokenizer.json, a spiece.model, a vocab.json with its merges.txt or a weight file with a tokenizer in it", absolute.clone())
            } else {
                CatalogError::NoSuchPath {
                    path: absolute.clone(),
                }
            }
        })
}
