//! Start times of the frames of videos that do not show all their frames equally long.

use std::sync::Arc;

const MICROS: f64 = 1e6;
/// Deviation from an even rate that is rounding, in microseconds: Matroska counts in milliseconds, and files converted
/// from it keep their steps.
const ROUNDING: f64 = 1010.0;
/// Shortest distance of two frames, in microseconds: no two may start together.
const MIN_STEP: u64 = 100;
/// Longest video, in microseconds: 30 years.
const MAX_LENGTH: f64 = 1e15;

/// Start of each frame in microseconds, increasing from 0, and the end of the last one. Videos with an even rate have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameStarts(Arc<[u64]>);

/// Average rate in frames per second, and the starts of frames that are not even.
pub(super) type FrameTiming = (f64, Option<FrameStarts>);

impl FrameStarts {
    /// At least one frame with these starts, and the end of the last, in microseconds from the first start. What does not
    /// increase is moved.
    #[must_use]
    pub fn from_micros(starts: impl IntoIterator<Item = u64>) -> Self {
        let mut least = 0;
        let starts = starts.into_iter().map(|start| {
            let start = start.max(least);
            least = start.saturating_add(MIN_STEP);
            start
        });
        Self(starts.collect())
    }

    /// Timing of frames that start at `ticks`, of which there are `per_sec` in a second. `ticks` increase, and the last
    /// one is the end of the last frame. The first of `rates` that all frames keep but for rounding makes the video even.
    pub(super) fn find(ticks: &[i64], per_sec: f64, rates: &[f64]) -> FrameTiming {
        let first_rate = rates.first().copied().unwrap_or_default();
        let num_frames = ticks.len().saturating_sub(1);
        let begin = ticks.first().copied().unwrap_or_default();
        let micros = |tick: &i64| (i128::from(*tick) - i128::from(begin)) as f64 * MICROS / per_sec;
        let mut starts: Vec<f64> = ticks.iter().map(micros).collect();
        let length = starts.last().copied().unwrap_or_default();
        if num_frames < 2 || !(0.0..=MAX_LENGTH).contains(&length) {
            return (first_rate, None);
        }
        let last = starts[num_frames - 1];
        if length <= last {
            // The last duration is missing.
            starts[num_frames] = last + last / (num_frames - 1) as f64;
        }
        // A step of the clock more or less is rounding; of a coarse clock, such as a GIF's, two frames that differ by a
        // whole step from the rate are not.
        let tick = MICROS / per_sec;
        let rounding = if tick > ROUNDING {
            tick * 0.9999
        } else {
            ROUNDING
        };
        let is_even = |rate: f64| {
            let period = MICROS / rate;
            let is_in_place = |(index, start): (usize, &f64)| {
                let step = starts[index + 1] - start;
                let is_last = index + 1 == num_frames;
                // The last duration is often cut.
                let lasts_as_long = if is_last {
                    step < 1.5 * period + rounding
                } else {
                    (step - period).abs() <= rounding
                };
                lasts_as_long && (start - index as f64 * period).abs() <= rounding
            };
            rate > 0.0 && starts[..num_frames].iter().enumerate().all(is_in_place)
        };
        if let Some(rate) = rates.iter().find(|rate| is_even(**rate)) {
            return (*rate, None);
        }
        let starts = Self::from_micros(starts.into_iter().map(|start| start.round() as u64));
        (starts.fps(), Some(starts))
    }

    /// Of the frames from `first` to `last`, the first of which starts at 0.
    #[must_use]
    pub(super) fn cut(&self, first: usize, last: usize) -> Self {
        let end = self.0.len() - 1;
        let (first, last) = (first.min(end), (last + 1).min(end));
        let starts = &self.0[first..=last.max(first)];
        Self::from_micros(starts.iter().map(|start| start - starts[0]))
    }

    /// Number of frames, at least 1.
    #[must_use]
    pub fn num_frames(&self) -> usize {
        self.0.len() - 1
    }

    /// Average rate in frames per second.
    #[must_use]
    pub fn fps(&self) -> f64 {
        self.num_frames() as f64 / self.secs(self.num_frames())
    }

    /// Rate of the shortest frame in frames per second.
    #[must_use]
    pub fn peak_fps(&self) -> f64 {
        let steps = self.0.windows(2).map(|two| two[1] - two[0]);
        MICROS / steps.min().unwrap_or(MIN_STEP) as f64
    }

    /// Start of a frame in seconds; after the last one, frames follow at the average rate.
    #[must_use]
    pub fn secs(&self, frame: usize) -> f64 {
        let last = self.0.len() - 1;
        let within = self.0[frame.min(last)] as f64 / MICROS;
        if frame <= last {
            return within;
        }
        within * frame as f64 / last as f64
    }

    /// The frame that is shown at a time; the last one after the end.
    #[must_use]
    pub fn frame_at(&self, secs: f64) -> usize {
        // Seconds are rounded.
        let micros = (secs * MICROS + 0.5) as u64;
        let begun = self.0.partition_point(|start| *start <= micros);
        begun.clamp(1, self.num_frames()) - 1
    }

    /// Number of frames at an even rate, at least 1.
    pub(super) fn num_at(&self, fps: f64) -> usize {
        ((self.secs(self.num_frames()) * fps).round() as usize).max(1)
    }

    /// The frame for number `index` at an even rate: that in the middle of its time. The last frame stays the last.
    pub(super) fn resampled(&self, index: usize, fps: f64) -> usize {
        if index + 1 >= self.num_at(fps) {
            return self.num_frames() - 1;
        }
        self.frame_at((index as f64 + 0.5) / fps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_times_are_even_and_longer_frames_are_not() {
        let of = |per_sec: f64, period: f64| -> Vec<i64> {
            let starts =
                (0..=100).map(|index| (f64::from(index) * period * per_sec).round() as i64);
            starts.collect()
        };
        for (per_sec, rate) in [
            (1000.0, 24.0),
            (100.0, 24.0),
            (1000.0, 29.97),
            (90_000.0, 59.94),
        ] {
            let ticks = of(per_sec, 1.0 / rate);
            assert_eq!(FrameStarts::find(&ticks, per_sec, &[rate]), (rate, None));
        }
        // A rate that a file tells wrongly leaves the one that its frames have.
        let found = FrameStarts::find(&of(90_000.0, 0.04), 90_000.0, &[60.0, 25.0]);
        assert_eq!(found, (25.0, None));
        let mut long = of(1000.0, 0.04);
        long[100] += 5000;
        let (fps, starts) = FrameStarts::find(&long, 1000.0, &[25.0]);
        let starts = starts.expect("the last frame lasts five seconds longer");
        assert!((fps - 100.0 / 9.0).abs() < 1e-9);
        assert_eq!((starts.secs(99), starts.secs(100)), (3.96, 9.0));
        // Delays of 3 and 5 hundredths are no rounded 4.
        let ticks = [0, 3, 8, 11, 16];
        assert!(FrameStarts::find(&ticks, 100.0, &[25.0]).1.is_some());
    }

    #[test]
    fn a_time_finds_its_frame_and_resampling_keeps_count_and_ends() {
        let starts = FrameStarts::from_micros([0, 100_000, 120_000, 140_000, 640_000, 700_000]);
        assert_eq!(
            [0.0, 0.1, 0.13, 0.5, 9.0].map(|secs| starts.frame_at(secs)),
            [0, 1, 2, 3, 4]
        );
        assert!((starts.secs(10) - 1.4).abs() < 1e-9);
        let at = |fps: f64| -> Vec<usize> {
            let all = 0..starts.num_at(fps);
            all.map(|index| starts.resampled(index, fps)).collect()
        };
        assert_eq!(at(starts.fps()), [0, 3, 3, 3, 4]);
        // Each moment of a faster rate shows the frame of that moment, for as long as the video is.
        assert_eq!(at(20.0), [0, 0, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4]);
        assert_eq!(at(0.1), [4]);
    }

    #[test]
    fn times_of_damaged_files_stay_in_order() {
        let ticks = [i64::MIN, 0, i64::MAX];
        assert_eq!(FrameStarts::find(&ticks, 1.0, &[25.0]), (25.0, None));
        let (_, starts) = FrameStarts::find(&[0, 0, 0, 900], 1000.0, &[25.0]);
        let starts = starts.expect("uneven");
        assert!(starts.secs(1) > 0.0 && starts.secs(2) > starts.secs(1));
        assert_eq!(FrameStarts::find(&[], 1000.0, &[]), (0.0, None));
    }
}
