//! Text to token ids, padded and cut as `transformers` does it.
//!
//! Reads `tokenizer.json`, CLIP's and Qwen's `vocab.json` with `merges.txt`, a T5's and Gemma's `spiece.model`, and both kinds of GGUF's
//! metadata; leaves other `spiece.model` to [`SpieceModel`]. Does not clean prompts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::{AddedToken, Encoding, PostProcessor as _, Tokenizer, TruncationDirection};

use super::files::{read_bytes, read_json};
use super::packed::{self, PACKED_MERGES};
use super::pairs_gguf::{self, PairsTokenizer};
use super::special::SpecialTokens;
use super::spiece::{SpieceModel, T5Pieces, has_end};
use super::tekken::{TEKKEN_MARK, TEKKEN_PAD, TEKKEN_WORDS};
use super::{charsmap, classes, gemma, tekken};
use crate::job::prompt::WeightedText;
use crate::model::CatalogError;

/// Prefix of the class of Qwen's tokenizers, also Qwen 3's.
const QWEN_CLASS: &str = "Qwen2Tokenizer";

/// The ids of one text, padded and cut to the length that its tokenizer was opened with.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenIds {
    pub ids: Vec<i64>,
    /// Weight of each id: 1 for padding and special tokens.
    pub weights: Vec<f64>,
    /// Number of ids that are not padding.
    pub num_tokens: usize,
    /// Number of ids that were truncated.
    pub num_cut: usize,
}

impl TokenIds {
    /// 1 for each id of the text, 0 for padding.
    pub fn mask(&self) -> Vec<i64> {
        let is_text = |i| i64::from(i < self.num_tokens);
        (0..self.ids.len()).map(is_text).collect()
    }
}

/// Notice about a text with `cut` ids more than the `length` that the encoder reads; `role` is `prompt` or `negative`.
pub fn cut_notice(role: &str, cut: usize, length: usize) -> Option<String> {
    let name = if role == "negative" {
        "negative prompt"
    } else {
        "prompt"
    };
    (cut > 0).then(|| {
        format!("the {name} is too long: the model reads {length} tokens, and the last {cut} are cut off")
    })
}

pub struct TextTokenizer {
    inner: TokenizerKind,
    pad_id: i64,
    length: usize,
    path: PathBuf,
}

/// The two forms in which the same tokenizer is published. They agree on known characters only.
enum TokenizerKind {
    Json(Box<Tokenizer>),
    Spiece(Box<SpieceModel>),
}

impl TextTokenizer {
    /// Opens a tokenizer where users have it; texts come out with `length` ids.
    ///
    /// `place` is a folder with `tokenizer.json`, with `vocab.json` and `merges.txt`, or with `spiece.model`, the
    /// first of these that is there; a `tokenizer.json` or `spiece.model` itself; a `.safetensors` file that
    /// carries the latter in its tensor `spiece_model`, or Mistral's in `tekken_model`; or a `.gguf` file with its pieces in the metadata. `class` is what the pipeline reads the tokenizer with;
    /// absent, what its `tokenizer_config.json` says.
    pub fn open(place: &Path, class: Option<&str>, length: usize) -> Result<Self, CatalogError> {
        guarded(place, || Self::opened(place, class, length))?
    }

    fn opened(place: &Path, class: Option<&str>, length: usize) -> Result<Self, CatalogError> {
        if length < 1 {
            let reason = "a text needs room for at least one token".to_owned();
            return Err(CatalogError::Request { reason, advice: "" });
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
        if place.join("vocab.json").exists() && place.join("merges.txt").exists() {
            return Self::read_pairs(place, class, length);
        }
        if place.join(PACKED_MERGES).exists() {
            let [vocab, merges] = packed::read(place)?;
            let special = SpecialTokens::read(place, &Value::Null)?;
            return Self::qwen(&vocab, &merges, &special, length, place.join(PACKED_MERGES));
        }
        if let Some(PairsTokenizer { value, pad }) = pairs_gguf::read(place)? {
            return Self::build(Ok(value), Vec::new(), &pad, length, place.to_owned());
        }
        if has_end(place, "safetensors")
            && let Some(value) = tekken::read(place)?
        {
            return Self::build(Ok(value), Vec::new(), TEKKEN_PAD, length, place.to_owned());
        }
        Self::read_spiece(place, length)
    }

    fn read_json(path: PathBuf, class: Option<&str>, length: usize) -> Result<Self, CatalogError> {
        let file: Value = read_json(&path)?;
        let special = SpecialTokens::read(folder_of(&path), &file["added_tokens"])?;
        let class = class_of(class, &special);
        if class.starts_with("T5Tokenizer") {
            let eos = special.named("eos_token", "</s>");
            let value = classes::t5(&file, eos);
            return Self::t5(value, &special, length, path);
        }
        if class.starts_with("CLIPTokenizer") {
            let model = &file["model"];
            return Self::clip(&model["vocab"], &model["merges"], &special, length, path);
        }
        if class.starts_with(QWEN_CLASS) {
            let model = &file["model"];
            return Self::qwen(&model["vocab"], &model["merges"], &special, length, path);
        }
        let mut added = file["added_tokens"].as_array().into_iter().flatten();
        if added.any(|token| token["content"] == TEKKEN_MARK) {
            let (model, own) = (&file["model"], file["added_tokens"].as_array());
            let [vocab, merges] = ["vocab", "merges"].map(|name| model[name].clone());
            let own = own.cloned().unwrap_or_default();
            let value = classes::whole(TEKKEN_WORDS, vocab, merges, own, None);
            return Self::build(Ok(value), Vec::new(), TEKKEN_PAD, length, path);
        }
        let pad = special.named("pad_token", "<pad>").to_owned();
        // Llama's tokenizer has none, nor has Qwen's: the padding token is irrelevant where it is masked.
        let lacks_pad = |text: &str| {
            let added = file["added_tokens"].as_array().into_iter().flatten();
            let mut all = added.map(|token| &token["content"]);
            file["model"]["vocab"].get(text).is_none() && !all.any(|content| content == text)
        };
        let is_pairs = file["model"]["type"] == "BPE";
        let mut ends = [pairs_gguf::END, classes::QWEN_END].into_iter();
        let pad = match ends.find(|end| !lacks_pad(end)) {
            Some(end) if is_pairs && lacks_pad(&pad) => end.to_owned(),
            _ => pad,
        };
        Self::build(Ok(file), Vec::new(), &pad, length, path)
    }

    fn read_pairs(folder: &Path, class: Option<&str>, length: usize) -> Result<Self, CatalogError> {
        let special = SpecialTokens::read(folder, &Value::Null)?;
        let path = folder.join("vocab.json");
        let class = class_of(class, &special);
        let is_qwen = class.starts_with(QWEN_CLASS);
        if !class.is_empty() && !class.starts_with("CLIPTokenizer") && !is_qwen {
            let reason = format!("a {class} needs more than a vocabulary and merges");
            return Err(CatalogError::config(reason, path));
        }
        let vocab: Value = read_json(&path)?;
        let merges = folder.join("merges.txt");
        let text = String::from_utf8(read_bytes(&merges)?).map_err(|err| err.to_string());
        let merges = text
            .and_then(|text| classes::merges(&text))
            .map_err(|reason| CatalogError::config(reason, merges))?;
        if is_qwen {
            return Self::qwen(&vocab, &merges, &special, length, path);
        }
        Self::clip(&vocab, &merges, &special, length, path)
    }

    fn read_spiece(place: &Path, length: usize) -> Result<Self, CatalogError> {
        let found = SpieceModel::find_model(place)?;
        let (model, path) = found.ok_or_else(|| {
            let reason = if has_end(place, "gguf") {
                "it carries no tokenizer of a T5, a Llama 3, a Qwen or a Mistral in its metadata"
            } else if has_end(place, "safetensors") {
                "it carries no tokenizer beside its weights"
            } else if place.is_dir() {
                "there is no tokenizer.json, vocab.json with merges.txt, or spiece.model here"
            } else {
                "there is no tokenizer.json or spiece.model here"
            };
            CatalogError::config(reason, place)
        })?;
        if model.trainer.has_pairs() {
            let pad = String::from_utf8_lossy(&model.trainer.pad_piece).into_owned();
            return Self::build(gemma::convert(&model), Vec::new(), &pad, length, path);
        }
        if let Some(T5Pieces { pieces, normalizer }) = T5Pieces::from_model(&model) {
            let special = if is_weight_file(&path) {
                SpecialTokens::default()
            } else {
                SpecialTokens::read(folder_of(&path), &Value::Null)?
            };
            let eos = special.named("eos_token", "</s>");
            let count = special.extra_ids.unwrap_or(classes::T5_EXTRA_IDS);
            let value = classes::t5_of_pieces(&with_extra(pieces, count), &normalizer, eos);
            return Self::t5(value, &special, length, path);
        }
        let model = SpieceModel::from_model(&model, &path)?;
        Ok(Self {
            pad_id: model.pad_id(),
            inner: TokenizerKind::Spiece(Box::new(model)),
            length,
            path,
        })
    }

    fn t5(
        value: Result<Value, String>,
        special: &SpecialTokens,
        length: usize,
        path: PathBuf,
    ) -> Result<Self, CatalogError> {
        let defaults = [
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
        ];
        let count = special.extra_ids.unwrap_or(classes::T5_EXTRA_IDS);
        let extra = classes::t5_extra_tokens(count);
        let added = special.additions(&defaults, extra);
        let pad = special.named("pad_token", "<pad>");
        Self::build(value, added, pad, length, path)
    }

    fn clip(
        vocab: &Value,
        merges: &Value,
        special: &SpecialTokens,
        length: usize,
        path: PathBuf,
    ) -> Result<Self, CatalogError> {
        let (start, end) = ("<|startoftext|>", "<|endoftext|>");
        let defaults = [
            ("bos_token", start),
            ("eos_token", end),
            ("unk_token", end),
            ("pad_token", end),
        ];
        let [bos, eos, unk, pad] = defaults.map(|(role, text)| special.named(role, text));
        let value = classes::clip(vocab, merges, [bos, eos, unk]);
        let added = special.additions(&defaults, None);
        Self::build(value, added, pad, length, path)
    }

    fn qwen(
        vocab: &Value,
        merges: &Value,
        special: &SpecialTokens,
        length: usize,
        path: PathBuf,
    ) -> Result<Self, CatalogError> {
        let defaults = ["unk_token", "eos_token", "pad_token"].map(|it| (it, classes::QWEN_END));
        let added = special.additions(&defaults, None);
        let pad = special.named("pad_token", classes::QWEN_END);
        Self::build(Ok(classes::qwen(vocab, merges)), added, pad, length, path)
    }

    fn build(
        value: Result<Value, String>,
        added: Vec<AddedToken>,
        pad: &str,
        length: usize,
        path: PathBuf,
    ) -> Result<Self, CatalogError> {
        let bad = |reason: String| CatalogError::config(reason, &path);
        let value = value.map_err(&bad)?;
        classes::check_sizes(&value).map_err(&bad)?;
        charsmap::check(&value["normalizer"]).map_err(&bad)?;
        let mut inner: Tokenizer =
            serde_json::from_value(value).map_err(|err| bad(format!("not a tokenizer: {err}")))?;
        inner
            .add_tokens(added)
            .map_err(|err| bad(err.to_string()))?;
        let pad_id = inner
            .token_to_id(pad)
            .ok_or_else(|| bad(format!("it has no token '{pad}' to pad with")))?;
        let around = special_tokens_around(&inner);
        if length < around {
            let reason = format!("{length} tokens are too few: {around} stand around every text");
            return Err(CatalogError::Request { reason, advice: "" });
        }
        inner.with_padding(None);
        inner
            .with_truncation(None)
            .map_err(|err| bad(err.to_string()))?;
        Ok(Self {
            inner: TokenizerKind::Json(Box::new(inner)),
            pad_id: i64::from(pad_id),
            length,
            path,
        })
    }

    /// The ids of a text; never more than there is room for.
    pub fn encode(&self, text: &str) -> Result<TokenIds, CatalogError> {
        self.encode_parts(&[WeightedText::plain(text)])
    }

    /// The ids of a text in parts, each split into tokens separately, as in `ComfyUI`.
    pub fn encode_parts(&self, parts: &[WeightedText]) -> Result<TokenIds, CatalogError> {
        let mut tokens = guarded(&self.path, || self.encoded(parts))??;
        tokens.ids.resize(self.length, self.pad_id);
        tokens.weights.resize(self.length, 1.0);
        Ok(tokens)
    }

    /// Number of ids of the whole text, without truncation.
    pub fn count(&self, parts: &[WeightedText]) -> Result<usize, CatalogError> {
        let tokens = guarded(&self.path, || self.encoded(parts))??;
        Ok(tokens.num_tokens + tokens.num_cut)
    }

    /// Ids of a text alone: without special tokens and padding, and not cut.
    pub(super) fn ids_alone(&self, text: &str) -> Result<Vec<i64>, CatalogError> {
        let TokenizerKind::Json(tokenizer) = &self.inner else {
            let reason = "expected a tokenizer of CLIP".to_owned();
            return Err(CatalogError::config(reason, &self.path));
        };
        let encoding = guarded(&self.path, || tokenizer.encode(text, false))?;
        let encoding = encoding.map_err(|err| {
            CatalogError::config(format!("the tokenizer failed: {err}"), &self.path)
        })?;
        Ok(encoding.get_ids().iter().map(|&id| i64::from(id)).collect())
    }

    /// The id of padding.
    pub fn pad_id(&self) -> i64 {
        self.pad_id
    }

    /// Ids without padding.
    fn encoded(&self, parts: &[WeightedText]) -> Result<TokenIds, CatalogError> {
        let mut weights = Vec::new();
        let weigh = |weights: &mut Vec<f64>, part: &WeightedText, count| {
            weights.extend(std::iter::repeat_n(part.weight, count));
        };
        let (mut ids, num_all) = match &self.inner {
            TokenizerKind::Json(tokenizer) => {
                let failed = |err: tokenizers::Error| {
                    CatalogError::config(format!("the tokenizer failed: {err}"), &self.path)
                };
                let mut whole = Encoding::default();
                for part in parts {
                    let encoding = tokenizer.encode(part.text.as_str(), false);
                    let encoding = encoding.map_err(failed)?;
                    weigh(&mut weights, part, encoding.len());
                    whole.merge_with(encoding, false);
                }
                let around = special_tokens_around(tokenizer);
                let num_all = whole.len() + around;
                let room = self.length.saturating_sub(around);
                if whole.len() > room {
                    whole.truncate(room, 0, TruncationDirection::Right);
                }
                let whole = tokenizer.post_process(whole, None, true).map_err(failed)?;
                let is_special = whole.get_special_tokens_mask().iter();
                let before = is_special.take_while(|it| **it == 1).count().min(around);
                weights.truncate(room);
                weights.splice(0..0, std::iter::repeat_n(1.0, before));
                let ids: Vec<i64> = whole.get_ids().iter().map(|&id| i64::from(id)).collect();
                (ids, num_all)
            }
            TokenizerKind::Spiece(model) => {
                let mut ids = Vec::new();
                for part in parts {
                    let mut own = model.encode(&part.text);
                    own.pop();
                    weigh(&mut weights, part, own.len());
                    ids.extend(own);
                }
                let num_all = ids.len() + 1;
                ids.truncate(self.length - 1);
                weights.truncate(self.length - 1);
                ids.push(model.eos_id());
                (ids, num_all)
            }
        };
        ids.truncate(self.length);
        weights.resize(ids.len(), 1.0);
        Ok(TokenIds {
            num_tokens: ids.len(),
            num_cut: num_all.saturating_sub(self.length),
            ids,
            weights,
        })
    }

    /// Refuses an encoder whose table ends before the tokenizer's ids do.
    pub fn check_ids(&self, table_size: i64) -> Result<(), CatalogError> {
        let vocab_size = self.vocab_size();
        if vocab_size <= table_size {
            return Ok(());
        }
        let reason =
            format!("the tokenizer has {vocab_size} ids, the text encoder only {table_size}");
        Err(CatalogError::config(reason, &self.path))
    }

    /// One more than the largest id that can come out.
    pub fn vocab_size(&self) -> i64 {
        match &self.inner {
            TokenizerKind::Json(tokenizer) => {
                let ids = tokenizer.get_vocab(true).into_values();
                i64::from(ids.max().unwrap_or(0)) + 1
            }
            TokenizerKind::Spiece(model) => model.vocab_size(),
        }
    }
}

/// The library panics over files whose parts do not fit together, such as an end of texts that no list of tokens has.
fn guarded<T>(path: &Path, work: impl FnOnce() -> T) -> Result<T, CatalogError> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_panic| {
        let reason = "the tokenizer is damaged: its parts do not fit together".to_owned();
        CatalogError::config(reason, path)
    })
}

/// Number of special tokens around every text.
fn special_tokens_around(tokenizer: &Tokenizer) -> usize {
    let template = tokenizer.get_post_processor();
    template.map_or(0, |template| template.added_tokens(false))
}

/// The class that reads a tokenizer: the pipeline's, or else its own.
fn class_of<'a>(class: Option<&'a str>, special: &'a SpecialTokens) -> &'a str {
    class
        .filter(|class| *class != "AutoTokenizer")
        .unwrap_or(&special.class)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new(""))
}

/// Files next to it describe other tokenizers.
fn is_weight_file(path: &Path) -> bool {
    has_end(path, "safetensors") || has_end(path, "gguf")
}

/// A `spiece.model` lacks a T5's last tokens.
fn with_extra(mut pieces: Value, count: u32) -> Value {
    if let Value::Array(pieces) = &mut pieces {
        let numbers = (0..count).rev();
        pieces.extend(numbers.map(|i| serde_json::json!([format!("<extra_id_{i}>"), 0.0])));
    }
    pieces
}
