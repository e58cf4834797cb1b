//! Text to token ids, padded and cut as `transformers` does it.
//!
//! Reads `tokenizer.json`, and leaves a `spiece.model` to [`SpieceModel`]. Does not clean prompts.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use tch::Tensor;
use tokenizers::{Tokenizer, TruncationParams};

use super::spiece::{SPIECE_TENSOR, SpieceModel, has_end};
use crate::error::EngineError;
use crate::json;

/// Ids and mask of one text, both `(1, length)` integers.
#[derive(Debug)]
pub struct Tokens {
    pub ids: Tensor,
    pub mask: Tensor,
    /// How many ids are not padding.
    pub num_tokens: i64,
}

pub struct TextTokenizer {
    inner: Inner,
    pad_id: i64,
    length: usize,
    path: PathBuf,
}

/// The two forms in which the same tokenizer is published. They agree on known characters only.
enum Inner {
    Json(Box<Tokenizer>),
    Spiece(Box<SpieceModel>),
}

/// The parts of `tokenizer_config.json` that are needed here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenizerConfig {
    tokenizer_class: Option<String>,
    pad_token: Option<Token>,
    eos_token: Option<Token>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Token {
    Plain(String),
    Added { content: String },
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Added { content: text } => text,
        }
    }
}

impl TextTokenizer {
    /// Opens a tokenizer where users have it; texts come out with `length` ids.
    ///
    /// `place` is a folder with `tokenizer.json` or, failing that, `spiece.model`; either of these files; or a
    /// `.safetensors` file that carries the latter in its tensor `spiece_model`. `class` is what the pipeline
    /// reads a `tokenizer.json` with; absent, what its `tokenizer_config.json` says.
    pub fn open(place: &Path, class: Option<&str>, length: usize) -> Result<Self, EngineError> {
        if length < 1 {
            let reason = "a text needs room for at least one token".to_owned();
            return Err(EngineError::Request { reason });
        }
        let json = if place.is_dir() {
            place.join("tokenizer.json")
        } else {
            place.to_owned()
        };
        let is_json = has_end(&json, "json");
        if is_json && (json.exists() || !place.is_dir()) {
            return Self::read_json(json, class, length);
        }
        let model = SpieceModel::find(place)?.ok_or_else(|| EngineError::Config {
            reason: if has_end(place, "safetensors") {
                format!("it carries no tokenizer in a tensor '{SPIECE_TENSOR}'")
            } else {
                "there is no tokenizer.json or spiece.model here".to_owned()
            },
            path: place.to_owned(),
        })?;
        Ok(Self {
            pad_id: model.pad_id(),
            inner: Inner::Spiece(Box::new(model)),
            length,
            path: place.to_owned(),
        })
    }

    fn read_json(path: PathBuf, class: Option<&str>, length: usize) -> Result<Self, EngineError> {
        let config_path = path.with_file_name("tokenizer_config.json");
        let config: TokenizerConfig = if config_path.exists() {
            json::read(&config_path)?
        } else {
            TokenizerConfig::default()
        };
        let bad = |reason: String| EngineError::Config {
            reason,
            path: path.clone(),
        };
        let mut value: Value = json::read(&path)?;
        let class = match class {
            None | Some("AutoTokenizer") => config.tokenizer_class.as_deref().unwrap_or_default(),
            Some(class) => class,
        };
        let text = |token: &Option<Token>, default: &str| {
            let given = token.as_ref().map(|token| token.text().to_owned());
            given.unwrap_or_else(|| default.to_owned())
        };
        if class.starts_with("T5Tokenizer") {
            let eos = text(&config.eos_token, "</s>");
            make_t5(&mut value, &eos).map_err(&bad)?;
        }
        let mut inner: Tokenizer =
            serde_json::from_value(value).map_err(|err| bad(format!("not a tokenizer: {err}")))?;
        let pad = text(&config.pad_token, "<pad>");
        let pad_id = inner
            .token_to_id(&pad)
            .ok_or_else(|| bad(format!("it has no token '{pad}' to pad with")))?;
        inner.with_padding(None);
        let cut = TruncationParams {
            max_length: length,
            ..TruncationParams::default()
        };
        inner
            .with_truncation(Some(cut))
            .map_err(|err| bad(err.to_string()))?;
        Ok(Self {
            inner: Inner::Json(Box::new(inner)),
            pad_id: i64::from(pad_id),
            length,
            path,
        })
    }

    pub fn encode(&self, text: &str) -> Result<Tokens, EngineError> {
        let mut ids = match &self.inner {
            Inner::Json(tokenizer) => {
                let encoding = tokenizer.encode(text, true);
                let encoding = encoding.map_err(|err| EngineError::Config {
                    reason: format!("the tokenizer failed: {err}"),
                    path: self.path.clone(),
                })?;
                encoding.get_ids().iter().map(|&id| i64::from(id)).collect()
            }
            Inner::Spiece(model) => {
                let mut ids = model.encode(text);
                if ids.len() > self.length {
                    ids.truncate(self.length - 1);
                    ids.push(model.eos_id());
                }
                ids
            }
        };
        ids.truncate(self.length);
        let num_tokens = ids.len();
        ids.resize(self.length, self.pad_id);
        let mut mask = vec![1_i64; num_tokens];
        mask.resize(self.length, 0);
        Ok(Tokens {
            ids: Tensor::from_slice(&ids).unsqueeze(0),
            mask: Tensor::from_slice(&mask).unsqueeze(0),
            num_tokens: num_tokens as i64,
        })
    }

    /// One more than the largest id that can come out.
    pub fn vocab_size(&self) -> i64 {
        match &self.inner {
            Inner::Json(tokenizer) => {
                let ids = tokenizer.get_vocab(true).into_values();
                i64::from(ids.max().unwrap_or(0)) + 1
            }
            Inner::Spiece(model) => model.vocab_size(),
        }
    }
}

/// `transformers` 5 takes only the pieces, the added tokens and the character map from the file of a T5
/// tokenizer; the rest is built into its class, and so it is here: the same ids matter more than the file.
fn make_t5(tokenizer: &mut Value, eos: &str) -> Result<(), String> {
    let normalizer = &tokenizer["normalizer"];
    let steps = match &normalizer["normalizers"] {
        Value::Array(steps) => steps.clone(),
        _ => vec![normalizer.clone()],
    };
    let charsmap = steps.into_iter().find(|step| step["type"] == "Precompiled");
    let pieces = tokenizer["model"]["vocab"]
        .as_array()
        .ok_or("its model has no pieces")?;
    let eos_id = pieces
        .iter()
        .position(|piece| piece[0] == eos)
        .ok_or_else(|| format!("it has no token '{eos}' to end with"))?;
    tokenizer["model"]["unk_id"] = json!(2);
    tokenizer["model"]["byte_fallback"] = json!(false);
    tokenizer["normalizer"] = charsmap.unwrap_or(Value::Null);
    tokenizer["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
    ]});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let end = json!({"SpecialToken": {"id": eos, "type_id": 0}});
    tokenizer["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [text, end],
        "pair": [text, end, {"Sequence": {"id": "B", "type_id": 0}}, end],
        "special_tokens": {eos: {"id": eos, "ids": [eos_id], "tokens": [eos]}},
    });
    Ok(())
}
