//! PNG: every colour type and depth, interlaced or not; of an animated one, the still image.
//!
//! Text is skipped unread, and a colour profile is read with a limit, so that a huge or broken one does no harm.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, copy};
use std::path::Path;

use flate2::read::ZlibDecoder;
use image::metadata::Orientation;
use image::{DynamicImage, GrayAlphaImage, GrayImage, ImageBuffer, RgbImage, RgbaImage};
use png::{
    BitDepth, ColorType, Decoder, DecodingError, FrameControl, Info, Limits, Reader,
    Transformations,
};

use super::declared::MAX_PROFILE_BYTES;
use super::{
    CicpColours, DeclaredColours, DecodeFailure, DecodedImage, Input, MAX_DECODED_BYTES,
    check_size, upright_size,
};
use crate::formats::{ByteSource, FilePart, png as chunks_of};
use crate::media::colour::declared_peak;

/// Deflate makes no byte into more than this, by the way it counts.
const MAX_RATIO: u64 = 1032;

/// A PNG at its first image.
pub(in crate::media) struct PngReader {
    reader: Reader<Input>,
    /// An ICC profile, or why the declared colours cannot be read.
    profile: Option<Result<Vec<u8>, String>>,
    num_left: u32,
}

pub(super) fn decode(file: Input, file_bytes: u64) -> Result<DecodedImage, DecodeFailure> {
    let mut reader = PngReader::open(file, file_bytes)?;
    let Some((_, image)) = reader.next_frame()? else {
        return Err(DecodeFailure::Truncated);
    };
    // The rotation may follow the pixels; errors there harm no pixel.
    reader.reader.finish().ok();
    let exif = reader.reader.info().exif_metadata.as_deref();
    Ok(DecodedImage {
        image,
        orientation: exif
            .and_then(Orientation::from_exif_chunk)
            .unwrap_or(Orientation::NoTransforms),
        colours: reader.colours(),
        unused: Vec::new(),
    })
}

/// Width and height, upright.
pub(in crate::media) fn size(
    mut file: Input,
    file_bytes: u64,
) -> Result<(u32, u32), DecodeFailure> {
    let orientation = orientation(&mut file, file_bytes);
    let size = PngReader::open(file, file_bytes)?.size();
    Ok(upright_size(size, orientation))
}

/// From the EXIF block, which may follow the pixels.
pub(in crate::media) fn orientation(file: &mut Input, file_bytes: u64) -> Orientation {
    const MAX_EXIF_BYTES: u64 = 1 << 16;
    let block = chunk_named(file, file_bytes, *b"eXIf", MAX_EXIF_BYTES, *b"IEND");
    let orientation = block.and_then(|(_, block)| Orientation::from_exif_chunk(&block));
    orientation.unwrap_or(Orientation::NoTransforms)
}

/// Returns true if the PNG at `path` says that it has several frames.
pub(in crate::media) fn is_animated(path: &Path) -> bool {
    let count = header_of(path, *b"acTL", 4);
    count.is_some_and(|count| count > vec![0, 0, 0, 1])
}

/// Returns true if pixels of the PNG at `path` may be transparent.
pub(in crate::media) fn may_have_alpha(path: &Path) -> bool {
    const KIND_AT: usize = 9;
    let header = header_of(path, *b"IHDR", 13).unwrap_or_default();
    let has_channel = header.get(KIND_AT).is_some_and(|kind| kind & 4 > 0);
    has_channel || header_of(path, *b"tRNS", 0).is_some()
}

/// The beginning of a chunk before the pixels.
fn header_of(path: &Path, name: [u8; 4], most: u64) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    let found = chunk_named(&mut BufReader::new(file), len, name, most, PIXELS);
    found.map(|(_, content)| content)
}

impl PngReader {
    pub fn open(mut file: Input, file_bytes: u64) -> Result<Self, DecodeFailure> {
        let mut profile = profile(&mut file, file_bytes);
        if let Some((chunk, points)) = invalid_cicp(&mut file, file_bytes) {
            file = without(file, &chunk).map_err(DecodeFailure::Io)?;
            profile = Some(Err(format!("its cICP chunk {points:?} is invalid")));
        }
        file.rewind().map_err(DecodeFailure::Io)?;
        let limits = Limits {
            bytes: MAX_DECODED_BYTES as usize,
        };
        let mut decoder = Decoder::new_with_limits(file, limits);
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        // Palette and few bits become 8 bits.
        decoder.set_transformations(Transformations::EXPAND);
        let header = decoder.read_header_info()?;
        check_size(header.width, header.height)?;
        let bits = header.color_type.samples() as u64 * header.bit_depth as u64;
        let packed = u64::from(header.width) * u64::from(header.height) * bits / 8;
        // Before there is room made for all of it.
        if packed > file_bytes.saturating_mul(MAX_RATIO) {
            return Err(DecodeFailure::Truncated);
        }
        let reader = decoder.read_info()?;
        let info = reader.info();
        let hidden = u32::from(info.frame_control.is_none());
        let num_left = info
            .animation_control
            .map_or(1, |animation| animation.num_frames.saturating_add(hidden));
        Ok(Self {
            reader,
            profile,
            num_left,
        })
    }

    /// Width and height of the canvas.
    pub fn size(&self) -> (u32, u32) {
        self.reader.info().size()
    }

    /// The next image as it is stored, with its place on the canvas where it belongs to an animation.
    pub fn next_frame(
        &mut self,
    ) -> Result<Option<(Option<FrameControl>, DynamicImage)>, DecodeFailure> {
        if self.num_left == 0 {
            return Ok(None);
        }
        self.num_left -= 1;
        let reader = &mut self.reader;
        let (width, height) = reader.info().size();
        let bytes = reader
            .output_buffer_size()
            .ok_or(DecodeFailure::TooManyPixels { width, height })?;
        let mut pixels = vec![0; bytes];
        let frame = reader.next_frame(&mut pixels)?;
        if reader.info().interlaced && frame.width < width {
            // Rows of an interlaced frame are as far apart as those of the canvas.
            let stride = frame.line_size / frame.width as usize * width as usize;
            for row in 1..frame.height as usize {
                let start = row * stride;
                pixels.copy_within(start..start + frame.line_size, row * frame.line_size);
            }
        }
        pixels.truncate(frame.buffer_size());
        let points = reader.info().coding_independent_code_points;
        let is_narrow = points.is_some_and(|points| !points.is_video_full_range_image);
        let image = if frame.bit_depth == BitDepth::Sixteen {
            let words = pixels.as_chunks().0.iter();
            let mut words: Vec<u16> = words.map(|two| u16::from_be_bytes(*two)).collect();
            if is_narrow {
                let full = |word| (f64::from(word) - 4096.0) / 56_064.0 * 65_535.0;
                expand_range(&mut words, frame.color_type, |word| {
                    full(word).round() as u16
                });
            }
            from_words(frame.color_type, frame.width, frame.height, words)
        } else {
            if is_narrow {
                let full = |byte| (f64::from(byte) - 16.0) / 219.0 * 255.0;
                expand_range(&mut pixels, frame.color_type, |byte| {
                    full(byte).round() as u8
                });
            }
            from_bytes(frame.color_type, frame.width, frame.height, pixels)
        };
        let image = image.ok_or_else(DecodeFailure::too_much_memory)?;
        Ok(Some((reader.info().frame_control, image)))
    }

    pub fn colours(&self) -> DeclaredColours {
        declared(self.profile.clone(), self.reader.info())
    }
}

/// Maps the narrow range of H.273, 16 to 235 in 8 bits, to the full one; alpha stays. `expand` maps a sample.
fn expand_range<T: Copy>(samples: &mut [T], kind: ColorType, expand: impl Fn(T) -> T) {
    let has_alpha = matches!(kind, ColorType::GrayscaleAlpha | ColorType::Rgba);
    let num_colours = kind.samples() - usize::from(has_alpha);
    for pixel in samples.chunks_exact_mut(kind.samples()) {
        for sample in &mut pixel[..num_colours] {
            *sample = expand(*sample);
        }
    }
}

fn from_bytes(kind: ColorType, width: u32, height: u32, raw: Vec<u8>) -> Option<DynamicImage> {
    Some(match kind {
        ColorType::Grayscale => GrayImage::from_raw(width, height, raw)?.into(),
        ColorType::GrayscaleAlpha => GrayAlphaImage::from_raw(width, height, raw)?.into(),
        ColorType::Rgba => RgbaImage::from_raw(width, height, raw)?.into(),
        _ => RgbImage::from_raw(width, height, raw)?.into(),
    })
}

fn from_words(kind: ColorType, width: u32, height: u32, raw: Vec<u16>) -> Option<DynamicImage> {
    Some(match kind {
        ColorType::Grayscale => {
            DynamicImage::ImageLuma16(ImageBuffer::from_raw(width, height, raw)?)
        }
        ColorType::GrayscaleAlpha => {
            DynamicImage::ImageLumaA16(ImageBuffer::from_raw(width, height, raw)?)
        }
        ColorType::Rgba => DynamicImage::ImageRgba16(ImageBuffer::from_raw(width, height, raw)?),
        _ => DynamicImage::ImageRgb16(ImageBuffer::from_raw(width, height, raw)?),
    })
}

/// The colours that count, by the precedence of the PNG specification: cICP, iCCP, sRGB, gAMA with cHRM; EXIF last.
fn declared(profile: Option<Result<Vec<u8>, String>>, info: &Info<'_>) -> DeclaredColours {
    if let Some(points) = info.coding_independent_code_points {
        let light = |value: Option<u32>| f64::from(value.unwrap_or(0)) / 10_000.0;
        let max_cll = info
            .content_light_level
            .map(|it| it.max_content_light_level);
        let mastering = info
            .mastering_display_color_volume
            .map(|it| it.max_luminance);
        let peak = declared_peak(light(max_cll), light(mastering));
        return DeclaredColours::Cicp(CicpColours {
            primaries: points.color_primaries,
            transfer: points.transfer_function,
            peak,
            is_narrow: !points.is_video_full_range_image,
        });
    }
    match profile {
        Some(Ok(profile)) => return DeclaredColours::from_metadata(Some(profile), None),
        Some(Err(why)) => return DeclaredColours::Unreadable(why),
        None => {}
    }
    let primaries = info.chrm_chunk.map(|own| {
        [own.white, own.red, own.green, own.blue].map(|(x, y)| [x.into_value(), y.into_value()])
    });
    let gamma = info.gama_chunk.map(|gamma| f64::from(gamma.into_value()));
    match (info.srgb, primaries, gamma) {
        (None, None, None) => DeclaredColours::from_metadata(None, info.exif_metadata.as_deref()),
        (None, primaries, gamma) => DeclaredColours::Gamma(primaries, gamma),
        (Some(_), ..) => DeclaredColours::Untagged,
    }
}

/// Name of the chunks with pixels.
const PIXELS: [u8; 4] = *b"IDAT";

/// The first chunk of this name before one named `end`, and at most `most` bytes of its content.
fn chunk_named(
    file: &mut Input,
    file_bytes: u64,
    name: [u8; 4],
    most: u64,
    end: [u8; 4],
) -> Option<(FilePart<[u8; 4]>, Vec<u8>)> {
    file.rewind().ok()?;
    let mut source = ByteSource::new(file, file_bytes);
    let mut chunks = chunks_of::chunks(&mut source);
    while let Some(chunk) = chunks.next_part().ok()? {
        if chunk.name == name {
            let content = chunks.beginning(&chunk, most).ok()?;
            return Some((chunk, content));
        }
        if chunk.name == end {
            return None;
        }
    }
    None
}

/// A `cICP` chunk for other pixels than RGB, which the decoder would take for damage, and its content.
fn invalid_cicp(file: &mut Input, file_bytes: u64) -> Option<(FilePart<[u8; 4]>, Vec<u8>)> {
    let found = chunk_named(file, file_bytes, *b"cICP", 4, PIXELS);
    found.filter(|(_, points)| !matches!(points[..], [_, _, 0, 0 | 1]))
}

/// A copy of the file without one of its chunks.
fn without(mut file: Input, chunk: &FilePart<[u8; 4]>) -> io::Result<Input> {
    let mut rest = tempfile::tempfile()?;
    file.rewind()?;
    copy(&mut file.by_ref().take(chunk.start - 8), &mut rest)?;
    // A checksum follows the content.
    file.seek(SeekFrom::Start(chunk.end + 4))?;
    copy(&mut file, &mut rest)?;
    Ok(BufReader::<File>::new(rest))
}

/// The profile of the `iCCP` chunk; the decoder would unpack one of any size.
fn profile(file: &mut Input, file_bytes: u64) -> Option<Result<Vec<u8>, String>> {
    let (chunk, content) = chunk_named(file, file_bytes, *b"iCCP", MAX_PROFILE_BYTES, PIXELS)?;
    if chunk.len() > MAX_PROFILE_BYTES {
        return Some(Err("its ICC profile is too large".to_owned()));
    }
    // Behind the name: a zero, and the method of compression.
    let name = content.iter().take_while(|byte| **byte != 0).count();
    let mut profile = Vec::new();
    let packed = content.get(name + 2..).unwrap_or_default();
    // Data before an error may be complete.
    ZlibDecoder::new(packed)
        .take(MAX_PROFILE_BYTES + 1)
        .read_to_end(&mut profile)
        .ok();
    Some(Ok(profile))
}

impl From<DecodingError> for DecodeFailure {
    fn from(err: DecodingError) -> Self {
        match err {
            DecodingError::LimitsExceeded => Self::too_much_memory(),
            DecodingError::IoError(err) => err.into(),
            err => Self::from_words(&err.to_string()),
        }
    }
}
