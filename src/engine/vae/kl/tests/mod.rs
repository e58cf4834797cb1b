//! FLUX.1's autoencoder against what diffusers recorded, and the promises of bands.
//!
//! The weights are a formula of their names, see `tests/fixtures/vae/kl/generate.py`.

mod bands;
mod files;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::networks::{KlVaeConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::{Bands, KlVaeDecoder, KlVaeEncoder, KlWay, denormalize, normalize};
use crate::closeness::distance;
use crate::vae::{Posterior, TileScheme, Tiling};
use crate::weights::Weights;
use crate::weights::tests::made_up::made_up;

/// Relative L2.
const ENCODER_LIMIT: f64 = 1e-5;
const DECODER_LIMIT: f64 = 3e-5;

const NAMES: [&str; 2] = ["flux", "other"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/vae/kl")
        .join(name)
}

fn recorded(name: &str, key: &str) -> Tensor {
    let path = fixture(name).join("recorded.safetensors");
    let file = Weights::open(&path, Kind::Float, Device::Cpu).unwrap();
    file.tensor(key, &file.shape_of(key).unwrap()).unwrap()
}

fn config(name: &str) -> KlVaeConfig {
    KlVaeConfig::read(&fixture(name)).unwrap()
}

/// The tensors of a fixture under diffusers' names.
fn tensors(name: &str) -> Vec<(String, Tensor)> {
    let text = fs::read(fixture(name).join("shapes.json")).unwrap();
    let shapes: BTreeMap<String, Vec<i64>> = serde_json::from_slice(&text).unwrap();
    shapes
        .into_iter()
        .map(|(key, shape)| {
            let tensor = made_up(&key, &shape);
            (key, tensor)
        })
        .collect()
}

/// A fixture's file with its tensors changed by `change`, and the folder that it is in.
fn changed(
    name: &str,
    change: impl Fn(&str, Tensor) -> Option<(String, Tensor)>,
) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ae.safetensors");
    let changed: Vec<(String, Tensor)> = tensors(name)
        .into_iter()
        .filter_map(|(key, tensor)| change(&key, tensor))
        .collect();
    Tensor::write_safetensors(&changed, &path).unwrap();
    (folder, path)
}

fn open(path: &Path, kind: Kind) -> Weights {
    Weights::open(path, kind, Device::Cpu).unwrap()
}

fn weights_of_kind(name: &str, kind: Kind) -> (TempDir, Weights) {
    let (folder, path) = changed(name, |key, tensor| Some((key.to_owned(), tensor)));
    (folder, open(&path, kind))
}

fn weights(name: &str) -> (TempDir, Weights) {
    weights_of_kind(name, Kind::Float)
}

fn encoder(name: &str) -> KlVaeEncoder {
    KlVaeEncoder::new(&config(name), &weights(name).1).unwrap()
}

fn decoder(name: &str) -> KlVaeDecoder {
    KlVaeDecoder::new(&config(name), &weights(name).1).unwrap()
}

fn encode(encoder: &KlVaeEncoder, pixels: &Tensor) -> Posterior {
    encoder.encode(pixels, KlWay::Whole, &|| false).unwrap()
}

fn decode(decoder: &KlVaeDecoder, latents: &Tensor) -> Tensor {
    decoder.decode(latents, KlWay::Whole, &|| false).unwrap()
}

#[test]
fn encoding_matches_diffusers() {
    for name in NAMES {
        let posterior = encode(&encoder(name), &recorded(name, "encode.input"));
        let mean = distance(&posterior.mean, &recorded(name, "encode.mean"));
        let logvar = distance(&posterior.logvar, &recorded(name, "encode.logvar"));
        assert!(mean < ENCODER_LIMIT, "{name}: the mean is off by {mean}");
        assert!(logvar < ENCODER_LIMIT, "{name}: logvar is off by {logvar}");
    }
}

#[test]
fn decoding_matches_diffusers() {
    for name in NAMES {
        let pixels = decode(&decoder(name), &recorded(name, "decode.input"));
        let off = distance(&pixels, &recorded(name, "decode.output"));
        assert!(off < DECODER_LIMIT, "{name}: pixels are off by {off}");
    }
}

#[test]
fn a_sample_of_the_posterior_becomes_the_latents_that_the_pipeline_starts_from() {
    let cfg = config("flux");
    let posterior = encode(&encoder("flux"), &recorded("flux", "encode.input"));
    let deviation = (posterior.logvar * 0.5).exp();
    let sample = posterior.mean + deviation * recorded("flux", "encode.noise");
    let latents = normalize(&cfg, &sample);
    let off = distance(&latents, &recorded("flux", "image_latents"));
    assert!(off < ENCODER_LIMIT, "{off}");
    assert!(distance(&denormalize(&cfg, &latents), &sample) < 1e-6);
}

#[test]
fn half_precision_gives_about_the_same_pixels_and_latents() {
    // diffusers' own distances on these inputs are within a tenth of these limits.
    for (kind, limit) in [(Kind::BFloat16, 0.04), (Kind::Half, 0.006)] {
        let (_folder, weights) = weights_of_kind("flux", kind);
        let decoder = KlVaeDecoder::new(&config("flux"), &weights).unwrap();
        let pixels = decode(&decoder, &recorded("flux", "decode.input"));
        assert_eq!(pixels.kind(), kind);
        let off = distance(&pixels, &recorded("flux", "decode.output"));
        assert!(off < limit, "{kind:?}: pixels are off by {off}");
        let encoder = KlVaeEncoder::new(&config("flux"), &weights).unwrap();
        let posterior = encode(&encoder, &recorded("flux", "encode.input"));
        assert_eq!(posterior.mean.kind(), kind);
        let off = distance(&posterior.mean, &recorded("flux", "encode.mean"));
        assert!(off < limit, "{kind:?}: the mean is off by {off}");
    }
}

#[test]
fn pictures_of_a_batch_do_not_know_of_each_other() {
    let latents = recorded("other", "decode.input");
    let decoder = decoder("other");
    let both = decode(&decoder, &latents);
    let second = decode(&decoder, &latents.narrow(0, 1, 1));
    assert_eq!(distance(&both.narrow(0, 1, 1), &second), 0.0);
}

#[test]
fn a_picture_may_be_one_latent_high_or_wide() {
    for (height, width) in [(8, 8), (8, 40), (56, 8)] {
        let pixels = Tensor::zeros([1, 3, height, width], (Kind::Float, Device::Cpu));
        let mean = encode(&encoder("flux"), &pixels).mean;
        assert_eq!(mean.size(), [1, 16, height / 8, width / 8]);
        let pixels = decode(&decoder("flux"), &mean);
        assert_eq!(pixels.size(), [1, 3, height, width]);
        assert!(pixels.isfinite().all().int64_value(&[]) == 1);
    }
}
