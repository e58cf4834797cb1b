//! T5's tokenizer in the layouts in which it is published, for tests of what reads it, here and in the engine.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/text/flux")
}

pub(crate) fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(crate) fn write(path: &Path, value: &Value) {
    fs::write(path, value.to_string()).unwrap();
}

/// The map of characters that both T5s of the fixtures have, in base64.
fn charsmap() -> String {
    let wan = fixtures().join("../../wan/pipeline/tokenizer/tokenizer.json");
    let steps = json_of(&wan)["normalizer"]["normalizers"].clone();
    let mut steps = steps.as_array().unwrap().iter();
    let map = steps.find(|step| step["type"] == "Precompiled").unwrap();
    map["precompiled_charsmap"].as_str().unwrap().to_owned()
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let text = text.trim_end_matches('=').as_bytes();
    let groups = text.chunks(4).flat_map(|group| {
        let digits = group.iter().map(|&byte| u32::from(digit(byte)));
        let bits = digits.fold(0, |bits, digit| bits << 6 | digit);
        let bits = bits << (6 * (4 - group.len()));
        bits.to_be_bytes()[1..group.len()].to_vec()
    });
    groups.collect()
}

/// One field of a protocol buffer that has a length.
pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut len = bytes.len();
    while len >= 0x80 {
        out.push((len & 0x7f | 0x80) as u8);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend_from_slice(bytes);
    out
}

/// One piece of a SentencePiece model.
pub(crate) fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
    let mut message = field(1, text.as_bytes());
    message.push(2 << 3 | 5);
    message.extend(score.to_le_bytes());
    message.extend([3 << 3, kind]);
    field(1, &message)
}

pub(crate) fn write_spiece(path: &Path, pieces: &[Value]) {
    let mut model = Vec::new();
    for item in pieces {
        let (text, score) = (item[0].as_str().unwrap(), item[1].as_f64().unwrap());
        model.extend(piece(text, score as f32, item[2].as_u64().unwrap() as u8));
    }
    model.extend_from_slice(&field(3, &field(2, &from_base64(&charsmap()))));
    fs::write(path, model).unwrap();
}

pub(crate) fn write_t5_json(path: &Path, pieces: &[Value]) {
    let pieces = pieces.iter().map(|p| json!([p[0], p[1]]));
    let extra = (0..100).rev();
    let extra = extra.map(|i| json!([format!("<extra_id_{i}>"), 0.0]));
    let vocab: Vec<Value> = pieces.chain(extra).collect();
    let special = ["<pad>", "</s>", "<unk>"].into_iter().enumerate();
    let added = special.map(|(id, content)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true})
    });
    let value = json!({
        "version": "1.0",
        "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap()},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": vocab},
    });
    write(path, &value);
}
