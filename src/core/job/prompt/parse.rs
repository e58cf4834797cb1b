//! From a template to its parts.
//!
//! Chooses nothing and opens no file. Never fails on a plain text: what is no whole choice and no name of a wildcard
//! is text.

use std::collections::HashMap;

use super::PromptError;

/// Nesting of braces.
const MAX_DEPTH: usize = 20;

#[derive(Debug, PartialEq)]
pub(super) enum TemplatePart {
    Text(String),
    Choice(TemplateChoice),
    /// The name between the underscores.
    Wildcard(String),
}

#[derive(Debug, PartialEq)]
pub(super) struct TemplateChoice {
    pub written: String,
    /// Minimum and maximum number of chosen options; `None` without `$$`.
    pub count: Option<(usize, usize)>,
    pub separator: String,
    pub options: Vec<WeightedPart>,
}

#[derive(Debug, PartialEq)]
pub(super) struct WeightedPart {
    pub weight: f64,
    pub parts: Vec<TemplatePart>,
}

pub(super) fn template(text: &str) -> Result<Vec<TemplatePart>, PromptError> {
    let closing = closing_braces(text)?;
    TemplateParser { text, closing }.parts(0, text.len(), 0)
}

/// By the place of every brace that is closed, that of the other one.
fn closing_braces(text: &str) -> Result<HashMap<usize, usize>, PromptError> {
    let mut closing = HashMap::new();
    // Positions of open braces, and whether they contain a `|`.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = escaped(&text[at..]).is_some(),
            b'{' => open.push((at, false)),
            b'|' => {
                if let Some(last) = open.last_mut() {
                    last.1 = true;
                }
            }
            b'}' => {
                if let Some((start, _)) = open.pop() {
                    closing.insert(start, at);
                }
            }
            _ => {}
        }
    }
    let is_unclosed =
        |(start, has_options): &&(usize, bool)| *has_options && !is_json_object(&text[*start..]);
    match open.iter().find(is_unclosed) {
        Some(&(start, _)) => Err(PromptError::Unclosed {
            beginning: text[start..].chars().take(24).collect(),
        }),
        None => Ok(closing),
    }
}

struct TemplateParser<'a> {
    text: &'a str,
    closing: HashMap<usize, usize>,
}

impl TemplateParser<'_> {
    fn parts(
        &self,
        start: usize,
        end: usize,
        depth: usize,
    ) -> Result<Vec<TemplatePart>, PromptError> {
        if depth > MAX_DEPTH {
            return Err(PromptError::TooDeep { limit: MAX_DEPTH });
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut at = start;
        while let Some(letter) = self.text[at..end].chars().next() {
            let rest = &self.text[at..end];
            let (found, length) = if let Some(escaped) = escaped(rest) {
                text.push(escaped);
                (None, 1 + escaped.len_utf8())
            } else if let Some(name) = wildcard(rest) {
                (
                    Some(TemplatePart::Wildcard(name.to_owned())),
                    name.len() + 4,
                )
            } else if let Some((choice, length)) = self.choice(at, end, depth)? {
                (Some(TemplatePart::Choice(choice)), length)
            } else {
                text.push(letter);
                (None, letter.len_utf8())
            };
            if let Some(found) = found {
                if !text.is_empty() {
                    parts.push(TemplatePart::Text(std::mem::take(&mut text)));
                }
                parts.push(found);
            }
            at += length;
        }
        if !text.is_empty() {
            parts.push(TemplatePart::Text(text));
        }
        Ok(parts)
    }

    /// Choice whose brace is at `at`, and its length.
    fn choice(
        &self,
        at: usize,
        end: usize,
        depth: usize,
    ) -> Result<Option<(TemplateChoice, usize)>, PromptError> {
        let Some(&close) = self.closing.get(&at).filter(|close| **close < end) else {
            return Ok(None);
        };
        if is_json_object(&self.text[at..end]) {
            return Ok(None);
        }
        let head = head_of(&self.text[at + 1..close]);
        let start = at + 1 + head.length;
        let mut bounds = vec![start];
        bounds.extend(self.bars(start, close));
        if bounds.len() == 1 && head.count.is_none() {
            return Ok(None);
        }
        bounds.push(close + 1);
        let mut options = Vec::with_capacity(bounds.len());
        for pair in bounds.windows(2) {
            let (from, to) = (pair[0], pair[1] - 1);
            let (weight, skipped) = weight_of(&self.text[from..to]);
            options.push(WeightedPart {
                weight,
                parts: self.parts(from + skipped, to, depth + 1)?,
            });
        }
        let choice = TemplateChoice {
            written: self.text[at..=close].to_owned(),
            count: head.count,
            separator: head.separator,
            options,
        };
        Ok(Some((choice, close + 1 - at)))
    }

    /// Positions after every `|` between `start` and `end` that is in no inner braces.
    fn bars(&self, start: usize, end: usize) -> Vec<usize> {
        let bytes = self.text.as_bytes();
        let mut bars = Vec::new();
        let mut at = start;
        while at < end {
            match bytes[at] {
                b'\\' if escaped(&self.text[at..end]).is_some() => at += 1,
                b'|' => bars.push(at + 1),
                b'{' => at = self.closing.get(&at).copied().unwrap_or(at),
                _ => {}
            }
            at += 1;
        }
        bars
    }
}

/// Returns true if the brace at the start of `rest` opens a JSON object: a quoted key and a colon follow.
fn is_json_object(rest: &str) -> bool {
    let key = rest[1..].trim_start();
    let Some(quote) = key.chars().next().filter(|it| "\"'".contains(*it)) else {
        return false;
    };
    // No key is longer; a prompt of quotes alone is read in linear time.
    const MAX_KEY: usize = 200;
    let key = &key[1..key.floor_char_boundary(MAX_KEY)];
    key.find(quote)
        .is_some_and(|end| key[end + 1..].trim_start().starts_with(':'))
}

/// The letter that a backslash makes an ordinary one.
fn escaped(rest: &str) -> Option<char> {
    let letter = rest.strip_prefix('\\')?.chars().next()?;
    "{}|_$:".contains(letter).then_some(letter)
}

fn wildcard(rest: &str) -> Option<&str> {
    const MAX_NAME: usize = 200;
    let behind = rest.strip_prefix("__")?;
    let name = &behind[..behind.find("__")?];
    let is_name = |letter: char| letter.is_alphanumeric() || " -_./*+&'~".contains(letter);
    let first = name.chars().next()?;
    let is_sound = (first.is_alphanumeric() || "*./~".contains(first))
        && !name.ends_with(' ')
        && name.len() <= MAX_NAME
        && name.chars().all(is_name);
    is_sound.then_some(name)
}

struct ChoiceHead {
    length: usize,
    count: Option<(usize, usize)>,
    separator: String,
}

fn head_of(inside: &str) -> ChoiceHead {
    let none = || ChoiceHead {
        length: 0,
        count: None,
        separator: ", ".to_owned(),
    };
    let is_number = |it: char| it.is_ascii_digit() || it == '-' || it == ' ';
    let numbers = &inside[..inside.find(|it| !is_number(it)).unwrap_or(inside.len())];
    let Some(behind) = inside[numbers.len()..].strip_prefix("$$") else {
        return none();
    };
    let Some(count) = count_of(numbers.trim()) else {
        return none();
    };
    let mut head = ChoiceHead {
        length: numbers.len() + 2,
        count: Some(count),
        ..none()
    };
    let separator = &behind[..behind.find(['{', '}', '|', '$']).unwrap_or(behind.len())];
    if behind[separator.len()..].starts_with("$$") {
        head.separator = separator.to_owned();
        head.length += separator.len() + 2;
    }
    head
}

/// `2`, `1-3`, `-3` or `1-`; without an upper bound as many as there are.
fn count_of(numbers: &str) -> Option<(usize, usize)> {
    let number = |text: &str, missing: usize| {
        if text.is_empty() {
            return Some(missing);
        }
        let is_number = text.len() < 6 && text.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    match numbers.split_once('-') {
        _ if numbers.is_empty() || numbers == "-" => None,
        Some((low, high)) => {
            let (low, high) = (number(low, 1)?, number(high, usize::MAX)?);
            Some((low.min(high), high.max(low)))
        }
        None => number(numbers, 1).map(|count| (count, count)),
    }
}

/// The weight that an option or a line of a wildcard file begins with, and how many bytes that takes.
pub(super) fn weight_of(option: &str) -> (f64, usize) {
    const MAX_DIGITS: usize = 9;
    let Some((before, _)) = option.split_once("::") else {
        return (1.0, 0);
    };
    let number = before.trim();
    let is_number = number.starts_with(|it: char| it.is_ascii_digit() || it == '.')
        && number.len() <= MAX_DIGITS
        && number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    match number.parse() {
        Ok(weight) if is_number => (weight, before.len() + 2),
        _ => (1.0, 0),
    }
}
