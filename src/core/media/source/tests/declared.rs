//! HDR peaks, colours and transparency that videos declare. Files for ffmpeg are skipped aloud where it is missing.

use std::ops::ControlFlow;

use super::*;
use crate::media::{AlphaChannel, VideoWriter, describe_media, open_image};

/// Opens a fixture that only ffmpeg reads; `None` where it is missing.
fn open_with_ffmpeg(name: &str) -> Option<VideoReader> {
    match VideoReader::open(&fixture(name)) {
        Ok(reader) => Some(reader),
        Err(err) => {
            assert!(err.to_string().contains("install ffmpeg"), "{err}");
            None
        }
    }
}

const PEAK: &str = "HDR (PQ with a peak of 1500 cd/m²) is tone mapped to SDR";

#[cfg(feature = "h264")]
#[test]
fn a_peak_of_pq_that_only_the_frames_of_h264_declare_is_used() {
    let reader = VideoReader::open(&fixture("pq-frames.mp4")).unwrap();
    assert_eq!(reader.notices(), [PEAK]);
}

#[test]
fn a_peak_of_pq_that_only_the_frames_of_other_codecs_declare_is_used() {
    if let Some(reader) = open_with_ffmpeg("pq-frames.mkv") {
        assert_eq!(reader.notices(), [PEAK]);
    }
}

#[cfg(feature = "h264")]
#[test]
fn conversions_and_sound_of_a_video_are_among_its_facts() {
    let facts = |name: &str| describe_media(&fixture(name)).unwrap().join("\n");
    assert_has(
        &facts("bt2020.mp4"),
        &["colours: BT.2020, converted to sRGB"],
    );
    let hdr = facts("pq-frames.mp4");
    assert!(hdr.contains(PEAK) && !hdr.contains("colours:"), "{hdr}");
    assert!(!facts("b-frames.mp4").contains("colours:"));
    assert_has(&facts("stretched.mov"), &["pixels: 3:2, made square"]);
    assert_has(&facts("sound.mp4"), &["sound: AAC, kept in an MP4"]);
    assert_has(&facts("pcm.mov"), &["sound: not used: "]);
}

#[test]
fn transparency_of_a_webm_is_read_frame_by_frame() {
    let Some(mut reader) = open_with_ffmpeg("alpha.webm") else {
        return;
    };
    assert!(reader.has_alpha());
    // Frame n is opaque up to column 8 + 8 n.
    let mut edges = Vec::new();
    let read = reader.read_with_alpha(0, &mut |_, frame| {
        let alpha = frame.alpha.unwrap();
        let row = alpha.values[8 * 32..9 * 32].iter();
        edges.push(row.take_while(|value| **value > 127).count());
        ControlFlow::Continue(())
    });
    read.unwrap();
    assert_eq!(edges, [8, 16, 24]);
    assert!(open_image(&fixture("alpha.webm")).unwrap().alpha.is_some());
    let facts = describe_media(&fixture("alpha.webm")).unwrap().join("\n");
    assert!(facts.contains("transparent parts: kept where"), "{facts}");
}

#[test]
fn transparency_after_the_first_frame_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let frame = painted(0);
    let (width, height) = (frame.width, frame.height);
    let values = vec![90; (width * height) as usize];
    let alpha = AlphaChannel {
        width,
        height,
        values,
    };
    for (name, written) in [("a.webp", "a.webp"), ("a.png", "a_0001.png")] {
        let options = VideoOptions::default();
        let mut writer = VideoWriter::create(&folder.path().join(name), options).unwrap();
        writer.push(&frame).unwrap();
        writer.push_with_alpha(&frame, Some(&alpha)).unwrap();
        writer.finish().unwrap();
        let reader = VideoReader::open(&folder.path().join(written)).unwrap();
        assert!(reader.has_alpha(), "{name}");
    }
    // The first frame is cleared, and the second one leaves a part of it out.
    for (is_cleared, path) in [(true, "a.gif"), (false, "b.gif")] {
        let path = folder.path().join(path);
        let file = std::fs::File::create(&path).unwrap();
        let mut encoder = gif::Encoder::new(file, 4, 4, &[200, 0, 0, 0, 200, 0]).unwrap();
        for pixels in [[0; 16], [1; 16]] {
            let mut frame = gif::Frame::from_indexed_pixels(4, 4, pixels.to_vec(), Some(1));
            if is_cleared {
                frame.dispose = gif::DisposalMethod::Background;
            }
            encoder.write_frame(&frame).unwrap();
        }
        drop(encoder);
        assert!(open_image(&path).unwrap().alpha.is_none());
        let facts = describe_media(&path).unwrap().join("\n");
        let is_found = facts.contains("transparent parts");
        assert_eq!(is_found, is_cleared, "{facts}");
    }
}

#[test]
fn the_number_of_plays_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.gif", "a.webp"] {
        for num_plays in [0, 1, 3] {
            let path = folder.path().join(name);
            let options = VideoOptions {
                num_plays,
                ..VideoOptions::default()
            };
            write_video(&path, &[painted(0), painted(1)], options).unwrap();
            let found = VideoReader::open(&path).unwrap().num_plays();
            assert_eq!(found, num_plays, "{name}");
        }
    }
}

#[cfg(feature = "h264")]
#[test]
fn a_video_of_one_frame_is_an_image() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.mp4");
    write_video(&path, &[painted(3)], VideoOptions::default()).unwrap();
    assert!(VideoReader::open_moving(&path).unwrap().is_none());
    let image = open_image(&path).unwrap();
    assert!(mean_distance(&image.image, &painted(3)) < 3.0);
    assert!(image.notices(&path).is_empty());
    assert_eq!(open_video(&path).unwrap().frames.len(), 1);
}

#[test]
fn a_webm_that_is_cut_off_is_read_and_named() {
    if open_with_ffmpeg("vorbis.webm").is_none() {
        return;
    }
    let whole = std::fs::read(fixture("vorbis.webm")).unwrap();
    let (_folder, path) = file_of("cut.webm", &whole[..whole.len() * 3 / 4]);
    let notices = VideoReader::open(&path).unwrap().notices().join("\n");
    assert!(notices.contains("The file is incomplete"), "{notices}");
    let whole = VideoReader::open(&fixture("vorbis.webm")).unwrap();
    assert_eq!(whole.notices().join("\n"), "");
}

#[cfg(feature = "h264")]
#[test]
fn tracks_that_are_not_used_are_named() {
    let whole = std::fs::read(fixture("sound.mp4")).unwrap();
    let mut parts = whole.windows(8);
    let at = parts.position(|it| it == b"\0\0\0\0soun").unwrap();
    for (kind, notice) in [
        (b"vide", "Only the first of 2 video tracks is used"),
        (b"sbtl", "Subtitles are not used"),
    ] {
        let mut bytes = whole.clone();
        bytes[at + 4..at + 8].copy_from_slice(kind);
        let (_folder, path) = file_of("a.mp4", &bytes);
        assert_eq!(VideoReader::open(&path).unwrap().notices(), [notice]);
    }
}

#[test]
fn webp_frames_with_background_disposal_clear_their_area() {
    let mut reader = VideoReader::open(&fixture("cleared.webp")).unwrap();
    let mut columns = Vec::new();
    let read = reader.read_with_alpha(0, &mut |_, frame| {
        let row = frame.alpha.unwrap().values[..32].to_vec();
        let seen = (0..32).filter(|column| row[*column] > 0);
        columns.push(seen.collect::<Vec<usize>>());
        ControlFlow::Continue(())
    });
    read.unwrap();
    let of_frame = |n: usize| (8 * n..8 * n + 8).collect::<Vec<_>>();
    assert_eq!(columns, [of_frame(0), of_frame(1), of_frame(2)]);
}

#[test]
fn a_matroska_file_is_not_called_webm() {
    let bytes = b"\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska";
    let (_folder, path) = file_of("a.webm", bytes);
    let text = video_info(&path).unwrap_err().to_string();
    let is_right = text.contains("a Matroska video") || text.contains("ffmpeg cannot decode it");
    assert!(is_right && !text.contains("WebM"), "{text}");
}
