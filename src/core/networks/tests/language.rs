//! Language models: what a file is by its names, and that the published ones have all that is read and no more.

use serde_json::{Value, json};

use crate::formats::weights::WeightSet;
use crate::library::tensor_kind;
use crate::networks::*;
use crate::testing::made_up::{self, Shapes, write};
use crate::testing::{fixture, json_fixture};

fn facts() -> Value {
    json_fixture("text/qwen/facts.json")
}

fn shapes_of(config: &LanguageConfig, keys: &LanguageKeys) -> Shapes {
    made_up::shapes_of(config.schema(keys))
}

fn keys(prefix: &str, kind: LanguageKind) -> LanguageKeys {
    LanguageKeys {
        prefix: prefix.to_owned(),
        is_llama_cpp: false,
        kind,
    }
}

#[test]
fn qwen_schema_matches_the_tensors_written_by_transformers() {
    let facts = facts();
    for (model, file) in [("qwen3", "qwen3.json"), ("qwen2_5_vl", "qwen2_5_vl.json")] {
        let shapes: Shapes = serde_json::from_value(facts["shapes"][model].clone()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(
            fixture("text/qwen").join(file),
            dir.path().join("config.json"),
        )
        .unwrap();
        let config = LanguageConfig::read(dir.path()).unwrap();
        assert_eq!(shapes_of(&config, &LanguageKeys::default()), shapes);
        // A hidden state before the last needs neither the last layer nor the norm.
        let tapped = LanguageConfig {
            tap: LanguageTap::BeforeLast(1),
            ..config
        };
        let read = shapes_of(&tapped, &LanguageKeys::default());
        let expected = shapes
            .into_iter()
            .filter(|(name, _)| !name.starts_with("layers.2.") && name != "norm.weight");
        assert_eq!(read, expected.collect::<Shapes>());
    }
}

#[test]
fn published_qwen3_single_file_config_is_read_from_its_header() {
    let dir = tempfile::tempdir().unwrap();
    let published = LanguageConfig::qwen3_4b(LanguageTap::Last);
    let keys = keys("model.", LanguageKind::Qwen3);
    let shapes = shapes_of(&published, &keys);
    assert_eq!(shapes.len(), 398);
    let place = dir.path().join("qwen_3_4b.safetensors");
    write(&place, &shapes, "BF16");
    let weights = WeightSet::open(&place).unwrap();
    assert_eq!(LanguageKeys::of(&weights.names()), Some(keys));
    let found = LanguageConfig::read(&place).unwrap();
    found.check_weights(&weights).unwrap();
    let said = |config: &LanguageConfig| serde_json::to_value(config).unwrap();
    assert_eq!(said(&found), said(&published));
    let kind = tensor_kind::of_tensors(&weights);
    assert_eq!((kind.family, kind.role), ("qwen", "text_encoder"));
    assert_eq!(kind.text, "a Qwen 3 text encoder");
}

#[test]
fn each_language_model_is_known_by_its_tensors_in_both_dialects() {
    let dir = tempfile::tempdir().unwrap();
    let small = |model_type: &str| LanguageConfig {
        model_type: model_type.to_owned(),
        vocab_size: 320,
        hidden_size: 64,
        intermediate_size: 96,
        num_hidden_layers: 2,
        num_attention_heads: 1,
        num_key_value_heads: Some(1),
        ..LanguageConfig::qwen3_4b(LanguageTap::Last)
    };
    for (model_type, kind, expected) in [
        ("llama", LanguageKind::Llama, "a Llama text encoder"),
        ("qwen2", LanguageKind::Qwen2, "a Qwen 2.5 text encoder"),
        ("qwen3", LanguageKind::Qwen3, "a Qwen 3 text encoder"),
    ] {
        for is_llama_cpp in [false, true] {
            let keys = LanguageKeys {
                is_llama_cpp,
                ..keys("", kind)
            };
            let place = dir.path().join("text.safetensors");
            write(&place, &shapes_of(&small(model_type), &keys), "BF16");
            let weights = WeightSet::open(&place).unwrap();
            assert_eq!(tensor_kind::of_tensors(&weights).text, expected);
            assert_eq!(LanguageKeys::of(&weights.names()), Some(keys));
            assert_eq!(LanguageConfig::read(&place).unwrap().kind(), kind);
        }
    }
    // Gemma has norms of queries and keys, too.
    let mut shapes = shapes_of(&small("qwen3"), &keys("model.", LanguageKind::Qwen3));
    let norm = "model.layers.0.pre_feedforward_layernorm.weight";
    shapes.insert(norm.to_owned(), vec![64]);
    let place = dir.path().join("gemma.safetensors");
    write(&place, &shapes, "BF16");
    let found = tensor_kind::of_tensors(&WeightSet::open(&place).unwrap());
    let found = (found.family, &found.text[..]);
    assert_eq!(found, ("gemma", "a Gemma text encoder"));
}

#[test]
fn configs_of_each_age_of_qwen_2_5_vl_give_the_same_text_part() {
    let text = json!({
        "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "hidden_act": "silu", "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
    });
    let with = |more: Value| {
        let mut config = text.clone();
        let object = config.as_object_mut().unwrap();
        object.extend(more.as_object().unwrap().clone());
        config
    };
    let flat = with(json!({
        "model_type": "qwen2_5_vl", "vision_config": {"hidden_size": 1280},
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    }));
    let inner = with(json!({
        "model_type": "qwen2_5_vl_text", "rope_scaling": {"rope_type": "default", "type": "default"},
    }));
    let nested = json!({"model_type": "qwen2_5_vl", "hidden_size": 1, "text_config": inner});
    for config in [flat, nested] {
        assert!(LanguageConfig::is_described_by(&config));
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let usage = LanguageUse {
            kind: LanguageKind::Qwen2,
            tap: LanguageTap::Last,
        };
        let read = usage.read(dir.path()).unwrap();
        assert_eq!((read.head_dim(), read.hidden_size), (128, 3584));
        // The published file has 28 layers of 12 tensors, a table and a norm.
        assert_eq!(read.schema(&LanguageKeys::default()).len(), 28 * 12 + 2);
    }
}
