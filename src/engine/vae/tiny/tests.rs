//! Tiny decoders against diffusers and a reference of our own (`tests/fixtures/vae/tiny`).
//!
//! Weights and latents are a formula of their names. Limits are relative L2 distances.

use std::path::{Path, PathBuf};

use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::TinyDecoder;
use crate::closeness::assert_close;
use crate::weights::tests::fixtures::{self, fixture, json_of, tensors_of, write_changed};
use crate::weights::tests::made_up::made_up;

const LIMIT: f64 = 1e-5;

fn recorded(key: &str) -> Tensor {
    fixtures::recorded("vae/tiny/recorded.safetensors", key)
}

/// The tensors of a fixture in its published names.
pub(crate) fn tensors(name: &str) -> Vec<(String, Tensor)> {
    let shapes = json_of(&fixture("vae/tiny/shapes.json"));
    tensors_of(&shapes[name], &format!("{name}."))
}

/// A file of a fixture whose keys are changed by `rename`, which leaves out some.
pub(crate) fn write(name: &str, rename: impl Fn(&str) -> Option<String>) -> (TempDir, PathBuf) {
    write_changed(tensors(name), |key, tensor| Some((rename(key)?, tensor)))
}

fn open(path: &Path) -> TinyDecoder {
    TinyDecoder::open(path, Kind::Float, Device::Cpu).unwrap()
}

fn decoder(name: &str) -> TinyDecoder {
    let (_folder, path) = write(name, |key| Some(key.to_owned()));
    open(&path)
}

/// `(f, 3, H, W)`
fn decode(decoder: &TinyDecoder, latents: &Tensor, doublings: u32) -> Tensor {
    let mut images = Vec::new();
    tch::no_grad(|| decoder.decode(latents, doublings, &mut |image| images.push(image)));
    Tensor::stack(&images, 0)
}

fn latents(name: &str, shape: &[i64]) -> Tensor {
    made_up(&format!("{name}.latents"), shape) * 60.0
}

#[test]
fn images_are_those_of_diffusers_in_its_names_and_in_the_authors() {
    let latents = latents("taef1", &[1, 16, 4, 6]).unsqueeze(2);
    let expected = recorded("taef1");
    let found = decode(&decoder("taef1"), &latents, 3);
    assert_close("diffusers' names", &found, &expected, LIMIT);
    // The authors count the clamp in front, and have the decoder in a file of its own.
    let authors = |key: &str| {
        let rest = key.strip_prefix("decoder.layers.")?;
        let (number, rest) = rest.split_once('.')?;
        Some(format!("{}.{rest}", number.parse::<u32>().ok()? + 1))
    };
    for prefix in ["", "decoder."] {
        let (_folder, path) = write("taef1", |key| Some(format!("{prefix}{}", authors(key)?)));
        let found = decode(&open(&path), &latents, 3);
        assert_close("the authors' names", &found, &expected, LIMIT);
    }
}

#[test]
fn frames_of_videos_are_those_of_the_whole_video_at_once() {
    for (name, channels) in [("taew2_1", 16), ("taew2_2", 48)] {
        let latents = latents(name, &[1, channels, 3, 4, 6]);
        let decoder = decoder(name);
        let found = decode(&decoder, &latents, 3);
        assert_close(name, &found, &recorded(name), LIMIT);
        let once = decode(&decoder, &latents, 1);
        assert_close(name, &once, &recorded(&format!("{name}.once")), LIMIT);
    }
}

#[test]
fn no_edge_is_longer_than_its_limit() {
    let decoder = decoder("taew2_2");
    // The 5B model's 1280 × 704, of patches of two pixels.
    for (latents, doublings) in [([44, 80], Some(1)), ([32, 32], Some(3)), ([9, 300], None)] {
        let found = decoder.doublings_within(latents, 512);
        assert_eq!(found, doublings, "{latents:?}");
    }
}

#[test]
fn a_file_that_is_no_tiny_decoder_or_half_of_one_is_refused() {
    let refused = |name: &str, keep: &dyn Fn(&str) -> bool| {
        let (_folder, path) = write(name, |key| keep(key).then(|| key.to_owned()));
        TinyDecoder::open(&path, Kind::Float, Device::Cpu)
            .unwrap_err()
            .to_string()
    };
    let other = refused("taef1", &|key| key.starts_with("encoder."));
    assert!(other.contains("expected a tiny decoder"), "{other}");
    let half = refused("taew2_1", &|key| key != "decoder.9.conv.2.weight");
    assert!(half.contains("decoder.9.conv.2.weight"), "{half}");
}
