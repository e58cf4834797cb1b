//! Names of keys, prefixes, and configurations that the autoencoder's files may have.

use std::fs;
use std::path::Path;

use safelight_core::networks::NetworkConfig as _;
use tch::{Device, Kind, Tensor};

use super::{
    DECODER_LIMIT, ENCODER_LIMIT, KlVaeConfig, KlVaeDecoder, KlVaeEncoder, NAMES,
    assert_matches_the_record, changed, config, folder_of, open, read_with, unchanged, weights,
};

#[test]
fn every_key_of_a_half_is_read() {
    for name in NAMES {
        let file = weights(name, Kind::Float);
        KlVaeEncoder::new(&config(name), &file).unwrap();
        assert_eq!(KlVaeEncoder::unexpected_keys(&file), [""; 0]);
        assert!(!KlVaeDecoder::unexpected_keys(&file).is_empty());
        KlVaeDecoder::new(&config(name), &file).unwrap();
        assert_eq!(file.finish(), [""; 0]);
    }
}

fn replaced(key: &str, names: &[(&str, &str)]) -> String {
    let replace = |key: String, (from, to): &(&str, &str)| key.replace(from, to);
    names.iter().fold(key.to_owned(), replace)
}

/// The authors' name and form of a tensor, written the other way round than core's table, by replacing text.
///
/// `levels`: of the decoder. `dims`: of convolutions, which the attention's matrices become.
pub(crate) fn authors(levels: usize, dims: usize, key: &str, tensor: Tensor) -> (String, Tensor) {
    let mut name = key.to_owned();
    for level in 0..levels {
        let from_pixels = format!("up.{}.", levels - 1 - level);
        name = name.replace(&format!("up_blocks.{level}."), &from_pixels);
    }
    let names = [
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
    ];
    let name = replaced(&name, &names);
    let is_matrix = name.contains("attn_1") && tensor.dim() == 2;
    let tensor = if is_matrix {
        convolution(dims, &tensor)
    } else {
        tensor
    };
    (name, tensor)
}

fn convolution(dims: usize, matrix: &Tensor) -> Tensor {
    let mut size = matrix.size();
    size.resize(dims, 1);
    matrix.view(&size[..])
}

fn published(key: &str, tensor: Tensor) -> (String, Tensor) {
    authors(4, 4, key, tensor)
}

/// The attention names that diffusers had at first.
fn old(key: &str, tensor: Tensor) -> (String, Tensor) {
    let names = [
        ("to_q", "query"),
        ("to_k", "key"),
        ("to_v", "value"),
        ("to_out.0", "proj_attn"),
    ];
    (replaced(key, &names), tensor)
}

fn old_conv(key: &str, tensor: Tensor) -> (String, Tensor) {
    let is_matrix = key.contains("attentions") && tensor.dim() == 2;
    let tensor = if is_matrix {
        convolution(4, &tensor)
    } else {
        tensor
    };
    old(key, tensor)
}

#[test]
fn a_file_in_any_dialect_and_after_any_prefix_gives_the_same_pixels() {
    type Rename = fn(&str, Tensor) -> (String, Tensor);
    let of_3_levels = |key: &str, tensor| authors(3, 4, key, tensor);
    let cases: [(&str, &str, Rename, &str); 9] = [
        ("flux", "", published, "up.0.block.0.nin_shortcut.weight"),
        ("flux", "", published, "mid.attn_1.proj_out.bias"),
        ("other", "", of_3_levels, "up.2.upsample.conv.weight"),
        ("flux", "", old, "mid_block.attentions.0.query.bias"),
        ("flux", "", old_conv, "mid_block.attentions.0.key.bias"),
        ("flux", "vae.", published, "mid.attn_1.q.bias"),
        ("flux", "vae.", unchanged, "conv_in.bias"),
        ("flux", "first_stage_model.", published, "conv_in.bias"),
        ("flux", "models.flux.vae.", unchanged, "conv_in.bias"),
    ];
    for (name, prefix, rename, sample) in cases {
        let (_folder, path) = changed(name, |key, tensor| {
            let (key, tensor) = rename(key, tensor);
            Some((format!("{prefix}{key}"), tensor))
        });
        let weights = open(&path, Kind::Float);
        assert!(weights.has(&format!("{prefix}decoder.{sample}")));
        assert_matches_the_record(name, &weights, [DECODER_LIMIT, ENCODER_LIMIT]);
        assert_eq!(KlVaeDecoder::unexpected_keys(&weights), [""; 0]);
        assert_eq!(weights.finish(), [""; 0]);
    }
}

#[test]
fn only_keys_under_the_vae_prefix_can_be_unexpected() {
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

/// The config of a file with FLUX.1's own widths, too wide for anything but its shapes, with each tensor a number for
/// short: the keys whose shapes are read have them.
fn of_published_widths(is_original: bool, halves: &[&str]) -> KlVaeConfig {
    let (_folder, path) = changed("flux", |key, tensor| {
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
            let rename = if is_original { published } else { unchanged };
            (format!("vae.{}", rename(key, tensor.copy()).0), tensor)
        })
    });
    KlVaeConfig::read(&path).unwrap()
}

#[test]
fn kl_vae_config_is_inferred_from_tensor_shapes() {
    for (is_original, halves) in [
        (true, &["encoder", "decoder"][..]),
        (false, &["encoder", "decoder"]),
        (true, &["decoder"]),
        (false, &["encoder"]),
    ] {
        let found = of_published_widths(is_original, halves);
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
    for (name, expected) in [
        ("flux", "norm_num_groups (32)"),
        ("other", "no config.json says"),
    ] {
        let (_folder, path) = changed(name, |key, tensor| Some(unchanged(key, tensor)));
        assert!(refused(&path).contains(expected));
    }
    let (_folder, path) = changed("other", |key, tensor| {
        (!key.contains("conv_in")).then(|| (key.to_owned(), tensor))
    });
    assert!(refused(&path).contains("expected an image VAE"));
}

#[test]
fn config_json_applies_only_to_the_main_weights_file_of_its_folder() {
    let (folder, path) = changed("other", |key, tensor| Some(unchanged(key, tensor)));
    let text = fs::read(folder_of("other").join("config.json")).unwrap();
    fs::write(folder.path().join("config.json"), text).unwrap();
    // With another file beside it, neither is what the folder is read from.
    fs::copy(&path, folder.path().join("another.safetensors")).unwrap();
    KlVaeConfig::read(&path).unwrap_err();
    let own = folder.path().join("diffusion_pytorch_model.safetensors");
    fs::rename(path, &own).unwrap();
    assert_eq!(KlVaeConfig::read(&own).unwrap(), config("other"));
}

#[test]
fn missing_config_values_default_as_in_diffusers() {
    let cfg = read_with(&folder_of("other"), &[("use_quant_conv", "null")]);
    let cfg: KlVaeConfig = cfg.unwrap();
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
        let err = read_with::<KlVaeConfig>(&folder_of("flux"), &[(key, value)]);
        let err = err.unwrap_err().to_string();
        let by_value = "AutoencoderKLWan UpDecoderBlock2D DownEncoderBlock2D wide much boolean";
        let mut named = by_value.split(' ').chain([key]);
        let holds = named.any(|name| err.contains(name));
        assert!(holds, "{key} = {value}: {err}");
    }
}
