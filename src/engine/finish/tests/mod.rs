//! Upscalers against the published Python networks (`tests/fixtures/finish`), and in tiles.
//!
//! Weights and images are a formula of their names. Limits are relative L2 distances.

use std::path::PathBuf;

use safelight_core::footprint::{MAX_HALO, TileSize};
use safelight_core::networks::{RrdbConfig, RrdbNames, UpscalerConfig};
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::upscaler::LoadedUpscaler;
use super::{UpscaleCanvas, upscale};
use crate::closeness::{assert_close, distance};
use crate::weights::tests::fixtures::{self, fixture, json_of, tensors_of};
use crate::weights::tests::made_up::made_up;

const LIMIT: f64 = 1e-5;

fn shapes() -> Value {
    json_of(&fixture("finish/upscalers.json"))
}

fn recorded(key: &str) -> Tensor {
    fixtures::recorded("finish/upscalers.safetensors", key)
}

/// A network of the fixtures as a file.
pub(crate) fn write(name: &str) -> (TempDir, PathBuf) {
    let tensors = tensors_of(&shapes()[name], &format!("{name}."));
    fixtures::write_changed(tensors, |key, tensor| {
        let tensor = match key {
            // A switch.
            _ if tensor.numel() == 1 => tensor.zeros_like(),
            // It takes pixels up to 255, which a trained one does not make larger.
            "conv_1.sk.weight" | "conv_1.conv.2.weight" if name == "span" => tensor / 255.0,
            _ => tensor,
        };
        Some((key.to_owned(), tensor))
    })
}

fn open(name: &str) -> LoadedUpscaler {
    let (_folder, path) = write(name);
    LoadedUpscaler::open(&path, Kind::Float, Device::Cpu).unwrap()
}

/// Numbers from 0 to 1.
fn image(name: &str, height: i64, width: i64) -> Tensor {
    // Lists of numbers are made up as tenths.
    let numbers = made_up(name, &[3 * height * width]) / 0.1;
    (numbers * 0.5 + 0.5).view([1, 3, height, width])
}

/// All pieces in one image.
fn whole(network: &LoadedUpscaler, pixels: &Tensor, tiles: TileSize) -> Tensor {
    let scale = i64::from(network.config.scale());
    let [height, width] = [2, 3].map(|axis| pixels.size()[axis] * scale);
    let canvas = Tensor::full([1, 3, height, width], f64::NAN, (Kind::Float, Device::Cpu));
    let mut take = |piece: &Tensor, [top, left]: [i64; 2]| {
        let (rows, columns) = (piece.size()[2], piece.size()[3]);
        let mut place = canvas.narrow(2, top, rows).narrow(3, left, columns);
        place.copy_(piece);
    };
    tch::no_grad(|| upscale(network, pixels, tiles, &|| true, &mut take)).unwrap();
    canvas
}

fn all_at_once(config: &UpscalerConfig, pixels: &Tensor) -> TileSize {
    let size = [3, 2].map(|axis| pixels.size()[axis] as u32);
    TileSize::within(1 << 30, config, size, 4, None)
}

#[test]
fn upscalers_are_those_of_python_in_all_their_names() {
    let pixels = image("picture", 7, 11);
    for name in shapes().as_object().unwrap().keys() {
        let network = open(name);
        let tiles = all_at_once(&network.config, &pixels);
        assert_eq!(tiles.halo, 0);
        let found = whole(&network, &pixels, tiles);
        assert_close(name, &found, &recorded(name), LIMIT);
    }
}

#[test]
fn upscaler_tiles_with_a_full_halo_match_the_whole_image() {
    let pixels = image("large", 90, 74);
    for name in ["old", "plus", "body_x2", "compact", "span"] {
        let network = open(name);
        let at_once = whole(&network, &pixels, all_at_once(&network.config, &pixels));
        let tiles = TileSize {
            rows: 19,
            columns: 33,
            halo: network.config.reach(),
            band: 4,
        };
        assert_close(name, &whole(&network, &pixels, tiles), &at_once, LIMIT);
        // With less around them tiles differ at their edges, so that the test sees them.
        let blind = whole(&network, &pixels, TileSize { halo: 0, ..tiles });
        assert!(distance(&blind, &at_once) > 1e-4, "{name}");
    }
}

/// A Real-ESRGAN of `num_blocks` blocks with few channels, whose weights are `gain` times as large as they are made up.
fn deep(num_blocks: i64, gain: f64) -> LoadedUpscaler {
    let rrdb = RrdbConfig {
        names: RrdbNames::Body,
        growth: 4,
        num_blocks,
        num_doublings: 2,
        unshuffle: 1,
        has_shortcuts: false,
    };
    let width = 8;
    let [before, last] = rrdb.ends();
    let mut layers = vec![(rrdb.first(), 3, width), (last, width, 3)];
    let same = [rrdb.trunk(), rrdb.up(0), rrdb.up(1), before];
    layers.extend(same.map(|name| (name, width, width)));
    for (block, part) in (0..num_blocks).flat_map(|block| (0..3).map(move |part| (block, part))) {
        layers.extend((0..5).map(|number| {
            let outputs = if number == 4 { width } else { rrdb.growth };
            let name = format!("{}.{}", rrdb.dense(block, part), rrdb.within(number));
            (name, width + number * rrdb.growth, outputs)
        }));
    }
    let tensors = layers.iter().flat_map(|(name, inputs, outputs)| {
        let weight = format!("{name}.weight");
        let made = made_up(&weight, &[*outputs, *inputs, 3, 3]) * gain;
        let bias = Tensor::zeros([*outputs], (Kind::Float, Device::Cpu));
        [(weight, made), (format!("{name}.bias"), bias)]
    });
    let same = |key: &str, tensor| Some((key.to_owned(), tensor));
    let (_folder, path) = fixtures::write_changed(tensors.collect(), same);
    LoadedUpscaler::open(&path, Kind::Float, Device::Cpu).unwrap()
}

#[test]
fn a_full_network_needs_far_less_around_a_tile_than_its_layers_reach() {
    let pixels = image("wide", 16, 300);
    for gain in [1.0, 2.0] {
        let network = deep(23, gain);
        assert_eq!(network.config.reach(), 347);
        let tiles = TileSize {
            columns: 150,
            ..all_at_once(&network.config, &pixels)
        };
        let at_once = whole(&network, &pixels, all_at_once(&network.config, &pixels));
        let halo = MAX_HALO;
        let near = whole(&network, &pixels, TileSize { halo, ..tiles });
        assert_close(&format!("gain {gain}"), &near, &at_once, LIMIT);
        let blind = whole(&network, &pixels, TileSize { halo: 0, ..tiles });
        assert!(distance(&blind, &at_once) > 1e-4, "{gain}");
    }
}

#[test]
fn upscaler_output_is_clamped_to_bytes_and_nan_is_refused() {
    let mut canvas = UpscaleCanvas::new(2, 3);
    let piece = Tensor::from_slice(&[-1.0_f32, 0.5, 2.0]).view([1, 3, 1, 1]);
    assert!(canvas.put(&piece, [1, 2]));
    assert!(!canvas.put(&(piece * f64::NAN), [0, 0]));
    let bytes = canvas.into_rgb().unwrap();
    assert_eq!(bytes.len(), 18);
    assert_eq!(bytes[15..], [0, 128, 255]);
}
