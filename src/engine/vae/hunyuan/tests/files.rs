//! What the autoencoder's files may look like: names of keys, prefixes, and configurations.

use safelight_core::model::CatalogError;

use super::*;

#[test]
fn every_key_of_a_half_is_asked_for() {
    let (_folder, file) = weights(Kind::Float);
    HunyuanVaeEncoder::new(&config(), &file).unwrap();
    assert_eq!(HunyuanVaeEncoder::unexpected_keys(&file), [""; 0]);
    assert!(!HunyuanVaeDecoder::unexpected_keys(&file).is_empty());
    HunyuanVaeDecoder::new(&config(), &file).unwrap();
    assert_eq!(file.finish(), [""; 0]);
}

/// Written the other way round than core's table, by replacing text; attention becomes convolutions.
fn comfy(key: &str, tensor: Tensor) -> (String, Tensor) {
    let mut name = key.to_owned();
    for level in 0..4 {
        let from_pixels = format!("up.{}.", 3 - level);
        name = name.replace(&format!("up_blocks.{level}."), &from_pixels);
    }
    for (diffusers, comfy) in [
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
        name = name.replace(diffusers, comfy);
    }
    let tensor = if name.contains("attn_1") && tensor.dim() == 2 {
        tensor.unsqueeze(-1).unsqueeze(-1).unsqueeze(-1)
    } else {
        tensor
    };
    (name, tensor)
}

#[test]
fn files_of_comfy_and_with_a_prefix_give_the_same_pixels() {
    for (prefix, is_comfy, sample) in [
        ("", true, "decoder.up.1.block.0.nin_shortcut.conv.weight"),
        ("vae.", true, "vae.encoder.mid.attn_1.proj_out.bias"),
        (
            "vae.",
            false,
            "vae.decoder.up_blocks.0.resnets.1.norm2.bias",
        ),
    ] {
        let (_folder, path) = changed(|key, tensor| {
            let (name, tensor) = if is_comfy {
                comfy(key, tensor)
            } else {
                (key.to_owned(), tensor)
            };
            Some((format!("{prefix}{name}"), tensor))
        });
        let weights = Weights::open(&path, Kind::Float, Device::Cpu).unwrap();
        assert!(weights.has(sample), "{sample}");
        let (pixels, _) = decode(&weights, &made_up("decode.short", &[1, 4, 4, 2, 1]), None);
        let expected = recorded("decode.short");
        assert_close(prefix, &pixels, &expected, of_decoder("decode.short"));
        let posterior = encode(&weights, "encode.picture", &[1, 3, 1, 24, 16], None);
        let mean = recorded("encode.picture.mean");
        assert_close(prefix, &posterior.mean, &mean, ENCODER_LIMIT);
        assert_eq!(HunyuanVaeDecoder::unexpected_keys(&weights), [""; 0]);
        assert_eq!(weights.finish(), [""; 0]);
    }
}

#[test]
fn a_single_file_says_by_its_shapes_what_its_config_says() {
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
            let (name, tensor) = if is_comfy {
                comfy(key, tensor)
            } else {
                (key.to_owned(), tensor)
            };
            is_own.then_some((name, tensor))
        });
        let found = HunyuanVaeConfig::read(&path).unwrap();
        let expected = HunyuanVaeConfig {
            layers_per_block: 1,
            ..HunyuanVaeConfig::default()
        };
        assert_eq!(found, expected, "{is_comfy} {halves:?}");
    }
}

/// What is read of the fixture's configuration in which one value is replaced; `null` leaves it out.
fn read_with(key: &str, value: &str) -> Result<HunyuanVaeConfig, CatalogError> {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(fixture().join("config.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    match serde_json::from_str(value).unwrap() {
        serde_json::Value::Null => drop(json.as_object_mut().unwrap().remove(key)),
        value => json[key] = value,
    }
    fs::write(folder.path().join("config.json"), json.to_string()).unwrap();
    HunyuanVaeConfig::read(folder.path())
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
        let err = read_with(key, value).unwrap_err().to_string();
        let named = [key, "AutoencoderKLWan", "UpBlock3D"];
        assert!(
            named.iter().any(|name| err.contains(name)),
            "{key} = {value}: {err}"
        );
    }
    assert_eq!(read_with("scaling_factor", "null").unwrap(), config());
}
