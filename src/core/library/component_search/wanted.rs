//! One component that a transformer needs in addition: its description, how files for it are recognised, and the one to download.
//!
//! Families name their components; `component_search` finds the files.

use std::path::Path;

use crate::formats::weights::{FileBytes, WeightSet, is_index, is_pickle, pickle_instead};
use crate::library::{storage, tensor_kind, tokenizer};
use crate::model::{CatalogError, ModelComponent, ModelFiles};
use crate::networks::PartKind;

/// Check of a part besides its kind: its own tensors, and that it belongs to the transformer.
type ComponentCheck<'a> = Box<dyn Fn(&WeightSet, &Path) -> Result<(), CatalogError> + 'a>;

pub(crate) struct ComponentQuery<'a> {
    pub component: ModelComponent,
    pub part: PartKind,
    /// A noun phrase for people.
    pub what: String,
    /// Noun phrase without the properties that distinguish it from others of its kind.
    pub kind: &'static str,
    /// The file to get, and from where.
    pub example: &'static str,
    /// The names that publishers give it, best first.
    pub usual: &'static [&'static str],
    /// A word in the names of pickles that are likely this part.
    pub word: &'static str,
    /// Returns true if weights have this part at all, whole or not.
    pub is_in: fn(&WeightSet) -> bool,
    pub fits: ComponentCheck<'a>,
    /// Tokenizer of a text encoder.
    pub tokenizer: Option<WantedTokenizer>,
}

#[derive(Clone, Copy)]
pub(crate) struct WantedTokenizer {
    /// A noun phrase for people.
    pub what: &'static str,
    /// The file or folder to get, and from where.
    pub example: &'static str,
    /// Names of its folder, next to the text encoder or around the transformer.
    pub folders: &'static [&'static str],
    /// Its folder among the tokenizers that ship with the app, where there is one.
    pub bundled: Option<&'static str>,
    pub form: TokenizerForm,
    /// The rows of the text encoder's embedding.
    pub vocab_size: fn(&Path) -> Result<i64, CatalogError>,
}

/// Algorithm of a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenizerForm {
    /// SentencePiece: the pieces of T5 and UMT5.
    Pieces,
    /// Merged pairs, as CLIP, Llama and Qwen have them.
    Pairs,
    /// Mistral's merged pairs.
    Tekken,
}

impl ComponentQuery<'_> {
    /// Returns true if what is at a place is this part, whole, and of the transformer.
    pub(crate) fn check(&self, place: &Path) -> Result<(), CatalogError> {
        if is_pickle(place) {
            return Err(pickle_instead(place, self.example));
        }
        let weights = match WeightSet::open(place) {
            Err(CatalogError::Pickle { path, .. }) => {
                return Err(pickle_instead(&path, self.example));
            }
            other => other?,
        };
        if let Some(storage) = storage::unreadable(&weights) {
            let found = format!("one stored as {storage}, which this version cannot run yet");
            return Err(self.wrong(&found, true, place));
        }
        if !(self.is_in)(&weights) {
            return Err(self.wrong(&tensor_kind::of_tensors(&weights).text, false, place));
        }
        (self.fits)(&weights, place)
    }

    fn wrong(&self, found: &str, is_unreadable: bool, place: &Path) -> CatalogError {
        CatalogError::WrongCompanion {
            what: self.what.clone(),
            example: self.example,
            found: found.to_owned(),
            is_unreadable,
            path: if is_index(place) {
                place.parent().unwrap_or(place).to_owned()
            } else {
                place.to_owned()
            },
        }
    }
}

/// Refuses a part of another model: `what` was expected, and `found` says what this is.
pub(crate) fn fits_transformer(
    fits: bool,
    what: &str,
    example: &'static str,
    place: &Path,
    found: impl FnOnce() -> String,
) -> Result<(), CatalogError> {
    if fits {
        return Ok(());
    }
    Err(CatalogError::WrongCompanion {
        what: what.to_owned(),
        example,
        found: found(),
        is_unreadable: false,
        path: place.to_owned(),
    })
}

/// Checks a model whose files are known: that the transformers and all parts are whole, stored as the engine can read
/// them and of one model, and that text encoders have their tokenizers -> the bytes of all weight files.
pub(crate) fn check_model(
    files: &ModelFiles,
    transformers: &[&Path],
    transformer_kind: &str,
    check_transformer: &dyn Fn(&WeightSet) -> Result<(), CatalogError>,
    parts: &[ComponentQuery<'_>],
) -> Result<u64, CatalogError> {
    let mut bytes = FileBytes::default();
    let mut open = |place: &Path, kind: &str| {
        let weights = WeightSet::open(place)?;
        storage::check(&weights, kind)?;
        bytes.add(&weights);
        Ok::<_, CatalogError>(weights)
    };
    // The parts first: configs that do not fit each other say more than a tensor of the transformer.
    let is_left_out = |wanted: &ComponentQuery<'_>| {
        wanted.component.is_optional() && files.path(wanted.component).is_none()
    };
    for wanted in parts.iter().filter(|wanted| !is_left_out(wanted)) {
        let place = place_of(files, wanted)?;
        (wanted.fits)(&open(place, wanted.kind)?, place)?;
    }
    for place in transformers {
        check_transformer(&open(place, transformer_kind)?)?;
    }
    for wanted in parts {
        if let Some(own) = &wanted.tokenizer {
            let text_encoder = place_of(files, wanted)?;
            let place = files
                .tokenizer_of(wanted.component)
                .ok_or_else(|| CatalogError::missing(own.what.to_owned(), text_encoder))?;
            tokenizer::check(place, (own.vocab_size)(text_encoder)?, own.form)?;
        }
    }
    Ok(bytes.sum())
}

fn place_of<'a>(
    files: &'a ModelFiles,
    wanted: &ComponentQuery<'_>,
) -> Result<&'a Path, CatalogError> {
    let missing = || CatalogError::MissingCompanion {
        what: wanted.what.clone(),
        example: wanted.example,
        looked: "model_index.json".to_owned(),
        path: files.transformer.clone(),
    };
    files.path(wanted.component).ok_or_else(missing)
}
