//! Weights of words as A1111 reads them, and rewritten for ComfyUI.
//!
//! In A1111 `[words]` have the weight around them divided by 1.1, `(words:1.3)` multiplies it, brackets that stay open
//! reach to the end, and `\` makes any bracket or another `\` text. Prompt editing, `[a:b:0.5]` and `[a|b]`, stays as text.

use std::fmt::Write as _;

use super::{BracketUse, WeightedText, escaped};

/// A bracket that is no text, with what follows it up to the words: the number of a weight.
struct A1111Bracket {
    /// Positions in the text without escapes.
    start: usize,
    end: usize,
    is_square: bool,
    /// Factor of an opening bracket.
    factor: Option<f64>,
}

/// The prompt, rewritten where ComfyUI reads other weights in it.
pub fn for_comfy(prompt: &str) -> String {
    let own = a1111_parts(prompt);
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

/// The words of a prompt with their weights; neighbours have different ones.
pub(super) fn a1111_parts(prompt: &str) -> Vec<WeightedText> {
    let (text, brackets) = brackets_of(prompt);
    // Of round and of square brackets, which may cross.
    let mut weights = [vec![1.0], vec![1.0]];
    let mut parts = Vec::new();
    let mut start = 0;
    let end = A1111Bracket {
        start: text.len(),
        end: text.len(),
        is_square: false,
        factor: None,
    };
    for bracket in brackets.iter().chain([&end]) {
        let last = |of: &Vec<f64>| of.last().copied().unwrap_or(1.0);
        let weight = weights.iter().map(last).product();
        parts.push(WeightedText {
            text: text[start..bracket.start].to_owned(),
            weight,
        });
        start = bracket.end;
        let own = &mut weights[usize::from(bracket.is_square)];
        match bracket.factor {
            Some(factor) => own.push(last(own) * factor),
            None => drop(own.pop()),
        }
    }
    joined(parts)
}

/// A prompt without escapes, and its brackets.
fn brackets_of(prompt: &str) -> (String, Vec<A1111Bracket>) {
    let mut text = String::with_capacity(prompt.len());
    let mut brackets: Vec<A1111Bracket> = Vec::new();
    let mut open = [Vec::<usize>::new(), Vec::new()];
    let mut letters = prompt.chars().peekable();
    while let Some(letter) = letters.next() {
        let start = text.len();
        let escaped = letters.next_if(|next| letter == '\\' && "()[]\\".contains(*next));
        text.push(escaped.unwrap_or(letter));
        let end = text.len();
        let is_square = "[]".contains(letter);
        let opened = &mut open[usize::from(is_square)];
        let own_factor = match letter {
            '(' => 1.1,
            '[' => 1.0 / 1.1,
            ')' | ']' => {
                let Some(index) = opened.pop() else {
                    continue;
                };
                let inside = &text[brackets[index].end..start];
                let is_editing =
                    inside.contains('|') || (inside.contains(':') && !inside.contains('('));
                if letter == ']' && is_editing {
                    // Both are text.
                    brackets[index].end = brackets[index].start;
                    brackets[index].factor = Some(1.0);
                    brackets.push(A1111Bracket {
                        start,
                        end: start,
                        is_square,
                        factor: None,
                    });
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
                    is_square,
                    factor: None,
                });
                continue;
            }
            _ => continue,
        };
        opened.push(brackets.len());
        brackets.push(A1111Bracket {
            start,
            end,
            is_square,
            factor: Some(own_factor),
        });
    }
    (text, brackets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_a1111_are_written_for_comfyui() {
        for (prompt, expected) in [
            (
                "a fox, (red:1.2) ((old)) sign",
                "a fox, (red:1.2) ((old)) sign",
            ),
            ("a [red] fox", "a (red:0.9091) fox"),
            ("(very (red:1.2):1.5) fox", "(very :1.5)(red:1.8) fox"),
            (r"a \(red\) \[fox\] [x]", r"a \(red\) [fox] (x:0.9091)"),
            ("a (red fox", "a (red fox:1.1)"),
            ("a red) fox (cat:1.4)", r"a red\) fox (cat:1.4)"),
            ("a (b [c) d] e", "a (b :1.1)c( d:0.9091) e"),
            ("[a:b:0.5] [red|blue] fox", "[a:b:0.5] [red|blue] fox"),
        ] {
            assert_eq!(for_comfy(prompt), expected, "{prompt}");
        }
    }
}
