//! Whether a `tokenizer.json` is whole and stays within its model's vocabulary.
//!
//! Counts ids and keeps none: tokenizing is the engine's.

use std::fmt;
use std::path::Path;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::CatalogError;
use super::configs::read_capped;

/// UMT5's has 17 MB.
const MAX_TOKENIZER_BYTES: u64 = 256 << 20;

#[derive(Deserialize)]
struct TokenizerFile {
    model: TokenizerModel,
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
}

#[derive(Deserialize)]
struct TokenizerModel {
    vocab: NumIds,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u64,
}

/// One more than the largest id of a vocabulary, which is a list of pieces or a map from piece to id.
struct NumIds(u64);

impl<'de> Deserialize<'de> for NumIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count;

        impl<'de> Visitor<'de> for Count {
            type Value = NumIds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a vocabulary: a list or a map")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NumIds, A::Error> {
                let mut count = 0;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(NumIds(count))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NumIds, A::Error> {
                let mut count = 0;
                while let Some((_, id)) = map.next_entry::<IgnoredAny, u64>()? {
                    count = count.max(id.saturating_add(1));
                }
                Ok(NumIds(count))
            }
        }

        deserializer.deserialize_any(Count)
    }
}

/// Checks the `tokenizer.json` in `folder` against the rows of the text encoder's embedding.
pub(super) fn check(folder: &Path, vocab_size: u64) -> Result<(), CatalogError> {
    let path = folder.join("tokenizer.json");
    let text = read_capped(&path, MAX_TOKENIZER_BYTES)?;
    let file: TokenizerFile =
        serde_json::from_slice(&text).map_err(|err| CatalogError::Config {
            reason: format!("not a sound tokenizer: {err}"),
            path: path.clone(),
        })?;
    let added = file
        .added_tokens
        .iter()
        .map(|token| token.id.saturating_add(1));
    let num_ids = added.fold(file.model.vocab.0, u64::max);
    if num_ids == 0 || num_ids > vocab_size {
        return Err(CatalogError::Config {
            reason: format!(
                "expected between 1 and {vocab_size} token ids (the text encoder's vocab_size), found {num_ids}"
            ),
            path,
        });
    }
    Ok(())
}
