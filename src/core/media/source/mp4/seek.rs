//! Reading a movie from one of its frames on: from the nearest entrance before it.
//!
//! Decodes nothing itself.

use super::Movie;
use crate::media::source::NumberedSink;
use crate::media::{MediaError, Picture};

/// A sample from which decoding can begin, and how many shown frames come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entrance {
    sample: usize,
    shown_before: u32,
}

impl Movie {
    /// Gives the shown frames from number `first` on.
    pub fn read_from_frame(
        &mut self,
        first: u32,
        sink: &mut NumberedSink<'_>,
    ) -> Result<(), MediaError> {
        let begin = Entrance {
            sample: 0,
            shown_before: 0,
        };
        let entrance = self.entrance_before(first).unwrap_or(begin);
        let mut has_given = false;
        let read = self.read_numbered(entrance, first, &mut |number, picture| {
            has_given = true;
            sink(number, picture)
        });
        // Some files call frames entrances that are none.
        if read.is_err() && !has_given && entrance != begin {
            return self.read_numbered(begin, first, sink);
        }
        read
    }

    fn read_numbered(
        &mut self,
        entrance: Entrance,
        first: u32,
        sink: &mut NumberedSink<'_>,
    ) -> Result<(), MediaError> {
        let mut number = entrance.shown_before;
        self.read_from(entrance.sample, &mut |picture: Picture| {
            let current = number;
            number += 1;
            if current < first {
                return Ok(());
            }
            sink(current, picture)
        })
    }

    /// The last entrance from which the frame can be decoded, with everything behind it and nothing before it.
    fn entrance_before(&self, frame: u32) -> Option<Entrance> {
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
        Some(Entrance {
            sample,
            shown_before: before as u32,
        })
    }
}
