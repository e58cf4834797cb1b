//! Cleaning and tokens against `tests/fixtures/wan/texts.json`, and what a broken tokenizer folder says.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{TextTokenizer, clean_wan_prompt};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan")
}

fn texts() -> Vec<Value> {
    let text = fs::read(fixtures().join("texts.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn tokenizer(length: usize) -> TextTokenizer {
    let folder = fixtures().join("pipeline/tokenizer");
    TextTokenizer::read(&folder, "T5TokenizerFast", length).unwrap()
}

fn ids(value: &Value) -> Vec<i64> {
    let ids = value.as_array().unwrap().iter();
    ids.map(|id| id.as_i64().unwrap()).collect()
}

#[test]
fn any_prompt_gives_the_ids_of_the_reference() {
    let tokenizer = tokenizer(512);
    for row in texts() {
        for (text, expected) in [("prompt", "ids"), ("clean", "clean_ids")] {
            let tokens = tokenizer.encode(row[text].as_str().unwrap()).unwrap();
            let found = tokens.ids.narrow(1, 0, tokens.num_tokens).flatten(0, 1);
            let found: Vec<i64> = found.try_into().unwrap();
            assert_eq!(found, ids(&row[expected]), "{}", row[text]);
            assert_eq!(tokens.ids.size(), [1, 512]);
            let mask: Vec<i64> = tokens.mask.flatten(0, 1).try_into().unwrap();
            assert_eq!(mask.iter().sum::<i64>(), tokens.num_tokens);
            let padding = tokens
                .ids
                .narrow(1, tokens.num_tokens, 512 - tokens.num_tokens);
            assert!(padding.numel() == 0 || padding.max().int64_value(&[]) == 0);
        }
    }
}

#[test]
fn any_prompt_is_cleaned_as_the_reference_cleans_it() {
    for row in texts() {
        let found = clean_wan_prompt(row["prompt"].as_str().unwrap());
        assert_eq!(found, row["clean"].as_str().unwrap(), "{}", row["prompt"]);
    }
}

#[test]
fn a_long_text_is_cut_and_still_ends() {
    let tokens = tokenizer(8).encode(&"boat ".repeat(600)).unwrap();
    let ids: Vec<i64> = tokens.ids.flatten(0, 1).try_into().unwrap();
    assert_eq!((ids.len(), ids[7]), (8, 1));
}

#[test]
fn a_folder_without_a_sound_tokenizer_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let read = |class| TextTokenizer::read(dir.path(), class, 512).map(|_| ());
    assert!(read("T5TokenizerFast").is_err());
    let path = dir.path().join("tokenizer.json");
    for text in [
        "",
        "7",
        "{}",
        "[1]",
        r#"{"model": {"type": "Unigram", "vocab": []}}"#,
        r#"{"version": "1.0", "added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "vocab": [["</s>", 0.0]]}}"#,
    ] {
        fs::write(&path, text).unwrap();
        for class in [
            "T5TokenizerFast",
            "PreTrainedTokenizerFast",
            "AutoTokenizer",
        ] {
            let text = read(class).unwrap_err().to_string();
            assert!(text.ends_with(&path.display().to_string()), "{text}");
        }
    }
}
