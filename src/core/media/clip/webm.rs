//! A WebM file of VP8 keyframes, with an index, so that every frame can be jumped to, and the settings
//! as its comment.
//!
//! No sound and no frames that depend on others.

use super::vp8::encode_lossy;
use super::{FrameTimes, MADE_BY};
use crate::media::Picture;

pub(super) struct WebM {
    width: u32,
    height: u32,
    fps: f64,
    crf: u8,
    frames: Vec<Vec<u8>>,
}

/// A cluster's blocks count their time in 16 signed bits from its start, in milliseconds.
const CLUSTER_MILLIS: u64 = 5_000;

impl WebM {
    pub fn new(width: u32, height: u32, fps: f64, crf: u8) -> Self {
        Self {
            width,
            height,
            fps,
            crf,
            frames: Vec::new(),
        }
    }

    pub fn push(&mut self, picture: &Picture) -> Result<(), String> {
        self.frames.push(encode_lossy(picture, self.crf)?.bytes);
        Ok(())
    }

    /// The file in two parts: everything up to the frames, and the frames.
    pub fn finish(self, settings: Option<&str>) -> [Vec<u8>; 2] {
        let head = element(
            id::EBML,
            &[
                &uint(id::EBML_VERSION, 1),
                &uint(id::EBML_READ_VERSION, 1),
                &uint(id::EBML_MAX_ID_LENGTH, 4),
                &uint(id::EBML_MAX_SIZE_LENGTH, 8),
                &element(id::DOC_TYPE, &[b"webm"]),
                &uint(id::DOC_TYPE_VERSION, 4),
                &uint(id::DOC_TYPE_READ_VERSION, 2),
            ],
        );
        let seconds = self.frames.len() as f64 / self.fps;
        let info = element(
            id::INFO,
            &[
                &uint(id::TIMESTAMP_SCALE, 1_000_000),
                &element(id::DURATION, &[&(seconds * 1000.0).to_be_bytes()]),
                &element(id::MUXING_APP, &[MADE_BY.as_bytes()]),
                &element(id::WRITING_APP, &[MADE_BY.as_bytes()]),
            ],
        );
        let tags = element(
            id::TAGS,
            &[&element(
                id::TAG,
                &[
                    &element(id::TARGETS, &[]),
                    &simple_tag("ENCODER", MADE_BY),
                    &settings.map_or_else(Vec::new, |settings| simple_tag("COMMENT", settings)),
                ],
            )],
        );
        let tracks = self.tracks();
        let (clusters, starts) = self.clusters();

        // The index holds positions that lie behind it: it is made with numbers of a fixed width, so
        // its length is known before they are.
        let before_index = info.len() + tracks.len() + tags.len();
        let index_bytes = cues(&starts, 0).len();
        let first_cluster = before_index + seek_head([0; 4]).len() + index_bytes;
        let info_at = seek_head([0; 4]).len();
        let tracks_at = info_at + info.len();
        let tags_at = tracks_at + tracks.len();
        let cues_at = tags_at + tags.len();
        let seek = seek_head([info_at, tracks_at, tags_at, cues_at].map(|at| at as u64));
        let index = cues(&starts, first_cluster as u64);
        let body = [seek, info, tracks, tags, index].concat();
        let size = (body.len() + clusters.len()) as u64;
        let segment = [id::SEGMENT.to_be_bytes().as_slice(), &size_in_8(size)].concat();
        [[head, segment, body].concat(), clusters]
    }

    fn tracks(&self) -> Vec<u8> {
        // libwebp converts with the matrix of BT.601 to limited range.
        let colour = element(
            id::COLOUR,
            &[
                &uint(id::MATRIX_COEFFICIENTS, 6),
                &uint(id::RANGE, 1),
                &uint(id::TRANSFER_CHARACTERISTICS, 1),
                &uint(id::PRIMARIES, 1),
            ],
        );
        let video = element(
            id::VIDEO,
            &[
                &uint(id::PIXEL_WIDTH, self.width.into()),
                &uint(id::PIXEL_HEIGHT, self.height.into()),
                &colour,
            ],
        );
        let track = element(
            id::TRACK_ENTRY,
            &[
                &uint(id::TRACK_NUMBER, 1),
                &uint(id::TRACK_UID, 1),
                &uint(id::TRACK_TYPE, 1),
                &uint(id::FLAG_LACING, 0),
                &uint(id::DEFAULT_DURATION, (1e9 / self.fps).round() as u64),
                &element(id::CODEC_ID, &[b"V_VP8"]),
                &video,
            ],
        );
        element(id::TRACKS, &[&track])
    }

    /// All clusters, and of each frame its time and its cluster's position.
    fn clusters(&self) -> (Vec<u8>, Vec<(u64, u64)>) {
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        let mut cluster = Vec::new();
        let mut cluster_time = 0;
        for (i, frame) in self.frames.iter().enumerate() {
            let time = FrameTimes::start(self.fps, i as u64, 1000.0);
            if cluster.is_empty() || time - cluster_time >= CLUSTER_MILLIS {
                flush(&mut bytes, &mut cluster);
                cluster_time = time;
                cluster = uint(id::TIMESTAMP, time);
            }
            starts.push((time, bytes.len() as u64));
            let since = ((time - cluster_time) as i16).to_be_bytes();
            // Track 1, and the flag of a keyframe.
            cluster.extend(element(
                id::SIMPLE_BLOCK,
                &[&[0x81], &since, &[0x80], frame],
            ));
        }
        flush(&mut bytes, &mut cluster);
        (bytes, starts)
    }
}

fn simple_tag(name: &str, text: &str) -> Vec<u8> {
    let name = element(id::TAG_NAME, &[name.as_bytes()]);
    element(
        id::SIMPLE_TAG,
        &[&name, &element(id::TAG_STRING, &[text.as_bytes()])],
    )
}

fn flush(bytes: &mut Vec<u8>, cluster: &mut Vec<u8>) {
    if !cluster.is_empty() {
        bytes.extend(element(id::CLUSTER, &[cluster]));
        cluster.clear();
    }
}

/// The index: where in the segment the cluster of each frame begins.
fn cues(starts: &[(u64, u64)], first_cluster: u64) -> Vec<u8> {
    let points: Vec<u8> = starts
        .iter()
        .flat_map(|(time, at)| {
            let position = element(
                id::CUE_TRACK_POSITIONS,
                &[
                    &uint(id::CUE_TRACK, 1),
                    &uint(id::CUE_CLUSTER_POSITION, first_cluster + at),
                ],
            );
            element(id::CUE_POINT, &[&uint(id::CUE_TIME, *time), &position])
        })
        .collect();
    element(id::CUES, &[&points])
}

/// Where in the segment the other parts begin.
fn seek_head(positions: [u64; 4]) -> Vec<u8> {
    let seeks: Vec<u8> = [id::INFO, id::TRACKS, id::TAGS, id::CUES]
        .into_iter()
        .zip(positions)
        .flat_map(|(part, at)| {
            let part = element(id::SEEK_ID, &[&id_bytes(part)]);
            element(id::SEEK, &[&part, &uint(id::SEEK_POSITION, at)])
        })
        .collect();
    element(id::SEEK_HEAD, &[&seeks])
}

fn element(id: u32, parts: &[&[u8]]) -> Vec<u8> {
    let size = parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = id_bytes(id);
    bytes.extend(size_in_8(size as u64));
    for part in parts {
        bytes.extend(*part);
    }
    bytes
}

/// A number in eight bytes, so that its length never depends on its value.
fn uint(id: u32, value: u64) -> Vec<u8> {
    element(id, &[&value.to_be_bytes()])
}

fn id_bytes(id: u32) -> Vec<u8> {
    id.to_be_bytes()
        .into_iter()
        .skip_while(|byte| *byte == 0)
        .collect()
}

/// A size in the longest form: a marker bit and 56 bits.
fn size_in_8(size: u64) -> [u8; 8] {
    ((1 << 56) | size).to_be_bytes()
}

/// Names of elements, from the Matroska specification.
pub(in crate::media) mod id {
    pub const EBML: u32 = 0x1A45_DFA3;
    pub const EBML_VERSION: u32 = 0x4286;
    pub const EBML_READ_VERSION: u32 = 0x42F7;
    pub const EBML_MAX_ID_LENGTH: u32 = 0x42F2;
    pub const EBML_MAX_SIZE_LENGTH: u32 = 0x42F3;
    pub const DOC_TYPE: u32 = 0x4282;
    pub const DOC_TYPE_VERSION: u32 = 0x4287;
    pub const DOC_TYPE_READ_VERSION: u32 = 0x4285;
    pub const SEGMENT: u32 = 0x1853_8067;
    pub const SEEK_HEAD: u32 = 0x114D_9B74;
    pub const SEEK: u32 = 0x4DBB;
    pub const SEEK_ID: u32 = 0x53AB;
    pub const SEEK_POSITION: u32 = 0x53AC;
    pub const INFO: u32 = 0x1549_A966;
    pub const TIMESTAMP_SCALE: u32 = 0x2A_D7B1;
    pub const DURATION: u32 = 0x4489;
    pub const MUXING_APP: u32 = 0x4D80;
    pub const WRITING_APP: u32 = 0x5741;
    pub const TRACKS: u32 = 0x1654_AE6B;
    pub const TRACK_ENTRY: u32 = 0xAE;
    pub const TRACK_NUMBER: u32 = 0xD7;
    pub const TRACK_UID: u32 = 0x73C5;
    pub const TRACK_TYPE: u32 = 0x83;
    pub const FLAG_LACING: u32 = 0x9C;
    pub const DEFAULT_DURATION: u32 = 0x23_E383;
    pub const CODEC_ID: u32 = 0x86;
    pub const VIDEO: u32 = 0xE0;
    pub const PIXEL_WIDTH: u32 = 0xB0;
    pub const PIXEL_HEIGHT: u32 = 0xBA;
    pub const COLOUR: u32 = 0x55B0;
    pub const MATRIX_COEFFICIENTS: u32 = 0x55B1;
    pub const RANGE: u32 = 0x55B9;
    pub const TRANSFER_CHARACTERISTICS: u32 = 0x55BA;
    pub const PRIMARIES: u32 = 0x55BB;
    pub const CLUSTER: u32 = 0x1F43_B675;
    pub const TIMESTAMP: u32 = 0xE7;
    pub const SIMPLE_BLOCK: u32 = 0xA3;
    pub const CUES: u32 = 0x1C53_BB6B;
    pub const CUE_POINT: u32 = 0xBB;
    pub const CUE_TIME: u32 = 0xB3;
    pub const CUE_TRACK_POSITIONS: u32 = 0xB7;
    pub const CUE_TRACK: u32 = 0xF7;
    pub const CUE_CLUSTER_POSITION: u32 = 0xF1;
    pub const TAGS: u32 = 0x1254_C367;
    pub const TAG: u32 = 0x7373;
    pub const TARGETS: u32 = 0x63C0;
    pub const SIMPLE_TAG: u32 = 0x67C8;
    pub const TAG_NAME: u32 = 0x45A3;
    pub const TAG_STRING: u32 = 0x4487;
}
