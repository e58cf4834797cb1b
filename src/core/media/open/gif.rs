//! GIF: the first frame on its canvas, in the colours of its palette.
//!
//! A transparent pixel keeps the colour of its index, as in Pillow.

use std::io::{Seek as _, SeekFrom};
use std::num::NonZeroU64;

use gif::{ColorOutput, DecodeOptions, MemoryLimit};
use image::RgbaImage;
use image::metadata::Orientation;

use super::{DeclaredColours, DecodeFailure, DecodedImage, Input, check_size, decoder_bytes};

/// A code has three bits at least, and means at most as many pixels as there are codes.
const MAX_PIXELS_A_BYTE: u64 = 3 * 4096;

pub(super) fn decode(mut file: Input) -> Result<DecodedImage, DecodeFailure> {
    let len = file.seek(SeekFrom::End(0)).map_err(DecodeFailure::Io)?;
    file.rewind().map_err(DecodeFailure::Io)?;
    let mut canvas = DecodeOptions::new().read_info(&mut file)?;
    let (width, height) = (canvas.width(), canvas.height());
    check_size(width.into(), height.into())?;
    // Before there is room made for all of it.
    if let Some(frame) = canvas.next_frame_info()?
        && u64::from(frame.width) * u64::from(frame.height) > len * MAX_PIXELS_A_BYTE
    {
        return Err(DecodeFailure::Truncated);
    }
    drop(canvas);
    file.rewind().map_err(DecodeFailure::Io)?;
    let mut options = DecodeOptions::new();
    options.set_color_output(ColorOutput::Indexed);
    // A frame may be larger than its canvas, and is cut to it.
    if let Some(limit) = NonZeroU64::new(decoder_bytes(width.into(), height.into())) {
        options.set_memory_limit(MemoryLimit::Bytes(limit));
    }
    let mut decoder = options.read_info(file)?;
    let global = decoder.global_palette().map(<[u8]>::to_vec);
    let background = decoder.bg_color();
    let frame = decoder
        .read_next_frame()?
        .ok_or_else(|| DecodeFailure::Damaged("it has no frame".to_owned()))?;
    let palette = frame
        .palette
        .as_deref()
        .or(global.as_deref())
        .ok_or_else(|| DecodeFailure::Damaged("it has no palette".to_owned()))?;
    let colour = |index: usize| -> [u8; 3] {
        palette
            .get(index * 3..index * 3 + 3)
            .and_then(|rgb| rgb.try_into().ok())
            .unwrap_or([0; 3])
    };

    let (canvas_width, canvas_height) = (usize::from(width), usize::from(height));
    let transparent = frame.transparent.map(usize::from);
    let outside = transparent.or(background).unwrap_or(0);
    let pixel_of = |index: usize| {
        let [r, g, b] = colour(index);
        let alpha = if transparent == Some(index) {
            0
        } else {
            u8::MAX
        };
        [r, g, b, alpha]
    };
    let mut rgba = pixel_of(outside).repeat(canvas_width * canvas_height);
    let width = usize::from(frame.width);
    let left = usize::from(frame.left);
    let visible = width.min(canvas_width.saturating_sub(left));
    let rows = frame
        .buffer
        .chunks_exact(width.max(1))
        .take(usize::from(frame.height));
    let canvas = rgba
        .chunks_exact_mut(canvas_width * 4)
        .skip(usize::from(frame.top));
    for (target, row) in canvas.zip(rows) {
        let pixels = target.chunks_exact_mut(4).skip(left);
        for (pixel, index) in pixels.zip(&row[..visible]) {
            pixel.copy_from_slice(&pixel_of(usize::from(*index)));
        }
    }
    let image = RgbaImage::from_raw(canvas_width as u32, canvas_height as u32, rgba)
        .ok_or_else(DecodeFailure::too_much_memory)?;
    Ok(DecodedImage {
        image: image.into(),
        colours: DeclaredColours::Untagged,
        orientation: Orientation::NoTransforms,
        unused: Vec::new(),
    })
}

impl From<gif::DecodingError> for DecodeFailure {
    fn from(err: gif::DecodingError) -> Self {
        match err {
            gif::DecodingError::Io(err) => err.into(),
            err => Self::from_words(&err.to_string()),
        }
    }
}
