//! Reading a movie from one of its frames on: from the nearest sync sample before it.

use super::Mp4Source;
use crate::media::MediaError;
use crate::media::source::NumberedSink;

impl Mp4Source {
    /// Gives the shown frames from number `first` on.
    pub fn read_from_frame(
        &mut self,
        first: u32,
        sink: &mut NumberedSink<'_>,
    ) -> Result<(), MediaError> {
        let mut has_given = false;
        // Some files call samples sync samples that are none.
        for (sample, shown_before) in [self.keyframe_before(first), (0, 0)] {
            let mut number = shown_before;
            let read = self.read_from(sample, &mut |frame| {
                let current = number;
                number += 1;
                if current < first {
                    return Ok(());
                }
                has_given = true;
                sink(current, frame)
            });
            if read.is_ok() || has_given || sample == 0 {
                return read;
            }
        }
        Ok(())
    }

    /// The last sample from which the frame can be decoded, with everything after it and nothing before it, and the
    /// number of shown frames before.
    fn keyframe_before(&self, frame: u32) -> (usize, u32) {
        self.find_keyframe(frame).unwrap_or_default()
    }

    fn find_keyframe(&self, frame: u32) -> Option<(usize, u32)> {
        let samples = &self.track.samples;
        let shown = self.times.iter().filter(|time| self.track.is_shown(**time));
        let last = || shown.clone().next_back();
        let wanted = *shown.clone().nth(frame as usize).or_else(last)?;
        // The earliest time of a sample and all that follow it, from the end on.
        let mut earliest = vec![i64::MAX; samples.len() + 1];
        for (at, sample) in samples.iter().enumerate().rev() {
            earliest[at] = earliest[at + 1].min(sample.shown_at);
        }
        let mut latest_before = i64::MIN;
        let mut found = None;
        for (at, sample) in samples.iter().enumerate() {
            let begin = sample.shown_at;
            let is_clean = earliest[at] >= begin && latest_before < begin;
            if at > 0 && sample.is_sync && begin <= wanted && is_clean {
                found = Some((at, begin));
            }
            latest_before = latest_before.max(begin);
        }
        let (sample, begin) = found?;
        let before = shown.take_while(|time| **time < begin).count();
        Some((sample, before as u32))
    }
}
