//! MP4 and MOV with H.264, whole or fragmented.
//!
//! The tracks are read here because the reader crates panic on hostile ones and know neither colours nor edits. Only
//! the first video track is looked at. Edit lists, rotation, pixel aspect and colours are honoured.

mod avc;
mod colour;
#[cfg_attr(not(feature = "h264"), path = "undecoded.rs")]
mod decode;
mod edits;
mod fragments;
mod seek;
mod sound;
mod sps;
mod track;

use std::fs::File;
use std::path::{Path, PathBuf};

use avc::AvcConfig;
use colour::VideoColor;
use decode::DecodedFrames;
use fragments::FragmentReader;
pub(in crate::media) use sound::sound;
use sps::SequenceParameters;
pub(super) use track::MAX_SAMPLES;
use track::{TrackSample, VideoTrack, of_kind};

use super::display::{PixelAspect, VideoColours, conversions, make_square, square_size};
use super::{FrameSink, UnsupportedVideo, VideoFacts, VideoInfo, track_notices};
use crate::formats::ByteSource;
use crate::formats::mp4::file_boxes;
use crate::media::colour::{ColourConversion, PQ, declared_peak};
use crate::media::open::{DecodeFailure, check_size, upright, upright_size};
use crate::media::times::FrameTiming;
use crate::media::{FrameStarts, HAS_H264, MediaError, RgbPixels};

/// The decoder's own limit: 36 864 blocks of 16 × 16 pixels.
const MAX_FRAME_PIXELS: u64 = 36_864 * 256;
/// The rate of a video that tells no times.
const DEFAULT_FPS: f64 = 24.0;

pub(super) struct Mp4Source {
    path: PathBuf,
    source: ByteSource<File>,
    track: VideoTrack,
    config: AvcConfig,
    colour: VideoColor,
    conversion: Option<ColourConversion>,
    pixel_aspect: PixelAspect,
    /// The times of all samples, in the order in which they are shown.
    times: Vec<i64>,
}

impl Mp4Source {
    pub fn open(path: &Path, file: File, len: u64) -> Result<(Self, VideoFacts), UnsupportedVideo> {
        let failed =
            |failure: DecodeFailure| UnsupportedVideo::Failed(failure.into_error("MP4", path));
        let mut source = ByteSource::new(file, len);
        let (track, mut notices) = read_track(&mut source).map_err(failed)?;
        if !matches!(&track.codec, b"avc1" | b"avc3") {
            return Err(UnsupportedVideo::Codec(codec_name(track.codec)));
        }
        if !HAS_H264 {
            return Err(UnsupportedVideo::Codec("H.264".to_owned()));
        }
        let config = AvcConfig::read(&track.avc_config)
            .ok_or_else(|| failed(DecodeFailure::Damaged("its H.264 has no header".to_owned())))?;
        let sps = sequence(&mut source, &track, &config).map_err(failed)?;
        check_decodable(&sps)?;
        check_size(sps.width, sps.height).map_err(failed)?;
        let of_stream = sps.colour.unwrap_or(VideoColor::UNKNOWN);
        let colour = of_stream.or(track.colour.unwrap_or(VideoColor::UNKNOWN));
        let mut peak = track.peak;
        if colour.transfer == PQ && peak.is_none() {
            peak = peak_in_sei(&mut source, &track, &config).map_err(failed)?;
        }
        let colours = VideoColours::new(colour.primaries, colour.transfer, peak);
        notices.extend(colour.matrix_notice().into_iter().chain(colours.notice));
        let pixel_aspect = track.pixel_aspect.or(sps.pixel_aspect);
        let (width, height) = square_size((sps.width, sps.height), pixel_aspect);
        check_size(width, height).map_err(failed)?;
        let mut times: Vec<i64> = track.samples.iter().map(|it| it.shown_at).collect();
        times.sort_unstable();
        let shown = times.iter().filter(|time| track.is_shown(**time)).count();
        if shown == 0 {
            return Err(UnsupportedVideo::Failed(MediaError::no_frames(path)));
        }
        let (fps, starts) = timing(&track, &times);
        let (width, height) = upright_size((width, height), track.orientation);
        let info = VideoInfo {
            width,
            height,
            fps,
            num_frames: shown as u32,
            is_uneven: starts.is_some(),
        };
        let facts = VideoFacts {
            info,
            starts,
            notices,
            conversions: conversions(colours.words, pixel_aspect),
        };
        let movie = Self {
            path: path.to_path_buf(),
            source,
            track,
            config,
            colour,
            conversion: colours.conversion,
            pixel_aspect,
            times,
        };
        Ok((movie, facts))
    }

    fn read_from(&mut self, from: usize, sink: &mut FrameSink<'_>) -> Result<(), MediaError> {
        let path = self.path.clone();
        let failed = |failure: DecodeFailure| failure.into_error("MP4", &path);
        let mut frames = DecodedFrames::new(self.config.clone(), self.colour).map_err(failed)?;
        let total = self.track.samples.len();
        let mut index = from;
        // Images come in the order of their times, which are next to them in the file.
        let mut show = |image, index: usize, movie: &Self| {
            let time = movie.times.get(index);
            if time.is_some_and(|time| movie.track.is_shown(*time)) {
                let image = movie.as_shown(image)?;
                sink(upright(image, movie.track.orientation)?.into())?;
            }
            Ok::<_, MediaError>(())
        };
        for at in from..total {
            let sample = self.track.samples[at];
            let bytes = sample_bytes(&mut self.source, sample).map_err(failed)?;
            if let Some(image) = frames.feed(&bytes).map_err(failed)? {
                show(image, index, self)?;
                index += 1;
            }
        }
        for image in frames.rest().map_err(failed)? {
            show(image, index, self)?;
            index += 1;
        }
        if index < total {
            let lost = total - index;
            let text = format!("{lost} of its {total} frames cannot be decoded");
            return Err(failed(DecodeFailure::Damaged(text)));
        }
        Ok(())
    }

    fn as_shown(&self, mut image: RgbPixels) -> Result<RgbPixels, MediaError> {
        if let Some(conversion) = &self.conversion {
            let converted = conversion.convert_rgb(&mut image.rgb);
            converted
                .map_err(|why| DecodeFailure::Unsupported(why).into_error("MP4", &self.path))?;
        }
        make_square(image, self.pixel_aspect)
    }
}

/// The first video track, and notices on others.
fn read_track(source: &mut ByteSource<File>) -> Result<(VideoTrack, Vec<String>), DecodeFailure> {
    let id = |movie: &[u8]| VideoTrack::first_video(movie).map(|track| track.id);
    let (movie, more) = movie_and_samples(source, &id)?;
    let mut track = VideoTrack::first_video(&movie)?;
    track.samples.extend(more);
    let count = |kind| of_kind(&movie, kind).count();
    let subtitles = [*b"sbtl", *b"subt", *b"clcp"].map(count).iter().sum();
    Ok((track, track_notices(count(*b"vide"), subtitles)))
}

/// The content of the movie box, and what fragments add to the samples of the track whose number `id` gives.
fn movie_and_samples(
    source: &mut ByteSource<File>,
    id: &dyn Fn(&[u8]) -> Result<u32, DecodeFailure>,
) -> Result<(Vec<u8>, Vec<TrackSample>), DecodeFailure> {
    let mut movie: Option<Vec<u8>> = None;
    let mut fragments: Option<FragmentReader> = None;
    let mut boxes = file_boxes(source);
    let mut end = 0;
    while let Some(part) = boxes.next_part()? {
        let begin = end;
        end = part.end;
        match &part.name {
            b"moov" if movie.is_none() => movie = Some(boxes.content(&part)?),
            b"moof" => {
                let Some(movie) = &movie else {
                    return Err(DecodeFailure::Damaged(
                        "a fragment stands before its header".to_owned(),
                    ));
                };
                let content = boxes.content(&part)?;
                let gathered = match &mut fragments {
                    Some(gathered) => gathered,
                    None => fragments.insert(FragmentReader::new(movie, id(movie)?)),
                };
                let added = gathered.add(&content, begin);
                added.map_err(|text| DecodeFailure::Damaged(text.to_owned()))?;
            }
            _ => {}
        }
    }
    // A file that ends before its movie box is cut off.
    let movie = movie.ok_or(DecodeFailure::Truncated)?;
    let more = fragments.map_or_else(Vec::new, |fragments| fragments.samples);
    Ok((movie, more))
}

fn sample_bytes(
    source: &mut ByteSource<File>,
    sample: TrackSample,
) -> Result<Vec<u8>, DecodeFailure> {
    Ok(source.read_at(sample.offset, sample.size.into())?)
}

/// Types of units.
const SEI: u8 = 6;
const SEQUENCE_SET: u8 = 7;

/// The sequence parameter set: in the header, or in the first sample.
fn sequence(
    source: &mut ByteSource<File>,
    track: &VideoTrack,
    config: &AvcConfig,
) -> Result<SequenceParameters, DecodeFailure> {
    let first = match (config.sequence_sets.first(), track.samples.first()) {
        (Some(set), _) => Some(set.clone()),
        (None, Some(sample)) => {
            let sample = sample_bytes(source, *sample)?;
            let is_set =
                |unit: &&[u8]| unit.first().is_some_and(|byte| byte & 0x1f == SEQUENCE_SET);
            config.units(&sample).find(is_set).map(<[u8]>::to_vec)
        }
        (None, None) => None,
    };
    first
        .and_then(|unit| SequenceParameters::read(&unit))
        .ok_or_else(|| DecodeFailure::Damaged("its H.264 has no parameters".to_owned()))
}

/// Peak of PQ that the header or the first frame declares in supplemental information (SEI), in cd/m².
fn peak_in_sei(
    source: &mut ByteSource<File>,
    track: &VideoTrack,
    config: &AvcConfig,
) -> Result<Option<f64>, DecodeFailure> {
    let Some(first) = track.samples.first() else {
        return Ok(None);
    };
    let sample = sample_bytes(source, *first)?;
    let units = config.units(&sample);
    let (mut max_cll, mut mastering) = (0.0, 0.0);
    for unit in units.filter(|unit| unit.first().is_some_and(|byte| byte & 0x1f == SEI)) {
        sps::read_light(unit, &mut max_cll, &mut mastering);
    }
    Ok(declared_peak(max_cll, mastering))
}

/// The profiles that the decoder knows: Baseline, Main, Extended, High and the two scalable ones. Lossless frames are of
/// another one, whatever their sampling.
const PROFILES: [u8; 6] = [66, 77, 83, 86, 88, 100];

/// The decoder knows progressive 4:2:0 of 8 bits up to level 5.2.
fn check_decodable(sps: &SequenceParameters) -> Result<(), UnsupportedVideo> {
    let sampling = match sps.chroma_format {
        0 => "4:0:0",
        1 => "4:2:0",
        2 => "4:2:2",
        _ => "4:4:4",
    };
    let pixels = u64::from(sps.width) * u64::from(sps.height);
    let what = if sps.bit_depth != 8 {
        format!("H.264 of {} bits", sps.bit_depth)
    } else if sps.chroma_format != 1 {
        format!("H.264 with {sampling} sampling")
    } else if !PROFILES.contains(&sps.profile) {
        format!("H.264 of profile {}", sps.profile)
    } else if sps.is_interlaced {
        "interlaced H.264".to_owned()
    } else if pixels > MAX_FRAME_PIXELS {
        format!("H.264 of {} × {}", sps.width, sps.height)
    } else {
        return Ok(());
    };
    Err(UnsupportedVideo::Codec(what))
}

fn codec_name(letters: [u8; 4]) -> String {
    let known = match &letters {
        b"hvc1" | b"hev1" => "HEVC (H.265)",
        b"vp08" => "VP8",
        b"vp09" => "VP9",
        b"av01" => "AV1",
        b"mp4v" => "MPEG-4 Visual",
        b"jpeg" | b"mjpa" | b"mjpb" => "Motion JPEG",
        b"apch" | b"apcn" | b"apcs" | b"apco" | b"ap4h" | b"ap4x" => "ProRes",
        _ => {
            let printable = letters.iter().map(|byte| match byte {
                b' '..=b'~' => char::from(*byte),
                _ => '?',
            });
            return format!("the codec {:?}", printable.collect::<String>());
        }
    };
    known.to_owned()
}

/// Rate and starts of the shown frames. The rate is that of nearly all frames, else the average.
fn timing(track: &VideoTrack, times: &[i64]) -> FrameTiming {
    let mut lasting: Vec<u32> = track.samples.iter().map(|sample| sample.lasts).collect();
    lasting.sort_unstable();
    let timescale = f64::from(track.timescale);
    let usual = lasting[lasting.len() / 2];
    // The last one is often left out or cut.
    let others = lasting.iter().filter(|lasts| **lasts != usual).count();
    let presentation = track.presentation();
    let starts = &presentation[..presentation.len().saturating_sub(1)];
    let is_usual = usual > 0 && others <= 1 + lasting.len() / 20;
    let usual = is_usual.then(|| timescale / f64::from(usual));
    let rates = [
        usual,
        average(times, timescale),
        average(starts, timescale),
        Some(DEFAULT_FPS),
    ];
    let rates: Vec<f64> = rates.into_iter().flatten().collect();
    FrameStarts::find(&presentation, timescale, &rates)
}

/// Average rate of frames with these starts; `None` for fewer than two.
fn average(starts: &[i64], timescale: f64) -> Option<f64> {
    let (first, last) = (starts.first()?, starts.last()?);
    let units = last.saturating_sub(*first) as f64;
    (units > 0.0).then(|| (starts.len() - 1) as f64 * timescale / units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_h264_profile_is_refused_even_with_4_2_0_sampling() {
        let of_profile = |profile| SequenceParameters {
            profile,
            width: 64,
            height: 48,
            chroma_format: 1,
            bit_depth: 8,
            is_interlaced: false,
            pixel_aspect: None,
            colour: None,
        };
        assert!(check_decodable(&of_profile(100)).is_ok());
        let found = check_decodable(&of_profile(244));
        assert!(
            matches!(found, Err(UnsupportedVideo::Codec(found)) if found == "H.264 of profile 244")
        );
    }
}
