//! Shared by tests of several parts: weight files of the published shapes without weights, and tiny whole pipelines.

pub(crate) mod made_up;
pub(crate) mod pipelines;
pub(crate) mod published;
pub(crate) mod random;

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::media::{RgbPixels, VideoOptions};
use crate::model::ModelSpec;

/// A file or folder of the project.
pub(crate) fn project(place: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(place)
}

/// A file or folder of `tests/fixtures`.
pub(crate) fn fixture(place: &str) -> PathBuf {
    project("tests/fixtures").join(place)
}

/// JSON of a file of `tests/fixtures`.
pub(crate) fn json_fixture<T: DeserializeOwned>(place: &str) -> T {
    serde_json::from_slice(&fs::read(fixture(place)).unwrap()).unwrap()
}

/// Mean distance of two images' samples.
pub(crate) fn mean_distance(a: &RgbPixels, b: &RgbPixels) -> f64 {
    assert_eq!((a.width, a.height), (b.width, b.height));
    let samples = a.rgb.iter().zip(&b.rgb);
    let sum: u64 = samples.map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
    sum as f64 / a.rgb.len() as f64
}

/// Pairs of names, a row each: `one -> other`.
pub(crate) fn table(rows: &str) -> impl Iterator<Item = (&str, &str)> {
    rows.lines()
        .map(|row| row.trim().split_once(" -> ").expect("a row has two names"))
}

/// Asserts that a text has each of these parts.
#[track_caller]
pub(crate) fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "without {part:?}: {text}");
    }
}

/// Asserts that no model is opened from a place, and that the reason has each of these parts.
#[track_caller]
pub(crate) fn assert_not_opened(place: &Path, parts: &[&str]) {
    assert_has(&ModelSpec::open(place).unwrap_err().to_string(), parts);
}

/// A file with this name and content, alone in a folder.
pub(crate) fn file_of(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// The options of a video with these settings.
pub(crate) fn with_settings(text: &str) -> VideoOptions {
    VideoOptions {
        settings: Some(text.to_owned()),
        ..VideoOptions::default()
    }
}

/// The options of a video with this frame rate.
pub(crate) fn at_rate(fps: f64) -> VideoOptions {
    VideoOptions {
        fps,
        ..VideoOptions::default()
    }
}
