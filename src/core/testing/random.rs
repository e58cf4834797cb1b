//! Numbers that look random and are equal in every run.

use safelight_loops::hash::{STEP, mixed};

/// `SplitMix64`.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(STEP);
        (mixed(self.0) % end as u64) as usize
    }

    /// Fewer than `end` bytes.
    pub(crate) fn bytes(&mut self, end: usize) -> Vec<u8> {
        let count = self.below(end);
        (0..count).map(|_| self.below(256) as u8).collect()
    }

    /// `whole` with fewer than `end` of its bytes changed, from a place before `before` on.
    pub(crate) fn damaged(&mut self, whole: &[u8], end: usize, before: usize) -> Vec<u8> {
        let mut damaged = whole.to_vec();
        let at = self.below(before).min(damaged.len());
        let bytes = self.bytes(end);
        for (byte, new) in damaged[at..].iter_mut().zip(bytes) {
            *byte = new;
        }
        damaged
    }
}
