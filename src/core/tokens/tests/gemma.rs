//! Gemma's tokenizer in its two files, against the ids of transformers (`tests/fixtures/text/gemma`).

use std::fs;

use serde_json::{Map, Value};

use super::{ids, refusal, used_ids, write_bytes};
use crate::testing::{assert_has, fixture, json_fixture};
use crate::tokens::TextTokenizer;

#[test]
fn both_files_of_gemmas_tokenizer_give_the_ids_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("gemma.safetensors");
    let model = fs::read(fixture("text/gemma/tokenizer.model")).unwrap();
    write_bytes(&inside, "spiece_model", &model, &[model.len()]);
    let json = fixture("text/gemma/tokenizer.json");
    let texts: Map<String, Value> = json_fixture("text/gemma/ids.json");
    for place in [&*inside, &json] {
        let tokenizer = TextTokenizer::open(place, Some("GemmaTokenizer"), 1024).unwrap();
        for (text, expected) in &texts {
            let tokens = tokenizer.encode(text).unwrap();
            assert_eq!(
                used_ids(&tokens),
                ids(expected),
                "{text:?} by {}",
                place.display()
            );
        }
        assert_eq!(tokenizer.pad_id(), 0);
    }
}

#[test]
fn damaged_models_of_byte_pairs_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gemma.safetensors");
    let whole = fs::read(fixture("text/gemma/tokenizer.model")).unwrap();
    // A token replaced by another one of its length, and half a file.
    let unbegun: Vec<u8> = String::from_utf8_lossy(b"<bos>")
        .replace("bos", "sob")
        .into();
    let mut renamed = whole.clone();
    let at = whole.windows(5).position(|part| part == b"<bos>").unwrap();
    renamed[at..at + 5].copy_from_slice(&unbegun);
    for (bytes, expected) in [
        (&renamed[..], "no token '<bos>' to begin with"),
        (&whole[..whole.len() / 2], "damaged"),
    ] {
        write_bytes(&path, "spiece_model", bytes, &[bytes.len()]);
        assert_has(&refusal(&path, None), &[expected]);
    }
}
