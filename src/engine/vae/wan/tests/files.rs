//! What the autoencoders' files may look like: names of keys, prefixes, and configurations.

use std::fs;

use safelight_core::model::CatalogError;
use safelight_core::networks::NetworkConfig as _;
use tch::Tensor;

use super::{
    DECODER_LIMIT, ENCODER_LIMIT, NAMES, WanVaeConfig, WanVaeDecoder, WanVaeEncoder, config,
    decode, distance, encode, fixture, open, recorded, weights,
};
use crate::weights::Weights;

#[test]
fn every_key_of_a_half_is_asked_for() {
    for name in NAMES {
        let file = weights(name);
        WanVaeEncoder::new(&config(name), &file).unwrap();
        assert_eq!(WanVaeEncoder::unexpected_keys(&file), [""; 0]);
        assert!(!WanVaeDecoder::unexpected_keys(&file).is_empty());
        WanVaeDecoder::new(&config(name), &file).unwrap();
        assert_eq!(WanVaeDecoder::unexpected_keys(&file), [""; 0]);
        assert_eq!(file.finish(), [""; 0]);
    }
}

/// A fixture's file with its tensors changed by `change`.
fn changed(
    name: &str,
    change: impl Fn(&str, Tensor) -> Option<(String, Tensor)>,
) -> (tempfile::TempDir, Weights) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("diffusion_pytorch_model.safetensors");
    let original = fixture(name).join("diffusion_pytorch_model.safetensors");
    let tensors: Vec<(String, Tensor)> = Tensor::read_safetensors(original)
        .unwrap()
        .into_iter()
        .filter_map(|(key, tensor)| change(&key, tensor))
        .collect();
    Tensor::write_safetensors(&tensors, &path).unwrap();
    let weights = open(&path);
    (folder, weights)
}

#[test]
fn a_missing_key_is_named() {
    for (name, gone) in [
        ("residual", "decoder.up_blocks.1.upsampler.time_conv.bias"),
        ("flat", "decoder.up_blocks.1.upsamplers.0.time_conv.bias"),
    ] {
        let kept = |key: &str, tensor| (key != gone).then(|| (key.to_owned(), tensor));
        let (_folder, weights) = changed(name, kept);
        let err = WanVaeDecoder::new(&config(name), &weights).unwrap_err();
        assert!(err.to_string().contains(gone), "{err}");
        WanVaeEncoder::new(&config(name), &weights).unwrap();
    }
}

#[test]
fn a_key_of_the_wrong_shape_is_named() {
    let bent = "encoder.down_blocks.0.resnets.1.conv2.weight";
    let (_folder, weights) = changed("residual", |key, tensor| {
        let tensor = if key == bent {
            tensor.squeeze().narrow(0, 0, 1)
        } else {
            tensor
        };
        Some((key.to_owned(), tensor))
    });
    let err = WanVaeEncoder::new(&config("residual"), &weights).unwrap_err();
    assert!(err.to_string().contains(bent), "{err}");
}

#[test]
fn weights_of_the_other_generation_are_refused_by_a_key() {
    let err = WanVaeDecoder::new(&config("flat"), &weights("residual")).unwrap_err();
    assert!(err.to_string().contains("post_quant_conv.weight"), "{err}");
}

fn assert_matches_the_record(name: &str, weights: &Weights) {
    let decoder = WanVaeDecoder::new(&config(name), weights).unwrap();
    let pixels = Tensor::cat(&decode(&decoder, &recorded(name, "decode.input")), 2);
    let off = distance(&pixels, &recorded(name, "decode.output"));
    assert!(off < DECODER_LIMIT, "{name}: pixels are off by {off}");
    let encoder = WanVaeEncoder::new(&config(name), weights).unwrap();
    let mean = encode(&encoder, &recorded(name, "encode.input")).mean;
    let off = distance(&mean, &recorded(name, "encode.mean"));
    assert!(off < ENCODER_LIMIT, "{name}: the mean is off by {off}");
}

#[test]
fn a_file_in_the_dialect_of_the_authors_gives_the_same_pixels() {
    for (name, sample) in [
        (
            "residual",
            "decoder.upsamples.2.upsamples.3.resample.1.weight",
        ),
        ("flat", "decoder.upsamples.11.resample.1.weight"),
        ("attended", "decoder.upsamples.7.residual.6.weight"),
    ] {
        let (_folder, weights) = changed(name, |key, tensor| {
            Some((authors_name(&config(name), key), tensor))
        });
        assert!(weights.has(sample));
        assert_matches_the_record(name, &weights);
        assert_eq!(weights.finish(), [""; 0]);
    }
}

#[test]
fn a_file_with_a_prefix_and_other_networks_in_it_gives_the_same_pixels() {
    for (prefix, is_original) in [
        ("vae.", false),
        ("first_stage_model.", true),
        ("models.wan.vae.", true),
    ] {
        let (_folder, weights) = changed("flat", |key, tensor| {
            let name = if is_original {
                authors_name(&config("flat"), key)
            } else {
                key.to_owned()
            };
            Some((format!("{prefix}{name}"), tensor))
        });
        assert_matches_the_record("flat", &weights);
        assert_eq!(WanVaeDecoder::unexpected_keys(&weights), [""; 0]);
    }
}

#[test]
fn of_a_file_with_a_prefix_only_what_is_behind_it_can_be_unexpected() {
    let (_folder, weights) = changed("flat", |key, tensor| {
        Some(match key {
            // As if they were of another network, and of none.
            "quant_conv.bias" => ("text_encoder.shared.bias".to_owned(), tensor),
            "quant_conv.weight" => ("vae.odd.weight".to_owned(), tensor),
            _ => (format!("vae.{key}"), tensor),
        })
    });
    WanVaeDecoder::new(&config("flat"), &weights).unwrap();
    assert_eq!(WanVaeDecoder::unexpected_keys(&weights), ["vae.odd.weight"]);
}

/// Written the other way round than core's table, by replacing text.
fn authors_name(cfg: &WanVaeConfig, key: &str) -> String {
    let rules = [
        (".norm1.", ".residual.0."),
        (".norm2.", ".residual.3."),
        (".conv1.", ".residual.2."),
        (".conv2.", ".residual.6."),
        (".conv_shortcut.", ".shortcut."),
        (".conv_in.", ".conv1."),
        (".norm_out.", ".head.0."),
        (".conv_out.", ".head.2."),
        (".mid_block.resnets.0.", ".middle.0."),
        (".mid_block.attentions.0.", ".middle.1."),
        (".mid_block.resnets.1.", ".middle.2."),
        (".post_quant_conv.", ".conv2."),
        (".quant_conv.", ".conv1."),
    ];
    let mut name = format!(".{key}");
    for (diffusers, authors) in rules {
        name = name.replace(diffusers, authors);
    }
    let mut name = name.trim_start_matches('.').to_owned();
    if !cfg.is_residual {
        name = name.replace(".down_blocks.", ".downsamples.");
        let count = cfg.num_res_blocks + 1;
        for level in 0..cfg.dim_mult.len() as i64 {
            let first = level * (count + 1);
            for i in 0..count {
                let resnet = format!(".up_blocks.{level}.resnets.{i}.");
                name = name.replace(&resnet, &format!(".upsamples.{}.", first + i));
            }
            let step = format!(".up_blocks.{level}.upsamplers.0.");
            name = name.replace(&step, &format!(".upsamples.{}.", first + count));
        }
        return name;
    }
    for (blocks, list, last) in [
        ("down_blocks", "downsamples", 2),
        ("up_blocks", "upsamples", 3),
    ] {
        for level in 0..4 {
            let start = format!(".{blocks}.{level}.");
            let nested = format!(".{list}.{level}.{list}.");
            name = name.replace(&format!("{start}resnets."), &nested);
            let resampler = blocks.replace("_blocks", "sampler");
            name = name.replace(&format!("{start}{resampler}."), &format!("{nested}{last}."));
        }
    }
    name
}

/// What is read of a fixture's configuration in which some values are replaced; `null` leaves one out.
fn read_with(name: &str, changes: &[(&str, &str)]) -> Result<WanVaeConfig, CatalogError> {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(fixture(name).join("config.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (key, value) in changes {
        json[key] = serde_json::from_str(value).unwrap();
    }
    fs::write(folder.path().join("config.json"), json.to_string()).unwrap();
    WanVaeConfig::read(folder.path())
}

fn config_error(key: &str, value: &str) -> String {
    read_with("residual", &[(key, value)])
        .unwrap_err()
        .to_string()
}

#[test]
fn without_statistics_those_of_wan_2_1_are_taken_where_they_fit() {
    let absent = [
        ("latents_mean", "null"),
        ("latents_std", "null"),
        ("z_dim", "16"),
    ];
    let cfg = read_with("flat", &absent).unwrap();
    assert_eq!(cfg.mean()[15], -0.2921);
    assert_eq!(cfg.std()[0], 2.8184);
    let err = read_with("flat", &absent[..1]).unwrap_err().to_string();
    let expected = "expected 4 latents_mean, as many as z_dim, found none";
    assert!(err.starts_with(expected), "{err}");
}

#[test]
fn a_width_that_cannot_be_halved_is_refused() {
    let changes = [("decoder_base_dim", "1"), ("dim_mult", "[1, 1, 1, 1]")];
    let err = read_with("flat", &changes).unwrap_err().to_string();
    assert!(err.contains("can be halved"), "{err}");
    // The residual form halves nothing.
    read_with("residual", &[("dim_mult", "[1, 1, 1, 1]")]).unwrap();
}

#[test]
fn a_configuration_that_makes_no_network_is_refused_by_name() {
    for (key, value) in [
        ("base_dim", "0"),
        ("decoder_base_dim", "-3"),
        ("z_dim", "99999999999"),
        ("num_res_blocks", "0"),
        ("patch_size", "0"),
        ("patch_size", "4"),
        ("dim_mult", "[]"),
        ("dim_mult", "[1, 2, 3, 5]"),
        ("temperal_downsample", "[true]"),
        ("temperal_downsample", "[true, true, true]"),
        ("latents_mean", "[0.5]"),
        ("latents_std", "[1, 1, 1, 1, 0]"),
        ("in_channels", "3"),
        ("out_channels", "4"),
        ("scale_factor_spatial", "8"),
        ("scale_factor_temporal", "8"),
    ] {
        let err = config_error(key, value);
        let named = key.trim_start_matches("latents_");
        let by_factor = key == "patch_size" && err.contains("scale_factor_spatial");
        assert!(err.contains(named) || by_factor, "{key} = {value}: {err}");
    }
}

#[test]
fn a_configuration_that_is_no_json_or_not_there_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    // Without a config, weights would do.
    let err = WanVaeConfig::read(folder.path()).unwrap_err();
    assert!(err.to_string().contains("weight file"), "{err}");
    fs::write(folder.path().join("config.json"), "{\"base_dim\": ").unwrap();
    let err = WanVaeConfig::read(folder.path()).unwrap_err();
    assert!(err.to_string().contains("this config is damaged"), "{err}");
}

#[test]
fn the_factors_follow_from_the_levels() {
    let residual = config("residual");
    assert_eq!(
        (residual.spatial_factor(), residual.temporal_factor()),
        (16, 4)
    );
    let flat = config("flat");
    assert_eq!((flat.spatial_factor(), flat.temporal_factor()), (8, 4));
    let shallow = config("shallow");
    assert_eq!(
        (shallow.spatial_factor(), shallow.temporal_factor()),
        (4, 2)
    );
}
