//! WebM of VP8 keyframes, which is what earlier versions of this program wrote: each frame is a lossy WebP picture.
//!
//! Frames that depend on others and other codecs are not decoded here.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use image::ImageFormat;

use super::{ClipInfo, Sink, Unread};
use crate::formats::ByteSource;
use crate::formats::webm::{elements, id, unsigned};
use crate::media::open::{Decoded, Failure, check_size, other};
use crate::media::{FrameStarts, MediaError, Picture};

const VIDEO_TRACK: u64 = 1;
/// No codec has a longer name.
const MAX_CODEC_BYTES: u64 = 64;

pub(super) struct WebM {
    path: PathBuf,
    source: ByteSource<File>,
    /// Where each frame lies, and its length.
    frames: Vec<(u64, u64)>,
    pub info: ClipInfo,
    pub starts: Option<FrameStarts>,
}

#[derive(Default)]
struct Scan {
    /// Number, type, codec and nanoseconds a frame of the track that is being read.
    number: u64,
    kind: u64,
    codec: Vec<u8>,
    nanos: u64,
    has_alpha: bool,
    /// Coded width and height, and those on a screen.
    pixels: (u64, u64),
    display: (u64, u64),
    /// True if the first video has transparency or stretched pixels.
    needs_ffmpeg: bool,
    /// The same of the first video track.
    video: Option<(u64, Vec<u8>, u64)>,
    /// Nanoseconds of one unit of time.
    scale: u64,
    cluster_time: u64,
    frames: Vec<(u64, u64)>,
    times: Vec<i64>,
}

impl WebM {
    pub fn open(path: &Path, file: File, len: u64) -> Result<Self, Unread> {
        let failed = |failure: Failure| Unread::Failed(failure.into_error("WebM", path));
        let mut source = ByteSource::new(file, len);
        let scan = scan(&mut source).map_err(|err| failed(err.into()))?;
        let Some((_, codec, nanos)) = &scan.video else {
            return Err(failed(Failure::NoVideo));
        };
        if codec.as_slice() != b"V_VP8" {
            return Err(Unread::Codec(codec_name(codec)));
        }
        if scan.needs_ffmpeg {
            return Err(Unread::Codec(
                "VP8 with transparency or stretched pixels".to_owned(),
            ));
        }
        let Some(first) = scan.frames.first().copied() else {
            return Err(Unread::Failed(MediaError::no_frames(path)));
        };
        for (at, _) in &scan.frames {
            let [byte] = source
                .array_at::<1>(*at)
                .map_err(|err| failed(err.into()))?;
            // The lowest bit of a frame says that it depends on others.
            if byte & 1 == 1 {
                return Err(Unread::Codec(
                    "VP8 with frames that depend on others".to_owned(),
                ));
            }
        }
        let (width, height) = frame_size(&mut source, first).map_err(failed)?;
        check_size(width, height).map_err(failed)?;
        let rate = fps(*nanos, &scan);
        let units_a_second = 1e9 / scan.scale.max(1) as f64;
        let end = scan
            .times
            .last()
            .map(|last| last.saturating_add((units_a_second / rate) as i64));
        let ticks: Vec<i64> = scan.times.iter().copied().chain(end).collect();
        let (fps, starts) = FrameStarts::find(&ticks, units_a_second, &[rate]);
        let info = ClipInfo {
            width,
            height,
            fps,
            num_frames: scan.frames.len() as u32,
        };
        Ok(Self {
            path: path.to_path_buf(),
            source,
            frames: scan.frames,
            info,
            starts,
        })
    }

    pub fn read(&mut self, first: usize, sink: &mut Sink<'_>) -> Result<(), MediaError> {
        for &(at, size) in self.frames.get(first..).unwrap_or_default() {
            let frame = self.source.read_at(at, size);
            let size = (self.info.width, self.info.height);
            let decoded = frame
                .map_err(Failure::from)
                .and_then(|frame| decoded(&frame, size));
            sink(decoded.map_err(|failure| failure.into_error("WebM", &self.path))?)?;
        }
        Ok(())
    }
}

/// Goes through all elements; what holds others is entered.
fn scan<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<Scan> {
    let mut scan = Scan {
        scale: 1_000_000,
        ..Scan::default()
    };
    let mut elements = elements(source);
    while let Some(element) = elements.next_part()? {
        let mut number = || {
            elements
                .beginning(&element, 8)
                .map(|bytes| unsigned(&bytes))
        };
        match element.name {
            id::TRACK_NUMBER => scan.number = number()?,
            id::TRACK_TYPE => scan.kind = number()?,
            id::DEFAULT_DURATION => scan.nanos = number()?,
            id::TIMESTAMP_SCALE => scan.scale = number()?,
            id::TIMESTAMP => scan.cluster_time = number()?,
            id::CODEC_ID => scan.codec = elements.beginning(&element, MAX_CODEC_BYTES)?,
            id::ALPHA_MODE => scan.has_alpha = number()? != 0,
            id::PIXEL_WIDTH => scan.pixels.0 = number()?,
            id::PIXEL_HEIGHT => scan.pixels.1 = number()?,
            id::DISPLAY_WIDTH => scan.display.0 = number()?,
            id::DISPLAY_HEIGHT => scan.display.1 = number()?,
            id::TRACK_ENTRY => {
                scan.keep_track();
                elements.enter(&element);
            }
            id::VIDEO | id::SEGMENT | id::INFO | id::TRACKS | id::CLUSTER | id::BLOCK_GROUP => {
                elements.enter(&element);
            }
            id::SIMPLE_BLOCK | id::BLOCK => {
                scan.keep_track();
                scan.add_block(elements.source, element.start, element.end)?;
            }
            _ => {}
        }
    }
    scan.keep_track();
    Ok(scan)
}

impl Scan {
    /// Takes the track that has been read, when it is the first of pictures.
    fn keep_track(&mut self) {
        let codec = std::mem::take(&mut self.codec);
        if self.kind == VIDEO_TRACK && self.video.is_none() {
            self.video = Some((self.number, codec, self.nanos));
            let [across, down] = [
                (self.display.0, self.pixels.1),
                (self.display.1, self.pixels.0),
            ]
            .map(|(display, pixels)| u128::from(display) * u128::from(pixels));
            self.needs_ffmpeg = self.has_alpha || across > 0 && down > 0 && across != down;
        }
        (self.kind, self.nanos) = (0, 0);
        (self.has_alpha, self.pixels, self.display) = (false, (0, 0), (0, 0));
    }

    fn add_block<R: Read + Seek>(
        &mut self,
        source: &mut ByteSource<R>,
        start: u64,
        end: u64,
    ) -> io::Result<()> {
        // Track (of one byte below 127 tracks), time since the cluster's, flags.
        let [track, a, b, _] = source.array_at::<4>(start)?;
        let number = u64::from(track & 0x7f);
        if end > start + 4 && self.video.as_ref().is_some_and(|video| video.0 == number) {
            self.frames.push((start + 4, end - start - 4));
            let since = i64::from(i16::from_be_bytes([a, b]));
            let time = i64::try_from(self.cluster_time).unwrap_or(i64::MAX);
            self.times.push(time.saturating_add(since));
        }
        Ok(())
    }
}

/// A frame that must have the clip's size: before there is room made for another that it may say.
fn decoded(frame: &[u8], size: (u32, u32)) -> Result<Picture, Failure> {
    let own = frame.first_chunk().and_then(|head| size_of(*head));
    if own != Some(size) {
        return Err(Failure::Damaged(
            "one of its frames has another size than the first".to_owned(),
        ));
    }
    other::decode(webp_from_vp8(frame), ImageFormat::WebP).and_then(Decoded::into_picture)
}

fn frame_size<R: Read + Seek>(
    source: &mut ByteSource<R>,
    (at, size): (u64, u64),
) -> Result<(u32, u32), Failure> {
    let own = size_of(source.array_at(at)?).filter(|_| size >= 10);
    own.ok_or_else(|| Failure::Damaged("its first frame is none of VP8".to_owned()))
}

/// A keyframe says its size behind a start code.
fn size_of(head: [u8; 10]) -> Option<(u32, u32)> {
    let [_, _, _, code @ .., w0, w1, h0, h1] = head;
    let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    (code == [0x9d, 0x01, 0x2a]).then(|| (side(w0, w1), side(h0, h1)))
}

fn fps(nanos: u64, scan: &Scan) -> f64 {
    let rate = match &scan.times[..] {
        _ if nanos > 0 => 1e9 / nanos as f64,
        [first, .., last] if last > first => {
            let nanos = last.saturating_sub(*first) as f64 * scan.scale as f64;
            (scan.times.len() - 1) as f64 * 1e9 / nanos
        }
        _ => 24.0,
    };
    // The nanoseconds of a whole rate were rounded.
    let whole = rate.round();
    if (rate - whole).abs() < whole * 1e-5 {
        whole
    } else {
        rate
    }
}

fn codec_name(codec: &[u8]) -> String {
    match codec {
        b"V_VP9" => "VP9".to_owned(),
        b"V_AV1" => "AV1".to_owned(),
        b"V_MPEGH/ISO/HEVC" => "HEVC (H.265) in Matroska".to_owned(),
        b"V_MPEG4/ISO/AVC" => "H.264 in Matroska".to_owned(),
        other => format!("the codec {:?}", String::from_utf8_lossy(other)),
    }
}

/// The WebP file that a VP8 keyframe would be.
fn webp_from_vp8(frame: &[u8]) -> Cursor<Vec<u8>> {
    let padded = frame.len() + frame.len() % 2;
    let mut file = Vec::with_capacity(padded + 20);
    file.extend(b"RIFF");
    file.extend((padded as u32 + 12).to_le_bytes());
    file.extend(b"WEBPVP8 ");
    file.extend((frame.len() as u32).to_le_bytes());
    file.extend(frame);
    file.resize(padded + 20, 0);
    Cursor::new(file)
}
