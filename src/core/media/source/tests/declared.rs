//! HDR peaks, colours and transparency that videos declare. Files for ffmpeg are skipped aloud where it is missing.

use std::ops::ControlFlow;

use super::*;
use crate::media::{describe_media, first_image};

/// Opens a fixture that only ffmpeg reads; `None` where it is missing.
fn open_with_ffmpeg(name: &str) -> Option<ClipReader> {
    match ClipReader::open(&fixture(name)) {
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
    let reader = ClipReader::open(&fixture("pq-frames.mp4")).unwrap();
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
    let wide = facts("bt2020.mp4");
    assert!(
        wide.contains("colours: BT.2020, converted to sRGB"),
        "{wide}"
    );
    let hdr = facts("pq-frames.mp4");
    assert!(hdr.contains(PEAK) && !hdr.contains("colours:"), "{hdr}");
    assert!(!facts("b-frames.mp4").contains("colours:"));
    let stretched = facts("stretched.mov");
    assert!(
        stretched.contains("pixels: 3:2, made square"),
        "{stretched}"
    );
    let sound = facts("sound.mp4");
    assert!(
        sound.contains("sound: copied where it is upscaled"),
        "{sound}"
    );
    let raw = facts("pcm.mov");
    assert!(raw.contains("sound: not used: "), "{raw}");
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
    assert!(first_image(&fixture("alpha.webm")).unwrap().alpha.is_some());
    let facts = describe_media(&fixture("alpha.webm")).unwrap().join("\n");
    assert!(facts.contains("transparent parts: kept where"), "{facts}");
}

#[test]
fn frames_of_a_webp_clear_their_area_where_the_file_says_so() {
    let mut reader = ClipReader::open(&fixture("cleared.webp")).unwrap();
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.webm");
    std::fs::write(&path, b"\x1a\x45\xdf\xa3\x8b\x42\x82\x88matroska").unwrap();
    let text = clip_info(&path).unwrap_err().to_string();
    let is_right = text.contains("a Matroska video") || text.contains("ffmpeg cannot decode it");
    assert!(is_right && !text.contains("WebM"), "{text}");
}
