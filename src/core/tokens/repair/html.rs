//! HTML entities to the characters they name, by Python's rules (`html.unescape`) and by `ftfy`'s stricter ones.

use html_escape::decode_html_entities;

/// Names that also work without a semicolon, also as the beginning of a longer name.
const BARE_NAMES: &str = "Aacute aacute Acirc acirc acute AElig aelig Agrave agrave AMP amp Aring aring Atilde \
    atilde Auml auml brvbar Ccedil ccedil cedil cent COPY copy curren deg divide Eacute eacute Ecirc ecirc Egrave \
    egrave ETH eth Euml euml frac12 frac14 frac34 GT gt Iacute iacute Icirc icirc iexcl Igrave igrave iquest Iuml \
    iuml laquo LT lt macr micro middot nbsp not Ntilde ntilde Oacute oacute Ocirc ocirc Ograve ograve ordf ordm \
    Oslash oslash Otilde otilde Ouml ouml para plusmn pound QUOT quot raquo REG reg sect shy sup1 sup2 sup3 szlig \
    THORN thorn times Uacute uacute Ucirc ucirc Ugrave ugrave uml Uuml uuml Yacute yacute yen yuml";

/// Names of two characters, of which `html_escape` knows the first: the second, and its names.
const SECOND_CHARACTERS: [(char, &str); 8] = [
    (
        '\u{338}',
        "napE napid nbump nbumpe ncongdot nedot nesim ngE ngeqq ngeqslant nges nGg nGtv nlE nleqq nleqslant nles nLl \
        nLtv NotEqualTilde NotGreaterFullEqual NotGreaterGreater NotGreaterSlantEqual NotHumpDownHump NotHumpEqual \
        notindot notinE NotLeftTriangleBar NotLessLess NotLessSlantEqual NotNestedGreaterGreater NotNestedLessLess \
        NotPrecedesEqual NotRightTriangleBar NotSquareSubset NotSquareSuperset NotSucceedsEqual NotSucceedsTilde \
        npart npre npreceq nrarrc nrarrw nsce nsubE nsubseteqq nsucceq nsupE nsupseteqq",
    ),
    (
        '\u{fe00}',
        "caps cups gesl gvertneqq gvnE lates lesg lvertneqq lvnE smtes sqcaps sqcups varsubsetneq varsubsetneqq \
        varsupsetneq varsupsetneqq vsubnE vsubne vsupnE vsupne",
    ),
    (
        '\u{20d2}',
        "nang nGt nLt NotSubset NotSuperset nsubset nsupset nvap nvge nvgt nvle nvlt nvltrie nvrtrie nvsim vnsub vnsup",
    ),
    ('\u{20e5}', "bne bnequiv nparsl"),
    ('\u{333}', "acE"),
    ('\u{331}', "race"),
    ('\u{200a}', "ThickSpace"),
    ('j', "fjlig"),
];

/// What browsers make of numbers that name control characters of Latin-1.
const WINDOWS_1252: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

/// Everything that Python's `html.unescape` resolves, with and without semicolons.
pub fn unescape(text: &str) -> String {
    replace(text, |body| {
        if let Some(number) = body.strip_prefix('#') {
            let (value, len) = number_at(number)?;
            let semicolon = usize::from(number[len..].starts_with(';'));
            return Some((from_number(value), 1 + len + semicolon));
        }
        let end = body
            .char_indices()
            .take(32)
            .take_while(|(_, c)| !"\t\n\u{c} <&#;".contains(*c))
            .map(|(at, c)| at + c.len_utf8())
            .last()?;
        let name = &body[..end];
        if body[end..].starts_with(';')
            && let Some(found) = named(name)
        {
            return Some((found, end + 1));
        }
        let bare = BARE_NAMES
            .split_whitespace()
            .filter(|bare| name.starts_with(bare))
            .max_by_key(|bare| bare.len())?;
        Some((named(bare)?, bare.len()))
    })
}

/// Only what is surely meant: with a semicolon, and capital names for capital letters.
pub fn unescape_surely(text: &str) -> String {
    replace(text, |body| {
        let (name, _) = body.split_once(';')?;
        let (digits, is_number) = match name.strip_prefix('#') {
            Some(digits) => (digits, true),
            None => (name, false),
        };
        if digits.is_empty()
            || digits.len() > 24
            || !digits.bytes().all(|b| b.is_ascii_alphanumeric())
        {
            return None;
        }
        let found = if is_number {
            let (value, len) = number_at(digits)?;
            let found = (len == digits.len()).then(|| from_number(value))?;
            (found != ";").then_some(found)?
        } else {
            named(name).or_else(|| shouted(name))?
        };
        Some((found, name.len() + 1))
    })
}

/// `&NTILDE;`: the name of a small letter in capitals, where capitals mean nothing else.
fn shouted(name: &str) -> Option<String> {
    let is_shouted = !name.bytes().any(|b| b.is_ascii_lowercase());
    let means_else = BARE_NAMES
        .split_whitespace()
        .any(|bare| name.starts_with(bare));
    if !is_shouted || means_else {
        return None;
    }
    Some(named(&name.to_ascii_lowercase())?.to_uppercase())
}

/// Calls `resolve` with what follows each `&`; it gives the replacement and how many bytes it is for.
fn replace(text: &str, resolve: impl Fn(&str) -> Option<(String, usize)>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let body = &rest[at + 1..];
        rest = if let Some((found, len)) = resolve(body) {
            out.push_str(&found);
            &body[len..]
        } else {
            out.push('&');
            body
        };
    }
    out.push_str(rest);
    out
}

/// The character of a name without its semicolon.
fn named(name: &str) -> Option<String> {
    let entity = format!("&{name};");
    let found = decode_html_entities(&entity);
    let second = SECOND_CHARACTERS
        .iter()
        .find(|(_, names)| names.split_whitespace().any(|other| other == name))
        .map(|(second, _)| *second);
    (found != entity).then(|| found.chars().chain(second).collect())
}

/// A decimal or `x` and a hexadecimal number at the start, and its length. Too large ones stay too large.
fn number_at(text: &str) -> Option<(u32, usize)> {
    let (digits, radix, prefix) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (digits, 16, 1),
        None => (text, 10, 0),
    };
    let len = digits
        .bytes()
        .take_while(|b| char::from(*b).is_digit(radix))
        .count();
    if len == 0 {
        return None;
    }
    let value = u32::from_str_radix(&digits[..len], radix).unwrap_or(u32::MAX);
    Some((value, prefix + len))
}

fn from_number(value: u32) -> String {
    let low = value.checked_sub(0x80).map(|n| n as usize);
    let windows = low.and_then(|n| WINDOWS_1252.chars().nth(n));
    match (windows, char::from_u32(value)) {
        (None, None | Some('\0')) => '\u{FFFD}'.to_string(),
        (None, Some('\r')) => '\r'.to_string(),
        (None, Some(c)) if is_no_character(c) => String::new(),
        (Some(c), _) | (None, Some(c)) => c.to_string(),
    }
}

/// Numbers that HTML forbids: most control characters, and the end of every plane.
fn is_no_character(c: char) -> bool {
    let is_control =
        matches!(c, '\u{1}'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1f}' | '\u{7f}'..='\u{9f}');
    is_control || matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}
