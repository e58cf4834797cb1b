//! Start and duration of each frame on the clock of a file format.

use super::VideoOptions;
use crate::media::FrameStarts;

/// Frame times in whole units of a format's clock. Rounding does not accumulate.
#[derive(Clone)]
pub(super) struct FrameTimes {
    /// Exact rate in frames per second: 24000/1001 for 23.976.
    pub fps: f64,
    /// Units per second of an exact clock: for whole rates, thousandths, and the 1000/1001 of television.
    #[cfg_attr(not(feature = "h264"), expect(dead_code, reason = "only MP4 has one"))]
    pub timescale: u32,
    starts: Option<FrameStarts>,
    /// As [`VideoOptions::num_plays`].
    pub num_plays: u16,
}

impl FrameTimes {
    pub fn new(options: &VideoOptions) -> Self {
        let fps = options.fps;
        let num_plays = options.num_plays;
        let television = (fps * 1.001).round();
        let (timescale, delta) = if options.starts.is_some() {
            // The clock of MPEG's own streams.
            return Self {
                fps,
                timescale: 90_000,
                starts: options.starts.clone(),
                num_plays,
            };
        } else if fps.fract() != 0.0 && (fps - television / 1.001).abs() < 1e-3 {
            (television as u32 * 1000, 1001)
        } else {
            ((fps * 1000.0).round() as u32, 1000)
        };
        Self {
            fps: f64::from(timescale) / f64::from(delta),
            timescale,
            starts: None,
            num_plays,
        }
    }

    /// Start of `frame`, counted from 0, on a clock of `units` per second.
    pub fn start(&self, frame: u64, units: f64) -> u64 {
        let secs = |starts: &FrameStarts| starts.secs(usize::try_from(frame).unwrap_or(usize::MAX));
        let start = match &self.starts {
            Some(starts) => secs(starts) * units,
            None => frame as f64 * units / self.fps,
        };
        start.round() as u64
    }

    /// Duration of `frame`, so that the next one begins in time.
    pub fn lasting(&self, frame: u64, units: f64) -> u64 {
        self.start(frame + 1, units) - self.start(frame, units)
    }
}
