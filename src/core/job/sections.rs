//! Videos that are made section by section (FramePack): how many sections there are, in which order they come, which
//! latents each of them decodes, and where its frames belong in the video that grows.
//!
//! Plain numbers: worker and engine count with the same ones. Knows no tensors and no files.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::model::choices::SectionOrder;

/// Frames of one latent frame, as the autoencoder of HunyuanVideo packs them.
const FRAMES_A_LATENT: u32 = 4;
/// Latent frames of a section, as published.
pub const WINDOW: u32 = 9;
/// As many as a file may ask for: lists are as long as it says, and a form asks for a few hundred at most.
const COUNTS: RangeInclusive<u32> = 1..=4096;
/// Latent frames of a section in a file.
const WINDOWS: RangeInclusive<u32> = 1..=32;
/// Frames of a given video that F1 is shown, as many as its 19 latent frames of history hold.
pub const SEEN_FRAMES: u32 = 73;

/// Sections of a video. Values from files are checked against the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenSections")]
pub struct VideoSections {
    /// Number of sections, at least 1.
    pub count: u32,
    /// Latent frames of one section, at least 1.
    pub window: u32,
    pub order: SectionOrder,
    /// Latent frames before the generated ones, at least 1: that of the start image, or the last ones of a video that
    /// F1 extends.
    pub lead: u32,
}

#[derive(Deserialize)]
struct WrittenSections {
    count: u32,
    window: u32,
    order: SectionOrder,
    lead: u32,
}

impl TryFrom<WrittenSections> for VideoSections {
    type Error = String;

    fn try_from(written: WrittenSections) -> Result<Self, String> {
        for (what, range, found) in [
            ("sections", COUNTS, written.count),
            ("latent frames a section", WINDOWS, written.window),
            ("latent frames in front", 0..=written.window, written.lead),
        ] {
            if !range.contains(&found) {
                let (least, most) = range.into_inner();
                return Err(format!("expected {least} to {most} {what}, found {found}"));
            }
        }
        Ok(Self {
            count: written.count,
            window: written.window,
            order: written.order,
            lead: written.lead,
        })
    }
}

/// Frames of one section's decoding, and their position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionFrames {
    /// Decoded latent frames: those of the section and, for the overlap, of the section made before it; also those
    /// before the generated ones in the video's first section.
    pub num_latents: u32,
    /// Frames that the decoder gives, and that the engine sends.
    pub num_frames: u32,
    /// Position in the video made so far.
    pub at: u32,
    /// Number of frames from there on that are replaced: the overlap of both sections, blended.
    pub replaces: u32,
}

impl VideoSections {
    /// Number of sections for a duration, as in the original: always at 30 frames per second.
    pub fn in_secs(secs: f64, window: u32) -> u32 {
        let frames = f64::from(FRAMES_A_LATENT * window.max(1));
        // To the nearest even number from the middle between two, as Python rounds.
        (secs * 30.0 / frames).round_ties_even().max(1.0) as u32
    }

    /// As many sections as diffusers makes for a number of frames: it counts each without the frames that join it.
    pub fn for_frames(num_frames: u32, window: u32) -> u32 {
        num_frames.div_ceil(Self::overlap_of(window)).max(1)
    }

    /// Latent frames before the generated ones, for an extended video of this length: at most the overlap of two
    /// sections.
    pub fn lead_of(num_frames: u32, window: u32) -> u32 {
        let whole = num_frames.saturating_sub(1) / FRAMES_A_LATENT + 1;
        whole.clamp(1, window.max(1))
    }

    /// Frames of the whole video, with those of its [lead](Self::lead).
    pub fn num_frames(&self) -> u32 {
        // A requested duration may need any number of sections.
        let new = self.count.saturating_mul(self.frames_a_section());
        new.saturating_add(self.lead_frames())
    }

    /// Duration that gives exactly this number of sections.
    pub fn secs(&self) -> f64 {
        f64::from(self.count) * f64::from(self.frames_a_section()) / 30.0
    }

    /// Frames in front of what is made: 1 of an image, or those where a video is gone on from.
    pub fn lead_frames(&self) -> u32 {
        FRAMES_A_LATENT * self.lead.saturating_sub(1) + 1
    }

    pub fn frames_a_section(&self) -> u32 {
        FRAMES_A_LATENT * self.window
    }

    /// Frames that neighbouring sections share where they are joined.
    pub fn overlap(&self) -> u32 {
        Self::overlap_of(self.window)
    }

    fn overlap_of(window: u32) -> u32 {
        FRAMES_A_LATENT * window.saturating_sub(1) + 1
    }

    /// Returns whether the section, in the order of generation, is the last one.
    pub fn is_last(&self, section: u32) -> bool {
        section + 1 >= self.count
    }

    /// Index of the section in the video, counted from its start.
    pub fn position(&self, section: u32) -> u32 {
        match self.order {
            SectionOrder::Original => self.count.saturating_sub(section + 1),
            SectionOrder::F1 => section,
        }
    }

    /// Number of sections between this one and the start image, as counted by the original FramePack: in long videos
    /// fewer than there are. Always 0 for F1.
    pub fn padding(&self, section: u32) -> u32 {
        let left = self.count.saturating_sub(section + 1);
        match self.order {
            SectionOrder::F1 => 0,
            SectionOrder::Original if self.count <= 4 => left,
            SectionOrder::Original if section == 0 => 3,
            SectionOrder::Original => left.min(2),
        }
    }

    /// Frames of the video once the section, counted as they are made, has joined it.
    pub fn num_frames_after(&self, section: u32) -> u32 {
        let latents = self.window * (section + 1);
        match self.order {
            // The start image comes last.
            SectionOrder::Original if !self.is_last(section) => FRAMES_A_LATENT * (latents - 1) + 1,
            _ => FRAMES_A_LATENT * latents + self.lead_frames(),
        }
    }

    /// Frames of the section's decoding, in the order of generation.
    pub fn decoded(&self, section: u32) -> SectionFrames {
        let lead = match self.order {
            SectionOrder::Original => u32::from(self.is_last(section)),
            SectionOrder::F1 if section == 0 => self.lead.max(1),
            SectionOrder::F1 => 0,
        };
        let own = if section == 0 { 1 } else { 2 };
        let num_latents = own * self.window + lead;
        let num_frames = FRAMES_A_LATENT * (num_latents - 1) + 1;
        let Some(before) = section.checked_sub(1) else {
            return SectionFrames {
                num_latents,
                num_frames,
                at: 0,
                replaces: 0,
            };
        };
        let at = match self.order {
            SectionOrder::Original => 0,
            SectionOrder::F1 => self.num_frames_after(before) - self.overlap(),
        };
        SectionFrames {
            num_latents,
            num_frames,
            at,
            replaces: self.overlap(),
        }
    }

    /// The seconds of the video that the section makes, from its start to its end.
    pub fn span(&self, section: u32, fps: f64) -> (f64, f64) {
        let secs = |sections: u32| f64::from(sections * self.frames_a_section()) / fps;
        let position = self.position(section);
        (secs(position), secs(position + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(count: u32, window: u32, order: SectionOrder) -> VideoSections {
        VideoSections {
            count,
            window,
            order,
            lead: 1,
        }
    }

    #[test]
    fn seconds_and_frames_become_as_many_sections_as_in_the_original_and_in_diffusers() {
        // Of 3 s, 2.5 sections: Python rounds to the even number.
        let secs = [0.1, 1.0, 2.0, 3.0, 5.0, 10.0, 60.0];
        let counts = secs.map(|secs| VideoSections::in_secs(secs, 9));
        assert_eq!(counts, [1, 1, 2, 2, 4, 8, 50]);
        let frames = [1, 33, 34, 40, 66, 73, 150];
        let counts = frames.map(|frames| VideoSections::for_frames(frames, 9));
        assert_eq!(counts, [1, 1, 2, 2, 2, 3, 5]);
        assert_eq!(VideoSections::for_frames(40, 5), 3);
    }

    #[test]
    fn paddings_are_the_originals_with_the_trick_for_long_videos() {
        let paddings = |count| -> Vec<u32> {
            let all = sections(count, 9, SectionOrder::Original);
            (0..count).map(|section| all.padding(section)).collect()
        };
        assert_eq!(paddings(1), [0]);
        assert_eq!(paddings(4), [3, 2, 1, 0]);
        assert_eq!(paddings(5), [3, 2, 2, 1, 0]);
        assert_eq!(paddings(8), [3, 2, 2, 2, 2, 2, 1, 0]);
    }

    #[test]
    fn the_frames_of_all_sections_join_to_one_video_in_either_order() {
        for order in SectionOrder::ALL {
            for count in 1..7 {
                for window in [1, 2, 5, 9] {
                    let all = sections(count, window, order);
                    let mut len = 0;
                    for section in 0..count {
                        let part = all.decoded(section);
                        assert!(part.at + part.replaces <= len || section == 0);
                        len = len + part.num_frames - part.replaces;
                        assert_eq!(len, all.num_frames_after(section), "{all:?} {section}");
                    }
                    assert_eq!(len, all.num_frames());
                }
            }
        }
        let part = sections(2, 9, SectionOrder::Original).decoded(1);
        assert_eq!(part.num_latents, 19);
        assert_eq!(part.num_frames, 73);
        assert_eq!(part.replaces, 33);
        let part = sections(3, 9, SectionOrder::F1).decoded(2);
        assert_eq!(part.num_latents, 18);
        assert_eq!(part.num_frames, 69);
        assert_eq!(part.at, 73 - 33);
    }

    #[test]
    fn lead_of_a_continued_video_is_capped_at_the_section_window() {
        for (frames, lead) in [(1, 1), (4, 1), (5, 2), (32, 8), (33, 9), (500, 9)] {
            assert_eq!(VideoSections::lead_of(frames, 9), lead, "{frames}");
        }
        for lead in [1, 2, 9] {
            let all = VideoSections {
                lead,
                ..sections(3, 9, SectionOrder::F1)
            };
            let first = all.decoded(0);
            assert_eq!(first.num_latents, lead + 9);
            let mut len = 0;
            for section in 0..3 {
                let part = all.decoded(section);
                len = len + part.num_frames - part.replaces;
                assert_eq!(len, all.num_frames_after(section), "{all:?} {section}");
            }
            assert_eq!((len, all.num_frames()), (3 * 36 + 4 * lead - 3, len));
        }
    }

    #[test]
    fn numbers_of_a_file_that_no_video_has_are_refused_in_a_sentence() {
        let read = |count: u32, window: u32, lead: u32| {
            let json = serde_json::json!({
                "count": count, "window": window, "order": "original", "lead": lead,
            });
            serde_json::from_value::<VideoSections>(json).map_err(|err| err.to_string())
        };
        let longest = read(4096, 32, 32).unwrap();
        assert_eq!(longest.num_frames(), 4096 * 4 * 32 + 125);
        let window = "1 to 32 latent frames a section";
        for ([count, window, lead], expected, found) in [
            ([u32::MAX, 9, 1], "1 to 4096 sections", u32::MAX),
            ([0, 9, 1], "1 to 4096 sections", 0),
            ([1, u32::MAX, 1], window, u32::MAX),
            ([1, 0, 0], window, 0),
            ([1, 9, 10], "0 to 9 latent frames in front", 10),
        ] {
            let expected = format!("expected {expected}, found {found}");
            assert_eq!(read(count, window, lead).unwrap_err(), expected);
        }
    }

    #[test]
    fn section_count_saturates_for_any_duration_and_spans_match_their_order() {
        let count = VideoSections::in_secs(1e300, 9);
        let all = sections(count, 9, SectionOrder::Original);
        assert_eq!((count, all.num_frames()), (u32::MAX, u32::MAX));
        assert_eq!(sections(4, 9, SectionOrder::F1).secs(), 4.8);
        let all = sections(3, 9, SectionOrder::Original);
        assert_eq!(all.span(0, 30.0), (2.4, 3.6));
        assert_eq!(sections(3, 9, SectionOrder::F1).span(0, 30.0), (0.0, 1.2));
    }
}
