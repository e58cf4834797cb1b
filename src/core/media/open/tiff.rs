//! TIFF: what the `image` crate reads, and the common makes that it does not: with a palette, grey with alpha, and YCbCr
//! in JPEG. Only the first page is read; colours that are stored multiplied by alpha are divided by it.
//!
//! Exotic ones (YCbCr without JPEG, Lab, palettes of less than 8 bits) are refused with a sentence.

use std::io::{Cursor, Read, Seek};

use image::metadata::Orientation;
use image::{DynamicImage, GrayAlphaImage, ImageBuffer, ImageFormat, RgbImage};
use tiff::decoder::ifd::Value as TagValue;
use tiff::decoder::{Decoder, DecodingResult, Limits};
use tiff::tags::Tag;
use tiff::{ColorType, TiffError};

use crate::formats::ByteSource;
use crate::formats::tiff::{check_lists as tiff_lists, count_pages};

use super::declared::{MAX_PROFILE_BYTES, rgb_from_cmyk};
use super::jpeg::rgb_from_ycc;
use super::{
    DeclaredColours, DecodeFailure, DecodedImage, Input, MAX_FILE_BYTES, OTHER_MAKE, check_size,
    decoder_bytes, only_first, other, unpremultiply, upright_size,
};

/// The tag that says what the samples mean, and two of its values.
const PHOTOMETRIC: u16 = 262;
const BLACK_IS_ZERO: u16 = 1;
const PALETTE: u16 = 3;
/// The value of the tag that names the compression.
const JPEG: u16 = 7;
/// Values of the tag that says what samples other than the colours mean.
const UNSPECIFIED: u16 = 0;
const ASSOCIATED_ALPHA: u16 = 1;
/// The value of the tag that says how samples are stored.
const FLOAT: u16 = 3;
/// The tag that makes a TIFF a DNG.
const DNG_VERSION: Tag = Tag::Unknown(50706);

pub(super) fn decode(file: Input) -> Result<DecodedImage, DecodeFailure> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(DecodeFailure::Io)?;
    // The decoder knows no palettes, but it reads the same samples when they are called grey.
    let has_palette = retag_palette(&mut bytes);
    let len = bytes.len() as u64;
    check_lists(&mut Cursor::new(&bytes), len)?;
    let mut decoder = open(&bytes)?;
    if decoder.find_tag(DNG_VERSION)?.is_some() {
        return Err(DecodeFailure::Unsupported(
            "it is DNG, a camera's raw file".to_owned(),
        ));
    }
    let extra = number(&mut decoder, Tag::ExtraSamples);
    let mut decoded = decode_page(&mut decoder, &bytes, has_palette).map_err(|err| match err {
        DecodeFailure::Unsupported(words) if words == OTHER_MAKE => {
            DecodeFailure::Unsupported(unread_make(&mut decoder))
        }
        other => other,
    })?;
    if extra == Some(ASSOCIATED_ALPHA) {
        unpremultiply(&mut decoded.image);
    }
    let pages = count_pages(&mut ByteSource::new(Cursor::new(&bytes), len));
    decoded.unused.extend(only_first(pages, "pages"));
    Ok(decoded)
}

type TiffDecoder<'a> = Decoder<Cursor<&'a Vec<u8>>>;

fn open(bytes: &Vec<u8>) -> Result<TiffDecoder<'_>, DecodeFailure> {
    let mut limits = Limits::default();
    limits.ifd_value_size = MAX_PROFILE_BYTES as usize;
    Ok(Decoder::new(Cursor::new(bytes))?.with_limits(limits))
}

/// The first number of a tag.
fn number<R: Read + Seek>(decoder: &mut Decoder<R>, tag: Tag) -> Option<u16> {
    let numbers = decoder.find_tag_unsigned_vec::<u16>(tag).ok().flatten();
    numbers?.first().copied()
}

fn decode_page(
    decoder: &mut TiffDecoder<'_>,
    bytes: &Vec<u8>,
    has_palette: bool,
) -> Result<DecodedImage, DecodeFailure> {
    let mut colours = match decoder.find_tag(Tag::IccProfile) {
        Ok(None) => DeclaredColours::Untagged,
        found => match found.ok().flatten().map(TagValue::into_u8_vec) {
            Some(Ok(profile)) => DeclaredColours::from_metadata(Some(profile), None),
            _ => DeclaredColours::Unreadable("its ICC profile cannot be read".to_owned()),
        },
    };
    let plain = |colours| {
        let decoded = other::decode(Cursor::new(bytes), ImageFormat::Tiff)?;
        Ok(DecodedImage { colours, ..decoded })
    };
    let is_jpeg = number(decoder, Tag::Compression) == Some(JPEG);
    let samples = match decoder.colortype() {
        Ok(ColorType::Gray(8)) if has_palette => 1,
        Ok(ColorType::Multiband {
            bit_depth: 8 | 16,
            num_samples: 2,
        }) => 2,
        Ok(ColorType::YCbCr(8)) if is_jpeg => 3,
        // The `image` crate knows no profiles of inks.
        Ok(ColorType::CMYK(8)) if matches!(colours, DeclaredColours::Icc(_)) => 4,
        _ if has_palette => {
            return Err(DecodeFailure::Unsupported(
                "its palette is not of 8 bits".to_owned(),
            ));
        }
        // Whole numbers of 32 bits would be read as fractions.
        _ if number(decoder, Tag::BitsPerSample) > Some(16)
            && number(decoder, Tag::SampleFormat) != Some(FLOAT) =>
        {
            return Err(DecodeFailure::Unsupported(OTHER_MAKE.to_owned()));
        }
        _ => return plain(colours),
    };
    let (width, height) = decoder.dimensions()?;
    check_size(width, height)?;
    let orientation = orientation(decoder);
    let is_opaque = number(decoder, Tag::ExtraSamples) == Some(UNSPECIFIED);
    let mut decoder = open(bytes)?.with_limits(limits(width, height));
    let image = match decoder.read_image()? {
        DecodingResult::U8(bytes) if has_palette => {
            // All reds, then all greens, then all blues, 16 bits each.
            let map = decoder.get_tag_u16_vec(Tag::ColorMap)?;
            let rgb = coloured(bytes.iter().step_by(samples), &map);
            RgbImage::from_raw(width, height, rgb).map(DynamicImage::from)
        }
        DecodingResult::U8(mut ycc) if samples == 3 => {
            for pixel in ycc.as_chunks_mut::<3>().0 {
                let [luma, blue, red] = *pixel;
                *pixel = rgb_from_ycc(luma, blue, red);
            }
            RgbImage::from_raw(width, height, ycc).map(DynamicImage::from)
        }
        DecodingResult::U8(inks) if samples == 4 => {
            let Some((rgb, converted)) = rgb_from_cmyk(inks, &colours) else {
                return plain(colours);
            };
            colours = converted;
            RgbImage::from_raw(width, height, rgb).map(DynamicImage::from)
        }
        DecodingResult::U8(raw) => {
            GrayAlphaImage::from_raw(width, height, raw).map(DynamicImage::from)
        }
        DecodingResult::U16(raw) => {
            ImageBuffer::from_raw(width, height, raw).map(DynamicImage::ImageLumaA16)
        }
        _ => {
            return Err(DecodeFailure::Unsupported(
                "its samples are not of 8 or 16 bits".to_owned(),
            ));
        }
    };
    let image = image.ok_or_else(|| DecodeFailure::Damaged("it has too few samples".to_owned()))?;
    Ok(DecodedImage {
        image: match image {
            DynamicImage::ImageLumaA8(_) if is_opaque => image.into_luma8().into(),
            DynamicImage::ImageLumaA16(_) if is_opaque => image.into_luma16().into(),
            image => image,
        },
        colours,
        orientation,
        unused: Vec::new(),
    })
}

fn orientation<R: Read + Seek>(decoder: &mut Decoder<R>) -> Orientation {
    let code = number(decoder, Tag::Orientation).and_then(|code| u8::try_from(code).ok());
    let known = code.and_then(Orientation::from_exif);
    known.unwrap_or(Orientation::NoTransforms)
}

/// Words for a make that is not read.
fn unread_make<R: Read + Seek>(decoder: &mut Decoder<R>) -> String {
    let mut named = |tag, names: &[(u16, &str)]| {
        let found = number(decoder, tag)?;
        let name = names.iter().find(|(code, _)| *code == found);
        name.map(|(_, name)| (*name).to_owned())
    };
    let compressions = [
        (2, "CCITT"),
        (3, "fax"),
        (6, "old JPEG"),
        (34712, "JPEG 2000"),
        (34887, "LERC"),
        (34925, "LZMA"),
        (50000, "Zstandard"),
        (50001, "WebP"),
        (50002, "JPEG XL"),
    ];
    if let Some(name) = named(Tag::Compression, &compressions) {
        return format!("its compression is {name}");
    }
    let colours = [
        (0, "grey"),
        (1, "grey"),
        (2, "RGB"),
        (3, "palette"),
        (5, "CMYK"),
        (6, "YCbCr"),
        (8, "CIELab"),
        (9, "ICCLab"),
        (10, "ITULab"),
        (32803, "raw camera"),
        (34892, "raw camera"),
    ];
    let colours = named(Tag::PhotometricInterpretation, &colours);
    let kind = named(Tag::SampleFormat, &[(2, "signed "), (3, "floating-point ")]);
    let bits = number(decoder, Tag::BitsPerSample).unwrap_or(1);
    let colours = colours.unwrap_or_else(|| "unknown".to_owned());
    let kind = kind.unwrap_or_default();
    format!("it has {bits}-bit {kind}{colours} pixels")
}

fn coloured<'a>(indices: impl Iterator<Item = &'a u8>, map: &[u16]) -> Vec<u8> {
    let colours = map.len() / 3;
    let byte = |at: usize| map.get(at).map_or(0, |sample| (sample >> 8) as u8);
    indices
        .map(|index| usize::from(*index))
        .flat_map(|index| {
            [
                byte(index),
                byte(colours + index),
                byte(2 * colours + index),
            ]
        })
        .collect()
}

/// Turns "palette" into "black is zero" in the first directory and tells whether it did.
fn retag_palette(bytes: &mut [u8]) -> bool {
    let is_big = bytes.starts_with(b"MM");
    let u16_at = |bytes: &[u8], at: usize| -> Option<u16> {
        let two = *bytes.get(at..)?.first_chunk()?;
        Some(if is_big {
            u16::from_be_bytes(two)
        } else {
            u16::from_le_bytes(two)
        })
    };
    let find = |bytes: &[u8]| -> Option<usize> {
        let four = *bytes.get(4..)?.first_chunk()?;
        let offset = if is_big {
            u32::from_be_bytes(four)
        } else {
            u32::from_le_bytes(four)
        };
        let directory = offset as usize;
        let entries = usize::from(u16_at(bytes, directory)?);
        let at = (0..entries)
            .map(|entry| directory + 2 + entry * 12)
            .find(|at| u16_at(bytes, *at) == Some(PHOTOMETRIC))?;
        (u16_at(bytes, at + 8)? == PALETTE).then_some(at + 8)
    };
    let Some(at) = find(bytes) else { return false };
    let value = if is_big {
        BLACK_IS_ZERO.to_be_bytes()
    } else {
        BLACK_IS_ZERO.to_le_bytes()
    };
    bytes[at..at + 2].copy_from_slice(&value);
    true
}

fn limits(width: u32, height: u32) -> Limits {
    let mut limits = Limits::default();
    limits.decoding_buffer_size = decoder_bytes(width, height) as usize;
    limits
}

/// Width and height in pixels, upright, of any make: those that are not read say so when they are opened.
pub(in crate::media) fn size(
    mut file: impl Read + Seek,
    len: u64,
) -> Result<(u32, u32), DecodeFailure> {
    check_lists(&mut file, len)?;
    let mut decoder = Decoder::new(file)?;
    let size = decoder.dimensions()?;
    Ok(upright_size(size, orientation(&mut decoder)))
}

/// Checks lists before any decoder does, which trusts their lengths. The file is at its beginning before and after.
pub(super) fn check_lists(file: &mut (impl Read + Seek), len: u64) -> Result<(), DecodeFailure> {
    tiff_lists(&mut ByteSource::new(&mut *file, len))?;
    file.rewind().map_err(DecodeFailure::Io)
}

impl From<TiffError> for DecodeFailure {
    fn from(err: TiffError) -> Self {
        match err {
            TiffError::IoError(err) => err.into(),
            TiffError::UnsupportedError(_) => Self::Unsupported(OTHER_MAKE.to_owned()),
            err => Self::from_words(&err.to_string()),
        }
    }
}
