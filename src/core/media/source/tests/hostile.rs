//! Videos that are cut, damaged, endless or of another kind: one sentence each, never a panic.

use std::fs;

use super::*;
#[cfg(feature = "h264")]
use crate::testing::random::Random;

/// Damaged videos that are tried.
#[cfg(feature = "h264")]
const ROUNDS: usize = 100;

/// Every way of reading it fails, with one line that names the file.
fn refused(path: &Path) -> String {
    let open = open_video(path).unwrap_err().to_string();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(open.ends_with(name) && !open.contains('\n'), "{open}");
    open
}

#[test]
fn non_video_files_are_refused_with_type_and_supported_formats() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        refused(&path)
    };
    let expected = "not an MP4, MOV, WebM, MKV, AVI, MPEG-TS, MPEG, FLV, WMV, Ogg or MXF video";
    for (name, bytes, found) in [
        ("empty.mp4", &b""[..], "an empty file"),
        ("text.mp4", b"hello", "a text file"),
        ("a.jpg", b"\xff\xd8\xff\xe0", "a JPEG image"),
    ] {
        let text = write(name, bytes);
        let start = format!("this is {found}, {expected}");
        assert!(text.starts_with(&start), "{text}");
    }
    let missing = refused(&folder.path().join("missing.mp4"));
    assert!(missing.contains("does not exist"), "{missing}");
    let path = folder.path().join("still.png");
    crate::media::write_png(&path, &painted(0)).unwrap();
    assert!(refused(&path).contains("without a number"));
}

#[cfg(feature = "h264")]
#[test]
fn truncated_mp4_is_refused_unless_it_ends_between_fragments() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b-frames.mp4", "fragmented.mp4"] {
        let whole = fs::read(fixture(name)).unwrap();
        for count in (8..whole.len()).step_by(173) {
            let path = folder.path().join(name);
            fs::write(&path, &whole[..count]).unwrap();
            // A fragmented file that ends between two fragments is a shorter one.
            if let Err(err) = open_video(&path) {
                let text = err.to_string();
                assert!(!text.contains('\n'), "{text}");
            } else {
                assert_eq!(name, "fragmented.mp4", "{count}");
            }
        }
    }
}

#[test]
fn changed_bytes_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b-frames.mp4", "fragmented.mp4", "cut.mp4"] {
        let whole = fs::read(fixture(name)).unwrap();
        let path = folder.path().join(name);
        let begin = whole.windows(4).position(|four| four == b"moov").unwrap();
        for at in (begin..whole.len().min(begin + 900)).step_by(11) {
            for value in [0, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                fs::write(&path, &bytes).unwrap();
                // Some changes do no harm.
                video_info(&path).ok();
            }
        }
    }
}

#[cfg(feature = "h264")]
#[test]
fn frames_with_changed_bytes_are_decoded_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mp4");
    let whole = fs::read(fixture("b-frames.mp4")).unwrap();
    let begin = whole.windows(4).position(|four| four == b"mdat").unwrap() + 4;
    let mut random = Random::new(7);
    for _ in 0..ROUNDS {
        let mut bytes = whole.clone();
        for _ in 0..=random.below(8) {
            let at = begin + random.below(bytes.len() - begin);
            bytes[at] = random.below(256) as u8;
        }
        fs::write(&path, &bytes).unwrap();
        if let Err(err) = open_video(&path) {
            assert!(!err.to_string().contains('\n'), "{err}");
        }
    }
}

#[test]
fn a_header_that_promises_too_much_is_refused_before_anything_is_decoded() {
    let mut bytes = fs::read(fixture("b-frames.mp4")).unwrap();
    let at = bytes.windows(4).position(|four| four == b"stsz").unwrap();
    // All frames of one size, and four thousand million of them.
    bytes[at + 8..at + 16].copy_from_slice(&[0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff]);
    let (_folder, path) = file_of("endless.mp4", &bytes);
    assert!(refused(&path).contains("more than a million frames"));
    let check = check_amount(1_000_000, 1280, 720, Path::new("a.mp4")).unwrap_err();
    assert_has(&check.to_string(), &["at most 1000 megapixels"]);
}
