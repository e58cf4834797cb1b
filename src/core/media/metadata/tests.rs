//! Settings in files of others, in damaged files, and in files that lie.

use std::fs;
use std::path::Path;

use super::*;
use crate::media::{RgbPixels, VideoOptions, write_video};
use crate::testing::random::Random;

const TEXT: &str = "{\"prompt\":\"a red fox\",\"seed\":7}";

fn read(bytes: &[u8]) -> Result<Option<String>, MediaError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, bytes).unwrap();
    read_settings(&path)
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
    let mut written: Vec<_> = endings
        .into_iter()
        .map(|extension| {
            let path = folder.path().join("a").with_extension(extension);
            let options = VideoOptions {
                settings: Some(TEXT.to_owned()),
                ..VideoOptions::default()
            };
            write_video(&path, std::slice::from_ref(&frame), options).unwrap();
            (extension, fs::read(path).unwrap())
        })
        .collect();
    written.push(("webm", test_files::webm("comment", TEXT)));
    written
}

/// A PNG of nothing but this chunk.
fn png(name: [u8; 4], data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u32).to_be_bytes();
    [
        b"\x89PNG\r\n\x1a\n".as_slice(),
        &length,
        &name,
        data,
        &[0; 8],
        b"IEND",
        &[0; 4],
    ]
    .concat()
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
    for chunk in [
        png(*b"tEXt", &[b"safelight\0", text.as_bytes()].concat()),
        png(*b"tEXt", &[b"safelight\0", latin.as_slice()].concat()),
        png(
            *b"zTXt",
            &[b"safelight\0\0", deflated(text.as_bytes()).as_slice()].concat(),
        ),
        png(
            *b"iTXt",
            &[b"safelight\0\0\0\0\0", text.as_bytes()].concat(),
        ),
        png(
            *b"iTXt",
            &[b"safelight\0\0\0en\0caf\xc3\xa9\0", text.as_bytes()].concat(),
        ),
        png(
            *b"iTXt",
            &[
                b"safelight\0\x01\0\0\0",
                deflated(text.as_bytes()).as_slice(),
            ]
            .concat(),
        ),
    ] {
        assert_eq!(read(&chunk).unwrap().as_deref(), Some(text));
    }
}

#[test]
fn texts_of_others_are_not_settings() {
    for text in [
        "Steps: 20, Sampler: Euler a",
        "[1, 2]",
        "{\"broken\":",
        "{}{}",
    ] {
        assert_eq!(
            read(&png(*b"tEXt", &[b"safelight\0", text.as_bytes()].concat())).unwrap(),
            None
        );
    }
    assert_eq!(read(&png(*b"tEXt", b"parameters\0{}")).unwrap(), None);
    assert_eq!(read(&png(*b"tEXt", b"safelight")).unwrap(), None);
    assert_eq!(read(&png(*b"iTXt", b"safelight\0\x01")).unwrap(), None);
    // A GIF with the comment of another program.
    let gif = b"GIF89a\x01\0\x01\0\0\0\0\x21\xfe\x05hello\0\x3b";
    assert_eq!(read(gif).unwrap(), None);
}

#[test]
fn a_text_that_unpacks_without_end_is_not_read() {
    let bomb = [b"{\"a\":\"".as_slice(), &vec![b'a'; 64 << 20], b"\"}"].concat();
    let chunk = png(
        *b"zTXt",
        &[b"safelight\0\0", deflated(&bomb).as_slice()].concat(),
    );
    assert_eq!(read(&chunk).unwrap(), None);
}

#[test]
fn deeply_nested_json_costs_no_stack() {
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500_000), "]".repeat(500_000));
    let settings = read(deep.as_bytes());
    assert!(settings.is_ok() || matches!(settings, Err(MediaError::Settings { .. })));
}

#[test]
fn a_json_file_is_settings_and_other_texts_are_not() {
    assert_eq!(read(TEXT.as_bytes()).unwrap().as_deref(), Some(TEXT));
    let marked = format!("\u{feff}\n{TEXT}");
    assert_eq!(
        read(marked.as_bytes()).unwrap().as_deref(),
        Some(format!("\n{TEXT}").as_str())
    );
    assert!(matches!(read(b"{\"a\":"), Err(MediaError::Settings { .. })));
    assert!(matches!(read(b"a poem"), Err(MediaError::NoCarrier { .. })));
    assert!(matches!(read(b""), Err(MediaError::NoCarrier { .. })));
    assert!(matches!(read(&[0; 99]), Err(MediaError::NoCarrier { .. })));
    assert!(matches!(
        read_settings(Path::new("/dev/zero")),
        Err(MediaError::NotAFile { .. })
    ));
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
    assert!(matches!(read(&png), Err(MediaError::Truncated { .. })));
    let mp4 = [
        b"\0\0\0\x18ftypisom\0\0\0\0isommp41".as_slice(),
        &huge,
        b"moov",
    ]
    .concat();
    assert!(matches!(read(&mp4), Err(MediaError::Truncated { .. })));
    // A box of no length would be walked for ever.
    let still = b"\0\0\0\x10ftypisom\0\0\0\0\0\0\0\x04free\0\0\0\0".as_slice();
    assert!(read(still).is_err());
    let webm = b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xfe";
    assert!(matches!(read(webm), Err(MediaError::Truncated { .. })));
    let webp = b"RIFF\xff\xff\xff\xffWEBPXMP \xff\xff\xff\x7f<x";
    assert!(matches!(read(webp), Err(MediaError::Truncated { .. })));
}

#[test]
fn a_webm_of_unknown_lengths_is_read_too() {
    // As a live stream is written: a segment and a cluster without length, and the tags after.
    let unknown = [0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let name = b"\x45\xa3\x87comment";
    let text = [
        b"\x44\x87".as_slice(),
        &[0x80 | TEXT.len() as u8],
        TEXT.as_bytes(),
    ]
    .concat();
    let wrap = |id: &[u8], body: &[u8]| {
        let size = (0x4000 | body.len() as u16).to_be_bytes();
        [id, &size, body].concat()
    };
    let simple = wrap(b"\x67\xc8", &[name.as_slice(), &text].concat());
    let tags = wrap(b"\x12\x54\xc3\x67", &wrap(b"\x73\x73", &simple));
    let file = [
        b"\x1a\x45\xdf\xa3\x80\x18\x53\x80\x67".as_slice(),
        &unknown,
        b"\x1f\x43\xb6\x75",
        &unknown,
        b"\xe7\x81\0\xa3\x84\x81\0\0\x80",
        &tags,
    ]
    .concat();
    assert_eq!(read(&file).unwrap().as_deref(), Some(TEXT));
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
fn flipped_bits_never_panic() {
    let files = written();
    let mut random = Random::new(7);
    for _ in 0..300 {
        let flips: Vec<_> = (0..=random.below(19))
            .map(|_| (random.below(600), random.below(8)))
            .collect();
        let keep = random.below(100_000);
        for (_, bytes) in &files {
            let mut damaged = bytes.clone();
            for (at, bit) in &flips {
                // Most of a file is pixels: what matters comes first.
                let at = at % damaged.len();
                damaged[at] ^= 1 << bit;
            }
            damaged.truncate(keep % damaged.len() + 1);
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
