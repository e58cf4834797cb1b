//! Choice of a job's seed and of the next one.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::GenerateForm;
use crate::enum_macros::labelled;

labelled! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum SeedMode {
        #[default]
        Random = "Random",
        Fixed = "Fixed",
        Increment = "Increment",
    }
}

impl SeedMode {
    /// The seed that follows `seed`, when `num_used` have been used from that on.
    pub fn next(self, seed: u64, num_used: u64) -> u64 {
        match self {
            Self::Random => random_seed(),
            Self::Fixed => seed,
            Self::Increment => seed.wrapping_add(num_used),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeedChoice {
    /// `-1`, as in A1111, ComfyUI's scripts and many others.
    Random,
    Fixed(u64),
}

impl FromStr for SeedChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "-1" | "\u{2212}1" => Ok(Self::Random),
            number => number.parse().map(Self::Fixed).map_err(|_err| wrong(text)),
        }
    }
}

/// Random seed, short enough to be read out and typed again.
pub fn random_seed() -> u64 {
    // Each `RandomState` has random keys: no crate is needed for one number.
    RandomState::new().build_hasher().finish() % 1_000_000_000
}

impl GenerateForm {
    pub fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
        self.typed_seed = None;
    }

    /// Parses typed text as the seed; text that is not a number is kept for further editing.
    pub fn type_seed(&mut self, text: String) {
        match text.parse() {
            Ok(SeedChoice::Fixed(seed)) => self.set_seed(seed),
            Ok(SeedChoice::Random) => self.set_random_seed(),
            Err(_) => self.typed_seed = Some(text),
        }
    }

    pub fn set_random_seed(&mut self) {
        self.set_seed(random_seed());
        self.seed_mode = SeedMode::Random;
    }

    pub fn seed_text(&self) -> String {
        let typed = self.typed_seed.clone();
        typed.unwrap_or_else(|| self.seed.to_string())
    }

    /// Goes on to the next seed, when those from this one on have been used. What is no number stays, except where
    /// every seed is a new one.
    pub fn advance_seed(&mut self, num_used: u64) {
        if self.typed_seed.is_none() || self.seed_mode == SeedMode::Random {
            self.set_seed(self.seed_mode.next(self.seed, num_used.max(1)));
        }
    }
}

pub(super) fn wrong(text: &str) -> String {
    format!(
        "the seed must be a whole number from 0 to {}, or -1 for a random one, not {text:?}",
        u64::MAX
    )
}

/// Sentence on a first seed from which `count` seeds would exceed the last.
pub(crate) fn beyond_last(first: u64, count: u32) -> Option<String> {
    let more = u64::from(count.saturating_sub(1));
    first.checked_add(more).is_none().then(|| {
        format!(
            "the seed must be at most {} for a batch of {count}, which counts up from it, not {first}",
            u64::MAX - more
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mode: SeedMode, seed: &str, num_used: u64) -> String {
        let mut form = GenerateForm {
            seed_mode: mode,
            ..GenerateForm::default()
        };
        form.type_seed(seed.to_owned());
        form.advance_seed(num_used);
        form.seed_text()
    }

    #[test]
    fn next_seed_follows_the_seed_mode() {
        assert_eq!(after(SeedMode::Fixed, "7", 4), "7");
        assert_eq!(after(SeedMode::Increment, " 7 ", 4), "11");
        assert_eq!(after(SeedMode::Increment, "18446744073709551615", 1), "0");
        assert_eq!(after(SeedMode::Increment, "seven", 1), "seven");
        assert_ne!(after(SeedMode::Random, "7", 1), "7");
    }

    #[test]
    fn minus_one_is_a_random_seed() {
        let mut form = GenerateForm {
            seed_mode: SeedMode::Fixed,
            seed: u64::MAX,
            ..GenerateForm::default()
        };
        form.type_seed(" -1 ".to_owned());
        assert!(form.seed < u64::MAX && form.typed_seed.is_none());
        assert_eq!(form.seed_mode, SeedMode::Random);
        for text in ["-2", "-", "1.5", ""] {
            assert!(text.parse::<SeedChoice>().is_err(), "{text}");
        }
    }
}
