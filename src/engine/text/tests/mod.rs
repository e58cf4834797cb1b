//! Cleaning and tokens against `tests/fixtures/wan/texts.json`, the places where tokenizers and encoders lie, and
//! what broken ones say.

mod flux;
mod gguf;
mod llama;
pub(crate) mod published;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::{SpieceModel, TextTokenizer, Tokens, Umt5Config, Umt5Encoder, clean_wan_prompt};
use crate::hooks::NoHooks;
use crate::weights::Weights;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan")
}

fn texts() -> Vec<Value> {
    let text = fs::read(fixtures().join("texts.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn tokenizer(length: usize) -> TextTokenizer {
    let folder = fixtures().join("pipeline/tokenizer");
    TextTokenizer::open(&folder, Some("T5TokenizerFast"), length).unwrap()
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
    let whole = tokenizer(4000).encode(&"boat ".repeat(600)).unwrap();
    assert_eq!((whole.num_cut, whole.cut_notice("prompt")), (0, None));
    // The end stands behind what is left of the text.
    assert_eq!(tokens.num_cut as i64, whole.num_tokens - 8);
    let notice = tokens.cut_notice("negative").unwrap();
    let expected = format!("its last {} are left out", tokens.num_cut);
    assert!(
        notice.starts_with("the negative prompt") && notice.ends_with(&expected),
        "{notice}"
    );
}

#[test]
fn a_folder_without_a_sound_tokenizer_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let read = |class| TextTokenizer::open(dir.path(), Some(class), 512).map(|_| ());
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

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/little-world/tokenizer")
}

fn used_ids(tokens: &Tokens) -> Vec<i64> {
    let used = tokens.ids.narrow(1, 0, tokens.num_tokens);
    used.flatten(0, 1).try_into().unwrap()
}

#[test]
fn a_spiece_model_is_read_wherever_users_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spiece.model");
    fs::copy(assets().join("spiece.model"), &file).unwrap();
    let carrier = dir.path().join("umt5_xxl_fp16.safetensors");
    let bytes = Tensor::from_slice(&fs::read(&file).unwrap());
    Tensor::write_safetensors(&[("spiece_model", &bytes)], &carrier).unwrap();
    let rows = fs::read(fixtures().join("../text/spiece.json")).unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&rows).unwrap();
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
            assert_eq!(tokens.ids.size(), [1, 512]);
            assert_eq!(
                tokens.ids.sum(Kind::Int64).int64_value(&[]),
                expected.iter().sum::<i64>()
            );
            let mask = tokens.mask.sum(Kind::Int64).int64_value(&[]);
            assert_eq!(mask, expected.len() as i64);
        }
    }
}

#[test]
fn a_tokenizer_json_is_read_in_its_folder_and_by_itself() {
    let folder = fixtures().join("pipeline/tokenizer");
    let text = "a red boat, 日本の猫";
    let ids = |place: &Path, class| {
        let tokenizer = TextTokenizer::open(place, class, 512).unwrap();
        used_ids(&tokenizer.encode(text).unwrap())
    };
    let expected = ids(&folder, Some("T5TokenizerFast"));
    let file = folder.join("tokenizer.json");
    assert_eq!(ids(&file, Some("T5TokenizerFast")), expected);
    // Its own config names the class.
    assert_eq!(ids(&folder, None), expected);
    assert_eq!(ids(&file, None), expected);
}

#[test]
fn a_place_without_a_tokenizer_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("umt5.safetensors");
    let other = Tensor::from_slice(&[1_u8, 2]);
    let open = |place: &Path| {
        let opened = TextTokenizer::open(place, None, 512);
        opened.map(|_| ()).unwrap_err().to_string()
    };
    assert!(
        open(dir.path()).contains("no tokenizer.json, vocab.json with merges.txt, or spiece.model")
    );
    assert!(open(&dir.path().join("nowhere")).contains("nowhere"));
    Tensor::write_safetensors(&[("norm.weight", &other)], &path).unwrap();
    assert!(open(&path).contains("carries no tokenizer"));
    Tensor::write_safetensors(&[("spiece_model", &other)], &path).unwrap();
    assert!(open(&path).contains("SentencePiece"));
    Tensor::write_safetensors(&[("spiece_model", &other.view([1, 2]))], &path).unwrap();
    assert!(open(&path).contains("list of bytes"));
    fs::write(&path, b"short").unwrap();
    assert!(open(&path).contains("umt5.safetensors"));
}

/// The name that Wan's authors have for a name of `transformers`.
fn authors_name(key: &str) -> String {
    key.replace("shared", "token_embedding")
        .replace("encoder.final_layer_norm", "norm")
        .replace("encoder.block", "blocks")
        .replace("layer.0.layer_norm", "norm1")
        .replace("layer.1.layer_norm", "norm2")
        .replace(
            "layer.0.SelfAttention.relative_attention_bias",
            "pos_embedding.embedding",
        )
        .replace("layer.0.SelfAttention", "attn")
        .replace("layer.1.DenseReluDense.wi_0", "ffn.gate.0")
        .replace("layer.1.DenseReluDense.wi_1", "ffn.fc1")
        .replace("layer.1.DenseReluDense.wo", "ffn.fc2")
}

#[test]
fn a_text_encoder_is_read_in_the_names_of_its_authors_and_of_transformers() {
    let folder = fixtures().join("pipeline/text_encoder");
    let config = Umt5Config::read(&folder).unwrap();
    let all = Weights::read_all(&folder).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("umt5.safetensors");
    let tokens = tokenizer(16).encode("a red boat").unwrap();
    let embeds = |place: &Path| {
        let weights = Weights::open(place, Kind::Float, Device::Cpu).unwrap();
        let encoder = Umt5Encoder::new(&config, &weights).unwrap();
        assert_eq!(weights.finish(), Vec::<String>::new());
        encoder
            .forward(&tokens.ids, &tokens.mask, &NoHooks)
            .unwrap()
    };
    let expected = embeds(&folder);
    let plain = |key: &str| key.to_owned();
    let twin = |key: &str| key.replace("shared", "encoder.embed_tokens");
    let renamings: [&dyn Fn(&str) -> String; 3] = [&plain, &authors_name, &twin];
    for rename in renamings {
        let named = all.iter().map(|(key, tensor)| (rename(key), tensor));
        let mut named: Vec<(String, &Tensor)> = named.collect();
        let spiece = Tensor::from_slice(&[0_u8]);
        named.push(("spiece_model".to_owned(), &spiece));
        Tensor::write_safetensors(&named, &path).unwrap();
        assert_eq!(embeds(&path), expected);
    }
}
