//! Encoders and tokenizers in GGUF files against the same in their other forms.

use std::fs;
use std::path::PathBuf;

use safelight_core::networks::{T5Config, T5Keys, T5Kind, T5Names};
use safelight_core::tokens::spiece::ProtoModel;
use safelight_core::tokens::{SpieceModel, TextTokenizer};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::{assets, fixtures, ids, published, used_ids};
use crate::hooks::NoHooks;
use crate::text::{T5Encoder, TokenBatch};
use crate::weights::Weights;
use crate::weights::tests::made_up_gguf::{GgufFile, both_forms};

/// What a converter writes of a model, with a vocabulary filled up to `rows`.
fn with_tokenizer(file: GgufFile, model: &ProtoModel, rows: usize) -> GgufFile {
    let texts = model.pieces.iter().map(|piece| piece.text.clone());
    let mut texts: Vec<Vec<u8>> = texts.collect();
    let mut scores: Vec<f32> = model.pieces.iter().map(|piece| piece.score).collect();
    // The kinds have the numbers of the proto, which begin with 1.
    let kinds = model.pieces.iter().map(|piece| piece.kind as i32 + 1);
    let mut kinds: Vec<i32> = kinds.collect();
    for id in texts.len()..rows {
        texts.push(format!("[PAD{id}]").into_bytes());
        scores.push(-1000.0);
        kinds.push(5);
    }
    let spec = &model.normalizer;
    file.text("tokenizer.ggml.model", "t5")
        .texts("tokenizer.ggml.tokens", &texts)
        .floats("tokenizer.ggml.scores", &scores)
        .integers("tokenizer.ggml.token_type", &kinds)
        .flag("tokenizer.ggml.add_space_prefix", spec.add_dummy_prefix)
        .flag(
            "tokenizer.ggml.remove_extra_whitespaces",
            spec.remove_extra_whitespaces,
        )
        .bytes(
            "tokenizer.ggml.precompiled_charsmap",
            &spec.precompiled_charsmap,
        )
        .number("tokenizer.ggml.eos_token_id", 1)
        .number("tokenizer.ggml.padding_token_id", 0)
}

fn umt5_model() -> ProtoModel {
    ProtoModel::parse(&fs::read(assets().join("spiece.model")).unwrap()).unwrap()
}

fn written(file: &GgufFile) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("encoder-Q8_0.gguf");
    file.write(&path);
    (dir, path)
}

#[test]
fn a_vocabulary_in_metadata_gives_the_ids_of_the_model_that_it_is_from() {
    let model = umt5_model();
    let rows = fs::read(fixtures().join("../text/spiece.json")).unwrap();
    let rows: Vec<Value> = serde_json::from_slice(&rows).unwrap();
    for filled in [0, 1216] {
        let (_dir, path) = written(&with_tokenizer(GgufFile::default(), &model, filled));
        let spiece = SpieceModel::find(&path).unwrap().unwrap();
        let tokenizer = TextTokenizer::open(&path, None, 512).unwrap();
        assert_eq!(tokenizer.vocab_size(), 858);
        for row in &rows {
            let text = row["text"].as_str().unwrap();
            assert_eq!(spiece.encode(text), ids(&row["ids"]), "{text}");
        }
    }
}

#[test]
fn a_vocabulary_of_a_t5_is_read_as_its_spiece_model_is() {
    let kept = published::json_of(&published::fixtures().join("tokens.json"));
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("spiece.model");
    published::write_spiece(&place, kept["t5_pieces"].as_array().unwrap());
    let model = ProtoModel::parse(&fs::read(&place).unwrap()).unwrap();
    let (_dir, path) = written(&with_tokenizer(GgufFile::default(), &model, 500));
    let tokenizer = TextTokenizer::open(&path, None, 512).unwrap();
    for row in kept["rows"].as_array().unwrap() {
        let tokens = TokenBatch::encode(row["text"].as_str().unwrap(), &tokenizer).unwrap();
        assert_eq!(used_ids(&tokens), ids(&row["t5"]), "{}", row["text"]);
    }
}

#[test]
fn a_vocabulary_that_makes_no_sense_is_refused_in_one_sentence() {
    let base = || {
        let tokens = [b"<unk>".to_vec(), b"a".to_vec()];
        let file = GgufFile::default().text("tokenizer.ggml.model", "t5");
        file.texts("tokenizer.ggml.tokens", &tokens)
    };
    let bare = |model: &str| GgufFile::default().text("tokenizer.ggml.model", model);
    let scored = || base().floats("tokenizer.ggml.scores", &[0.0, -1.0]);
    let of_kinds = |kinds: [i32; 2]| scored().integers("tokenizer.ggml.token_type", &kinds);
    let damaged = of_kinds([2, 1])
        .number("tokenizer.ggml.eos_token_id", 4_000_000_000)
        .bytes("tokenizer.ggml.precompiled_charsmap", &[1]);
    let one_score = base().floats("tokenizer.ggml.scores", &[0.0]);
    for (file, expected) in [
        (GgufFile::default(), "no tokenizer"),
        (bare("llama"), "no tokenizer"),
        (bare("t5"), "no tokens with scores"),
        (base(), "no tokens with scores"),
        (one_score, "2 tokens and 1"),
        (of_kinds([2, 9]), "kind 9"),
        (of_kinds([2, 1]), "no piece '</s>'"),
        (damaged, "damaged"),
    ] {
        let (_dir, path) = written(&file);
        let err = TextTokenizer::open(&path, None, 16).map(|_| ());
        let text = err.unwrap_err().to_string();
        assert!(text.contains(expected), "expected {expected}: {text}");
    }
}

#[test]
fn kinds_that_are_not_written_are_guessed() {
    let texts = ["<pad>", "</s>", "<unk>", "▁", "a"].map(|text| text.as_bytes().to_vec());
    let file = GgufFile::default()
        .text("tokenizer.ggml.model", "t5")
        .texts("tokenizer.ggml.tokens", &texts)
        .floats("tokenizer.ggml.scores", &[0.0, 0.0, 0.0, -2.0, -1.0])
        .number("tokenizer.ggml.eos_token_id", 1)
        .number("tokenizer.ggml.padding_token_id", 0);
    let (_dir, path) = written(&file);
    let spiece = SpieceModel::find(&path).unwrap().unwrap();
    assert_eq!(spiece.encode("a xyz a"), [3, 4, 3, 2, 3, 4, 1]);
}

#[test]
fn gguf_t5_and_umt5_match_their_dequantised_weights() {
    let umt5 = Weights::read_all(&assets().join("../text_encoder")).unwrap();
    let t5 = super::flux::weights_of("text_encoder_2");
    let keys = T5Keys::in_names(T5Names::LlamaCpp);
    let tokens = TokenBatch::encode("a red boat", &super::tokenizer(16)).unwrap();
    let ids = Tensor::from_slice(&[5_i64, 9, 200, 3, 1]).view([1, 5]);
    for (kind, all, ids, mask) in [
        (T5Kind::Umt5, umt5, &tokens.ids, Some(&tokens.mask)),
        (T5Kind::T5, t5, &ids, None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let places = both_forms(dir.path(), &all, |name| keys.file_key(name));
        let [found, expected] = places.map(|place| {
            let config = T5Config::read_as(kind, &place).unwrap();
            let weights = Weights::open(&place, Kind::Float, Device::Cpu).unwrap();
            let encoder = T5Encoder::new(&config, &weights).unwrap();
            assert_eq!(weights.finish(), [""; 0]);
            encoder.forward(ids, mask, &NoHooks).unwrap()
        });
        assert_eq!(found, expected, "{kind:?}");
    }
}
