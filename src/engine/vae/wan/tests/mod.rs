//! Wan's autoencoder against what diffusers recorded, and the promises of streaming.

mod files;
mod tiles;

use std::cell::Cell;

use safelight_core::compute::conv_backends::ConvBackend;
use safelight_core::compute::{ComputeOptions, DecodeChunk};
use safelight_core::networks::{NetworkConfig as _, WanVaeConfig};
use tch::{Device, Kind, Tensor};

use super::{WanVaeDecoder, WanVaeEncoder, denormalize, normalize};
use crate::closeness::{assert_close, distance};
use crate::parallel::tests::on_ranks;
use crate::runtime::use_compute_options;
use crate::sampling::noise;
use crate::vae::{ConvForm, Posterior, TileScheme, Tiling};
use crate::weights::Weights;
use crate::weights::tests::fixtures::{self, fixture, open, read_with};

/// The limits that `tests/fixtures/vae` is compared with, relative L2.
const ENCODER_LIMIT: f64 = 1e-5;
const DECODER_LIMIT: f64 = 3e-5;

fn weights(name: &str, kind: Kind) -> Weights {
    let file = format!("vae/{name}/diffusion_pytorch_model.safetensors");
    open(&fixture(&file), kind)
}

fn recorded(name: &str, key: &str) -> Tensor {
    fixtures::recorded(&format!("vae/{name}/recorded.safetensors"), key)
}

fn config(name: &str) -> WanVaeConfig {
    WanVaeConfig::read(&fixture("vae").join(name)).unwrap()
}

fn encoder(name: &str) -> WanVaeEncoder {
    WanVaeEncoder::new(&config(name), &weights(name, Kind::Float)).unwrap()
}

fn decoder(name: &str) -> WanVaeDecoder {
    WanVaeDecoder::new(&config(name), &weights(name, Kind::Float)).unwrap()
}

fn encode(encoder: &WanVaeEncoder, pixels: &Tensor) -> Posterior {
    encoder.encode(pixels, None, &|| false).unwrap()
}

fn decode_by(decoder: &WanVaeDecoder, latents: &Tensor, tiling: Option<Tiling>) -> Vec<Tensor> {
    let mut chunks = Vec::new();
    decoder
        .decode(latents, tiling, &|| false, &mut |chunk| chunks.push(chunk))
        .unwrap();
    chunks
}

fn decode(decoder: &WanVaeDecoder, latents: &Tensor) -> Vec<Tensor> {
    decode_by(decoder, latents, None)
}

/// The last is what is chosen for f32 on the CPU; the others are for elsewhere and must give the same.
const FORMS: [ConvForm; 4] = [
    ConvForm::Volumes,
    ConvForm::Images,
    ConvForm::Mixed,
    ConvForm::Planes,
];

const NAMES: [&str; 4] = ["residual", "shallow", "flat", "attended"];

/// Both halves on the inputs of a record, within `limits` of its pixels and mean.
fn assert_matches_the_record(
    name: &str,
    decoder: &WanVaeDecoder,
    encoder: &WanVaeEncoder,
    limits: [f64; 2],
) {
    let pixels = Tensor::cat(&decode(decoder, &recorded(name, "decode.input")), 2);
    let expected = recorded(name, "decode.output");
    assert_close(name, &pixels, &expected, limits[0]);
    let mean = encode(encoder, &recorded(name, "encode.input")).mean;
    assert_close(name, &mean, &recorded(name, "encode.mean"), limits[1]);
}

#[test]
fn pixels_and_latents_are_those_of_diffusers_in_every_form() {
    for (name, form) in NAMES.iter().flat_map(|name| FORMS.map(|form| (name, form))) {
        let weights = weights(name, Kind::Float);
        let decoder = WanVaeDecoder::with_form(&config(name), &weights, form).unwrap();
        let encoder = WanVaeEncoder::with_form(&config(name), &weights, form).unwrap();
        assert_matches_the_record(name, &decoder, &encoder, [DECODER_LIMIT, ENCODER_LIMIT]);
        let logvar = encode(&encoder, &recorded(name, "encode.input")).logvar;
        let expected = recorded(name, "encode.logvar");
        assert_close(name, &logvar, &expected, ENCODER_LIMIT);
    }
}

#[test]
fn ranks_that_decode_a_band_of_rows_each_give_the_frames_of_one() {
    for (name, form) in NAMES.iter().flat_map(|name| FORMS.map(|form| (name, form))) {
        let run = || {
            let (config, weights) = (config(name), weights(name, Kind::Float));
            let decoder = WanVaeDecoder::with_form(&config, &weights, form).unwrap();
            let latents = noise(&[1, config.z_dim, 3, 7, 5], 3).unwrap();
            Tensor::cat(&decode(&decoder, &latents), 2)
        };
        let whole = run();
        for ranks in [2, 3, 8] {
            for found in on_ranks(ranks, run) {
                assert_close(
                    &format!("{name} {form:?} {ranks}"),
                    &found,
                    &whole,
                    DECODER_LIMIT,
                );
            }
        }
    }
}

/// A decoder of some latent frames at a time.
fn decoder_by(chunk: DecodeChunk, name: &str, form: ConvForm) -> WanVaeDecoder {
    let options = ComputeOptions {
        chunk,
        ..ComputeOptions::default()
    };
    let _guard = use_compute_options(Device::Cpu, ConvBackend::Direct, options);
    WanVaeDecoder::with_form(&config(name), &weights(name, Kind::Float), form).unwrap()
}

#[test]
fn several_latent_frames_at_a_time_give_the_frames_that_one_at_a_time_gives() {
    let tilings = [None, Some(Tiling::of_size(32))];
    for (name, form) in NAMES.iter().flat_map(|name| FORMS.map(|form| (name, form))) {
        let size = recorded(name, "decode.input").size();
        let latents = noise(&[1, size[1], 7, 4, 6], 1).unwrap();
        for tiling in tilings {
            let of = |chunk| decode_by(&decoder_by(chunk, name, form), &latents, tiling);
            let expected = of(DecodeChunk::One);
            for (chunk, num_chunks) in [
                (DecodeChunk::Two, 4),
                (DecodeChunk::Four, 3),
                (DecodeChunk::Eight, 2),
            ] {
                let found = of(chunk);
                // Planes are made for one alone.
                let num_chunks = if form == ConvForm::Planes {
                    7
                } else {
                    num_chunks
                };
                assert_eq!(found.len(), num_chunks, "{name}, {form:?}, {chunk:?}");
                let off = distance(&Tensor::cat(&found, 2), &Tensor::cat(&expected, 2));
                assert!(off < 1e-5, "{name}, {form:?}, {chunk:?}: off by {off}");
            }
        }
    }
}

#[test]
fn half_precision_gives_about_the_same_pixels_and_latents() {
    let half = weights("residual", Kind::BFloat16);
    let decoder = WanVaeDecoder::new(&config("residual"), &half).unwrap();
    let encoder = WanVaeEncoder::new(&config("residual"), &half).unwrap();
    let chunks = decode(&decoder, &recorded("residual", "decode.input"));
    assert!(chunks.iter().all(|chunk| chunk.kind() == Kind::BFloat16));
    // diffusers in bf16 is off by 0.034 here and by 0.025 in the mean.
    assert_matches_the_record("residual", &decoder, &encoder, [0.04; 2]);
}

#[test]
fn latents_are_normalized_as_in_diffusers_in_single_precision_and_denormalized_in_their_kind() {
    let cfg = config("residual");
    let mean = recorded("residual", "encode.mean");
    let expected = recorded("residual", "encode.normalized");
    assert_close("normalized", &normalize(&cfg, &mean), &expected, 1e-7);
    let latents = denormalize(&cfg, &recorded("residual", "decode.normalized"));
    let expected = recorded("residual", "decode.input");
    assert_close("denormalized", &latents, &expected, 1e-7);
    let half = mean.to_kind(Kind::BFloat16);
    assert_eq!(normalize(&cfg, &half).kind(), Kind::Float);
    assert_eq!(denormalize(&cfg, &half).kind(), Kind::BFloat16);
}

#[test]
fn each_latent_frame_is_handed_out_as_one_chunk() {
    for (name, edges, chunks) in [("residual", [32, 48], 3), ("flat", [24, 40], 4)] {
        let found = decode(&decoder(name), &recorded(name, "decode.input"));
        let sizes: Vec<Vec<i64>> = found.iter().map(Tensor::size).collect();
        let frames = |n| vec![1, 3, n, edges[0], edges[1]];
        let expected = [vec![frames(1)], vec![frames(4); chunks - 1]].concat();
        assert_eq!(sizes, expected);
    }
}

#[test]
fn the_past_does_not_depend_on_the_future() {
    for name in ["residual", "flat"] {
        let decoder = decoder(name);
        let latents = recorded(name, "decode.input");
        let whole = decode(&decoder, &latents);
        for len in [1, 2] {
            let start = decode(&decoder, &latents.narrow(2, 0, len));
            assert_eq!(start.len(), len as usize);
            for (short, long) in start.iter().zip(&whole) {
                assert!(distance(short, long) < 1e-6);
            }
        }
        let encoder = encoder(name);
        let pixels = recorded(name, "encode.input");
        let whole = encode(&encoder, &pixels).mean;
        for num_frames in [1, 5, 9] {
            let start = encode(&encoder, &pixels.narrow(2, 0, num_frames)).mean;
            let expected = whole.narrow(2, 0, 1 + num_frames / 4);
            assert!(distance(&start, &expected) < 1e-6);
        }
    }
}

#[test]
fn one_video_leaves_nothing_for_the_next() {
    for name in ["residual", "flat"] {
        let decoder = decoder(name);
        let latents = recorded(name, "decode.input");
        let first = Tensor::cat(&decode(&decoder, &latents), 2);
        decode(&decoder, &(&latents * -2.0));
        let again = Tensor::cat(&decode(&decoder, &latents), 2);
        assert_eq!(distance(&again, &first), 0.0);
    }
}

#[test]
fn frames_beyond_whole_groups_of_four_are_ignored() {
    let encoder = encoder("residual");
    let pixels = recorded("residual", "encode.input");
    let all_but_one = encode(&encoder, &pixels.narrow(2, 0, 8)).mean;
    let whole_groups = encode(&encoder, &pixels.narrow(2, 0, 5)).mean;
    assert_eq!(distance(&all_but_one, &whole_groups), 0.0);
}

#[test]
fn cancelled_decode_stops_between_frames_and_keeps_earlier_ones() {
    let decoder = decoder("residual");
    let latents = recorded("residual", "decode.input");
    let given = Cell::new(0);
    let result = decoder.decode(&latents, None, &|| given.get() == 2, &mut |_| {
        given.set(given.get() + 1);
    });
    assert_eq!(result, None);
    assert_eq!(given.get(), 2);
}

#[test]
fn a_cancelled_job_stops_within_a_frame_and_gives_nothing() {
    let calls = Cell::new(0);
    let cancelled = || {
        calls.set(calls.get() + 1);
        calls.get() > 3
    };
    let latents = recorded("residual", "decode.input");
    let result = decoder("residual").decode(&latents, None, &cancelled, &mut |_| {
        panic!("a frame came after the end");
    });
    assert_eq!((result, calls.take()), (None, 4));
    let pixels = recorded("residual", "encode.input");
    let result = encoder("residual").encode(&pixels, None, &cancelled);
    assert!(result.is_none() && calls.get() == 4);
}
