//! Weights of words as A1111 reads them, rewritten for ComfyUI.
//!
//! In A1111 `[words]` have the weight around them divided by 1.1, `(words:1.3)` multiplies it, brackets that stay open
//! reach to the end, and `\` makes any bracket or another `\` text. Prompt editing, `[a:b:0.5]` and `[a|b]`, stays as text.

use std::fmt::Write as _;

use crate::job::prompt::{BracketUse, WeightedText, escaped};

/// A bracket that is no text, with what follows it up to the words: the number of a weight.
struct A1111Bracket {
    /// Positions in the text without escapes.
    start: usize,
    end: usize,
    /// Factor of an opening bracket.
    factor: Option<f64>,
}

/// The prompt, rewritten where ComfyUI reads other weights in it.
pub(super) fn for_comfy(prompt: &str) -> String {
    let own = joined(parts_of(prompt));
    let there = joined(BracketUse::Weights.parts(prompt));
    let is_same = |(own, there): (&WeightedText, &WeightedText)| {
        own.text == there.text && is_near(own.weight, there.weight)
    };
    if own.len() == there.len() && own.iter().zip(&there).all(is_same) {
        return prompt.to_owned();
    }
    let mut text = String::new();
    for part in &own {
        let words = escaped(&part.text);
        let weight = (part.weight * 1e4).round() / 1e4;
        if weight == 1.0 {
            text.push_str(&words);
            continue;
        }
        if text.ends_with('\\') {
            // Otherwise the bracket would be text.
            text.push(' ');
        }
        // Writing to a string cannot fail.
        write!(text, "({words}:{weight})").ok();
    }
    text
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-6
}

/// Joins neighbours with the same weight.
fn joined(mut parts: Vec<WeightedText>) -> Vec<WeightedText> {
    parts.retain(|part| !part.text.is_empty());
    parts.dedup_by(|next, last| {
        let joins = is_near(next.weight, last.weight);
        if joins {
            last.text.push_str(&next.text);
        }
        joins
    });
    parts
}

/// The words of a prompt with their weights.
fn parts_of(prompt: &str) -> Vec<WeightedText> {
    let (text, brackets) = brackets_of(prompt);
    let mut weights = vec![1.0];
    let mut parts = Vec::new();
    let mut start = 0;
    let end = A1111Bracket {
        start: text.len(),
        end: text.len(),
        factor: None,
    };
    for bracket in brackets.iter().chain([&end]) {
        let weight = weights.last().copied().unwrap_or(1.0);
        parts.push(WeightedText {
            text: text[start..bracket.start].to_owned(),
            weight,
        });
        start = bracket.end;
        match bracket.factor {
            Some(factor) => weights.push(weight * factor),
            None => drop(weights.pop()),
        }
    }
    parts
}

/// A prompt without escapes, and its brackets.
fn brackets_of(prompt: &str) -> (String, Vec<A1111Bracket>) {
    let mut text = String::with_capacity(prompt.len());
    let mut brackets: Vec<A1111Bracket> = Vec::new();
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut letters = prompt.chars().peekable();
    while let Some(letter) = letters.next() {
        let start = text.len();
        let escaped = letters.next_if(|next| letter == '\\' && "()[]\\".contains(*next));
        text.push(escaped.unwrap_or(letter));
        let end = text.len();
        let own_factor = match letter {
            '(' => 1.1,
            '[' => 1.0 / 1.1,
            ')' | ']' => {
                let opening = if letter == ')' { '(' } else { '[' };
                let Some((opened, index)) = open.pop() else {
                    continue;
                };
                if opened != opening {
                    open.push((opened, index));
                    continue;
                }
                let inside = &text[brackets[index].end..start];
                let is_editing =
                    inside.contains('|') || (inside.contains(':') && !inside.contains('('));
                if letter == ']' && is_editing {
                    brackets.remove(index);
                    continue;
                }
                let tail = brackets.last().map_or(0, |last| last.end);
                let number = text[tail..start].rfind(':').and_then(|colon| {
                    let number = text[tail + colon + 1..start].trim();
                    let is_number = number
                        .bytes()
                        .all(|it| it.is_ascii_digit() || b"+-.".contains(&it));
                    Some((tail + colon, number.parse().ok().filter(|_| is_number)?))
                });
                let number = number.filter(|_| letter == ')');
                if let Some((_, factor)) = number {
                    brackets[index].factor = Some(factor);
                }
                brackets.push(A1111Bracket {
                    start: number.map_or(start, |(colon, _)| colon),
                    end,
                    factor: None,
                });
                continue;
            }
            _ => continue,
        };
        open.push((letter, brackets.len()));
        brackets.push(A1111Bracket {
            start,
            end,
            factor: Some(own_factor),
        });
    }
    (text, brackets)
}
