//! Repairs broken text as Python's `ftfy.fix_text` does, and resolves HTML entities as Python's `html.unescape` does.
//!
//! The rules are those of `ftfy` 6.3.1 with its default settings
//! (<https://github.com/rspeer/python-ftfy/blob/v6.3.1/ftfy/fixes.py>), because models were trained on their results.
//! Guesses no language, and leaves alone what is not surely broken. Three of `ftfy`'s ten encodings are here, by which
//! pasted prompts get broken; see `decoding`.

mod decoding;
mod html;
mod tables;

use tokenizers::NormalizedString;

pub use html::unescape;

/// Repairs each line for itself; until it does not change any more.
pub fn fix_text(text: &str) -> String {
    // Real HTML is left as it is, from its first tag on.
    let mut may_unescape = true;
    let lines = text.split_inclusive('\n').map(|line| {
        may_unescape &= !line.contains('<');
        fix_line(line, may_unescape)
    });
    lines.collect()
}

fn fix_line(line: &str, may_unescape: bool) -> String {
    let mut text = line.to_owned();
    // A repair only shortens the text; the limit is a safeguard.
    for _ in 0..100 {
        let before = text.clone();
        if may_unescape {
            text = html::unescape_surely(&text);
        }
        text = decoding::fix_encoding(&text);
        text = text.chars().map(decoding::fix_c1_control).collect();
        text = spell_out(&text);
        text = text.replace("\r\n", "\n");
        text = text.replace(['\r', '\u{2028}', '\u{2029}', '\u{85}'], "\n");
        text = remove_terminal_escapes(&text);
        text.retain(|c| !is_useless_control(c));
        text = normalize(&text, NormalizedString::nfc);
        if text == before {
            break;
        }
    }
    text
}

fn normalize(
    text: &str,
    form: impl FnOnce(&mut NormalizedString) -> &mut NormalizedString,
) -> String {
    if text.is_ascii() {
        return text.to_owned();
    }
    let mut normalized = NormalizedString::from(text);
    form(&mut normalized);
    normalized.get().to_owned()
}

/// Ligatures, full and half widths, curly quotes.
fn spell_out(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // The apostrophe of this one is then a quote.
            '\u{0149}' => out.push_str("'n"),
            '\u{FB05}' => out.push_str("\u{017F}t"),
            '\u{0132}'
            | '\u{0133}'
            | '\u{01C4}'..='\u{01CC}'
            | '\u{01F1}'..='\u{01F3}'
            | '\u{FB00}'..='\u{FB06}'
            | '\u{3000}'
            | '\u{FF01}'..='\u{FFEF}' => {
                out.push_str(&normalize(
                    c.encode_utf8(&mut [0; 4]),
                    NormalizedString::nfkc,
                ));
            }
            '\u{02BC}' | '\u{2018}'..='\u{201B}' => out.push('\''),
            '\u{201C}'..='\u{201F}' => out.push('"'),
            c => out.push(c),
        }
    }
    out
}

/// `ESC [ 31;1 m` and its like.
fn remove_terminal_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, escape) = rest.split_at(at);
        let body = &escape[2..];
        let end = body
            .find(|c: char| !c.is_numeric() && c != ';')
            .unwrap_or(body.len());
        out.push_str(before);
        rest = match body[end..].chars().next() {
            Some(c) if c.is_ascii_alphabetic() => &body[end + 1..],
            _ => {
                out.push_str(&escape[..2]);
                body
            }
        };
    }
    out.push_str(rest);
    out
}

/// Control characters that neither break lines nor change how text is shown.
fn is_useless_control(c: char) -> bool {
    matches!(c,
        '\0'..='\u{08}' | '\u{0B}' | '\u{0E}'..='\u{1F}' | '\u{7F}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}'
        | '\u{FFF9}'..='\u{FFFC}')
}
