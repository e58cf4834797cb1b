//! Set of a transformer's blocks, numbered through all of its lists.
//!
//! The engine checks that a model has these blocks.

use std::fmt;
use std::str::FromStr;

/// Bit set of the first [`Self::MOST`] blocks, counted from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSet(u64);

impl BlockSet {
    /// More than the largest transformer here has.
    pub const MOST: u32 = u64::BITS;

    /// One block; none at all beyond [`Self::MOST`].
    pub fn single(block: u32) -> Self {
        Self(1_u64.checked_shl(block).unwrap_or_default())
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn holds(self, block: usize) -> bool {
        let block = u32::try_from(block).unwrap_or(Self::MOST);
        self.0 & Self::single(block).0 != 0
    }

    /// The largest number in it.
    pub fn last(self) -> Option<usize> {
        self.iter().last()
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MOST as usize).filter(move |block| self.holds(*block))
    }
}

impl fmt::Display for BlockSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.iter().map(|block| block.to_string()).collect();
        f.write_str(&numbers.join(","))
    }
}

impl FromStr for BlockSet {
    type Err = String;

    /// `9` or `7,8,9`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        for part in text.split(',') {
            let block = part.trim().parse().ok();
            let Some(block) = block.filter(|block| *block < Self::MOST) else {
                let last = Self::MOST - 1;
                return Err(format!(
                    "{text:?} are no blocks: give numbers from 0 to {last} with commas between them, such as 9,10"
                ));
            };
            all.0 |= Self::single(block).0;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_numbers_with_commas_between_them() {
        let blocks: BlockSet = " 10,9, 63".parse().unwrap();
        assert_eq!(blocks.to_string(), "9,10,63");
        assert_eq!(blocks.last(), Some(63));
        assert!(blocks.holds(9) && !blocks.holds(8) && !blocks.holds(64));
        assert_eq!(BlockSet::single(64), BlockSet::default());
        for wrong in ["", "9,", "64", "-1", "a", "9 10"] {
            let message = wrong.parse::<BlockSet>().unwrap_err();
            assert!(message.contains("0 to 63"), "{message}");
        }
    }
}
