//! Animated GIF, WebP and PNG: every frame as the whole canvas shows it.

use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use image::codecs::gif::GifDecoder;
use image::codecs::webp::WebPDecoder;
use image::{
    AnimationDecoder as _, Frames, GrayImage, ImageDecoder, ImageResult, Limits, Rgba, RgbaImage,
};

use super::{ClipInfo, FrameSink, VideoFacts, apng};
use crate::formats::{ByteSource, webp};
use crate::media::colour::ColourConversion;
use crate::media::kind::{FileFormat, SniffedFile};
use crate::media::open::{
    DecodeFailure, MAX_PIXELS, PngReader, check_size, drop_alpha, other, picture_from_rgb,
};
use crate::media::{AlphaChannel, FrameStarts, MediaError, OpenedImage, open_image};

/// Three quarters of an hour: frames that do not change take only a few bytes each, and are counted one by one.
const MAX_FRAMES: usize = 1 << 16;

/// Duration of a frame without one, in milliseconds: as in browsers.
const DEFAULT_MILLIS: u64 = 100;

pub(super) struct AnimationSource {
    path: PathBuf,
    kind: FileFormat,
}

type Input = BufReader<File>;

impl AnimationSource {
    pub fn open(path: &Path, opened: SniffedFile) -> Result<(Self, VideoFacts), MediaError> {
        let SniffedFile { file, len, kind } = opened;
        let scanned = match kind {
            FileFormat::Gif => scan_gif(BufReader::new(file)),
            FileFormat::Png => scan_png(file, len),
            _ => scan_webp(&file, len),
        };
        let (info, starts) = scanned.map_err(|failure| failure.into_error(kind.name(), path))?;
        let facts = VideoFacts {
            info,
            starts,
            notices: Vec::new(),
            conversions: Vec::new(),
        };
        let path = path.to_path_buf();
        Ok((Self { path, kind }, facts))
    }

    /// Returns true if the first frame has transparent parts; later frames leave out what does not change.
    pub fn has_alpha(&self) -> bool {
        open_image(&self.path).is_ok_and(|image| image.alpha.is_some())
    }

    pub fn read(&self, sink: &mut FrameSink<'_>) -> Result<(), MediaError> {
        let failed = |failure: DecodeFailure| failure.into_error(self.kind.name(), &self.path);
        let conversion = self.conversion();
        let mut show = |canvas: RgbaImage| {
            let (width, height) = canvas.dimensions();
            let alpha = canvas.pixels().map(|pixel| pixel[3]).collect();
            let alpha = GrayImage::from_raw(width, height, alpha).and_then(AlphaChannel::new);
            let mut rgb = drop_alpha(canvas.into_raw(), 4);
            if let Some(conversion) = &conversion {
                let converted = conversion.convert_rgb(&mut rgb);
                converted.map_err(|why| failed(DecodeFailure::Damaged(why)))?;
            }
            let picture = picture_from_rgb(width, height, rgb).map_err(failed)?;
            sink(OpenedImage {
                alpha,
                ..picture.into()
            })
        };
        let file = File::open(&self.path)
            .map_err(|err| MediaError::from_io("read the clip", err, &self.path))?;
        if self.kind == FileFormat::Png {
            return apng::read(file, &mut show, &self.path);
        }
        let frames = frames(BufReader::new(file), self.kind);
        for frame in frames.map_err(|err| failed(err.into()))? {
            show(frame.map_err(|err| failed(err.into()))?.into_buffer())?;
        }
        Ok(())
    }

    /// Conversion of the declared colours to sRGB; what cannot be converted stays as it is, which the first frame as an
    /// image reports.
    fn conversion(&self) -> Option<ColourConversion> {
        let file = File::open(&self.path).ok()?;
        let len = file.metadata().ok()?.len();
        let file = BufReader::new(file);
        let colours = match self.kind {
            FileFormat::Png => PngReader::open(file, len).ok()?.colours(),
            FileFormat::WebP => other::colours_of(&mut WebPDecoder::new(file).ok()?),
            _ => return None,
        };
        colours.rgb_conversion().ok()?
    }
}

fn frames(file: Input, kind: FileFormat) -> ImageResult<Frames<'static>> {
    if kind == FileFormat::Gif {
        let mut decoder = GifDecoder::new(file)?;
        decoder.set_limits(limits_of(&decoder))?;
        return Ok(decoder.into_frames());
    }
    let mut decoder = WebPDecoder::new(file)?;
    decoder.set_limits(limits_of(&decoder))?;
    if decoder.has_animation() {
        // Frames that clear their area leave it transparent, as libwebp does.
        decoder.set_background_color(Rgba([0; 4]))?;
        return Ok(decoder.into_frames());
    }
    let picture = image::DynamicImage::from_decoder(decoder)?.into_rgba8();
    let frame = Ok(image::Frame::new(picture));
    Ok(Frames::new(Box::new(std::iter::once(frame))))
}

fn limits_of(decoder: &impl ImageDecoder) -> Limits {
    let (width, height) = decoder.dimensions();
    other::limits(width, height)
}

fn scan_gif(file: Input) -> Result<(ClipInfo, Option<FrameStarts>), DecodeFailure> {
    let mut options = gif::DecodeOptions::new();
    options.skip_frame_decoding(true);
    if let Some(limit) = NonZeroU64::new(MAX_PIXELS) {
        options.set_memory_limit(gif::MemoryLimit::Bytes(limit));
    }
    let mut decoder = options.read_info(file)?;
    let (width, height) = (decoder.width().into(), decoder.height().into());
    check_size(width, height)?;
    let mut times = AnimationTimes::default();
    while let Some(frame) = decoder.next_frame_info()? {
        times.add(u64::from(frame.delay) * 10)?;
    }
    times.info(width, height, 10)
}

fn scan_png(file: File, len: u64) -> Result<(ClipInfo, Option<FrameStarts>), DecodeFailure> {
    let apng::ApngScan {
        width,
        height,
        delays,
    } = apng::scan(BufReader::new(file), len, MAX_FRAMES)?;
    let mut times = AnimationTimes::default();
    delays.into_iter().try_for_each(|delay| times.add(delay))?;
    times.info(width, height, 1)
}

/// Walks over the chunks: `VP8X` has the canvas, each `ANMF` a frame's time.
fn scan_webp(mut file: &File, len: u64) -> Result<(ClipInfo, Option<FrameStarts>), DecodeFailure> {
    let mut source = ByteSource::new(file, len);
    if webp::end(&mut source)? > len {
        return Err(DecodeFailure::Truncated);
    }
    webp::check_sizes(&mut source)?;
    let mut times = AnimationTimes::default();
    let mut canvas = None;
    let mut chunks = webp::chunks(&mut source)?;
    while let Some(chunk) = chunks.next_part()? {
        match &chunk.name {
            b"VP8X" => {
                let [_, _, _, _, w0, w1, w2, h0, h1, h2] = chunks.source.array_at(chunk.start)?;
                canvas = Some((le24([w0, w1, w2]) + 1, le24([h0, h1, h2]) + 1));
            }
            b"ANMF" => {
                let [.., m0, m1, m2, _] = chunks.source.array_at::<16>(chunk.start)?;
                times.add(u64::from(le24([m0, m1, m2])))?;
            }
            _ => {}
        }
    }
    if times.ends.is_empty() {
        // A picture that does not move.
        file.rewind().map_err(DecodeFailure::Io)?;
        canvas = Some(WebPDecoder::new(BufReader::new(file))?.dimensions());
        times.add(0)?;
    }
    let (width, height) =
        canvas.ok_or_else(|| DecodeFailure::Damaged("it has no canvas".to_owned()))?;
    check_size(width, height)?;
    times.info(width, height, 1)
}

fn le24([a, b, c]: [u8; 3]) -> u32 {
    u32::from_le_bytes([a, b, c, 0])
}

#[derive(Default)]
struct AnimationTimes {
    /// End of each frame, in milliseconds.
    ends: Vec<i64>,
}

impl AnimationTimes {
    fn add(&mut self, millis: u64) -> Result<(), DecodeFailure> {
        if self.ends.len() == MAX_FRAMES {
            let reason = format!("it has more than {MAX_FRAMES} frames");
            return Err(DecodeFailure::Unsupported(reason));
        }
        let millis = if millis == 0 { DEFAULT_MILLIS } else { millis };
        let begin = self.ends.last().copied().unwrap_or(0);
        self.ends.push(begin + millis.cast_signed());
        Ok(())
    }

    fn info(
        self,
        width: u32,
        height: u32,
        unit_millis: i64,
    ) -> Result<(ClipInfo, Option<FrameStarts>), DecodeFailure> {
        let num_frames = self.ends.len() as u32;
        let units: Vec<i64> = std::iter::once(0)
            .chain(self.ends.into_iter().map(|end| end / unit_millis))
            .collect();
        let Some(total) = units.last().filter(|_| num_frames > 0) else {
            return Err(DecodeFailure::Damaged("it has no frame".to_owned()));
        };
        let units_a_second = 1000.0 / unit_millis as f64;
        let rate = fps_from_times(num_frames, total.unsigned_abs(), units_a_second);
        let (fps, starts) = FrameStarts::find(&units, units_a_second, &[rate]);
        let info = ClipInfo {
            width,
            height,
            fps,
            num_frames,
            is_uneven: starts.is_some(),
        };
        Ok((info, starts))
    }
}

/// The rate of `num_frames` that last `total` units: a whole number where the units, which round the times, allow one.
fn fps_from_times(num_frames: u32, total: u64, units_a_second: f64) -> f64 {
    let frames = f64::from(num_frames);
    let total = total as f64;
    let (slowest, fastest) = (
        frames * units_a_second / (total + 0.5),
        frames * units_a_second / (total - 0.5).max(0.5),
    );
    let exact = frames * units_a_second / total.max(1.0);
    let whole = exact.round();
    if (slowest..=fastest).contains(&whole) {
        whole
    } else {
        exact
    }
}
