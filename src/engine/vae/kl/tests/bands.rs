//! Bands give what the whole image gives; diffusers' tiles give what diffusers recorded.

use std::cell::Cell;

use tch::{Device, Kind, Tensor};

use super::{
    DECODER_LIMIT, ENCODER_LIMIT, KlWay, NAMES, RowBands, TileScheme, Tiling, assert_close, config,
    decode, decoder, encode, encoder, recorded, weights,
};
use crate::vae::KlVaeDecoder;

/// From a row or two at a time to half of these images, and to all of them.
const SIZES: [i64; 5] = [1, 13, 24, 48, 4096];

fn bands(size: i64, off_device: bool) -> RowBands {
    RowBands { size, off_device }
}

/// An image without edges or noise, in -1..1: `(1, channels, height, width)`
fn smooth(channels: i64, height: i64, width: i64) -> Tensor {
    let options = (Kind::Float, Device::Cpu);
    let axis = |len: i64, dim: usize| {
        let mut shape = [1; 4];
        shape[dim] = len;
        (Tensor::arange(len, options) / len.max(2)).view(shape)
    };
    let phase = axis(channels, 1) * 4.0;
    (axis(height, 2) * 5.0 + &phase).sin() * (axis(width, 3) * 4.0 - &phase).cos() * 0.9
}

#[test]
fn row_bands_of_any_size_match_the_whole_image() {
    for name in NAMES {
        let (decoder, encoder) = (decoder(name), encoder(name));
        let latents = recorded(name, "decode.input");
        let whole = decode(&decoder, &latents, KlWay::Whole);
        let pixels = recorded(name, "encode.input");
        let posterior = encode(&encoder, &pixels, KlWay::Whole);
        for bands in SIZES.map(|size| bands(size, size % 2 == 0)) {
            let found = decode(&decoder, &latents, KlWay::Bands(bands));
            let case = format!("{name}, {bands:?}");
            assert_close(&case, &found, &whole, DECODER_LIMIT);
            let found = encode(&encoder, &pixels, KlWay::Bands(bands));
            assert_close(&case, &found.mean, &posterior.mean, ENCODER_LIMIT);
            assert_close(&case, &found.logvar, &posterior.logvar, ENCODER_LIMIT);
        }
    }
}

#[test]
fn seamless_tiles_have_no_seams_at_any_size_of_image() {
    let (decoder, encoder) = (decoder("flux"), encoder("flux"));
    for (height, width) in [(40, 37), (3, 50), (41, 2)] {
        let latents = smooth(16, height, width) * 2.0;
        let whole = decode(&decoder, &latents, KlWay::Whole);
        for tiling in [Tiling::of_size(128), Tiling::default()] {
            let tiled = decode(&decoder, &latents, KlWay::Tiles(tiling));
            assert_close("pixels", &tiled, &whole, DECODER_LIMIT);
        }
        let pixels = smooth(3, 8 * height, 8 * width);
        let tiling = Tiling::of_size(64);
        let tiled = encode(&encoder, &pixels, KlWay::Tiles(tiling));
        let whole = encode(&encoder, &pixels, KlWay::Whole);
        assert_close("mean", &tiled.mean, &whole.mean, ENCODER_LIMIT);
    }
}

#[test]
fn bands_of_halves_are_as_near_as_halves_without_bands() {
    let weights = weights("flux", Kind::BFloat16);
    let decoder = KlVaeDecoder::new(&config("flux"), &weights).unwrap();
    let latents = recorded("flux", "decode.input");
    let found = decode(&decoder, &latents, KlWay::Bands(bands(20, true)));
    assert_eq!(found.kind(), Kind::BFloat16);
    assert_close("pixels", &found, &recorded("flux", "decode.output"), 0.04);
}

const SEPARATE: Tiling = Tiling {
    size: 32,
    stride: 24,
    scheme: TileScheme::Separate,
};

#[test]
fn separate_tiles_match_those_of_diffusers() {
    let latents = recorded("flux", "tiled.decode.input");
    let expected = recorded("flux", "tiled.decode.output");
    let pixels = decode(&decoder("flux"), &latents, KlWay::Tiles(SEPARATE));
    assert_close("pixels", &pixels, &expected, DECODER_LIMIT);
    let pixels = expected * 0.5;
    let found = encode(&encoder("flux"), &pixels, KlWay::Tiles(SEPARATE));
    for (name, found) in [("mean", &found.mean), ("logvar", &found.logvar)] {
        let expected = recorded("flux", &format!("tiled.encode.{name}"));
        assert_close(name, found, &expected, ENCODER_LIMIT);
    }
}

/// One job, which asks now and then whether to stop: whether it came to its end.
type Job<'a> = &'a dyn Fn(&dyn Fn() -> bool) -> bool;

/// How often `job` asks; when told to stop it must not ask again.
fn asks(job: Job<'_>) -> i32 {
    let asked = Cell::new(0);
    let run = |limit: i32| {
        asked.set(0);
        job(&|| {
            asked.set(asked.get() + 1);
            asked.get() > limit
        })
    };
    assert!(run(i32::MAX));
    let total = asked.get();
    for limit in [0, total / 2, total - 1] {
        assert!(!run(limit), "it did not stop");
        assert_eq!(asked.get(), limit + 1);
    }
    total
}

#[test]
fn a_job_is_cancelled_between_layers_bands_and_tiles() {
    let latents = recorded("flux", "tiled.decode.input");
    let pixels = recorded("flux", "tiled.decode.output");
    let (decoder, encoder) = (decoder("flux"), encoder("flux"));
    let decoding = asks(&|stop| decoder.decode(&latents, KlWay::Whole, stop).is_some());
    let encoding = asks(&|stop| encoder.encode(&pixels, KlWay::Whole, stop).is_some());
    assert!(decoding > 30 && encoding > 20, "{decoding}, {encoding}");
    let seamless = Tiling {
        scheme: TileScheme::Seamless,
        ..SEPARATE
    };
    for tiling in [SEPARATE, seamless] {
        let tiled = asks(&|stop| {
            decoder
                .decode(&latents, KlWay::Tiles(tiling), stop)
                .is_some()
        });
        assert!(tiled > decoding + 10, "{tiling:?}: {tiled}");
        let tiled = asks(&|stop| {
            encoder
                .encode(&pixels, KlWay::Tiles(tiling), stop)
                .is_some()
        });
        assert!(tiled > encoding + 5, "{tiling:?}: {tiled}");
    }
}

#[test]
fn banded_decode_and_encode_do_not_modify_their_input() {
    let latents = recorded("other", "decode.input");
    let pixels = recorded("other", "encode.input");
    let before = [latents.copy(), pixels.copy()];
    let tiny = bands(1, false);
    let (decoder, encoder) = (decoder("other"), encoder("other"));
    let first = decode(&decoder, &latents, KlWay::Bands(tiny));
    encode(&encoder, &pixels, KlWay::Bands(tiny));
    let again = decode(&decoder, &latents, KlWay::Bands(tiny));
    assert!(latents.equal(&before[0]) && pixels.equal(&before[1]) && again.equal(&first));
}
