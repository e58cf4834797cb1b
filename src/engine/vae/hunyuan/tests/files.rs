//! Names of keys, prefixes, and configurations that the autoencoder's files may have.

use super::*;
use crate::vae::kl::tests::files::authors;

/// A tensor as ComfyUI's files have it, or diffusers'.
fn named(is_comfy: bool, key: &str, tensor: Tensor) -> (String, Tensor) {
    if is_comfy {
        authors(4, 5, key, tensor)
    } else {
        (key.to_owned(), tensor)
    }
}

#[test]
fn files_of_comfy_and_with_a_prefix_give_the_same_pixels() {
    for (prefix, is_comfy, sample) in [
        ("", true, "up.1.block.0.nin_shortcut.conv.weight"),
        ("vae.", true, "mid.attn_1.proj_out.bias"),
        ("vae.", false, "up_blocks.0.resnets.1.norm2.bias"),
    ] {
        let (_folder, path) = changed(|key, tensor| {
            let (name, tensor) = named(is_comfy, key, tensor);
            Some((format!("{prefix}{name}"), tensor))
        });
        let weights = open(&path, Kind::Float);
        assert!(weights.has(&format!("{prefix}decoder.{sample}")));
        let limits = [of_decoder("decode.short"), ENCODER_LIMIT];
        assert_matches_the_record(sample, &weights, limits);
        assert_eq!(HunyuanVaeDecoder::unexpected_keys(&weights), [""; 0]);
        assert_eq!(weights.finish(), [""; 0]);
    }
}

#[test]
fn hunyuan_vae_config_is_inferred_from_tensor_shapes() {
    for (is_comfy, halves) in [
        (true, &["encoder", "decoder"][..]),
        (false, &["encoder", "decoder"]),
        (true, &["decoder"]),
        (false, &["encoder"]),
    ] {
        // With the published widths, too wide for anything but its shapes.
        let (_folder, path) = changed(|key, tensor| {
            let is_own = halves.iter().any(|half| key.starts_with(half));
            let wide = |edge: i64| match edge {
                4 if !key.contains("conv_in") => 128,
                8 if !key.contains("encoder.conv_out") => 256,
                12 => 512,
                edge => edge,
            };
            let mut size = tensor.size();
            size[0] = wide(size[0]);
            for edge in size.iter_mut().skip(2) {
                *edge = 1;
            }
            match key {
                "encoder.conv_in.conv.weight" => size[0] = 128,
                "encoder.conv_out.conv.weight" => size[0] = 2 * 16,
                "decoder.conv_in.conv.weight" => size[1] = 16,
                _ => {}
            }
            let tensor = Tensor::zeros(size, (Kind::BFloat16, Device::Cpu));
            is_own.then(|| named(is_comfy, key, tensor))
        });
        let found = HunyuanVaeConfig::read(&path).unwrap();
        let expected = HunyuanVaeConfig {
            layers_per_block: 1,
            ..HunyuanVaeConfig::default()
        };
        assert_eq!(found, expected, "{is_comfy} {halves:?}");
    }
}

#[test]
fn a_configuration_that_makes_no_network_is_refused_by_name() {
    for (key, value) in [
        ("_class_name", "\"AutoencoderKLWan\""),
        ("in_channels", "4"),
        ("temporal_compression_ratio", "8"),
        ("act_fn", "\"gelu\""),
        ("block_out_channels", "[]"),
        ("block_out_channels", "[8, 16, 24, 0]"),
        ("up_block_types", "[\"AttnUpDecoderBlock2D\"]"),
        ("layers_per_block", "0"),
        ("norm_num_groups", "5"),
        ("scaling_factor", "0"),
    ] {
        let err = read_with::<HunyuanVaeConfig>(&fixture("vae/hunyuan"), &[(key, value)]);
        let err = err.unwrap_err().to_string();
        let mut named = [key, "AutoencoderKLWan", "UpBlock3D"].into_iter();
        let holds = named.any(|name| err.contains(name));
        assert!(holds, "{key} = {value}: {err}");
    }
    let cfg = read_with(&fixture("vae/hunyuan"), &[("scaling_factor", "null")]);
    assert_eq!(cfg.map_err(|err| err.to_string()), Ok(config()));
}
