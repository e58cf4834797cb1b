//! FLUX.1's autoencoder against what diffusers recorded, and the promises of bands.
//!
//! The weights are a formula of their names, see `tests/fixtures/vae/kl/generate.py`.

mod bands;
pub(crate) mod files;

use std::path::PathBuf;

use safelight_core::networks::{KlVaeConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::{KlVaeDecoder, KlVaeEncoder, KlWay, RowBands, denormalize, normalize};
use crate::closeness::{assert_close, distance};
use crate::vae::{Posterior, TileScheme, Tiling};
use crate::weights::Weights;
use crate::weights::tests::fixtures::{self, fixture, json_of, open, read_with, tensors_of};

/// Relative L2.
const ENCODER_LIMIT: f64 = 1e-5;
const DECODER_LIMIT: f64 = 3e-5;

const NAMES: [&str; 2] = ["flux", "other"];

fn folder_of(name: &str) -> PathBuf {
    fixture("vae/kl").join(name)
}

fn recorded(name: &str, key: &str) -> Tensor {
    fixtures::recorded(&format!("vae/kl/{name}/recorded.safetensors"), key)
}

fn config(name: &str) -> KlVaeConfig {
    KlVaeConfig::read(&folder_of(name)).unwrap()
}

/// A fixture's file with its tensors, which have diffusers' names, changed by `change`, and the folder that it is in.
fn changed(
    name: &str,
    change: impl Fn(&str, Tensor) -> Option<(String, Tensor)>,
) -> (TempDir, PathBuf) {
    let shapes = json_of(&folder_of(name).join("shapes.json"));
    fixtures::write_changed(tensors_of(&shapes, ""), change)
}

fn unchanged(key: &str, tensor: Tensor) -> (String, Tensor) {
    (key.to_owned(), tensor)
}

fn weights(name: &str, kind: Kind) -> Weights {
    let (_folder, path) = changed(name, |key, tensor| Some(unchanged(key, tensor)));
    open(&path, kind)
}

fn encoder(name: &str) -> KlVaeEncoder {
    KlVaeEncoder::new(&config(name), &weights(name, Kind::Float)).unwrap()
}

fn decoder(name: &str) -> KlVaeDecoder {
    KlVaeDecoder::new(&config(name), &weights(name, Kind::Float)).unwrap()
}

fn encode(encoder: &KlVaeEncoder, pixels: &Tensor, way: KlWay) -> Posterior {
    encoder.encode(pixels, way, &|| false).unwrap()
}

fn decode(decoder: &KlVaeDecoder, latents: &Tensor, way: KlWay) -> Tensor {
    decoder.decode(latents, way, &|| false).unwrap()
}

/// Both halves of `weights` on the inputs of a record, within `limits` of its pixels and mean, and in their kind.
fn assert_matches_the_record(name: &str, weights: &Weights, limits: [f64; 2]) {
    let decoder = KlVaeDecoder::new(&config(name), weights).unwrap();
    let pixels = decode(&decoder, &recorded(name, "decode.input"), KlWay::Whole);
    let expected = recorded(name, "decode.output");
    assert_close(name, &pixels, &expected, limits[0]);
    let encoder = KlVaeEncoder::new(&config(name), weights).unwrap();
    let mean = encode(&encoder, &recorded(name, "encode.input"), KlWay::Whole).mean;
    assert_close(name, &mean, &recorded(name, "encode.mean"), limits[1]);
    let found = (pixels.kind(), mean.kind());
    assert_eq!(found, (weights.kind(), weights.kind()));
}

#[test]
fn pixels_and_latents_are_those_of_diffusers() {
    for name in NAMES {
        let weights = weights(name, Kind::Float);
        assert_matches_the_record(name, &weights, [DECODER_LIMIT, ENCODER_LIMIT]);
        let input = recorded(name, "encode.input");
        let found = encode(&encoder(name), &input, KlWay::Whole).logvar;
        let expected = recorded(name, "encode.logvar");
        assert_close(name, &found, &expected, ENCODER_LIMIT);
    }
}

#[test]
fn a_sample_of_the_posterior_becomes_the_latents_that_the_pipeline_starts_from() {
    let cfg = config("flux");
    let input = recorded("flux", "encode.input");
    let posterior = encode(&encoder("flux"), &input, KlWay::Whole);
    let deviation = (posterior.logvar * 0.5).exp();
    let sample = posterior.mean + deviation * recorded("flux", "encode.noise");
    let latents = normalize(&cfg, &sample);
    let expected = recorded("flux", "image_latents");
    assert_close("latents", &latents, &expected, ENCODER_LIMIT);
    assert_close("back", &denormalize(&cfg, &latents), &sample, 1e-6);
}

#[test]
fn half_precision_gives_about_the_same_pixels_and_latents() {
    // diffusers' own distances on these inputs are within a tenth of these limits.
    for (kind, limit) in [(Kind::BFloat16, 0.04), (Kind::Half, 0.006)] {
        assert_matches_the_record("flux", &weights("flux", kind), [limit; 2]);
    }
}

#[test]
fn images_in_a_batch_are_decoded_independently() {
    let latents = recorded("other", "decode.input");
    let decoder = decoder("other");
    let both = decode(&decoder, &latents, KlWay::Whole);
    let second = decode(&decoder, &latents.narrow(0, 1, 1), KlWay::Whole);
    assert_eq!(distance(&both.narrow(0, 1, 1), &second), 0.0);
}

#[test]
fn an_image_may_be_one_latent_high_or_wide() {
    for (height, width) in [(8, 8), (8, 40), (56, 8)] {
        let pixels = Tensor::zeros([1, 3, height, width], (Kind::Float, Device::Cpu));
        let mean = encode(&encoder("flux"), &pixels, KlWay::Whole).mean;
        assert_eq!(mean.size(), [1, 16, height / 8, width / 8]);
        let pixels = decode(&decoder("flux"), &mean, KlWay::Whole);
        assert_eq!(pixels.size(), [1, 3, height, width]);
        assert!(pixels.isfinite().all().int64_value(&[]) == 1);
    }
}
