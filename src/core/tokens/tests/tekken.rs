//! Mistral's tokenizer in its two files, against the ids of transformers (`tests/fixtures/text/tekken`).

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ids, refusal, used_ids, write_bytes};
use crate::library::component_search::wanted::TokenizerForm;
use crate::library::tokenizer::{TokenizerTraits, is_place};
use crate::testing::{assert_has, fixture, json_fixture};
use crate::tokens::TextTokenizer;

/// A weight file as ComfyUI has them, with the tokenizer inside.
fn write_inside(path: &Path, tekken: &[u8]) {
    write_bytes(path, "tekken_model", tekken, &[tekken.len()]);
}

#[test]
fn both_files_of_mistrals_tokenizer_give_the_ids_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("mistral.safetensors");
    write_inside(
        &inside,
        &fs::read(fixture("text/tekken/tekken.json")).unwrap(),
    );
    let json = fixture("text/tekken/tokenizer.json");
    // Published files split words by another rule, and put the first token before every text themselves.
    let mut published: Value = json_fixture("text/tekken/tokenizer.json");
    published["pre_tokenizer"]["pretokenizers"][0]["pattern"] = json!({"Regex": r"\w+|\W"});
    fs::write(folder.path().join("tokenizer.json"), published.to_string()).unwrap();
    let texts: Map<String, Value> = json_fixture("text/tekken/ids.json");
    for place in [&*inside, &json, folder.path()] {
        let tokenizer = TextTokenizer::open(place, Some("PixtralProcessor"), 200).unwrap();
        for (text, expected) in &texts {
            let tokens = tokenizer.encode(text).unwrap();
            assert_eq!(used_ids(&tokens), ids(expected), "{text:?}");
        }
        assert_eq!(tokenizer.pad_id(), 11);
    }
    for place in [&*inside, folder.path()] {
        assert!(is_place(place));
        let found = TokenizerTraits::read(place).unwrap();
        assert_eq!((found.form, found.num_ids), (TokenizerForm::Tekken, 1740));
    }
}

#[test]
fn damaged_tekken_files_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mistral.safetensors");
    let whole: Value = json_fixture("text/tekken/tekken.json");
    let changed = |pointer: &str, value: Value| {
        let mut file = whole.clone();
        *file.pointer_mut(pointer).unwrap() = value;
        file.to_string()
    };
    for (text, expected) in [
        ("{}".to_owned(), "missing field"),
        (changed("/config/pattern", json!(".")), "another rule"),
        (
            changed("/config/default_vocab_size", json!(u32::MAX)),
            "makes no sense",
        ),
        (
            changed("/config/default_vocab_size", json!(3)),
            "makes no sense",
        ),
        (changed("/vocab/0/token_bytes", json!("?")), "Invalid"),
    ] {
        write_inside(&path, text.as_bytes());
        let found = refusal(&path, None);
        assert_has(&found, &[expected, "tekken_model"]);
    }
}
