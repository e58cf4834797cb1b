//! Settings in files of others, in damaged files, and in files that lie.

pub(crate) mod files;
mod texts;

use std::fs;
use std::path::Path;

use files::{live_webm, png, webm};

use super::*;
use crate::media::{RgbPixels, VideoOptions, write_video};
use crate::testing::file_of;
use crate::testing::random::Random;

const TEXT: &str = "{\"prompt\":\"a red fox\",\"seed\":7}";

fn read(bytes: &[u8]) -> Result<Option<String>, MediaError> {
    let (_folder, path) = file_of("file", bytes);
    read_settings(&path)
}

fn kind_of(bytes: &[u8]) -> MediaErrorKind {
    read(bytes).unwrap_err().kind
}

/// One written file of each kind, with settings.
fn written() -> Vec<(&'static str, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let frame = RgbPixels::from_fn(24, 16, |x, y| [x as u8, y as u8, 9]).unwrap();
    let endings = [
        "png",
        "jpg",
        #[cfg(feature = "h264")]
        "mp4",
        "gif",
        "webp",
    ];
    let mut written = vec![("webm", webm("comment", TEXT))];
    written.extend(endings.map(|extension| {
        let path = folder.path().join("a").with_extension(extension);
        let options = VideoOptions {
            settings: Some(TEXT.to_owned()),
            ..VideoOptions::default()
        };
        write_video(&path, std::slice::from_ref(&frame), options).unwrap();
        (extension, fs::read(path).unwrap())
    }));
    written
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_png_that_others_saved_again_still_has_its_settings() {
    let text = "{\"prompt\":\"naïve café\"}";
    let latin: Vec<u8> = text.chars().map(|c| c as u8).collect();
    let packed = deflated(text.as_bytes());
    for (name, head, content) in [
        (b"tEXt", &b"safelight\0"[..], text.as_bytes()),
        (b"tEXt", b"safelight\0", &latin),
        (b"zTXt", b"safelight\0\0", &packed),
        (b"iTXt", b"safelight\0\0\0\0\0", text.as_bytes()),
        (
            b"iTXt",
            b"safelight\0\0\0en\0caf\xc3\xa9\0",
            text.as_bytes(),
        ),
        (b"iTXt", b"safelight\0\x01\0\0\0", &packed),
    ] {
        let chunk = png(*name, &[head, content].concat());
        assert_eq!(read(&chunk).unwrap().as_deref(), Some(text));
    }
}

#[test]
fn texts_of_others_are_not_settings() {
    for (name, chunk) in [
        (b"tEXt", "safelight\0Steps: 20, Sampler: Euler a"),
        (b"tEXt", "safelight\0[1, 2]"),
        (b"tEXt", "safelight\0{\"broken\":"),
        (b"tEXt", "safelight\0{}{}"),
        (b"tEXt", "parameters\0{}"),
        (b"tEXt", "safelight"),
        (b"iTXt", "safelight\0\x01"),
    ] {
        let read = read(&png(*name, chunk.as_bytes())).unwrap();
        assert_eq!(read, None, "{chunk}");
    }
    // A GIF with the comment of another program.
    let gif = b"GIF89a\x01\0\x01\0\0\0\0\x21\xfe\x05hello\0\x3b";
    assert_eq!(read(gif).unwrap(), None);
}

#[test]
fn a_text_that_unpacks_without_end_is_not_read() {
    let bomb = [b"{\"a\":\"".as_slice(), &vec![b'a'; 64 << 20], b"\"}"].concat();
    let chunk = [b"safelight\0\0", &deflated(&bomb)[..]].concat();
    assert_eq!(read(&png(*b"zTXt", &chunk)).unwrap(), None);
}

#[test]
fn deeply_nested_json_costs_no_stack() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500_000), "]".repeat(500_000));
    let settings = read(deep.as_bytes());
    assert!(settings.is_ok_and(|text| text.is_some()));
}

#[test]
fn a_json_file_is_settings_and_other_texts_are_not() {
    assert_eq!(read(TEXT.as_bytes()).unwrap().as_deref(), Some(TEXT));
    let marked = format!("\u{feff}\n{TEXT}");
    let unmarked = marked.trim_start_matches('\u{feff}');
    assert_eq!(read(marked.as_bytes()).unwrap().as_deref(), Some(unmarked));
    assert_eq!(kind_of(b"{\"a\":"), MediaErrorKind::Settings);
    for other in [&b"a poem"[..], b"", &[0; 99]] {
        assert_eq!(kind_of(other), MediaErrorKind::NoCarrier);
    }
    let err = read_settings(Path::new("/dev/zero")).unwrap_err();
    assert!(err.to_string().starts_with("this is a device or pipe"));
}

#[test]
fn images_that_are_never_ours_have_no_settings() {
    let comment = b"\xff\xd8\xff\xe0\0\x04ab\xff\xfe\0\x05{\"a\xff\xda";
    assert_eq!(read(comment).unwrap(), None);
    assert_eq!(read(b"II\x2a\0\x08\0\0\0").unwrap(), None);
}

#[test]
fn lengths_that_lie_are_not_believed() {
    let huge = u32::MAX.to_be_bytes();
    let png = [b"\x89PNG\r\n\x1a\n".as_slice(), &huge, b"iTXtsafelight\0"].concat();
    assert_eq!(kind_of(&png), MediaErrorKind::Truncated);
    let start = b"\0\0\0\x18ftypisom\0\0\0\0isommp41".as_slice();
    let mp4 = [start, &huge, b"moov"].concat();
    assert_eq!(kind_of(&mp4), MediaErrorKind::Truncated);
    // A box of no length would be walked for ever.
    let still = b"\0\0\0\x10ftypisom\0\0\0\0\0\0\0\x04free\0\0\0\0".as_slice();
    assert!(read(still).is_err());
    let webm = b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xfe";
    assert_eq!(kind_of(webm), MediaErrorKind::Truncated);
    let webp = b"RIFF\xff\xff\xff\xffWEBPXMP \xff\xff\xff\x7f<x";
    assert_eq!(kind_of(webp), MediaErrorKind::Truncated);
}

#[test]
fn a_webm_of_unknown_lengths_is_read_too() {
    let read = read(&live_webm("comment", TEXT)).unwrap();
    assert_eq!(read.as_deref(), Some(TEXT));
}

#[test]
fn files_cut_anywhere_give_the_settings_or_an_answer() {
    for (kind, bytes) in written() {
        assert_eq!(read(&bytes).unwrap().as_deref(), Some(TEXT), "{kind}");
        for keep in 0..bytes.len() {
            if let Ok(Some(settings)) = read(&bytes[..keep]) {
                assert_eq!(settings, TEXT, "{kind} cut to {keep}");
            }
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    let files = written();
    let mut random = Random::new(7);
    for _ in 0..300 {
        for (_, bytes) in &files {
            // Most of a file is pixels: what matters comes first.
            let mut damaged = random.damaged(bytes, 20, 600);
            damaged.truncate(random.below(damaged.len()) + 1);
            read(&damaged).ok();
        }
    }
}

#[test]
fn random_bytes_after_a_known_header_never_panic() {
    let mut random = Random::new(7);
    for _ in 0..300 {
        let bytes = random.bytes(400);
        for head in [
            b"\x89PNG\r\n\x1a\n".as_slice(),
            b"GIF89a",
            b"\x1a\x45\xdf\xa3",
            b"RIFF\0\x01\0\0WEBP",
            b"\0\0\0\x10ftypisom\0\0\0\0",
            b"\0\0\x01\0moov",
            b"{",
        ] {
            read(&[head, &bytes].concat()).ok();
        }
    }
}
