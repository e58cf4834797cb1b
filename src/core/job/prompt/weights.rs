//! Weights of words, such as `(word:1.2)`, as ComfyUI reads them; [`a1111_weights`](super::a1111_weights) has A1111's.
//!
//! `(words)` are 1.1 times the weight around them, `(words:1.3)` have the weight 1.3 whatever is around them, and `\(`
//! and `\)` are the characters themselves. Square brackets are text. After a `)` too many the next `(` is text, too. From
//! a `(` without its `)` to the end all is text, except where the end is a `)`, which then closes it.

use std::ops::Range;

use super::a1111_weights::a1111_parts;
use crate::enum_macros::{named, parsed};
use crate::sanitize::one_line;

/// Factor of `(words)`.
const FACTOR: f64 = 1.1;
/// A weight beyond this is more likely a time or a ratio, such as in `(16:9)`.
const LARGEST: f64 = 5.0;

/// Words with the same weight.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedText {
    pub text: String,
    pub weight: f64,
}

impl WeightedText {
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            weight: 1.0,
        }
    }
}

named! {
    /// Rules by which words of a prompt have weights.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum PromptWeights {
        #[default]
        Off = "off", "Off";
        Comfy = "comfyui", "ComfyUI";
        A1111 = "a1111", "A1111";
    }
}
parsed!(PromptWeights, "a rule for prompt weights");

/// Meaning of brackets in a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BracketUse {
    /// Text, like backslashes before them.
    #[default]
    Text,
    /// Text, with `\(` for `(`: what ComfyUI does for text encoders without weights.
    Unescaped,
    Weights,
    /// Weights as A1111 reads them; SDXL also divides and weighs prompts as A1111.
    A1111,
}

impl BracketUse {
    /// A prompt as parts for a text encoder, at least one.
    pub fn parts(self, prompt: &str) -> Vec<WeightedText> {
        let mut parts = match self {
            Self::Text => vec![WeightedText::plain(prompt)],
            Self::Unescaped => {
                let text = prompt.replace("\\)", ")").replace("\\(", "(");
                vec![WeightedText::plain(text)]
            }
            Self::Weights => weighted_parts(prompt),
            Self::A1111 => a1111_parts(prompt),
        };
        if parts.is_empty() {
            parts.push(WeightedText::plain(""));
        }
        parts
    }

    /// A sentence on weights in a prompt that have no effect, or an unlikely one. `model`: the name of its family.
    pub fn notice(self, prompt: &str, model: &str) -> Option<String> {
        let parts = if self == Self::A1111 {
            a1111_parts(prompt)
        } else {
            weighted_parts(prompt)
        };
        let words = |is_it: &dyn Fn(f64) -> bool| {
            let part = parts.iter().find(|part| is_it(part.weight))?;
            Some(one_line(part.text.trim(), 80).into_owned())
        };
        // Plain brackets are ordinary writing.
        let weighted = || words(&|weight| weight != 1.0 && weight != FACTOR);
        match self {
            Self::Weights | Self::A1111 => words(&|weight| weight.abs() > LARGEST).map(|words| {
                format!("\"{words}\" has a very large weight: write \\( and \\) for brackets that are text")
            }),
            Self::Unescaped => weighted().map(|words| {
                format!("{model} does not use prompt weights: the brackets and numbers around \"{words}\" are read as text")
            }),
            Self::Text => weighted().map(|words| {
                format!("Prompt weights are off: the brackets and numbers around \"{words}\" are read as text")
            }),
        }
    }
}

/// A text in which `weighted_parts` finds no weights.
pub fn escaped(text: &str) -> String {
    text.replace('(', "\\(").replace(')', "\\)")
}

/// A bracket that is not text.
#[derive(Clone, Copy)]
struct RoundBracket {
    /// Position in the text without escapes.
    at: usize,
    /// Index of the other bracket; an opening one comes before it, and may have none.
    other: Option<usize>,
}

/// The words of a prompt with their weights, in order. Takes time in proportion to the length.
fn weighted_parts(prompt: &str) -> Vec<WeightedText> {
    let (text, mut brackets) = brackets_of(prompt);
    let mut parts = Vec::new();
    let mut add = |range: Range<usize>, weight| {
        let words = text.get(range).filter(|words| !words.is_empty());
        parts.extend(words.map(|words| WeightedText {
            text: words.to_owned(),
            weight,
        }));
    };
    // Weights of the groups around, each with the end of its words.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    let (mut start, mut end) = (0, text.len());
    let mut last = brackets.len();
    for index in 0..brackets.len() {
        let RoundBracket { at, other } = brackets[index];
        if at >= end {
            break;
        }
        let weight = groups.last().map_or(1.0, |group| group.0);
        let close = match other {
            Some(other) if other < index => {
                let words_end = groups.pop().map_or(at, |group| group.1);
                add(start..words_end, weight);
                start = at + 1;
                continue;
            }
            Some(close) => close,
            None => {
                while last > 0 && brackets[last - 1].at >= end {
                    last -= 1;
                }
                let closing = last.checked_sub(1).filter(|close| {
                    brackets[*close].at + 1 == end
                        && brackets[*close].other.is_some_and(|it| it < *close)
                });
                let Some(close) = closing else {
                    add(start..at, weight);
                    start = at;
                    break;
                };
                if let Some(open) = brackets[close].other {
                    brackets[open].other = None;
                }
                close
            }
        };
        add(start..at, weight);
        start = at + 1;
        let words_end = brackets[close].at;
        let tail = brackets[close - 1].at + 1;
        let number = text[tail..words_end].rfind(':').and_then(|colon| {
            let number: f64 = text[tail + colon + 1..words_end].trim().parse().ok()?;
            (tail + colon > start && number.is_finite()).then_some((number, tail + colon))
        });
        let group = number.unwrap_or((weight * FACTOR, words_end));
        if other.is_none() {
            end = group.1;
        }
        groups.push(group);
    }
    add(start..end, groups.last().map_or(1.0, |group| group.0));
    parts
}

/// A prompt without escapes, and its brackets that are not text.
fn brackets_of(prompt: &str) -> (String, Vec<RoundBracket>) {
    let mut text = String::with_capacity(prompt.len());
    let mut brackets: Vec<RoundBracket> = Vec::new();
    let mut open = Vec::new();
    let mut too_many = 0_usize;
    let mut letters = prompt.chars().peekable();
    while let Some(letter) = letters.next() {
        let at = text.len();
        let escaped = letters.next_if(|next| letter == '\\' && "()".contains(*next));
        text.push(escaped.unwrap_or(letter));
        if escaped.is_some() {
            continue;
        }
        let index = brackets.len();
        match letter {
            '(' if too_many > 0 => too_many -= 1,
            '(' => {
                open.push(index);
                brackets.push(RoundBracket { at, other: None });
            }
            ')' => match open.pop() {
                Some(start) => {
                    brackets[start].other = Some(index);
                    let other = Some(start);
                    brackets.push(RoundBracket { at, other });
                }
                None => too_many += 1,
            },
            _ => {}
        }
    }
    (text, brackets)
}

#[cfg(test)]
mod tests;
