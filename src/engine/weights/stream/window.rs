//! Positions in a ring buffer: taken one after the other, and released in the same order.
//!
//! Handles numbers only, no memory.

use std::collections::VecDeque;

/// Every place begins at a multiple of this, as allocators' blocks do: kernels choose by how numbers are aligned.
pub(super) const ALIGNMENT: usize = 512;

pub(super) struct RingWindow {
    capacity: usize,
    /// Start and end of what is taken, the oldest first.
    taken: VecDeque<(usize, usize)>,
}

impl RingWindow {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            taken: VecDeque::new(),
        }
    }

    /// Position of `len` bytes; `None` if there is no contiguous room for them.
    pub(super) fn take(&mut self, len: usize) -> Option<usize> {
        let len = len.max(1).next_multiple_of(ALIGNMENT);
        let start = match (self.taken.front(), self.taken.back()) {
            (Some(&(oldest, _)), Some(&(newest, end))) if newest >= oldest => {
                // Behind the newest, or again from the beginning up to the oldest.
                if self.capacity - end >= len {
                    end
                } else if oldest >= len {
                    0
                } else {
                    return None;
                }
            }
            (Some(&(oldest, _)), Some(&(_, end))) if oldest - end >= len => end,
            (None, None) if len <= self.capacity => 0,
            _ => return None,
        };
        self.taken.push_back((start, start + len));
        Some(start)
    }

    /// Gives back what was taken last.
    pub(super) fn undo(&mut self) {
        self.taken.pop_back();
    }

    /// Gives back what was taken first.
    pub(super) fn give_back(&mut self) {
        self.taken.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_places_overlap_and_none_leaves_the_buffer() {
        let mut seed = 3_u64;
        let mut random = |most: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % most
        };
        for capacity in [ALIGNMENT, 4 * ALIGNMENT, 100 * ALIGNMENT] {
            let mut window = RingWindow::new(capacity);
            let mut taken: VecDeque<(usize, usize)> = VecDeque::new();
            for _ in 0..3000 {
                if random(3) == 0 {
                    window.give_back();
                    taken.pop_front();
                    continue;
                }
                let len = random(capacity) + 1;
                let Some(start) = window.take(len) else {
                    assert!(!taken.is_empty(), "an empty buffer has room for all");
                    continue;
                };
                let end = start + len;
                assert!(end <= capacity && start % ALIGNMENT == 0);
                let apart =
                    |&(other, other_end): &(usize, usize)| end <= other || other_end <= start;
                assert!(taken.iter().all(apart), "{start}..{end} of {taken:?}");
                taken.push_back((start, end));
            }
        }
    }
}
