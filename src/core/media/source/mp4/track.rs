//! The video track in a movie box: its codec, its orientation, and where and when each sample is.
//!
//! Reads bytes only; samples are left to the decoder.

use image::metadata::Orientation;

use super::colour::VideoColor;
use super::edits::{ShownEdits, TrackEdit};
use crate::formats::mp4::{BoxBytes, boxes, child, descend, mastering_peak};
use crate::media::colour::declared_peak;
use crate::media::open::DecodeFailure;

/// Limit of samples: nine hours at 30 frames a second.
pub(in crate::media) const MAX_SAMPLES: usize = 1 << 20;
/// Error of a file with more.
pub(super) const TOO_MANY: &str = "it has more than a million frames";

/// One encoded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrackSample {
    /// Offset in the file.
    pub offset: u64,
    pub size: u32,
    /// When it is shown, in units of the track's clock.
    pub shown_at: i64,
    /// Duration, in the same units.
    pub lasts: u32,
    /// True if decoding can begin here.
    pub is_sync: bool,
}

pub(super) struct VideoTrack {
    pub id: u32,
    /// The four letters of the codec.
    pub codec: [u8; 4],
    /// The content of `avcC`.
    pub avc_config: Vec<u8>,
    pub colour: Option<VideoColor>,
    /// Peak of PQ as declared, in cd/m².
    pub peak: Option<f64>,
    /// Width and height of a pixel on a screen, in any unit.
    pub pixel_aspect: Option<(u32, u32)>,
    pub orientation: Orientation,
    /// Units a second.
    pub timescale: u32,
    pub samples: Vec<TrackSample>,
    shown: ShownEdits,
}

impl VideoTrack {
    /// The first video track in the content of a `moov` box.
    pub fn first_video(movie: &[u8]) -> Result<Self, DecodeFailure> {
        let track = of_kind(movie, *b"vide")
            .next()
            .ok_or(DecodeFailure::NoVideo)?;
        Self::read(track, movie_timescale(movie))
            .map_err(|text| DecodeFailure::Damaged(text.to_owned()))
    }

    fn read(track: &[u8], movie_timescale: u32) -> Result<Self, &'static str> {
        let (id, orientation) = track_header(track).ok_or("its track has no whole header")?;
        let timescale = descend(track, &[*b"mdia", *b"mdhd"])
            .and_then(timescale_of)
            .filter(|timescale| *timescale > 0)
            .ok_or("its track has no clock")?;
        let table = descend(track, &[*b"mdia", *b"minf", *b"stbl"])
            .ok_or("its track has no sample table")?;
        let entry = child(table, *b"stsd")
            .and_then(|list| boxes(list.get(8..)?).next())
            .ok_or("its track names no codec")?;
        let (codec, entry) = entry;
        // An image's description is 78 bytes long before its own boxes begin.
        let inner = entry.get(78..).unwrap_or_default();
        Ok(Self {
            id,
            codec,
            avc_config: child(inner, *b"avcC").unwrap_or_default().to_vec(),
            // A profile and numbers may both be there.
            colour: boxes(inner)
                .filter(|(name, _)| name == b"colr")
                .find_map(|(_, content)| VideoColor::from_box(content)),
            peak: declared_peak(
                child(inner, *b"clli")
                    .and_then(|content| BoxBytes(content).u16())
                    .map_or(0.0, f64::from),
                child(inner, *b"mdcv")
                    .and_then(mastering_peak)
                    .unwrap_or(0.0),
            ),
            pixel_aspect: child(inner, *b"pasp").and_then(|content| {
                let mut bytes = BoxBytes(content);
                Some((bytes.u32()?, bytes.u32()?))
            }),
            orientation,
            timescale,
            samples: samples(table)?,
            shown: ShownEdits::from_edits(edits(track, timescale, movie_timescale)),
        })
    }

    /// Returns true if a frame of that time is shown.
    pub fn is_shown(&self, shown_at: i64) -> bool {
        self.shown.includes(shown_at)
    }

    /// Starts of the shown frames in the presentation, in order, and the end of the last, in units of the track's clock;
    /// without any frame nothing.
    pub fn presentation(&self) -> Vec<i64> {
        let mut samples: Vec<_> = self
            .samples
            .iter()
            .map(|it| (it.shown_at, it.lasts))
            .collect();
        samples.sort_unstable();
        let shown = |(time, lasts): &(i64, u32)| self.shown.presented(*time, *lasts);
        let mut ticks: Vec<i64> = samples
            .iter()
            .filter_map(shown)
            .map(|[start, _]| start)
            .collect();
        if !ticks.is_sorted() {
            // The edits change the order, and frames are read in that of the track.
            ticks = samples
                .iter()
                .map(|(time, _)| *time)
                .filter(|time| self.is_shown(*time))
                .collect();
        }
        let lasts = samples
            .iter()
            .rev()
            .find_map(shown)
            .map_or(0, |[start, end]| end - start);
        ticks.extend(ticks.last().map(|last| last.saturating_add(lasts)));
        ticks
    }
}

/// The contents of the tracks of a kind, such as `vide`, in the content of a `moov` box.
pub(super) fn of_kind(movie: &[u8], kind: [u8; 4]) -> impl Iterator<Item = &[u8]> {
    let tracks = boxes(movie).filter(|(name, _)| name == b"trak");
    tracks.map(|(_, content)| content).filter(move |track| {
        let handler = descend(track, &[*b"mdia", *b"hdlr"]);
        handler.and_then(|handler| handler.get(8..12)) == Some(kind.as_slice())
    })
}

/// Number and orientation of a track, from its content.
pub(super) fn track_header(track: &[u8]) -> Option<(u32, Orientation)> {
    let mut bytes = BoxBytes(child(track, *b"tkhd")?);
    let (version, _) = bytes.version()?;
    bytes.skip(if version == 1 { 16 } else { 8 })?;
    let id = bytes.u32()?;
    // Reserved, duration, reserved twice, layer, group, volume, reserved.
    bytes.skip(4 + if version == 1 { 8 } else { 4 } + 8 + 8)?;
    let mut matrix = [0; 9];
    for value in &mut matrix {
        *value = bytes.i32()?.signum();
    }
    let [a, b, _, c, d, ..] = matrix;
    // A point (x, y) is shown at (a x + c y, b x + d y), with y downwards.
    let orientation = match (a, b, c, d) {
        (0, 1, -1, 0) => Orientation::Rotate90,
        (-1, 0, 0, -1) => Orientation::Rotate180,
        (0, -1, 1, 0) => Orientation::Rotate270,
        (-1, 0, 0, 1) => Orientation::FlipHorizontal,
        (1, 0, 0, -1) => Orientation::FlipVertical,
        (0, 1, 1, 0) => Orientation::Rotate90FlipH,
        (0, -1, -1, 0) => Orientation::Rotate270FlipH,
        _ => Orientation::NoTransforms,
    };
    Some((id, orientation))
}

/// Units per second of a movie's clock, from the content of its `moov` box.
pub(super) fn movie_timescale(movie: &[u8]) -> u32 {
    let header = child(movie, *b"mvhd").and_then(timescale_of);
    header.unwrap_or(1000).max(1)
}

/// The units a second in the header of a movie or a track's media.
pub(super) fn timescale_of(header: &[u8]) -> Option<u32> {
    let mut bytes = BoxBytes(header);
    let (version, _) = bytes.version()?;
    bytes.skip(if version == 1 { 16 } else { 8 })?;
    bytes.u32()
}

/// The stretches that the edit list shows; empty ones only delay.
fn edits(track: &[u8], timescale: u32, movie_timescale: u32) -> Vec<TrackEdit> {
    let mut presented: u64 = 0;
    let all = edit_list(track).into_iter().map(|(lasts, begin)| {
        // The duration was rounded to the movie's clock: a frame that begins within its last tick is not meant.
        let own = |units: u64| {
            let units = u128::from(units) * u128::from(timescale) / u128::from(movie_timescale);
            i64::try_from(units).ok()
        };
        let end = own(lasts).and_then(|units| begin.checked_add(units));
        let at = own(presented).unwrap_or(i64::MAX);
        presented = presented.saturating_add(lasts);
        TrackEdit {
            begin,
            end: end.filter(|_| lasts > 0),
            at,
        }
    });
    all.filter(|edit| edit.begin >= 0).collect()
}

/// Edit list of the track: the duration of each edit in the movie's units, and its start in the track's, negative where
/// nothing is shown. Empty if the list is truncated.
pub(super) fn edit_list(track: &[u8]) -> Vec<(u64, i64)> {
    let read = || {
        let mut bytes = BoxBytes(descend(track, &[*b"edts", *b"elst"])?);
        let (version, _) = bytes.version()?;
        let count = bytes.u32()?;
        let mut edits = Vec::new();
        for _ in 0..count {
            let lasts = bytes.sized(version)?;
            let begin = if version == 1 {
                bytes.array().map(i64::from_be_bytes)?
            } else {
                bytes.i32().map(i64::from)?
            };
            bytes.skip(4)?;
            edits.push((lasts, begin));
        }
        Some(edits)
    };
    read().unwrap_or_default()
}

/// The samples that the tables in `stbl` describe; none in a fragmented file.
pub(super) fn samples(table: &[u8]) -> Result<Vec<TrackSample>, &'static str> {
    let sizes = sizes(table)?;
    let mut samples: Vec<TrackSample> = sizes
        .into_iter()
        .map(|size| TrackSample {
            offset: 0,
            size,
            shown_at: 0,
            lasts: 0,
            is_sync: true,
        })
        .collect();
    if samples.is_empty() {
        return Ok(samples);
    }
    set_offsets(&mut samples, table).ok_or("its samples have no places")?;
    set_times(&mut samples, table).ok_or("its samples have no times")?;
    if let Some(list) = child(table, *b"stss") {
        for sample in &mut samples {
            sample.is_sync = false;
        }
        let numbers = list.get(8..).unwrap_or_default().chunks_exact(4);
        for number in numbers {
            let number = BoxBytes(number).u32().unwrap_or(0);
            if let Some(sample) = samples.get_mut((number as usize).wrapping_sub(1)) {
                sample.is_sync = true;
            }
        }
    }
    Ok(samples)
}

fn sizes(table: &[u8]) -> Result<Vec<u32>, &'static str> {
    const CUT: &str = "its list of sizes is cut";
    let Some(list) = child(table, *b"stsz") else {
        return if child(table, *b"stz2").is_some() {
            Err("its sizes are in a compact form")
        } else {
            Err("its samples have no sizes")
        };
    };
    let mut bytes = BoxBytes(list);
    bytes.skip(4).ok_or(CUT)?;
    let all = bytes.u32().ok_or(CUT)?;
    let count = bytes.u32().ok_or(CUT)? as usize;
    if count > MAX_SAMPLES {
        return Err(TOO_MANY);
    }
    if all != 0 {
        return Ok(vec![all; count]);
    }
    let list = bytes.take(count * 4).ok_or(CUT)?;
    Ok(list
        .chunks_exact(4)
        .map(|size| BoxBytes(size).u32().unwrap_or(0))
        .collect())
}

/// Sets the offsets of samples from chunks: the table has the offsets, the runs have the samples per chunk.
fn set_offsets(samples: &mut [TrackSample], table: &[u8]) -> Option<()> {
    let (offsets, width) = child(table, *b"stco")
        .map(|list| (list, 4))
        .or_else(|| child(table, *b"co64").map(|list| (list, 8)))?;
    let mut offsets = offsets
        .get(8..)?
        .chunks_exact(width)
        .map(|offset| match width {
            4 => BoxBytes(offset).u32().map_or(0, u64::from),
            _ => BoxBytes(offset).u64().unwrap_or(0),
        });
    let mut runs = child(table, *b"stsc")?
        .get(8..)?
        .chunks_exact(12)
        .map(|run| {
            let mut bytes = BoxBytes(run);
            (bytes.u32().unwrap_or(0), bytes.u32().unwrap_or(0))
        });
    let (_, mut in_chunk) = runs.next()?;
    let mut next_run = runs.next();
    let mut chunk = 0_u32;
    let mut rest = samples;
    while !rest.is_empty() {
        chunk += 1;
        if let Some((first_chunk, count)) = next_run
            && chunk >= first_chunk
        {
            in_chunk = count;
            next_run = runs.next();
        }
        let mut at = offsets.next()?;
        let here = rest.len().min(in_chunk as usize);
        let (now, later) = rest.split_at_mut(here);
        for sample in now {
            sample.offset = at;
            at = at.checked_add(u64::from(sample.size))?;
        }
        rest = later;
    }
    Some(())
}

fn set_times(samples: &mut [TrackSample], table: &[u8]) -> Option<()> {
    let pairs = |list: [u8; 4]| {
        child(table, list)
            .and_then(|list| list.get(8..))
            .map(|list| {
                list.chunks_exact(8).flat_map(|pair| {
                    let mut bytes = BoxBytes(pair);
                    let count = bytes.u32().unwrap_or(0) as usize;
                    let value = bytes.i32().unwrap_or(0);
                    std::iter::repeat_n(value, count.min(MAX_SAMPLES))
                })
            })
    };
    let mut deltas = pairs(*b"stts")?;
    let mut offsets = pairs(*b"ctts");
    let mut now = 0_i64;
    let mut last = 0;
    for sample in samples {
        last = deltas.next().unwrap_or(last);
        let offset = offsets.as_mut().and_then(Iterator::next).unwrap_or(0);
        sample.shown_at = now + i64::from(offset);
        sample.lasts = last.cast_unsigned();
        now += i64::from(sample.lasts);
    }
    Some(())
}
