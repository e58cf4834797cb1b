//! What can be asked for, and the sentences for what cannot.

mod interpolate;

use std::collections::BTreeMap;

use super::*;
use crate::media::{RgbPixels, VideoOptions, write_png, write_video};
use crate::testing::json_fixture;
use crate::testing::made_up::{self, Shapes};

/// A network of a list in `tests/fixtures` as a file whose numbers are all 0.
fn network_of(list: &str, name: &str, folder: &Path) -> PathBuf {
    let all: BTreeMap<String, Shapes> = json_fixture(list);
    made_up::write(
        &folder.join(format!("{name}.safetensors")),
        &all[name],
        "F32",
    )
}

pub(crate) fn network(folder: &Path, name: &str) -> PathBuf {
    network_of("finish/upscalers.json", name, folder)
}

/// Three frames of 30 by 20 pixels, ten a second.
fn write_three(path: &Path) {
    let frames = [10, 200, 90].map(|grey| RgbPixels::from_fn(30, 20, |_, _| [grey; 3]).unwrap());
    let options = VideoOptions {
        fps: 10.0,
        ..VideoOptions::default()
    };
    write_video(path, &frames, options).unwrap();
}

/// Changes that make a sound form one that is refused, and the sentences, or their starts before a `…`.
type Refusals<'a> = &'a [(&'a dyn Fn(&mut PostprocessForm), &'a str)];

fn assert_refused(good: &PostprocessForm, refusals: Refusals<'_>) {
    for (change, expected) in refusals {
        let mut form = good.clone();
        change(&mut form);
        let found = form.validate().unwrap_err().summary;
        match expected.strip_suffix('…') {
            Some(start) => assert!(found.starts_with(start), "{found}"),
            None => assert_eq!(found, *expected),
        }
    }
}

fn upscale(size: TargetSize) -> PostprocessOptions {
    PostprocessOptions::Upscale { size, tile: None }
}

fn form(folder: &Path, source: PathBuf) -> PostprocessForm {
    PostprocessForm {
        source,
        network: network(folder, "body_x2"),
        options: upscale(TargetSize::Factor(2.0)),
        out: folder.join("large.png"),
        is_out_automatic: false,
        dtype: DtypeChoice::Auto,
        memory: MemoryOptions::default(),
        crf: 16,
    }
}

fn image(folder: &Path) -> PathBuf {
    let path = folder.join("small.png");
    write_png(&path, &RgbPixels::from_fn(30, 20, |_, _| [9; 3]).unwrap()).unwrap();
    path
}

#[test]
fn a_network_is_used_as_often_as_the_size_needs() {
    let folder = tempfile::tempdir().unwrap();
    let form = form(folder.path(), image(folder.path()));
    for (size, passes, after) in [
        (TargetSize::Factor(2.0), 1, (60, 40)),
        (TargetSize::Factor(1.5), 1, (45, 30)),
        (TargetSize::Factor(4.0), 2, (120, 80)),
        (TargetSize::Pixels(100, 100), 3, (100, 100)),
    ] {
        let options = upscale(size);
        let request = PostprocessForm {
            options,
            ..form.clone()
        }
        .validate()
        .unwrap();
        assert_eq!((request.after.width, request.after.height), after);
        let PostprocessKind::Upscale { passes: found, .. } = request.work else {
            panic!("it upscales")
        };
        assert_eq!(found, passes, "{size:?}");
        assert!(request.is_image && request.after.num_frames == 1);
    }
    let request = form.validate().unwrap();
    assert_eq!(request.title(), "Upscale ×2: small.png");
    // What is kept of it is the same request.
    let json = serde_json::to_value(&request).unwrap();
    assert_eq!(json["work"], "upscale");
    let again: PostprocessRequest = serde_json::from_value(json).unwrap();
    assert_eq!(again, request);
}

#[test]
fn invalid_upscale_requests_are_refused_before_processing() {
    let folder = tempfile::tempdir().unwrap();
    let good = form(folder.path(), image(folder.path()));
    let pickle = folder.path().join("4x.pth");
    std::fs::write(&pickle, b"\x80\x02").unwrap();
    let tiles = PostprocessOptions::Upscale {
        size: TargetSize::Factor(2.0),
        tile: Some(8),
    };
    let refusals: Refusals<'_> = &[
        (
            &|form| form.options = upscale(TargetSize::Factor(9.0)),
            "this network enlarges ×2, and at most 3 times, but ×9 was asked for",
        ),
        (
            &|form| form.network = network(folder.path(), "body_x1"),
            "this network does not enlarge, and ×2 was asked for",
        ),
        (
            &|form| form.options = upscale(TargetSize::Factor(0.5)),
            "expected a factor between 1 and 16, found 0.5",
        ),
        (
            &|form| form.options = upscale(TargetSize::Pixels(40_000, 40_000)),
            "the result would be 40000 × 40000…",
        ),
        (
            &|form| form.options = tiles,
            "expected tiles of at least 64 pixels, found 8",
        ),
        (
            &|form| assert!(form.out.set_extension("gif")),
            "an image cannot be saved as GIF…",
        ),
        (
            &|form| form.source = folder.path().join("gone.png"),
            "this file does not exist…",
        ),
        (
            &|form| form.network.clone_from(&pickle),
            "this is a pickle file, which can run code…",
        ),
        (
            &|form| form.network.clone_from(&form.source),
            "this is a PNG…",
        ),
    ];
    assert_refused(&good, refusals);
}

#[test]
fn a_video_of_one_frame_becomes_an_image_or_a_video_as_its_result_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("one.gif");
    let frame = RgbPixels::from_fn(30, 20, |_, _| [90; 3]).unwrap();
    write_video(&source, &[frame], VideoOptions::default()).unwrap();
    for (name, is_image) in [
        ("large.png", true),
        ("large.webp", true),
        ("large.gif", false),
    ] {
        let form = PostprocessForm {
            out: folder.path().join(name),
            ..form(folder.path(), source.clone())
        };
        let request = form.validate().unwrap();
        assert_eq!(request.is_image, is_image, "{name}");
        assert_eq!((request.after.num_frames, request.after.width), (1, 60));
        assert_eq!(request.after.fps > 0.0, !is_image, "{name}");
    }
}

#[test]
fn a_video_keeps_its_length_and_rate() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("video.webp");
    write_three(&source);
    let video = PostprocessForm {
        out: folder.path().join("large.webp"),
        ..form(folder.path(), source.clone())
    };
    let request = video.validate().unwrap();
    assert!(!request.is_image);
    assert_eq!((request.after.num_frames, request.after.width), (3, 60));
    assert!((request.after.fps - 10.0).abs() < 0.2);
    assert_eq!(ending_of(&source, false), "webp");
    assert_eq!(ending_of(Path::new("a.mkv"), false), DEFAULT_VIDEO_ENDING);
    assert_eq!(ending_of(Path::new("a.bmp"), true), "png");
    assert_eq!(ending_of(Path::new("a.JPG"), true), "jpg");
}

#[test]
fn a_size_is_read_as_people_write_it() {
    assert_eq!("1920x1080".parse(), Ok(TargetSize::Pixels(1920, 1080)));
    for wrong in ["1920", "0x4", "ax4", ""] {
        let err = wrong.parse::<TargetSize>().unwrap_err();
        let is_told = err.starts_with("expected a size such as 1920x1080");
        assert!(is_told, "{err}");
    }
}
