//! Names of keys, prefixes, and configurations that the autoencoders' files may have.

use std::fs;

use safelight_core::networks::NetworkConfig as _;
use tch::{Kind, Tensor};
use tempfile::TempDir;

use super::{
    DECODER_LIMIT, ENCODER_LIMIT, WanVaeConfig, WanVaeDecoder, WanVaeEncoder,
    assert_matches_the_record, config, fixture, fixtures, open, read_with, weights,
};
use crate::weights::Weights;

/// A fixture's file with its tensors changed by `change`.
fn changed(
    name: &str,
    change: impl Fn(&str, Tensor) -> Option<(String, Tensor)>,
) -> (TempDir, Weights) {
    let original = format!("vae/{name}/diffusion_pytorch_model.safetensors");
    let tensors = Tensor::read_safetensors(fixture(&original)).unwrap();
    let (folder, path) = fixtures::write_changed(tensors, change);
    (folder, open(&path, Kind::Float))
}

#[test]
fn weights_of_the_other_generation_are_refused_by_a_key() {
    let err = WanVaeDecoder::new(&config("flat"), &weights("residual", Kind::Float)).unwrap_err();
    assert!(err.to_string().contains("post_quant_conv.weight"), "{err}");
}

#[test]
fn a_file_in_the_dialect_of_the_authors_and_after_any_prefix_gives_the_same_pixels() {
    for (name, prefix, is_original, sample) in [
        ("residual", "", true, "upsamples.2.upsamples.3.resample.1"),
        ("flat", "", true, "upsamples.11.resample.1"),
        ("attended", "", true, "upsamples.7.residual.6"),
        ("flat", "vae.", false, "conv_in"),
        ("flat", "first_stage_model.", true, "conv1"),
        ("flat", "models.wan.vae.", true, "conv1"),
    ] {
        let cfg = config(name);
        let (_folder, weights) = changed(name, |key, tensor| {
            let authors = is_original.then(|| authors_name(&cfg, key));
            let key = authors.unwrap_or_else(|| key.to_owned());
            Some((format!("{prefix}{key}"), tensor))
        });
        assert!(weights.has(&format!("{prefix}decoder.{sample}.weight")));
        let decoder = WanVaeDecoder::new(&cfg, &weights).unwrap();
        let encoder = WanVaeEncoder::new(&cfg, &weights).unwrap();
        assert_matches_the_record(name, &decoder, &encoder, [DECODER_LIMIT, ENCODER_LIMIT]);
        assert_eq!(weights.finish(), [""; 0]);
    }
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

fn refused(name: &str, changes: &[(&str, &str)]) -> String {
    let read = read_with::<WanVaeConfig>(&fixture("vae").join(name), changes);
    read.unwrap_err().to_string()
}

#[test]
fn without_statistics_those_of_wan_2_1_are_taken_where_they_fit() {
    let absent = [
        ("latents_mean", "null"),
        ("latents_std", "null"),
        ("z_dim", "16"),
    ];
    let cfg: WanVaeConfig = read_with(&fixture("vae/flat"), &absent).unwrap();
    assert_eq!((cfg.mean()[15], cfg.std()[0]), (-0.2921, 2.8184));
    let err = refused("flat", &absent[..1]);
    let expected = "expected 4 latents_mean, as many as z_dim, found none";
    assert!(err.starts_with(expected), "{err}");
}

#[test]
fn a_width_that_cannot_be_halved_is_refused() {
    let changes = [("decoder_base_dim", "1"), ("dim_mult", "[1, 1, 1, 1]")];
    let err = refused("flat", &changes);
    assert!(err.contains("can be halved"), "{err}");
    // The residual form halves nothing.
    read_with::<WanVaeConfig>(&fixture("vae/residual"), &changes[1..]).unwrap();
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
        let err = refused("residual", &[(key, value)]);
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
    for (name, factors) in [("residual", (16, 4)), ("flat", (8, 4)), ("shallow", (4, 2))] {
        let cfg = config(name);
        let found = (cfg.spatial_factor(), cfg.temporal_factor());
        assert_eq!(found, factors, "{name}");
    }
}
