//! Checks that a tokenizer is complete, has its model's form and fits its vocabulary: a `tokenizer.json`, a
//! `vocab.json` with its `merges.txt`, a `spiece.model`, or one inside a weight file (safetensors with `spiece_model`
//! or `tekken_model`, or GGUF).
//!
//! Counts ids and keeps none: the engine tokenizes.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::files::MAX_JSON_BYTES;
use crate::formats::read_capped;
use crate::formats::weights::gguf;
use crate::formats::weights::header::WeightHeader;
use crate::library::component_search::wanted::TokenizerForm;
use crate::model::CatalogError;
use crate::networks::TEKKEN_TENSOR;
use crate::tokens::spiece::{GGUF_PIECES, SPIECE_TENSOR, count_pieces, has_pairs};
use crate::tokens::{
    GGUF_PAIRS, PACKED_MERGES, SPLITTERS, TEKKEN_MARK, TEKKEN_SPLITTER, check_merges, count_tekken,
    packed_ids, tensor_bytes,
};

/// Files of a tokenizer's folder, in order of precedence.
const FILES: [&str; 2] = ["tokenizer.json", "spiece.model"];
/// CLIP's older form, in two files.
const PAIRS: [&str; 2] = ["vocab.json", "merges.txt"];

#[derive(Deserialize)]
struct TokenizerFile {
    model: TokenizerModel,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
struct TokenizerModel {
    vocab: TokenizerVocabulary,
    /// Only its check matters.
    #[serde(default, rename = "merges")]
    _merges: MergeCount,
}

/// The length of a list of merges.
#[derive(Default)]
struct MergeCount;

impl<'de> Deserialize<'de> for MergeCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let merges = Vec::<IgnoredAny>::deserialize(deserializer)?;
        check_merges(merges.len()).map_err(D::Error::custom)?;
        Ok(Self)
    }
}

#[derive(Deserialize)]
struct AddedToken {
    id: u64,
    #[serde(default)]
    content: String,
}

/// A vocabulary, which is a list of pieces or a map from piece to id.
struct TokenizerVocabulary {
    /// One more than the largest id.
    num_ids: u64,
    form: TokenizerForm,
}

impl<'de> Deserialize<'de> for TokenizerVocabulary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;

        impl<'de> Visitor<'de> for CountVisitor {
            type Value = TokenizerVocabulary;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary: a list or a map")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> Result<TokenizerVocabulary, A::Error> {
                let mut count = 0;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(TokenizerVocabulary {
                    num_ids: count,
                    form: TokenizerForm::Pieces,
                })
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<TokenizerVocabulary, A::Error> {
                let mut count = 0;
                while let Some((_, id)) = map.next_entry::<IgnoredAny, u64>()? {
                    count = count.max(id.saturating_add(1));
                }
                Ok(TokenizerVocabulary {
                    num_ids: count,
                    form: TokenizerForm::Pairs,
                })
            }
        }

        deserializer.deserialize_any(CountVisitor)
    }
}

/// Returns true if a tokenizer is here: a folder with `tokenizer.json`, with `spiece.model` or with `vocab.json` and
/// `merges.txt`, or a weight file that carries `spiece_model` or `tekken_model` or is GGUF with a vocabulary.
pub(crate) fn is_place(place: &Path) -> bool {
    if place.is_dir() {
        FILES.iter().any(|name| place.join(name).is_file())
            || PAIRS.iter().all(|name| place.join(name).is_file())
            || place.join(PACKED_MERGES).is_file()
    } else {
        WeightHeader::open(place).is_ok_and(|(_, header)| match &header.gguf {
            Some(metadata) => of_gguf(metadata).is_some(),
            None => [SPIECE_TENSOR, TEKKEN_TENSOR]
                .iter()
                .any(|name| header.info(name).is_some()),
        })
    }
}

/// Returns true if a file of this name means the tokenizer in its folder.
pub(crate) fn is_own_file(name: &OsStr) -> bool {
    FILES.iter().chain(&PAIRS).any(|own| name == *own)
}

/// Checks a tokenizer against what its text encoder reads: the form of its tokens, and the rows of its embedding.
pub(crate) fn check(
    place: &Path,
    vocab_size: i64,
    form: TokenizerForm,
) -> Result<(), CatalogError> {
    let found = TokenizerTraits::read(place)?;
    let wrong = |reason: String| CatalogError::config(reason, place);
    if found.form != form {
        let [found, wanted] = [found.form, form].map(|form| match form {
            TokenizerForm::Pieces => ["pieces with scores", "T5 has"],
            TokenizerForm::Pairs => ["merged pairs", "CLIP, Llama, Qwen and Gemma have"],
            TokenizerForm::Tekken => ["merged pairs of Mistral", "Mistral Small 3 has"],
        });
        return Err(wrong(format!(
            "this tokenizer has {}, but one of {} is needed, as {}",
            found[0], wanted[0], wanted[1]
        )));
    }
    if found.num_ids > vocab_size.unsigned_abs() {
        return Err(wrong(format!(
            "the tokenizer should have between 1 and {vocab_size} token ids (the text encoder's vocab_size), but has {}",
            found.num_ids
        )));
    }
    Ok(())
}

/// Properties that distinguish tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenizerTraits {
    /// One more than the largest id; never 0.
    pub num_ids: u64,
    pub form: TokenizerForm,
}

impl TokenizerTraits {
    pub(crate) fn read(place: &Path) -> Result<Self, CatalogError> {
        let [json, spiece] = FILES.map(|name| place.join(name));
        let [vocab, merges] = PAIRS.map(|name| place.join(name));
        let (found, path) = if !place.is_dir() {
            (read_in_weights(place)?, place.to_owned())
        } else if json.exists() {
            (Some(count_json(&json)?), json)
        } else if vocab.exists() && merges.exists() {
            let TokenizerVocabulary { num_ids, form } = read_sound(&vocab)?;
            (Some(Self { num_ids, form }), vocab)
        } else if place.join(PACKED_MERGES).exists() {
            let num_ids = packed_ids(place)?;
            let form = TokenizerForm::Pairs;
            (Some(Self { num_ids, form }), place.join(PACKED_MERGES))
        } else if spiece.exists() {
            let text = read_capped(&spiece, MAX_JSON_BYTES)?;
            (of_pieces(&text), spiece)
        } else {
            // Named as what is missing.
            (Some(count_json(&json)?), json)
        };
        match found {
            Some(found) if found.num_ids > 0 => Ok(found),
            _ => Err(CatalogError::damaged(
                "the tokenizer is damaged: it has no pieces",
                path,
            )),
        }
    }

    /// Returns true if a tokenizer that is anywhere is likely of a vocabulary: an embedding has spare rows and such for
    /// marks that a `spiece.model` does not count, but those are few. Llama's words are 84 in 100 of Qwen's.
    pub(crate) fn is_of_vocabulary(self, vocab_size: i64) -> bool {
        let rows = vocab_size.unsigned_abs();
        self.num_ids <= rows && self.num_ids.saturating_mul(8) >= rows.saturating_mul(7)
    }
}

fn count_json(path: &Path) -> Result<TokenizerTraits, CatalogError> {
    let file: TokenizerFile = read_sound(path)?;
    let TokenizerVocabulary { num_ids, form } = file.model.vocab;
    let mut added = file.added_tokens.iter();
    let form = if added.any(|token| token.content == TEKKEN_MARK) {
        TokenizerForm::Tekken
    } else {
        form
    };
    let added = file
        .added_tokens
        .iter()
        .map(|token| token.id.saturating_add(1));
    Ok(TokenizerTraits {
        num_ids: added.fold(num_ids, u64::max),
        form,
    })
}

fn read_sound<T: DeserializeOwned>(path: &Path) -> Result<T, CatalogError> {
    let text = read_capped(path, MAX_JSON_BYTES)?;
    serde_json::from_slice(&text)
        .map_err(|err| CatalogError::damaged(format!("the tokenizer is damaged: {err}"), path))
}

/// Properties of a SentencePiece model; Gemma merges its pieces in pairs.
fn of_pieces(model: &[u8]) -> Option<TokenizerTraits> {
    Some(TokenizerTraits {
        num_ids: count_pieces(model)?,
        form: if has_pairs(model) {
            TokenizerForm::Pairs
        } else {
            TokenizerForm::Pieces
        },
    })
}

/// A GGUF file's own tokenizer, where that is one for these text encoders.
fn of_gguf(header: &gguf::GgufMetadata) -> Option<TokenizerTraits> {
    let tokens = header.list("tokenizer.ggml.tokens")?;
    let splitter = header.text("tokenizer.ggml.pre").unwrap_or_default();
    let form = match header.text("tokenizer.ggml.model")? {
        GGUF_PIECES => TokenizerForm::Pieces,
        GGUF_PAIRS if splitter == TEKKEN_SPLITTER => TokenizerForm::Tekken,
        GGUF_PAIRS if SPLITTERS.contains(&splitter) => TokenizerForm::Pairs,
        _ => return None,
    };
    (tokens.element == gguf::GgufElement::Text).then_some(TokenizerTraits {
        num_ids: tokens.count,
        form,
    })
}

/// The tokenizer within a weight file; `None` where it is not sound.
fn read_in_weights(path: &Path) -> Result<Option<TokenizerTraits>, CatalogError> {
    let (_, header) = WeightHeader::open(path).map_err(|err| CatalogError::of_header(err, path))?;
    if let Some(metadata) = &header.gguf {
        return Ok(of_gguf(metadata));
    }
    if let Some(bytes) = tensor_bytes(path, TEKKEN_TENSOR)? {
        return Ok(count_tekken(&bytes).map(|num_ids| TokenizerTraits {
            num_ids,
            form: TokenizerForm::Tekken,
        }));
    }
    let bytes = tensor_bytes(path, SPIECE_TENSOR)?
        .ok_or_else(|| CatalogError::missing(format!("the tensor {SPIECE_TENSOR}"), path))?;
    Ok(of_pieces(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_tokenizer_of_qwen_is_known_and_llamas_is_not_taken_for_it() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/tokenizers/qwen");
        assert!(is_place(&shipped));
        let found = TokenizerTraits::read(&shipped).unwrap();
        assert_eq!(found.form, TokenizerForm::Pairs);
        assert_eq!(found.num_ids, 151_643);
        let (qwen, llama) = (151_936, 128_320);
        check(&shipped, qwen, TokenizerForm::Pairs).unwrap();
        assert!(found.is_of_vocabulary(qwen) && !found.is_of_vocabulary(llama));
        let of_llama = TokenizerTraits {
            num_ids: 128_256,
            ..found
        };
        assert!(of_llama.is_of_vocabulary(llama) && !of_llama.is_of_vocabulary(qwen));
    }

    #[test]
    fn pieces_are_counted_and_damage_is_no_panic() {
        // Two pieces, a number and a trainer's part.
        let whole = [
            [0x0a, 3, 1, 2, 3].as_slice(),
            &[0x0a, 0],
            &[0x20, 0x96, 0x01],
            &[0x12, 1, 9],
        ]
        .concat();
        assert_eq!(count_pieces(&whole), Some(2));
        for cut in 0..whole.len() {
            let _either = count_pieces(&whole[..cut]);
        }
        assert_eq!(
            count_pieces(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            None
        );
        assert_eq!(count_pieces(&[0x0a, 200]), None);
    }
}
