//! The longest text that a template may become, for who counts its tokens.
//!
//! Draws nothing: of each choice it takes what measures most. Of a wildcard with very many lines only the longest are
//! measured.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::parse::{self, TemplateChoice, TemplatePart};
use super::wildcards::{WildcardFolders, WildcardLines, WildcardLookup};
use super::{PromptError, TaggedPrompt, check_length, comments};

/// Lines of a wildcard, and options of a choice, that are measured.
const MAX_MEASURED: usize = 24;
/// Choices and wildcards that are followed, those within others included.
const MAX_FOLLOWED: usize = 4000;

/// A text as long as a template can become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongestText {
    pub text: String,
    /// True if another seed may give another text.
    pub varies: bool,
}

/// The longest text of a template by `measure`; fails as [`super::expand`] would, for a branch that is not taken too.
pub fn longest(
    template: &str,
    wildcards: &WildcardFolders,
    measure: &mut dyn FnMut(&str) -> usize,
) -> Result<LongestText, PromptError> {
    check_length(template)?;
    let parts = parse::template(&comments::without(template))?;
    let mut following = WildcardSearch {
        lookup: WildcardLookup::new(wildcards, MAX_FOLLOWED),
        followed: BTreeMap::new(),
        measure,
    };
    let text = following.parts(&parts)?;
    Ok(LongestText {
        text: TaggedPrompt::parse(&text)?.text,
        varies: following.lookup.num_choices > 0,
    })
}

struct WildcardSearch<'a> {
    lookup: WildcardLookup<'a>,
    /// Wildcards by name: every occurrence has the same result.
    followed: BTreeMap<String, WildcardLength>,
    measure: &'a mut dyn FnMut(&str) -> usize,
}

#[derive(Clone)]
struct WildcardLength {
    /// Of its longest lines, what measures most first.
    texts: Rc<[String]>,
    num_choices: usize,
    /// Wildcards within wildcards within it.
    height: usize,
}

impl WildcardSearch<'_> {
    fn parts(&mut self, parts: &[TemplatePart]) -> Result<String, PromptError> {
        let mut text = String::new();
        for part in parts {
            match part {
                TemplatePart::Text(plain) => text.push_str(plain),
                TemplatePart::Choice(choice) => text.push_str(&self.choice(choice)?),
                TemplatePart::Wildcard(name) => text.push_str(&self.wildcard(name, None)?),
            }
            check_length(&text)?;
        }
        Ok(text)
    }

    fn choice(&mut self, choice: &TemplateChoice) -> Result<String, PromptError> {
        self.lookup.count()?;
        if let (Some(_), [only]) = (choice.count, &choice.options[..])
            && let [TemplatePart::Wildcard(name)] = &only.parts[..]
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
        let rest = self.sort(&mut texts);
        texts.extend(rest);
        Ok(most(&texts, choice.count, &choice.separator))
    }

    fn wildcard(
        &mut self,
        name: &str,
        choice: Option<&TemplateChoice>,
    ) -> Result<String, PromptError> {
        let lines = self.lookup.enter(name)?;
        let known = self.followed.get(name).filter(|known| {
            // If it exceeds a limit it is followed again, up to the position that the error names.
            self.lookup.has_room(known.num_choices, known.height)
        });
        let followed = match known.cloned() {
            Some(known) => {
                self.lookup.num_choices += known.num_choices;
                let deepest = self.lookup.depth() + known.height;
                self.lookup.deepest = self.lookup.deepest.max(deepest);
                known
            }
            None => self.follow(name, &lines)?,
        };
        self.lookup.leave();
        let count = choice.and_then(|choice| choice.count);
        let separator = choice.map_or("", |choice| choice.separator.as_str());
        let text = most(&followed.texts, count, separator);
        self.lookup.count_text(&text)?;
        Ok(text)
    }

    fn follow(&mut self, name: &str, lines: &WildcardLines) -> Result<WildcardLength, PromptError> {
        let depth = self.lookup.depth();
        let num_choices_before = self.lookup.num_choices;
        let deepest_before = std::mem::replace(&mut self.lookup.deepest, depth);
        let mut texts = Vec::new();
        for line in longest_of(lines) {
            let text = lines.text(line);
            self.lookup.count_text(text)?;
            texts.push(self.parts(&parse::template(text)?)?);
        }
        if texts.is_empty() {
            return Err(PromptError::NoWeight {
                choice: format!("__{name}__"),
            });
        }
        // No more lines were followed than are measured: there is no rest.
        self.sort(&mut texts);
        let followed = WildcardLength {
            texts: texts.into(),
            num_choices: self.lookup.num_choices - num_choices_before,
            height: self.lookup.deepest - depth,
        };
        self.lookup.deepest = self.lookup.deepest.max(deepest_before);
        self.followed.insert(name.to_owned(), followed.clone());
        Ok(followed)
    }

    /// Sorts the longest of the texts by what they measure, the most first, and takes the rest away.
    fn sort(&mut self, texts: &mut Vec<String>) -> Vec<String> {
        texts.sort_by_key(|text| Reverse(text.len()));
        let rest = texts.split_off(texts.len().min(MAX_MEASURED));
        texts.sort_by_cached_key(|text| Reverse((self.measure)(text)));
        rest
    }
}

/// The longest lines that may be chosen, the longest first, of equals the first.
fn longest_of(lines: &WildcardLines) -> Vec<usize> {
    let possible = lines.weights().iter().enumerate();
    let possible = possible.filter(|(_, weight)| **weight > 0.0);
    let mut possible: Vec<usize> = possible.map(|(line, _)| line).collect();
    let key = |line: &usize| (Reverse(lines.text(*line).len()), *line);
    // Sorting all of very many would take its time.
    if possible.len() > MAX_MEASURED {
        possible.select_nth_unstable_by_key(MAX_MEASURED, key);
        possible.truncate(MAX_MEASURED);
    }
    possible.sort_unstable_by_key(key);
    possible
}

/// The first of sorted texts, or as many as may be chosen.
fn most(texts: &[String], count: Option<(usize, usize)>, separator: &str) -> String {
    let Some((_, most)) = count else {
        return texts.first().cloned().unwrap_or_default();
    };
    let chosen: Vec<&str> = texts.iter().take(most).map(|text| text.trim()).collect();
    chosen.join(separator)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn longest_text(
        template: &str,
        wildcards: &WildcardFolders,
    ) -> Result<LongestText, PromptError> {
        longest(template, wildcards, &mut |text| {
            text.split_whitespace().count()
        })
    }

    #[test]
    fn the_longest_branch_of_choices_and_wildcards_is_taken_and_a_missing_one_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("sea.txt"), "calm\nwild and __deep__\n").unwrap();
        fs::write(folder.path().join("deep.txt"), "deep\nvery deep indeed\n").unwrap();
        let wildcards = WildcardFolders::new([folder.path().to_owned()]);
        let blue = "a {red|very dark blue|} {boat|{ship|sailing ship}}";
        for (template, expected, varies) in [
            ("a (red:1.2) boat // no comment", "a (red:1.2) boat", false),
            (blue, "a very dark blue sailing ship", true),
            ("{1-2$$ and $$a|b c|d e f}", "d e f and b c", true),
            ("a __sea__ sea", "a wild and very deep indeed sea", true),
        ] {
            let found = longest_text(template, &wildcards).unwrap();
            assert_eq!((&*found.text, found.varies), (expected, varies));
        }
        let err = longest_text("a __boat__", &wildcards).unwrap_err();
        assert!(err.to_string().contains("__boat__"), "{err}");
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

    #[test]
    fn repeated_wildcard_is_measured_once_and_counts_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(format!("{name}.txt")), text).unwrap();
        };
        write("pair", "a {b|c d}\n{e|f}\n");
        for depth in 1..13 {
            write(&format!("w{depth}"), &format!("__w{}__", depth + 1));
        }
        write("w13", "end");
        let wildcards = WildcardFolders::new([folder.path().to_owned()]);
        let mut num_measured = 0;
        let template = "__pair__, {2$$ and $$__pair__}, __pair__";
        let found = longest(template, &wildcards, &mut |text| {
            num_measured += 1;
            text.len()
        });
        assert_eq!(found.unwrap().text, "a c d, a c d and e, a c d");
        // The options of each line, and both lines.
        assert_eq!(num_measured, 6);
        let err = longest_text(&"__pair__".repeat(1334), &wildcards).unwrap_err();
        assert!(matches!(err, PromptError::TooManyChoices { .. }), "{err}");
        assert!(longest_text(&"__pair__".repeat(1333), &wildcards).is_ok());
        // As deep as allowed, and then one deeper.
        let err = longest_text("__w2__ __w1__", &wildcards).unwrap_err();
        assert!(matches!(err, PromptError::WildcardCircle { .. }), "{err}");
        assert!(longest_text("__w2__ __w3__ __w2__", &wildcards).is_ok());
    }
}
