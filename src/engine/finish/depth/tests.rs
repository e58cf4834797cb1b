//! Depth Anything against transformers' class (`tests/fixtures/depth`). Weights are a formula of their names.

use safelight_core::media::RgbPixels;
use tch::{Device, Kind, Tensor};

use super::{DepthNetwork, SMOOTHED, grey, mean};
use crate::closeness::assert_close;
use crate::weights::tests::fixtures::{self, fixture, json_of, open as weights, tensors_of};
use crate::weights::tests::made_up::made_up;

const LIMIT: f64 = 1e-5;

/// A network whose file has the names of a dialect, with the same numbers.
fn open(dialect: &str) -> DepthNetwork {
    let shapes = json_of(&fixture("depth/shapes.json"));
    let names = safelight_core::networks::DepthNames::Authors;
    let tensors = tensors_of(&shapes["transformers"], "depth.");
    let (_folder, path) = if dialect == "transformers" {
        fixtures::write_changed(tensors, |key, tensor| Some((key.to_owned(), tensor)))
    } else {
        let all: std::collections::BTreeMap<String, Tensor> = tensors
            .iter()
            .map(|(key, tensor)| (key.clone(), tensor.shallow_clone()))
            .collect();
        fixtures::write_changed(tensors, |key, tensor| {
            if key.contains(".attention.key.") || key.contains(".attention.value.") {
                return None;
            }
            let part =
                |name: &str| all[&key.replace(".query.", &format!(".{name}."))].shallow_clone();
            if key.contains(".attention.query.") {
                let fused = key.replace(".query.", ".qkv.");
                let all = [tensor, part("key"), part("value")];
                return Some((names.file_key(&fused), Tensor::cat(&all, 0)));
            }
            Some((names.file_key(key), tensor))
        })
    };
    DepthNetwork::open(&path, Kind::Float, Device::Cpu).unwrap()
}

#[test]
fn depth_is_that_of_transformers_at_every_size_in_both_dialects() {
    let file = weights(&fixture("depth/recorded.safetensors"), Kind::Float);
    for dialect in ["transformers", "authors"] {
        let network = open(dialect);
        for size in [[70, 70], [56, 98], [112, 42]] {
            let [height, width] = size;
            let noise = made_up(&format!("pixels.{height}"), &[1, 3, height, width]);
            let pixels = noise * ((height * width) as f64).sqrt();
            let expected = file.tensor(&format!("depth.{height}"), &size).unwrap();
            let found = network.forward(&pixels);
            assert_close(&format!("{dialect} {size:?}"), &found, &expected, LIMIT);
        }
    }
}

#[test]
fn an_image_is_resized_as_by_the_processor() {
    let file = weights(&fixture("depth/recorded.safetensors"), Kind::Float);
    let image = file
        .tensor("image", &[90, 151, 3])
        .unwrap()
        .to_kind(Kind::Uint8);
    let mut rgb = vec![0; 90 * 151 * 3];
    image.copy_data_u8(&mut rgb, 90 * 151 * 3);
    let image = RgbPixels::new(151, 90, rgb).unwrap();
    let found = open("transformers").pixels(&image, 70.0).unwrap();
    let expected = file.tensor("processed", &[1, 3, 70, 112]).unwrap();
    assert_close("pixels", &found, &expected, 1e-6);
}

#[test]
fn a_map_uses_all_greys_and_ranges_are_averaged() {
    let depth = Tensor::from_slice2(&[[1.0_f32, 2.0], [3.0, 5.0]]);
    let bytes = Vec::<u8>::try_from(grey(&depth, [1.0, 5.0]).flatten(0, 1)).unwrap();
    assert_eq!(bytes, [0, 64, 128, 255]);
    let flat = grey(&depth.ones_like(), [1.0, 1.0]);
    assert_eq!(flat.max().int64_value(&[]), 0);
    let ranges = (0..SMOOTHED)
        .map(|it| [it as f64, 2.0 * it as f64])
        .collect();
    assert_eq!(mean(&ranges), [3.5, 7.0]);
}
