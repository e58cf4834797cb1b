//! Transparency and frame times that upscaling keeps, or names where the result cannot.

use safelight_core::media::{AlphaChannel, ClipOptions, ClipWriter, FrameStarts};

use crate::generate::prelude::*;
use crate::generate::upscale::{frame, network, upscale};

#[test]
fn transparency_is_enlarged_and_hidden_colours_stay_hidden() {
    let home = Home::new();
    network(&home, "net.safetensors");
    let red = [200, 30, 30];
    // Under the transparent half there is green.
    let small = Picture::from_fn(16, 8, |x, _| if x < 8 { red } else { [0, 255, 0] }).unwrap();
    let alpha = AlphaChannel {
        width: 16,
        height: 8,
        values: [[255; 8], [0; 8]].concat().repeat(8),
    };
    let path = home.path().join("cut.png");
    let mut writer = ClipWriter::create(&path, ClipOptions::default()).unwrap();
    writer.push_with_alpha(&small, Some(&alpha)).unwrap();
    writer.finish().unwrap();
    for (name, is_kept) in [
        ("large.png", true),
        ("large.webp", true),
        ("large.jpg", false),
    ] {
        let output = run(upscale(&home).args(["cut.png", "--scale", "4", "--out", name]));
        let last = assert_finished(&output);
        let is_warning = |event: &serde_json::Value| {
            event["event"] == "warning"
                && event["message"].as_str().unwrap().contains("transparency")
        };
        assert_eq!(events(&output).iter().any(is_warning), !is_kept, "{last}");
        let large = media::open_image(&home.path().join(name)).unwrap();
        assert_eq!((large.picture.width, large.picture.height), (64, 32));
        let is_red = |pixel: &[u8; 3]| pixel.iter().zip(red).all(|(a, b)| a.abs_diff(b) <= 4);
        assert!(large.picture.rgb.as_chunks().0.iter().all(is_red), "{name}");
        let values = large.alpha.map(|alpha| [alpha.values[0], alpha.values[63]]);
        assert_eq!(values, is_kept.then_some([255, 0]), "{name}");
    }
}

#[test]
fn a_video_of_uneven_frame_times_keeps_them() {
    let home = Home::new();
    network(&home, "net.safetensors");
    let frames: Vec<Picture> = (0..4).map(|index| frame(index, 20, 14)).collect();
    let options = ClipOptions {
        starts: Some(FrameStarts::from_micros([
            0, 50_000, 100_000, 2_100_000, 2_400_000,
        ])),
        ..ClipOptions::default()
    };
    media::write_clip(&home.path().join("small.gif"), &frames, options.clone()).unwrap();
    for out in ["large.webp", "large.gif"] {
        let output = run(upscale(&home).args(["small.gif", "--out", out]));
        assert_eq!(end(&output).1, 0, "{:?}", end(&output).0);
        let starts = media::frame_starts(&home.path().join(out)).unwrap();
        assert_eq!(starts, options.starts, "{out}");
    }
    let output = run(upscale(&home).args(["small.gif", "--out", "large.png"]));
    let warnings = events(&output)
        .into_iter()
        .filter(|event| event["event"] == "warning");
    let texts: Vec<String> = warnings.map(|event| event.to_string()).collect();
    assert!(
        texts.iter().any(|text| text.contains("uneven frame times")),
        "{texts:?}"
    );
}
