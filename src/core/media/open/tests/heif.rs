//! AVIF and HEIC, by the user's ffmpeg: without one, what to do is said.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::media::{MediaError, OpenedImage, media_info, open_image};
use crate::testing::random::Random;

fn fixture(name: &str) -> PathBuf {
    crate::testing::fixture("heif").join(name)
}

/// The image, or `None` where there is no ffmpeg.
fn opened(name: &str) -> Option<OpenedImage> {
    let found = Command::new("ffmpeg")
        .arg("-version")
        .stdout(Stdio::null())
        .status();
    match (found, open_image(&fixture(name))) {
        (Ok(_), opened) => Some(opened.unwrap()),
        (Err(_), opened) => {
            let sentence = opened.err().map(|err| err.to_string());
            assert!(sentence.unwrap().contains("install ffmpeg"));
            None
        }
    }
}

/// Checks the middles of the quarters: upper left, upper right, lower left, lower right.
#[track_caller]
fn assert_quarters(image: &OpenedImage, expected: [[u8; 3]; 4]) {
    let (width, height) = (image.image.width, image.image.height);
    for (at, expected) in (0..).zip(expected) {
        let (x, y) = (at % 2 * 2 + 1, at / 2 * 2 + 1);
        let found = image.image.pixel(width * x / 4, height * y / 4);
        let is_near = found.iter().zip(expected).all(|(a, b)| a.abs_diff(b) <= 4);
        assert!(is_near, "{at}: {found:?} is not {expected:?}");
    }
}

#[test]
fn sizes_are_known_without_decoding() -> Result<(), MediaError> {
    let names = ["tiles.heic", "turned.avif", "alpha.avif"];
    for (name, (width, height)) in names.into_iter().zip([(80, 96), (32, 48), (48, 32)]) {
        let info = media_info(&fixture(name))?;
        let found = (info.width, info.height, info.num_frames);
        assert_eq!(found, (width, height, 1));
    }
    Ok(())
}

#[test]
fn tiles_are_joined_turned_and_converted() {
    let Some(image) = opened("tiles.heic") else {
        return;
    };
    assert_eq!((image.image.width, image.image.height), (80, 96));
    let p3 = [[0, 163, 0], [240, 240, 240], [241, 0, 0], [30, 30, 219]];
    assert_quarters(&image, p3);
}

#[test]
fn a_turned_image_is_upright() {
    let Some(image) = opened("turned.avif") else {
        return;
    };
    assert_eq!((image.image.width, image.image.height), (32, 48));
    assert_quarters(
        &image,
        [[30, 30, 210], [220, 30, 30], [240, 240, 240], [30, 160, 40]],
    );
}

#[test]
fn transparency_is_read() {
    let Some(image) = opened("alpha.avif") else {
        return;
    };
    assert_quarters(
        &image,
        [[220, 30, 30], [30, 160, 40], [30, 30, 210], [240, 240, 240]],
    );
    let alpha = image.alpha.unwrap();
    assert!(alpha.values[48 * 2] < 40 && alpha.values[48 * 30] > 215);
}

#[test]
fn avif_sequence_opens_its_first_frame_with_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sequence.avif");
    let boxed = |content: Vec<u8>, name: &&[u8; 4]| {
        let len = (content.len() as u32 + 8).to_be_bytes();
        [&len[..], &name[..], &content].concat()
    };
    let sizes = [[0; 11].as_slice(), &[4]].concat();
    let movie = [b"stsz", b"stbl", b"minf", b"mdia", b"trak", b"moov"];
    let movie = movie.iter().fold(sizes, boxed);
    let still = std::fs::read(fixture("turned.avif")).unwrap();
    std::fs::write(&path, [still, movie].concat()).unwrap();
    if opened("turned.avif").is_some() {
        let image = open_image(&path).unwrap();
        assert_eq!(image.notices(&path), ["Only the first of 4 frames is used"]);
    }
}

#[test]
fn damaged_containers_never_panic() {
    let mut random = Random::new(7);
    let whole = std::fs::read(fixture("tiles.heic")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.heic");
    for _ in 0..200 {
        let mut damaged = whole.clone();
        for _ in 0..3 {
            // In the boxes, which are before the coded images.
            damaged[28 + random.below(500)] = random.below(256) as u8;
        }
        std::fs::write(&path, &damaged).unwrap();
        media_info(&path).ok();
    }
}
