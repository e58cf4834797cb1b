//! CLIP's and T5's tokenizers in the layouts in which they are published, against `tests/fixtures/text/flux`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::layouts::{fixtures, json_of, write, write_spiece, write_t5_json};
use super::{ids, refusal, used_ids, with_flips};
use crate::testing::{assert_has, table};
use crate::tokens::TextTokenizer;

fn tokens() -> Value {
    json_of(&fixtures().join("tokens.json"))
}

/// A folder of CLIP's tokenizer with these files beside it.
fn clip_folder(beside: &Value) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["vocab.json", "merges.txt"] {
        fs::copy(fixtures().join(name), dir.path().join(name)).unwrap();
    }
    for (name, value) in beside.as_object().unwrap() {
        write(&dir.path().join(name), value);
    }
    dir
}

/// The same tokenizer in a `tokenizer.json` that says little of what the class does.
fn video_json(folder: &Path) {
    let merges = fs::read_to_string(folder.join("merges.txt")).unwrap();
    let merges: Vec<&str> = merges.lines().skip(1).collect();
    let vocab = json_of(&folder.join("vocab.json"));
    let model = json!({"type": "BPE", "vocab": vocab, "merges": merges});
    let value = json!({"version": "1.0", "added_tokens": [], "model": model});
    write(&folder.join("tokenizer.json"), &value);
    fs::remove_file(folder.join("vocab.json")).unwrap();
    fs::remove_file(folder.join("merges.txt")).unwrap();
}

fn check(tokenizer: &TextTokenizer, text: &str, expected: &[i64], length: usize, pad: i64) {
    let tokens = tokenizer.encode(text).unwrap();
    assert_eq!(used_ids(&tokens), expected, "{text:?}");
    assert_eq!(tokens.ids.len(), length);
    assert!(tokens.ids[expected.len()..].iter().all(|id| *id == pad));
}

#[test]
fn video_gives_the_ids_of_transformers_in_every_layout() {
    let tokens = tokens();
    for (layout, beside) in tokens["clip_files"].as_object().unwrap() {
        let folder = clip_folder(beside);
        let end = if layout == "legacy" { " <cat>" } else { "" };
        let open = |class| TextTokenizer::open(folder.path(), class, 77).unwrap();
        let mut tokenizers = vec![open(None), open(Some("CLIPTokenizer"))];
        video_json(folder.path());
        tokenizers.push(open(Some("CLIPTokenizerFast")));
        for tokenizer in &tokenizers {
            assert_eq!(tokenizer.vocab_size(), 814 + i64::from(layout == "legacy"));
            for row in tokens["rows"].as_array().unwrap() {
                let expected = row.get(format!("clip_{layout}"));
                let expected = ids(expected.unwrap_or_else(|| &row["clip_plain"]));
                let text = format!("{}{end}", row["text"].as_str().unwrap());
                check(tokenizer, &text, &expected, 77, 813);
            }
        }
    }
}

#[test]
fn a_t5_gives_the_ids_of_transformers_from_either_of_its_files() {
    let tokens = tokens();
    let pieces = tokens["t5_pieces"].as_array().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let spiece = dir.path().join("spiece.model");
    let json = dir.path().join("tokenizer.json");
    let config = dir.path().join("tokenizer_config.json");
    write_spiece(&spiece, pieces);
    let class = Some("T5TokenizerFast");
    let open = |place: &Path, class| TextTokenizer::open(place, class, 512).unwrap();
    let mut tokenizers = vec![open(&spiece, class), open(dir.path(), None)];
    write(&config, &tokens["t5_config"]);
    tokenizers.push(open(dir.path(), class));
    write_t5_json(&json, pieces);
    tokenizers.extend([open(&json, None), open(dir.path(), class)]);
    let short = TextTokenizer::open(dir.path(), class, 256).unwrap();
    write(&config, &tokens["t5_listed_config"]);
    tokenizers.push(open(dir.path(), class));
    fs::remove_file(&json).unwrap();
    tokenizers.push(open(dir.path(), class));
    for row in tokens["rows"].as_array().unwrap() {
        let text = row["text"].as_str().unwrap();
        let mut expected = ids(&row["t5"]);
        for tokenizer in &tokenizers {
            assert_eq!(tokenizer.vocab_size(), 294);
            check(tokenizer, text, &expected, 512, 0);
        }
        if expected.len() > 256 {
            expected.truncate(255);
            expected.push(1);
        }
        check(&short, text, &expected, 256, 0);
    }
}

#[test]
fn a_damaged_t5_is_refused_or_encodes_without_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spiece.model");
    let tokens = tokens();
    write_spiece(&path, tokens["t5_pieces"].as_array().unwrap());
    let whole = fs::read(&path).unwrap();
    let text = "Zürich, 東京 e\u{301} 🐉! ＬＯＵＤ";
    let try_bytes = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        if let Ok(tokenizer) = TextTokenizer::open(&path, None, 32) {
            assert_eq!(tokenizer.encode(text).unwrap().ids.len(), 32);
        }
    };
    for place in (0..whole.len()).step_by(whole.len() / 24) {
        try_bytes(&whole[..place]);
    }
    with_flips(&whole, 24).for_each(|flipped| try_bytes(&flipped));
}

#[test]
fn pieces_too_long_for_the_library_are_refused_in_either_file() {
    let tokens = tokens();
    let mut pieces = tokens["t5_pieces"].as_array().unwrap().clone();
    pieces.push(json!(["a".repeat(5_000_000), -3.0, 1]));
    let dir = tempfile::tempdir().unwrap();
    for (name, write) in [
        ("spiece.model", write_spiece as fn(&Path, &[Value])),
        ("tokenizer.json", write_t5_json),
    ] {
        let path = dir.path().join(name);
        write(&path, &pieces);
        let text = refusal(&path, Some("T5TokenizerFast"));
        assert!(text.contains("found one of 5000000"), "{text}");
    }
}

#[test]
fn invalid_clip_tokenizer_files_are_refused_with_a_reason() {
    let says = |name: &str, text: &str| {
        let folder = clip_folder(&json!({}));
        fs::write(folder.path().join(name), text).unwrap();
        refusal(folder.path(), Some("CLIPTokenizer"))
    };
    for (row, expected) in table(
        r#"vocab.json {} -> no token '<|startoftext|>'
         vocab.json [ -> vocab.json
         merges.txt nowhere inside -> not a tokenizer
         tokenizer_config.json 7 -> tokenizer_config.json
         tokenizer_config.json {"eos_token": 7} -> eos_token
         tokenizer_config.json {"added_tokens_decoder": {"x": "<cat>"}} -> its token x
         added_tokens.json {"<cat>": "x"} -> <cat>"#,
    ) {
        let (name, text) = row.split_once(' ').unwrap();
        assert_has(&says(name, text), &[expected]);
    }
    assert_has(&says("merges.txt", "#version: 0.2\na b c\n"), &["line 2"]);
    let folder =
        clip_folder(&json!({"tokenizer_config.json": {"tokenizer_class": "BartTokenizer"}}));
    let open = |class, length| TextTokenizer::open(folder.path(), class, length).map(|_| ());
    assert!(open(None, 77).unwrap_err().to_string().contains("Bart"));
    assert!(open(Some("CLIPTokenizer"), 1).is_err());
    assert!(open(Some("CLIPTokenizer"), 2).is_ok());
}
