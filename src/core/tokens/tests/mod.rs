//! Cleaning and tokens against `tests/fixtures/wan/texts.json`, the places where tokenizers lie, and what broken ones
//! say.

mod clip;
mod counting;
mod gemma;
pub(super) mod layouts;
mod published;
mod qwen;
mod tekken;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::{SpieceModel, TextTokenizer, TokenIds, clean_wan_prompt, cut_notice};
use crate::job::prompt::WeightedText;
use crate::testing::{assert_has, fixture, json_fixture, project};

fn texts() -> Vec<Value> {
    json_fixture("wan/texts.json")
}

fn tokenizer(length: usize) -> TextTokenizer {
    let folder = fixture("wan/pipeline/tokenizer");
    TextTokenizer::open(&folder, Some("T5TokenizerFast"), length).unwrap()
}

fn ids(value: &Value) -> Vec<i64> {
    let ids = value.as_array().unwrap().iter();
    ids.map(|id| id.as_i64().unwrap()).collect()
}

fn assets() -> PathBuf {
    project("assets/little-world/tokenizer")
}

fn used_ids(tokens: &TokenIds) -> &[i64] {
    assert_eq!(tokens.mask().iter().sum::<i64>(), tokens.num_tokens as i64);
    &tokens.ids[..tokens.num_tokens]
}

/// The sentence with which a tokenizer is refused.
fn refusal(place: &Path, class: Option<&str>) -> String {
    let opened = TextTokenizer::open(place, class, 512);
    opened.map(|_| ()).unwrap_err().to_string()
}

/// `whole` with some bytes in a row flipped, at so many places.
pub(super) fn with_flips(whole: &[u8], places: usize) -> impl Iterator<Item = Vec<u8>> {
    let places = (0..whole.len()).step_by(whole.len() / places);
    places.map(|place| {
        let mut flipped = whole.to_vec();
        let bytes = flipped.iter_mut().skip(place).take(40);
        bytes.for_each(|byte| *byte ^= 0x5a);
        flipped
    })
}

/// A weight file with one tensor of bytes.
fn write_bytes(path: &Path, name: &str, bytes: &[u8], shape: &[usize]) {
    let view = TensorView::new(Dtype::U8, shape.to_vec(), bytes).unwrap();
    safetensors::serialize_to_file([(name, view)], None, path).unwrap();
}

#[test]
fn any_prompt_gives_the_ids_of_the_reference() {
    let tokenizer = tokenizer(512);
    for row in texts() {
        for (text, expected) in [("prompt", "ids"), ("clean", "clean_ids")] {
            let tokens = tokenizer.encode(row[text].as_str().unwrap()).unwrap();
            assert_eq!(used_ids(&tokens), ids(&row[expected]), "{}", row[text]);
            assert_eq!((tokens.ids.len(), tokens.mask().len()), (512, 512));
            assert!(tokens.ids[tokens.num_tokens..].iter().all(|id| *id == 0));
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
fn letters_of_several_are_spelled_out_as_the_reference_has_them() {
    let letters = "ĲĳŉǱǲǳǄǅǆǇǈǉǊǋǌﬀﬁﬂﬃﬄﬅﬆ\u{3000}Ａ｡";
    let expected = "IJij'nDZDzdzDŽDždžLJLjljNJNjnjfffiflffifflſtst A。";
    assert_eq!(clean_wan_prompt(letters), expected);
}

#[test]
fn a_long_text_is_cut_and_still_ends() {
    let tokens = tokenizer(8).encode(&"boat ".repeat(600)).unwrap();
    assert_eq!((tokens.ids.len(), tokens.ids[7]), (8, 1));
    let whole = tokenizer(4000).encode(&"boat ".repeat(600)).unwrap();
    assert_eq!(cut_notice("prompt", whole.num_cut, 4000), None);
    // The end stands behind what is left of the text.
    assert_eq!(tokens.num_cut, whole.num_tokens - 8);
    let notice = cut_notice("negative", tokens.num_cut, 8).unwrap();
    let expected = format!("the last {} are cut off", tokens.num_cut);
    assert!(notice.starts_with("the negative prompt"), "{notice}");
    assert!(notice.ends_with(&expected), "{notice}");
}

#[test]
fn invalid_tokenizer_json_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!refusal(dir.path(), Some("T5TokenizerFast")).is_empty());
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
            let text = refusal(dir.path(), Some(class));
            assert!(text.ends_with(&path.display().to_string()), "{text}");
        }
    }
}

#[test]
fn a_tokenizer_whose_parts_do_not_fit_together_is_refused_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let end = json!({"id": "</s>", "ids": [0], "tokens": ["</s>"]});
    let single = json!([{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<end>", "type_id": 0}}]);
    let file = json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": null, "normalizer": null, "decoder": null,
        "model": {"type": "WordLevel", "unk_token": "<pad>", "vocab": {"</s>": 0, "<pad>": 1, "fox": 2}},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {"</s>": end}},
    });
    fs::write(folder.path().join("tokenizer.json"), file.to_string()).unwrap();
    let opened = TextTokenizer::open(folder.path(), None, 8);
    let said = opened.and_then(|tokenizer| tokenizer.encode("fox"));
    let said = said.unwrap_err().to_string();
    assert!(said.contains("do not fit together"), "{said}");
}

#[test]
fn a_spiece_model_is_read_wherever_users_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spiece.model");
    fs::copy(assets().join("spiece.model"), &file).unwrap();
    let carrier = dir.path().join("umt5_xxl_fp16.safetensors");
    let bytes = fs::read(&file).unwrap();
    write_bytes(&carrier, "spiece_model", &bytes, &[bytes.len()]);
    let rows: Vec<Value> = json_fixture("text/spiece.json");
    for place in [dir.path(), &file, &carrier] {
        let tokenizer = TextTokenizer::open(place, Some("T5TokenizerFast"), 512).unwrap();
        assert_eq!(tokenizer.vocab_size(), 858);
        assert!(SpieceModel::find(place).unwrap().is_some());
        for row in &rows {
            let mut expected = ids(&row["ids"]);
            if expected.len() > 512 {
                expected.truncate(511);
                expected.push(1);
            }
            let tokens = tokenizer.encode(row["text"].as_str().unwrap()).unwrap();
            assert_eq!(used_ids(&tokens), expected, "{}", row["text"]);
            assert!(tokens.ids[expected.len()..].iter().all(|id| *id == 0));
        }
    }
}

#[test]
fn tokenizer_json_is_read_from_a_folder_or_as_a_single_file() {
    let folder = fixture("wan/pipeline/tokenizer");
    let text = "a red boat, 日本の猫";
    let ids = |place: &Path, class| {
        let tokenizer = TextTokenizer::open(place, class, 512).unwrap();
        used_ids(&tokenizer.encode(text).unwrap()).to_vec()
    };
    let expected = ids(&folder, Some("T5TokenizerFast"));
    let file = folder.join("tokenizer.json");
    assert_eq!(ids(&file, Some("T5TokenizerFast")), expected);
    // Its own config names the class.
    assert_eq!(ids(&folder, None), expected);
    assert_eq!(ids(&file, None), expected);
}

#[test]
fn a_tokenizer_file_that_is_no_plain_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["pipe", "zero"] {
        fs::create_dir(at(name)).unwrap();
    }
    let pipe = at("pipe/tokenizer.json");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    symlink("/dev/zero", at("zero/tokenizer.json")).unwrap();
    for name in ["pipe", "zero"] {
        let text = refusal(&at(name), None);
        assert!(text.starts_with("this is not a file: "), "{text}");
    }
}

#[test]
fn path_without_a_usable_tokenizer_returns_a_specific_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("umt5.safetensors");
    let open = |place: &Path| refusal(place, None);
    let none = "no tokenizer.json, vocab.json with merges.txt, or spiece.model";
    assert!(open(dir.path()).contains(none));
    assert!(open(&dir.path().join("nowhere")).contains("nowhere"));
    write_bytes(&path, "norm.weight", &[1, 2], &[2]);
    assert!(open(&path).contains("carries no tokenizer"));
    write_bytes(&path, "spiece_model", &[1, 2], &[2]);
    assert!(open(&path).contains("SentencePiece"));
    write_bytes(&path, "spiece_model", &[1, 2], &[1, 2]);
    assert!(open(&path).contains("list of bytes"));
    fs::write(&path, b"short").unwrap();
    assert!(open(&path).contains("umt5.safetensors"));
}

#[test]
fn a_tokenizer_with_two_million_merges_is_refused_before_it_is_built() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let file = |merge: &str, count: usize| {
        let merges = vec![merge; count].join(",");
        format!(r#"{{"model":{{"type":"BPE","vocab":{{"a":0,"b":1}},"merges":[{merges}]}}}}"#)
    };
    for (merge, count) in [(r#""a b""#, 1 << 20), (r#"["a","b"]"#, 2_000_000)] {
        fs::write(&path, file(merge, count)).unwrap();
        assert_has(&refusal(&path, None), &["at most"]);
    }
    fs::write(folder.path().join("vocab.json"), r#"{"a":0,"b":1}"#).unwrap();
    fs::write(folder.path().join("merges.txt"), "a b\n".repeat(1 << 20)).unwrap();
    fs::remove_file(&path).unwrap();
    assert_has(&refusal(folder.path(), None), &["merges, found"]);
}

#[test]
fn parts_are_split_by_themselves_and_their_ids_have_their_weights() {
    let folder = fixture("wan/pipeline/tokenizer");
    let spiece = project("assets/little-world/tokenizer/spiece.model");
    let qwen = project("assets/tokenizers/qwen");
    let parts = [("a red ", 1.0), ("boat", 1.5), (" at sea", 1.0)];
    let parts = parts.map(|(text, weight)| WeightedText {
        text: text.to_owned(),
        weight,
    });
    for (place, class, num_ends) in [
        (&folder, Some("T5TokenizerFast"), 1),
        (&spiece, None, 1),
        (&qwen, None, 0),
    ] {
        let open = |length| TextTokenizer::open(place, class, length).unwrap();
        let tokenizer = open(32);
        let own = |text: &str| {
            let ids = tokenizer.encode(text).unwrap();
            used_ids(&ids)[..ids.num_tokens - num_ends].to_vec()
        };
        let [first, second, third] = parts.each_ref().map(|part| own(&part.text));
        let weights = [
            vec![1.0; first.len()],
            vec![1.5; second.len()],
            vec![1.0; 32 - first.len() - second.len()],
        ];
        let tokens = tokenizer.encode_parts(&parts).unwrap();
        let ids = [first, second, third].concat();
        assert_eq!(used_ids(&tokens)[..ids.len()], ids);
        assert_eq!(tokens.num_tokens, ids.len() + num_ends);
        assert_eq!(tokens.weights, weights.concat());
        // Cut before the end token, which has no weight.
        let length = weights[0].len() + 1 + num_ends;
        let cut = open(length).encode_parts(&parts).unwrap();
        assert_eq!(cut.num_cut, tokens.num_tokens - length);
        assert_eq!(
            cut.ids[length - num_ends..],
            tokens.ids[ids.len()..tokens.num_tokens]
        );
        assert_eq!(
            cut.weights[..length - num_ends],
            tokens.weights[..length - num_ends]
        );
        assert!(
            cut.weights[length - num_ends..]
                .iter()
                .all(|weight| *weight == 1.0)
        );
        assert_eq!(tokenizer.count(&parts).unwrap(), tokens.num_tokens);
    }
}

#[test]
fn ids_of_clip_have_their_weights_between_its_special_tokens() {
    let tokenizer = TextTokenizer::open(&fixture("text/flux"), Some("CLIPTokenizer"), 16).unwrap();
    let parts = [("a ", 1.0), ("boat", 0.5)].map(|(text, weight)| WeightedText {
        text: text.to_owned(),
        weight,
    });
    let tokens = tokenizer.encode_parts(&parts).unwrap();
    assert_eq!(tokens.ids, tokenizer.encode("a boat").unwrap().ids);
    let weighted = tokens.weights.iter().filter(|weight| **weight == 0.5);
    assert_eq!(weighted.count(), tokens.num_tokens - 3);
    assert_eq!(tokens.weights[..2], [1.0, 1.0]);
    assert_eq!(tokens.weights[tokens.num_tokens - 1], 1.0);
}
