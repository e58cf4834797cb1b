//! Animated GIF, WebP and PNG: every frame as the whole canvas shows it.

use std::fs::File;
use std::io::{BufReader, Seek as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gif::{DisposalMethod, Repeat};
use image::codecs::gif::GifDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{
    AnimationDecoder as _, DynamicImage, Frames, GrayImage, ImageDecoder, ImageResult, Limits,
    Rgba, RgbaImage,
};

use super::{FrameSink, MAX_VIDEO_PIXELS, VideoFacts, VideoInfo, apng};
use crate::formats::kind::FileFormat;
use crate::formats::{ByteSource, webp};
use crate::media::colour::ColourConversion;
use crate::media::open::{
    DecodeFailure, MAX_PIXELS, PngReader, check_size, drop_alpha, image_from_rgb, other, png,
    upright_size,
};
use crate::media::opened::SniffedFile;
use crate::media::{AlphaChannel, FrameStarts, MediaError, OpenedImage};

/// Three quarters of an hour: frames that do not change take only a few bytes each, and are counted one by one.
const MAX_FRAMES: usize = 1 << 16;

/// Duration of a frame without one, in milliseconds: as in browsers.
const DEFAULT_MILLIS: u64 = 100;

pub(super) struct AnimationSource {
    path: PathBuf,
    kind: FileFormat,
    /// Conversion of the declared colours to sRGB; what cannot be converted stays as it is, which the first frame as an
    /// image reports.
    conversion: Option<ColourConversion>,
    orientation: Orientation,
    may_have_alpha: bool,
    has_alpha: OnceLock<bool>,
    /// Times that it plays; 0 for endless.
    pub num_plays: u16,
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
        let scan = scanned.map_err(|failure| failure.into_error(kind.name(), path))?;
        let (conversion, orientation) =
            declared(path, kind).unwrap_or((None, Orientation::NoTransforms));
        let unit_millis = if kind == FileFormat::Gif { 10 } else { 1 };
        let timed = scan.timed(unit_millis, orientation);
        let (info, starts) = timed.map_err(|failure| failure.into_error(kind.name(), path))?;
        let facts = VideoFacts {
            info,
            starts,
            notices: Vec::new(),
            conversions: Vec::new(),
        };
        let animation = Self {
            path: path.to_path_buf(),
            kind,
            conversion,
            orientation,
            may_have_alpha: scan.may_have_alpha,
            has_alpha: OnceLock::new(),
            num_plays: scan.num_plays,
        };
        Ok((animation, facts))
    }

    /// Returns true if any frame has transparent parts. Very long animations are taken for such if their headers allow it.
    pub fn has_alpha(&self) -> bool {
        let find = || {
            let (mut is_found, mut pixels) = (false, 0);
            self.read(&mut |frame| {
                pixels += u64::from(frame.image.width) * u64::from(frame.image.height);
                is_found = frame.alpha.is_some() || pixels > MAX_VIDEO_PIXELS;
                // Only ends the reading.
                let found = is_found.then(|| MediaError::no_frames(&self.path));
                found.map_or(Ok(()), Err)
            })
            .ok();
            is_found
        };
        self.may_have_alpha && *self.has_alpha.get_or_init(find)
    }

    pub fn read(&self, sink: &mut FrameSink<'_>) -> Result<(), MediaError> {
        let failed = |failure: DecodeFailure| failure.into_error(self.kind.name(), &self.path);
        let mut show = |canvas: RgbaImage| {
            let mut canvas = DynamicImage::from(canvas);
            canvas.apply_orientation(self.orientation);
            let canvas = canvas.into_rgba8();
            let (width, height) = canvas.dimensions();
            let alpha = canvas.pixels().map(|pixel| pixel[3]).collect();
            let alpha = GrayImage::from_raw(width, height, alpha).and_then(AlphaChannel::new);
            let mut rgb = drop_alpha(canvas.into_raw(), 4);
            if let Some(conversion) = &self.conversion {
                let converted = conversion.convert_rgb(&mut rgb);
                converted.map_err(|why| failed(DecodeFailure::Damaged(why)))?;
            }
            let image = image_from_rgb(width, height, rgb).map_err(failed)?;
            sink(OpenedImage {
                alpha,
                ..image.into()
            })
        };
        let file = File::open(&self.path)
            .map_err(|err| MediaError::from_io("read the video", &err, &self.path))?;
        if self.kind == FileFormat::Png {
            return apng::read(file, &mut show, &self.path);
        }
        let frames = frames(BufReader::new(file), self.kind);
        for frame in frames.map_err(|err| failed(err.into()))? {
            show(frame.map_err(|err| failed(err.into()))?.into_buffer())?;
        }
        Ok(())
    }
}

/// Conversion of the declared colours, and the rotation, from the headers of a file.
fn declared(path: &Path, kind: FileFormat) -> Option<(Option<ColourConversion>, Orientation)> {
    let file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    let mut file = BufReader::new(file);
    let (colours, orientation) = match kind {
        FileFormat::Png => {
            let orientation = png::orientation(&mut file, len);
            (PngReader::open(file, len).ok()?.colours(), orientation)
        }
        FileFormat::WebP => {
            let mut decoder = WebPDecoder::new(file).ok()?;
            let orientation = decoder.orientation().ok()?;
            (other::colours_of(&mut decoder), orientation)
        }
        _ => return None,
    };
    Some((colours.rgb_conversion().ok().flatten(), orientation))
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
    let image = DynamicImage::from_decoder(decoder)?.into_rgba8();
    let frame = Ok(image::Frame::new(image));
    Ok(Frames::new(Box::new(std::iter::once(frame))))
}

fn limits_of(decoder: &impl ImageDecoder) -> Limits {
    let (width, height) = decoder.dimensions();
    other::limits(width, height)
}

fn scan_gif(file: Input) -> Result<AnimationScan, DecodeFailure> {
    let mut options = gif::DecodeOptions::new();
    options.skip_frame_decoding(true);
    if let Some(limit) = NonZeroU64::new(MAX_PIXELS) {
        options.set_memory_limit(gif::MemoryLimit::Bytes(limit));
    }
    let mut decoder = options.read_info(file)?;
    let canvas = (decoder.width(), decoder.height());
    let mut scan = AnimationScan::new(canvas.0.into(), canvas.1.into())?;
    while let Some(frame) = decoder.next_frame_info()? {
        let covers = (frame.left, frame.top) == (0, 0)
            && frame.width >= canvas.0
            && frame.height >= canvas.1;
        let is_whole = covers && frame.transparent.is_none();
        let clears = matches!(
            frame.dispose,
            DisposalMethod::Background | DisposalMethod::Previous
        );
        scan.may_have_alpha |= clears || (scan.ends.is_empty() && !is_whole);
        scan.add(u64::from(frame.delay) * 10)?;
    }
    scan.num_plays = match decoder.repeat() {
        Repeat::Infinite => 0,
        Repeat::Finite(repeats) => repeats.saturating_add(1),
    };
    Ok(scan)
}

fn scan_png(file: File, len: u64) -> Result<AnimationScan, DecodeFailure> {
    let found = apng::scan(BufReader::new(file), len, MAX_FRAMES)?;
    let mut scan = AnimationScan::new(found.size.0, found.size.1)?;
    found
        .delays
        .into_iter()
        .try_for_each(|delay| scan.add(delay))?;
    Ok(AnimationScan {
        num_plays: u16::try_from(found.num_plays).unwrap_or(0),
        may_have_alpha: found.may_have_alpha,
        ..scan
    })
}

/// Walks over the chunks: `VP8X` has the canvas, `ANIM` the number of plays, each `ANMF` a frame's time.
fn scan_webp(mut file: &File, len: u64) -> Result<AnimationScan, DecodeFailure> {
    const ALPHA: u8 = 0x10;
    let mut source = ByteSource::new(file, len);
    if webp::end(&mut source)? > len {
        return Err(DecodeFailure::Truncated);
    }
    webp::check_sizes(&mut source)?;
    let mut scan = AnimationScan::default();
    let mut chunks = webp::chunks(&mut source)?;
    while let Some(chunk) = chunks.next_part()? {
        match &chunk.name {
            b"VP8X" => {
                let [flags, _, _, _, w0, w1, w2, h0, h1, h2] =
                    chunks.source.array_at(chunk.start)?;
                scan.size = (le24([w0, w1, w2]) + 1, le24([h0, h1, h2]) + 1);
                scan.may_have_alpha = flags & ALPHA > 0;
            }
            b"ANIM" => {
                let [_, _, _, _, plays @ ..] = chunks.source.array_at::<6>(chunk.start)?;
                scan.num_plays = u16::from_le_bytes(plays);
            }
            b"ANMF" => {
                let [.., m0, m1, m2, _] = chunks.source.array_at::<16>(chunk.start)?;
                scan.add(u64::from(le24([m0, m1, m2])))?;
            }
            _ => {}
        }
    }
    if scan.ends.is_empty() {
        // An image that does not move.
        file.rewind().map_err(DecodeFailure::Io)?;
        scan.size = WebPDecoder::new(BufReader::new(file))?.dimensions();
        scan.may_have_alpha = true;
        scan.add(0)?;
    }
    if scan.size == (0, 0) {
        return Err(DecodeFailure::Damaged("it has no canvas".to_owned()));
    }
    check_size(scan.size.0, scan.size.1)?;
    Ok(scan)
}

fn le24([a, b, c]: [u8; 3]) -> u32 {
    u32::from_le_bytes([a, b, c, 0])
}

/// Facts of an animation that its headers give.
#[derive(Default)]
struct AnimationScan {
    /// Width and height of the canvas, before it is turned.
    size: (u32, u32),
    /// End of each frame, in milliseconds.
    ends: Vec<i64>,
    /// False if no frame can have transparent parts.
    may_have_alpha: bool,
    /// Times that it plays; 0 for endless.
    num_plays: u16,
}

impl AnimationScan {
    fn new(width: u32, height: u32) -> Result<Self, DecodeFailure> {
        check_size(width, height)?;
        Ok(Self {
            size: (width, height),
            ..Self::default()
        })
    }

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

    /// Size, rate and length, and the starts of uneven frames.
    fn timed(
        &self,
        unit_millis: i64,
        orientation: Orientation,
    ) -> Result<(VideoInfo, Option<FrameStarts>), DecodeFailure> {
        let num_frames = self.ends.len() as u32;
        let units: Vec<i64> = std::iter::once(0)
            .chain(self.ends.iter().map(|end| end / unit_millis))
            .collect();
        let Some(total) = units.last().filter(|_| num_frames > 0) else {
            return Err(DecodeFailure::Damaged("it has no frame".to_owned()));
        };
        let units_a_second = 1000.0 / unit_millis as f64;
        let rate = fps_from_times(num_frames, total.unsigned_abs(), units_a_second);
        let (fps, starts) = FrameStarts::find(&units, units_a_second, &[rate]);
        let (width, height) = upright_size(self.size, orientation);
        let info = VideoInfo {
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
