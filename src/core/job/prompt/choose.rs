//! Settles a template's choices by the job's seed.
//!
//! Draws with SplitMix64, whose numbers are the same everywhere and for ever: a seed is a promise.

use safelight_loops::hash::{STEP, mixed};

use super::odds::WeightedChoice;
use super::parse::{self, TemplateChoice, TemplatePart};
use super::wildcards::{WildcardFolders, WildcardLookup};
use super::{PromptError, check_length, comments};

/// Choices and wildcards of one prompt, those in wildcards included.
const MAX_CHOICES: usize = 10_000;
/// Options that the choices of several may choose together. So many that are not empty make a text that is too long.
const MAX_CHOSEN: usize = 100_000;

/// The text of `template` with one of everything.
pub(super) fn settle(
    template: &str,
    seed: u64,
    wildcards: &WildcardFolders,
) -> Result<String, PromptError> {
    let parts = parse::template(&comments::without(template))?;
    let mut settling = TemplateResolver {
        draws: SplitMix64(seed),
        lookup: WildcardLookup::new(wildcards, MAX_CHOICES),
        num_chosen: 0,
        text: String::new(),
    };
    settling.parts(&parts)?;
    Ok(settling.text)
}

struct TemplateResolver<'a> {
    draws: SplitMix64,
    lookup: WildcardLookup<'a>,
    /// Options of choices of several, so far.
    num_chosen: usize,
    text: String,
}

impl TemplateResolver<'_> {
    fn parts(&mut self, parts: &[TemplatePart]) -> Result<(), PromptError> {
        for part in parts {
            match part {
                TemplatePart::Text(text) => self.text.push_str(text),
                TemplatePart::Choice(choice) => self.choice(choice)?,
                TemplatePart::Wildcard(name) => self.wildcard(name, None)?,
            }
            check_length(&self.text)?;
        }
        Ok(())
    }

    fn choice(&mut self, choice: &TemplateChoice) -> Result<(), PromptError> {
        self.lookup.count()?;
        // Several of one wildcard are several of its lines.
        if let (Some(_), [only]) = (choice.count, &choice.options[..])
            && let [TemplatePart::Wildcard(name)] = &only.parts[..]
        {
            return self.wildcard(name, Some(choice));
        }
        let mut odds =
            WeightedChoice::from_weights(choice.options.iter().map(|it| it.weight).collect());
        self.several(&mut odds, choice, |settling, chosen| {
            settling.parts(&choice.options[chosen].parts)
        })
    }

    /// A line of a wildcard, or as many as `choice` says.
    fn wildcard(&mut self, name: &str, choice: Option<&TemplateChoice>) -> Result<(), PromptError> {
        let lines = self.lookup.enter(name)?;
        let mut odds = lines.take_odds();
        let one = TemplateChoice {
            written: format!("__{name}__"),
            count: None,
            separator: String::new(),
            options: Vec::new(),
        };
        self.several(&mut odds, choice.unwrap_or(&one), |settling, chosen| {
            let line = lines.text(chosen);
            settling.lookup.count_text(line)?;
            settling.parts(&parse::template(line)?)
        })?;
        lines.keep_odds(odds);
        self.lookup.leave();
        Ok(())
    }

    /// As many as `choice` says of the options with these odds, all different, each put down by `put`.
    fn several(
        &mut self,
        odds: &mut WeightedChoice,
        choice: &TemplateChoice,
        put: impl Fn(&mut Self, usize) -> Result<(), PromptError>,
    ) -> Result<(), PromptError> {
        let num_possible = odds.num_possible();
        if num_possible == 0 {
            return Err(PromptError::NoWeight {
                choice: choice.written.clone(),
            });
        }
        let Some((low, high)) = choice.count else {
            let chosen = odds.place_at(self.draws.fraction());
            return put(self, chosen);
        };
        let (low, high) = (low.min(num_possible), high.min(num_possible));
        let num_chosen = low + self.draws.below(high - low + 1);
        self.num_chosen += num_chosen;
        if self.num_chosen > MAX_CHOSEN {
            return Err(PromptError::TooManyChosen { limit: MAX_CHOSEN });
        }
        for i in 0..num_chosen {
            let chosen = odds.place_at(self.draws.fraction());
            odds.take(chosen);
            if i > 0 {
                self.text.push_str(&choice.separator);
            }
            // Spaces around an option belong to the template, not to the list.
            let start = self.text.len();
            put(self, chosen)?;
            let trimmed = self.text[start..].trim().to_owned();
            self.text.truncate(start);
            self.text.push_str(&trimmed);
            check_length(&self.text)?;
        }
        odds.give_back();
        Ok(())
    }
}

struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mixed(self.0)
    }

    /// From 0 up to but not 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// `count` is more than 0.
    fn below(&mut self, count: usize) -> usize {
        ((self.fraction() * count as f64) as usize).min(count - 1)
    }
}
