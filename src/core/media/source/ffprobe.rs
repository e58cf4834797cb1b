//! Properties of a video and the times of its frames, as the user's ffprobe reports them.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::display::{PixelAspect, UNSPECIFIED, VideoColours, has_square_pixels};
use super::ffmpeg::input;
use super::mp4::MAX_SAMPLES;
use crate::media::MediaError;
use crate::media::colour::{PQ, declared_peak};

/// Microseconds per second.
pub(super) const MICROS: f64 = 1e6;

/// Streams of a video, or frames of one, and the packets of the first stream.
#[derive(Default)]
pub(super) struct ProbedFile {
    pub streams: Vec<ProbedStream>,
    pub num_packets: u32,
    /// Start and duration of each shown packet in microseconds; `None` where one has no time or there are too many.
    packets: Option<Vec<(i64, i64)>>,
    /// Number of all streams of the file.
    pub num_streams: u32,
    /// Length in seconds that the header of the file declares; 0 without one.
    declared_secs: f64,
}

/// A stream or frame in the words of ffprobe, which may leave out any of them.
#[derive(Default)]
pub(super) struct ProbedStream {
    fields: BTreeMap<String, String>,
}

/// Entries of a video stream and its packets to ask for.
pub(super) const VIDEO_ENTRIES: &str = "packet=pts_time,duration_time,flags:stream=codec_name,nb_frames,avg_frame_rate,r_frame_rate,pix_fmt,field_order,sample_aspect_ratio,color_primaries,color_transfer,color_space:stream_tags=alpha_mode,DURATION:stream_side_data=dv_profile,max_content,max_luminance:format=nb_streams,duration";

/// Entries of all streams to count them by kind.
pub(super) const TRACK_ENTRIES: &str = "stream=codec_type:stream_disposition=attached_pic";

/// Containers whose length ffprobe guesses from the last packets.
const GUESSED: [&str; 4] = ["mpegts", "mpeg", "mpegvideo", "ogg"];
/// Difference of a declared length and that of the frames that is no loss, in seconds.
const DECLARED_TOLERANCE: f64 = 0.5;

impl ProbedStream {
    /// An entry, or a tag or entry of side data by its last name; empty where it is absent.
    pub fn get(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Average rate in frames per second, else the base rate.
    pub fn rate(&self) -> Option<f64> {
        rate(self.get("avg_frame_rate")).or_else(|| rate(self.get("r_frame_rate")))
    }

    fn is_interlaced(&self) -> bool {
        matches!(self.get("field_order"), "tt" | "bb" | "tb" | "bt")
    }

    pub fn pixel_aspect(&self) -> PixelAspect {
        let (width, height) = self.get("sample_aspect_ratio").split_once(':')?;
        Some((width.parse().ok()?, height.parse().ok()?))
    }

    /// Video filters that deinterlace frames and make their pixels square.
    pub fn filters(&self) -> String {
        let mut filters = Vec::new();
        // Some containers leave the order of fields to each frame. Frames that are not interlaced pass unchanged.
        let is_unknown =
            self.get("field_order") == "unknown" && self.get("pix_fmt").starts_with("yuv");
        if self.is_interlaced() || is_unknown {
            filters.push("bwdif=mode=send_frame:deint=interlaced");
        }
        if !has_square_pixels(self.pixel_aspect()) {
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

    /// Peak of PQ as the stream declares it, in cd/m².
    fn peak(&self) -> Option<f64> {
        let max_cll = self.get("max_content").parse().unwrap_or(0.0);
        let mastering = rate(self.get("max_luminance")).unwrap_or(0.0);
        declared_peak(max_cll, mastering)
    }

    /// Returns true if the peak of PQ is not declared; its frames may declare it.
    pub fn lacks_peak(&self) -> bool {
        code_of(&TRANSFERS, self.get("color_transfer")) == PQ && self.peak().is_none()
    }

    /// Adds the entries that this lacks.
    pub fn fill_from(&mut self, frame: Self) {
        for (name, value) in frame.fields {
            self.fields.entry(name).or_insert(value);
        }
    }

    pub fn colours(&self) -> VideoColours {
        let primaries = code_of(&PRIMARIES, self.get("color_primaries"));
        let transfer = code_of(&TRANSFERS, self.get("color_transfer"));
        VideoColours::new(primaries, transfer, self.peak())
    }

    pub fn has_alpha(&self) -> bool {
        let formats = [
            "yuva", "rgba", "bgra", "argb", "abgr", "gbrap", "ya8", "ya16", "ayuv", "vuya",
        ];
        let is_format = |start: &&str| self.get("pix_fmt").starts_with(start);
        formats.iter().any(is_format) || self.get("alpha_mode") == "1"
    }

    /// Properties of the file that its frames do not keep, in sentences.
    pub fn notices(&self) -> Vec<String> {
        let mut notices = Vec::new();
        if self.is_interlaced() {
            notices.push("Interlaced frames are deinterlaced".to_owned());
        }
        let matrix = self.get("color_space");
        if UNDONE_MATRICES.contains(&matrix) {
            notices.push(format!(
                "Its colour matrix {matrix} cannot be converted: colours may be wrong"
            ));
        }
        if self.get("dv_profile") == "5" {
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

/// Entries of a frame's side data, and the option that asks for the first frame alone.
pub(super) const PEAK_ENTRIES: &str = "frame_side_data=max_content,max_luminance";
pub(super) const FIRST_FRAME: [&str; 2] = ["-read_intervals", "%+#1"];

/// The first video stream that is no cover image.
pub(super) const VIDEO_STREAM: &str = "V:0";

/// Runs ffprobe on some streams of the file, or on all; what it does not understand has none.
pub(super) fn probe(
    path: &Path,
    container: &str,
    streams: Option<&str>,
    entries: &str,
    options: &[&str],
) -> Result<ProbedFile, MediaError> {
    let failed = |err| MediaError::from_io("start ffprobe", &err, path);
    let mut child = Command::new("ffprobe")
        .args(["-v", "error"])
        .args(streams.into_iter().flat_map(|it| ["-select_streams", it]))
        .args(["-show_entries", entries, "-of", "compact"])
        .args(options)
        .args(input(container, path))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let found = child
        .stdout
        .take()
        .map(|out| ProbedFile::read(BufReader::new(out)));
    // Fails only if it has ended already.
    child.kill().ok();
    child.wait().ok();
    found
        .unwrap_or_else(|| Ok(ProbedFile::default()))
        .map_err(failed)
}

impl ProbedFile {
    /// Reads lines such as `packet|pts_time=0.040000|duration_time=0.040000|flags=K_`, entries in any order.
    fn read(lines: impl BufRead) -> io::Result<Self> {
        let mut probe = Self {
            packets: Some(Vec::new()),
            ..Self::default()
        };
        for line in lines.split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            let mut parts = line.trim_end().split('|');
            let section = parts.next();
            // Tags and side data have prefixes, such as `tag:`.
            let fields = parts.filter_map(|part| part.split_once('='));
            let fields = fields.map(|(name, value)| (name.rsplit(':').next(), value));
            match section {
                Some("packet") => probe.add_packet(fields),
                // More side data of a stream or frame is on separate lines.
                Some("stream" | "frame" | "side_data") => {
                    if section != Some("side_data") {
                        probe.streams.push(ProbedStream::default());
                    }
                    let named = fields
                        .filter_map(|(name, value)| Some((name?.to_owned(), value.to_owned())));
                    if let Some(last) = probe.streams.last_mut() {
                        last.fields.extend(named);
                    }
                }
                Some("format") => {
                    for (name, value) in fields {
                        match name {
                            Some("nb_streams") => probe.num_streams = value.parse().unwrap_or(0),
                            Some("duration") => probe.declared_secs = value.parse().unwrap_or(0.0),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(probe)
    }

    fn add_packet<'a>(&mut self, fields: impl Iterator<Item = (Option<&'a str>, &'a str)>) {
        self.num_packets += 1;
        let (mut start, mut lasts) = (None, 0);
        for (name, value) in fields {
            let micros = || {
                let secs = value.parse::<f64>().ok()?;
                // Times beyond a century are damage.
                (secs.abs() < 3e9).then(|| (secs * MICROS).round() as i64)
            };
            match name {
                Some("pts_time") => start = micros(),
                Some("duration_time") => lasts = micros().unwrap_or(0),
                // Decoded and not shown.
                Some("flags") if value.contains('D') => return,
                _ => {}
            }
        }
        let is_room = self.num_packets as usize <= MAX_SAMPLES;
        self.packets =
            self.packets
                .take()
                .zip(start)
                .filter(|_| is_room)
                .map(|(mut packets, start)| {
                    packets.push((start, lasts));
                    packets
                });
    }

    /// A sentence if fewer seconds were found than the file declares, or if it is cut off.
    pub fn shortfall(&self, found_secs: f64, container: &str, is_cut: bool) -> Option<String> {
        let stream = self.streams.first()?;
        let tag = stream.get("DURATION").split(':').map(str::parse::<f64>);
        let of_tag = tag
            .map(Result::ok)
            .try_fold(0.0, |sum, part| Some(sum * 60.0 + part?));
        let num_frames = stream.get("nb_frames").parse::<f64>().ok();
        let of_frames = num_frames.zip(rate(stream.get("r_frame_rate")));
        // Other streams may be longer.
        let is_of_video = (is_cut || self.num_streams == 1) && !GUESSED.contains(&container);
        let declared = of_tag
            .or_else(|| of_frames.map(|(frames, rate)| frames / rate))
            .or_else(|| is_of_video.then_some(self.declared_secs))
            .filter(|secs| secs.is_finite() && *secs > found_secs + DECLARED_TOLERANCE);
        match declared {
            Some(secs) => Some(format!(
                "The file is incomplete: it says {secs:.1} s, and only {found_secs:.1} s can be read"
            )),
            None => is_cut.then(|| {
                let num_frames = self.num_packets;
                format!("The file is incomplete: only {num_frames} of its frames can be read")
            }),
        }
    }

    /// Starts of the frames in microseconds and the end of the last; `None` where a packet has no time or there are too
    /// many.
    pub fn times(&self) -> Option<Vec<i64>> {
        let mut frames = self.packets.clone()?;
        frames.sort_unstable();
        // Frames of VP8 that are not shown have the time of the next one.
        frames.dedup_by_key(|(start, _)| *start);
        let (start, lasts) = *frames.last()?;
        let starts = frames.iter().map(|(start, _)| *start);
        Some(starts.chain([start + lasts]).collect())
    }
}

fn rate(fraction: &str) -> Option<f64> {
    let (above, below) = fraction.split_once('/')?;
    let rate = above.parse::<f64>().ok()? / below.parse::<f64>().ok()?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(fields: &str) -> ProbedStream {
        let probe = ProbedFile::read(format!("stream|{fields}\nformat|nb_streams=2\n").as_bytes());
        let ProbedFile {
            mut streams,
            num_streams,
            ..
        } = probe.unwrap();
        assert_eq!((streams.len(), num_streams), (1, 2));
        streams.remove(0)
    }

    #[test]
    fn interlaced_frames_are_deinterlaced_and_non_square_pixels_scaled() {
        let plain = stream("field_order=progressive|sample_aspect_ratio=1:1");
        assert_eq!(plain.filters(), "null");
        assert_eq!(stream("").filters(), "null");
        let dvd = stream("field_order=tt|sample_aspect_ratio=64:45");
        let filters = dvd.filters();
        assert!(filters.starts_with("bwdif=mode=send_frame:deint=interlaced,scale="));
        assert_eq!(dvd.notices(), ["Interlaced frames are deinterlaced"]);
    }

    #[test]
    fn hdr_and_odd_matrices_are_named_and_transparency_is_found() {
        let notices = |fields: &str| {
            let stream = stream(fields);
            let notice = stream.colours().notice;
            let notices: Vec<String> = stream.notices().into_iter().chain(notice).collect();
            notices.join("; ")
        };
        assert_eq!(
            notices("pix_fmt=yuv420p|color_transfer=bt709|color_space=bt709"),
            ""
        );
        for (fields, expected) in [
            ("color_transfer=smpte2084", "1000 cd/m² assumed"),
            (
                "color_transfer=smpte2084|side_datum/mastering_display_metadata:max_luminance=40000000/10000",
                "a peak of 4000 cd/m²",
            ),
            (
                "color_transfer=smpte2084|side_data|max_luminance=40000000/10000\nside_data|max_content=1200",
                "a peak of 1200 cd/m²",
            ),
            ("color_space=ycgco", "ycgco"),
            ("side_data|dv_profile=5", "Dolby Vision"),
        ] {
            let found = notices(fields);
            assert!(found.contains(expected), "{fields}: {found}");
        }
        for fields in ["pix_fmt=yuva444p12le", "pix_fmt=yuv420p|tag:alpha_mode=1"] {
            assert!(stream(fields).has_alpha(), "{fields}");
        }
    }

    #[test]
    fn a_peak_that_only_the_frames_declare_counts() {
        let mut hdr = stream("color_transfer=smpte2084|color_primaries=bt2020");
        assert!(hdr.lacks_peak() && !stream("color_transfer=bt709").lacks_peak());
        hdr.fill_from(stream(
            "color_transfer=bt709|side_data|max_luminance=40000000/10000",
        ));
        let notice = hdr.colours().notice.unwrap();
        assert!(notice.contains("PQ with a peak of 4000 cd/m²"), "{notice}");
    }

    #[test]
    fn video_shorter_than_declared_is_reported_as_incomplete() {
        let message = |stream: &str, format: &str, container: &str, is_cut| {
            let text = format!("stream|r_frame_rate=25/1|{stream}\nformat|{format}\n");
            let probe = ProbedFile::read(text.as_bytes()).unwrap();
            probe.shortfall(2.0, container, is_cut)
        };
        let says = |secs: &str| {
            let text = "The file is incomplete: it says SECS s, and only 2.0 s can be read";
            Some(text.replace("SECS", secs))
        };
        let whole = "nb_streams=1|duration=4.0";
        let tag = "tag:DURATION=00:01:04.020000000";
        assert_eq!(message(tag, whole, "matroska", false), says("64.0"));
        assert_eq!(message("nb_frames=100", whole, "avi", false), says("4.0"));
        assert_eq!(message("nb_frames=N/A", whole, "flv", false), says("4.0"));
        // The length may be that of the sound, or guessed.
        let sound = "nb_streams=2|duration=4.0";
        assert_eq!(message("", sound, "flv", false), None);
        assert_eq!(message("", sound, "flv", true), says("4.0"));
        assert_eq!(message("", whole, "mpegts", false), None);
        let cut = "The file is incomplete: only 0 of its frames can be read";
        assert_eq!(message("", whole, "mpegts", true).as_deref(), Some(cut));
        assert_eq!(message("nb_frames=51", whole, "avi", false), None);
    }

    #[test]
    fn times_of_packets_are_sorted_and_hidden_frames_left_out() {
        let text = "packet|pts_time=-0.100000|duration_time=0.040000|flags=KD_\n\
            packet|pts_time=0.000000|duration_time=0.040000|flags=K_|side_data|\n\n\
            packet|pts_time=0.120000|duration_time=0.040000|flags=__\n\n\
            packet|pts_time=0.040000|duration_time=0.040000|flags=__\n\
            packet|pts_time=0.120000|duration_time=0.200000|flags=__\n";
        let probe = ProbedFile::read(text.as_bytes()).unwrap();
        assert_eq!(probe.times(), Some(vec![0, 40_000, 120_000, 160_000]));
        assert_eq!(probe.num_packets, 5);
        for text in [
            "",
            "packet|pts_time=N/A|flags=K_\n",
            "packet|pts_time=1e40|flags=K_\n",
        ] {
            assert_eq!(
                ProbedFile::read(text.as_bytes()).unwrap().times(),
                None,
                "{text}"
            );
        }
    }
}
