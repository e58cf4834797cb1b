//! Animated GIF and WebP: every frame as it stands on the canvas.
//!
//! Transparency is dropped, as with pictures.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use image::codecs::gif::GifDecoder;
use image::codecs::webp::WebPDecoder;
use image::{AnimationDecoder as _, Frames, ImageDecoder as _, ImageResult, Limits};

use super::{ClipInfo, Sink, fps_from_times};
use crate::media::open::{Failure, MAX_PIXELS, check_size, drop_alpha, other, picture_from_rgb};
use crate::media::{MediaError, Picture};

/// What a decoder may hold at once.
const MAX_DECODER_BYTES: u64 = 2_000_000_000;

/// A frame without a time of its own is shown so long, in milliseconds: what browsers do.
const DEFAULT_MILLIS: u64 = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Gif,
    WebP,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Gif => "GIF",
            Self::WebP => "WebP",
        }
    }
}

pub(super) struct Animation {
    path: PathBuf,
    format: Format,
    pub info: ClipInfo,
}

type Input = BufReader<File>;

impl Animation {
    pub fn open(path: &Path, file: File, format: Format) -> Result<Self, MediaError> {
        let file = BufReader::new(file);
        let info = match format {
            Format::Gif => scan_gif(file),
            Format::WebP => scan_webp(file),
        };
        let path = path.to_path_buf();
        match info {
            Ok(info) => Ok(Self { path, format, info }),
            Err(failure) => Err(failure.into_error(format.name(), &path)),
        }
    }

    pub fn read(&self, sink: &mut Sink<'_>) -> Result<(), MediaError> {
        let failed = |failure: Failure| failure.into_error(self.format.name(), &self.path);
        let file = File::open(&self.path)
            .map_err(|err| MediaError::from_io("read the clip", err, &self.path))?;
        let frames = frames(BufReader::new(file), self.format);
        for frame in frames.map_err(|err| failed(other::failure(err)))? {
            let buffer = frame.map_err(|err| failed(other::failure(err)))?;
            let buffer = buffer.into_buffer();
            let (width, height) = buffer.dimensions();
            let rgb = drop_alpha(buffer.into_raw(), 4);
            let picture: Picture = picture_from_rgb(width, height, rgb).map_err(failed)?;
            sink(picture)?;
        }
        Ok(())
    }
}

fn frames(file: Input, format: Format) -> ImageResult<Frames<'static>> {
    let mut limits = Limits::default();
    limits.max_image_width = None;
    limits.max_image_height = None;
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    match format {
        Format::Gif => {
            let mut decoder = GifDecoder::new(file)?;
            decoder.set_limits(limits)?;
            Ok(decoder.into_frames())
        }
        Format::WebP => {
            let mut decoder = WebPDecoder::new(file)?;
            decoder.set_limits(limits)?;
            if decoder.has_animation() {
                return Ok(decoder.into_frames());
            }
            let picture = image::DynamicImage::from_decoder(decoder)?.into_rgba8();
            let frame = Ok(image::Frame::new(picture));
            Ok(Frames::new(Box::new(std::iter::once(frame))))
        }
    }
}

fn scan_gif(file: Input) -> Result<ClipInfo, Failure> {
    let failed = |err: gif::DecodingError| match err {
        gif::DecodingError::Io(err) => Failure::from_io(&err),
        err => Failure::from_words(&err.to_string()),
    };
    let mut options = gif::DecodeOptions::new();
    options.skip_frame_decoding(true);
    if let Some(limit) = NonZeroU64::new(MAX_PIXELS) {
        options.set_memory_limit(gif::MemoryLimit::Bytes(limit));
    }
    let mut decoder = options.read_info(file).map_err(failed)?;
    let (width, height) = (decoder.width().into(), decoder.height().into());
    check_size(width, height)?;
    let mut times = Times::default();
    while let Some(frame) = decoder.next_frame_info().map_err(failed)? {
        times.add(u64::from(frame.delay) * 10);
    }
    times.info(width, height, 10)
}

/// Walks over the chunks: `VP8X` has the canvas, each `ANMF` a frame's time.
fn scan_webp(mut file: Input) -> Result<ClipInfo, Failure> {
    let end = {
        let [.., a, b, c, d] = read::<8>(&mut file)?;
        u64::from(u32::from_le_bytes([a, b, c, d])) + 8
    };
    let len = file.seek(SeekFrom::End(0)).map_err(Failure::Io)?;
    if end > len {
        return Err(Failure::Truncated);
    }
    let mut times = Times::default();
    let mut canvas = None;
    let mut at = 12;
    while at + 8 <= end {
        file.seek(SeekFrom::Start(at)).map_err(Failure::Io)?;
        let [name @ .., a, b, c, d] = read::<8>(&mut file)?;
        match &name {
            b"VP8X" => {
                let [_, _, _, _, w0, w1, w2, h0, h1, h2] = read::<10>(&mut file)?;
                canvas = Some((le24([w0, w1, w2]) + 1, le24([h0, h1, h2]) + 1));
            }
            b"ANMF" => {
                let [.., m0, m1, m2, _] = read::<16>(&mut file)?;
                times.add(u64::from(le24([m0, m1, m2])));
            }
            _ => {}
        }
        let size = u64::from(u32::from_le_bytes([a, b, c, d]));
        at += 8 + size + size % 2;
    }
    if times.num_frames == 0 {
        // A picture that does not move.
        file.rewind().map_err(Failure::Io)?;
        canvas = Some(still_size(file)?);
        times.add(0);
    }
    let (width, height) = canvas.ok_or_else(|| Failure::Damaged("it has no canvas".to_owned()))?;
    check_size(width, height)?;
    times.info(width, height, 1)
}

fn still_size(file: impl BufRead + Seek) -> Result<(u32, u32), Failure> {
    let decoder = WebPDecoder::new(file).map_err(other::failure)?;
    Ok(decoder.dimensions())
}

fn read<const N: usize>(file: &mut Input) -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    match file.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(err) => Err(Failure::from_io(&err)),
    }
}

fn le24([a, b, c]: [u8; 3]) -> u32 {
    u32::from_le_bytes([a, b, c, 0])
}

#[derive(Default)]
struct Times {
    num_frames: u32,
    millis: u64,
}

impl Times {
    fn add(&mut self, millis: u64) {
        self.num_frames = self.num_frames.saturating_add(1);
        self.millis += if millis == 0 { DEFAULT_MILLIS } else { millis };
    }

    fn info(&self, width: u32, height: u32, unit_millis: u64) -> Result<ClipInfo, Failure> {
        if self.num_frames == 0 {
            return Err(Failure::Damaged("it has no frame".to_owned()));
        }
        let units = self.millis / unit_millis;
        Ok(ClipInfo {
            width,
            height,
            fps: fps_from_times(self.num_frames, units, 1000.0 / unit_millis as f64),
            num_frames: self.num_frames,
        })
    }
}
