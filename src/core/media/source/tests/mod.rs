//! Videos of others, made by `videos/make.sh`, and our own, read back.

mod declared;
mod hostile;
mod times;

use std::path::{Path, PathBuf};

use super::mp4::Mp4Source;
use super::*;
use crate::media::colour::ColourConversion;
use crate::media::opened::open_file;
use crate::media::{MediaErrorKind, VideoFormat, VideoOptions, write_video};
use crate::testing::{assert_has, file_of, mean_distance};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("media/source/tests/videos")
        .join(name)
}

/// Pixels of frame `number` in every video next to this file.
fn painted(number: usize) -> RgbPixels {
    let blue = 20 + 15 * number as u8;
    RgbPixels::from_fn(66, 50, |x, y| [x as u8 * 3, y as u8 * 4, blue]).unwrap()
}

/// Asserts that the video shows these painted frames, each within three levels.
#[cfg(feature = "h264")]
fn assert_shows(path: &Path, numbers: impl Iterator<Item = usize>) {
    let video = open_video(path).unwrap();
    let numbers: Vec<usize> = numbers.collect();
    assert_eq!(video.frames.len(), numbers.len(), "{}", path.display());
    for (frame, number) in video.frames.iter().zip(numbers) {
        let distance = mean_distance(frame, &painted(number));
        assert!(distance < 3.0, "{} {number}: {distance}", path.display());
    }
    let info = video_info(path).unwrap();
    let expected = (66, 50, 25.0, video.frames.len() as u32);
    let found = (info.width, info.height, info.fps, info.num_frames);
    assert_eq!(found, expected, "{}", path.display());
    assert_eq!(video.fps, 25.0);
    let last = last_frame(path).unwrap();
    assert_eq!(&last, video.frames.last().unwrap().as_ref());
}

/// Stored out of order, in fragments, with another range, without named colours, and with an edit list.
#[cfg(feature = "h264")]
#[test]
fn frames_are_shown_in_order_with_their_colours_and_without_hidden_ones() {
    for name in ["b-frames", "fragmented", "full-range", "untagged"] {
        assert_shows(&fixture(&format!("{name}.mp4")), 0..12);
    }
    assert_shows(&fixture("cut.mp4"), 3..12);
}

#[cfg(feature = "h264")]
#[test]
fn a_turned_video_comes_upright() {
    let path = fixture("turned.mov");
    let info = video_info(&path).unwrap();
    assert_eq!((info.width, info.height, info.num_frames), (50, 66, 12));
    let frame = &open_video(&path).unwrap().frames[2];
    assert_eq!((frame.width, frame.height), (50, 66));
    // As ffmpeg and players show it: what was right is on top.
    let turned = RgbPixels::from_fn(50, 66, |x, y| [(65 - y) as u8 * 3, x as u8 * 4, 50]).unwrap();
    let distance = mean_distance(frame, &turned);
    assert!(distance < 3.0, "{distance}");
}

#[cfg(feature = "h264")]
#[test]
fn stretched_pixels_become_square_before_the_turn() {
    let path = fixture("stretched.mov");
    let info = video_info(&path).unwrap();
    assert_eq!((info.width, info.height), (50, 99));
    let frame = &open_video(&path).unwrap().frames[2];
    let shown = RgbPixels::from_fn(50, 99, |x, y| [(98 - y) as u8 * 2, x as u8 * 4, 50]);
    let distance = mean_distance(frame, &shown.unwrap());
    assert!(distance < 3.0, "{distance}");
}

#[cfg(feature = "h264")]
#[test]
fn hdr_in_h264_is_tone_mapped_and_named() {
    let notices = VideoReader::open(&fixture("hlg.mp4")).unwrap().notices();
    assert_eq!(notices, ["HDR (HLG) is tone mapped to SDR"]);
    let conversion = ColourConversion::from_cicp(1, 18, None).unwrap().unwrap();
    let video = open_video(&fixture("hlg.mp4")).unwrap();
    for (number, frame) in video.frames.iter().enumerate() {
        let mut expected = painted(number);
        conversion.convert_rgb(&mut expected.rgb).unwrap();
        let distance = mean_distance(frame, &expected);
        assert!(distance < 3.0, "{number}: {distance}");
    }
}

#[cfg(feature = "h264")]
#[test]
fn interlaced_h264_is_left_to_ffmpeg() {
    let opened = open_file(&fixture("interlaced.mp4"), "read the video").unwrap();
    match Mp4Source::open(Path::new("interlaced.mp4"), opened.file, opened.len) {
        Err(UnsupportedVideo::Codec(found)) => assert_eq!(found, "interlaced H.264"),
        _ => panic!("the decoder reads whole frames only"),
    }
}

#[test]
fn a_file_with_sound_alone_is_not_called_damaged() {
    let mut bytes = std::fs::read(fixture("sound.mp4")).unwrap();
    let video = b"\0\0\0\0vide";
    let at = bytes.windows(8).position(|it| it == video).unwrap();
    bytes[at + 4..at + 8].copy_from_slice(b"text");
    let (_folder, path) = file_of("sound.mp4", &bytes);
    let text = video_info(&path).unwrap_err().to_string();
    assert!(text.starts_with("this MP4 file has no video: "), "{text}");
}

fn moving(count: u32, width: u32, height: u32) -> Vec<RgbPixels> {
    let frame = |n| {
        RgbPixels::from_fn(width, height, |x, y| {
            [(x * 3 + n * 9) as u8 / 2, (y * 4) as u8 / 2, (n * 11) as u8]
        })
    };
    (0..count).map(|n| frame(n).unwrap()).collect()
}

#[test]
fn every_kind_of_video_that_we_write_can_be_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let frames = moving(9, 40, 26);
    let limits = [2.5, 9.0, 4.0, 0.0];
    for (name, limit) in ["a.mp4", "a.gif", "a.webp", "a.png"]
        .into_iter()
        .zip(limits)
    {
        if VideoFormat::from_path(Path::new(name)).is_err() {
            continue;
        }
        for fps in [8.0, 24.0] {
            let path = folder.path().join(name);
            let options = VideoOptions {
                fps,
                settings: Some(format!(r#"{{"request": {{"fps": {fps:?}}}}}"#)),
                ..VideoOptions::default()
            };
            let files = write_video(&path, &frames, options).unwrap();
            let video = open_video(&files[files.len() / 2]).unwrap();
            assert_eq!(video.frames.len(), 9, "{name}");
            assert_eq!(video.fps, fps, "{name}");
            for (read, written) in video.frames.iter().zip(&frames) {
                let distance = mean_distance(read, written);
                assert!(distance <= limit, "{name}: {distance}");
            }
            assert_eq!(video_files(&files[0]).unwrap(), files);
            let last = last_frame(&files[0]).unwrap();
            assert_eq!(&last, video.frames[8].as_ref(), "{name}");
            let info = video_info(&files[0]).unwrap();
            assert_eq!((info.width, info.height, info.num_frames), (40, 26, 9));
        }
    }
}

#[cfg(feature = "h264")]
#[test]
fn a_long_video_of_ours_ends_with_the_same_frame_read_from_its_last_keyframe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.mp4");
    write_video(&path, &moving(70, 32, 32), VideoOptions::default()).unwrap();
    let video = open_video(&path).unwrap();
    assert_eq!(video.frames.len(), 70);
    assert_eq!(&last_frame(&path).unwrap(), video.frames[69].as_ref());
}

#[cfg(not(feature = "h264"))]
#[test]
fn a_build_without_h264_leaves_it_to_ffmpeg() {
    let opened = open_file(&fixture("b-frames.mp4"), "read the video").unwrap();
    match Mp4Source::open(Path::new("b-frames.mp4"), opened.file, opened.len) {
        Err(UnsupportedVideo::Codec(found)) => assert_eq!(found, "H.264"),
        _ => panic!("nothing here can decode it"),
    }
}

#[test]
fn numbered_images_are_those_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let frames = moving(7, 8, 8);
    let options = VideoOptions::default();
    let files = write_video(&folder.path().join("a.png"), &frames, options).unwrap();
    std::fs::remove_file(&files[3]).unwrap();
    assert_eq!(video_files(&files[1]).unwrap(), files[..3]);
    assert_eq!(video_files(&files[5]).unwrap(), files[4..]);
    let err = open_video(&files[3]).unwrap_err();
    assert_eq!(err.kind, MediaErrorKind::NotFound);
}
