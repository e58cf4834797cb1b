//! Transparency and frame times that upscaling keeps, or names where the result cannot.

use std::ops::ControlFlow;

use safelight_core::media::{AlphaChannel, ClipOptions, ClipReader, FrameStarts, VideoWriter};

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
    let mut writer = VideoWriter::create(&path, ClipOptions::default()).unwrap();
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
fn an_animation_keeps_its_transparency_frame_by_frame_or_its_loss_is_told() {
    let home = Home::new();
    network(&home, "net.safetensors");
    let source = home.path().join("cut.webp");
    let mut writer = VideoWriter::create(&source, ClipOptions::default()).unwrap();
    // Each frame is transparent from another column on.
    let values = |edge: usize| [vec![255; edge], vec![0; 16 - edge]].concat();
    for edge in [4, 8, 12] {
        let alpha = AlphaChannel {
            width: 16,
            height: 8,
            values: values(edge).repeat(8),
        };
        let picture = Picture::from_fn(16, 8, |_, _| [200, 30, 30]).unwrap();
        writer.push_with_alpha(&picture, Some(&alpha)).unwrap();
    }
    writer.finish().unwrap();
    for (name, first, is_kept) in [
        ("large.webp", "large.webp", true),
        ("large.png", "large_0001.png", true),
        ("large.gif", "large.gif", false),
    ] {
        let output = run(upscale(&home).args(["cut.webp", "--scale", "4", "--out", name]));
        assert_finished(&output);
        let lost = "the source's transparency is lost: it is not written to GIF";
        let is_warning = |event: &serde_json::Value| event.to_string().contains("transparency");
        let warnings: Vec<_> = events(&output).into_iter().filter(is_warning).collect();
        assert_eq!(warnings.is_empty(), is_kept, "{warnings:?}");
        assert!(
            warnings
                .iter()
                .all(|event| event.to_string().contains(lost))
        );
        let mut edges = Vec::new();
        let mut reader = ClipReader::open(&home.path().join(first)).unwrap();
        reader
            .read_with_alpha(0, &mut |_, frame| {
                let opaque = |alpha: AlphaChannel| {
                    let row = alpha.values[..64].iter();
                    row.take_while(|value| **value > 127).count()
                };
                edges.push(frame.alpha.map(opaque));
                ControlFlow::Continue(())
            })
            .unwrap();
        let expected = [16, 32, 48].map(|edge| is_kept.then_some(edge));
        assert_eq!(edges, expected, "{name}");
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
