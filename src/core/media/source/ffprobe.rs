//! Properties of a video and the times of its frames, as the user's ffprobe reports them.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::display::{UNSPECIFIED, colour_conversion, has_square_pixels};
use super::ffmpeg::input;
use super::mp4::MAX_SAMPLES;
use crate::media::MediaError;
use crate::media::colour::ColourConversion;

/// Microseconds per second.
pub(super) const MICROS: f64 = 1e6;
/// Bytes of text with the times of as many packets as are read.
const MAX_TIMES_BYTES: u64 = 100 * MAX_SAMPLES as u64;

#[derive(Deserialize)]
pub(super) struct Probe {
    pub streams: Vec<ProbedStream>,
    #[serde(default)]
    pub format: ProbedFormat,
}

#[derive(Default, Deserialize)]
pub(super) struct ProbedFormat {
    #[serde(default)]
    pub nb_streams: u32,
}

/// A stream in the words of ffprobe, which may leave out any of them.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ProbedStream {
    avg_frame_rate: String,
    r_frame_rate: String,
    pub nb_read_packets: String,
    pix_fmt: String,
    field_order: String,
    sample_aspect_ratio: String,
    color_primaries: String,
    color_transfer: String,
    color_space: String,
    tags: ProbedTags,
    side_data_list: Vec<ProbedSideData>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProbedTags {
    alpha_mode: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProbedSideData {
    dv_profile: u8,
}

/// Entries of a video stream to ask for.
pub(super) const VIDEO_ENTRIES: &str = "stream=avg_frame_rate,r_frame_rate,nb_read_packets,pix_fmt,field_order,sample_aspect_ratio,color_primaries,color_transfer,color_space:stream_tags=alpha_mode:stream_side_data=dv_profile:format=nb_streams";

impl ProbedStream {
    /// Average rate in frames per second, else the base rate.
    pub fn rate(&self) -> Option<f64> {
        rate(&self.avg_frame_rate).or_else(|| rate(&self.r_frame_rate))
    }

    fn is_interlaced(&self) -> bool {
        matches!(self.field_order.as_str(), "tt" | "bb" | "tb" | "bt")
    }

    /// Video filters that deinterlace frames and make their pixels square.
    pub fn filters(&self) -> String {
        let mut filters = Vec::new();
        // Some containers leave the order of fields to each frame. Frames that are not interlaced pass unchanged.
        let is_unknown = self.field_order == "unknown" && self.pix_fmt.starts_with("yuv");
        if self.is_interlaced() || is_unknown {
            filters.push("bwdif=mode=send_frame:deint=interlaced");
        }
        let aspect = self.sample_aspect_ratio.split_once(':');
        let aspect =
            aspect.and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        if !has_square_pixels(aspect) {
            // As `square_size`, after ffmpeg has turned the frame upright.
            filters.push(
                r"scale=w=if(gt(sar\,1)\,round(iw*sar)\,iw):h=if(lt(sar\,1)\,round(ih/sar)\,ih):flags=lanczos+accurate_rnd+full_chroma_int",
            );
        }
        if filters.is_empty() {
            filters.push("null");
        }
        filters.join(",")
    }

    pub fn conversion(&self) -> (Option<ColourConversion>, Option<String>) {
        let primaries = code_of(&PRIMARIES, &self.color_primaries);
        let transfer = code_of(&TRANSFERS, &self.color_transfer);
        colour_conversion(primaries, transfer)
    }

    /// Properties of the file that its frames do not keep, in sentences.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if self.is_interlaced() {
            notices.push("Interlaced frames are deinterlaced".to_owned());
        }
        let alpha_formats = [
            "yuva", "rgba", "bgra", "argb", "abgr", "gbrap", "ya8", "ya16", "ayuv", "vuya",
        ];
        let has_alpha = alpha_formats.iter().any(|it| self.pix_fmt.starts_with(it));
        if has_alpha || self.tags.alpha_mode == "1" {
            notices.push(super::ALPHA_DROPPED.to_owned());
        }
        if UNDONE_MATRICES.contains(&self.color_space.as_str()) {
            let matrix = &self.color_space;
            notices.push(format!(
                "Its colour matrix {matrix} cannot be converted: colours may be wrong"
            ));
        }
        if self.side_data_list.iter().any(|data| data.dv_profile == 5) {
            notices.push(
                "Its Dolby Vision profile 5 cannot be converted: colours are wrong".to_owned(),
            );
        }
        notices
    }
}

/// Colour primaries in ffmpeg's words and their numbers in ITU-T H.273.
const PRIMARIES: [(&str, u8); 11] = [
    ("bt709", 1),
    ("bt470m", 4),
    ("bt470bg", 5),
    ("smpte170m", 6),
    ("smpte240m", 7),
    ("film", 8),
    ("bt2020", 9),
    ("smpte428", 10),
    ("smpte431", 11),
    ("smpte432", 12),
    ("ebu3213", 22),
];

/// Transfer characteristics, likewise.
const TRANSFERS: [(&str, u8); 16] = [
    ("bt709", 1),
    ("bt470m", 4),
    ("bt470bg", 5),
    ("smpte170m", 6),
    ("smpte240m", 7),
    ("linear", 8),
    ("log100", 9),
    ("log316", 10),
    ("iec61966-2-4", 11),
    ("bt1361e", 12),
    ("iec61966-2-1", 13),
    ("bt2020-10", 14),
    ("bt2020-12", 15),
    ("smpte2084", 16),
    ("smpte428", 17),
    ("arib-std-b67", 18),
];

/// Matrices that ffmpeg's scaler takes for BT.601.
const UNDONE_MATRICES: [&str; 5] = [
    "ycgco",
    "smpte2085",
    "chroma-derived-nc",
    "chroma-derived-c",
    "ictcp",
];

fn code_of(table: &[(&str, u8)], name: &str) -> u8 {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map_or(UNSPECIFIED, |(_, code)| *code)
}

/// True if the file at `path` has a track of sound that ffmpeg knows.
pub(in crate::media) fn has_sound(path: &Path, container: &str) -> bool {
    let probed = probe(path, container, "a", &[], "stream=codec_name");
    matches!(probed, Ok(Some(Probe { streams, .. })) if !streams.is_empty())
}

/// The first video stream that is no cover image.
pub(super) const VIDEO_STREAM: &str = "V:0";

/// Runs ffprobe; `None` if it does not understand the file.
pub(super) fn probe(
    path: &Path,
    container: &str,
    streams: &str,
    options: &[&str],
    entries: &str,
) -> Result<Option<Probe>, MediaError> {
    let output = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", streams])
        .args(options)
        .args(["-show_entries", entries, "-of", "json"])
        .args(input(container, path))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|err| MediaError::from_io("start ffprobe", err, path))?;
    Ok(serde_json::from_slice(&output.stdout).ok())
}

/// Starts of the frames in microseconds and the end of the last; `None` where a packet has no time or there are too many.
pub(super) fn packet_times(container: &str, path: &Path) -> Option<Vec<i64>> {
    let mut child = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", VIDEO_STREAM])
        .args(["-show_entries", "packet=pts_time,duration_time,flags"])
        .args(["-of", "compact=print_section=0"])
        .args(input(container, path))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let times = child
        .stdout
        .take()
        .and_then(|packets| read_times(BufReader::new(packets.take(MAX_TIMES_BYTES))));
    // Fails only when it has ended by itself.
    child.kill().ok();
    child.wait().ok();
    times
}

/// Reads lines such as `pts_time=0.040000|duration_time=0.040000|flags=K_`, in any order.
fn read_times(packets: impl BufRead) -> Option<Vec<i64>> {
    let mut frames = Vec::new();
    for line in packets.lines() {
        let line = line.ok()?;
        let field = |name: &str| {
            let mut fields = line.split('|').filter_map(|field| field.split_once('='));
            fields.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let micros = |name: &str| {
            let secs = field(name)?.parse::<f64>().ok()?;
            // What is further away than a century is damage.
            (secs.abs() < 3e9).then(|| (secs * MICROS).round() as i64)
        };
        if line.trim().is_empty() || field("flags").is_some_and(|flags| flags.contains('D')) {
            continue;
        }
        frames.push((micros("pts_time")?, micros("duration_time").unwrap_or(0)));
        if frames.len() > MAX_SAMPLES {
            return None;
        }
    }
    frames.sort_unstable();
    // Frames of VP8 that are not shown have the time of the next one.
    frames.dedup_by_key(|(start, _)| *start);
    let (start, lasts) = *frames.last()?;
    let starts = frames.iter().map(|(start, _)| *start);
    Some(starts.chain([start + lasts]).collect())
}

fn rate(fraction: &str) -> Option<f64> {
    let (above, below) = fraction.split_once('/')?;
    let rate = above.parse::<f64>().ok()? / below.parse::<f64>().ok()?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(json: &str) -> ProbedStream {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn frames_are_deinterlaced_and_made_square_where_the_stream_says_so() {
        let plain = stream(r#"{"field_order": "progressive", "sample_aspect_ratio": "1:1"}"#);
        assert_eq!(plain.filters(), "null");
        assert_eq!(stream("{}").filters(), "null");
        let dvd = stream(r#"{"field_order": "tt", "sample_aspect_ratio": "64:45"}"#);
        let filters = dvd.filters();
        assert!(filters.starts_with("bwdif=mode=send_frame:deint=interlaced,scale="));
        assert_eq!(dvd.notices(), ["Interlaced frames are deinterlaced"]);
    }

    #[test]
    fn transparency_hdr_and_odd_matrices_are_named() {
        let notices = |json: &str| {
            let stream = stream(json);
            let (_, notice) = stream.conversion();
            let notices: Vec<String> = stream.notices().into_iter().chain(notice).collect();
            notices.join("; ")
        };
        let plain = r#"{"pix_fmt": "yuv420p", "color_transfer": "bt709", "color_space": "bt709"}"#;
        assert_eq!(notices(plain), "");
        for (json, expected) in [
            (r#"{"pix_fmt": "yuva444p12le"}"#, "Transparency"),
            (r#"{"tags": {"alpha_mode": "1"}}"#, "Transparency"),
            (r#"{"color_transfer": "smpte2084"}"#, "PQ"),
            (r#"{"color_space": "ycgco"}"#, "ycgco"),
            (r#"{"side_data_list": [{"dv_profile": 5}]}"#, "Dolby Vision"),
        ] {
            let found = notices(json);
            assert!(found.contains(expected), "{json}: {found}");
        }
    }

    #[test]
    fn times_of_packets_are_sorted_and_hidden_frames_left_out() {
        let text = "pts_time=-0.100000|duration_time=0.040000|flags=KD_\n\
            pts_time=0.000000|duration_time=0.040000|flags=K_\n\
            pts_time=0.120000|duration_time=0.040000|flags=__\n\n\
            pts_time=0.040000|duration_time=0.040000|flags=__\n\
            pts_time=0.120000|duration_time=0.200000|flags=__\n";
        let found = read_times(text.as_bytes());
        assert_eq!(found, Some(vec![0, 40_000, 120_000, 160_000]));
        for text in ["", "pts_time=N/A|flags=K_\n", "pts_time=1e40|flags=K_\n"] {
            assert_eq!(read_times(text.as_bytes()), None, "{text}");
        }
    }
}
