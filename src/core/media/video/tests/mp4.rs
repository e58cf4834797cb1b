//! MP4 files as an independent reader and decoder see them.

use std::fs;
use std::path::Path;

use openh264::decoder::{DecodeOptions, DecodedYUV, Decoder, Flush};
use openh264::formats::YUVSource as _;
use re_mp4::Mp4;

use super::super::*;
use super::{flat, folder, moving, worst};
use crate::testing::random::Random;
use crate::testing::{at_rate, mean_distance};

/// Frames of an MP4 by an independent reader, as RGB, cut to the track's size.
fn frames_of_mp4(path: &Path) -> Vec<RgbPixels> {
    let bytes = fs::read(path).unwrap();
    let mp4 = Mp4::read_bytes(&bytes).unwrap();
    let track = mp4.tracks().values().next().unwrap();
    let config = track.raw_codec_config(&mp4).unwrap();
    let mut decoder = Decoder::new().unwrap();
    let mut frames = Vec::new();
    for sample in &track.samples {
        let mut stream = Vec::new();
        if sample.is_sync {
            stream.extend(parameter_sets(&config));
        }
        let mut rest = &bytes[sample.byte_range()];
        while let Some((length, behind)) = rest.split_first_chunk() {
            let (unit, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
            stream.extend([0, 0, 0, 1]);
            stream.extend(unit);
            rest = behind;
        }
        let options = DecodeOptions::new().flush_after_decode(Flush::NoFlush);
        if let Some(yuv) = decoder.decode_with_options(&stream, options).unwrap() {
            frames.push(rgb_from_yuv(&yuv, track.width.into(), track.height.into()));
        }
    }
    for yuv in decoder.flush_remaining().unwrap() {
        frames.push(rgb_from_yuv(&yuv, track.width.into(), track.height.into()));
    }
    frames
}

/// The parameter sets of an `avcC` box with start codes.
fn parameter_sets(config: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 6;
    for _ in 0..2 {
        let length = usize::from(u16::from_be_bytes([config[at], config[at + 1]]));
        out.extend([0, 0, 0, 1]);
        out.extend(&config[at + 2..at + 2 + length]);
        // Behind the first is the number of the second kind.
        at += 2 + length + 1;
    }
    out
}

/// BT.709 as the standard writes it, in floating point.
fn rgb_from_yuv(yuv: &DecodedYUV<'_>, width: u32, height: u32) -> RgbPixels {
    let (luma, chroma, _) = yuv.strides();
    RgbPixels::from_fn(width, height, |x, y| {
        let (x, y) = (x as usize, y as usize);
        let at = y / 2 * chroma + x / 2;
        let brightness = (f64::from(yuv.y()[y * luma + x]) - 16.0) * 255.0 / 219.0;
        let blue = (f64::from(yuv.u()[at]) - 128.0) * 255.0 / 224.0;
        let red = (f64::from(yuv.v()[at]) - 128.0) * 255.0 / 224.0;
        [
            brightness + 1.5748 * red,
            brightness - 0.1873 * blue - 0.4681 * red,
            brightness + 1.8556 * blue,
        ]
        .map(|value| value.round().clamp(0.0, 255.0) as u8)
    })
    .unwrap()
}

#[test]
fn flat_colours_come_back_from_mp4_within_two_levels() {
    let folder = folder();
    let path = folder.path().join("flat.mp4");
    for rgb in [
        [255, 255, 255],
        [0, 0, 0],
        [255, 0, 0],
        [0, 255, 0],
        [0, 0, 255],
        [255, 255, 0],
        [128, 128, 128],
        [12, 200, 99],
        [250, 128, 114],
        [70, 20, 160],
    ] {
        let frames = vec![flat(64, 48, rgb); 3];
        write_video(&path, &frames, VideoOptions::default()).unwrap();
        let decoded = frames_of_mp4(&path);
        assert_eq!(decoded.len(), 3);
        for frame in &decoded {
            let found = frame.pixel(30, 20);
            assert!(worst(frame, &frames[0]) <= 2, "{rgb:?} became {found:?}");
        }
    }
}

#[test]
fn mp4_keeps_the_exact_size_for_odd_dimensions() {
    let folder = folder();
    let path = folder.path().join("odd.mp4");
    for (width, height) in [
        (64, 48),
        (65, 48),
        (64, 47),
        (33, 21),
        (1, 1),
        (16, 2),
        (250, 130),
    ] {
        let frames: Vec<RgbPixels> = (0..3).map(|i| moving(width, height, i)).collect();
        write_video(&path, &frames, VideoOptions::default()).unwrap();
        let decoded = frames_of_mp4(&path);
        assert_eq!(decoded.len(), 3, "{width} × {height}");
        for (frame, original) in decoded.iter().zip(&frames) {
            assert!(mean_distance(frame, original) < 2.0, "{width} × {height}");
        }
    }
}

#[test]
fn an_mp4_lasts_as_long_as_its_frames() {
    let folder = folder();
    let path = folder.path().join("time.mp4");
    for (fps, timescale, delta) in [
        (8.0, 8000, 1000),
        (24.0, 24000, 1000),
        (30.0, 30000, 1000),
        (23.976, 24000, 1001),
        (29.97, 30000, 1001),
        (59.94, 60000, 1001),
        (12.5, 12500, 1000),
        (0.5, 500, 1000),
    ] {
        for count in [1, 5] {
            let frames = vec![flat(32, 32, [9, 9, 9]); count];
            write_video(&path, &frames, at_rate(fps)).unwrap();
            let bytes = fs::read(&path).unwrap();
            let mp4 = Mp4::read_bytes(&bytes).unwrap();
            let track = mp4.tracks().values().next().unwrap();
            assert_eq!(track.timescale, timescale, "{fps}");
            assert_eq!(track.duration, delta * count as u64, "{fps}");
            assert_eq!(track.samples.len(), count);
            for (i, sample) in track.samples.iter().enumerate() {
                assert_eq!(sample.decode_timestamp, delta as i64 * i as i64);
                assert_eq!(sample.duration, delta);
            }
            assert!(track.samples[0].is_sync);
        }
    }
}

#[test]
fn an_mp4_can_be_entered_at_several_frames_and_its_header_comes_first() {
    let folder = folder();
    let path = folder.path().join("long.mp4");
    let frames: Vec<RgbPixels> = (0..100).map(|i| moving(32, 32, i)).collect();
    write_video(&path, &frames, VideoOptions::default()).unwrap();
    let bytes = fs::read(&path).unwrap();
    let position = |name: &[u8]| bytes.windows(4).position(|four| four == name).unwrap();
    assert!(position(b"moov") < position(b"mdat"));
    let mp4 = Mp4::read_bytes(&bytes).unwrap();
    let track = mp4.tracks().values().next().unwrap();
    let entries = track.samples.iter().filter(|sample| sample.is_sync).count();
    assert!(entries >= 3, "{entries} entries");
    assert_eq!(frames_of_mp4(&path).len(), 100);
}

#[test]
fn the_worst_noise_fits_into_an_mp4() {
    let folder = folder();
    let path = folder.path().join("noise.mp4");
    let mut random = Random::new(1);
    let noise = RgbPixels::from_fn(160, 96, |_, _| {
        [(); 3].map(|()| 255 * random.below(2) as u8)
    });
    let noise = noise.unwrap();
    for crf in [0, 16] {
        let options = VideoOptions {
            crf,
            ..VideoOptions::default()
        };
        write_video(&path, &[noise.clone(), noise.clone()], options).unwrap();
        assert_eq!(frames_of_mp4(&path).len(), 2);
    }
}
