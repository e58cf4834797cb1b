//! Configs and schemas against files that `transformers` wrote, in `tests/fixtures`.

use std::fs;

use serde::Serialize;
use serde_json::{Value, json};

use crate::formats::weights::WeightSet;
use crate::networks::*;
use crate::testing::made_up::{Shapes, renamed, shapes_of};
use crate::testing::{fixture, json_fixture};

const CLIP_TEXT: &str = "text/flux/text_encoder.json";
const T5: &str = "text/flux/text_encoder_2.json";
const UMT5: &str = "wan/pipeline/text_encoder";
const LLAMA: &str = "text/llama/text_encoder.json";
const QWEN: &str = "text/qwen/qwen3.json";
const CLIP_VISION: &str = "vision/image_encoder";
const SIGLIP: &str = "vision/siglip/image_encoder.json";

fn json_of(name: &str) -> Value {
    json_fixture(name)
}

fn config_json(name: &str) -> Value {
    if fixture(name).is_dir() {
        json_of(&format!("{name}/config.json"))
    } else {
        json_of(name)
    }
}

fn config<T: NetworkConfig>(name: &str) -> T {
    let config: T = serde_json::from_value(config_json(name)).unwrap();
    config.check().unwrap();
    config
}

fn listed(shapes: &Value) -> Shapes {
    serde_json::from_value(shapes.clone()).unwrap()
}

fn in_folder(name: &str) -> Shapes {
    let weights = WeightSet::open(&fixture(name)).unwrap();
    let tensors = weights.tensors.into_iter();
    tensors.map(|(key, entry)| (key, entry.shape)).collect()
}

/// Checks that a schema names all tensors of a file but the spare ones, and no other.
fn assert_exact(schema: &[TensorSpec], file: &Shapes, is_spare: impl Fn(&str) -> bool) {
    let mut read = file.clone();
    read.retain(|key, _| !is_spare(key));
    assert_eq!(shapes_of(schema.to_vec()), read);
}

fn roles(schema: &[TensorSpec], name: &str) -> (TensorRole, bool) {
    let found = schema.iter().find(|tensor| tensor.name == name);
    let found = found.unwrap_or_else(|| panic!("no {name}"));
    (found.role, found.keeps_f32)
}

#[test]
fn the_schema_of_a_t5_is_its_file() {
    let file = listed(&json_of("text/flux/encoders.json")["shapes"]["text_encoder_2"]);
    let schema = config::<T5Config>(T5).schema(&T5Keys::default());
    assert_exact(&schema, &file, |key| key == "encoder.embed_tokens.weight");
    let attention = "encoder.block.0.layer.0.SelfAttention";
    for (name, role) in [
        ("shared.weight", TensorRole::Table),
        (&format!("{attention}.q.weight"), TensorRole::Matrix),
        (
            &format!("{attention}.relative_attention_bias.weight"),
            TensorRole::Fixed,
        ),
        ("encoder.final_layer_norm.weight", TensorRole::Fixed),
    ] {
        assert_eq!(roles(&schema, name), (role, false), "{name}");
    }
}

#[test]
fn the_schema_of_a_umt5_is_its_file_in_every_dialect() {
    let file = in_folder(UMT5);
    let config = T5Config::read_as(T5Kind::Umt5, &fixture(UMT5)).unwrap();
    let keys = T5Keys::of(&file.keys().map(String::as_str)).unwrap();
    assert_eq!(keys.kind, T5Kind::Umt5);
    assert_exact(&config.schema(&keys), &file, |_| false);
    for names in [T5Names::WanAuthors, T5Names::LlamaCpp] {
        let keys = T5Keys::in_names(names);
        let translated = renamed(&file, |key| keys.file_key(key));
        let keys = T5Keys::of(&translated.keys().map(String::as_str)).unwrap();
        assert_eq!((keys.names, keys.kind), (names, T5Kind::Umt5));
        assert_exact(&config.schema(&keys), &translated, |_| false);
    }
}

#[test]
fn the_schema_of_a_video_text_encoder_is_its_file() {
    let file = listed(&json_of("text/flux/encoders.json")["shapes"]["text_encoder"]);
    let keys = ClipTextKeys::detect::<ClipL>(&file.keys().map(String::as_str)).unwrap();
    let schema = config::<ClipTextConfig>(CLIP_TEXT).schema(&keys);
    let prefix = keys.prefix;
    assert_exact(&schema, &file, |_| false);
    for (role, keeps_f32, name) in [
        (
            TensorRole::Table,
            false,
            "embeddings.token_embedding.weight",
        ),
        (TensorRole::Matrix, false, "encoder.layers.1.mlp.fc2.weight"),
        (TensorRole::Fixed, false, "encoder.layers.1.mlp.fc2.bias"),
        (TensorRole::Fixed, true, "encoder.layers.1.layer_norm2.bias"),
        (TensorRole::Fixed, true, "final_layer_norm.weight"),
    ] {
        let found = roles(&schema, &format!("{prefix}{name}"));
        assert_eq!(found, (role, keeps_f32), "{name}");
    }
    let positions = format!("{prefix}embeddings.position_embedding.weight");
    assert_eq!(roles(&schema, &positions), (TensorRole::Fixed, false));
}

#[test]
fn the_schema_of_a_video_image_encoder_is_its_file() {
    let file = in_folder(CLIP_VISION);
    let prefix = ClipVisionConfig::prefix(&file.keys().map(String::as_str)).unwrap();
    let config = ClipVisionConfig::read(&fixture(CLIP_VISION)).unwrap();
    let schema = config.schema(prefix);
    assert_exact(&schema, &file, |key| key.ends_with("position_ids"));
    assert!(schema.iter().all(|tensor| tensor.keeps_f32));
    let patches = format!("{prefix}embeddings.patch_embedding.weight");
    assert_eq!(roles(&schema, &patches).0, TensorRole::Fixed);
}

#[test]
fn the_schema_of_a_siglip_is_its_file_without_the_pooling_head() {
    let file = listed(&json_of("vision/siglip/shapes.json"));
    let prefix = SiglipConfig::prefix(&file.keys().map(String::as_str)).unwrap();
    let schema = config::<SiglipConfig>(SIGLIP).schema(prefix);
    assert_exact(&schema, &file, |key| key.contains(".head."));
    assert!(schema.iter().all(|tensor| tensor.keeps_f32));
}

#[test]
fn the_schema_of_a_llama_is_its_file_without_the_last_two_layers() {
    let file = listed(&json_of("text/llama/facts.json")["shapes"]);
    let keys = LanguageKeys::of(&file.keys().map(String::as_str)).unwrap();
    let config = LanguageConfig {
        tap: LanguageTap::BeforeLast(2),
        ..config::<LanguageConfig>(LLAMA)
    };
    let schema = config.schema(&keys);
    let last = ["layers.2.", "layers.3.", "norm."];
    assert_exact(&schema, &file, |key| {
        last.iter().any(|last| key.starts_with(last))
    });
    for (name, role) in [
        ("embed_tokens.weight", TensorRole::Table),
        ("layers.1.self_attn.o_proj.weight", TensorRole::Matrix),
        ("layers.1.input_layernorm.weight", TensorRole::Fixed),
    ] {
        assert_eq!(roles(&schema, name), (role, false), "{name}");
    }
}

fn refusal<T: NetworkConfig>(config: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    fs::write(&path, config.to_string()).unwrap();
    let err = T::read(folder.path()).err().unwrap().to_string();
    err.replace(&path.display().to_string(), "config.json")
}

fn refuses_a_million_layers<T: NetworkConfig>(fixture: &str, key: &str) {
    let mut config = config_json(fixture);
    config[key] = json!(1 << 20);
    let expected = format!("expected a {key} between 1 and 1000, found 1048576: config.json");
    assert_eq!(refusal::<T>(&config), expected);
}

#[test]
fn a_config_with_a_million_layers_is_refused_in_one_sentence() {
    refuses_a_million_layers::<T5Config>(T5, "num_layers");
    refuses_a_million_layers::<T5Config>(UMT5, "num_layers");
    refuses_a_million_layers::<ClipTextConfig>(CLIP_TEXT, "num_hidden_layers");
    refuses_a_million_layers::<LanguageConfig>(LLAMA, "num_hidden_layers");
    refuses_a_million_layers::<LanguageConfig>(QWEN, "num_hidden_layers");
    refuses_a_million_layers::<ClipVisionConfig>(CLIP_VISION, "num_hidden_layers");
    refuses_a_million_layers::<SiglipConfig>(SIGLIP, "num_hidden_layers");
}

fn is_said_again<T: NetworkConfig + Serialize>(fixture: &str) {
    let said = config_json(fixture);
    let again = serde_json::to_value(config::<T>(fixture)).unwrap();
    for (key, value) in again.as_object().unwrap() {
        let expected = said.get(key).unwrap_or(&Value::Null);
        assert_eq!(value, expected, "{fixture} {key}");
    }
}

#[test]
fn a_typed_config_is_written_in_the_terms_it_is_read_in() {
    is_said_again::<T5Config>(T5);
    is_said_again::<T5Config>(UMT5);
    is_said_again::<ClipTextConfig>(CLIP_TEXT);
    is_said_again::<LanguageConfig>(LLAMA);
    is_said_again::<LanguageConfig>(QWEN);
    is_said_again::<ClipVisionConfig>(CLIP_VISION);
    is_said_again::<SiglipConfig>(SIGLIP);
}

#[test]
fn one_of_t5_and_umt5_is_not_taken_for_the_other() {
    let place = fixture(UMT5);
    let file = place.join("model.safetensors");
    for place in [&place, &file] {
        let err = T5Config::read_as(T5Kind::T5, place).err().unwrap();
        let expected = "expected the model_type t5, found umt5";
        assert!(err.to_string().starts_with(expected), "{err}");
    }
    // A config that does not say which it is speaks of the one that is wanted.
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_json(UMT5);
    config.as_object_mut().unwrap().remove("model_type");
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    for (kind, has_second) in [(T5Kind::T5, false), (T5Kind::Umt5, true)] {
        let config = T5Config::read_as(kind, folder.path()).unwrap();
        assert!(config.has_positions(0));
        assert_eq!(config.has_positions(1), has_second);
    }
}
