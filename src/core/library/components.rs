//! Weight files by path, with the kind of each from a glance: the first part of its header, searched for names that
//! only one kind of model has.
//!
//! Reads each folder and file once and with a limit, so that thousands of files cost little. Files found here are only
//! candidates: later checks read whole headers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::tensor_kind;
use crate::files::{has_ending, open_regular};
use crate::formats::sorted_entries;
use crate::formats::weights::header::WeightHeader;
use crate::formats::weights::{is_gguf, is_index, is_pickle, shard_count, weight_file_in};
use crate::library::tokenizer::TokenizerTraits;
use crate::model::{CatalogError, ModelFamily};
use crate::networks::PartKind;
use crate::settings;

/// More than the header of any published transformer.
const MAX_GLANCE_BYTES: u64 = 1 << 20;
/// Limit of weight files that are read in one folder.
const MAX_FILES: usize = 10_000;
/// The folder of tokenizers among the app's assets.
pub(crate) const TOKENIZERS: &str = "tokenizers";

/// Role of a weight file by the first part of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WeightFileRole {
    /// Perhaps with the other parts of its model in the same file.
    Transformer(ModelFamily),
    Part(PartKind),
    /// The transformer of a family that this version does not run, or a GGUF file that is damaged.
    Foreign,
}

/// A component folder, a weight file or a weight index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComponentCandidate {
    pub role: WeightFileRole,
    pub place: PathBuf,
}

/// Results of a search of all places, in order of precedence.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownComponents {
    pub parts: Vec<ComponentCandidate>,
    /// UMT5 tokenizers.
    pub tokenizers: Vec<PathBuf>,
    /// Tokenizers of Llama 3.
    pub llama_tokenizers: Vec<PathBuf>,
    /// The folder of those that ship with the app.
    pub shipped_tokenizers: Option<PathBuf>,
}

/// Candidates for the parts of a model.
#[derive(Debug, Default)]
pub(crate) struct ComponentLibrary {
    pub known: KnownComponents,
    folders: RefCell<HashMap<PathBuf, Rc<Vec<ComponentCandidate>>>>,
    read: RefCell<HashMap<PathBuf, TokenizerTraits>>,
}

impl ComponentLibrary {
    /// A library that has looked at nothing yet but what a search found.
    pub(crate) fn new(known: KnownComponents) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    /// A library of this program, whatever its settings.
    pub(crate) fn of_this_program() -> Self {
        Self::new(KnownComponents {
            shipped_tokenizers: settings::find_assets().map(|assets| assets.join(TOKENIZERS)),
            ..KnownComponents::default()
        })
    }

    /// The weight files directly in a folder, or the folder itself where it is one component's.
    pub(crate) fn in_folder(&self, folder: &Path) -> Rc<Vec<ComponentCandidate>> {
        if let Some(items) = self.folders.borrow().get(folder) {
            return Rc::clone(items);
        }
        let files = weight_files(&sorted_entries(folder).unwrap_or_default());
        let own = own_file(folder);
        let items = files.into_iter().filter_map(|path| {
            let role = glance(&path)?;
            let is_own = own.as_ref() == Some(&path);
            Some(ComponentCandidate {
                role,
                place: if is_own { folder.to_owned() } else { path },
            })
        });
        let items = Rc::new(items.collect::<Vec<_>>());
        let mut folders = self.folders.borrow_mut();
        folders.insert(folder.to_owned(), Rc::clone(&items));
        items
    }

    /// Form and size of a tokenizer; each is read once.
    pub(crate) fn tokenizer(&self, place: &Path) -> Result<TokenizerTraits, CatalogError> {
        if let Some(&found) = self.read.borrow().get(place) {
            return Ok(found);
        }
        let found = TokenizerTraits::read(place)?;
        self.read.borrow_mut().insert(place.to_owned(), found);
        Ok(found)
    }
}

/// The files among the entries of one folder that may hold weights; shards count once, by their index.
pub(crate) fn weight_files(entries: &[PathBuf]) -> Vec<PathBuf> {
    let has_index = entries.iter().any(|path| is_index(path));
    let files = entries.iter().filter(|path| {
        let is_weights = has_ending(path, &["safetensors", "sft", "gguf"]);
        is_index(path) || (is_weights && !(has_index && is_shard(path)))
    });
    files.take(MAX_FILES).cloned().collect()
}

/// `diffusion_pytorch_model-00002-of-00006.safetensors`
pub(crate) fn is_shard(path: &Path) -> bool {
    shard_count(path).is_some()
}

/// The place by which a file is opened: the folder where it is all of the folder's weights and a
/// `config.json` is next to it, the index for a shard, else the file itself.
pub(crate) fn place_of(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or_else(|| Path::new(""));
    let index = || {
        let entries = sorted_entries(folder).unwrap_or_default();
        entries.into_iter().find(|path| is_index(path))
    };
    let file = if is_shard(file) {
        index().unwrap_or_else(|| file.to_owned())
    } else {
        file.to_owned()
    };
    if own_file(folder).as_ref() == Some(&file) {
        folder.to_owned()
    } else {
        file
    }
}

fn own_file(folder: &Path) -> Option<PathBuf> {
    let has_config = folder.join("config.json").is_file();
    has_config.then(|| weight_file_in(folder).ok()).flatten()
}

/// Role of a file by the first part of its header.
pub(crate) fn glance(path: &Path) -> Option<WeightFileRole> {
    if is_pickle(path) {
        return None;
    }
    if is_gguf(path) {
        return glance_at_gguf(path);
    }
    let text = first_part(path)?;
    let text = String::from_utf8_lossy(&text);
    tensor_kind::at_a_glance(text.split('"'))
}

/// A header of GGUF has to be read whole, as its vocabulary comes before its names; it is bounded.
fn glance_at_gguf(path: &Path) -> Option<WeightFileRole> {
    let Ok((_, header)) = WeightHeader::open(path) else {
        // Whoever put it there should hear what is wrong with it.
        return Some(WeightFileRole::Foreign);
    };
    tensor_kind::at_a_glance(header.tensors().map(|(name, _)| name))
}

fn first_part(path: &Path) -> Option<Vec<u8>> {
    let mut file = open_regular(path).ok()?;
    let mut length = MAX_GLANCE_BYTES;
    if !is_index(path) {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes).ok()?;
        length = length.min(u64::from_le_bytes(bytes));
    }
    let mut text = Vec::new();
    file.take(length).read_to_end(&mut text).ok()?;
    Some(text)
}
