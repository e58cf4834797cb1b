//! Texts that come from files, ready to be shown: nothing in them steers a terminal, turns the direction of writing or
//! fills a screen.

use std::borrow::Cow;

/// Text on one line, of at most `max_chars` characters and `…`.
pub fn one_line(text: &str, max_chars: usize) -> Cow<'_, str> {
    let is_long = text.chars().nth(max_chars).is_some();
    if !is_long && !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut line = String::new();
    for letter in text.chars().take(max_chars) {
        push(&mut line, letter);
    }
    if is_long {
        line.push('…');
    }
    Cow::Owned(line)
}

/// The text with its line ends.
pub fn printable(text: &str) -> Cow<'_, str> {
    with_others_as(text, push)
}

/// Printable JSON: control characters are escaped as in JSON, so that it parses to the same text.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    with_others_as(json, |shown, letter| {
        let escaped = format!("\\u{:04x}", u32::from(letter));
        shown.push_str(&escaped);
    })
}

/// The text with whatever is not plain as `push` puts it down.
fn with_others_as(text: &str, push: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for letter in text.chars() {
        if is_plain(letter) {
            shown.push(letter);
        } else {
            push(&mut shown, letter);
        }
    }
    Cow::Owned(shown)
}

fn push(text: &mut String, letter: char) {
    if letter.is_whitespace() && letter != '\u{85}' {
        text.push(' ');
    } else if is_hidden(letter) {
        text.extend(letter.escape_unicode());
    } else {
        text.push(letter);
    }
}

/// Not hidden, or the end of a line.
fn is_plain(letter: char) -> bool {
    letter == '\n' || !is_hidden(letter)
}

/// Control characters including line ends, and bidirectional controls; none is above U+FFFF.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The message with a capital letter in front.
pub fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_steers_a_terminal_is_spelled_out() {
        let name = "a\u{1b}[2Jb\nc\u{202e}d";
        assert_eq!(one_line(name, 80), r"a\u{1b}[2Jb c\u{202e}d");
        assert_eq!(printable(name), "a\\u{1b}[2Jb\nc\\u{202e}d");
        assert_eq!(one_line("ein grünes Boot 🚤", 80), "ein grünes Boot 🚤");
    }

    #[test]
    fn printable_json_escapes_hidden_characters_and_keeps_the_value() {
        let name = "a\u{1b}\u{7f}\u{9b}b\nc\u{202e}d\u{2028}e \u{2067}ש";
        let json = serde_json::to_string(&name).unwrap();
        let shown = printable_json(&json);
        assert!(!shown.contains(is_hidden), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), name);
        assert_eq!(printable_json("{\"a\":\"é\"}"), "{\"a\":\"é\"}");
    }

    #[test]
    fn a_long_name_ends_with_dots() {
        assert_eq!(one_line(&"é".repeat(1000), 3), "ééé…");
        assert_eq!(one_line("ééé", 3), "ééé");
    }
}
