//! What the autoencoder's files may look like: names of keys, prefixes, and configurations.

use std::fs;
use std::path::Path;

use safelight_core::model::CatalogError;
use safelight_core::networks::NetworkConfig as _;
use tch::{Device, Kind, Tensor};

use super::{
    DECODER_LIMIT, ENCODER_LIMIT, KlVaeConfig, KlVaeDecoder, KlVaeEncoder, NAMES, changed, config,
    decode, distance, encode, fixture, open, recorded, weights,
};
use crate::weights::Weights;

#[test]
fn every_key_of_a_half_is_asked_for() {
    for name in NAMES {
        let (_folder, file) = weights(name);
        KlVaeEncoder::new(&config(name), &file).unwrap();
        assert_eq!(KlVaeEncoder::unexpected_keys(&file), [""; 0]);
        assert!(!KlVaeDecoder::unexpected_keys(&file).is_empty());
        KlVaeDecoder::new(&config(name), &file).unwrap();
        assert_eq!(file.finish(), [""; 0]);
    }
}

fn assert_matches_the_record(name: &str, weights: &Weights) {
    let decoder = KlVaeDecoder::new(&config(name), weights).unwrap();
    let pixels = decode(&decoder, &recorded(name, "decode.input"));
    let off = distance(&pixels, &recorded(name, "decode.output"));
    assert!(off < DECODER_LIMIT, "{name}: pixels are off by {off}");
    let encoder = KlVaeEncoder::new(&config(name), weights).unwrap();
    let mean = encode(&encoder, &recorded(name, "encode.input")).mean;
    let off = distance(&mean, &recorded(name, "encode.mean"));
    assert!(off < ENCODER_LIMIT, "{name}: the mean is off by {off}");
}

/// Written the other way round than core's table, by replacing text; attention becomes convolutions.
fn authors(levels: usize, key: &str, tensor: Tensor) -> (String, Tensor) {
    let mut name = key.to_owned();
    for level in 0..levels {
        let from_pixels = levels - 1 - level;
        name = name.replace(
            &format!("up_blocks.{level}."),
            &format!("up.{from_pixels}."),
        );
    }
    for (diffusers, authors) in [
        ("down_blocks.", "down."),
        ("mid_block.resnets.0.", "mid.block_1."),
        ("mid_block.resnets.1.", "mid.block_2."),
        (".resnets.", ".block."),
        ("downsamplers.0.", "downsample."),
        ("upsamplers.0.", "upsample."),
        ("conv_shortcut", "nin_shortcut"),
        ("mid_block.attentions.0.", "mid.attn_1."),
        ("group_norm", "norm"),
        ("to_q", "q"),
        ("to_k", "k"),
        ("to_v", "v"),
        ("to_out.0", "proj_out"),
        ("conv_norm_out", "norm_out"),
    ] {
        name = name.replace(diffusers, authors);
    }
    let tensor = if name.contains("attn_1") && tensor.dim() == 2 {
        tensor.unsqueeze(-1).unsqueeze(-1)
    } else {
        tensor
    };
    (name, tensor)
}

#[test]
fn a_file_in_the_dialect_of_the_authors_gives_the_same_pixels() {
    for (name, levels, sample) in [
        ("flux", 4, "decoder.up.0.block.0.nin_shortcut.weight"),
        ("flux", 4, "decoder.mid.attn_1.proj_out.bias"),
        ("other", 3, "decoder.up.2.upsample.conv.weight"),
    ] {
        let (_folder, path) = changed(name, |key, tensor| Some(authors(levels, key, tensor)));
        let weights = open(&path, Kind::Float);
        assert!(weights.has(sample));
        assert_matches_the_record(name, &weights);
        assert_eq!(weights.finish(), [""; 0]);
    }
}

#[test]
fn a_file_with_the_attention_names_of_old_gives_the_same_pixels() {
    for is_convolution in [false, true] {
        let (_folder, path) = changed("flux", |key, tensor| {
            let mut name = key.to_owned();
            for (new, old) in [
                ("to_q", "query"),
                ("to_k", "key"),
                ("to_v", "value"),
                ("to_out.0", "proj_attn"),
            ] {
                name = name.replace(new, old);
            }
            let is_matrix = name.contains("attentions") && tensor.dim() == 2;
            let tensor = if is_matrix && is_convolution {
                tensor.unsqueeze(-1).unsqueeze(-1)
            } else {
                tensor
            };
            Some((name, tensor))
        });
        let weights = open(&path, Kind::Float);
        assert_matches_the_record("flux", &weights);
        assert_eq!(weights.finish(), [""; 0]);
    }
}

#[test]
fn a_file_with_a_prefix_and_other_networks_in_it_gives_the_same_pixels() {
    for (prefix, is_original) in [
        ("vae.", true),
        ("vae.", false),
        ("first_stage_model.", true),
        ("models.flux.vae.", false),
    ] {
        let (_folder, path) = changed("flux", |key, tensor| {
            let (name, tensor) = if is_original {
                authors(4, key, tensor)
            } else {
                (key.to_owned(), tensor)
            };
            Some((format!("{prefix}{name}"), tensor))
        });
        let weights = open(&path, Kind::Float);
        assert_matches_the_record("flux", &weights);
        assert_eq!(KlVaeDecoder::unexpected_keys(&weights), [""; 0]);
    }
}

#[test]
fn of_a_file_with_a_prefix_only_what_is_behind_it_can_be_unexpected() {
    let (_folder, path) = changed("other", |key, tensor| {
        Some(match key {
            "quant_conv.bias" => ("text_encoder.mid_block.bias".to_owned(), tensor),
            "quant_conv.weight" => ("vae.odd.weight".to_owned(), tensor),
            _ => (format!("vae.{key}"), tensor),
        })
    });
    let weights = open(&path, Kind::Float);
    KlVaeDecoder::new(&config("other"), &weights).unwrap();
    assert_eq!(KlVaeDecoder::unexpected_keys(&weights), ["vae.odd.weight"]);
}

#[test]
fn a_missing_key_and_one_of_the_wrong_shape_are_named_as_in_the_file() {
    let gone = "decoder.up_blocks.1.upsamplers.0.conv.bias";
    let (_folder, path) = changed("flux", |key, tensor| {
        (key != gone).then(|| (key.to_owned(), tensor))
    });
    let weights = open(&path, Kind::Float);
    let err = KlVaeDecoder::new(&config("flux"), &weights).unwrap_err();
    assert!(err.to_string().contains(gone), "{err}");
    KlVaeEncoder::new(&config("flux"), &weights).unwrap();
    let bent = "encoder.mid_block.attentions.0.to_v.weight";
    let (_folder, path) = changed("flux", |key, tensor| {
        let tensor = if key == bent {
            tensor.view([-1])
        } else {
            tensor
        };
        Some((key.to_owned(), tensor))
    });
    let err = KlVaeEncoder::new(&config("flux"), &open(&path, Kind::Float)).unwrap_err();
    assert!(err.to_string().contains(bent), "{err}");
}

/// A file with FLUX.1's own widths, too wide for anything but its shapes, with each tensor a number for short: the
/// keys whose shapes are asked for have them.
fn of_published_widths(is_original: bool, halves: &[&str]) -> (tempfile::TempDir, KlVaeConfig) {
    let (folder, path) = changed("flux", |key, tensor| {
        halves.iter().any(|half| key.starts_with(half)).then(|| {
            let wide = tensor.size().into_iter().map(|edge| match edge {
                8 => 128,
                16 if !key.contains("decoder.conv_in") => 256,
                24 => 512,
                edge => edge,
            });
            let wide: Vec<i64> = match (tensor.dim(), key) {
                (_, "encoder.conv_out.weight" | "decoder.conv_in.weight") => tensor.size(),
                (4, _) => wide.take(1).chain([1, 1, 1]).collect(),
                _ => wide.take(1).collect(),
            };
            let tensor = Tensor::zeros(wide, (Kind::BFloat16, Device::Cpu));
            let name = if is_original {
                authors(4, key, tensor.copy()).0
            } else {
                key.to_owned()
            };
            (format!("vae.{name}"), tensor)
        })
    });
    let cfg = KlVaeConfig::read(&path).unwrap();
    (folder, cfg)
}

#[test]
fn a_single_file_says_by_its_shapes_what_the_published_config_says() {
    for (is_original, halves) in [
        (true, &["encoder", "decoder"][..]),
        (false, &["encoder", "decoder"]),
        (true, &["decoder"]),
        (false, &["encoder"]),
    ] {
        let (_folder, found) = of_published_widths(is_original, halves);
        let expected = KlVaeConfig {
            block_out_channels: vec![128, 256, 512, 512],
            norm_num_groups: 32,
            // No shape says it.
            down_block_types: None,
            up_block_types: None,
            ..config("flux")
        };
        assert_eq!(found, expected);
        assert_eq!((found.scaling_factor, found.shift()), (0.3611, 0.1159));
    }
}

#[test]
fn shapes_that_leave_something_open_are_refused() {
    let refused = |path: &Path| KlVaeConfig::read(path).unwrap_err().to_string();
    let same = |key: &str, tensor: Tensor| Some((key.to_owned(), tensor));
    let (_folder, path) = changed("flux", same);
    assert!(refused(&path).contains("norm_num_groups (32)"));
    let (_folder, path) = changed("other", same);
    assert!(refused(&path).contains("no config.json says"));
    let (_folder, path) = changed("other", |key, tensor| {
        (!key.contains("conv_in")).then(|| (key.to_owned(), tensor))
    });
    assert!(refused(&path).contains("expected a picture VAE"));
}

#[test]
fn a_config_beside_a_file_counts_where_the_file_is_the_folders_own() {
    let (folder, path) = changed("other", |key, tensor| Some((key.to_owned(), tensor)));
    let text = fs::read(fixture("other").join("config.json")).unwrap();
    fs::write(folder.path().join("config.json"), text).unwrap();
    // With another file beside it, neither is what the folder is read from.
    fs::copy(&path, folder.path().join("another.safetensors")).unwrap();
    KlVaeConfig::read(&path).unwrap_err();
    let own = folder.path().join("diffusion_pytorch_model.safetensors");
    fs::rename(path, &own).unwrap();
    assert_eq!(KlVaeConfig::read(&own).unwrap(), config("other"));
}

/// What is read of a fixture's configuration in which one value is replaced; `null` leaves it out.
fn read_with(name: &str, key: &str, value: &str) -> Result<KlVaeConfig, CatalogError> {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(fixture(name).join("config.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    match serde_json::from_str(value).unwrap() {
        serde_json::Value::Null => drop(json.as_object_mut().unwrap().remove(key)),
        value => json[key] = value,
    }
    fs::write(folder.path().join("config.json"), json.to_string()).unwrap();
    KlVaeConfig::read(folder.path())
}

#[test]
fn what_a_config_leaves_out_is_as_in_diffusers() {
    let cfg = read_with("other", "use_quant_conv", "null").unwrap();
    assert_eq!(cfg, config("other"));
    assert_eq!(cfg.shift(), 0.0);
    assert_eq!(cfg.spatial_factor(), 4);
}

#[test]
fn a_configuration_that_makes_no_network_is_refused_by_name() {
    for (key, value) in [
        ("_class_name", "\"AutoencoderKLWan\""),
        ("in_channels", "4"),
        ("out_channels", "1"),
        ("act_fn", "\"gelu\""),
        ("block_out_channels", "[]"),
        ("block_out_channels", "[8, 16, 24, 0]"),
        ("block_out_channels", "[8, 16]"),
        ("block_out_channels", "\"wide\""),
        ("down_block_types", "[\"a\", \"b\", \"c\", \"d\"]"),
        ("up_block_types", "[\"AttnUpDecoderBlock2D\"]"),
        ("layers_per_block", "0"),
        ("latent_channels", "99999999999"),
        ("norm_num_groups", "0"),
        ("norm_num_groups", "5"),
        ("scaling_factor", "0"),
        ("scaling_factor", "\"much\""),
        ("use_quant_conv", "3"),
    ] {
        let err = read_with("flux", key, value).unwrap_err().to_string();
        let named = [
            key,
            "AutoencoderKLWan",
            "UpDecoderBlock2D",
            "DownEncoderBlock2D",
            "wide",
            "much",
            "boolean",
        ];
        assert!(
            named.iter().any(|name| err.contains(name)),
            "{key} = {value}: {err}"
        );
    }
}
