//! Qwen's tokenizer as it ships with the app and as it is published, against `tests/fixtures/text/qwen`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ids, refusal, used_ids};
use crate::job::prompt::WeightedText;
use crate::testing::{assert_has, json_fixture, project};
use crate::tokens::{QWEN_CHAT, TextTokenizer, packed};

/// What pads: `<|endoftext|>`.
const PAD: i64 = 151_643;

fn shipped() -> PathBuf {
    project("assets/tokenizers/qwen")
}

/// Checks ids of plain texts and of texts in a user's mouth, cut at 512.
fn assert_ids(place: &Path, class: Option<&str>) {
    let tokenizer = TextTokenizer::open(place, class, QWEN_CHAT.length()).unwrap();
    assert_eq!(tokenizer.vocab_size(), 151_669);
    let facts: Value = json_fixture("text/qwen/facts.json");
    for row in facts["shipped"].as_array().unwrap() {
        let text = row["text"].as_str().unwrap();
        let whole = QWEN_CHAT.around(text);
        for (text, expected) in [(text, "ids"), (&whole, "chat_ids")] {
            let tokens = tokenizer.encode(text).unwrap();
            assert_eq!(used_ids(&tokens), ids(&row[expected]), "{text:?}");
            assert_eq!(tokens.ids.len(), 512);
            assert!(tokens.ids[tokens.num_tokens..].iter().all(|id| *id == PAD));
        }
        let found = tokenizer.count(&[WeightedText::plain(&*whole)]).unwrap();
        assert_eq!(found, row["all"], "{text:?}");
    }
}

#[test]
fn the_shipped_tokenizer_gives_the_ids_of_transformers_for_any_text() {
    assert_ids(&shipped(), None);
}

#[test]
fn published_files_give_the_same_ids() {
    let dir = tempfile::tempdir().unwrap();
    let [vocab, merges] = packed::read(&shipped()).unwrap();
    let pairs = merges.as_array().unwrap().iter();
    let lines = pairs.map(|pair| {
        let half = |at: usize| pair[at].as_str().unwrap();
        format!("{} {}\n", half(0), half(1))
    });
    let text = format!("#version: 0.2\n{}", lines.collect::<String>());
    fs::write(dir.path().join("merges.txt"), text).unwrap();
    fs::write(dir.path().join("vocab.json"), vocab.to_string()).unwrap();
    let config = "tokenizer_config.json";
    fs::copy(shipped().join(config), dir.path().join(config)).unwrap();
    assert_ids(dir.path(), Some("Qwen2TokenizerFast"));
}

#[test]
fn cut_notice_counts_only_tokens_of_the_prompt_itself() {
    let tokenizer = TextTokenizer::open(&shipped(), None, QWEN_CHAT.length()).unwrap();
    let notice = |words: usize| {
        let tokens = tokenizer.encode(&QWEN_CHAT.around(&"a ".repeat(words)));
        QWEN_CHAT.cut_notice(tokens.unwrap().num_cut, "prompt")
    };
    // Three ids stand before, five behind; the last blank is one.
    let fitting = 512 - 3 - 1;
    assert_eq!(notice(fitting), None);
    let told = notice(fitting + 2).unwrap();
    assert!(told.contains("reads 512 tokens, and the last 2 "), "{told}");
}

#[test]
fn merges_that_cannot_be_unpacked_are_refused_in_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("merges.txt.gz");
    let whole = fs::read(shipped().join("merges.txt.gz")).unwrap();
    for bytes in [&b"no"[..], &whole[..whole.len() / 2]] {
        fs::write(&path, bytes).unwrap();
        assert_has(&refusal(dir.path(), None), &["cannot be unpacked"]);
    }
}
