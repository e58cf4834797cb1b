//! The first track of sound in an MP4 or MOV, as it goes into another MP4.

use std::fs::File;

use super::track::{
    TrackSample, edit_list, movie_timescale, of_kind, samples, timescale_of, track_header,
};
use super::{movie_and_samples, read_track};
use crate::formats::ByteSource;
use crate::formats::mp4::{boxes, child, descend};
use crate::media::open::DecodeFailure;
use crate::media::sound::{FoundSound, SEVERAL, SoundPacket, SoundTrack};

/// A description of sound before its own boxes: what all descriptions begin with, and 20 bytes.
const DESCRIPTION_BYTES: usize = 28;
/// Additional bytes of QuickTime's second kind of description.
const QUICKTIME_BYTES: usize = 16;
/// Codecs whose description is the same in every MP4, and their boxes in it.
const COPIED: [([u8; 4], [u8; 4]); 6] = [
    (*b"mp4a", *b"esds"),
    (*b"Opus", *b"dOps"),
    (*b"fLaC", *b"dfLa"),
    (*b"alac", *b"alac"),
    (*b"ac-3", *b"dac3"),
    (*b"ec-3", *b"dec3"),
];

/// Sound of a file that can be copied.
pub(in crate::media) fn sound(file: File) -> Result<FoundSound, DecodeFailure> {
    let len = file.metadata().map_err(DecodeFailure::Io)?.len();
    let mut source = ByteSource::new(file, len);
    let id = |movie: &[u8]| {
        let mut tracks = of_kind(movie, *b"soun");
        let header = tracks.next().and_then(track_header);
        Ok(header.map_or(u32::MAX, |(id, _)| id))
    };
    let (movie, more) = movie_and_samples(&mut source, &id)?;
    // The result begins with the first frame.
    let video_secs = read_track(&mut source).map_or(0.0, |(track, _)| {
        let first = track.presentation().first().copied().unwrap_or(0);
        first as f64 / f64::from(track.timescale)
    });
    let mut tracks = of_kind(&movie, *b"soun");
    let Some(track) = tracks.next() else {
        return Ok(FoundSound::default());
    };
    let num_others = tracks.count();
    let sound = match read(&movie, track, more, video_secs, source.into_inner()) {
        Ok(sound) => sound,
        Err(why) => return Ok(FoundSound::without(why)),
    };
    if sound.as_ref().is_some_and(|it| it.num_bytes() > len) {
        return Ok(FoundSound::without("its packets are longer than its file"));
    }
    Ok(FoundSound {
        sound,
        left_out: (num_others > 0).then(|| SEVERAL.to_owned()),
    })
}

/// `video_secs`: time of the first frame. `None` without packets; the error says why there is no sound, in words that
/// follow a colon.
fn read(
    movie: &[u8],
    track: &[u8],
    more: Vec<TrackSample>,
    video_secs: f64,
    file: File,
) -> Result<Option<SoundTrack>, String> {
    const CUT: &str = "its description is cut";
    let timescale = descend(track, &[*b"mdia", *b"mdhd"])
        .and_then(timescale_of)
        .filter(|timescale| *timescale > 0)
        .ok_or("its track has no clock")?;
    let table = descend(track, &[*b"mdia", *b"minf", *b"stbl"]).ok_or(CUT)?;
    let list = child(table, *b"stsd")
        .and_then(|list| list.get(8..))
        .ok_or(CUT)?;
    let mut descriptions = boxes(list);
    let (codec, content) = descriptions.next().ok_or(CUT)?;
    if descriptions.next().is_some() {
        return Err("its codec changes".to_owned());
    }
    let mut all = samples(table)?;
    all.extend(more);
    let Some(first) = all.first() else {
        return Ok(None);
    };
    let movie_timescale = movie_timescale(movie);
    let (silent, begin, heard) = edits(track)?;
    let late = begin.map_or(first.shown_at, |begin| first.shown_at.saturating_sub(begin));
    let delay_secs = silent as f64 / f64::from(movie_timescale)
        + late.max(0) as f64 / f64::from(timescale)
        - video_secs;
    let early = ((-delay_secs).max(0.0) * f64::from(timescale)).round() as u64;
    // The time of what is heard is given by the movie's clock.
    let heard = heard
        .map(|units| u128::from(units) * u128::from(timescale) / u128::from(movie_timescale))
        .and_then(|units| u64::try_from(units).ok())
        .map(|units| units.saturating_sub(early));
    let packet = |sample: &TrackSample| SoundPacket {
        offset: sample.offset,
        size: sample.size,
        lasts: sample.lasts,
    };
    Ok(Some(SoundTrack {
        file,
        description: description(codec, content)?,
        timescale,
        packets: all.iter().map(packet).collect(),
        delay_secs: delay_secs.max(0.0),
        skipped: late.min(0).unsigned_abs().saturating_add(early),
        heard,
    }))
}

/// Duration of the silence before the sound, in the movie's units; its begin in the track's; and its duration, in the
/// movie's.
fn edits(track: &[u8]) -> Result<(u64, Option<i64>, Option<u64>), String> {
    let list = edit_list(track);
    let before = list.iter().take_while(|(_, begin)| *begin < 0);
    let silent = before.fold(0_u64, |sum, (lasts, _)| sum.saturating_add(*lasts));
    let mut shown = list.iter().filter(|(_, begin)| *begin >= 0);
    let (begin, heard) = match shown.next() {
        Some((lasts, begin)) => (Some(*begin), Some(*lasts).filter(|it| *it > 0)),
        None => (None, None),
    };
    if shown.next().is_some() {
        return Err("it is put together from several parts of its track".to_owned());
    }
    Ok((silent, begin, heard))
}

/// The box that describes the packets, as an MP4 has it.
fn description(codec: [u8; 4], content: &[u8]) -> Result<Vec<u8>, String> {
    let name = || match &codec {
        b"enca" => "an encrypted codec".to_owned(),
        b"sowt" | b"twos" | b"lpcm" | b"raw " | b"in24" | b"in32" | b"fl32" | b"fl64" | b"ipcm"
        | b"fpcm" => "PCM".to_owned(),
        other => format!("{:?}", String::from_utf8_lossy(other)),
    };
    let refused = || format!("{} is not copied into MP4", name());
    let known = COPIED.iter().find(|(known, _)| *known == codec);
    let (_, own) = known.ok_or_else(refused)?;
    let front = content.get(..DESCRIPTION_BYTES).ok_or_else(refused)?;
    // QuickTime's own kinds have a version, more numbers, and a box around the codec's.
    let version = u16::from_be_bytes([front[8], front[9]]);
    let inner = match version {
        0 => content.get(DESCRIPTION_BYTES..),
        1 => content.get(DESCRIPTION_BYTES + QUICKTIME_BYTES..),
        _ => None,
    };
    let inner = inner.ok_or_else(refused)?;
    let direct = child(inner, *own);
    let header = direct.or_else(|| child(child(inner, *b"wave")?, *own));
    let header = header.ok_or_else(refused)?;
    let mut front = front.to_vec();
    front[8..16].fill(0);
    let own_box = [&be32(header.len() + 8)?[..], own, header].concat();
    let size = be32(8 + front.len() + own_box.len())?;
    Ok([&size[..], &codec, &front, &own_box].concat())
}

fn be32(bytes: usize) -> Result<[u8; 4], String> {
    let bytes = u32::try_from(bytes).map_err(|_err| "its description is too long".to_owned())?;
    Ok(bytes.to_be_bytes())
}
