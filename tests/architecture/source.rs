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
