//! Both halves and the upscaler against `tests/fixtures/ltx2`, and the promises of streaming.

use std::cell::Cell;

use safelight_core::compute::conv_backends::ConvBackend;
use safelight_core::compute::{ComputeOptions, DecodeChunk};
use safelight_core::networks::NetworkConfig as _;
use safelight_core::networks::ltx2::{LatentUpscalerConfig, Ltx2VaeConfig};
use tch::{Device, Kind, Tensor};

use super::{LatentUpscaler, Ltx2VaeDecoder, Ltx2VaeEncoder};
use crate::closeness::assert_close;
use crate::runtime::use_compute_options;
use crate::weights::tests::fixtures::{given, open, tiny_network, tiny_output};

const LIMIT: f64 = 1e-5;
const ROUND_TRIP_LIMIT: f64 = 1e-6;

fn decoder(chunk: DecodeChunk) -> Ltx2VaeDecoder {
    let options = ComputeOptions {
        chunk,
        ..ComputeOptions::default()
    };
    let _guard = use_compute_options(Device::Cpu, ConvBackend::Direct, options);
    let (config, _folder, path) = tiny_network("vae");
    let config: Ltx2VaeConfig = serde_json::from_value(config).unwrap();
    config.check().unwrap();
    Ltx2VaeDecoder::new(&config, &open(&path, Kind::Float)).unwrap()
}

fn decode(decoder: &Ltx2VaeDecoder, latents: &Tensor) -> Vec<Tensor> {
    let mut chunks = Vec::new();
    decoder
        .decode(latents, &|| false, &mut |chunk| chunks.push(chunk))
        .unwrap();
    chunks
}

#[test]
fn pixels_are_those_of_diffusers_whatever_is_decoded_at_a_time() {
    let latents = given("latents", &[1, 128, 4, 1, 1]);
    let expected = tiny_output("vae.pixels").clamp(-1.0, 1.0);
    for chunk in [DecodeChunk::One, DecodeChunk::Two, DecodeChunk::Four] {
        let pixels = Tensor::cat(&decode(&decoder(chunk), &latents), 2);
        assert_close(&format!("{chunk:?}"), &pixels, &expected, LIMIT);
    }
}

#[test]
fn frames_of_one_latent_at_most_come_out_at_a_time() {
    let latents = given("long", &[1, 128, 13, 1, 2]);
    let chunks = decode(&decoder(DecodeChunk::One), &latents);
    // At the end, too, where all layers give out what they held back.
    let most = chunks.iter().map(|chunk| chunk.size()[2]).max();
    assert_eq!(most, Some(8));
    let pixels = Tensor::cat(&chunks, 2);
    assert_eq!(pixels.size(), [1, 3, 97, 32, 64]);
    let whole = Tensor::cat(&decode(&decoder(DecodeChunk::Four), &latents), 2);
    assert_close("streamed", &pixels, &whole, LIMIT);
}

#[test]
fn a_video_of_one_latent_frame_is_one_image() {
    let chunks = decode(
        &decoder(DecodeChunk::One),
        &given("one", &[1, 128, 1, 2, 2]),
    );
    let sizes: Vec<_> = chunks.iter().map(Tensor::size).collect();
    assert_eq!(sizes, [[1, 3, 1, 64, 64]]);
}

#[test]
fn a_cancelled_decoder_stops_between_two_blocks() {
    let left = Cell::new(5);
    let cancelled = || {
        left.set(left.get() - 1);
        left.get() == 0
    };
    let latents = given("latents", &[1, 128, 4, 1, 1]);
    let done = decoder(DecodeChunk::One).decode(&latents, &cancelled, &mut |_| {});
    assert!(done.is_none() && left.get() == 0);
}

#[test]
fn latents_of_a_video_are_those_of_diffusers() {
    let (config, _folder, path) = tiny_network("vae");
    let config: Ltx2VaeConfig = serde_json::from_value(config).unwrap();
    let encoder = Ltx2VaeEncoder::new(&config, &open(&path, Kind::Float)).unwrap();
    let pixels = given("pixels", &[1, 3, 17, 32, 64]);
    let mean = encoder.encode(&pixels, &|| false).unwrap();
    assert_close("mean", &mean, &tiny_output("vae.mean"), LIMIT);
    let statistics = &encoder.statistics;
    let again = statistics.denormalize(&statistics.normalize(&mean));
    assert_close("statistics", &again, &mean, ROUND_TRIP_LIMIT);
}

#[test]
fn latents_of_twice_the_edges_are_those_of_diffusers() {
    let (config, _folder, path) = tiny_network("latent_upsampler");
    let config: LatentUpscalerConfig = serde_json::from_value(config).unwrap();
    config.check().unwrap();
    let weights = open(&path, Kind::Float);
    let upscaler = LatentUpscaler::new(&config, &weights).unwrap();
    assert_eq!(weights.finish(), [""; 0]);
    let latents = given("small", &[1, 128, 3, 2, 3]);
    let larger = upscaler.forward(&latents, &|| false).unwrap();
    let expected = tiny_output("latent_upsampler.latents");
    assert_close("latents", &larger, &expected, LIMIT);
    assert!(upscaler.forward(&latents, &|| true).is_none());
}
