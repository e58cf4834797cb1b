//! Rust sources as the checks of the architecture read them: without comments, with whole paths, by whole words.

/// The lines of a source without their comments. A `//` after a colon is an address.
pub fn code(source: &str) -> String {
    source
        .lines()
        .map(|line| {
            let comment = line
                .match_indices("//")
                .find(|(at, _)| !line[..*at].ends_with(':'));
            comment.map_or(line, |(at, _)| &line[..at])
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The code, with `std::{io, fs}` followed by the paths that it means.
pub fn code_with_whole_paths(source: &str) -> String {
    let mut code = code(source);
    let mut paths = Vec::new();
    for prefix in ["std::{", "crate::{"] {
        for (start, _) in code.match_indices(prefix) {
            let inside = &code[start + prefix.len()..];
            let stem = prefix.trim_end_matches('{');
            paths.extend(
                items_of_group(inside)
                    .into_iter()
                    .map(|item| format!("{stem}{item}")),
            );
        }
    }
    code.push('\n');
    code.push_str(&paths.join("\n"));
    code
}

/// The items of a group up to its closing brace, each without what stands in inner groups.
fn items_of_group(inside: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut depth = 1;
    for character in inside.chars() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => items.push(String::new()),
            _ if depth == 1 => items
                .last_mut()
                .expect("there is always one")
                .push(character),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    items
        .into_iter()
        .map(|item| item.trim().to_owned())
        .collect()
}

/// Whether a path stands in the code as whole words; one that ends with `_` may go on.
pub fn names(code: &str, name: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(name).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + name.len()..].chars().next();
        !before.is_some_and(is_word) && (name.ends_with('_') || !after.is_some_and(is_word))
    })
}

/// A string of a source, as it is written there.
pub struct Literal<'a> {
    pub text: &'a str,
    /// Counted from 1.
    pub line: usize,
    /// All of the source before it.
    pub before: &'a str,
}

/// The strings of a source in their order, those in comments and those of bytes left out.
pub fn literals(source: &str) -> Vec<Literal<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = source[at..].find(['"', '/', '\'']) {
        let start = at + next;
        let rest = &source[start..];
        at = if rest.starts_with("//") {
            start + rest.find('\n').unwrap_or(rest.len())
        } else if let Some(text) = rest.strip_prefix('"') {
            let before = &source[..start];
            let hashes = before.len() - before.trim_end_matches('#').len();
            let opening = &before[..before.len() - hashes];
            let length = if opening.ends_with('r') {
                text.find(&format!("\"{}", "#".repeat(hashes)))
            } else {
                end_of_string(text)
            };
            let length = length.unwrap_or(text.len());
            let is_bytes = opening.trim_end_matches('r').ends_with('b');
            if !is_bytes {
                found.push(Literal {
                    text: &text[..length],
                    line: before.matches('\n').count() + 1,
                    before,
                });
            }
            start + 1 + length + 1 + hashes
        } else if rest.starts_with("'\\") {
            // A letter such as '\'' or '\\'; what stands behind it is no string.
            start + 2 + rest[3..].find('\'').unwrap_or_default() + 2
        } else if rest.starts_with("'\"'") {
            start + 3
        } else {
            start + 1
        };
        at = at.min(source.len());
    }
    found
}

/// Where the quote stands that ends a string.
fn end_of_string(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().find_map(|(at, letter)| {
        let ends = letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
        ends.then_some(at)
    })
}

#[test]
fn strings_are_found_behind_letters_comments_and_quotes() {
    let source = concat!(
        "let a = '\"'; // \"no\"\n",
        "let b = (\"a \\\" b\", '\\'', \"c\", b\"bytes\");\n",
        "let d = r#\"raw \" one\"#;\n",
    );
    let found: Vec<_> = literals(source)
        .iter()
        .map(|literal| (literal.line, literal.text))
        .collect();
    assert_eq!(found, [(2, r#"a \" b"#), (2, "c"), (3, r#"raw " one"#)]);
}

#[test]
fn names_are_found_as_words_in_code_and_nowhere_else() {
    let found = |source: &str, name: &str| names(&code_with_whole_paths(source), name);
    assert!(found("use tch::Tensor;", "tch"));
    assert!(found(
        "let a = Color32::from_rgb(1, 2, 3);",
        "Color32::from_"
    ));
    assert!(found("use std::{collections::HashMap, fs, io};", "std::fs"));
    assert!(found(
        "use std::{\n    io::{self, Read},\n    process::Command,\n};",
        "std::process"
    ));
    assert!(found("use crate::{app::{State, jobs}, ui};", "crate::ui"));
    assert!(!found("use crate::{app::{ui}, job};", "crate::ui"));
    assert!(!found("// tch is not named here", "tch"));
    assert!(!found("let switch = patch;", "tch"));
    assert!(!found("let url = \"a://tchoupitoulas\";", "tch"));
}
