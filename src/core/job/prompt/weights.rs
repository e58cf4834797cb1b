//! Weights of words as CLIP's users write them, which do not act with the encoders of these models.
//!
//! Why they are not applied: T5 and UMT5 were trained without, their vectors mean a whole sentence each, and the
//! transformers normalise every token before they look at it, so that a scaled one is hardly another. Neither the
//! models' authors nor diffusers apply them. Left in, the signs and numbers would be read as words; so weights with
//! a number are taken out. Brackets alone are ordinary writing and stay.

use super::timeline;

pub(super) struct Read {
    pub text: String,
    /// The first weight, as written.
    pub example: Option<String>,
    /// Whether there are `[…]` or `((…))`.
    pub has_brackets: bool,
}

/// The text without weights, and with `\(` and its like as the letter itself.
pub(super) fn without(text: &str) -> Read {
    let mut read = Read {
        text: String::with_capacity(text.len()),
        example: None,
        has_brackets: false,
    };
    let mut open: Vec<(char, usize)> = Vec::new();
    // The last `(…)` that stayed: its place and end.
    let mut last = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, open.last().copied()) {
            ('\\', _) => {
                let bracket = letters.next_if(|next| "()[]".contains(*next));
                read.text.push(bracket.unwrap_or(letter));
            }
            ('(' | '[', _) => {
                open.push((letter, read.text.len()));
                read.text.push(letter);
            }
            (')', Some(('(', start))) => {
                open.pop();
                let inside = &read.text[start + 1..];
                if let Some(length) = weighted(inside) {
                    let written = || format!("({inside})");
                    read.example = read.example.or_else(|| Some(written()));
                    read.text.truncate(start + 1 + length);
                    read.text.remove(start);
                } else {
                    read.has_brackets |= last == Some((start + 1, read.text.len()));
                    read.text.push(letter);
                    last = Some((start, read.text.len()));
                }
            }
            (']', Some(('[', start))) => {
                open.pop();
                let inside = &read.text[start + 1..];
                read.has_brackets |= !inside.is_empty() && !timeline::is_timed(inside);
                read.text.push(letter);
            }
            _ => read.text.push(letter),
        }
    }
    read
}

/// How long the words are before `:1.2`, where that ends them.
fn weighted(inside: &str) -> Option<usize> {
    let (words, number) = inside.rsplit_once(':')?;
    let number = number.trim();
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    let is_number = digits.starts_with(|it: char| it.is_ascii_digit() || it == '.')
        && digits.bytes().all(|it| it.is_ascii_digit() || it == b'.')
        && digits.parse::<f64>().is_ok_and(|weight| weight < 100.0);
    // A time or a ratio, as in (16:9), is none.
    let is_ratio = words.ends_with(|it: char| it.is_ascii_digit()) && !digits.contains('.');
    (is_number && !is_ratio && !words.trim().is_empty()).then_some(words.len())
}
