//! Comments in prompts, as in ComfyUI and Dynamic Prompts.
//!
//! Similar characters inside a word, such as a URL, are no comment.

/// The text without its comments. A line that holds nothing else is left out with its end.
pub(super) fn without(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    // Looked for again and again, it would be looked for in all of the text each time.
    let last_close = text.rfind("*/");
    let may_close = |rest: &str| last_close.is_some_and(|at| at >= text.len() - rest.len());
    // Start of the line in `kept`, and whether a comment was removed from it.
    let (mut line, mut is_cut) = (0, false);
    while let Some(letter) = rest.chars().next() {
        if let Some(length) = comment_at(rest, &kept[line..], may_close(rest)) {
            if rest.starts_with("//") {
                kept.truncate(line + kept[line..].trim_end().len());
            }
            is_cut = true;
            rest = &rest[length..];
            continue;
        }
        // An escaped letter begins no comment.
        let behind = rest.strip_prefix('\\').and_then(|rest| rest.chars().next());
        let taken = letter.len_utf8()
            + behind
                .filter(|it| "#/".contains(*it))
                .map_or(0, char::len_utf8);
        if taken > letter.len_utf8() {
            kept.push_str(&rest[letter.len_utf8()..taken]);
        } else if letter == '\n' && is_cut && kept[line..].trim().is_empty() {
            kept.truncate(line);
        } else {
            kept.push(letter);
        }
        if letter == '\n' {
            (line, is_cut) = (kept.len(), false);
        }
        rest = &rest[taken..];
    }
    if is_cut && kept[line..].trim().is_empty() {
        kept.truncate(line);
        if kept.ends_with('\n') {
            kept.pop();
        }
    }
    kept
}

/// Length of the comment at the start of `rest`, after `line` of the same line; `may_close`: a `*/` follows.
fn comment_at(rest: &str, line: &str, may_close: bool) -> Option<usize> {
    let to_line_end = || rest.find('\n').unwrap_or(rest.len());
    let is_behind_space = line.chars().next_back().is_none_or(char::is_whitespace);
    if let Some(inside) = rest.strip_prefix("/*").filter(|_| may_close) {
        return inside.find("*/").map(|at| at + "/**/".len());
    }
    if rest.starts_with("//") && is_behind_space {
        return Some(to_line_end());
    }
    let behind = rest.strip_prefix('#')?.chars().next();
    let is_comment = behind.is_none_or(|it| it.is_whitespace() || it == '#');
    (is_comment && line.trim().is_empty()).then(to_line_end)
}
