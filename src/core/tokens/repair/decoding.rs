//! Undoes the decoding of UTF-8 by the wrong rules, layer by layer, where text looks as if that had happened.
//!
//! Knows the encodings by which pasted text gets broken: Latin-1, and those of Windows for western and for Cyrillic
//! letters. Of `ftfy`, seven rarer ones and the repair of UTF-8 that lost bytes are left out.

use std::sync::LazyLock;

use fancy_regex::Regex;

use super::tables::{
    BAD, BOX, C1, COMMON, CURRENCY, END_PUNCTUATION, KAOMOJI, LAW, LOWER_ACCENTED, LOWER_COMMON,
    NUMERIC, START_PUNCTUATION, UPPER_ACCENTED, UPPER_COMMON, UTF8_CONTINUATION,
    UTF8_CONTINUATION_STRICT, UTF8_FIRST_OF_2, UTF8_FIRST_OF_3, UTF8_FIRST_OF_4, WINDOWS_1251,
    WINDOWS_1252,
};

pub fn fix_encoding(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(better) = undo_one(&text) {
        text = better;
    }
    text
}

/// C1 control characters are Windows-1252 in disguise.
pub fn fix_c1_control(c: char) -> char {
    let upper = u32::from(c).checked_sub(0x80).map(|at| at as usize);
    upper
        .and_then(|at| WINDOWS_1252.chars().nth(at))
        .unwrap_or(c)
}

/// One layer less, where there is one.
fn undo_one(text: &str) -> Option<String> {
    if !is_bad(text) {
        return None;
    }
    for upper in [None, Some(WINDOWS_1252), Some(WINDOWS_1251)] {
        let bytes = encode(text, upper).map(|bytes| restore_a0(&bytes));
        if let Some(found) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
            return (found != text).then_some(found);
        }
    }
    let mut found = fix_islands(text);
    if found == text {
        found = text.chars().map(fix_c1_control).collect();
    }
    (found != text).then_some(found)
}

/// The bytes of a text in the encoding with this upper half, or else in Latin-1, which has the numbers of Unicode;
/// `None` when a character has no byte.
fn encode(text: &str, upper: Option<&str>) -> Option<Vec<u8>> {
    let byte = |c: char| match upper {
        Some(upper) if !c.is_ascii() => {
            let at = upper.chars().position(|upper| upper == c)?;
            Some(0x80 + at as u8)
        }
        _ => u8::try_from(u32::from(c)).ok(),
    };
    text.chars().map(byte).collect()
}

/// Spaces that were non-breaking ones and belong to a character.
fn restore_a0(bytes: &[u8]) -> Vec<u8> {
    let is_altered = (0..bytes.len()).any(|at| altered_len(&bytes[at..]) > 0);
    if !is_altered {
        return bytes.to_vec();
    }
    // "Ã la": a separate word, except for the contractions of Portuguese.
    let mut apart = Vec::with_capacity(bytes.len() + 8);
    for (at, &byte) in bytes.iter().enumerate() {
        apart.push(byte);
        let is_word = bytes[at + 1..]
            .strip_prefix(b" ")
            .is_some_and(|rest| !CONTRACTED.iter().any(|part| rest.starts_with(part)));
        if byte == 0xc3 && is_word {
            apart.push(0xa0);
        }
    }
    let mut restored = Vec::with_capacity(apart.len());
    let mut rest = &apart[..];
    while !rest.is_empty() {
        let len = altered_len(rest);
        let (found, behind) = rest.split_at(len.max(1));
        let is_lost = |byte: u8| len > 0 && byte == b' ';
        restored.extend(found.iter().map(|&b| if is_lost(b) { 0xa0 } else { b }));
        rest = behind;
    }
    restored
}

/// Length of the UTF-8 prefix in which a space replaced A0; 0 if there is none.
fn altered_len(bytes: &[u8]) -> usize {
    let fits = |pattern: &&&[ByteRanges]| {
        let is_in = |(byte, ranges): (&u8, &ByteRanges)| {
            ranges.iter().any(|(a, b)| (a..=b).contains(&byte))
        };
        bytes.len() >= pattern.len() && bytes.iter().zip(**pattern).all(is_in)
    };
    ALTERED.iter().find(fits).map_or(0, |pattern| pattern.len())
}

/// Continuations of the Portuguese `à`.
const CONTRACTED: [&[u8]; 5] = [b" ", b"quele", b"quela", b"quilo", b"s "];

/// Byte ranges allowed at one position.
type ByteRanges = &'static [(u8, u8)];
const ANY: ByteRanges = &[(0x80, 0xbf)];
const SPACE: ByteRanges = &[(b' ', b' ')];
const NOT_85_A0: ByteRanges = &[(0x80, 0x84), (0x86, 0x9f), (0xa1, 0xbf)];
const F0: ByteRanges = &[(0xf0, 0xf0)];

/// UTF-8 in which a space took the place of A0, where that makes a likely character.
const ALTERED: &[&[ByteRanges]] = &[
    &[
        &[
            (0xc2, 0xc3),
            (0xc5, 0xc5),
            (0xce, 0xce),
            (0xd0, 0xd0),
            (0xd9, 0xd9),
        ],
        SPACE,
    ],
    &[&[(0xe2, 0xe3)], SPACE, NOT_85_A0],
    &[&[(0xe0, 0xe3)], NOT_85_A0, SPACE],
    &[F0, SPACE, ANY, ANY],
    &[F0, ANY, SPACE, ANY],
    &[F0, ANY, ANY, SPACE],
];

/// Repairs the parts that look like UTF-8 for themselves, where the whole text has no common encoding.
fn fix_islands(text: &str) -> String {
    static ISLAND: LazyLock<Regex> = LazyLock::new(|| {
        regex(&format!(
            "(?<![{UTF8_CONTINUATION_STRICT}])(?:[{UTF8_FIRST_OF_2}][{UTF8_CONTINUATION}]|\
             [{UTF8_FIRST_OF_3}][{UTF8_CONTINUATION}]{{2}}|[{UTF8_FIRST_OF_4}][{UTF8_CONTINUATION}]{{3}})+"
        ))
    });
    let fixed = ISLAND.replace_all(text, |found: &fancy_regex::Captures<'_>| {
        let island = found.get(0).map_or("", |found| found.as_str());
        if island.len() < text.len() && is_bad(island) {
            fix_encoding(island)
        } else {
            island.to_owned()
        }
    });
    fixed.into_owned()
}

/// Returns whether characters occur together that rarely do, unless they were decoded wrongly.
fn is_bad(text: &str) -> bool {
    static BADNESS: LazyLock<Regex> = LazyLock::new(|| regex(&badness_pattern()));
    // An expression that gives up has found nothing.
    !text.is_ascii() && BADNESS.is_match(text).unwrap_or(false)
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file are sound")
}

/// Unlikely neighbours, in the order and words of `ftfy`'s `BADNESS_RE`, without those of other encodings.
fn badness_pattern() -> String {
    let (law, start, end) = (LAW, START_PUNCTUATION, END_PUNCTUATION);
    let (lower, upper) = (LOWER_ACCENTED, UPPER_ACCENTED);
    let signs = format!("{BOX}{start}{end}{CURRENCY}{NUMERIC}{law}");
    let arabic = format!("[ØÙ][{COMMON}{CURRENCY}{BAD}{NUMERIC}{start}ŸŠ®°µ»]");
    [
        format!("[{C1}]"),
        format!("[{BAD}{lower}{upper}{signs}][{BAD}]"),
        format!("[a-zA-Z][{LOWER_COMMON}{UPPER_COMMON}][{BAD}]"),
        format!("[{BAD}][{lower}{upper}{signs}]"),
        format!("[{lower}{LOWER_COMMON}{BOX}{end}{CURRENCY}{NUMERIC}][{upper}]"),
        format!("[{BOX}{end}{CURRENCY}{NUMERIC}][{lower}]"),
        format!("[{lower}{BOX}{end}][{CURRENCY}]"),
        format!(r"\s[{upper}][{CURRENCY}]"),
        format!("[{upper}{BOX}][{NUMERIC}{law}]"),
        format!("[{lower}{upper}{BOX}{CURRENCY}{end}][{start}][{NUMERIC}]"),
        format!("[{lower}{upper}{CURRENCY}{NUMERIC}{BOX}{law}][{end}][{start}]"),
        format!("[{CURRENCY}{NUMERIC}{BOX}][{start}]"),
        format!("[a-z][{upper}][{start}{CURRENCY}]"),
        format!("[{BOX}][{KAOMOJI}]"),
        format!("[{lower}{upper}{CURRENCY}{NUMERIC}{start}{end}{law}][{BOX}]"),
        format!("[{BOX}][{end}]"),
        // Python's `\w`
        format!(r"[{lower}{upper}][{start}{end}][\p{{L}}\p{{N}}_]"),
        "[Œœ][^A-Za-z]".to_owned(),
        format!("[{upper}]°"),
        format!("[ÂÃÎÐ][€œŠš¢£Ÿž\u{a0}\u{ad}®©°·»{start}{end}–—´]"),
        "×[²³]".to_owned(),
        format!("{arabic}{arabic}"),
        "à[²µ¹¼½¾]".to_owned(),
        "вЂ".to_owned(),
        format!("[ВГРС][{C1}{BAD}{start}{end}{CURRENCY}°µ][ВГРС]"),
        "ГўВЂВ.[A-Za-z ]".to_owned(),
        "Ã[\u{a0}¡]".to_owned(),
        r"[a-z]\s?[ÃÂ][ ]".to_owned(),
        "^[ÃÂ][ ]".to_owned(),
        format!("[a-z.,?!{end}]Â[ {start}{end}]"),
    ]
    .join("|")
}
