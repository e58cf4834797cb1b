//! The wall around the window's sentences: each stands in its page's table, where it can be read and translated.

use super::source::{Literal, literals};
use super::{read, rust_files};

/// Tables of words. The shortcuts are one themselves: a command's keys beside its name.
const TABLES: [&str; 2] = ["/words.rs", "src/app/shortcuts.rs"];

/// Several words of which at least one is fixed: what a form such as `{a} × {b}` fills in comes from elsewhere, and a
/// letter alone is a unit.
fn is_sentence(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut shown = String::new();
    for character in text.chars() {
        match character {
            '{' => {
                depth += 1;
                shown.push('0');
            }
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => shown.push(character),
            _ => {}
        }
    }
    let mut words = shown.split(|letter: char| !letter.is_alphabetic());
    shown.trim().contains(' ') && words.any(|word| word.chars().count() > 1)
}

/// What nobody sees in the window: reasons of lints, broken promises, the log.
fn is_for_developers(literal: &Literal<'_>) -> bool {
    let before = literal.before.trim_end();
    let statement = before.rsplit([';', '{', '}']).next().unwrap_or_default();
    before.ends_with("reason =")
        || before.ends_with(".expect(")
        || ["tracing::", "assert!(", "assert_eq!(", "unreachable!("]
            .iter()
            .any(|name| statement.contains(name))
}

#[test]
fn sentences_of_the_window_stand_in_tables_of_words() {
    let mut found = Vec::new();
    for path in rust_files("src/app")
        .into_iter()
        .chain(rust_files("src/ui"))
    {
        let is_table = TABLES.iter().any(|table| path.ends_with(table));
        if is_table || path.ends_with("/tests.rs") {
            continue;
        }
        let source = read(&path);
        let product = source.split("#[cfg(test)]\nmod tests {").next();
        for literal in literals(product.unwrap_or_default()) {
            if is_sentence(literal.text) && !is_for_developers(&literal) {
                found.push(format!("{path}:{}: {}", literal.line, literal.text));
            }
        }
    }
    assert!(
        found.is_empty(),
        "these belong into the words.rs of their folder; ids are written with dashes:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_sentence_is_told_from_an_id_and_from_a_form_of_figures() {
    assert!(is_sentence("No matches"));
    assert!(is_sentence("Reset {field}"));
    assert!(is_sentence("{name} is ready"));
    assert!(!is_sentence("{width} × {height}"));
    assert!(!is_sentence("search-of-models"));
    assert!(!is_sentence(" px "));
    assert!(!is_sentence("{value:.1} s"));
}
