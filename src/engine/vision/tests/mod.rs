//! Pixels and embeddings against `tests/fixtures/vision`, other names for the same weights, and broken configs.

mod siglip;

use std::cell::Cell;
use std::fs;
use std::path::Path;

use safelight_core::networks::{
    ClipActivation, ClipVisionConfig, NetworkConfig as _, SiglipConfig, vision,
};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use super::*;
use crate::closeness::assert_close;
use crate::error::EngineError;
use crate::hooks::{Hooks, NoHooks};
use crate::text::tests::assert_keys_read;
use crate::weights::Weights;
use crate::weights::tests::fixtures::{self, fixture, json_of, open};

const SIZES: [(u32, u32); 7] = [
    (100, 70),
    (61, 93),
    (224, 224),
    (640, 361),
    (17, 301),
    (225, 224),
    (1, 1),
];

fn recorded(name: &str) -> Tensor {
    fixtures::recorded("vision/recorded.safetensors", name)
}

/// `image` of `generate.py`.
fn image(width: u32, height: u32) -> Vec<u8> {
    let mut rgb = Vec::new();
    for y in 0..height {
        for x in 0..width {
            for c in 0..3 {
                let smooth = x * 255 / (width - 1).max(1) + y * 3 + c * 40;
                let rough = x * x * 3 + y * x * 5 + y * y + c * 67;
                let is_smooth = (x / 9 + y / 7) % 2 == 0;
                rgb.push((if is_smooth { smooth } else { rough } % 256) as u8);
            }
        }
    }
    rgb
}

fn pixels((width, height): (u32, u32), processor: &ClipImageProcessor) -> Tensor {
    pixel_values(&image(width, height), width, height, processor).unwrap()
}

/// Every 13th row and 11th column, as recorded.
fn sampled(pixels: &Tensor) -> Tensor {
    pixels.slice(2, None, None, 13).slice(3, None, None, 11)
}

fn written(value: &Value) -> Result<ClipImageProcessor, EngineError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("preprocessor_config.json");
    fs::write(&path, value.to_string()).unwrap();
    ClipImageProcessor::read(Some(dir.path()))
}

fn encoder(kind: Kind) -> ClipVisionEncoder {
    let folder = fixture("vision/image_encoder");
    let config = ClipVisionConfig::read(&folder).unwrap();
    let weights = open(&folder, kind);
    let encoder = ClipVisionEncoder::new(&config, &weights).unwrap();
    assert_eq!(weights.finish(), [""; 0]);
    encoder
}

fn two_images() -> Tensor {
    let processor = ClipImageProcessor::default();
    let both = [pixels(SIZES[0], &processor), pixels(SIZES[1], &processor)];
    Tensor::cat(&both, 0)
}

#[test]
fn clip_preprocessing_matches_the_reference_exactly_for_any_size() {
    let folder_says = written(&json!({"size": {"shortest_edge": 224}})).unwrap();
    for processor in [ClipImageProcessor::default(), folder_says] {
        for (width, height) in SIZES {
            let found = pixels((width, height), &processor);
            assert_eq!(found.size(), [1, 3, 224, 224]);
            let expected = recorded(&format!("pixel_values.{width}x{height}"));
            assert_eq!(sampled(&found), expected, "{width}x{height}");
        }
    }
}

#[test]
fn every_form_of_a_processor_is_followed() {
    let processors = json_of(&fixture("vision/processors.json"));
    for (name, value) in processors.as_object().unwrap() {
        let found = sampled(&pixels(SIZES[0], &written(value).unwrap()));
        let expected = recorded(&format!("pixel_values.{name}100x70"));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn an_unsound_processor_is_refused_in_a_sentence() {
    for (value, expected) in [
        (json!({"size": 0}), "edges between"),
        (json!({"size": 1_i64 << 40}), "edges between"),
        (json!({"size": {"longest_edge": 224}}), "JSON"),
        (json!({"crop_size": {"shortest_edge": 224}}), "crop_size"),
        (json!({"crop_size": {"height": -1, "width": 9}}), "edges"),
        (json!({"resample": 4}), "resample 4"),
        (json!({"image_std": [0.5, 0.0, 0.5]}), "no sense"),
        (json!({"rescale_factor": 0}), "no sense"),
        (json!([1]), "expected a map"),
    ] {
        let text = written(&value).unwrap_err().to_string();
        assert!(text.contains(expected), "{value}: {text}");
        assert!(text.contains("preprocessor_config.json"), "{text}");
    }
}

#[test]
fn a_processor_for_another_encoder_is_refused() {
    let config = ClipVisionConfig::default();
    let check = |value: Value| {
        let processor = written(&value).unwrap();
        processor.check(config.image_size, Path::new("folder"))
    };
    assert!(check(json!({})).is_ok());
    let square = json!({"do_center_crop": false, "size": {"height": 224, "width": 224}});
    assert!(check(square).is_ok());
    let larger = check(json!({"crop_size": 336})).unwrap_err().to_string();
    assert!(larger.contains("224x224"), "{larger}");
    assert!(larger.contains("336x336"), "{larger}");
    assert!(check(json!({"do_center_crop": false})).is_err());
}

#[test]
fn an_image_that_cannot_be_is_refused() {
    let processor = ClipImageProcessor::default();
    assert!(pixel_values(&[0; 11], 2, 2, &processor).is_err());
    assert!(pixel_values(&[], 0, 2, &processor).is_err());
    let line = vec![0; 3 * 4000];
    let text = pixel_values(&line, 4000, 1, &processor).unwrap_err();
    assert!(text.to_string().contains("4000x1"), "{text}");
}

#[test]
fn embeddings_are_those_of_the_reference() {
    let encoder = encoder(Kind::Float);
    let found = encoder.encode_images(&two_images(), &NoHooks).unwrap();
    assert_close("embeds", &found, &recorded("image_embeds"), 2e-6);
    let finished = encoder.finish(&found);
    let last = finished.last_hidden_state.slice(1, None, None, 16);
    assert_close("last", &last, &recorded("last_hidden_state"), 2e-6);
    let expected = recorded("pooler_output");
    assert_close("pooler", &finished.pooler_output, &expected, 2e-6);
}

#[test]
fn half_precision_comes_close_and_stays_half() {
    for (kind, limit) in [(Kind::BFloat16, 2e-2), (Kind::Half, 3e-3)] {
        let found = encoder(kind).encode_images(&two_images(), &NoHooks);
        let found = found.unwrap();
        assert_eq!(found.kind(), kind);
        assert_close("embeds", &found, &recorded("image_embeds"), limit);
    }
}

#[test]
fn another_activation_is_another_result() {
    let folder = fixture("vision/image_encoder");
    let mut config = ClipVisionConfig::read(&folder).unwrap();
    config.hidden_act = ClipActivation::QuickGelu;
    let weights = open(&folder, Kind::Float);
    let encoder = ClipVisionEncoder::new(&config, &weights).unwrap();
    let one = two_images().narrow(0, 0, 1);
    let found = encoder.encode_images(&one, &NoHooks).unwrap();
    let found = found.slice(1, None, None, 16);
    assert_close("QuickGELU", &found, &recorded("quick_gelu"), 2e-6);
}

/// A job that is cancelled at its second check.
struct CancelSecond(Cell<u32>);

impl Hooks for CancelSecond {
    fn cancelled(&self) -> bool {
        self.0.set(self.0.get() + 1);
        self.0.get() > 1
    }
}

#[test]
fn encoding_stops_between_layers() {
    let hooks = CancelSecond(Cell::new(0));
    let found = encoder(Kind::Float).encode_images(&two_images(), &hooks);
    assert!(found.is_none());
    assert_eq!(hooks.0.get(), 2);
}

#[test]
fn weights_are_found_without_a_prefix_and_next_to_the_rest_of_video() {
    let folder = fixture("vision/image_encoder");
    let config = ClipVisionConfig::read(&folder).unwrap();
    let all = Weights::read_all(&folder).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("clip_vision_h.safetensors");
    let number = Tensor::ones([1], (Kind::Float, Device::Cpu));
    let spare_layer = "vision_model.encoder.layers.3.mlp.fc1.bias";
    for (prefix, extra, unexpected) in [
        ("", "logit_scale", 0),
        ("vision_model.", "text_model.embeddings.weight", 0),
        ("vision_model.", "visual_projection.weight", 0),
        ("vision_model.", "vision_model.embeddings.position_ids", 0),
        ("", "embeddings.position_ids", 0),
        ("vision_model.", spare_layer, 1),
    ] {
        let mut named: Vec<(String, &Tensor)> = all
            .iter()
            .map(|(key, tensor)| (key.replacen("vision_model.", prefix, 1), tensor))
            .collect();
        named.push((extra.to_owned(), &number));
        Tensor::write_safetensors(&named, &path).unwrap();
        let weights = open(&path, Kind::Float);
        let encoder = ClipVisionEncoder::new(&config, &weights).unwrap();
        let keys = ClipVisionEncoder::unexpected_keys(&weights);
        assert_eq!(keys.len(), unexpected, "{keys:?}");
        let found = encoder.encode_images(&two_images(), &NoHooks).unwrap();
        assert_close(prefix, &found, &recorded("image_embeds"), 2e-6);
    }
}

#[test]
fn a_config_is_read_plain_nested_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let read = |value: Value| {
        fs::write(dir.path().join("config.json"), value.to_string()).unwrap();
        ClipVisionConfig::read(dir.path())
    };
    let empty = read(json!({})).unwrap();
    assert_eq!((empty.hidden_size, empty.num_hidden_layers), (1280, 32));
    assert_eq!(empty.num_tokens(), 257);
    assert_eq!(empty.hidden_act, ClipActivation::Gelu);
    let nested = read(json!({"hidden_size": 9, "vision_config": {"hidden_size": 640}})).unwrap();
    assert_eq!(nested.hidden_size, 640);
    for (value, expected) in [
        (json!({"hidden_size": 0}), "hidden_size between 1"),
        (
            json!({"num_hidden_layers": 1_i64 << 40}),
            "between 1 and 1000",
        ),
        (json!({"patch_size": 500}), "image_size of 224, found 500"),
        (json!({"layer_norm_eps": -1.0}), "at least 0, found -1"),
        (json!({"num_attention_heads": 7}), "7 heads"),
        (json!({"num_channels": 4}), "3 num_channels, found 4"),
        (json!({"hidden_act": "swish"}), "`swish`, expected"),
        (json!({"hidden_size": "wide"}), "this config is damaged"),
        (json!(3), "this config is damaged"),
    ] {
        let text = read(value.clone()).unwrap_err().to_string();
        assert!(text.contains(expected), "{value}: {text}");
        assert!(text.ends_with("config.json"), "{text}");
    }
}

#[test]
fn image_encoders_request_exactly_the_tensors_of_their_schema() {
    let config = ClipVisionConfig::read(&fixture("vision/image_encoder")).unwrap();
    let weights = Weights::outline(Kind::Float);
    ClipVisionEncoder::new(&config, &weights).unwrap();
    assert_keys_read(&weights, config.schema(vision::USUAL_PREFIX));
    let config = SiglipConfig {
        num_hidden_layers: 2,
        ..SiglipConfig::default()
    };
    let weights = Weights::outline(Kind::Float);
    SiglipVisionEncoder::new(&config, &weights).unwrap();
    assert_keys_read(&weights, config.schema(vision::USUAL_PREFIX));
}
