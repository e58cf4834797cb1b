//! Images of every kind against what Pillow makes of them, and files that are not what they seem.

mod colour;
mod heif;

use std::fs;
use std::path::{Path, PathBuf};

use super::*;
use crate::testing::file_of;
use crate::testing::random::Random;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/media")
}

/// Every fixture image with what Pillow makes of it.
fn images() -> Vec<(String, Vec<u8>, RgbPixels)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(fixtures()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(image_name) = name.strip_suffix(".rgb") else {
            continue;
        };
        let expected = fs::read(&path).unwrap();
        let side = |at: usize| u32::from_le_bytes(expected[at..at + 4].try_into().unwrap());
        let image = RgbPixels::new(side(0), side(4), expected[8..].to_vec()).unwrap();
        let bytes = fs::read(path.with_file_name(image_name)).unwrap();
        found.push((image_name.to_owned(), bytes, image));
    }
    assert_eq!(found.len(), 33, "all fixtures are there");
    found
}

fn opened(bytes: &[u8]) -> Result<RgbPixels, MediaError> {
    // The name says nothing: the content decides.
    let (_folder, path) = file_of("file.txt", bytes);
    open_rgb(&path)
}

fn sentence(bytes: &[u8]) -> String {
    let words = opened(bytes).unwrap_err().to_string();
    words.rsplit_once(": ").unwrap().0.to_owned()
}

#[test]
fn every_kind_of_image_opens_as_pillow_opens_it() {
    for (name, bytes, expected) in images() {
        let image = opened(&bytes).unwrap_or_else(|err| panic!("{name}: {err}"));
        let size = (image.width, image.height);
        assert_eq!(size, (expected.width, expected.height), "{name}");
        // Two JPEG decoders may round differently, most where colours are magnified.
        let tolerance = match name.as_str() {
            "plain.jpg" => 4,
            name if name.contains(".jpg") => 2,
            _ => 0,
        };
        let samples = image.rgb.iter().zip(&expected.rgb);
        let worst = samples.map(|(a, b)| a.abs_diff(*b)).max().unwrap();
        assert!(worst <= tolerance, "{name}: off by {worst}");
    }
}

#[test]
fn a_cut_off_image_is_called_so() {
    for (name, bytes, _) in images() {
        for keep in [bytes.len() / 2, bytes.len() * 9 / 10, 30] {
            if name == "animated.gif" || name.starts_with("animated") {
                // What is cut off may be the second frame, which nobody asked for.
                opened(&bytes[..keep]).ok();
                continue;
            }
            let words = sentence(&bytes[..keep]);
            let said = words.strip_suffix(" file is incomplete and cannot be opened");
            let is_said = said.is_some_and(|kind| kind.starts_with("this "));
            assert!(is_said, "{name} cut to {keep}: {words}");
        }
    }
}

#[test]
fn huge_sizes_are_refused_from_the_header() {
    let too_many = "images may have at most 200 megapixels, not 60000 × 60000";
    let fixture = |name: &str| fs::read(fixtures().join(name)).unwrap();

    let mut png = fixture("plain.png");
    png[16..24].copy_from_slice(&[0, 0, 0xea, 0x60, 0, 0, 0xea, 0x60]);
    let checksum = crc(&png[12..29]).to_be_bytes();
    png[29..33].copy_from_slice(&checksum);
    assert_eq!(sentence(&png), too_many);

    let mut gif = fixture("plain.gif");
    gif[6..10].copy_from_slice(&[0x60, 0xea, 0x60, 0xea]);
    assert_eq!(sentence(&gif), too_many);

    let mut bmp = fixture("plain.bmp");
    bmp[18..26].copy_from_slice(&[0x60, 0xea, 0, 0, 0x60, 0xea, 0, 0]);
    assert_eq!(sentence(&bmp), too_many);

    for name in ["plain.jpg", "progressive.jpg", "cmyk.jpg"] {
        let mut jpeg = fixture(name);
        let frame = jpeg
            .windows(2)
            .position(|two| two == [0xff, 0xc0] || two == [0xff, 0xc2]);
        let at = frame.unwrap() + 5;
        jpeg[at..at + 4].copy_from_slice(&[0xea, 0x60, 0xea, 0x60]);
        assert_eq!(sentence(&jpeg), too_many, "{name}");
    }
}

/// The checksum of a PNG chunk.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[test]
fn huge_texts_and_profiles_do_no_harm() {
    use std::io::Write as _;
    let png = fs::read(fixtures().join("plain.png")).unwrap();
    let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..64 {
        bomb.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    for (name, head) in [
        (b"iCCP", b"a\0\0".as_slice()),
        (b"zTXt", b"a\0\0"),
        (b"iTXt", b"a\0\x01\0\0\0"),
    ] {
        let body = [name.as_slice(), head, &bomb].concat();
        let length = (body.len() as u32 - 4).to_be_bytes();
        let chunk = [&length, body.as_slice(), &crc(&body).to_be_bytes()].concat();
        let bytes = [&png[..33], &chunk, &png[33..]].concat();
        assert_eq!(opened(&bytes).unwrap(), opened(&png).unwrap());
    }
}

/// A TIFF of one pixel with 8-bit samples. `extra`: meaning of the last sample.
fn tiff_pixel(photometric: u16, pixel: &[u8], extra: Option<u16>, next: u32) -> Vec<u8> {
    let count = pixel.len() as u32;
    let mut entries = vec![
        (256, 1, 1),
        (257, 1, 1),
        // In a list after the pixel.
        (258, count, if count > 2 { 16 } else { 0x8_0008 }),
        (262, 1, photometric.into()),
        (273, 1, 8),
        (277, 1, count),
        (278, 1, 1),
        (279, 1, count),
    ];
    entries.extend(extra.map(|extra| (338, 1, extra.into())));
    let mut file = b"II*\0\x18\0\0\0".to_vec();
    file.extend(pixel);
    file.resize(16, 0);
    file.extend([8, 0].repeat(4));
    file.extend((entries.len() as u16).to_le_bytes());
    for (tag, count, value) in entries {
        let [a, b, c, d]: [u8; 4] = u32::to_le_bytes(value);
        file.extend([u16::to_le_bytes(tag), [3, 0]].concat());
        file.extend(u32::to_le_bytes(count));
        file.extend([a, b, c, d]);
    }
    file.extend(next.to_le_bytes());
    file
}

#[test]
fn colours_of_a_tiff_are_divided_by_an_alpha_that_they_are_multiplied_by() {
    let cases = [
        (
            &[100, 30, 20, 128][..],
            2,
            Some(1),
            [199, 60, 40],
            Some(128),
        ),
        (&[100, 30, 20, 128], 2, Some(2), [100, 30, 20], Some(128)),
        (&[100, 30, 20, 128], 2, Some(0), [100, 30, 20], None),
        (&[90, 30, 20, 0], 2, Some(1), [90, 30, 20], Some(0)),
        (&[100, 128], 1, Some(1), [199; 3], Some(128)),
        (&[100, 128], 1, Some(0), [100; 3], None),
    ];
    for (pixel, photometric, extra, expected, alpha) in cases {
        let file = tiff_pixel(photometric, pixel, extra, 0);
        let (_folder, path) = file_of("a", &file);
        let image = open_image(&path).unwrap();
        let found = (image.image.pixel(0, 0), image.alpha.map(|it| it.values[0]));
        assert_eq!(found, (expected, alpha), "{pixel:?} {extra:?}");
    }
    let with = |tag: u16, value: u16| {
        let [from, to] = [(278_u16, 1_u16), (tag, value)].map(|(tag, value)| {
            let [low, high] = value.to_le_bytes();
            [&tag.to_le_bytes()[..], &[3, 0, 1, 0, 0, 0, low, high]].concat()
        });
        let mut file = tiff_pixel(2, &[1, 2, 3], None, 0);
        let at = file.windows(10).position(|found| found == from).unwrap();
        file[at..at + 10].copy_from_slice(&to);
        file
    };
    let whole = {
        let mut file = tiff_pixel(2, &[1, 2, 3], None, 0);
        file[16..22].copy_from_slice(&[32, 0].repeat(3));
        file
    };
    for (file, said) in [
        (
            tiff_pixel(8, &[100, 30, 20], None, 0),
            "it has 8-bit CIELab pixels",
        ),
        (whole, "it has 32-bit RGB pixels"),
        (with(50706, 1), "it is DNG, a camera's raw file"),
    ] {
        let (words, said) = (sentence(&file), format!("({said}): save it as PNG"));
        assert!(words.contains(&said), "{words}");
    }
}

#[test]
fn further_images_of_a_file_are_named() {
    let jpeg = fs::read(fixtures().join("plain.jpg")).unwrap();
    let index =
        b"\xff\xe2\0\x20MPF\0II*\0\x08\0\0\0\x01\0\x01\xb0\x04\0\x01\0\0\0\x03\0\0\0\0\0\0\0";
    let pages = tiff_pixel(1, &[100], None, 24 + 2 + 8 * 12 + 4);
    let page = tiff_pixel(1, &[100], None, 0)[24..].to_vec();
    for (file, notice) in [
        (
            [&jpeg[..2], index, &jpeg[2..]].concat(),
            "Only the first of 3 images is used",
        ),
        ([pages, page].concat(), "Only the first of 2 pages is used"),
    ] {
        let (_folder, path) = file_of("a", &file);
        assert_eq!(open_image(&path).unwrap().notices(&path), [notice]);
    }
}

#[test]
fn non_image_files_are_refused_with_their_type() {
    let kinds = "not a PNG, JPEG, WebP, GIF, BMP, TIFF, AVIF or HEIC image";
    assert_eq!(sentence(b""), "this file is empty");
    let heic = "this HEIC file is incomplete and cannot be opened";
    assert_eq!(sentence(b"\0\0\0\x14ftypheic\0\0\0\0mif1"), heic);
    for (bytes, found) in [
        (&b"just words"[..], "a text file"),
        (b"{\"prompt\": 1}", "a JSON file"),
        (b"\xff\xfb\x90\x64\0\0\0\0", "a sound file"),
        (&[0; 100], "a file of another kind"),
    ] {
        assert_eq!(sentence(bytes), format!("this is {found}, {kinds}"));
    }
}

#[test]
fn missing_files_folders_and_devices_return_different_errors() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.png");
    for (path, message) in [
        (&*missing, "this file does not exist: "),
        (folder.path(), "this is a folder, not a file: "),
        (
            Path::new("/dev/zero"),
            "this is a device or pipe, not a file: ",
        ),
    ] {
        let err = open_rgb(path).unwrap_err().to_string();
        assert!(err.starts_with(message), "{err}");
    }
}

#[test]
fn damaged_images_never_panic() {
    let mut random = Random::new(7);
    for (_, bytes, _) in images() {
        for _ in 0..25 {
            let damaged = random.damaged(&bytes, 4, bytes.len());
            let cut = random.below(3) * random.below(damaged.len()) / 2;
            opened(&damaged[..damaged.len() - cut]).ok();
        }
    }
}
