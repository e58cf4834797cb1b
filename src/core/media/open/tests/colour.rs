//! Declared colours and transparency of every kind of file.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use ::png::{BitDepth, ColorType, Encoder, Info, ScaledFloat, SourceChromaticities};
use image::codecs::{jpeg::JpegEncoder, png::PngEncoder, tiff::TiffEncoder, webp::WebPEncoder};
use image::{ExtendedColorType, ImageEncoder};
use moxcms::ColorProfile;
use tempfile::TempDir;

use crate::media::{OpenedImage, open_image};
use crate::testing::file_of;
use crate::testing::random::Random;

const WIDTH: u32 = 16;
const HEIGHT: u32 = 8;
/// A colour of Display P3, and what it is in sRGB.
const P3: [u8; 3] = [220, 30, 30];
const P3_AS_SRGB: [u8; 3] = [241, 0, 0];
/// Its values in Adobe RGB.
const ADOBE_AS_SRGB: [u8; 3] = [255, 24, 24];

fn write(bytes: &[u8]) -> (TempDir, PathBuf) {
    file_of("image", bytes)
}

fn open(bytes: &[u8]) -> OpenedImage {
    let (_folder, path) = write(bytes);
    open_image(&path).unwrap()
}

#[track_caller]
fn assert_is(bytes: &[u8], expected: [u8; 3], tolerance: u8) -> OpenedImage {
    let opened = open(bytes);
    let found = opened.image.pixel(5, 5);
    let mut pairs = found.iter().zip(expected);
    let is_near = pairs.all(|(a, b)| a.abs_diff(b) <= tolerance);
    let notice = &opened.notice;
    assert!(is_near, "{found:?} is not {expected:?}: {notice:?}");
    opened
}

fn p3() -> Vec<u8> {
    ColorProfile::new_display_p3().encode().unwrap()
}

fn pixels(pixel: &[u8]) -> Vec<u8> {
    pixel.repeat((WIDTH * HEIGHT) as usize)
}

/// A file of one colour, with a profile.
fn encoded<E: ImageEncoder>(mut encoder: E, profile: Option<Vec<u8>>, pixel: &[u8]) {
    if let Some(profile) = profile {
        encoder.set_icc_profile(profile).unwrap();
    }
    let kind = match pixel.len() {
        1 => ExtendedColorType::L8,
        2 => ExtendedColorType::La8,
        3 => ExtendedColorType::Rgb8,
        _ => ExtendedColorType::Rgba8,
    };
    encoder
        .write_image(&pixels(pixel), WIDTH, HEIGHT, kind)
        .unwrap();
}

fn jpeg(profile: Option<Vec<u8>>, pixel: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut bytes, 100);
    encoded(encoder, profile, pixel);
    bytes
}

fn png_file(profile: Option<Vec<u8>>, pixel: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoded(PngEncoder::new(&mut bytes), profile, pixel);
    bytes
}

fn tiff_file(profile: Option<Vec<u8>>, pixel: &[u8]) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    encoded(TiffEncoder::new(&mut file), profile, pixel);
    file.into_inner()
}

fn webp_file(profile: Option<Vec<u8>>, pixel: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encoded(WebPEncoder::new_lossless(&mut bytes), profile, pixel);
    bytes
}

/// A 24-bit BMP with the fifth header and a profile after the pixels.
fn bmp_file(profile: &[u8], [red, green, blue]: [u8; 3]) -> Vec<u8> {
    let pixels = pixels(&[blue, green, red]);
    let offset = 14 + 124_u32;
    let mut bytes = b"BM".to_vec();
    bytes.extend((offset + pixels.len() as u32 + profile.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(offset.to_le_bytes());
    bytes.extend(
        [124, WIDTH, HEIGHT, 1 | 24 << 16, 0, pixels.len() as u32]
            .map(u32::to_le_bytes)
            .concat(),
    );
    bytes.resize(14 + 56, 0);
    bytes.extend(b"DEBM");
    bytes.resize(14 + 112, 0);
    bytes.extend((124 + pixels.len() as u32).to_le_bytes());
    bytes.extend((profile.len() as u32).to_le_bytes());
    bytes.resize(offset as usize, 0);
    [bytes, pixels, profile.to_vec()].concat()
}

/// A PNG whose header `set` changes.
fn png_with(depth: BitDepth, pixel: &[u8], set: impl FnOnce(&mut Info<'_>)) -> Vec<u8> {
    let mut info = Info::with_size(WIDTH, HEIGHT);
    info.color_type = ColorType::Rgb;
    info.bit_depth = depth;
    set(&mut info);
    let mut bytes = Vec::new();
    let mut writer = Encoder::with_info(&mut bytes, info)
        .unwrap()
        .write_header()
        .unwrap();
    writer.write_image_data(&pixels(pixel)).unwrap();
    writer.finish().unwrap();
    bytes
}

/// Inserts a chunk after the header of a PNG.
fn with_chunk(png: &[u8], name: [u8; 4], content: &[u8]) -> Vec<u8> {
    let body = [&name, content].concat();
    let mut crc = flate2::Crc::new();
    crc.update(&body);
    let length = (content.len() as u32).to_be_bytes();
    [
        &png[..33],
        &length,
        &body,
        &crc.sum().to_be_bytes(),
        &png[33..],
    ]
    .concat()
}

#[test]
fn a_profile_in_any_kind_of_file_is_converted_to_srgb() {
    for (file, tolerance) in [
        (jpeg(Some(p3()), &P3), 3),
        (png_file(Some(p3()), &P3), 1),
        (tiff_file(Some(p3()), &P3), 1),
        (webp_file(Some(p3()), &P3), 1),
        (bmp_file(&p3(), P3), 1),
    ] {
        let opened = assert_is(&file, P3_AS_SRGB, tolerance);
        assert!(opened.colours.unwrap().contains("P3"));
        assert_eq!(opened.notice, None);
    }
}

#[test]
fn a_profile_in_several_segments_of_a_jpeg_is_converted() {
    let mut profile = p3();
    profile.resize(150_000, 0);
    let len = profile.len() as u32;
    profile[..4].copy_from_slice(&len.to_be_bytes());
    assert_is(&jpeg(Some(profile), &P3), P3_AS_SRGB, 3);
}

#[test]
fn alpha_and_grey_are_converted_too() {
    let [r, g, b] = P3;
    let opened = assert_is(&png_file(Some(p3()), &[r, g, b, 128]), P3_AS_SRGB, 1);
    assert_eq!(opened.alpha.unwrap().values[0], 128);
    let linear = || ColorProfile::new_gray_with_gamma(1.0).encode().unwrap();
    for file in [
        png_file(Some(linear()), &[55]),
        jpeg(Some(linear()), &[55]),
        png_file(Some(linear()), &[55, 200]),
    ] {
        assert_is(&file, [128; 3], 2);
    }
    // A grey image with a profile for colours.
    assert_is(&png_file(Some(p3()), &[120]), [120; 3], 1);
}

#[test]
fn srgb_profiles_and_tags_change_no_byte() {
    let srgb = || ColorProfile::new_srgb().encode().unwrap();
    let pixel = [17, 201, 94];
    for file in [
        png_file(Some(srgb()), &pixel),
        tiff_file(Some(srgb()), &pixel),
        webp_file(Some(srgb()), &pixel),
        bmp_file(&srgb(), pixel),
        with_chunk(&png_file(None, &pixel), *b"gAMA", &45_455_u32.to_be_bytes()),
        with_chunk(&png_file(None, &pixel), *b"cICP", &[1, 13, 0, 1]),
        with_chunk(&png_file(None, &pixel), *b"sRGB", &[0]),
    ] {
        assert_is(&file, pixel, 0);
    }
    assert_eq!(
        open(&jpeg(Some(srgb()), &pixel)).image,
        open(&jpeg(None, &pixel)).image
    );
}

#[test]
fn sixteen_bits_are_converted_before_they_are_rounded() {
    // Linear light: 8 bits would not tell these apart.
    let linear = |code: u16| {
        png_with(
            BitDepth::Sixteen,
            &[code; 3].map(u16::to_be_bytes).concat(),
            |info| {
                info.source_gamma = Some(ScaledFloat::new(1.0));
            },
        )
    };
    assert_is(&linear(100), [5; 3], 0);
    assert_is(&linear(200), [10; 3], 0);
}

#[test]
fn png_colour_chunks_are_applied_in_order_of_precedence() {
    let plain = png_file(None, &P3);
    let gamma = |png: &[u8]| with_chunk(png, *b"gAMA", &100_000_u32.to_be_bytes());
    let cicp = |png: &[u8], primaries| with_chunk(png, *b"cICP", &[primaries, 13, 0, 1]);
    let srgb = |png: &[u8]| with_chunk(png, *b"sRGB", &[0]);
    let icc = png_file(Some(p3()), &P3);
    assert_is(&cicp(&plain, 12), P3_AS_SRGB, 1);
    assert_is(&cicp(&icc, 1), P3, 0);
    assert_is(&gamma(&icc), P3_AS_SRGB, 1);
    assert_is(&srgb(&gamma(&plain)), P3, 0);
    assert_is(&gamma(&plain), [239, 96, 96], 1);
}

#[test]
fn narrow_range_png_cicp_is_expanded_and_reported() {
    let narrow = |png: &[u8], primaries| with_chunk(png, *b"cICP", &[primaries, 13, 0, 0]);
    let file = narrow(&png_file(None, &[235, 16, 126]), 1);
    let opened = assert_is(&file, [255, 0, 128], 0);
    assert_eq!(opened.colours.as_deref(), Some("BT.709, narrow range"));
    // Values outside the range are clipped, and alpha is none of it.
    let file = narrow(&png_file(None, &[250, 3, 126, 16]), 1);
    let opened = assert_is(&file, [255, 0, 128], 0);
    assert_eq!(opened.alpha.unwrap().values[0], 16);
    let p3 = P3.map(|value| (f64::from(value) * 219.0 / 255.0 + 16.0).round() as u8);
    assert_is(&narrow(&png_file(None, &p3), 12), P3_AS_SRGB, 2);
}

#[test]
fn invalid_png_cicp_chunk_is_ignored_with_a_notice() {
    let plain = png_file(None, &P3);
    for points in [&[99, 99, 99, 99][..], &[9, 16, 9, 1], &[9, 16, 0, 7], &[9]] {
        let file = with_chunk(&plain, *b"cICP", points);
        let notice = assert_is(&file, P3, 0).notice.unwrap();
        let is_told = notice.starts_with("The colours are taken as sRGB");
        assert!(is_told, "{notice}");
        let (_folder, path) = write(&file);
        let info = crate::media::media_info(&path).unwrap();
        assert_eq!((info.width, info.height), (WIDTH, HEIGHT));
    }
}

#[test]
fn pq_in_a_png_is_tone_mapped_from_its_declared_peak() {
    let plain = png_file(None, &[192; 3]);
    let pq = |png: &[u8]| with_chunk(png, *b"cICP", &[9, 16, 0, 1]);
    let message = |png: &[u8]| open(png).colours.unwrap();
    let assumed = "HDR (PQ, peak not declared: 1000 cd/m² assumed), tone mapped";
    assert_eq!(message(&pq(&plain)), assumed);
    let light = [4000_u32, 400].map(|light| (light * 10_000).to_be_bytes());
    let declared = with_chunk(&plain, *b"cLLI", &light.concat());
    let mut volume = [0; 24];
    volume[16..20].copy_from_slice(&light[0]);
    for png in [declared, with_chunk(&plain, *b"mDCV", &volume)] {
        let found = message(&pq(&png));
        assert_eq!(found, "HDR (PQ with a peak of 4000 cd/m²), tone mapped");
        let [assumed, declared] = [&plain, &png].map(|png| open(&pq(png)).image.pixel(5, 5)[0]);
        assert!(declared < assumed, "{declared} {assumed}");
    }
}

#[test]
fn primaries_and_gamma_of_png_are_converted() {
    let adobe =
        SourceChromaticities::new((0.3127, 0.329), (0.64, 0.33), (0.21, 0.71), (0.15, 0.06));
    let file = png_with(BitDepth::Eight, &P3, |info| {
        info.source_gamma = Some(ScaledFloat::new(0.45455));
        info.source_chromaticities = Some(adobe);
    });
    assert_is(&file, ADOBE_AS_SRGB, 1);
}

#[test]
fn hdr_is_tone_mapped() {
    let plain = png_file(None, &[148; 3]);
    let opened = assert_is(&with_chunk(&plain, *b"cICP", &[9, 16, 0, 1]), [229; 3], 3);
    assert!(opened.colours.unwrap().contains("tone mapped"));
}

#[test]
fn adobe_rgb_named_by_exif_alone_is_converted() {
    // One directory with a pointer to the EXIF one, which has the colour space.
    let entry = |tag: u16, kind: u16, count: u32, value: u32| {
        let words = [tag, kind].map(u16::to_le_bytes).concat();
        [words, [count, value].map(u32::to_le_bytes).concat()].concat()
    };
    let block = [
        b"II\x2a\0\x08\0\0\0\x01\0".to_vec(),
        entry(0x8769, 4, 1, 26),
        b"\0\0\0\0\x02\0".to_vec(),
        entry(0xa001, 3, 1, 0xffff),
        entry(0xa005, 4, 1, 56),
        b"\0\0\0\0\x01\0".to_vec(),
        entry(1, 2, 4, u32::from_le_bytes(*b"R03\0")),
        b"\0\0\0\0".to_vec(),
    ]
    .concat();
    let plain = jpeg(None, &P3);
    let segment = [b"Exif\0\0".as_slice(), &block].concat();
    let length = (segment.len() as u16 + 2).to_be_bytes();
    let file = [&plain[..2], b"\xff\xe1", &length, &segment, &plain[2..]].concat();
    assert_is(&file, ADOBE_AS_SRGB, 3);
    let file = with_chunk(&png_file(None, &P3), *b"eXIf", &block);
    assert_is(&file, ADOBE_AS_SRGB, 1);
}

/// A CMYK profile with a table of two steps an ink: red where there is none of the first.
fn cmyk_profile() -> Vec<u8> {
    let mut table = b"mft1\0\0\0\0\x04\x03\x02\0".to_vec();
    let one = 0x1_0000_u32;
    let matrix = [one, 0, 0, 0, one, 0, 0, 0, one];
    table.extend(matrix.map(u32::to_be_bytes).concat());
    table.extend((0..4).flat_map(|_| 0..=255_u8));
    // L*, a*, b*: a mid grey without the first ink, black with it.
    table.extend(
        [[137, 128, 128], [0, 128, 128]]
            .map(|lab| lab.repeat(8))
            .concat(),
    );
    table.extend((0..3).flat_map(|_| 0..=255_u8));
    let mut profile = vec![0; 128];
    profile[8] = 2;
    profile[12..24].copy_from_slice(b"prtrCMYKLab ");
    profile[36..40].copy_from_slice(b"acsp");
    profile[68..80].copy_from_slice(&[0, 0, 0xf6, 0xd6, 0, 1, 0, 0, 0, 0, 0xd3, 0x2d]);
    profile.extend(1_u32.to_be_bytes());
    profile.extend(b"A2B0");
    profile.extend(144_u32.to_be_bytes());
    profile.extend((table.len() as u32).to_be_bytes());
    profile.extend(table);
    let len = profile.len() as u32;
    profile[..4].copy_from_slice(&len.to_be_bytes());
    profile
}

#[test]
fn cmyk_is_converted_through_its_profile() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/media/cmyk.jpg");
    let plain = fs::read(fixture).unwrap();
    let profile = cmyk_profile();
    let segment = [b"ICC_PROFILE\0\x01\x01".as_slice(), &profile].concat();
    let length = (segment.len() as u16 + 2).to_be_bytes();
    let file = [&plain[..2], b"\xff\xe2", &length, &segment, &plain[2..]].concat();
    let opened = open(&file);
    assert_eq!(opened.notice, None);
    assert!(opened.colours.is_some());
    // The profile knows greys only.
    let is_grey = |[r, g, b]: &[u8; 3]| r.abs_diff(*g) <= 2 && g.abs_diff(*b) <= 2;
    assert!(opened.image.rgb.as_chunks::<3>().0.iter().all(is_grey));
    assert_ne!(opened.image, open(&plain).image);
}

#[test]
fn unusable_colour_profile_leaves_pixels_unchanged_with_a_notice() {
    let cmyk = ColorProfile::new_display_p3().encode().unwrap();
    let mut lab = cmyk;
    lab[16..20].copy_from_slice(b"Lab ");
    for profile in [b"broken".to_vec(), lab, cmyk_profile()] {
        let opened = assert_is(&png_file(Some(profile), &P3), P3, 0);
        let notice = opened.notice.unwrap();
        assert!(notice.starts_with("The colours are taken as sRGB: "));
    }
}

#[test]
fn damaged_profiles_never_panic() {
    let mut random = Random::new(7);
    for whole in [
        p3(),
        cmyk_profile(),
        ColorProfile::new_srgb().encode().unwrap(),
    ] {
        for _ in 0..12 {
            let mut profile = random.damaged(&whole, 5, whole.len());
            let cut = random.below(3) * random.below(profile.len()) / 3;
            profile.truncate(profile.len() - cut);
            open(&tiff_file(Some(profile), &P3));
        }
    }
}

#[test]
fn transparency_is_kept_apart_from_the_colours() {
    let [r, g, b] = P3;
    let clear = [r, g, b, 0];
    for file in [
        png_file(None, &clear),
        webp_file(None, &clear),
        tiff_file(None, &clear),
    ] {
        let opened = assert_is(&file, P3, 0);
        assert_eq!(opened.alpha.unwrap().values, pixels(&[0]));
    }
    let grey = png_with(BitDepth::Eight, &[240], |info| {
        info.color_type = ColorType::Grayscale;
        info.trns = Some(vec![0, 240].into());
    });
    assert_eq!(open(&grey).alpha.unwrap().values[0], 0);
    let solid = png_file(None, &[r, g, b, 255]);
    assert_eq!(open(&solid).alpha, None);
    let (_folder, path) = write(&png_file(None, &clear));
    let notices = open_image(&path).unwrap().notices(&path);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("become opaque"));
}
