//! Tekken, Mistral's byte-level tokenizer: the `tekken.json` that ComfyUI's text encoders carry, and the words of every form
//! of it.
//!
//! Published `tokenizer.json` files split words by Llama 3's rule, which transformers calls incorrect; the rule here is that
//! of `tekken.json`. After transformers 5.24 (`convert_slow_tokenizer.py`, `MistralConverter`).

use std::collections::HashMap;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::{classes, tensor_bytes};
use crate::model::CatalogError;
use crate::networks::TEKKEN_TENSOR;

/// A special token that Tekken alone has.
pub(crate) const TEKKEN_MARK: &str = "[SYSTEM_PROMPT]";
pub(super) const TEKKEN_PAD: &str = "<pad>";

/// Words: letters up to a change to upper case, single digits, punctuation, and white space.
pub(super) const TEKKEN_WORDS: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

#[derive(Deserialize)]
struct TekkenFile<T> {
    config: TekkenConfig,
    vocab: Vec<T>,
    special_tokens: Vec<TekkenSpecial>,
}

#[derive(Deserialize)]
struct TekkenConfig {
    pattern: String,
    default_vocab_size: usize,
    default_num_special_tokens: usize,
}

#[derive(Deserialize)]
struct TekkenToken {
    /// In base64.
    token_bytes: String,
}

#[derive(Deserialize)]
struct TekkenSpecial {
    rank: usize,
    token_str: String,
}

/// The tokenizer within a weight file, as a `tokenizer.json` has it; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Value>, CatalogError> {
    let Some(bytes) = tensor_bytes(path, TEKKEN_TENSOR)? else {
        return Ok(None);
    };
    let value = convert(&bytes).map_err(|reason| {
        let reason = format!("expected a tekken.json in its '{TEKKEN_TENSOR}': {reason}");
        CatalogError::config(reason, path)
    })?;
    Ok(Some(value))
}

/// Number of ids of the tokenizer within a weight file.
pub(crate) fn count_tekken(bytes: &[u8]) -> Option<u64> {
    let file: TekkenFile<IgnoredAny> = serde_json::from_slice(bytes).ok()?;
    let special = file.config.default_num_special_tokens;
    let ids = special.checked_add(file.vocab.len())?;
    u64::try_from(ids.min(file.config.default_vocab_size)).ok()
}

fn convert(bytes: &[u8]) -> Result<Value, String> {
    let file: TekkenFile<TekkenToken> =
        serde_json::from_slice(bytes).map_err(|err| err.to_string())?;
    let TekkenConfig {
        pattern,
        default_vocab_size,
        default_num_special_tokens: num_special,
    } = file.config;
    if pattern != TEKKEN_WORDS {
        return Err("it splits words by another rule than Mistral Small's".to_owned());
    }
    let num_tokens = default_vocab_size.checked_sub(num_special);
    let num_tokens = num_tokens.filter(|_| default_vocab_size <= classes::MAX_TOKENS);
    let num_tokens = num_tokens.ok_or("its number of ids makes no sense")?;
    let tokens = file.vocab.iter().take(num_tokens);
    let tokens: Result<Vec<Vec<u8>>, _> = tokens
        .map(|token| BASE64_STANDARD.decode(&token.token_bytes))
        .collect();
    let tokens = tokens.map_err(|err| err.to_string())?;
    let mut special: Vec<String> = (0..num_special)
        .map(|id| format!("<SPECIAL_{id}>"))
        .collect();
    for token in file.special_tokens {
        if let Some(place) = special.get_mut(token.rank) {
            *place = token.token_str;
        }
    }
    let letters = byte_letters();
    let spelled = |token: &[u8]| {
        let letters = token.iter().map(|byte| letters[usize::from(*byte)]);
        letters.collect::<String>()
    };
    let merges: Vec<Value> = merges(&tokens)
        .map(|pair| json!(pair.map(spelled)))
        .collect();
    let names = special.iter().cloned();
    let names = names.chain(tokens.iter().map(|token| spelled(token)));
    let vocab: Map<String, Value> = names.zip((0..).map(Value::from)).collect();
    let added = (0..).zip(&special).map(|(id, name): (u64, _)| {
        json!({
            "id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    });
    let added = added.collect();
    Ok(classes::whole(
        TEKKEN_WORDS,
        vocab.into(),
        merges.into(),
        added,
        None,
    ))
}

/// Pairs of tokens that make another one, by its rank, then by theirs.
fn merges(tokens: &[Vec<u8>]) -> impl Iterator<Item = [&[u8]; 2]> {
    let ranks: HashMap<&[u8], usize> = tokens.iter().map(Vec::as_slice).zip(0..).collect();
    tokens.iter().flat_map(move |token| {
        let splits = (1..token.len()).map(|at| token.split_at(at));
        let mut pairs: Vec<_> = splits
            .filter_map(|(left, right)| {
                Some(((ranks.get(left)?, ranks.get(right)?), [left, right]))
            })
            .collect();
        pairs.sort_unstable_by_key(|(ranks, _)| *ranks);
        pairs.into_iter().map(|(_, pair)| pair).collect::<Vec<_>>()
    })
}

/// Characters for all bytes: printable ones for themselves, the others from U+0100 on.
fn byte_letters() -> [char; 256] {
    let mut others = '\u{100}'..;
    std::array::from_fn(|byte| match char::from(byte as u8) {
        own @ ('!'..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{ff}') => own,
        _ => others.next().unwrap_or_default(),
    })
}
