//! Every autoencoder's config and schema against files whose names and shapes diffusers or the authors wrote.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::VaeHalf;
use crate::formats::weights::WeightSet;
use crate::networks::schema::TensorSpec;
use crate::networks::{
    HunyuanVaeConfig, KlVaeConfig, NetworkConfig, TensorRole, TinyDecoderConfig, WanVaeConfig,
    WanVaeKeys,
};
use crate::testing::made_up::{Shapes, header};
use crate::testing::{fixture, json_fixture};

/// Both halves' tensors, each of which is known as its own half's.
fn both_halves(schema: impl Fn(VaeHalf) -> Vec<TensorSpec>) -> Vec<TensorSpec> {
    let halves = VaeHalf::BOTH.map(|half| {
        let tensors = schema(half);
        assert!(tensors.iter().all(|it| half.has(&it.name)), "{half:?}");
        let stays = |it: &TensorSpec| matches!(it.role, TensorRole::Fixed | TensorRole::Doubling);
        assert!(tensors.iter().all(stays));
        tensors
    });
    halves.concat()
}

fn assert_same(name: &str, schema: Vec<TensorSpec>, file: &Shapes) {
    let count = schema.len();
    let named: Shapes = schema.into_iter().map(|it| (it.name, it.shape)).collect();
    assert_eq!(named.len(), count, "{name}: a tensor stands twice");
    let keys = |shapes: &Shapes| shapes.keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&named), keys(file), "{name}");
    for (key, shape) in file {
        // diffusers keeps the attention's convolutions of one pixel as matrices.
        let is_matrix = key.contains("mid_block.attentions.0.to_") && shape.len() == 2;
        let sizes = if is_matrix { 2 } else { named[key].len() };
        assert_eq!(shape, &named[key][..sizes], "{name}: {key}");
    }
}

#[test]
fn a_schema_names_exactly_the_tensors_of_files_that_diffusers_wrote() {
    for name in ["flat", "attended", "residual", "shallow"] {
        let folder = fixture(&format!("vae/{name}"));
        let cfg = WanVaeConfig::read(&folder).unwrap();
        let weights = WeightSet::open(&folder).unwrap();
        let keys = WanVaeKeys::of(&weights);
        let file = weights.tensors.iter();
        let file = file.map(|(key, entry)| (key.clone(), entry.shape.clone()));
        let schema = both_halves(|half| cfg.schema(half, &keys));
        assert_same(name, schema, &file.collect());
    }
    for name in ["kl/flux", "kl/other"] {
        let folder = fixture(&format!("vae/{name}"));
        let file: Shapes = json_fixture(&format!("vae/{name}/shapes.json"));
        let cfg = KlVaeConfig::read(&folder).unwrap();
        let keys = KlVaeConfig::keys(&header(&file)).unwrap();
        assert_same(name, both_halves(|half| cfg.schema(half, &keys)), &file);
    }
    let folder = fixture("vae/hunyuan");
    let file: Shapes = json_fixture("vae/hunyuan/shapes.json");
    let cfg = HunyuanVaeConfig::read(&folder).unwrap();
    let keys = HunyuanVaeConfig::keys(&header(&file)).unwrap();
    let schema = both_halves(|half| cfg.schema(half, &keys));
    assert_same("hunyuan", schema, &file);
}

#[test]
fn a_tiny_decoders_schema_names_exactly_the_tensors_of_its_file() {
    let files: BTreeMap<String, Shapes> = json_fixture("vae/tiny/shapes.json");
    for (name, is_video, latents, patch) in [
        ("taef1", false, 16, 1),
        ("taew2_1", true, 16, 1),
        ("taew2_2", true, 48, 2),
    ] {
        let mut file = files[name].clone();
        file.retain(|key, _| key.starts_with("decoder."));
        let cfg = TinyDecoderConfig::of_header(&header(&file)).unwrap();
        let numbers = (cfg.keys.is_video, cfg.latent_channels, cfg.patch_size);
        assert_eq!(numbers, (is_video, latents, patch));
        assert_same(name, cfg.schema(), &file);
    }
}

/// What is wrong with a config of diffusers' defaults in which one number is another.
fn refusal<T: NetworkConfig>(key: &str, value: &Value) -> String {
    let cfg: T = serde_json::from_value(json!({ key: value })).unwrap();
    cfg.check().unwrap_err()
}

#[test]
fn a_config_of_a_million_layers_is_refused_before_anything_is_counted() {
    let many = json!(1 << 20);
    let (blocks, layers) = ("num_res_blocks", "layers_per_block");
    for (key, found) in [
        (blocks, refusal::<WanVaeConfig>(blocks, &many)),
        (layers, refusal::<KlVaeConfig>(layers, &many)),
        (layers, refusal::<HunyuanVaeConfig>(layers, &many)),
    ] {
        let expected = format!("expected a {key} between 1 and 1000, found 1048576");
        assert_eq!(found, expected);
    }
}

#[test]
fn a_scale_beyond_sense_is_refused() {
    for value in [json!(1e308), json!(1e-30), json!(0), json!(-1)] {
        for text in [
            refusal::<KlVaeConfig>("scaling_factor", &value),
            refusal::<HunyuanVaeConfig>("scaling_factor", &value),
            refusal::<WanVaeConfig>("latents_std", &json!(vec![value.clone(); 16])),
        ] {
            assert!(text.contains("between 1e-6 and 1000000.0"), "{text}");
        }
    }
    let text = refusal::<KlVaeConfig>("shift_factor", &json!(1e308));
    assert!(text.ends_with("found 1e308"), "{text}");
}

#[test]
fn the_default_numbers_are_sound() {
    WanVaeConfig::default().check().unwrap();
    KlVaeConfig::default().check().unwrap();
    HunyuanVaeConfig::default().check().unwrap();
}

#[test]
fn qwen_image_vae_config_is_read_like_the_wan_vae_config() {
    let theirs = json!({"_class_name": "AutoencoderKLQwenImage", "base_dim": 5, "input_channels": 3, "dropout": 0.0});
    let read: WanVaeConfig = serde_json::from_value(theirs.clone()).unwrap();
    read.check().unwrap();
    assert!(WanVaeConfig::is_described_by(&theirs));
    let videos = WanVaeConfig {
        base_dim: 5,
        ..WanVaeConfig::default()
    };
    let keys = WanVaeKeys::of(&header(&Shapes::new()));
    let names = |config: &WanVaeConfig| both_halves(|half| config.schema(half, &keys));
    assert_eq!(names(&read), names(&videos));
    // What has transparency too is another network.
    let layered = json!({"_class_name": "AutoencoderKLQwenImage", "input_channels": 4});
    let read: WanVaeConfig = serde_json::from_value(layered).unwrap();
    assert!(read.check().unwrap_err().contains("found 4 and 3"));
}
