//! Built-in parts of the tokenizer classes of `transformers` 5: it takes only the pieces, the added tokens and the
//! character map from the files, and so does this module, for equal ids.
//!
//! Gives values for the `tokenizers` library; reads no folders and adds no special tokens.
//! After <https://github.com/huggingface/transformers/tree/v5.3.0/src/transformers/models> (`t5`, `clip`, `qwen2`).

use serde_json::{Value, json};

/// The unknown piece of `transformers`' T5, whatever the model says.
pub(super) const T5_UNK_ID: i64 = 2;

/// Default number of `<extra_id_…>` tokens of a T5.
pub(super) const T5_EXTRA_IDS: u32 = 100;

/// T5's longest piece has 16 letters.
const MAX_PIECE_BYTES: usize = 1024;
/// UMT5's pieces have 2 MB.
const MAX_VOCABULARY_BYTES: usize = 16 << 20;

/// Words of CLIP: its own tokens, endings of English, letters, one digit, or anything else but white space.
const VIDEO_WORDS: &str =
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";

/// End and padding token of Qwen.
pub(super) const QWEN_END: &str = "<|endoftext|>";

/// Words of Qwen: as Llama 3 has them, but each digit for itself.
const QWEN_WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// `T5Tokenizer` from the value of a `tokenizer.json`; `eos` is the token that ends a text.
pub(super) fn t5(file: &Value, eos: &str) -> Result<Value, String> {
    let normalizer = &file["normalizer"];
    let steps = match &normalizer["normalizers"] {
        Value::Array(steps) => steps.clone(),
        _ => vec![normalizer.clone()],
    };
    let charsmap = steps.into_iter().find(|step| step["type"] == "Precompiled");
    let charsmap = charsmap.unwrap_or(Value::Null);
    t5_of_pieces(&file["model"]["vocab"], &charsmap, eos)
}

/// `T5Tokenizer` from `[piece, score]` pairs and a normalizer.
pub(super) fn t5_of_pieces(pieces: &Value, normalizer: &Value, eos: &str) -> Result<Value, String> {
    let eos_id = pieces
        .as_array()
        .ok_or("its model has no pieces")?
        .iter()
        .position(|piece| piece[0] == eos)
        .ok_or_else(|| format!("it has no token '{eos}' to end with"))?;
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let end = json!({"SpecialToken": {"id": eos, "type_id": 0}});
    Ok(json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        ]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [text, end],
            "pair": [text, end, {"Sequence": {"id": "B", "type_id": 0}}, end],
            "special_tokens": {eos: {"id": eos, "ids": [eos_id], "tokens": [eos]}},
        },
        "model": {"type": "Unigram", "unk_id": T5_UNK_ID, "byte_fallback": false, "vocab": pieces},
    }))
}

/// Tokens of a vocabulary. Llama 3 has an eighth of it, Qwen a seventh.
pub(crate) const MAX_TOKENS: usize = 1 << 20;
/// Merges of byte pairs. Llama 3 has 280,147.
pub(crate) const MAX_MERGES: usize = 1 << 19;

/// Refuses more merges than [`MAX_MERGES`].
pub(crate) fn check_merges(count: usize) -> Result<(), String> {
    if count <= MAX_MERGES {
        return Ok(());
    }
    Err(format!(
        "expected at most {MAX_MERGES} merges, found {count}"
    ))
}

/// Refuses what would take the library too much memory or stack: it keeps pieces in a tree with one hash map per byte
/// and frees that by recursion, and copies vocabularies and merges several times.
pub(super) fn check_sizes(file: &Value) -> Result<(), String> {
    let model = &file["model"];
    check_merges(model["merges"].as_array().map_or(0, Vec::len))?;
    let vocab = &model["vocab"];
    let tokens = vocab.as_object().map(serde_json::Map::len);
    let tokens = tokens.or_else(|| vocab.as_array().map(Vec::len));
    if let Some(count) = tokens.filter(|&count| count > MAX_TOKENS) {
        return Err(format!(
            "expected a vocabulary of at most {MAX_TOKENS} tokens, found {count}"
        ));
    }
    let pieces = vocab.as_array().into_iter().flatten();
    let mut all = 0;
    for piece in pieces.filter_map(|piece| piece[0].as_str()) {
        if piece.len() > MAX_PIECE_BYTES {
            let len = piece.len();
            return Err(format!(
                "expected pieces of at most {MAX_PIECE_BYTES} bytes, found one of {len}"
            ));
        }
        all += piece.len();
    }
    if all > MAX_VOCABULARY_BYTES {
        return Err(format!(
            "expected pieces of at most {MAX_VOCABULARY_BYTES} bytes in all, found {all}"
        ));
    }
    Ok(())
}

/// The tokens that every T5 has besides, in the order of the class.
pub(super) fn t5_extra_tokens(count: u32) -> impl Iterator<Item = String> {
    (0..count).map(|i| format!("<extra_id_{i}>"))
}

/// `Qwen2Tokenizer`, which is that of Qwen 3 too: byte-level BPE from `{token: id}` and a list of merges.
pub(super) fn qwen(vocab: &Value, merges: &Value) -> Value {
    json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": QWEN_WORDS}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]},
        "post_processor": null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": merges,
        },
    })
}

/// A `tokenizer.json` as Llama 3 and Mistral have it. `words`: the pattern of words; `bos`: what is put before every text
pub(super) fn whole(
    words: &str,
    vocab: Value,
    merges: Value,
    added: Vec<Value>,
    bos: Option<&str>,
) -> Value {
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let other = json!({"Sequence": {"id": "B", "type_id": 0}});
    let template = bos.map(|bos| {
        let start = json!({"SpecialToken": {"id": bos, "type_id": 0}});
        json!({
            "type": "TemplateProcessing",
            "single": [start, text],
            "pair": [start, text, start, other],
            "special_tokens": {bos: {"id": bos, "ids": [vocab[bos]], "tokens": [bos]}},
        })
    });
    let mut file = json!({
        "version": "1.0",
        "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": words}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        ]},
        "post_processor": template,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
        },
    });
    file["added_tokens"] = Value::Array(added);
    file["model"]["vocab"] = vocab;
    file["model"]["merges"] = merges;
    file
}

/// `CLIPTokenizer`: byte-level BPE whose words end in `</w>`, from `{token: id}` and a list of merges.
pub(super) fn clip(
    vocab: &Value,
    merges: &Value,
    [bos, eos, unk]: [&str; 3],
) -> Result<Value, String> {
    let id = |token: &str| {
        let id = vocab.get(token).and_then(Value::as_u64);
        id.ok_or_else(|| format!("it has no token '{token}'"))
    };
    let (bos, eos) = (json!([bos, id(bos)?]), json!([eos, id(eos)?]));
    Ok(json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFC"},
            {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
            {"type": "Lowercase"},
        ]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": VIDEO_WORDS}, "behavior": "Removed", "invert": true},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        ]},
        "post_processor": {
            "type": "RobertaProcessing", "sep": eos, "cls": bos, "trim_offsets": false,
            "add_prefix_space": false,
        },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unk, "continuing_subword_prefix": "",
            "end_of_word_suffix": "</w>", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": merges,
        },
    }))
}

/// The merges of a `merges.txt`, for [`clip`] and [`qwen`].
pub(super) fn merges(text: &str) -> Result<Value, String> {
    check_merges(text.lines().count())?;
    let lines = text.lines().enumerate();
    let pairs = lines.filter(|(_, line)| !line.starts_with("#version"));
    let merges: Result<Vec<Value>, String> = pairs
        .map(|(i, line)| match line.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => Ok(json!([left, right])),
            _ => Err(format!("its line {} is not two tokens", i + 1)),
        })
        .collect();
    merges.map(Value::Array)
}
