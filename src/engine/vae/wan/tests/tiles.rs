//! Tiles against what diffusers recorded, and the promises of tiling.

use std::cell::Cell;

use tch::{Device, Kind, Tensor};

use super::{
    DECODER_LIMIT, ENCODER_LIMIT, Posterior, TileScheme, Tiling, WanVaeDecoder, WanVaeEncoder,
    assert_close, config, decode, decode_by, decoder, distance, encode, encoder, fixtures, weights,
};

/// The tiles of the fixtures' decoder, and of their encoder, as `generate.py` has them.
const OF_DECODER: [(&str, Tiling); 2] =
    [("flat", separate(32, 24)), ("residual", separate(64, 48))];
const OF_ENCODER: Tiling = separate(32, 24);

const fn separate(size: i64, stride: i64) -> Tiling {
    Tiling {
        size,
        stride,
        scheme: TileScheme::Separate,
    }
}

fn recorded(name: &str, key: &str) -> Tensor {
    fixtures::recorded(&format!("vae/{name}/tiled.safetensors"), key)
}

fn decode_tiled(decoder: &WanVaeDecoder, latents: &Tensor, tiling: Tiling) -> Vec<Tensor> {
    decode_by(decoder, latents, Some(tiling))
}

fn encode_tiled(encoder: &WanVaeEncoder, pixels: &Tensor, tiling: Tiling) -> Posterior {
    encoder.encode(pixels, Some(tiling), &|| false).unwrap()
}

#[test]
fn tiled_pixels_and_latents_are_those_of_diffusers() {
    for (name, tiling) in OF_DECODER {
        let chunks = decode_tiled(&decoder(name), &recorded(name, "decode.input"), tiling);
        assert_eq!(chunks.len(), 2);
        let expected = recorded(name, "decode.output");
        assert_close(name, &Tensor::cat(&chunks, 2), &expected, DECODER_LIMIT);
        let found = encode_tiled(&encoder(name), &(&expected * 0.5), OF_ENCODER);
        let expected = recorded(name, "encode.mean");
        assert_close(name, &found.mean, &expected, ENCODER_LIMIT);
        let expected = recorded(name, "encode.logvar");
        assert_close(name, &found.logvar, &expected, ENCODER_LIMIT);
    }
}

#[test]
fn a_video_within_one_tile_comes_out_as_without_tiles() {
    for name in ["flat", "residual"] {
        let latents = recorded(name, "decode.input");
        let decoder = decoder(name);
        let tiled = decode_tiled(&decoder, &latents, Tiling::default());
        let whole = decode(&decoder, &latents);
        assert_eq!(tiled.len(), whole.len());
        assert!(tiled.iter().zip(&whole).all(|(a, b)| distance(a, b) == 0.0));
        let pixels = Tensor::cat(&whole, 2);
        let encoder = encoder(name);
        let tiled = encode_tiled(&encoder, &pixels, Tiling::default()).mean;
        assert_eq!(distance(&tiled, &encode(&encoder, &pixels).mean), 0.0);
    }
}

/// A video without edges or noise, in -1..1: `(1, channels, frames, height, width)`
fn smooth(channels: i64, frames: i64, height: i64, width: i64) -> Tensor {
    let options = (Kind::Float, Device::Cpu);
    let axis = |len: i64, dim: usize| {
        let mut shape = [1; 5];
        shape[dim] = len;
        (Tensor::arange(len, options) / len.max(2)).view(shape)
    };
    let phase = axis(channels, 1) * 4.0;
    let wave = (axis(height, 3) * 5.0 + &phase).sin() * (axis(width, 4) * 4.0 - &phase).cos();
    wave * 0.7 + (axis(frames, 2) + phase).sin() * 0.2
}

/// Peak signal to noise in dB, of what is in -1..1 or has its largest number for the peak.
fn psnr(found: &Tensor, expected: &Tensor) -> f64 {
    let error = (found - expected).square().mean(Kind::Double);
    let peak = expected.max().double_value(&[]) - expected.min().double_value(&[]);
    10.0 * (peak.min(2.0).powi(2) / error.double_value(&[])).log10()
}

#[test]
fn tiles_of_the_default_size_are_40_db_from_the_whole_on_smooth_content() {
    for (name, height, width) in [("flat", 37, 34), ("residual", 34, 24)] {
        let cfg = config(name);
        let decoder = decoder(name);
        let latents = smooth(cfg.z_dim, 2, height, width);
        let whole = Tensor::cat(&decode(&decoder, &latents), 2);
        let tiled = decode_tiled(&decoder, &latents, Tiling::default());
        let found = psnr(&Tensor::cat(&tiled, 2), &whole);
        assert!(found >= 40.0, "{name}: {found} dB");
        let encoder = encoder(name);
        let factor = cfg.spatial_factor();
        let pixels = smooth(3, 5, height * factor, width * factor);
        let whole = encode(&encoder, &pixels).mean;
        let tiled = encode_tiled(&encoder, &pixels, Tiling::default()).mean;
        let found = psnr(&tiled, &whole);
        assert!(found >= 40.0, "{name}: {found} dB of the latents");
    }
}

#[test]
fn a_tiled_decode_hands_out_the_same_chunks_in_the_kind_of_the_weights() {
    let half = weights("flat", Kind::BFloat16);
    let decoder = WanVaeDecoder::new(&config("flat"), &half).unwrap();
    let (_, tiling) = OF_DECODER[0];
    let chunks = decode_tiled(&decoder, &recorded("flat", "decode.input"), tiling);
    let sizes: Vec<Vec<i64>> = chunks.iter().map(Tensor::size).collect();
    assert_eq!(sizes, [[1, 3, 1, 56, 72], [1, 3, 4, 56, 72]]);
    assert!(chunks.iter().all(|chunk| chunk.kind() == Kind::BFloat16));
    let expected = recorded("flat", "decode.output");
    assert_close("pixels", &Tensor::cat(&chunks, 2), &expected, 0.04);
}

#[test]
fn a_tiled_job_is_cancelled_within_a_tile() {
    let (name, tiling) = OF_DECODER[0];
    let latents = recorded(name, "decode.input");
    let calls = Cell::new(0);
    // Far enough to be in a later tile, and long before the last.
    let cancelled = || {
        calls.set(calls.get() + 1);
        calls.get() > 150
    };
    let result = decoder(name).decode(&latents, Some(tiling), &cancelled, &mut |_| {
        panic!("a frame came after the end");
    });
    assert_eq!((result, calls.get()), (None, 151));
    calls.set(0);
    let pixels = recorded(name, "decode.output");
    let result = encoder(name).encode(&pixels, Some(OF_ENCODER), &cancelled);
    assert!(result.is_none());
    assert_eq!(calls.get(), 151);
}

#[test]
fn both_halves_can_come_from_one_file_and_tile_any_video_of_4n_plus_1_frames() {
    let file = weights("flat", Kind::Float);
    let encoder = WanVaeEncoder::new(&config("flat"), &file).unwrap();
    let decoder = WanVaeDecoder::new(&config("flat"), &file).unwrap();
    let tilings = [OF_ENCODER, Tiling::of_size(32)];
    let cases = [1, 5, 13].map(|frames| tilings.map(|tiling| (frames, tiling)));
    for (frames, tiling) in cases.into_iter().flatten() {
        let pixels = smooth(3, frames, 40, 56);
        let mean = encode_tiled(&encoder, &pixels, tiling).mean;
        assert_eq!(mean.size(), [1, 4, (frames - 1) / 4 + 1, 5, 7]);
        let chunks = decode_tiled(&decoder, &mean, tiling);
        assert_eq!(Tensor::cat(&chunks, 2).size(), [1, 3, frames, 40, 56]);
    }
}
