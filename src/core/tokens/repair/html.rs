//! HTML entities to the characters they name, by Python's rules (`html.unescape`) and by `ftfy`'s stricter ones.

use std::sync::LazyLock;

use fancy_regex::{Captures, Regex};

/// Everything that Python's `html.unescape` resolves, with and without semicolons.
pub fn unescape(text: &str) -> String {
    let mut text = htmlize::unescape(text).into_owned();
    // Browsers keep what a number must not name, Python leaves it out.
    text.retain(|c| !is_no_character(c));
    text
}

/// Only what is surely meant: with a semicolon, and capital names for capital letters.
pub fn unescape_surely(text: &str) -> String {
    static ENTITY: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("&#?[0-9A-Za-z]{1,24};").expect("the pattern is sound"));
    let resolved = ENTITY.replace_all(text, |found: &Captures<'_>| {
        let entity = found.get(0).map_or("", |found| found.as_str());
        whole(entity)
            .or_else(|| shouted(entity))
            .unwrap_or_else(|| entity.to_owned())
    });
    resolved.into_owned()
}

/// Characters of a whole entity: a remaining semicolon shows that only its prefix was known.
fn whole(entity: &str) -> Option<String> {
    let found = unescape(entity);
    (!found.contains(';')).then_some(found)
}

/// `&NTILDE;`: the name of a small letter in capitals, where capitals mean nothing else.
fn shouted(entity: &str) -> Option<String> {
    let is_shouted = !entity.bytes().any(|byte| byte.is_ascii_lowercase());
    if !is_shouted || unescape(entity) != entity {
        return None;
    }
    Some(whole(&entity.to_ascii_lowercase())?.to_uppercase())
}

/// Numbers that HTML forbids: most control characters, and the end of every plane.
fn is_no_character(c: char) -> bool {
    let is_control = matches!(c, '\u{1}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}');
    is_control || matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}
