//! The longest text that a template may become, for who counts its tokens.
//!
//! Draws nothing: of each choice it takes what measures most. Of a wildcard with very many lines only the longest are
//! measured.

use super::parse::{self, Choice, Part};
use super::wildcards::{Lookup, WildcardFolders};
use super::{PromptError, check_length, comments, weights};

/// Lines of a wildcard, and options of a choice, that are measured.
const MAX_MEASURED: usize = 24;
/// Choices and wildcards that are followed, those within others included.
const MAX_FOLLOWED: usize = 4000;

/// A text as long as a template can become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Longest {
    pub text: String,
    /// Whether another seed may give another text.
    pub varies: bool,
}

/// The longest text of a template by `measure`; fails as [`super::expand`] would, for a branch that is not taken too.
pub fn longest(
    template: &str,
    wildcards: &WildcardFolders,
    measure: &mut dyn FnMut(&str) -> usize,
) -> Result<Longest, PromptError> {
    check_length(template)?;
    let parts = parse::template(&comments::without(template))?;
    let mut following = Following {
        lookup: Lookup::of(wildcards, MAX_FOLLOWED),
        measure,
    };
    let text = following.parts(&parts)?;
    Ok(Longest {
        text: weights::without(&text).text,
        varies: following.lookup.num_choices > 0,
    })
}

struct Following<'a> {
    lookup: Lookup<'a>,
    measure: &'a mut dyn FnMut(&str) -> usize,
}

impl Following<'_> {
    fn parts(&mut self, parts: &[Part]) -> Result<String, PromptError> {
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Choice(choice) => text.push_str(&self.choice(choice)?),
                Part::Wildcard(name) => text.push_str(&self.wildcard(name, None)?),
            }
            check_length(&text)?;
        }
        Ok(text)
    }

    fn choice(&mut self, choice: &Choice) -> Result<String, PromptError> {
        self.lookup.count()?;
        if let (Some(_), [only]) = (choice.count, &choice.options[..])
            && let [Part::Wildcard(name)] = &only.parts[..]
        {
            return self.wildcard(name, Some(choice));
        }
        let possible = choice.options.iter().filter(|option| option.weight > 0.0);
        let mut texts = Vec::new();
        for option in possible {
            texts.push(self.parts(&option.parts)?);
        }
        if texts.is_empty() {
            return Err(PromptError::NoWeight {
                choice: choice.written.clone(),
            });
        }
        Ok(self.most(texts, choice.count, &choice.separator))
    }

    fn wildcard(&mut self, name: &str, choice: Option<&Choice>) -> Result<String, PromptError> {
        let lines = self.lookup.enter(name)?;
        let mut written: Vec<&str> = lines
            .iter()
            .filter(|line| line.weight > 0.0)
            .map(|line| line.text.as_str())
            .collect();
        if written.is_empty() {
            return Err(PromptError::NoWeight {
                choice: format!("__{name}__"),
            });
        }
        written.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let mut texts = Vec::new();
        for text in written.into_iter().take(MAX_MEASURED) {
            texts.push(self.parts(&parse::template(text)?)?);
        }
        self.lookup.leave();
        let count = choice.and_then(|choice| choice.count);
        let separator = choice.map_or("", |choice| choice.separator.as_str());
        Ok(self.most(texts, count, separator))
    }

    /// Of several texts the one that measures most, or as many as may be chosen.
    fn most(
        &mut self,
        mut texts: Vec<String>,
        count: Option<(usize, usize)>,
        separator: &str,
    ) -> String {
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        let rest = texts.split_off(texts.len().min(MAX_MEASURED));
        texts.sort_by_cached_key(|text| std::cmp::Reverse((self.measure)(text)));
        let Some((_, most)) = count else {
            return texts.into_iter().next().unwrap_or_default();
        };
        let trimmed: Vec<String> = texts
            .into_iter()
            .chain(rest)
            .take(most)
            .map(|text| text.trim().to_owned())
            .collect();
        trimmed.join(separator)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(template: &str, wildcards: &WildcardFolders) -> Result<Longest, PromptError> {
        longest(template, wildcards, &mut |text| {
            text.split_whitespace().count()
        })
    }

    #[test]
    fn a_plain_text_stays_and_does_not_vary() {
        let found = of(
            "a (red:1.2) boat // no comment",
            &WildcardFolders::default(),
        )
        .unwrap();
        assert_eq!((found.text.as_str(), found.varies), ("a red boat", false));
    }

    #[test]
    fn the_longest_branch_of_each_choice_is_taken() {
        let none = WildcardFolders::default();
        let found = of("a {red|very dark blue|} {boat|{ship|sailing ship}}", &none).unwrap();
        assert_eq!(found.text, "a very dark blue sailing ship");
        assert!(found.varies);
        let several = of("{1-2$$ and $$a|b c|d e f}", &none).unwrap();
        assert_eq!(several.text, "d e f and b c");
    }

    #[test]
    fn wildcards_are_followed_and_a_missing_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sea.txt"), "calm\nwild and __deep__\n").unwrap();
        fs::write(folder.path().join("deep.txt"), "deep\nvery deep indeed\n").unwrap();
        let wildcards = WildcardFolders::new([folder.path().to_owned()]);
        let found = of("a __sea__ sea", &wildcards).unwrap();
        assert_eq!(found.text, "a wild and very deep indeed sea");
        let err = of("a __boat__", &wildcards).unwrap_err().to_string();
        assert!(err.contains("__boat__"), "{err}");
    }

    #[test]
    fn a_huge_wildcard_is_followed_in_its_longest_lines_alone() {
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = (0..50_000).map(|i| format!("word{i}")).collect();
        let text = format!("{}\nthe longest line of all\n", lines.join("\n"));
        fs::write(folder.path().join("many.txt"), text).unwrap();
        let wildcards = WildcardFolders::new([folder.path().to_owned()]);
        let mut num_measured = 0;
        let found = longest("__many__", &wildcards, &mut |text| {
            num_measured += 1;
            text.len()
        });
        assert_eq!(found.unwrap().text, "the longest line of all");
        assert!(num_measured <= MAX_MEASURED, "{num_measured}");
    }
}
