//! Weights of words as CLIP's users write them, which do not act with the encoders of these models.
//!
//! Why they are not applied: T5 and UMT5 were trained without, their vectors mean a whole sentence each, and the
//! transformers normalise every token before they look at it, so that a scaled one is hardly another. Neither the
//! models' authors nor diffusers apply them. Left in, the signs and numbers would be read as words; so weights with
//! a number are taken out. Brackets alone are ordinary writing and stay.

use super::timeline;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptWeights {
    pub text: String,
    pub example: Option<String>,
    /// `((…))`
    pub has_double_parens: bool,
    /// `[…]`, other than times.
    pub has_square_brackets: bool,
}

/// Finds the weights of a prompt; the text is without them, and with `\(` and its like as the letter itself.
pub fn weights(text: &str) -> PromptWeights {
    let mut read = PromptWeights::default();
    // Brackets that are open, with their places in what is read and in `text`.
    let mut open: Vec<(char, usize, usize)> = Vec::new();
    // The last `(…)` that stayed: its place and end.
    let mut last = None;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match (letter, open.last().copied()) {
            ('\\', _) => {
                let bracket = letters.next_if(|(_, next)| "()[]".contains(*next));
                read.text.push(bracket.map_or(letter, |(_, next)| next));
            }
            ('(' | '[', _) => {
                open.push((letter, read.text.len(), at));
                read.text.push(letter);
            }
            (')', Some(('(', start, from))) => {
                open.pop();
                if let Some(length) = weighted(&read.text[start + 1..]) {
                    let example = &mut read.example;
                    example.get_or_insert_with(|| text[from..=at].to_owned());
                    read.text.truncate(start + 1 + length);
                    read.text.remove(start);
                } else {
                    read.has_double_parens |= last == Some((start + 1, read.text.len()));
                    read.text.push(letter);
                    last = Some((start, read.text.len()));
                }
            }
            (']', Some(('[', start, _))) => {
                open.pop();
                let inside = &read.text[start + 1..];
                read.has_square_brackets |= !inside.is_empty() && !timeline::is_timed(inside);
                read.text.push(letter);
            }
            _ => read.text.push(letter),
        }
    }
    read
}

/// Length of the words before a final `:1.2`, if there is one.
fn weighted(inside: &str) -> Option<usize> {
    let (words, number) = inside.rsplit_once(':')?;
    let number = number.trim();
    let digits = number.strip_prefix(['-', '+']).unwrap_or(number);
    let is_number = digits.starts_with(|it: char| it.is_ascii_digit() || it == '.')
        && digits.bytes().all(|it| it.is_ascii_digit() || it == b'.')
        && digits.parse::<f64>().is_ok_and(|weight| weight < 100.0);
    // A time or a ratio, as in (16:9) or (scale 1:2), is not a weight; (8k:2) is one.
    let last_word = words.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_ratio = last_word.parse::<f64>().is_ok() && !digits.contains('.');
    (is_number && !is_ratio && !words.trim().is_empty()).then_some(words.len())
}
