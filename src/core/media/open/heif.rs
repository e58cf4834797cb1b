//! AVIF and HEIC (HEIF, ISO/IEC 23008-12): the container is read here, and ffmpeg decodes the coded images.
//!
//! Tiles are joined, and colours, alpha, crop, rotation and mirroring are those of the container, so any ffmpeg with a
//! decoder for AV1 or HEVC will do. Gain maps, overlays and all but the first frame of image sequences are not read.

use std::io::{self, Read as _, Seek as _, Write as _};
use std::process::Stdio;

use image::metadata::Orientation;
use image::{DynamicImage, GenericImage as _};

use super::{
    CicpColours, DeclaredColours, DecodeFailure, DecodedImage, Input, MAX_PIXELS, check_size,
    only_first, unpremultiply,
};
use crate::formats::ByteSource;
use crate::formats::heif::{HeifContainer, HeifItem, HeifTurn, number, parameter_sets, wide};
use crate::formats::mp4::{BoxBytes, descend, file_boxes, movie};
use crate::media::colour::declared_peak;
use crate::media::ffmpeg_images::{FfmpegImages, FfmpegPixels};

const MAX_META_BYTES: u64 = 16 << 20;
/// Of all coded images together.
const MAX_CODED_BYTES: usize = 256 << 20;
/// Seconds of the processor.
const MAX_DECODING: &str = "60";

/// Matrix coefficients of H.273 that ffmpeg's scaler knows, with its names.
const MATRICES: [(u16, &str); 6] = [
    (1, "bt709"),
    (5, "bt601"),
    (6, "bt601"),
    (7, "smpte240m"),
    (9, "bt2020"),
    (10, "bt2020"),
];

/// Width and height, upright.
pub(in crate::media) fn size(mut file: Input, len: u64) -> Result<(u32, u32), DecodeFailure> {
    let meta = read_meta(&mut file, len)?;
    let container = parse(&meta)?;
    let item = container.item(container.primary)?;
    let mut size = item.size;
    for turn in &item.turns {
        size = match turn {
            HeifTurn::Cropped([_, _, width, height]) => (*width, *height),
            HeifTurn::Rotated(1 | 3) => (size.1, size.0),
            _ => size,
        };
    }
    Ok(size)
}

pub(super) fn decode(mut file: Input, len: u64) -> Result<DecodedImage, DecodeFailure> {
    let meta = read_meta(&mut file, len)?;
    let container = parse(&meta)?;
    let item = container.item(container.primary)?;
    let mut image = container.decode(&mut file, container.primary, false)?;
    let is_alpha = |it: &&u32| {
        let it = &container.items[it];
        it.is_alpha && it.master == Some(container.primary)
    };
    if let Some(alpha) = container.items.keys().find(is_alpha) {
        let alpha = container.decode(&mut file, *alpha, true)?.into_luma8();
        if (alpha.width(), alpha.height()) != (image.width(), image.height()) {
            return Err(DecodeFailure::Damaged(
                "its transparency has another size".to_owned(),
            ));
        }
        image = match image {
            DynamicImage::ImageRgb16(deep) => {
                let mut rgba = DynamicImage::ImageRgb16(deep).into_rgba16();
                for (pixel, alpha) in rgba.pixels_mut().zip(alpha.pixels()) {
                    pixel[3] = u16::from(alpha[0]) * 257;
                }
                rgba.into()
            }
            shallow => {
                let mut rgba = shallow.into_rgba8();
                for (pixel, alpha) in rgba.pixels_mut().zip(alpha.pixels()) {
                    pixel[3] = alpha[0];
                }
                rgba.into()
            }
        };
        if item.is_premultiplied {
            unpremultiply(&mut image);
        }
    }
    for turn in &item.turns {
        image = match *turn {
            HeifTurn::Rotated(1) => image.rotate270(),
            HeifTurn::Rotated(2) => image.rotate180(),
            HeifTurn::Rotated(3) => image.rotate90(),
            HeifTurn::Rotated(_) => image,
            HeifTurn::TopToBottom => image.flipv(),
            HeifTurn::LeftToRight => image.fliph(),
            HeifTurn::Cropped([left, top, width, height]) => {
                image.crop_imm(left, top, width, height)
            }
        };
    }
    // Some writers say the colours of the tiles alone.
    let tile = item
        .tiles
        .first()
        .map_or(Ok(item), |tile| container.item(*tile))?;
    let colours = match (item.profile.or(tile.profile), item.nclx.or(tile.nclx)) {
        (None, Some((primaries, transfer, ..))) => {
            let code = |code: u16| u8::try_from(code).unwrap_or(0);
            let peak = declared_peak(item.light.0, item.light.1);
            DeclaredColours::Cicp(CicpColours {
                primaries: code(primaries),
                transfer: code(transfer),
                peak,
                is_narrow: false,
            })
        }
        (profile, _) => DeclaredColours::from_metadata(profile.map(<[u8]>::to_vec), None),
    };
    Ok(DecodedImage {
        image,
        colours,
        orientation: Orientation::NoTransforms,
        unused: match num_frames(&mut file, len) {
            count if count > 1 => only_first(count as usize, "frames"),
            _ => only_first(container.num_images(), "images"),
        }
        .into_iter()
        .collect(),
    })
}

/// Number of frames of an image sequence; 0 without one.
fn num_frames(file: &mut Input, len: u64) -> u32 {
    let found = file
        .rewind()
        .and_then(|()| movie(&mut ByteSource::new(file, len)));
    let movie = found.unwrap_or_default();
    let path = [*b"trak", *b"mdia", *b"minf", *b"stbl", *b"stsz"];
    let sizes = descend(&movie, &path).and_then(|sizes| sizes.get(8..));
    sizes.and_then(|sizes| BoxBytes(sizes).u32()).unwrap_or(0)
}

fn damaged() -> DecodeFailure {
    DecodeFailure::Damaged("its boxes do not go together".to_owned())
}

/// The content of the `meta` box.
fn read_meta(file: &mut Input, len: u64) -> Result<Vec<u8>, DecodeFailure> {
    file.rewind().map_err(DecodeFailure::Io)?;
    let mut source = ByteSource::new(file, len);
    let mut outer = file_boxes(&mut source);
    while let Some(part) = outer.next_part()? {
        if &part.name == b"meta" {
            if part.len() > MAX_META_BYTES {
                return Err(DecodeFailure::too_much_memory());
            }
            return Ok(outer.content(&part)?);
        }
    }
    Err(DecodeFailure::Truncated)
}

fn parse(meta: &[u8]) -> Result<HeifContainer<'_>, DecodeFailure> {
    let container = HeifContainer::parse(meta).ok_or_else(damaged)?;
    let (width, height) = container.item(container.primary)?.size;
    check_size(width, height)?;
    Ok(container)
}

impl<'a> HeifContainer<'a> {
    fn item(&self, id: u32) -> Result<&HeifItem<'a>, DecodeFailure> {
        self.items.get(&id).ok_or_else(damaged)
    }

    fn content(&self, file: &mut Input, item: &HeifItem<'_>) -> Result<Vec<u8>, DecodeFailure> {
        let mut bytes = Vec::new();
        for (start, length) in &item.extents {
            let room = (MAX_CODED_BYTES - bytes.len()) as u64;
            if *length > room {
                return Err(DecodeFailure::too_much_memory());
            }
            if item.is_in_idat {
                let rest = self.idat.get(*start as usize..).ok_or_else(damaged)?;
                let part = rest.get(..*length as usize).ok_or_else(damaged)?;
                bytes.extend_from_slice(part);
            } else {
                file.seek(io::SeekFrom::Start(*start))
                    .map_err(DecodeFailure::Io)?;
                let read = file.by_ref().take(*length).read_to_end(&mut bytes);
                if read.map_err(DecodeFailure::Io)? as u64 != *length {
                    return Err(DecodeFailure::Truncated);
                }
            }
        }
        Ok(bytes)
    }

    /// Decodes an item, or the tiles that it consists of.
    fn decode(
        &self,
        file: &mut Input,
        id: u32,
        is_grey: bool,
    ) -> Result<DynamicImage, DecodeFailure> {
        let item = self.item(id)?;
        let (mut columns, mut tiles, mut size) = (1, vec![id], item.size);
        if &item.kind == b"grid" {
            let content = self.content(file, item)?;
            let (rows, across, whole) = grid(&content).ok_or_else(damaged)?;
            if item.tiles.len() != rows * across {
                return Err(damaged());
            }
            (columns, tiles, size) = (across, item.tiles.clone(), whole);
        }
        check_size(size.0, size.1)?;
        let first = self.item(*tiles.first().ok_or_else(damaged)?)?;
        let mut stream = Vec::new();
        for tile in &tiles {
            let tile = self.item(*tile)?;
            let coded = self.content(file, tile)?;
            match (&tile.kind, &tile.hevc) {
                (b"av01", _) => {
                    // A temporal delimiter, which files leave out.
                    stream.extend([0x12, 0]);
                    stream.extend(coded);
                }
                (b"hvc1", Some(hevc)) => {
                    let (sets, length_bytes) = parameter_sets(hevc).ok_or_else(damaged)?;
                    stream.extend(sets);
                    append_units(&mut stream, &coded, length_bytes).ok_or_else(damaged)?;
                }
                _ => {
                    let kind = String::from_utf8_lossy(&tile.kind).into_owned();
                    return Err(DecodeFailure::Unsupported(format!(
                        "its pixels are of kind {kind:?}"
                    )));
                }
            }
            if stream.len() > MAX_CODED_BYTES {
                return Err(DecodeFailure::too_much_memory());
            }
        }
        let nclx = item.nclx.or(first.nclx);
        let is_hdr = nclx.is_some_and(|(_, transfer, ..)| matches!(transfer, 16 | 18));
        let format = if &first.kind == b"av01" {
            "obu"
        } else {
            "hevc"
        };
        let pixels = match (is_grey, first.is_deep || is_hdr) {
            (true, _) => FfmpegPixels::Grey8,
            (false, true) => FfmpegPixels::Rgb16,
            (false, false) => FfmpegPixels::Rgb8,
        };
        let filter = nclx.and_then(|(_, _, matrix, is_full)| {
            let (_, matrix) = MATRICES.iter().find(|(code, _)| *code == matrix)?;
            let range = if is_full { "full" } else { "limited" };
            Some(format!("scale=in_color_matrix={matrix}:in_range={range}"))
        });
        let num_images = tiles.len();
        let check = |width: u32, height: u32| {
            // Coded images are padded to whole blocks, and the padding of all tiles is less than the image.
            let fits = |side: u32, a: u32, b: u32| side <= a.max(b).saturating_add(256);
            let pixels = u64::from(width) * u64::from(height) * num_images as u64;
            let is_sound = fits(width, first.size.0, size.0)
                && fits(height, first.size.1, size.1)
                && pixels <= 2 * MAX_PIXELS;
            is_sound.then_some(()).ok_or(DecodeFailure::Undecodable)
        };
        let mut frames = run_ffmpeg(&stream, (format, filter.as_deref()), num_images, pixels)?;
        let mut images = Vec::with_capacity(num_images);
        for _ in 0..num_images {
            images.push(match frames.next(check) {
                Ok(None) | Err(DecodeFailure::Truncated) => return Err(DecodeFailure::Undecodable),
                image => image?.ok_or(DecodeFailure::Undecodable)?,
            });
        }
        if let [image] = &images[..] {
            // Coded images may be padded to whole blocks.
            return Ok(image.crop_imm(0, 0, size.0, size.1));
        }
        let mut canvas = DynamicImage::new(size.0, size.1, images[0].color());
        for (at, image) in images.into_iter().enumerate() {
            let (x, y) = (
                (at % columns) as u32 * image.width(),
                (at / columns) as u32 * image.height(),
            );
            if x >= size.0 || y >= size.1 {
                continue;
            }
            // Tiles may extend beyond the image.
            let image = image.crop_imm(0, 0, size.0 - x, size.1 - y);
            paste(&mut canvas, &image, x, y).ok_or_else(damaged)?;
        }
        Ok(canvas)
    }
}

fn paste(canvas: &mut DynamicImage, image: &DynamicImage, x: u32, y: u32) -> Option<()> {
    match (canvas, image) {
        (DynamicImage::ImageRgb8(canvas), DynamicImage::ImageRgb8(image)) => {
            canvas.copy_from(image, x, y).ok()
        }
        (DynamicImage::ImageRgb16(canvas), DynamicImage::ImageRgb16(image)) => {
            canvas.copy_from(image, x, y).ok()
        }
        (DynamicImage::ImageLuma8(canvas), DynamicImage::ImageLuma8(image)) => {
            canvas.copy_from(image, x, y).ok()
        }
        _ => None,
    }
}

/// Appends units, each with its length before it, with start codes instead.
fn append_units(stream: &mut Vec<u8>, coded: &[u8], length_bytes: usize) -> Option<()> {
    let mut coded = BoxBytes(coded);
    while !coded.0.is_empty() {
        let len = number(&mut coded, length_bytes as u8)?;
        stream.extend([0, 0, 0, 1]);
        stream.extend(coded.take(usize::try_from(len).ok()?)?);
    }
    Some(())
}

/// Rows, columns and size of a grid.
fn grid(content: &[u8]) -> Option<(usize, usize, (u32, u32))> {
    let mut bytes = BoxBytes(content);
    let [_, flags, rows, columns] = bytes.array()?;
    let is_wide = flags & 1 == 1;
    let size = (wide(&mut bytes, is_wide)?, wide(&mut bytes, is_wide)?);
    Some((usize::from(rows) + 1, usize::from(columns) + 1, size))
}

/// Decodes a stream of coded images. `format`: its name in ffmpeg, and a filter.
fn run_ffmpeg(
    stream: &[u8],
    (format, filter): (&str, Option<&str>),
    num_images: usize,
    pixels: FfmpegPixels,
) -> Result<FfmpegImages, DecodeFailure> {
    let mut file = tempfile::tempfile().map_err(DecodeFailure::Io)?;
    file.write_all(stream)
        .and_then(|()| file.rewind())
        .map_err(DecodeFailure::Io)?;
    let count = num_images.to_string();
    let mut input = vec!["-timelimit", MAX_DECODING, "-protocol_whitelist", "pipe"];
    input.extend(["-f", format, "-i", "pipe:0"]);
    let mut options = vec!["-frames:v", &count];
    options.extend(filter.iter().flat_map(|filter| ["-vf", filter]));
    FfmpegImages::start(input, Stdio::from(file), &options, pixels).map_err(|err| {
        match err.kind() {
            io::ErrorKind::NotFound => DecodeFailure::NoFfmpeg,
            _ => DecodeFailure::Io(err),
        }
    })
}
