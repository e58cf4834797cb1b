//! Qwen 3 and 2.5 against `tests/fixtures/text/qwen`, and the forms in which they lie.

use std::fs;
use std::path::Path;

use safelight_core::networks::{LanguageConfig, LanguageKind, LanguageTap, LanguageUse};
use safelight_core::tokens::{QWEN_CHAT, TextTokenizer};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::llama::gguf::{gguf_name, with_pairs};
use super::{ids, used_ids};
use crate::closeness::assert_close;
use crate::hooks::NoHooks;
use crate::text::{LanguageEncoder, TokenBatch};
use crate::weights::tests::fixtures::{
    self, behind, fixture, json_of, open, tensors_of, write_folder,
};
use crate::weights::tests::made_up;
use crate::weights::tests::made_up_gguf::GgufFile;

/// As an image model reads it: `hidden_states[-2]`.
const BEFORE_LAST: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen3,
    tap: LanguageTap::BeforeLast(1),
};

/// Of embeddings; diffusers itself is up to 7.7e-6 from a record of a Llama's where roundings differ.
const LIMIT: f64 = 1e-5;

fn facts() -> Value {
    json_of(&fixture("text/qwen/facts.json"))
}

fn recorded(name: &str) -> Tensor {
    fixtures::recorded("text/qwen/recorded.safetensors", name)
}

fn weights(model: &str) -> Vec<(String, Tensor)> {
    tensors_of(&facts()["shapes"][model], &format!("{model}."))
}

fn config(model: &str) -> Value {
    json_of(&fixture("text/qwen").join(format!("{model}.json")))
}

/// The folder of a model of the fixtures.
fn folder(model: &str) -> TempDir {
    write_folder(&config(model), &weights(model))
}

fn encoder(usage: LanguageUse, place: &Path) -> LanguageEncoder {
    let config = usage.read(place).unwrap();
    let weights = open(place, Kind::Float);
    let encoder = LanguageEncoder::new(&config, &weights).unwrap();
    let unexpected = LanguageEncoder::unexpected_keys(&weights);
    assert_eq!(unexpected, [""; 0]);
    encoder
}

fn some_ids() -> (Tensor, Tensor) {
    let ids = Tensor::from_slice(&[5_i64, 9, 63, 0, 17, 5, 30, 2, 2]).unsqueeze(0);
    let mask = Tensor::from_slice(&[1_i64, 1, 1, 1, 1, 1, 1, 0, 0]).unsqueeze(0);
    (ids, mask)
}

/// Of the ids that are not padding.
fn some_states(usage: LanguageUse, place: &Path) -> Tensor {
    let (ids, mask) = some_ids();
    let states = encoder(usage, place).forward(&ids, &mask, &NoHooks);
    states.unwrap().narrow(1, 0, 7)
}

#[test]
fn prompts_give_the_embeddings_that_the_reference_pipeline_reads() {
    let folder = folder("qwen3");
    let encoder = encoder(BEFORE_LAST, folder.path());
    let file = fixture("text/qwen/tokenizer.json");
    let tokenizer = TextTokenizer::open(&file, Some("Qwen2Tokenizer"), QWEN_CHAT.length()).unwrap();
    let facts = facts();
    let rows = ids(&facts["kept_rows"]);
    for (name, prompt) in facts["prompts"].as_object().unwrap() {
        let text = QWEN_CHAT.around(prompt.as_str().unwrap());
        let padded = TokenBatch::encode(&text, &tokenizer).unwrap();
        assert_eq!(padded.ids.size(), [1, 512]);
        let tokens = padded.unpadded();
        assert_eq!(tokens.num_tokens, facts["num_tokens"][name], "{name}");
        let read = |tokens: &TokenBatch| {
            let states = encoder.forward(&tokens.ids, &tokens.mask, &NoHooks);
            states.unwrap().narrow(1, 0, padded.num_tokens)
        };
        let states = read(&tokens);
        let rows = rows.iter().map(|row| row.rem_euclid(tokens.num_tokens));
        let rows = Tensor::from_slice(&rows.collect::<Vec<i64>>());
        let expected = recorded(&format!("{name}.prompt_embeds"));
        assert_close(name, &states.index_select(1, &rows), &expected, LIMIT);
        // Padding behind changes nothing.
        assert_close(name, &states, &read(&padded), LIMIT);
    }
}

#[test]
fn every_qwen_layer_matches_transformers() {
    for (model, kind) in [
        ("qwen3", LanguageKind::Qwen3),
        ("qwen2_5_vl", LanguageKind::Qwen2),
        ("qwen3_vl", LanguageKind::Qwen3),
    ] {
        let folder = folder(model);
        let expected = recorded(&format!("{model}.hidden_states"));
        let of = |tap| some_states(LanguageUse { kind, tap }, folder.path());
        let last = of(LanguageTap::Last);
        assert_close(model, &last, &expected.narrow(0, 3, 1), LIMIT);
        let before = of(LanguageTap::BeforeLast(1));
        assert_close(model, &before, &expected.narrow(0, 2, 1), LIMIT);
        let several = of(LanguageTap::States(&[0, 1, 2]));
        let side_by_side = Tensor::cat(&[0, 1, 2].map(|n| expected.narrow(0, n, 1)), -1);
        assert_close(model, &several, &side_by_side, LIMIT);
    }
}

#[test]
fn qwen_config_is_inferred_from_shapes_under_every_key_prefix() {
    let home = folder("qwen3");
    let expected = some_states(BEFORE_LAST, home.path());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("qwen_3_4b.safetensors");
    for prefix in ["", "model.", "text_encoders.qwen3_4b.transformer.model."] {
        let mut named = behind(prefix, weights("qwen3"));
        named.push(("lm_head.weight".to_owned(), Tensor::from(1.0)));
        Tensor::write_safetensors(&named, &file).unwrap();
        assert_eq!(some_states(BEFORE_LAST, &file), expected, "{prefix}");
    }
    // A VL model's heads of 10 and its base of positions are said by its norms and by what looks at images.
    let seeing = folder("qwen3_vl");
    let expected = some_states(BEFORE_LAST, seeing.path());
    let mut named = behind("model.", weights("qwen3_vl"));
    named.push(("model.visual.merger.x".to_owned(), Tensor::from(1.0)));
    Tensor::write_safetensors(&named, &file).unwrap();
    assert_eq!(some_states(BEFORE_LAST, &file), expected);
}

#[test]
fn fp8_qwen_weights_match_their_dequantised_values() {
    let home = folder("qwen3");
    let dir = tempfile::tempdir().unwrap();
    for (scale, name) in [(1.0, "fp8"), (0.375, "fp8_scaled")] {
        let narrow = dir.path().join(format!("{name}.safetensors"));
        let wide = home.path().join("model.safetensors");
        let mut stored = Vec::new();
        let mut exact = Vec::new();
        if scale < 1.0 {
            let marker = Tensor::zeros([2], (Kind::Float8e4m3fn, Device::Cpu));
            stored.push(("scaled_fp8".to_owned(), marker));
        }
        for (key, xs) in weights("qwen3") {
            let named = format!("model.{key}");
            if !key.contains("_proj") {
                stored.push((named, xs.shallow_clone()));
                exact.push((key, xs));
                continue;
            }
            let fp8 = (&xs / scale).to_kind(Kind::Float8e4m3fn);
            exact.push((key, fp8.to_kind(Kind::Float) * scale));
            if scale < 1.0 {
                let layer = named.trim_end_matches(".weight");
                stored.push((format!("{layer}.scale_weight"), Tensor::from(scale as f32)));
            }
            stored.push((named, fp8));
        }
        let borrowed = stored.iter().map(|(name, xs)| (&name[..], xs));
        made_up::write(&narrow, &borrowed.collect::<Vec<_>>(), &[]);
        Tensor::write_safetensors(&exact, &wide).unwrap();
        let expected = some_states(BEFORE_LAST, home.path());
        assert_close(name, &some_states(BEFORE_LAST, &narrow), &expected, 1e-6);
    }
}

#[test]
fn gguf_files_of_each_qwen_give_the_same_with_their_heads_as_they_lie() {
    for (model, kind, architecture) in [
        ("qwen3", LanguageKind::Qwen3, "qwen3"),
        ("qwen2_5_vl", LanguageKind::Qwen2, "qwen2vl"),
    ] {
        let home = folder(model);
        let usage = LanguageUse {
            kind,
            ..BEFORE_LAST
        };
        let config = usage.read(home.path()).unwrap();
        let number = |name: &str| format!("{architecture}.attention.{name}");
        let heads = config.num_attention_heads.try_into().unwrap();
        let kv_heads = config.num_key_value_heads().try_into().unwrap();
        let mut file = GgufFile::default()
            .text("general.architecture", architecture)
            .number(&number("head_count"), heads)
            .number(&number("head_count_kv"), kv_heads);
        for (name, xs) in weights(model) {
            file = file.plain(&gguf_name(&name), &xs);
        }
        let output = Tensor::ones([2], (Kind::Float, Device::Cpu));
        file = file.plain("output.weight", &output);
        let path = home.path().join("encoder-F32.gguf");
        file.write(&path);
        let expected = some_states(usage, home.path());
        assert_close(model, &some_states(usage, &path), &expected, 1e-6);
    }
}

#[test]
fn a_vocabulary_in_metadata_gives_the_ids_of_the_tokenizer_that_it_is_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("qwen.gguf");
    // Some converters pad with another mark.
    let tokenizer = json_of(&fixture("text/qwen/tokenizer.json"));
    with_pairs(GgufFile::default(), &tokenizer, "qwen2")
        .number("tokenizer.ggml.bos_token_id", 3)
        .number("tokenizer.ggml.padding_token_id", 5)
        .write(&path);
    let bare = dir.path().join("tokenizer.json");
    fs::copy(fixture("text/qwen/tokenizer.json"), &bare).unwrap();
    let open = |place: &Path, class| TextTokenizer::open(place, class, 64).unwrap();
    let own = open(&bare, Some("Qwen2TokenizerFast"));
    let others = [open(&bare, None), open(&path, None)];
    for row in facts()["shipped"].as_array().unwrap() {
        let text = QWEN_CHAT.around(row["text"].as_str().unwrap());
        let expected = TokenBatch::encode(&text, &own).unwrap();
        assert!(used_ids(&expected).len() > 3);
        for other in &others {
            let found = TokenBatch::encode(&text, other).unwrap();
            assert_eq!(found.ids, expected.ids, "{text:?}");
        }
    }
}

#[test]
fn streamed_qwen_encoder_matches_the_resident_one() {
    let folder = folder("qwen3");
    let config = BEFORE_LAST.read(folder.path()).unwrap();
    let weights = open(folder.path(), Kind::Float);
    let (ids, mask) = some_ids();
    let states = |resident_bytes| {
        let w = weights.with_residency(resident_bytes);
        let encoder = LanguageEncoder::new(&config, &w).unwrap();
        [0, 1].map(|_| encoder.forward(&ids, &mask, &NoHooks).unwrap())
    };
    let expected = states(None);
    for budget in [0, 20_000, u64::MAX] {
        assert_eq!(states(Some(budget)), expected);
    }
}

#[test]
fn a_language_model_of_another_kind_is_refused_in_a_sentence() {
    let llama = "expected a Qwen 3 text encoder, found a Llama 3";
    let yarn = json!({"rope_type": "yarn", "factor": 4.0});
    let refused = |usage: LanguageUse, config: &Value| {
        let dir = write_folder(config, &weights("qwen3"));
        usage.read(dir.path()).unwrap_err().to_string()
    };
    for (name, value, expected) in [
        ("model_type", json!("llama"), llama),
        (
            "model_type",
            json!("qwen3_moe"),
            "or qwen3, found qwen3_moe",
        ),
        (
            "num_hidden_layers",
            json!(1),
            "more than 1 num_hidden_layers",
        ),
        ("attention_bias", json!(true), "biases, as in every Qwen 3"),
        ("rope_scaling", yarn, "(yarn)"),
        ("head_dim", json!(13), "even head_dim, found 13"),
    ] {
        let mut config = config("qwen3");
        config[name] = value;
        let err = refused(BEFORE_LAST, &config);
        assert!(err.contains(expected), "{name}: {err}");
    }
    let far = LanguageUse {
        tap: LanguageTap::States(&[1, 4]),
        ..BEFORE_LAST
    };
    let err = refused(far, &config("qwen3"));
    assert!(err.contains("at least 4 num_hidden_layers"), "{err}");
    // The published one is what its sizes say.
    let published = LanguageConfig::qwen3_4b(BEFORE_LAST.tap);
    let published = BEFORE_LAST.truncated(published).unwrap();
    assert_eq!(published.num_read_layers(), 35);
}
