//! Networks of LTX-2.3: headers against configs of diffusers, schemas against written tensors, and the published sizes.

use std::fmt::Debug;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::formats::weights::WeightSet;
use crate::networks::ltx2::*;
use crate::networks::*;
use crate::testing::json_fixture;
use crate::testing::made_up::{self, Shapes, write};

/// Tensors that are written and not read: the encoder of the sound, a part of the spectrum's inverse.
const UNREAD: [&str; 2] = ["encoder.", "mel_stft.stft_fn.inverse_basis"];

/// The config of a network of the fixture as its header shows it, and as its `config.json` says it.
fn assert_known<C: NetworkConfig + DeserializeOwned + Debug + PartialEq>(
    component: &str,
    reads_encoder: bool,
) {
    let facts = json_fixture::<Value>("ltx2/networks.json")[component].take();
    let shapes: Shapes = serde_json::from_value(facts["shapes"].clone()).unwrap();
    let stated: C = serde_json::from_value(facts["config"].clone()).unwrap();
    stated.check().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("model.safetensors");
    write(&place, &shapes, "F32");
    let found = C::read(&place).unwrap();
    assert_eq!(found, stated, "{component}");
    // Both halves of an autoencoder have the statistics of the latents.
    let read = found.tensors(&WeightSet::open(&place).unwrap());
    let read: Shapes = read.into_iter().map(|it| (it.name, it.shape)).collect();
    let is_read = |name: &String| {
        let mut unread = UNREAD.iter().skip(usize::from(reads_encoder));
        !unread.any(|start| name.starts_with(start))
    };
    let written = shapes.into_iter().filter(|(name, _)| is_read(name));
    assert_eq!(read, written.collect::<Shapes>(), "{component}");
}

#[test]
fn headers_show_what_the_configs_of_diffusers_say() {
    assert_known::<Ltx2TransformerConfig>("transformer", true);
    assert_known::<Ltx2VaeConfig>("vae", true);
    assert_known::<Ltx2AudioVaeConfig>("audio_vae", false);
    assert_known::<Ltx2VocoderConfig>("vocoder", true);
    assert_known::<LatentUpscalerConfig>("latent_upsampler", true);
}

#[test]
fn the_text_connectors_of_a_header_have_the_blocks_that_diffusers_wrote() {
    let facts = json_fixture::<Value>("ltx2/networks.json")["connectors"].take();
    let shapes: Shapes = serde_json::from_value(facts["shapes"].clone()).unwrap();
    let stated: Ltx2ConnectorsConfig = serde_json::from_value(facts["config"].clone()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("model.safetensors");
    write(&place, &shapes, "F32");
    let found = Ltx2ConnectorsConfig::read(&place).unwrap();
    // A header does not show the number of hidden states: it is that of the published model.
    let found = Ltx2ConnectorsConfig {
        caption_channels: stated.caption_channels,
        text_proj_in_factor: stated.text_proj_in_factor,
        ..found
    };
    assert_eq!(found, stated);
    let read = found.tensors(&WeightSet::open(&place).unwrap());
    assert_eq!(made_up::shapes_of(read), shapes);
}

#[test]
fn the_published_networks_have_as_many_numbers_as_their_files() {
    let none = WeightSet::default();
    let count = |tensors: Vec<TensorSpec>, start: &str| {
        let own = tensors.iter().filter(|tensor| tensor.name.contains(start));
        own.map(|tensor| tensor.shape.iter().product::<u64>())
            .sum::<u64>() as f64
            / 1e9
    };
    let transformer = Ltx2TransformerConfig::default().tensors(&none);
    let connectors = Ltx2ConnectorsConfig::default().tensors(&none);
    let vae = Ltx2VaeConfig::default().tensors(&none);
    let language = LanguageConfig::gemma3_12b(LanguageTap::All).tensors(&none);
    for (what, found, expected) in [
        (
            "blocks",
            count(transformer.clone(), "transformer_blocks."),
            18.561,
        ),
        ("transformer", count(transformer, ""), 18.989),
        (
            "connectors",
            count(connectors.clone(), "embeddings_connector"),
            2.016,
        ),
        (
            "projections",
            count(connectors, "text_embedding_projection"),
            1.156,
        ),
        ("encoder", count(vae.clone(), "encoder."), 0.319),
        ("decoder", count(vae, "decoder."), 0.407),
        (
            "vocoder",
            count(Ltx2VocoderConfig::default().tensors(&none), ""),
            0.129,
        ),
        (
            "upscaler",
            count(LatentUpscalerConfig::default().tensors(&none), ""),
            0.498,
        ),
        ("Gemma 3", count(language, ""), 11.766),
    ] {
        assert!(
            (found - expected).abs() < 0.000_6,
            "{what}: {found} is not {expected}"
        );
    }
}

#[test]
fn the_networks_of_ltx_2_are_refused_in_a_sentence() {
    let transformer = serde_json::json!({ "gated_attn": false });
    let config: Ltx2TransformerConfig = serde_json::from_value(transformer).unwrap();
    assert_eq!(
        config.check().unwrap_err(),
        "expected the gated_attn true, found false"
    );
    let vae = serde_json::json!({ "upsample_residual": [true, true, true] });
    let config: Ltx2VaeConfig = serde_json::from_value(vae).unwrap();
    assert!(
        config
            .check()
            .unwrap_err()
            .starts_with("expected the upsample_residual")
    );
}
