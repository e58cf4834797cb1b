//! HunyuanVideo's autoencoder against what diffusers recorded, and the files that it may lie in.
//!
//! Weights and inputs are a formula of their names, see `tests/fixtures/vae/hunyuan/generate.py`.

mod files;

use std::path::PathBuf;

use safelight_core::networks::{HunyuanVaeConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::{HunyuanVaeDecoder, HunyuanVaeEncoder};
use crate::closeness::{assert_close, limit};
use crate::vae::{Posterior, Tiling};
use crate::weights::Weights;
use crate::weights::tests::fixtures::{self, fixture, json_of, open, read_with, tensors_of};
use crate::weights::tests::made_up::made_up;

/// Relative L2.
const ENCODER_LIMIT: f64 = 1e-5;
const DECODER_LIMIT: f64 = 3e-5;

/// How far the pixels of a recorded decode may be off.
fn of_decoder(name: &str) -> f64 {
    limit("vae/hunyuan/recorded", name, DECODER_LIMIT)
}

fn recorded(key: &str) -> Tensor {
    fixtures::recorded("vae/hunyuan/recorded.safetensors", key)
}

fn config() -> HunyuanVaeConfig {
    HunyuanVaeConfig::read(&fixture("vae/hunyuan")).unwrap()
}

/// The fixture's file with its tensors, which have diffusers' names, changed by `change`, and the folder that it is in.
fn changed(change: impl Fn(&str, Tensor) -> Option<(String, Tensor)>) -> (TempDir, PathBuf) {
    let shapes = json_of(&fixture("vae/hunyuan/shapes.json"));
    fixtures::write_changed(tensors_of(&shapes, ""), change)
}

fn weights(kind: Kind) -> Weights {
    let (_folder, path) = changed(|key, tensor| Some((key.to_owned(), tensor)));
    open(&path, kind)
}

fn encode(weights: &Weights, name: &str, shape: &[i64], tile: Option<i64>) -> Posterior {
    let encoder = HunyuanVaeEncoder::new(&config(), weights).unwrap();
    let pixels = made_up(name, shape);
    encoder
        .encode(&pixels, tile.map(Tiling::of_size), &|| false)
        .unwrap()
}

/// The whole video, and how many frames came at a time.
fn decode(weights: &Weights, latents: &Tensor, tile: Option<i64>) -> (Tensor, Vec<i64>) {
    let decoder = HunyuanVaeDecoder::new(&config(), weights).unwrap();
    let mut parts = Vec::new();
    decoder
        .decode(latents, tile.map(Tiling::of_size), &|| false, &mut |part| {
            parts.push(part);
        })
        .unwrap();
    let lens = parts.iter().map(|part| part.size()[2]).collect();
    (Tensor::cat(&parts, 2), lens)
}

#[test]
fn encoding_matches_diffusers_for_images_videos_and_tiles() {
    let weights = weights(Kind::Float);
    for (name, shape, tile) in [
        ("encode.image", [1, 3, 1, 24, 16], None),
        ("encode.video", [1, 3, 29, 16, 24], None),
        ("encode.tiled", [1, 3, 5, 40, 56], Some(32)),
    ] {
        let posterior = encode(&weights, name, &shape, tile);
        let expected = |part: &str| recorded(&format!("{name}.{part}"));
        assert_close(name, &posterior.mean, &expected("mean"), ENCODER_LIMIT);
        assert_close(name, &posterior.logvar, &expected("logvar"), ENCODER_LIMIT);
    }
}

#[test]
fn decoding_matches_diffusers_for_images_videos_and_tiles() {
    let weights = weights(Kind::Float);
    for (name, shape, tile, lens) in [
        ("decode.image", [1, 4, 1, 3, 2], None, vec![1]),
        ("decode.short", [1, 4, 4, 2, 1], None, vec![13]),
        ("decode.video", [1, 4, 8, 1, 2], None, vec![13, 12, 4]),
        ("decode.tiled", [1, 4, 1, 5, 6], Some(32), vec![1]),
    ] {
        let (pixels, found) = decode(&weights, &made_up(name, &shape), tile);
        assert_close(name, &pixels, &recorded(name), of_decoder(name));
        assert_eq!(found, lens, "{name}");
    }
}

/// Both halves of `weights` on two inputs of the record, within `limits` of its pixels and mean, and in their kind.
fn assert_matches_the_record(case: &str, weights: &Weights, limits: [f64; 2]) {
    let latents = made_up("decode.short", &[1, 4, 4, 2, 1]);
    let (pixels, _) = decode(weights, &latents, None);
    assert_close(case, &pixels, &recorded("decode.short"), limits[0]);
    let mean = encode(weights, "encode.image", &[1, 3, 1, 24, 16], None).mean;
    assert_close(case, &mean, &recorded("encode.image.mean"), limits[1]);
    let found = (pixels.kind(), mean.kind());
    assert_eq!(found, (weights.kind(), weights.kind()));
}

#[test]
fn half_precision_gives_about_the_same_pixels_and_latents() {
    // diffusers' own distances on these inputs are 0.06 and 0.01.
    for (kind, limit) in [(Kind::BFloat16, 0.15), (Kind::Half, 0.02)] {
        assert_matches_the_record("half", &weights(kind), [limit; 2]);
    }
}

#[test]
fn a_cancelled_job_gives_no_frames() {
    let weights = weights(Kind::Float);
    let decoder = HunyuanVaeDecoder::new(&config(), &weights).unwrap();
    let latents = Tensor::zeros([1, 4, 6, 1, 1], (Kind::Float, Device::Cpu));
    let given = decoder.decode(&latents, None, &|| true, &mut |_| panic!("a frame"));
    assert!(given.is_none());
    let encoder = HunyuanVaeEncoder::new(&config(), &weights).unwrap();
    let pixels = Tensor::zeros([1, 3, 1, 8, 8], (Kind::Float, Device::Cpu));
    assert!(encoder.encode(&pixels, None, &|| true).is_none());
}
