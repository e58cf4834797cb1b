//! Which seed comes after one that was used.

use safelight_core::job::random_seed;
use serde::{Deserialize, Serialize};

use crate::app::form::FormState;

/// Where the next job's seed comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SeedMode {
    /// A new one each time.
    #[default]
    Random,
    /// The same again.
    Fixed,
    /// The next number.
    Increment,
}

impl SeedMode {
    pub const ALL: [Self; 3] = [Self::Random, Self::Fixed, Self::Increment];

    pub fn label(self) -> &'static str {
        match self {
            Self::Random => "Random",
            Self::Fixed => "Fixed",
            Self::Increment => "Increment",
        }
    }

    /// What it does, for `thing`s.
    pub fn meaning(self, thing: &str) -> String {
        match self {
            Self::Random => format!("Every new {thing} gets a new seed"),
            Self::Fixed => format!("Every {thing} uses this seed, until you change it"),
            Self::Increment => format!("Every new {thing} gets the next number, one more"),
        }
    }
}

impl FormState {
    /// Puts the next seed in the field, when those from the one in it on have been used.
    pub(in crate::app) fn advance_seed(&mut self, num_used: u64) {
        match self.seed_mode {
            SeedMode::Random => self.seed = random_seed().to_string(),
            SeedMode::Fixed => {}
            SeedMode::Increment => {
                // What is no number is told beside the field.
                if let Ok(seed) = self.seed.trim().parse::<u64>() {
                    self.seed = seed.wrapping_add(num_used.max(1)).to_string();
                }
            }
        }
    }

    /// The first seed of each of several prompts that are made of one form, which uses `seeds_each`.
    pub(super) fn seed_of_prompt(&self, first: u64, index: usize, seeds_each: u64) -> u64 {
        match self.seed_mode {
            _ if index == 0 => first,
            SeedMode::Random => random_seed(),
            SeedMode::Fixed => first,
            SeedMode::Increment => first.wrapping_add((index as u64).wrapping_mul(seeds_each)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mode: SeedMode, seed: &str, num_used: u64) -> String {
        let mut form = FormState {
            seed: seed.to_owned(),
            seed_mode: mode,
            ..FormState::default()
        };
        form.advance_seed(num_used);
        form.seed
    }

    #[test]
    fn a_used_seed_is_followed_as_its_mode_says() {
        assert_eq!(after(SeedMode::Fixed, "7", 4), "7");
        assert_eq!(after(SeedMode::Increment, " 7 ", 4), "11");
        assert_eq!(after(SeedMode::Increment, "18446744073709551615", 1), "0");
        assert_eq!(after(SeedMode::Increment, "seven", 1), "seven");
        assert_ne!(after(SeedMode::Random, "7", 1), "7");
    }
}
