//! The tokenizer of a Llama 3, a Qwen or a Mistral within a GGUF file, as the `tokenizer.json` that it was made from.
//!
//! A converter writes tokens, their kinds and merges; how words are split is only named, so the patterns are here and
//! in `classes`. Other splitters are refused: their ids would be wrong without a sign.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::classes;
use super::gguf::{TokenizerMetadata, tokenizer_inside};
use super::spiece::has_end;
use super::tekken::{TEKKEN_PAD, TEKKEN_WORDS};
use crate::model::CatalogError;

/// The mark that ends a text of Llama 3.
pub(super) const END: &str = "<|end_of_text|>";
const PAD: &str = "<pad>";

/// GGUF's name of byte-pair encoding, also used by other language models.
pub(crate) const GGUF_PAIRS: &str = "gpt2";
/// GGUF's name of Qwen's pre-tokenizer, for versions 2 to 3.
const QWEN: &str = "qwen2";
/// GGUF's name of Mistral's pre-tokenizer.
pub(crate) const TEKKEN_SPLITTER: &str = "tekken";
/// All ways to split words that are read, the others of which are Llama 3's.
pub(crate) const SPLITTERS: [&str; 5] = ["llama-bpe", "llama3", "llama-v3", QWEN, TEKKEN_SPLITTER];
/// Value in old files, if any.
const UNSAID: &str = "default";

/// The kinds of tokens that a text may spell outright.
const CONTROL: u32 = 3;
const USER_DEFINED: u32 = 4;

/// Contractions of English, words with a preceding character, up to three digits, punctuation, and white space.
const LLAMA_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A tokenizer as its own file would have it.
pub(super) struct PairsTokenizer {
    pub(super) value: Value,
    /// The token to pad with.
    pub(super) pad: String,
}

/// The tokenizer in a GGUF file; `None` where it carries none of this kind, and for every other file.
pub(super) fn read(path: &Path) -> Result<Option<PairsTokenizer>, CatalogError> {
    if !has_end(path, "gguf") || path.is_dir() {
        return Ok(None);
    }
    tokenizer_inside(path, GGUF_PAIRS, |metadata| {
        let splitter = metadata.text("pre").unwrap_or(UNSAID);
        if splitter != UNSAID && !SPLITTERS.contains(&splitter) {
            let reason =
                format!("it splits words as '{splitter}' does, not as Llama 3, Qwen or Mistral");
            return Err(metadata.wrong(&reason));
        }
        let tokens = texts(metadata, "tokens", classes::MAX_TOKENS as u64)?;
        let merges = texts(metadata, "merges", classes::MAX_MERGES as u64)?;
        let kinds = metadata
            .kinds(classes::MAX_TOKENS as u64)?
            .unwrap_or_default();
        let made = match splitter {
            QWEN => qwen(&tokens, &kinds, &merges),
            TEKKEN_SPLITTER => tekken(&tokens, &kinds, &merges),
            _ => llama(metadata, &tokens, &kinds, &merges),
        };
        made.map_err(|reason| metadata.wrong(reason))
    })
}

fn texts(
    metadata: &TokenizerMetadata<'_>,
    name: &str,
    max: u64,
) -> Result<Vec<String>, CatalogError> {
    let texts = metadata.texts(name, max)?;
    let texts = texts.ok_or_else(|| metadata.wrong(&format!("found no {name}")))?;
    let texts: Result<_, _> = texts.into_iter().map(String::from_utf8).collect();
    texts.map_err(|err| metadata.wrong(&err.to_string()))
}

/// Qwen's special tokens are in the template around a text; the padding token of Qwen applies, whatever a converter chose.
fn qwen(
    tokens: &[String],
    kinds: &[u32],
    merges: &[String],
) -> Result<PairsTokenizer, &'static str> {
    let mut value = classes::qwen(&vocab(tokens), &pairs(merges)?);
    value["added_tokens"] = Value::Array(added(tokens, kinds));
    Ok(PairsTokenizer {
        value,
        pad: classes::QWEN_END.to_owned(),
    })
}

/// Mistral's special tokens are in the template around a text, the first one included.
fn tekken(
    tokens: &[String],
    kinds: &[u32],
    merges: &[String],
) -> Result<PairsTokenizer, &'static str> {
    let (vocab, merges, added) = (vocab(tokens), pairs(merges)?, added(tokens, kinds));
    Ok(PairsTokenizer {
        value: classes::whole(TEKKEN_WORDS, vocab, merges, added, None),
        pad: TEKKEN_PAD.to_owned(),
    })
}

fn llama(
    metadata: &TokenizerMetadata<'_>,
    tokens: &[String],
    kinds: &[u32],
    merges: &[String],
) -> Result<PairsTokenizer, &'static str> {
    let named = |role: &str| tokens.get(metadata.id(role)?);
    let bos = named("bos").ok_or("found no token that begins a text")?;
    let own_pad = || {
        [PAD, END]
            .into_iter()
            .find(|own| tokens.iter().any(|text| text == own))
    };
    let pad = named("padding").map(String::as_str).or_else(own_pad);
    let pad = pad
        .or_else(|| named("eos").map(String::as_str))
        .unwrap_or(bos);
    let with_bos = metadata.flag("add_bos_token");
    let bos = with_bos.unwrap_or(true).then_some(bos.as_str());
    Ok(PairsTokenizer {
        value: classes::whole(
            LLAMA_WORDS,
            vocab(tokens),
            pairs(merges)?,
            added(tokens, kinds),
            bos,
        ),
        pad: pad.to_owned(),
    })
}

fn vocab(tokens: &[String]) -> Value {
    let vocab: Map<String, Value> = tokens.iter().cloned().zip((0..).map(Value::from)).collect();
    Value::Object(vocab)
}

fn pairs(merges: &[String]) -> Result<Value, &'static str> {
    let pairs: Option<Vec<Value>> = merges
        .iter()
        .map(|merge| merge.split_once(' ').map(|(a, b)| json!([a, b])))
        .collect();
    pairs
        .map(Value::Array)
        .ok_or("one of its merges is not two tokens")
}

/// The tokens that a text may spell outright.
fn added(tokens: &[String], kinds: &[u32]) -> Vec<Value> {
    let spelled = tokens.iter().zip(kinds).enumerate();
    let spelled = spelled.filter(|(_, (_, kind))| matches!(**kind, CONTROL | USER_DEFINED));
    let added = spelled.map(|(id, (text, kind))| {
        json!({
            "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": *kind == CONTROL,
        })
    });
    added.collect()
}
