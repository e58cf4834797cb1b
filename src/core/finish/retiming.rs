//! Frames of an interpolated video: the two source frames around each of them, and its position between these.
//!
//! Frame `n` is shown from the time `n / fps` on and the last one as long as the others, so the length stays the same;
//! after the last source frame, that frame is repeated. The new frames are even, also if those of the source are not.

use std::ops::RangeInclusive;

use crate::media::{FrameStarts, VideoInfo};

/// Numbers of new frames per source frame.
pub const TIMES: RangeInclusive<u32> = 2..=16;
/// Highest rate of a new video in frames per second.
pub const MAX_FPS: f64 = 240.0;
/// Distance, in frames of the old video, below which a position counts as that of the frame.
const NEAR: f64 = 1e-3;

/// Positions of the frames of a new video among those of an old one.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameRetiming {
    /// Frames of the source, at least 1.
    num_old: u32,
    num_new: u32,
    /// Frames a second of the new video.
    fps: f64,
    /// From one new frame to the next, in old ones.
    step: f64,
    /// Of the old frames where they are uneven.
    starts: Option<FrameStarts>,
}

/// Position of a new frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FramePlace {
    /// The old frame at it or before it, counted from 0.
    pub frame: u32,
    /// Part of the way to the next old frame, from 0 to below 1; 0 is the old frame itself.
    pub time: f64,
}

impl FrameRetiming {
    /// `times` frames for each, at `times` the rate. `fps`: rate of the old video. The error is a sentence.
    pub fn times(num_frames: u32, fps: f64, times: u32) -> Result<Self, String> {
        if !TIMES.contains(&times) {
            let (least, most) = TIMES.into_inner();
            return Err(format!(
                "choose {least} to {most} frames for each frame, not {times}"
            ));
        }
        let wanted = fps * f64::from(times);
        if wanted > MAX_FPS {
            return Err(format!(
                "the new video would have {:.0} frames a second: choose so many for each frame that they are at most {MAX_FPS}",
                wanted.ceil()
            ));
        }
        Self::new(num_frames, fps, wanted)
    }

    /// `wanted` frames per second, more than the old video's `fps`. The error is a sentence.
    pub fn to_fps(num_frames: u32, fps: f64, wanted: f64) -> Result<Self, String> {
        if !wanted.is_finite() || wanted <= 0.0 || wanted > MAX_FPS {
            return Err(format!(
                "choose up to {MAX_FPS} frames a second, not {wanted}"
            ));
        }
        if wanted <= fps {
            return Err(format!(
                "the video has {} frames a second already: choose more",
                (fps * 100.0).round() / 100.0
            ));
        }
        Self::new(num_frames, fps, wanted)
    }

    /// From the properties of both videos, which [`times`](Self::times) or [`to_fps`](Self::to_fps) has accepted.
    #[must_use]
    pub fn between(before: &VideoInfo, after: &VideoInfo) -> Self {
        Self {
            num_old: before.num_frames.max(1),
            num_new: after.num_frames,
            fps: after.fps,
            step: before.fps / after.fps,
            starts: None,
        }
    }

    /// With the starts of the old frames, where they are uneven.
    #[must_use]
    pub fn with_starts(self, starts: Option<FrameStarts>) -> Self {
        Self { starts, ..self }
    }

    fn new(num_old: u32, fps: f64, wanted: f64) -> Result<Self, String> {
        if num_old < 2 {
            return Err("this is a single image, and frames are made between two".to_owned());
        }
        if !fps.is_finite() || fps <= 0.0 {
            return Err("the video does not say how many frames a second it has".to_owned());
        }
        let count = (f64::from(num_old) * wanted / fps).round();
        if !(1.0..=f64::from(u32::MAX)).contains(&count) {
            return Err(format!("the new video would have {count} frames"));
        }
        Ok(Self {
            num_old,
            num_new: count as u32,
            fps: wanted,
            step: fps / wanted,
            starts: None,
        })
    }

    /// Number of frames of the new video.
    #[must_use]
    pub fn num_frames(&self) -> u32 {
        self.num_new
    }

    /// Frames a second of the new video.
    #[must_use]
    pub fn fps(&self) -> f64 {
        self.fps
    }

    /// Position of a frame of the new video, counted from 0.
    #[must_use]
    pub fn place(&self, index: u32) -> FramePlace {
        let place = self.starts.as_ref().map_or_else(
            || f64::from(index) * self.step,
            |starts| {
                let secs = f64::from(index) / self.fps;
                let frame = starts.frame_at(secs);
                let [start, end] = [frame, frame + 1].map(|frame| starts.secs(frame));
                frame as f64 + ((secs - start) / (end - start)).clamp(0.0, 1.0)
            },
        );
        let nearest = place.round();
        let place = if (place - nearest).abs() < NEAR {
            nearest
        } else {
            place
        };
        let last = self.num_old - 1;
        if place >= f64::from(last) {
            return FramePlace {
                frame: last,
                time: 0.0,
            };
        }
        FramePlace {
            frame: place as u32,
            time: place.fract(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(retiming: &FrameRetiming) -> Vec<(u32, f64)> {
        let all = (0..retiming.num_frames()).map(|index| retiming.place(index));
        all.map(|place| (place.frame, place.time)).collect()
    }

    #[test]
    fn doubled_frames_are_the_old_ones_and_one_between_each_two() {
        let doubled = FrameRetiming::times(3, 16.0, 2).unwrap();
        assert!((doubled.fps() - 32.0).abs() < 1e-9);
        let expected = [(0, 0.0), (0, 0.5), (1, 0.0), (1, 0.5), (2, 0.0), (2, 0.0)];
        assert_eq!(places(&doubled), expected);
    }

    #[test]
    fn four_frames_for_each_lie_at_quarters() {
        let found = places(&FrameRetiming::times(2, 24_000.0 / 1001.0, 4).unwrap());
        let expected = [(0, 0.0), (0, 0.25), (0, 0.5), (0, 0.75)];
        assert_eq!(found[..4], expected);
        assert_eq!(found[4..], [(1, 0.0); 4]);
    }

    #[test]
    fn target_fps_maps_output_frames_to_fractional_source_positions() {
        let found = places(&FrameRetiming::to_fps(4, 16.0, 24.0).unwrap());
        let third = 1.0 / 3.0;
        let expected = [
            (0, 0.0),
            (0, 2.0 * third),
            (1, third),
            (2, 0.0),
            (2, 2.0 * third),
            (3, 0.0),
        ];
        assert_eq!(found.len(), expected.len());
        for ((frame, time), (expected_frame, expected_time)) in found.into_iter().zip(expected) {
            assert_eq!(frame, expected_frame);
            assert!((time - expected_time).abs() < 1e-9);
        }
    }

    #[test]
    fn a_new_video_is_as_long_as_the_old_one() {
        for (num_frames, fps, wanted) in [
            (81, 16.0, 30.0),
            (121, 24.0, 60.0),
            (1000, 30_000.0 / 1001.0, 60_000.0 / 1001.0),
            (2, 5.0, 240.0),
        ] {
            let retiming = FrameRetiming::to_fps(num_frames, fps, wanted).unwrap();
            let old = f64::from(num_frames) / fps;
            let new = f64::from(retiming.num_frames()) / retiming.fps();
            // To the nearest frame.
            assert!((old - new).abs() <= 0.5 / wanted + 1e-9, "{old} {new}");
        }
        for times in TIMES {
            let retiming = FrameRetiming::times(81, 15.0, times).unwrap();
            assert_eq!(retiming.num_frames(), 81 * times);
        }
    }

    #[test]
    fn frames_of_uneven_times_lie_where_their_moments_are() {
        let starts = FrameStarts::from_micros([0, 100_000, 150_000, 350_000, 400_000]);
        let before = VideoInfo {
            width: 8,
            height: 8,
            fps: starts.fps(),
            num_frames: 4,
            is_uneven: true,
        };
        let after = VideoInfo {
            fps: 20.0,
            num_frames: 8,
            is_uneven: false,
            ..before
        };
        let retiming = FrameRetiming::between(&before, &after).with_starts(Some(starts));
        let expected = [0.0, 0.5, 1.0, 2.0, 2.25, 2.5, 2.75, 3.0];
        for ((frame, time), expected) in places(&retiming).into_iter().zip(expected) {
            let holds = (f64::from(frame) + time - expected).abs() < 1e-9;
            assert!(holds, "{expected}");
        }
    }

    #[test]
    fn places_go_forward_and_end_at_the_last_frame() {
        let retiming = FrameRetiming::to_fps(300, 29.97, 59.94).unwrap();
        let found = places(&retiming);
        let along = |(frame, time): (u32, f64)| f64::from(frame) + time;
        assert!(
            found
                .windows(2)
                .all(|two| along(two[0]) <= along(two[1]) && two[1].1 < 1.0)
        );
        // Rates that round do not lead past frames that are met exactly.
        assert_eq!(found[598], (299, 0.0));
        assert_eq!(found[300], (150, 0.0));
    }

    #[test]
    fn invalid_retimings_are_refused_with_a_reason() {
        let told = |made: Result<FrameRetiming, String>| made.unwrap_err();
        assert!(told(FrameRetiming::to_fps(81, 30.0, 30.0)).contains("30 frames a second already"));
        assert!(told(FrameRetiming::to_fps(81, 30.0, 1e9)).contains("up to 240"));
        assert!(told(FrameRetiming::to_fps(81, 30.0, f64::NAN)).contains("up to 240"));
        assert!(told(FrameRetiming::times(81, 30.0, 1)).contains("2 to 16"));
        assert!(told(FrameRetiming::times(64, 64.6, 4)).contains("would have 259 frames a second"));
        assert!(told(FrameRetiming::times(1, 16.0, 2)).contains("a single image"));
        assert!(told(FrameRetiming::times(8, 0.0, 2)).contains("does not say"));
    }
}
