//! The boxes of an MP4 with one H.264 track, and one of sound where there is one: header first, so that it plays while
//! it loads, and the settings as its comment.
//!
//! No fragments, and no edits of images. Sizes that H.264 cannot express are padded by the encoder and
//! cut to the exact size by a clean-aperture box.

use safelight_loops::yuv::planes_from_rgb;
use serde_json::Value;

use super::FrameTimes;
use super::h264::{CodedFrames, H264Frames, MIN_SIDE};
use super::sound_track;
use crate::formats::mp4::COMMENT;
use crate::media::{RgbPixels, SoundTrack};

pub(super) struct Mp4Writer {
    h264: H264Frames,
    width: u32,
    height: u32,
    times: FrameTimes,
}

impl Mp4Writer {
    pub fn new(width: u32, height: u32, times: FrameTimes, crf: u8) -> Result<Self, String> {
        Ok(Self {
            h264: H264Frames::new(padded(width), padded(height), times.fps, crf)?,
            width,
            height,
            times,
        })
    }

    pub fn push(&mut self, image: &RgbPixels) -> Result<(), String> {
        let (width, height) = (padded(self.width), padded(self.height));
        let [size, padded] = [(image.width, image.height), (width, height)]
            .map(|(width, height)| (width as usize, height as usize));
        let planes = planes_from_rgb(&image.rgb, size, padded);
        self.h264.push(&planes)
    }

    /// The file in two parts: everything up to the packets of the sound, if any, and the frames.
    pub fn finish(
        self,
        settings: Option<&str>,
        sound: Option<&SoundTrack>,
    ) -> Result<[Vec<u8>; 2], String> {
        let (size, times) = ((self.width, self.height), self.times.clone());
        let (coded, frames) = self.into_coded();
        let head = Mp4Boxes {
            coded: &coded,
            size,
            times,
            sound,
        };
        Ok([head.before_frames(settings)?, frames])
    }

    /// Entries of the header, and the frames.
    pub fn into_coded(self) -> (CodedFrames, Vec<u8>) {
        (self.h264.coded, self.h264.bytes)
    }
}

/// The header of a file whose frames are known.
pub(super) struct Mp4Boxes<'a> {
    pub coded: &'a CodedFrames,
    /// Width and height.
    pub size: (u32, u32),
    pub times: FrameTimes,
    /// Sound before the frames, packet by packet.
    pub sound: Option<&'a SoundTrack>,
}

impl Mp4Boxes<'_> {
    /// Everything up to the sound and the frames.
    pub fn before_frames(&self, settings: Option<&str>) -> Result<Vec<u8>, String> {
        if self.coded.sps.len() < 4 || self.coded.pps.is_empty() {
            return Err("it gave no parameter sets".to_owned());
        }
        let file_type = boxed(*b"ftyp", &[b"isom", &be32(0x200), b"isomiso2avc1mp41"]);
        let sound = self.sound.map_or(0, SoundTrack::num_bytes);
        let frames = self.coded.num_bytes() + sound;
        // A size of 1 says that the real one follows in 64 bits.
        let data_head = match u32::try_from(frames + 8) {
            Ok(size) => [&be32(size), b"mdat".as_slice()].concat(),
            Err(_) => [&be32(1), b"mdat".as_slice(), &(frames + 16).to_be_bytes()].concat(),
        };
        let origin = origin(settings);
        // The header holds the frames' position, which depends on the header's length alone.
        let movie_bytes = self.movie(0, settings).len();
        let position = file_type.len() + movie_bytes + origin.len() + data_head.len();
        let position = u32::try_from(position).map_err(|err| err.to_string())?;
        let frames = u64::from(position) + sound;
        u32::try_from(frames).map_err(|_err| "the sound is too long".to_owned())?;
        let movie = self.movie(position, settings);
        Ok([file_type, movie, origin, data_head].concat())
    }

    /// `position`: where the sound begins in the file, and the frames where there is none.
    fn movie(&self, position: u32, settings: Option<&str>) -> Vec<u8> {
        let timescale = self.times.timescale;
        let frames_at = position.saturating_add(self.sound.map_or(0, SoundTrack::num_bytes) as u32);
        let lasts = self
            .times
            .start(self.coded.sizes.len() as u64, timescale.into());
        let lasts = u32::try_from(lasts).unwrap_or(u32::MAX);
        let sound = self.sound.map(|it| sound_track::lasts(it, timescale));
        let sound_track = self.sound.map_or_else(Vec::new, |sound| {
            sound_track::track(sound, position, timescale)
        });
        let longest = be32(lasts.max(sound.unwrap_or(0)));
        let (duration, timescale) = (be32(lasts), be32(timescale));
        let header = full_box(
            *b"mvhd",
            0,
            &[
                &[0; 8],
                &timescale,
                &longest,
                &be32(0x1_0000), // normal speed
                &be16(0x100),    // normal volume
                &[0; 10],
                &MATRIX,
                &[0; 24],
                &be32(if sound.is_some() { 3 } else { 2 }), // the next track's number
            ],
        );
        // Enabled and used in the presentation.
        let track_header = full_box(
            *b"tkhd",
            3,
            &[
                &[0; 8],
                &be32(1),
                &[0; 4],
                &duration,
                &[0; 16],
                &MATRIX,
                &be32(self.size.0 << 16),
                &be32(self.size.1 << 16),
            ],
        );
        let media = media(&TrackMedia {
            handler: *b"vide",
            name: b"Video\0",
            header: &full_box(*b"vmhd", 1, &[&[0; 8]]),
            timescale: self.times.timescale,
            lasts,
            description: &self.sample_entry(),
            durations: &self.durations(),
            keyframes: Some(&self.coded.keyframes),
            sizes: &self.coded.sizes,
            position: frames_at,
        });
        let track = boxed(*b"trak", &[&track_header, &media]);
        boxed(
            *b"moov",
            &[&header, &track, &sound_track, &user_data(settings)],
        )
    }

    /// Counts of frames that follow each other and last equally long, with their duration.
    fn durations(&self) -> Vec<[u32; 2]> {
        let units = f64::from(self.times.timescale);
        let frames = 0..self.coded.sizes.len() as u64;
        let lasting = frames.map(|frame| self.times.lasting(frame, units));
        runs_of(lasting.map(|lasts| u32::try_from(lasts).unwrap_or(u32::MAX)))
    }

    fn sample_entry(&self) -> Vec<u8> {
        let (sps, pps) = (&self.coded.sps, &self.coded.pps);
        let configuration = boxed(
            *b"avcC",
            &[
                &[1, sps[1], sps[2], sps[3], 0xff, 0xe1],
                &be16(sps.len() as u16),
                sps,
                &[1],
                &be16(pps.len() as u16),
                pps,
                // The High profile says more: 4:2:0, 8 bits of luma, 8 bits of colour, no extensions.
                &[0xfd, 0xf8, 0xf8, 0],
            ],
        );
        // BT.709 three times (primaries, transfer, matrix), limited range.
        let colour = boxed(*b"colr", &[b"nclx", &be16(1), &be16(1), &be16(1), &[0]]);
        let square = boxed(*b"pasp", &[&be32(1), &be32(1)]);
        let (own_width, own_height) = self.size;
        let (width, height) = (padded(own_width), padded(own_height));
        let aperture = if (width, height) == self.size {
            Vec::new()
        } else {
            // The size as fractions, then how far its middle is from the padded frame's, in halves.
            let off = |exact: u32, padded: u32| (exact as i32 - padded as i32).to_be_bytes();
            boxed(
                *b"clap",
                &[
                    &be32(own_width),
                    &be32(1),
                    &be32(own_height),
                    &be32(1),
                    &off(own_width, width),
                    &be32(2),
                    &off(own_height, height),
                    &be32(2),
                ],
            )
        };
        boxed(
            *b"avc1",
            &[
                &[0; 6],
                &be16(1), // the data reference
                &[0; 16],
                &be16(width as u16),
                &be16(height as u16),
                &be32(0x48_0000), // 72 dots per inch, as everyone writes
                &be32(0x48_0000),
                &[0; 4],
                &be16(1), // frames a sample
                &[0; 32], // the compressor's name
                &be16(24),
                &[0xff, 0xff],
                &configuration,
                &colour,
                &square,
                &aperture,
            ],
        )
    }
}

/// Counts of equal values that follow each other, with the value.
pub(super) fn runs_of(values: impl Iterator<Item = u32>) -> Vec<[u32; 2]> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for value in values {
        match runs.last_mut().filter(|[_, last]| *last == value) {
            Some([count, _]) => *count += 1,
            None => runs.push([1, value]),
        }
    }
    runs
}

/// Content of the `mdia` box of a track.
pub(super) struct TrackMedia<'a> {
    pub handler: [u8; 4],
    /// Ends with a zero.
    pub name: &'a [u8],
    /// The box of the handler's own header.
    pub header: &'a [u8],
    pub timescale: u32,
    pub lasts: u32,
    /// The box that describes all samples.
    pub description: &'a [u8],
    /// As of [`runs_of`].
    pub durations: &'a [[u32; 2]],
    /// Numbers from 1; all samples where absent.
    pub keyframes: Option<&'a [u32]>,
    pub sizes: &'a [u32],
    /// Position of the samples, which are contiguous in the file.
    pub position: u32,
}

pub(super) fn media(track: &TrackMedia<'_>) -> Vec<u8> {
    let numbers = |numbers: &[u32]| numbers.iter().copied().flat_map(be32).collect::<Vec<u8>>();
    let list = |name: [u8; 4], count: usize, values: &[u32]| {
        full_box(name, 0, &[&be32(count as u32), &numbers(values)])
    };
    let count = be32(track.sizes.len() as u32);
    let durations = list(
        *b"stts",
        track.durations.len(),
        track.durations.as_flattened(),
    );
    let keyframes = track.keyframes.map(|it| list(*b"stss", it.len(), it));
    let table = boxed(
        *b"stbl",
        &[
            &full_box(*b"stsd", 0, &[&be32(1), track.description]),
            &durations,
            &keyframes.unwrap_or_default(),
            // One chunk holds all samples.
            &full_box(*b"stsc", 0, &[&be32(1), &be32(1), &count, &be32(1)]),
            &full_box(*b"stsz", 0, &[&be32(0), &count, &numbers(track.sizes)]),
            &full_box(*b"stco", 0, &[&be32(1), &be32(track.position)]),
        ],
    );
    let (timescale, lasts) = (be32(track.timescale), be32(track.lasts));
    // 0x55c4 is "und", no language, in its packed form.
    let language = be16(0x55c4);
    let here = full_box(*b"url ", 1, &[]);
    let data_information = boxed(*b"dinf", &[&full_box(*b"dref", 0, &[&be32(1), &here])]);
    let handler = [&[0; 4], &track.handler[..], &[0; 12], track.name].concat();
    boxed(
        *b"mdia",
        &[
            &full_box(
                *b"mdhd",
                0,
                &[&[0; 8], &timescale, &lasts, &language, &[0; 2]],
            ),
            &full_box(*b"hdlr", 0, &[&handler]),
            &boxed(*b"minf", &[track.header, &data_information, &table]),
        ],
    )
}

/// The smallest size that H.264 can hold a side in: even, and at least one macroblock.
fn padded(side: u32) -> u32 {
    side.next_multiple_of(2).max(MIN_SIDE)
}

/// The settings and the program, where players show a comment and an encoder.
fn user_data(settings: Option<&str>) -> Vec<u8> {
    let item = |name: [u8; 4], text: &str| {
        // 1 says UTF-8; then the language, which is none.
        boxed(
            name,
            &[&boxed(*b"data", &[&be32(1), &[0; 4], text.as_bytes()])],
        )
    };
    let handler = full_box(*b"hdlr", 0, &[&[0; 4], b"mdirappl", &[0; 8], &[0]]);
    let program = item(*b"\xa9too", super::MADE_BY);
    let comment = settings.map_or_else(Vec::new, |settings| item(COMMENT, settings));
    let items = boxed(*b"ilst", &[&program, &comment]);
    boxed(*b"udta", &[&full_box(*b"meta", 0, &[&handler, &items])])
}

/// XMP that says that a model made the video, as the IPTC wants it; nothing where the settings are not those of a
/// generated one.
fn origin(settings: Option<&str>) -> Vec<u8> {
    let settings = settings.and_then(|text| serde_json::from_str::<Value>(text).ok());
    if settings.is_none_or(|settings| settings.get("request").is_none()) {
        return Vec::new();
    }
    boxed(*b"uuid", &[&XMP_UUID, ORIGIN.as_bytes()])
}

const XMP_UUID: [u8; 16] = 0xbe7a_cfcb_97a9_42e8_9c71_9994_91e3_afac_u128.to_be_bytes();
const ORIGIN: &str = concat!(
    r#"<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?>"#,
    r#"<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">"#,
    r#"<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" "#,
    r#"Iptc4xmpExt:DigitalSourceType="http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"/>"#,
    r#"</rdf:RDF></x:xmpmeta><?xpacket end="r"?>"#,
);

/// Neither turned nor stretched.
pub(super) const MATRIX: [u8; 36] = {
    let mut matrix = [0; 36];
    matrix[1] = 1;
    matrix[17] = 1;
    matrix[32] = 0x40;
    matrix
};

pub(super) fn be16(value: u16) -> [u8; 2] {
    value.to_be_bytes()
}

pub(super) fn be32(value: u32) -> [u8; 4] {
    value.to_be_bytes()
}

pub(super) fn boxed(name: [u8; 4], parts: &[&[u8]]) -> Vec<u8> {
    let size = 8 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(size);
    bytes.extend(be32(size as u32));
    bytes.extend(name);
    for part in parts {
        bytes.extend(*part);
    }
    bytes
}

/// A box that begins with a version, here always 0, and 24 bits of flags.
pub(super) fn full_box(name: [u8; 4], flags: u32, parts: &[&[u8]]) -> Vec<u8> {
    let version_and_flags = be32(flags);
    let parts: Vec<&[u8]> = std::iter::once(version_and_flags.as_slice())
        .chain(parts.iter().copied())
        .collect();
    boxed(name, &parts)
}
