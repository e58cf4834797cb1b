//! The first track of sound in a WebM or Matroska file, as it goes into an MP4: Opus.
//!
//! Vorbis and what else there is has no common place in an MP4, and is left out.

use std::fs::File;

use crate::formats::ByteSource;
use crate::formats::webm::{elements, id, unsigned};
use crate::media::open::Failure;
use crate::media::sound::{FoundSound, Packet, Sound};

const VIDEO_TRACK: u64 = 1;
const SOUND_TRACK: u64 = 2;
/// No codec has a longer name, and none that is copied a longer header.
const MAX_HEADER_BYTES: u64 = 1024;
/// Opus counts these in a second, whatever went in.
const OPUS_UNITS: u32 = 48_000;
/// The bits of a block's flags that say that several packets are in it.
const LACING: u8 = 0x06;

#[derive(Default)]
struct Track {
    number: u64,
    kind: u64,
    codec: Vec<u8>,
    header: Vec<u8>,
}

#[derive(Default)]
struct Scan {
    now: Track,
    video: Option<u64>,
    sound: Option<Track>,
    num_others: usize,
    /// Nanoseconds of one unit of time.
    scale: u64,
    cluster_time: u64,
    /// When the first block of pictures and of sound are, in units of time.
    first_video: Option<i64>,
    first_sound: Option<i64>,
    /// Where each packet lies, and its length.
    packets: Vec<(u64, u64)>,
    has_lacing: bool,
}

/// What of a file's sound can be copied.
pub(in crate::media) fn sound(source: &mut ByteSource<File>) -> Result<FoundSound, Failure> {
    let scan = scan(source)?;
    let Some(track) = &scan.sound else {
        return Ok(FoundSound::default());
    };
    if track.codec != b"A_OPUS" {
        let name = match track.codec.as_slice() {
            b"A_VORBIS" => "Vorbis".to_owned(),
            other => String::from_utf8_lossy(other)
                .trim_start_matches("A_")
                .to_owned(),
        };
        let why = format!("{name} from WebM or Matroska is not copied into MP4");
        return Ok(FoundSound::without(why));
    }
    if scan.has_lacing {
        return Ok(FoundSound::without("its packets lie in groups"));
    }
    if scan.packets.is_empty() {
        return Ok(FoundSound::default());
    }
    let Some((description, skipped)) = opus_description(&track.header) else {
        return Ok(FoundSound::without("its Opus has no header"));
    };
    let mut packets = Vec::with_capacity(scan.packets.len());
    for &(offset, size) in &scan.packets {
        let front = source.read_at(offset, size.min(2))?;
        let Some(lasts) = opus_units(&front) else {
            return Ok(FoundSound::without("a packet of its Opus is damaged"));
        };
        let size = u32::try_from(size).map_err(|_err| Failure::Truncated)?;
        packets.push(Packet {
            offset,
            size,
            lasts,
        });
    }
    let first_video = scan.first_video.unwrap_or(0);
    let late = scan.first_sound.unwrap_or(0).saturating_sub(first_video);
    let late_secs = late as f64 * scan.scale as f64 / 1e9;
    let early = (-late_secs).max(0.0) * f64::from(OPUS_UNITS);
    let left_out = (scan.num_others > 0)
        .then(|| "the result has the first of the clip's tracks of sound alone".to_owned());
    Ok(FoundSound {
        sound: Some(Sound {
            path: Default::default(),
            description,
            timescale: OPUS_UNITS,
            packets,
            delay_secs: late_secs.max(0.0),
            // Times of a damaged file may lie further apart than there are numbers.
            skipped: skipped.saturating_add(early.round() as u64),
            heard: None,
        }),
        left_out,
    })
}

fn scan(source: &mut ByteSource<File>) -> Result<Scan, Failure> {
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
            id::TRACK_NUMBER => scan.now.number = number()?,
            id::TRACK_TYPE => scan.now.kind = number()?,
            id::TIMESTAMP_SCALE => scan.scale = number()?,
            id::TIMESTAMP => scan.cluster_time = number()?,
            id::CODEC_ID => scan.now.codec = elements.beginning(&element, MAX_HEADER_BYTES)?,
            id::CODEC_PRIVATE => {
                scan.now.header = elements.beginning(&element, MAX_HEADER_BYTES)?;
            }
            id::TRACK_ENTRY => {
                scan.keep_track();
                elements.enter(&element);
            }
            id::SEGMENT | id::INFO | id::TRACKS | id::CLUSTER | id::BLOCK_GROUP => {
                elements.enter(&element);
            }
            id::SIMPLE_BLOCK | id::BLOCK => {
                scan.keep_track();
                let front = elements.source.array_at::<4>(element.start)?;
                scan.add_block(front, (element.start, element.end));
            }
            _ => {}
        }
    }
    scan.keep_track();
    Ok(scan)
}

impl Scan {
    /// Takes the track that has been read, when it is the first of its kind.
    fn keep_track(&mut self) {
        let track = std::mem::take(&mut self.now);
        match track.kind {
            VIDEO_TRACK => self.video = self.video.or(Some(track.number)),
            SOUND_TRACK if self.sound.is_none() => self.sound = Some(track),
            SOUND_TRACK => self.num_others += 1,
            _ => {}
        }
    }

    /// `front`: track (of one byte below 127 tracks), time since the cluster's, flags.
    fn add_block(&mut self, [track, a, b, flags]: [u8; 4], (start, end): (u64, u64)) {
        let number = u64::from(track & 0x7f);
        let since = i64::from(i16::from_be_bytes([a, b]));
        let time = i64::try_from(self.cluster_time).unwrap_or(i64::MAX);
        let time = time.saturating_add(since);
        if self.video == Some(number) {
            self.first_video = self.first_video.or(Some(time));
        } else if self.sound.as_ref().is_some_and(|it| it.number == number) && end > start + 4 {
            self.first_sound = self.first_sound.or(Some(time));
            self.has_lacing |= flags & LACING != 0;
            self.packets.push((start + 4, end - start - 4));
        }
    }
}

/// The box that describes Opus in an MP4, and the units at its front that are not heard, out of the header that Ogg and
/// Matroska have.
fn opus_description(header: &[u8]) -> Option<(Vec<u8>, u64)> {
    let rest = header.strip_prefix(b"OpusHead")?;
    let (&[_, channels, s0, s1, r0, r1, r2, r3, g0, g1], family) =
        rest.split_first_chunk::<10>()?;
    let own = [
        &[0, channels, s1, s0, r3, r2, r1, r0, g1, g0][..],
        family.get(..1)?,
        // Where each channel is, of other arrangements than one or two.
        if family[0] == 0 {
            &[]
        } else {
            family.get(1..3 + usize::from(channels))?
        },
    ]
    .concat();
    let own = [&(own.len() as u32 + 8).to_be_bytes()[..], b"dOps", &own].concat();
    let front = [
        &[0; 6][..],
        &1_u16.to_be_bytes(), // the data reference
        &[0; 8],
        &u16::from(channels).to_be_bytes(),
        &16_u16.to_be_bytes(), // bits, as everyone writes
        &[0; 4],
        &(OPUS_UNITS << 16).to_be_bytes(),
    ]
    .concat();
    let size = (8 + front.len() + own.len()) as u32;
    let description = [&size.to_be_bytes()[..], b"Opus", &front, &own].concat();
    Some((description, u16::from_le_bytes([s0, s1]).into()))
}

/// How long a packet of Opus lasts, from its first two bytes (RFC 6716, 3.1).
fn opus_units(front: &[u8]) -> Option<u32> {
    let &first = front.first()?;
    let kind = first >> 3;
    let frame = match kind {
        0..12 => [480, 960, 1920, 2880][usize::from(kind & 3)],
        12..16 => [480, 960][usize::from(kind & 1)],
        _ => [120, 240, 480, 960][usize::from(kind & 3)],
    };
    let count = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(front.get(1)? & 0x3f),
    };
    Some(frame * count)
}
