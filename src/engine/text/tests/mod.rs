//! Text encoders under the names that files have. What concerns token ids alone is tested where they are made, in `core`.

mod flux;
mod gemma;
mod gguf;
mod llama;
#[path = "../../../core/tokens/tests/layouts.rs"]
pub(crate) mod published;
mod qwen;
mod sdxl;
mod weights;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safelight_core::networks::{
    ClipTextConfig, ClipTextKeys, LanguageConfig, LanguageKeys, LanguageTap, T5Config, T5Keys,
    T5Kind, TensorSpec,
};
use safelight_core::tokens::TextTokenizer;
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::{ClipTextEncoder, LanguageEncoder, T5Encoder, TokenBatch};
use crate::hooks::NoHooks;
use crate::weights::Weights;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan")
}

fn tokenizer(length: usize) -> TextTokenizer {
    let folder = fixtures().join("pipeline/tokenizer");
    TextTokenizer::open(&folder, Some("T5TokenizerFast"), length).unwrap()
}

fn ids(value: &Value) -> Vec<i64> {
    let ids = value.as_array().unwrap().iter();
    ids.map(|id| id.as_i64().unwrap()).collect()
}

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/little-world/tokenizer")
}

fn used_ids(tokens: &TokenBatch) -> Vec<i64> {
    let used = tokens.ids.narrow(1, 0, tokens.num_tokens);
    used.flatten(0, 1).try_into().unwrap()
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
    let config = T5Config::read_as(T5Kind::Umt5, &folder).unwrap();
    let all = Weights::read_all(&folder).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("umt5.safetensors");
    let tokens = TokenBatch::encode("a red boat", &tokenizer(16)).unwrap();
    let embeds = |place: &Path| {
        let weights = Weights::open(place, Kind::Float, Device::Cpu).unwrap();
        let encoder = T5Encoder::new(&config, &weights).unwrap();
        assert_eq!(weights.finish(), Vec::<String>::new());
        encoder
            .forward(&tokens.ids, Some(&tokens.mask), &NoHooks)
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

/// Checks that what was asked for is what a schema says.
#[track_caller]
pub(crate) fn assert_keys_read(weights: &Weights, schema: Vec<TensorSpec>) {
    let size = |size: u64| i64::try_from(size).unwrap();
    let schema = schema.into_iter().map(|tensor| {
        let shape: Vec<i64> = tensor.shape.into_iter().map(size).collect();
        (tensor.name, shape)
    });
    let expected: BTreeMap<String, Vec<i64>> = schema.collect();
    let found: BTreeMap<String, Vec<i64>> = weights.outlined().into_iter().collect();
    assert_eq!(found, expected);
}

#[test]
fn text_encoders_request_exactly_the_tensors_of_their_schema() {
    let json = |name: &str| published::json_of(&published::fixtures().join(name));
    for kind in [T5Kind::T5, T5Kind::Umt5] {
        let mut config: T5Config = serde_json::from_value(json("text_encoder_2.json")).unwrap();
        config.model_type = Some(kind);
        let weights = Weights::outline(Kind::Float);
        T5Encoder::new(&config, &weights).unwrap();
        assert_keys_read(&weights, config.schema(&T5Keys::default()));
    }
    let config: ClipTextConfig = serde_json::from_value(json("text_encoder.json")).unwrap();
    let weights = Weights::outline(Kind::Float);
    ClipTextEncoder::new(&config, &weights).unwrap();
    assert_keys_read(&weights, config.schema(&ClipTextKeys::default()));
    let config = json("../llama/text_encoder.json");
    let mut config: LanguageConfig = serde_json::from_value(config).unwrap();
    for model_type in ["llama", "qwen2", "qwen3"] {
        config.model_type = model_type.to_owned();
        for tap in [
            LanguageTap::Last,
            LanguageTap::BeforeLast(2),
            LanguageTap::States(&[1, 3]),
        ] {
            config.tap = tap;
            let weights = Weights::outline(Kind::Float);
            LanguageEncoder::new(&config, &weights).unwrap();
            assert_keys_read(&weights, config.schema(&LanguageKeys::default()));
        }
    }
}
