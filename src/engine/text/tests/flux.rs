//! CLIP-L and T5 against `tests/fixtures/text/flux`, and the places where they lie.

use std::fs;
use std::path::Path;

use safelight_core::networks::{
    ClipActivation, ClipL, ClipTextConfig, NetworkConfig as _, T5Config, T5Kind,
};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::published::{fixtures, json_of};
use crate::closeness::{assert_close, limit};
use crate::hooks::NoHooks;
use crate::text::{ClipTextEncoder, T5Encoder};
use crate::weights::tests::fixtures::{Cancelled, open, recorded, tensors_of, write_folder};

const CLIP: &str = "text_encoder";
const T5: &str = "text_encoder_2";
const RECORDED: &str = "text/flux/recorded.safetensors";

fn encoders() -> Value {
    json_of(&fixtures().join("encoders.json"))
}

/// The weights of a component of the recorded runs.
pub(super) fn weights_of(component: &str) -> Vec<(String, Tensor)> {
    tensors_of(&encoders()["shapes"][component], &format!("{component}."))
}

fn config_of(component: &str) -> Value {
    json_of(&fixtures().join(format!("{component}.json")))
}

fn folder(component: &str) -> TempDir {
    write_folder(&config_of(component), &weights_of(component))
}

/// A folder whose config has other values.
fn folder_with(component: &str, changes: &[(&str, Value)]) -> TempDir {
    let mut config = config_of(component);
    for (key, value) in changes {
        config[*key] = value.clone();
    }
    write_folder(&config, &weights_of(component))
}

pub(super) fn clip_folder() -> TempDir {
    folder(CLIP)
}

fn clip(place: &Path) -> ClipTextEncoder {
    let config = ClipTextConfig::read(place).unwrap();
    let weights = open(place, Kind::Float);
    let encoder = ClipTextEncoder::new(&config, &weights).unwrap();
    assert_eq!(ClipTextEncoder::unexpected_keys::<ClipL>(&weights), [""; 0]);
    encoder
}

fn t5(place: &Path) -> T5Encoder {
    let config = T5Config::read_as(T5Kind::T5, place).unwrap();
    let weights = open(place, Kind::Float);
    let encoder = T5Encoder::new(&config, &weights).unwrap();
    assert_eq!(T5Encoder::unexpected_keys(&weights), [""; 0]);
    encoder
}

#[track_caller]
fn assert_recorded(found: &Tensor, name: &str) {
    let limit = limit("text/flux/recorded", name, 2e-6);
    assert_close(name, found, &recorded(RECORDED, name), limit);
}

#[test]
fn flux_prompts_give_the_embeddings_of_the_reference_and_none_after_cancellation() {
    let (clip_folder, t5_folder) = (folder(CLIP), folder(T5));
    let (clip, t5) = (clip(clip_folder.path()), t5(t5_folder.path()));
    let encoders = encoders();
    for (variant, run) in encoders["runs"].as_object().unwrap() {
        let name = |part: &str| format!("{variant}.{part}");
        let embeds = clip.forward(&recorded(RECORDED, &name("tokenizer")), &NoHooks);
        let embeds = embeds.unwrap();
        let states = name("text_encoder.prompt.last_hidden_state");
        assert_recorded(&embeds.last_hidden_state, &states);
        assert_recorded(&embeds.pooler_output, &name("pooled_prompt_embeds"));

        let ids = recorded(RECORDED, &name("tokenizer_2"));
        let length = run["length"].as_i64().unwrap();
        assert_eq!(ids.size(), [1, length]);
        let embeds = t5.forward(&ids, None, &NoHooks).unwrap();
        let rows = super::ids(&encoders["kept_rows"]).into_iter();
        let rows: Vec<i64> = rows.map(|row| (row + length) % length).collect();
        let kept = embeds.index_select(1, &Tensor::from_slice(&rows));
        assert_recorded(&kept, &name("prompt_embeds"));
    }
    let ids = Tensor::from_slice(&[4_i64, 1]).unsqueeze(0);
    assert!(clip.forward(&ids, &Cancelled).is_none());
    assert!(t5.forward(&ids, None, &Cancelled).is_none());
}

#[test]
fn clip_activation_and_eos_token_follow_its_config() {
    let changes = [("hidden_act", json!("gelu")), ("eos_token_id", json!(320))];
    let dir = folder_with(CLIP, &changes);
    let ids = recorded(RECORDED, "other.ids");
    let embeds = clip(dir.path()).forward(&ids, &NoHooks).unwrap();
    assert_recorded(&embeds.last_hidden_state, "other.last_hidden_state");
    assert_recorded(&embeds.pooler_output, "other.pooler_output");
}

#[test]
fn encoders_are_read_under_every_name_that_files_have() {
    let ids = Tensor::from_slice(&[812_i64, 320, 27, 813, 813]).unsqueeze(0);
    let (dir, weights) = (folder(CLIP), weights_of(CLIP));
    let expected = clip(dir.path()).forward(&ids, &NoHooks).unwrap();
    let plain = |name: &str| name.to_owned();
    let bare = |name: &str| name.replace("text_model.", "");
    let bundled = |name: &str| format!("text_encoders.clip_l.transformer.{name}");
    let renamings: [&dyn Fn(&str) -> String; 3] = [&plain, &bare, &bundled];
    for rename in renamings {
        let named = weights.iter().map(|(name, xs)| (rename(name), xs));
        let mut named: Vec<(String, &Tensor)> = named.collect();
        let other = Tensor::ones([2], (Kind::Float, Device::Cpu));
        for name in ["text_projection.weight", "logit_scale"] {
            named.push((rename(name), &other));
        }
        named.push((rename("text_model.embeddings.position_ids"), &other));
        if rename("x") != "x" {
            named.push(("text_encoders.t5xxl.logit_scale".to_owned(), &other));
        }
        Tensor::write_safetensors(&named, dir.path().join("model.safetensors")).unwrap();
        let found = clip(dir.path()).forward(&ids, &NoHooks).unwrap();
        assert_eq!(found.pooler_output, expected.pooler_output);
        assert_eq!(found.last_hidden_state, expected.last_hidden_state);
    }

    let ids = Tensor::from_slice(&[4_i64, 87, 104, 1, 0, 0]).unsqueeze(0);
    let (t5_folder, weights) = (folder(T5), weights_of(T5));
    let expected = t5(t5_folder.path()).forward(&ids, None, &NoHooks).unwrap();
    let twin = |name: &str| name.replace("shared", "encoder.embed_tokens");
    let bundled = |name: &str| format!("text_encoders.t5xxl.transformer.{name}");
    // Headers of T5s show all of their numbers.
    let path = t5_folder.path().join("t5xxl.safetensors");
    let renamings: [&dyn Fn(&str) -> String; 3] = [&plain, &twin, &bundled];
    for rename in renamings {
        let named = weights.iter().map(|(name, xs)| (rename(name), xs));
        let mut named: Vec<(String, &Tensor)> = named.collect();
        if rename("shared") == "shared" {
            let table = weights.iter().find(|(name, _)| name == "shared.weight");
            named.push(("encoder.embed_tokens.weight".to_owned(), &table.unwrap().1));
        }
        Tensor::write_safetensors(&named, &path).unwrap();
        let found = t5(&path).forward(&ids, None, &NoHooks).unwrap();
        assert_eq!(found, expected);
    }
}

#[test]
fn the_header_of_a_file_shows_the_numbers_of_a_video() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("clip_l.safetensors");
    let options = (Kind::Float, Device::Cpu);
    let write = |width: i64| {
        let zeros = |rows: i64| Tensor::zeros([rows, width], options);
        let named = [
            ("text_model.embeddings.token_embedding.weight", zeros(30)),
            ("text_model.embeddings.position_embedding.weight", zeros(9)),
            ("text_model.encoder.layers.0.mlp.fc1.weight", zeros(40)),
            ("text_model.encoder.layers.1.mlp.fc1.weight", zeros(40)),
        ];
        Tensor::write_safetensors(&named, &path).unwrap();
        ClipTextConfig::read(&path)
    };
    let config = write(192).unwrap();
    assert_eq!((config.vocab_size, config.hidden_size), (30, 192));
    assert_eq!(config.intermediate_size, 40);
    assert_eq!(config.num_hidden_layers, 2);
    assert_eq!(config.num_attention_heads, 3);
    assert_eq!(config.max_position_embeddings, 9);
    assert_eq!(config.eos_token_id, 2);
    assert_eq!(config.hidden_act, ClipActivation::QuickGelu);
    let text = write(100).unwrap_err().to_string();
    assert!(text.contains("found 100"), "{text}");
    assert!(text.contains("clip_l.safetensors"), "{text}");
    // A folder that has no config is read as its file is.
    fs::rename(&path, dir.path().join("model.safetensors")).unwrap();
    let of_folder = ClipTextConfig::read(dir.path());
    assert!(of_folder.unwrap_err().to_string().contains("found 100"));
    // The config of another component lies beside loose files; that of the encoder counts only for its own file.
    let other = r#"{"model_type": "clip_text_model", "hidden_size": 5}"#;
    fs::write(dir.path().join("config.json"), other).unwrap();
    assert_eq!(write(192).unwrap().hidden_size, 192);
}

#[test]
fn mismatched_or_unsupported_text_encoders_are_refused_with_a_reason() {
    let clip = |place: &Path| ClipTextConfig::read(place).map(drop);
    let t5 = |place: &Path| T5Config::read_as(T5Kind::T5, place).map(drop);
    let (clip_folder, t5_folder) = (folder(CLIP), folder(T5));
    let file = |dir: &TempDir| {
        let other = dir.path().join("other.safetensors");
        fs::copy(dir.path().join("model.safetensors"), &other).unwrap();
        other
    };
    let umt5 = super::fixtures().join("pipeline/text_encoder");
    let relu = folder_with(T5, &[("feed_forward_proj", json!("relu"))]);
    let no_t5 = "expected the model_type t5, found umt5";
    for (read, expected, found) in [
        (
            t5(&file(&clip_folder)),
            "expected a T5",
            "tensors such as 'text_model.",
        ),
        (
            clip(&file(&t5_folder)),
            "expected a CLIP",
            "tensors such as 'encoder.block.0.layer.0.",
        ),
        (t5(&umt5), no_t5, ""),
        (t5(&umt5.join("model.safetensors")), no_t5, ""),
        (
            t5(relu.path()),
            "the feed_forward_proj gated-gelu",
            "found relu",
        ),
    ] {
        let text = read.unwrap_err().to_string();
        assert!(text.contains(expected) && text.contains(found), "{text}");
    }
    for (key, value) in [
        ("hidden_size", json!(0)),
        ("num_attention_heads", json!(5)),
        ("hidden_act", json!("relu")),
        ("layer_norm_eps", json!(-1.0)),
        ("vocab_size", json!("many")),
    ] {
        let dir = folder_with(CLIP, &[(key, value)]);
        let text = clip(dir.path()).unwrap_err().to_string();
        assert!(text.ends_with("config.json"), "{text}");
    }
}

#[test]
fn a_whole_video_has_the_config_of_its_text_encoder_inside() {
    let whole = json!({"model_type": "clip", "text_config": config_of(CLIP), "hidden_size": 7});
    let dir = write_folder(&whole, &weights_of(CLIP));
    for place in [dir.path(), &dir.path().join("model.safetensors")] {
        assert_eq!(ClipTextConfig::read(place).unwrap().hidden_size, 32);
    }
}
