//! RIFE against the Python networks (`tests/fixtures/rife`), and where a video cuts.
//!
//! Weights and frames are a formula of their names. Limits are relative L2 distances.

use std::path::PathBuf;

use safelight_core::media::RgbPixels;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::IfnetNetwork;
use crate::closeness::assert_close;
use crate::finish::{is_cut, likeness};
use crate::pixels::pixels_from_rgb8;
use crate::weights::tests::fixtures::{self, fixture, json_of, open as weights, tensors_of};
use crate::weights::tests::made_up::made_up;

const LIMIT: f64 = 1e-5;

/// A file of a version whose keys are changed by `rename`.
fn write(version: &str, rename: impl Fn(&str) -> String) -> (TempDir, PathBuf) {
    let shapes = json_of(&fixture("rife/shapes.json"));
    let tensors = tensors_of(&shapes[version], &format!("{version}."));
    fixtures::write_changed(tensors, |key, tensor| Some((rename(key), tensor)))
}

fn open(version: &str, rename: impl Fn(&str) -> String) -> IfnetNetwork {
    let (_folder, path) = write(version, rename);
    IfnetNetwork::open(&path, Kind::Float, Device::Cpu).unwrap()
}

fn own(key: &str) -> String {
    key.to_owned()
}

/// Smooth colours, as the generator makes them.
fn frame(name: &str, [height, width]: [i64; 2]) -> Tensor {
    let noise = made_up(name, &[1, 3, height, width]) * ((height * width) as f64).sqrt();
    let padded = noise.pad([2, 2, 2, 2], "replicate", None);
    padded.avg_pool2d([5, 5], [1, 1], [0, 0], false, true, None) * 0.9 + 0.5
}

#[test]
fn frames_between_are_those_of_the_python_networks() {
    let file = weights(&fixture("rife/recorded.safetensors"), Kind::Float);
    for (version, times) in [
        ("4.6", &[0.5][..]),
        ("4.9", &[0.25]),
        ("4.12.lite", &[0.5]),
        ("4.14.lite", &[0.75]),
        ("4.22", &[0.5]),
        ("4.25", &[0.2, 0.5, 2.0 / 3.0]),
        ("4.25.lite", &[0.5]),
        ("4.26.heavy", &[0.5]),
    ] {
        let network = open(version, own);
        for &time in times {
            let key = format!("{version}.{time:.3}");
            let size = file.shape_of(&key).unwrap();
            let expected = file.tensor(&key, &size).unwrap();
            let [first, second] =
                ["first", "second"].map(|name| network.see(&frame(name, [size[2], size[3]])));
            let found = network.between(&first, &second, time, &|| false).unwrap();
            assert_close(&key, &found, &expected, LIMIT);
        }
    }
}

#[test]
fn other_programs_names_give_the_same_frames() {
    let made = |rename: &dyn Fn(&str) -> String| {
        let network = open("4.25", rename);
        let [first, second] = ["first", "second"].map(|name| network.see(&frame(name, [20, 70])));
        network.between(&first, &second, 0.5, &|| false).unwrap()
    };
    let expected = made(&own);
    assert_eq!(expected.size(), [1, 3, 20, 70]);
    assert_eq!(made(&|key: &str| format!("module.{key}")), expected);
    let comfy = |key: &str| match key.strip_prefix("block") {
        Some(rest) => format!("blocks.{rest}"),
        None => key.to_owned(),
    };
    assert_eq!(made(&comfy), expected);
}

#[test]
fn a_cancelled_frame_is_none() {
    let network = open("4.6", own);
    let seen = network.see(&frame("first", [32, 32]));
    assert!(network.between(&seen, &seen, 0.5, &|| true).is_none());
}

#[test]
fn rife_file_with_a_missing_tensor_is_refused_with_its_name() {
    let (_folder, path) = write("4.25", |key| {
        key.replace("block2.convblock.7.beta", "other")
    });
    let err = IfnetNetwork::open(&path, Kind::Float, Device::Cpu).unwrap_err();
    assert!(err.to_string().contains("block2.convblock.7.beta"), "{err}");
}

/// `(1, 3, H, W)` in 0..1
fn pixels(image: &RgbPixels) -> Tensor {
    pixels_from_rgb8(&image.rgb, image.width, image.height).unwrap() * 0.5 + 0.5
}

/// A scene of large and small shapes of its own, shown from `x` on.
fn scene(seed: f64, x: i64) -> Tensor {
    let (height, width) = (144, 320);
    let image = RgbPixels::from_fn(256, height, |column, row| {
        let (x, y) = (
            (f64::from(column) + x as f64) / f64::from(width),
            f64::from(row) / f64::from(height),
        );
        let wave = |a: f64, b: f64| (a * seed * x + b * y + seed * seed).sin();
        let value = wave(9.0, 4.0) + wave(3.0, -11.0 * seed) + 0.5 * wave(31.0, 17.0);
        let value = ((value / 5.0 + 0.5) * 255.0).clamp(0.0, 255.0) as u8;
        [value, value / 2 + 60, 255 - value]
    });
    pixels(&image.unwrap())
}

#[test]
fn another_scene_is_a_cut_and_a_pan_a_fade_or_a_flash_is_none() {
    let scenes = [1.0, 1.37, 0.61, 2.2];
    for (number, &seed) in scenes.iter().enumerate() {
        let first = scene(seed, 0);
        for &other in &scenes[number + 1..] {
            let second = scene(other, 0);
            let found = likeness(&first, &second);
            assert!(is_cut(&first, &second), "{seed} {other}: {found}");
            // As well where both are dark.
            assert!(is_cut(&(&first * 0.1), &(&second * 0.1)), "{seed} {other}");
        }
        for (what, second) in [
            ("itself", first.shallow_clone()),
            ("a pan", scene(seed, 8)),
            ("a fade", &first * 0.5),
            ("a flash", (&first * 1.6).clamp(0.0, 1.0)),
        ] {
            let found = likeness(&first, &second);
            assert!(!is_cut(&first, &second), "{seed}: {what} {found}");
        }
    }
}
