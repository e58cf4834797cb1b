//! Videos written to disk and looked at again: by the readers of others, and by our own for settings.

#[cfg(feature = "h264")]
mod mp4;

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use super::*;
use crate::media::{OpenedImage, VideoReader, open_image, open_rgb, read_settings};
use crate::testing::{at_rate, mean_distance, with_settings};

const EXTENSIONS: &[&str] = &[
    #[cfg(feature = "h264")]
    "mp4",
    "gif",
    "webp",
    "png",
    "jpg",
];

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn flat(width: u32, height: u32, rgb: [u8; 3]) -> RgbPixels {
    RgbPixels::from_fn(width, height, |_, _| rgb).unwrap()
}

/// A soft gradient that moves.
fn moving(width: u32, height: u32, frame: u32) -> RgbPixels {
    RgbPixels::from_fn(width, height, |x, y| {
        [
            (x * 2 + frame * 3) as u8 / 2 + 40,
            (y + 60) as u8 / 2 + 30,
            90,
        ]
    })
    .unwrap()
}

fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[cfg(feature = "h264")]
fn worst(a: &RgbPixels, b: &RgbPixels) -> u8 {
    assert_eq!((a.width, a.height), (b.width, b.height));
    let samples = a.rgb.iter().zip(&b.rgb);
    samples.map(|(a, b)| a.abs_diff(*b)).max().unwrap()
}

#[test]
fn a_finer_rate_factor_is_truer_and_larger() {
    let folder = folder();
    let noise = RgbPixels::from_fn(160, 96, |x, y| {
        let value = (x * 7919 + y * 104_729 + x * y * 31) % 251;
        [value as u8, (value / 2 + x) as u8, 128]
    })
    .unwrap();
    for extension in [
        #[cfg(feature = "h264")]
        "mp4",
        "webp",
    ] {
        let path = folder.path().join("noise").with_extension(extension);
        let size = |crf: u8| {
            let options = VideoOptions {
                crf,
                ..VideoOptions::default()
            };
            write_video(&path, &[noise.clone(), noise.clone()], options).unwrap();
            fs::metadata(&path).unwrap().len()
        };
        let sizes: Vec<u64> = [0, 8, 16, 30, 51].map(size).to_vec();
        assert!(sizes.is_sorted_by(|a, b| a > b), "{extension}: {sizes:?}");
    }
}

#[test]
fn every_format_keeps_the_settings_to_the_letter() {
    let folder = folder();
    let long = format!(
        "{{\"prompt\":\"{}\"}}",
        "a 猫 🐈 and <b>&amp;</b> ".repeat(8000)
    );
    assert!(long.len() > 200_000);
    let texts = [
        "{}",
        "{\"prompt\": \"赤い猫 🐈, \\\"quoted\\\" & <tagged> it's ]]> 100 % \\u0000 \\n\",\r\n\t\"seed\": 42}",
        "  {\"seed\":18446744073709551615}  ",
        &long,
    ];
    for extension in EXTENSIONS {
        for count in [1, 2] {
            for text in texts {
                let path = folder.path().join("video").with_extension(extension);
                let options = with_settings(text);
                let frames = vec![flat(9, 7, [1, 2, 3]); count];
                for path in write_video(&path, &frames, options).unwrap() {
                    let read = read_settings(&path).unwrap();
                    assert_eq!(read.as_deref(), Some(text), "{path:?}");
                }
            }
        }
    }
}

#[test]
fn without_settings_none_are_found() {
    let folder = folder();
    for extension in EXTENSIONS {
        let path = folder.path().join("video").with_extension(extension);
        write_video(&path, &[flat(9, 7, [1, 2, 3])], VideoOptions::default()).unwrap();
        assert_eq!(read_settings(&path).unwrap(), None, "{extension}");
    }
}

#[test]
fn images_come_back_without_loss_from_png_and_webp() {
    let folder = folder();
    let image =
        RgbPixels::from_fn(53, 31, |x, y| [(x * 5) as u8, (y * 8) as u8, (x ^ y) as u8]).unwrap();
    for extension in ["png", "webp"] {
        let path = folder.path().join("one").with_extension(extension);
        let paths =
            write_video(&path, std::slice::from_ref(&image), VideoOptions::default()).unwrap();
        assert_eq!(paths, std::slice::from_ref(&path));
        assert_eq!(open_rgb(&path).unwrap(), image);
    }
}

#[test]
fn a_single_image_keeps_its_transparency_in_png_and_webp() {
    let folder = folder();
    let image = moving(48, 32, 3);
    let alpha = AlphaChannel {
        width: 48,
        height: 32,
        values: (0..48 * 32).map(|at| (at % 256) as u8).collect(),
    };
    for (name, is_kept) in [("a.png", true), ("a.webp", true), ("a.jpg", false)] {
        let path = folder.path().join(name);
        let options = with_settings("{}");
        let mut writer = VideoWriter::create(&path, options).unwrap();
        writer.push_with_alpha(&image, Some(&alpha)).unwrap();
        writer.finish().unwrap();
        let opened = open_image(&path).unwrap();
        assert_eq!(opened.alpha.as_ref() == Some(&alpha), is_kept, "{name}");
        assert_eq!(opened.image == image, is_kept, "{name}");
        assert_eq!(read_settings(&path).unwrap().as_deref(), Some("{}"));
    }
}

#[test]
fn an_animation_keeps_the_transparency_of_each_frame_in_webp_and_numbered_pngs() {
    let folder = folder();
    let alphas = [Some(100), None, Some(0)].map(|value: Option<u8>| {
        value.map(|value| AlphaChannel {
            width: 20,
            height: 10,
            values: vec![value; 200],
        })
    });
    for (name, first) in [("a.webp", "a.webp"), ("a.png", "a_0001.png")] {
        let path = folder.path().join(name);
        let mut writer = VideoWriter::create(&path, VideoOptions::default()).unwrap();
        for alpha in &alphas {
            let frame = flat(20, 10, [90, 140, 60]);
            writer.push_with_alpha(&frame, alpha.as_ref()).unwrap();
        }
        writer.finish().unwrap();
        let mut read = Vec::new();
        let mut reader = VideoReader::open(&folder.path().join(first)).unwrap();
        let take = &mut |_, frame: OpenedImage| {
            read.push(frame.alpha);
            ControlFlow::Continue(())
        };
        reader.read_with_alpha(0, take).unwrap();
        assert_eq!(read, alphas, "{name}");
        assert!(reader.has_alpha());
    }
}

#[test]
fn several_frames_become_numbered_pngs() {
    let folder = folder();
    let frames: Vec<RgbPixels> = (0..3).map(|i| moving(20, 10, i * 9)).collect();
    let path = folder.path().join("a.b.PNG");
    let paths = write_video(&path, &frames, VideoOptions::default()).unwrap();
    let expected = ["a.b_0001.png", "a.b_0002.png", "a.b_0003.png"];
    assert_eq!(files_in(folder.path()), expected);
    for (path, frame) in paths.iter().zip(&frames) {
        assert_eq!(&open_rgb(path).unwrap(), frame);
    }
}

#[test]
fn a_jpeg_is_nearly_the_image_and_carries_settings_of_any_length() {
    let folder = folder();
    let path = folder.path().join("a.JPEG");
    let image = moving(50, 31, 4);
    for len in [10, 65_519, 65_520, 200_000] {
        let settings = format!("{{\"prompt\":\"{}\"}}", "ä".repeat(len));
        let options = with_settings(&settings);
        let paths = write_video(&path, std::slice::from_ref(&image), options).unwrap();
        assert_eq!(paths, [path.as_path()]);
        assert_eq!(read_settings(&path).unwrap().unwrap(), settings);
        let read = open_rgb(&path).unwrap();
        assert!(mean_distance(&read, &image) < 1.0);
    }
    let frames = [image.clone(), image];
    let paths = write_video(&path, &frames, VideoOptions::default()).unwrap();
    assert!(paths[1].ends_with("a_0002.jpeg"));
    assert_eq!(read_settings(&paths[1]).unwrap(), None);
}

#[test]
fn animations_have_all_frames_their_times_and_no_end() {
    use std::io::Cursor;

    use image::AnimationDecoder as _;
    use image::codecs::gif::GifDecoder;
    use image::codecs::webp::WebPDecoder;

    let folder = folder();
    let frames: Vec<RgbPixels> = (0..7).map(|i| moving(40, 30, i * 5)).collect();
    for (fps, seven_frames_ms) in [(8.0, 875), (24.0, 292), (23.976, 292), (30.0, 233)] {
        let options = at_rate(fps);
        let gif = folder.path().join("a.gif");
        write_video(&gif, &frames, options.clone()).unwrap();
        let webp = folder.path().join("a.webp");
        write_video(&webp, &frames, options).unwrap();
        let gif_bytes = fs::read(&gif).unwrap();
        let mut parts = gif_bytes.windows(14);
        assert!(
            parts.any(|part| part == b"NETSCAPE2.0\x03\x01\0"),
            "repeats without end"
        );
        let gif_frames = GifDecoder::new(Cursor::new(gif_bytes)).unwrap();
        let gif_frames = gif_frames.into_frames();
        let decoder = WebPDecoder::new(Cursor::new(fs::read(&webp).unwrap())).unwrap();
        let loops = decoder.loop_count();
        assert!(matches!(loops, image::metadata::LoopCount::Infinite));
        let webp_frames = decoder.into_frames();
        // A GIF counts in hundredths of a second.
        for (decoded, rounding) in [(gif_frames, 10), (webp_frames, 1)] {
            let decoded = decoded.collect_frames().unwrap();
            assert_eq!(decoded.len(), 7);
            let each = decoded.iter().map(|it| it.delay().numer_denom_ms().0);
            let off = each.sum::<u32>().abs_diff(seven_frames_ms);
            assert!(off <= rounding, "{fps}: off by {off} ms");
            for (frame, original) in decoded.iter().zip(&frames) {
                let rgba = frame.buffer();
                let frame = RgbPixels::from_fn(rgba.width(), rgba.height(), |x, y| {
                    let [r, g, b, _] = rgba.get_pixel(x, y).0;
                    [r, g, b]
                })
                .unwrap();
                assert!(mean_distance(&frame, original) < 3.0, "{fps}");
            }
        }
    }
}

#[test]
fn a_gif_of_fast_frames_keeps_its_length() {
    let folder = folder();
    let path = folder.path().join("fast.gif");
    let frames: Vec<RgbPixels> = (0..60).map(|i| moving(8, 8, i)).collect();
    write_video(&path, &frames, at_rate(120.0)).unwrap();
    let mut options = ::gif::DecodeOptions::new();
    options.set_color_output(::gif::ColorOutput::Indexed);
    let mut decoder = options.read_info(fs::File::open(&path).unwrap()).unwrap();
    let mut hundredths = 0;
    while let Some(frame) = decoder.read_next_frame().unwrap() {
        assert!(frame.delay >= 2);
        hundredths += frame.delay;
    }
    assert!((50..=52).contains(&hundredths), "{hundredths}");
}

#[test]
fn unwritable_video_formats_are_refused_with_supported_extensions() {
    let folder = folder();
    let refused = |name: &str, expected: &str| {
        let words = check_writable(&folder.path().join(name)).unwrap_err();
        let words = words.to_string();
        assert!(words.starts_with(expected), "{words}");
        assert!(words.ends_with(name), "{words}");
    };
    refused("a.WebM", "choose a file name that ends in .");
    if !HAS_H264 {
        refused(
            "a.MP4",
            "this build of Safelight has no H.264 and writes no .mp4: choose a name that ends in .webp or .gif, ",
        );
    }
}

#[test]
fn a_dropped_video_leaves_nothing_and_the_old_file_stays() {
    for extension in EXTENSIONS {
        let folder = folder();
        let path = folder.path().join("a").with_extension(extension);
        fs::write(&path, b"old").unwrap();
        let mut writer = VideoWriter::create(&path, VideoOptions::default()).unwrap();
        writer.push(&flat(16, 16, [7; 3])).unwrap();
        writer.push(&flat(16, 16, [8; 3])).unwrap();
        drop(writer);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(files_in(folder.path()).len(), 1, "{extension}");
        let made = folder.path().join("new").join(path.file_name().unwrap());
        let mut writer = VideoWriter::create(&made, VideoOptions::default()).unwrap();
        writer.push(&flat(16, 16, [7; 3])).unwrap();
        writer.push(&flat(16, 16, [7; 3])).unwrap();
        drop(writer);
        assert!(!folder.path().join("new").exists(), "{extension}");
    }
}

#[test]
fn a_sequence_that_cannot_be_named_leaves_nothing() {
    let folder = folder();
    fs::create_dir(folder.path().join("a_0003.png")).unwrap();
    let path = folder.path().join("a.png");
    let err =
        write_video(&path, &vec![flat(4, 4, [1; 3]); 4], VideoOptions::default()).unwrap_err();
    assert!(err.to_string().starts_with("this is a folder"), "{err}");
    assert_eq!(files_in(folder.path()), ["a_0003.png"]);
}

#[test]
fn invalid_frames_and_video_options_are_refused_without_writing_a_file() {
    let folder = folder();
    let message = |name: &str, frames: &[RgbPixels], options: VideoOptions| {
        let path = folder.path().join(name);
        let words = write_video(&path, frames, options).unwrap_err().to_string();
        assert!(files_in(folder.path()).is_empty(), "{name}");
        words.replace(&folder.path().display().to_string(), "")
    };
    let one = [flat(4, 4, [1; 3])];
    let plain = VideoOptions::default;
    for fps in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        let words = message("a.gif", &one, at_rate(fps));
        let expected = "the frame rate must be between 0.01 and 240, not";
        assert!(words.starts_with(expected), "{words}");
    }
    for settings in ["", "not json", "[1]", "{\"a\":"] {
        let words = message("a.png", &one, with_settings(settings));
        let expected = "the settings in this file should be a JSON object";
        assert!(words.starts_with(expected), "{words}");
    }
    let uneven = [flat(4, 4, [1; 3]), flat(4, 5, [1; 3])];
    let (width, height, rgb) = (4, 4, vec![0; 5]);
    let alpha = None;
    let broken = [RgbPixels {
        width,
        height,
        rgb,
        alpha,
    }];
    let ending = format!("choose a file name that ends in {WRITTEN}, not .avi: /a.avi");
    let wide = [flat(3841, 2, [1; 3])];
    for (name, frames, expected) in [
        ("a.avi", &one[..], &ending[..]),
        ("a.gif", &[], "there is no frame to write: /a.gif"),
        (
            "a.gif",
            &uneven,
            "every frame must be 4 × 4, but one is 4 × 5: /a.gif",
        ),
        (
            "a.gif",
            &broken,
            "expected 48 bytes of pixels for 4 × 4, found 5",
        ),
        #[cfg(feature = "h264")]
        (
            "a.mp4",
            &wide,
            "frames in MP4 may be at most 3840 × 2160 or 2160 × 3840, not 3841 × 2: /a.mp4",
        ),
    ] {
        assert_eq!(message(name, frames, plain()), expected);
    }
    assert!(message("a.webp", &[flat(16384, 1, [1; 3])], plain()).contains("16383 × 16383"));
}

#[test]
fn a_place_is_checked_without_leaving_a_trace() {
    let folder = folder();
    check_writable(&folder.path().join("a.gif")).unwrap();
    check_writable(&folder.path().join("new/a.WEBP")).unwrap();
    assert!(check_writable(&folder.path().join("new/newer/a.gif")).is_err());
    assert!(check_writable(&folder.path().join("a")).is_err());
    if HAS_H264 {
        assert!(check_frame_size(Path::new("a.mp4"), 2160, 3840).is_ok());
        assert!(check_frame_size(Path::new("a.mp4"), 2161, 3840).is_err());
    }
    assert!(files_in(folder.path()).is_empty());
}
