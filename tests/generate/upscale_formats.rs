//! Transparency and frame times that upscaling keeps, or names where the result cannot.

use safelight_core::media::{AlphaChannel, FrameStarts, VideoWriter};

use crate::generate::prelude::*;
use crate::generate::upscale::{frame, upscale, with_network};

#[test]
fn transparency_is_enlarged_and_hidden_colours_stay_hidden() {
    let home = with_network();
    let red = [200, 30, 30];
    // Under the transparent half there is green.
    let small = RgbPixels::from_fn(16, 8, |x, _| if x < 8 { red } else { [0, 255, 0] }).unwrap();
    let alpha = AlphaChannel {
        width: 16,
        height: 8,
        values: [[255; 8], [0; 8]].concat().repeat(8),
    };
    let path = home.path().join("cut.png");
    let mut writer = VideoWriter::create(&path, VideoOptions::default()).unwrap();
    writer.push_with_alpha(&small, Some(&alpha)).unwrap();
    writer.finish().unwrap();
    for (name, is_kept) in [
        ("large.png", true),
        ("large.webp", true),
        ("large.jpg", false),
    ] {
        let output = run(upscale(&home).args(["cut.png", "--scale", "4", "--out", name]));
        assert_finished(&output);
        let mut warnings = events_of(&output, "warning").into_iter();
        let is_told = warnings.any(|event| event.to_string().contains("transparency"));
        assert_eq!(is_told, !is_kept, "{name}");
        let large = media::open_image(&home.path().join(name)).unwrap();
        assert_eq!((large.image.width, large.image.height), (64, 32));
        let is_red = |pixel: &[u8; 3]| pixel.iter().zip(red).all(|(a, b)| a.abs_diff(b) <= 4);
        assert!(large.image.rgb.as_chunks().0.iter().all(is_red), "{name}");
        let values = large.alpha.map(|alpha| [alpha.values[0], alpha.values[63]]);
        assert_eq!(values, is_kept.then_some([255, 0]), "{name}");
    }
}

#[test]
fn a_video_of_uneven_frame_times_keeps_them() {
    let home = with_network();
    let frames: Vec<RgbPixels> = (0..4).map(|index| frame(index, 20, 14)).collect();
    let options = VideoOptions {
        starts: Some(FrameStarts::from_micros([
            0, 50_000, 100_000, 2_100_000, 2_400_000,
        ])),
        ..VideoOptions::default()
    };
    media::write_video(&home.path().join("small.gif"), &frames, options.clone()).unwrap();
    for out in ["large.webp", "large.gif"] {
        let output = run(upscale(&home).args(["small.gif", "--out", out]));
        assert_finished(&output);
        let starts = media::frame_starts(&home.path().join(out)).unwrap();
        assert_eq!(starts, options.starts, "{out}");
    }
    let output = run(upscale(&home).args(["small.gif", "--out", "large.png"]));
    let warnings = events_of(&output, "warning");
    let is_told = |event: &Value| event.to_string().contains("Uneven frame times");
    assert!(warnings.iter().any(is_told), "{warnings:?}");
}
