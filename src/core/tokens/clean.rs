//! Wan's prompt cleaning.

use super::repair::{fix_text, unescape};
use crate::job::prompt::WeightedText;

/// Cleans each part of a prompt, so that no full-width bracket becomes that of a weight.
pub fn clean_wan_parts(parts: &[WeightedText]) -> Vec<WeightedText> {
    let cleaned = parts.iter().map(|part| WeightedText {
        text: clean_wan_prompt(&part.text),
        ..*part
    });
    cleaned.collect()
}

/// Repairs broken characters, resolves HTML entities twice, and joins everything with single spaces.
pub fn clean_wan_prompt(prompt: &str) -> String {
    let text = unescape(&unescape(&fix_text(prompt)));
    let words = text.split(is_space).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Python's idea of white space, which has four more characters than Unicode's.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}
