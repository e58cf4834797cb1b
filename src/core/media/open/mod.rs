//! Opening images as 8-bit sRGB: PNG, JPEG, WebP, GIF, BMP and TIFF, and through ffmpeg AVIF and HEIC.
//!
//! Declared colours are converted ([`declared`]). Images without them are read as by Pillow's
//! `ImageOps.exif_transpose(image).convert("RGB")`, which is what diffusers' `load_image` does: the EXIF rotation is
//! applied, alpha is separated (not composited), and of an animation the first frame is taken. One difference is on
//! purpose: 16-bit grey keeps its high byte, where Pillow turns everything above 255 white.

mod declared;
mod failure;
mod gif;
pub(super) mod heif;
pub(super) mod jpeg;
mod opened_image;
pub(super) mod other;
pub(super) mod png;
pub(super) mod tiff;

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, RgbImage};

use super::source::first_frame;
use super::{AlphaChannel, MediaError, MediaErrorKind, RgbPixels};
use crate::formats::kind::{FileFormat, image_formats};
use crate::formats::{ByteSource, webp};
use crate::media::opened::open_file;
use crate::units::size_text;
pub use failure::MAX_PIXELS;
pub(super) use failure::{DecodeFailure, check_size, image_from_rgb};
pub use opened_image::OpenedImage;
use opened_image::TONE_MAPPED;
pub(super) use opened_image::only_first;
pub(super) use png::PngReader;

pub(super) use declared::CicpColours;
use declared::{DeclaredColours, MAX_PROFILE_BYTES, SrgbPixels};

/// More than the largest permitted image needs without compression, at 8 bytes a pixel.
const MAX_FILE_BYTES: u64 = 2_000_000_000;

/// Memory for pixels of a decoder: the largest permitted image at 8 bytes a pixel.
const MAX_DECODED_BYTES: u64 = MAX_PIXELS * 8;

/// More than tables, profiles and frames that are a little larger than their canvas need besides the pixels.
const ROOM_BYTES: u64 = 64 << 20;

/// Memory limit of any decoder.
const MAX_DECODER_BYTES: u64 = 2_000_000_000;

/// Memory limit of a decoder for an image whose header has this size: its pixels twice at 8 bytes. Frames and
/// strips that say that they are larger are refused before anything is allocated for them.
pub(super) fn decoder_bytes(width: u32, height: u32) -> u64 {
    let pixels = u64::from(width) * u64::from(height);
    MAX_DECODER_BYTES.min(ROOM_BYTES + 16 * pixels)
}

/// Words for a rare variant of a format.
const OTHER_MAKE: &str = "a rare variant";

pub(super) const EMPTY: &str = "this file is empty";

/// As [`open_image`], without its alpha.
pub fn open_rgb(path: &Path) -> Result<RgbPixels, MediaError> {
    open_image(path).map(|opened| opened.image)
}

/// As [`open_image`], with the alpha in the pixels.
pub fn open_rgba(path: &Path) -> Result<RgbPixels, MediaError> {
    open_image(path).map(OpenedImage::into_rgba)
}

/// Opens the image at `path`, whatever its extension says, or the first frame of the video there; no more of it is
/// decoded.
pub fn open_image(path: &Path) -> Result<OpenedImage, MediaError> {
    let opened = open_file(path, "read the image")?;
    if opened.len == 0 {
        return Err(MediaError::with_path(EMPTY, path));
    }
    if opened.kind.demuxer().is_some() {
        return first_frame(path);
    }
    if opened.len > MAX_FILE_BYTES {
        let (most, found) = (size_text(MAX_FILE_BYTES), size_text(opened.len));
        let sentence = format_args!("this file is {found}, and at most {most} can be read");
        return Err(MediaError::with_path(sentence, path));
    }
    let file = BufReader::new(opened.file);
    let decoded = match opened.kind {
        FileFormat::Png => png::decode(file, opened.len),
        FileFormat::Jpeg => jpeg::decode(file),
        FileFormat::Gif => gif::decode(file),
        FileFormat::WebP => decode_webp(file, opened.len),
        FileFormat::Bmp => decode_bmp(file),
        FileFormat::Tiff => tiff::decode(file),
        FileFormat::Avif | FileFormat::Heic => heif::decode(file, opened.len),
        FileFormat::Mp4 | FileFormat::Foreign(_) | FileFormat::Json | FileFormat::Other(_) => {
            return Err(not_an_image(opened.kind, path));
        }
    };
    decoded
        .and_then(DecodedImage::finish)
        .map_err(|failure| failure.into_error(opened.kind.name(), path))
}

pub(super) fn not_an_image(found: FileFormat, path: &Path) -> MediaError {
    let (found, formats) = (found.described(), image_formats());
    let sentence = format_args!("this is {found}, not a {formats} image");
    MediaError::of_kind(MediaErrorKind::NotAnImage, sentence, path)
}

/// The decoder would call a cut-off file damaged: the length in the header tells.
fn decode_webp(mut file: Input, len: u64) -> Result<DecodedImage, DecodeFailure> {
    let mut source = ByteSource::new(&mut file, len);
    if webp::end(&mut source)? > len {
        return Err(DecodeFailure::Truncated);
    }
    webp::check_sizes(&mut source)?;
    file.rewind().map_err(DecodeFailure::Io)?;
    other::decode(file, image::ImageFormat::WebP)
}

/// A BMP may end with an ICC profile, which its fifth header names.
fn decode_bmp(mut file: Input) -> Result<DecodedImage, DecodeFailure> {
    const HEADER_AT: u64 = 14;
    const V5_BYTES: u32 = 124;
    /// Offsets of the colour space, and of the profile's offset and length.
    const SPACE_AT: usize = 56;
    const PROFILE_AT: usize = 112;
    const EMBEDDED: u32 = u32::from_be_bytes(*b"MBED");

    let mut header = [0; V5_BYTES as usize];
    file.seek(SeekFrom::Start(HEADER_AT))
        .map_err(DecodeFailure::Io)?;
    let is_whole = file.read_exact(&mut header).is_ok();
    let number = |at: usize| {
        header[at..]
            .first_chunk()
            .map_or(0, |it| u32::from_le_bytes(*it))
    };
    let len = u64::from(number(PROFILE_AT + 4));
    let mut profile = None;
    if is_whole && number(0) == V5_BYTES && number(SPACE_AT) == EMBEDDED {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(HEADER_AT + u64::from(number(PROFILE_AT))))
            .and_then(|_| {
                file.by_ref()
                    .take(len.min(MAX_PROFILE_BYTES))
                    .read_to_end(&mut bytes)
            })
            .map_err(DecodeFailure::Io)?;
        profile = Some(bytes);
    }
    file.rewind().map_err(DecodeFailure::Io)?;
    let decoded = other::decode(file, image::ImageFormat::Bmp)?;
    Ok(DecodedImage {
        colours: DeclaredColours::from_metadata(profile, None),
        ..decoded
    })
}

/// A decoded image before its colours are converted and it is turned upright.
pub(super) struct DecodedImage {
    image: DynamicImage,
    colours: DeclaredColours,
    orientation: Orientation,
    /// Parts of the file that are not used, each as a sentence.
    unused: Vec<String>,
}

impl DecodedImage {
    fn finish(self) -> Result<OpenedImage, DecodeFailure> {
        let alpha = alpha_of(&self.image);
        let (width, height) = (self.image.width(), self.image.height());
        let SrgbPixels {
            image,
            colours,
            notice,
        } = self.colours.converted(self.image)?;
        let turned = |image| {
            let mut image: DynamicImage = image;
            image.apply_orientation(self.orientation);
            image
        };
        let alpha = alpha
            .and_then(|alpha| GrayImage::from_raw(width, height, alpha))
            .and_then(|alpha| AlphaChannel::new(turned(alpha.into()).into_luma8()));
        Ok(OpenedImage {
            image: upright(image, self.orientation)
                .map_err(|err| DecodeFailure::Damaged(err.to_string()))?,
            alpha,
            colours,
            notice,
            unused: self.unused,
        })
    }
}

/// Divides colours that are stored multiplied by alpha.
fn unpremultiply(image: &mut DynamicImage) {
    fn divide<'a, T: Copy + Into<f64> + 'a>(
        pixels: impl Iterator<Item = &'a mut [T]>,
        max: f64,
        from: fn(f64) -> T,
    ) {
        for pixel in pixels {
            let Some((alpha, colours)) = pixel.split_last_mut() else {
                continue;
            };
            let alpha = (*alpha).into();
            if alpha > 0.0 && alpha < max {
                for colour in colours {
                    let straight: f64 = (*colour).into() * max / alpha;
                    *colour = from(straight.min(max));
                }
            }
        }
    }
    let byte = |it: f64| it.round() as u8;
    let word = |it: f64| it.round() as u16;
    match image {
        DynamicImage::ImageRgba8(it) => divide(it.chunks_exact_mut(4), 255.0, byte),
        DynamicImage::ImageLumaA8(it) => divide(it.chunks_exact_mut(2), 255.0, byte),
        DynamicImage::ImageRgba16(it) => divide(it.chunks_exact_mut(4), 65_535.0, word),
        DynamicImage::ImageLumaA16(it) => divide(it.chunks_exact_mut(2), 65_535.0, word),
        DynamicImage::ImageRgba32F(it) => divide(it.chunks_exact_mut(4), 1.0, |it| it as f32),
        _ => {}
    }
}

/// Opacity of each pixel of an image that may have transparent ones.
fn alpha_of(image: &DynamicImage) -> Option<Vec<u8>> {
    Some(match image {
        DynamicImage::ImageRgba8(rgba) => rgba.pixels().map(|pixel| pixel[3]).collect(),
        DynamicImage::ImageLumaA8(grey) => grey.pixels().map(|pixel| pixel[1]).collect(),
        other if other.color().has_alpha() => {
            other.to_rgba8().pixels().map(|pixel| pixel[3]).collect()
        }
        _ => return None,
    })
}

type Input = BufReader<File>;

/// RGB from pixels of `channels` bytes, of which the first one (grey) or three are colour.
pub(super) fn drop_alpha(mut bytes: Vec<u8>, channels: usize) -> Vec<u8> {
    match channels {
        1 | 2 => bytes
            .chunks_exact(channels)
            .flat_map(|pixel| [pixel[0]; 3])
            .collect(),
        4 => {
            // In place: a copy of the largest permitted image would be 600 MB more.
            let pixels = bytes.len() / 4;
            for i in 1..pixels {
                bytes.copy_within(i * 4..i * 4 + 3, i * 3);
            }
            bytes.truncate(pixels * 3);
            bytes
        }
        _ => bytes,
    }
}

/// Width and height after [`upright`].
pub(super) fn upright_size((width, height): (u32, u32), orientation: Orientation) -> (u32, u32) {
    use Orientation as O;
    match orientation {
        O::Rotate90 | O::Rotate270 | O::Rotate90FlipH | O::Rotate270FlipH => (height, width),
        _ => (width, height),
    }
}

pub(super) fn upright(image: RgbPixels, orientation: Orientation) -> Result<RgbPixels, MediaError> {
    if orientation == Orientation::NoTransforms {
        return Ok(image);
    }
    let (width, height) = (image.width, image.height);
    let buffer = RgbImage::from_raw(width, height, image.rgb)
        .ok_or_else(|| MediaError::no_pixels(width, height))?;
    let mut turned = DynamicImage::ImageRgb8(buffer);
    turned.apply_orientation(orientation);
    RgbPixels::new(
        turned.width(),
        turned.height(),
        turned.into_rgb8().into_raw(),
    )
}

#[cfg(test)]
mod tests;
