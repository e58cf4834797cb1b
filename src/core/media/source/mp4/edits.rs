//! Shown ranges of a track's time.
//!
//! Reads no bytes: the track has the edit list.

/// A stretch of the track's time that is shown; the end is open when absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrackEdit {
    pub begin: i64,
    pub end: Option<i64>,
    /// Time at which it is presented, in the track's units.
    pub at: i64,
}

/// Time ranges that any of a track's edits shows, in no order: they only decide whether a time is shown at all.
pub(super) struct ShownEdits {
    /// In the order of time and with gaps between them, so that a time is found in few steps: a file may have millions
    /// of edits, and a million samples to ask for cost it nothing. All times are shown where absent.
    stretches: Option<Vec<TrackEdit>>,
}

impl ShownEdits {
    /// All times where there are no edits.
    pub fn from_edits(mut edits: Vec<TrackEdit>) -> Self {
        if edits.is_empty() {
            return Self { stretches: None };
        }
        // Edits that are shorter than a unit show nothing; a track of only such ones shows nothing at all.
        edits.retain(|edit| edit.end.is_none_or(|end| edit.begin < end));
        edits.sort_unstable_by_key(|edit| edit.begin);
        edits.dedup_by(|next, last| {
            let follows = next.at - last.at == next.begin - last.begin;
            let is_joined =
                (last.end).is_none_or(|end| next.begin < end || next.begin == end && follows);
            if is_joined {
                // An open end stays open.
                last.end = last.end.zip(next.end).map(|(one, other)| one.max(other));
            }
            is_joined
        });
        Self {
            stretches: Some(edits),
        }
    }

    pub fn includes(&self, time: i64) -> bool {
        self.presented(time, 0).is_some()
    }

    /// Start and end in the presentation of a frame of that time and duration; `None` where it is not shown.
    pub fn presented(&self, time: i64, lasts: u32) -> Option<[i64; 2]> {
        let end = time.saturating_add(lasts.into());
        let Some(stretches) = &self.stretches else {
            return Some([time, end]);
        };
        let num_begun = stretches.partition_point(|stretch| stretch.begin <= time);
        let last = stretches[..num_begun].last()?;
        last.end.is_none_or(|end| time < end).then(|| {
            let end = last.end.map_or(end, |cut| cut.min(end));
            [time, end].map(|time| last.at.saturating_add(time - last.begin))
        })
    }
}

#[cfg(test)]
mod tests {
    use safelight_loops::hash::{STEP, mixed};

    use super::*;

    fn edit(begin: i64, end: impl Into<Option<i64>>) -> TrackEdit {
        let (end, at) = (end.into(), begin);
        TrackEdit { begin, end, at }
    }

    /// Looks through all edits.
    fn is_shown(edits: &[TrackEdit], time: i64) -> bool {
        edits.is_empty()
            || edits
                .iter()
                .any(|edit| edit.begin <= time && edit.end.is_none_or(|end| time < end))
    }

    #[test]
    fn edits_that_overlap_touch_or_show_nothing_become_stretches_with_gaps() {
        let shown = ShownEdits::from_edits(vec![
            edit(20, 20),
            edit(5, 9),
            edit(7, 8),
            edit(0, 5),
            edit(30, None),
            edit(12, 15),
            edit(31, 40),
        ]);
        let expected = vec![edit(0, 9), edit(12, 15), edit(30, None)];
        assert_eq!(shown.stretches, Some(expected));
    }

    #[test]
    fn times_follow_the_order_of_the_edits_and_the_gaps_between_them() {
        let at = |at, begin, end| TrackEdit {
            at,
            ..edit(begin, end)
        };
        // The second follows the first at once, the third after a gap.
        let shown = ShownEdits::from_edits(vec![at(5, 10, 20), at(15, 30, 40), at(90, 40, 44)]);
        let found = [9, 10, 19, 25, 30, 39, 40, 43, 44].map(|time| shown.presented(time, 2));
        let expected = [
            None,
            Some([5, 7]),
            Some([14, 15]),
            None,
            Some([15, 17]),
            Some([24, 25]),
            Some([90, 92]),
            Some([93, 94]),
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn no_edits_show_everything_and_empty_ones_nothing() {
        for time in [i64::MIN, -1, 0, 3, i64::MAX] {
            assert!(ShownEdits::from_edits(Vec::new()).includes(time), "{time}");
            assert!(
                !ShownEdits::from_edits(vec![edit(3, 3)]).includes(time),
                "{time}"
            );
        }
    }

    #[test]
    fn a_time_is_shown_where_a_look_through_all_edits_finds_it() {
        let mut sum = 7_u64;
        let mut below = |count: u64| {
            sum = sum.wrapping_add(STEP);
            (mixed(sum) % count).cast_signed()
        };
        for round in 0..400 {
            let count = below(12);
            let mut edits = Vec::new();
            for _ in 0..count {
                // Some at the end of all time, where an open end is not the same as the last number.
                let from = if below(8) == 0 { i64::MAX - 60 } else { 0 };
                let begin = from + below(48);
                let end = match below(16) {
                    0 => None,
                    1 => Some(i64::MAX),
                    _ => Some(begin + below(9)),
                };
                edits.push(edit(begin, end));
            }
            let shown = ShownEdits::from_edits(edits.clone());
            let times = (-2..60).chain(i64::MAX - 62..=i64::MAX);
            for time in times.chain([i64::MIN, 1 << 40]) {
                let expected = is_shown(&edits, time);
                assert_eq!(
                    shown.includes(time),
                    expected,
                    "{round}: {time} of {edits:?}"
                );
            }
        }
    }
}
