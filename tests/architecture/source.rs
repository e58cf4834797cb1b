//! Rust sources as the checks of the architecture read them: without comments, with whole paths, by whole words.

/// The lines of a source without their comments. A `//` after a colon is an address.
pub fn code(source: &str) -> String {
    let lines = source.lines().map(|line| {
        let mut comments = line.match_indices("//");
        let comment = comments.find(|(at, _)| !line[..*at].ends_with(':'));
        comment.map_or(line, |(at, _)| &line[..at])
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The code, with `std::{io, fs}` followed by the paths that it means.
pub fn code_with_whole_paths(source: &str) -> String {
    let mut code = code(source);
    let mut paths = Vec::new();
    for prefix in ["std::{", "crate::{"] {
        for (start, _) in code.match_indices(prefix) {
            let inside = &code[start + prefix.len()..];
            let stem = prefix.trim_end_matches('{');
            let items = items_of_group(inside).into_iter();
            paths.extend(items.map(|item| format!("{stem}{item}")));
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
    items.iter().map(|item| item.trim().to_owned()).collect()
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
