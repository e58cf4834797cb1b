//! Animated PNG: times of its frames, and the canvas that each of them shows.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use ::png::{BlendOp, DisposeOp};
use image::RgbaImage;
use image::imageops::{overlay, replace};

use crate::formats::{ByteSource, png};
use crate::media::MediaError;
use crate::media::open::{DecodeFailure, PngReader, check_size};

/// Facts of an animated PNG that its headers give.
#[derive(Default)]
pub(super) struct ApngScan {
    /// Width and height of the canvas.
    pub size: (u32, u32),
    /// Delay of each frame, in milliseconds.
    pub delays: Vec<u64>,
    pub num_plays: u32,
    /// False if no frame can have transparent parts.
    pub may_have_alpha: bool,
}

/// Reads the chunks of a PNG without its pixels; at most `max_frames` frames and one more.
pub(super) fn scan<R: Read + Seek>(
    file: R,
    len: u64,
    max_frames: usize,
) -> Result<ApngScan, DecodeFailure> {
    let mut source = ByteSource::new(file, len);
    let mut chunks = png::chunks(&mut source);
    let mut scan = ApngScan::default();
    let mut num_frames = 0;
    while let Some(chunk) = chunks.next_part()? {
        match &chunk.name {
            b"IHDR" => {
                let [a, b, c, d, e, f, g, h, _, kind] = chunks.source.array_at(chunk.start)?;
                let side = u32::from_be_bytes;
                scan.size = (side([a, b, c, d]), side([e, f, g, h]));
                check_size(scan.size.0, scan.size.1)?;
                scan.may_have_alpha = kind & 4 > 0;
            }
            b"tRNS" => scan.may_have_alpha = true,
            b"acTL" => {
                let [a, b, c, d, e, f, g, h] = chunks.source.array_at(chunk.start)?;
                num_frames = u32::from_be_bytes([a, b, c, d]) as usize;
                scan.num_plays = u32::from_be_bytes([e, f, g, h]);
            }
            b"fcTL" if scan.delays.len() < num_frames.min(max_frames + 1) => {
                let [a, b, c, d, dispose] = chunks.source.array_at(chunk.start + 20)?;
                let (time, unit) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
                let unit = if unit == 0 { 100 } else { u64::from(unit) };
                scan.delays.push(u64::from(time) * 1000 / unit);
                scan.may_have_alpha |= dispose > 0;
            }
            b"fcTL" => break,
            _ => {}
        }
    }
    Ok(scan)
}

/// Gives the canvas as each frame shows it, in the colours of the file.
pub(super) fn read(
    file: File,
    show: &mut dyn FnMut(RgbaImage) -> Result<(), MediaError>,
    path: &Path,
) -> Result<(), MediaError> {
    let failed = |failure: DecodeFailure| failure.into_error("PNG", path);
    let file_bytes = file
        .metadata()
        .map_err(|err| MediaError::from_io("read the file", &err, path))?
        .len();
    let mut reader = PngReader::open(BufReader::new(file), file_bytes).map_err(failed)?;
    let (width, height) = reader.size();
    let mut canvas = RgbaImage::new(width, height);
    while let Some((control, image)) = reader.next_frame().map_err(failed)? {
        // Without a place it is the image for programs that know no animations.
        let Some(control) = control else { continue };
        let image = image.into_rgba8();
        let (left, top) = (control.x_offset.into(), control.y_offset.into());
        let before = (control.dispose_op == DisposeOp::Previous).then(|| canvas.clone());
        match control.blend_op {
            BlendOp::Source => replace(&mut canvas, &image, left, top),
            BlendOp::Over => overlay(&mut canvas, &image, left, top),
        }
        show(canvas.clone())?;
        if let Some(before) = before {
            canvas = before;
        } else if control.dispose_op == DisposeOp::Background {
            let clear = RgbaImage::new(image.width(), image.height());
            replace(&mut canvas, &clear, left, top);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ::png::{BitDepth, ColorType, Encoder, Writer};

    use super::*;
    use crate::media::{open_image, open_video};
    use crate::testing::file_of;

    const RED: [u8; 4] = [200, 0, 0, 255];
    const GREEN: [u8; 4] = [0, 200, 0, 255];
    const BLUE: [u8; 4] = [0, 0, 200, 255];
    const HALF: [u8; 4] = [0, 0, 200, 128];

    type Out<'a> = Writer<&'a mut Vec<u8>>;

    fn animation(num_frames: u32, is_hidden: bool, write: impl FnOnce(&mut Out<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 4, 2);
        encoder.set_color(ColorType::Rgba);
        encoder.set_depth(BitDepth::Eight);
        encoder.set_animated(num_frames, 0).unwrap();
        encoder.set_sep_def_img(is_hidden).unwrap();
        let mut writer = encoder.write_header().unwrap();
        write(&mut writer);
        writer.finish().unwrap();
        bytes
    }

    /// The first and the last pixel of each frame, with the video's rate.
    fn ends_of(bytes: &[u8]) -> (Vec<[[u8; 3]; 2]>, f64) {
        let (_folder, path) = file_of("a_0001.png", bytes);
        let video = open_video(&path).unwrap();
        let ends = |frame: &std::sync::Arc<crate::media::RgbPixels>| {
            [frame.pixel(0, 0), frame.pixel(3, 1)]
        };
        (video.frames.iter().map(ends).collect(), video.fps)
    }

    fn rgb([r, g, b, _]: [u8; 4]) -> [u8; 3] {
        [r, g, b]
    }

    #[test]
    fn apng_blend_and_dispose_operations_are_applied() {
        let bytes = animation(4, false, |writer| {
            writer.set_frame_delay(1, 10).unwrap();
            writer.write_image_data(&RED.repeat(8)).unwrap();
            writer.set_frame_dimension(2, 2).unwrap();
            writer.set_frame_position(2, 0).unwrap();
            writer.set_dispose_op(DisposeOp::Previous).unwrap();
            writer.write_image_data(&GREEN.repeat(4)).unwrap();
            writer.set_blend_op(BlendOp::Over).unwrap();
            writer.set_dispose_op(DisposeOp::Background).unwrap();
            writer.write_image_data(&HALF.repeat(4)).unwrap();
            writer.set_frame_dimension(2, 1).unwrap();
            writer.set_frame_position(0, 0).unwrap();
            writer.write_image_data(&BLUE.repeat(2)).unwrap();
        });
        let (ends, fps) = ends_of(&bytes);
        assert_eq!(ends[0], [rgb(RED), rgb(RED)]);
        assert_eq!(ends[1], [rgb(RED), rgb(GREEN)]);
        let [red, _, blue] = ends[2][1];
        assert!(
            (98..=101).contains(&red) && (99..=102).contains(&blue),
            "{ends:?}"
        );
        assert_eq!(ends[3], [rgb(BLUE), [0; 3]]);
        assert_eq!((ends.len(), fps), (4, 10.0));
    }

    #[test]
    fn a_hidden_default_image_is_the_still_and_no_frame() {
        let bytes = animation(2, true, |writer| {
            writer.write_image_data(&GREEN.repeat(8)).unwrap();
            writer.set_frame_delay(1, 4).unwrap();
            writer.write_image_data(&RED.repeat(8)).unwrap();
            writer.write_image_data(&BLUE.repeat(8)).unwrap();
        });
        let (ends, _) = ends_of(&bytes);
        assert_eq!(ends, [[rgb(RED); 2], [rgb(BLUE); 2]]);
        let (_folder, path) = file_of("a.png", &bytes);
        let still = open_image(&path).unwrap();
        assert_eq!(still.image.pixel(0, 0), rgb(GREEN));
        assert_eq!(still.notices(&path), ["Only the first of 2 frames is used"]);
    }
}
