//! SigLIP's pixels and embeddings against `tests/fixtures/vision/siglip`, other names for the same weights, and
//! broken configs.

use std::fs;
use std::path::Path;

use safelight_core::networks::{NetworkConfig as _, SiglipConfig};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::image;
use crate::closeness::assert_close;
use crate::hooks::NoHooks;
use crate::vision::*;
use crate::weights::tests::fixtures::{self, Cancelled, fixture, open, tensors_of, write_folder};

const SIZES: [(u32, u32); 5] = [(96, 64), (640, 368), (384, 384), (1040, 16), (400, 720)];

fn json_of(name: &str) -> Value {
    fixtures::json_of(&fixture("vision/siglip").join(name))
}

fn recorded(name: &str) -> Tensor {
    fixtures::recorded("vision/siglip/recorded.safetensors", name)
}

/// As the autoencoder gets it.
fn preprocessed((width, height): (u32, u32)) -> Tensor {
    let size = [i64::from(height), i64::from(width), 3];
    let rgb = Tensor::from_data_size(&image(width, height), &size, Kind::Uint8);
    let rgb = rgb.permute([2, 0, 1]).unsqueeze(0).to_kind(Kind::Float);
    (rgb / 255.0) * 2.0 - 1.0
}

fn pixels(size: (u32, u32)) -> Tensor {
    let processor = SiglipImageProcessor::read(Some(&fixture("vision/siglip"))).unwrap();
    processor.pixel_values(&preprocessed(size)).unwrap()
}

fn weights() -> Vec<(String, Tensor)> {
    tensors_of(&json_of("shapes.json"), "image_encoder.")
}

fn folder() -> TempDir {
    write_folder(&json_of("image_encoder.json"), &weights())
}

fn encoder(place: &Path) -> SiglipVisionEncoder {
    let config = SiglipConfig::read(place).unwrap();
    let weights = open(place, Kind::Float);
    let encoder = SiglipVisionEncoder::new(&config, &weights).unwrap();
    let unexpected = SiglipVisionEncoder::unexpected_keys(&weights);
    assert_eq!(unexpected, [""; 0]);
    encoder
}

#[test]
fn pixels_are_those_of_the_reference_and_overshoot_as_there() {
    let published = SiglipImageProcessor::read(None).unwrap();
    let mut largest = 0.0_f64;
    for size in SIZES {
        let found = pixels(size);
        assert_eq!(found.size(), [1, 3, 384, 384]);
        assert_eq!(published.pixel_values(&preprocessed(size)).unwrap(), found);
        let name = format!("{}x{}", size.0, size.1);
        let expected = recorded(&format!("pixel_values.{name}"));
        let sampled = found.slice(2, None, None, 13).slice(3, None, None, 11);
        let distance = (sampled - expected).abs().max().double_value(&[]);
        assert!(distance <= 1e-6, "{name}: {distance}");
        let range = Tensor::stack(&[found.min(), found.max()], 0);
        let distance = (range - recorded(&format!("range.{name}"))).abs().max();
        assert!(distance.double_value(&[]) <= 1e-6, "{name}: {distance}");
        largest = largest.max(found.max().double_value(&[]));
    }
    assert!(largest > 1.05, "{largest}");
}

#[test]
fn images_give_the_embeddings_that_framepack_reads_and_none_after_cancellation() {
    let dir = folder();
    let encoder = encoder(dir.path());
    for size in &SIZES[..2] {
        let embeds = encoder.encode_images(&pixels(*size), &NoHooks).unwrap();
        assert_eq!(embeds.size(), [1, 729, 36]);
        let name = format!("last_hidden_state.{}x{}", size.0, size.1);
        let sampled = embeds.slice(1, None, None, 16);
        assert_close(&name, &sampled, &recorded(&name), 2e-6);
        let config = SiglipConfig::read(dir.path()).unwrap();
        let weights = open(dir.path(), Kind::Float);
        let head = SiglipHead::read(&config, &weights).unwrap().unwrap();
        let name = format!("pooler_output.{}x{}", size.0, size.1);
        assert_close(&name, &head.pooled(&embeds), &recorded(&name), 5e-6);
    }
    let found = encoder.encode_images(&pixels(SIZES[2]), &Cancelled);
    assert!(found.is_none());
}

#[test]
fn a_siglip_is_read_under_every_name_that_files_have() {
    let dir = folder();
    let pixels = pixels(SIZES[0]);
    let expected = encoder(dir.path()).encode_images(&pixels, &NoHooks);
    let bare = |name: &str| name.replace("vision_model.", "");
    let whole = |name: &str| format!("siglip.{name}");
    let renamings: [&dyn Fn(&str) -> String; 2] = [&bare, &whole];
    for rename in renamings {
        let named = weights().into_iter().map(|(name, xs)| (rename(&name), xs));
        let mut named: Vec<(String, Tensor)> = named.collect();
        let other = Tensor::ones([2], (Kind::Float, Device::Cpu));
        for name in "vision_model.embeddings.position_ids logit_scale text_model.x".split(' ') {
            named.push((rename(name), other.shallow_clone()));
        }
        let dir = write_folder(&json_of("image_encoder.json"), &named);
        let found = encoder(dir.path()).encode_images(&pixels, &NoHooks);
        assert_eq!(found, expected, "{}", rename("vision_model.x"));
    }
}

#[test]
fn siglip_config_is_inferred_from_tensor_shapes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sigclip_vision_patch14_384.safetensors");
    let sizes: [(&str, &[i64]); 4] = [
        ("embeddings.patch_embedding.weight", &[144, 3, 14, 14]),
        ("embeddings.position_embedding.weight", &[729, 144]),
        ("encoder.layers.0.mlp.fc1.weight", &[200, 144]),
        ("encoder.layers.1.mlp.fc1.weight", &[200, 144]),
    ];
    let named = |sizes: &[(&str, &[i64])]| -> Vec<(String, Tensor)> {
        let named = sizes.iter().map(|(name, size)| {
            let tensor = Tensor::zeros(*size, (Kind::Float, Device::Cpu));
            (format!("vision_model.{name}"), tensor)
        });
        named.collect()
    };
    Tensor::write_safetensors(&named(&sizes), &file).unwrap();
    let config = SiglipConfig::read(&file).unwrap();
    assert_eq!(config.image_size, 384);
    assert_eq!(config.patch_size, 14);
    assert_eq!(config.num_tokens(), 729);
    assert_eq!((config.hidden_size, config.num_attention_heads), (144, 2));
    assert_eq!(config.intermediate_size, 200);
    assert_eq!(config.num_hidden_layers, 2);
    assert_eq!(config.layer_norm_eps.to_bits(), 1e-6_f64.to_bits());

    let say = |tensors: &[(String, Tensor)]| {
        Tensor::write_safetensors(tensors, &file).unwrap();
        SiglipConfig::read(&file).unwrap_err().to_string()
    };
    let mut clip = named(&sizes);
    let class = "vision_model.embeddings.class_embedding".to_owned();
    clip.push((class, Tensor::from(1.0)));
    for other in [clip, named(&sizes[1..])] {
        assert!(say(&other).contains("expected a SigLIP image encoder, found"));
    }
    assert!(say(&named(&sizes[..2])).contains("fc1"));
    let narrow: [(&str, &[i64]); 3] = [
        ("embeddings.patch_embedding.weight", &[36, 3, 14, 14]),
        sizes[1],
        sizes[2],
    ];
    assert!(say(&named(&narrow)).contains("config.json"));
}

#[test]
fn another_image_encoder_or_processor_is_refused_in_a_sentence() {
    let dir = folder();
    let clip = json!("clip_vision_model");
    for (name, value, expected) in [
        ("model_type", clip, "found clip_vision"),
        ("num_attention_heads", json!(5), "5 heads"),
        ("num_channels", json!(4), "3 num_channels, found 4"),
        ("patch_size", json!(999), "image_size of 384, found 999"),
        ("hidden_act", json!("relu"), "`relu`, expected"),
    ] {
        let mut config = json_of("image_encoder.json");
        config[name] = value;
        fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
        let err = SiglipConfig::read(dir.path()).unwrap_err().to_string();
        assert!(err.contains(expected), "{name}: {err}");
    }
    let path = dir.path().join("preprocessor_config.json");
    let small = json!({"size": {"height": 224, "width": 224}, "crop_size": null});
    fs::write(&path, small.to_string()).unwrap();
    let processor = SiglipImageProcessor::read(Some(dir.path())).unwrap();
    let err = processor.check(SiglipConfig::default().image_size, &path);
    let err = err.unwrap_err().to_string();
    assert!(err.contains("384x384") && err.contains("224x224"), "{err}");
    let published = SiglipImageProcessor::read(None).unwrap();
    let result = published.check(SiglipConfig::default().image_size, &path);
    assert!(result.is_ok());
    fs::write(&path, r#"{"size": "large"}"#).unwrap();
    assert!(SiglipImageProcessor::read(Some(dir.path())).is_err());
}
