//! Undoes the decoding of UTF-8 by the wrong rules, layer by layer, where text looks as if that had happened.

use std::sync::LazyLock;

use fancy_regex::Regex;

use super::tables::{
    BAD, BOX, C1, COMMON, CURRENCY, ENCODINGS, END_PUNCTUATION, Encoding, KAOMOJI, LAW,
    LOWER_ACCENTED, LOWER_COMMON, NUMERIC, START_PUNCTUATION, UPPER_ACCENTED, UPPER_COMMON,
    UTF8_CONTINUATION, UTF8_CONTINUATION_STRICT, UTF8_FIRST_OF_2, UTF8_FIRST_OF_3, UTF8_FIRST_OF_4,
};

const LOST: u8 = 0x1a;

pub fn fix_encoding(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(better) = undo_one(&text) {
        text = better;
    }
    text
}

/// C1 control characters are Windows-1252 in disguise.
pub fn fix_c1_control(c: char) -> char {
    match u32::from(c) {
        code @ 0x80..=0x9f => windows_1252().char_from(code as u8),
        _ => c,
    }
}

/// One layer less, where there is one.
fn undo_one(text: &str) -> Option<String> {
    if !is_bad(text) {
        return None;
    }
    for encoding in &ENCODINGS {
        if let Some(bytes) = encoding.encode(text)
            && let Some(found) = decode(bytes, encoding)
        {
            return (found != text).then_some(found);
        }
    }
    let found = fix_islands(text);
    if found != text {
        return Some(found);
    }
    // Latin-1 with control characters is Windows-1252, as a whole or at least there.
    let found = match text
        .chars()
        .map(strict_windows_1252)
        .collect::<Option<String>>()
    {
        Some(found) if found != text => found,
        _ => text.chars().map(fix_c1_control).collect(),
    };
    (found != text).then_some(found)
}

fn strict_windows_1252(c: char) -> Option<char> {
    let byte = u8::try_from(u32::from(c)).ok()?;
    let found = if byte < 0x80 {
        c
    } else {
        windows_1252().char_from(byte)
    };
    (!matches!(found, '\u{80}'..='\u{9f}')).then_some(found)
}

fn windows_1252() -> &'static Encoding {
    &ENCODINGS[1]
}

impl Encoding {
    fn char_from(&self, byte: u8) -> char {
        match byte {
            LOST if self.is_sloppy => '\u{FFFD}',
            0..0x80 => char::from(byte),
            _ => {
                let upper = self.upper.chars().nth(usize::from(byte - 0x80));
                upper.unwrap_or('\u{FFFD}')
            }
        }
    }

    /// `None` when a character has no byte.
    fn encode(&self, text: &str) -> Option<Vec<u8>> {
        let byte = |c: char| match c {
            '\u{FFFD}' if self.is_sloppy => Some(LOST),
            '\u{1a}' if self.is_sloppy => None,
            c if c.is_ascii() => Some(c as u8),
            c => {
                let at = self.upper.chars().position(|upper| upper == c)?;
                Some(0x80 + at as u8)
            }
        };
        text.chars().map(byte).collect()
    }
}

/// Bytes as the UTF-8 they were meant to be, with what got lost on the way.
fn decode(mut bytes: Vec<u8>, encoding: &Encoding) -> Option<String> {
    if encoding.may_lose_a0 && substitute(&bytes, ALTERED, <[u8]>::to_vec).1 {
        bytes = restore_a0(&bytes);
    }
    if encoding.is_sloppy {
        bytes = substitute(&bytes, LOSSY, |_| "\u{FFFD}".as_bytes().to_vec()).0;
    }
    if bytes.contains(&0xed) || bytes.contains(&0xc0) {
        bytes = plain_utf8(&bytes);
    }
    String::from_utf8(bytes).ok()
}

/// Java's and CESU's spellings of zero and of large characters, as plain UTF-8.
fn plain_utf8(bytes: &[u8]) -> Vec<u8> {
    let bytes = substitute(bytes, &[&[C0, &[(0x80, 0x80)]]], |_| vec![0]).0;
    substitute(&bytes, &[&[ED, HIGH, ANY, ED, LOW, ANY]], |pair| {
        let part = |at: usize| u32::from(pair[at] & 0x3f);
        let high = (part(1) & 0x0f) << 6 | part(2);
        let low = (part(4) & 0x0f) << 6 | part(5);
        let c = char::from_u32(0x10000 + (high << 10 | low)).unwrap_or('\u{FFFD}');
        c.to_string().into_bytes()
    })
    .0
}

/// Spaces that were non-breaking ones and belong to a character.
fn restore_a0(bytes: &[u8]) -> Vec<u8> {
    // "Ã la": a word of its own, but for the contractions of Portuguese.
    let mut apart = Vec::with_capacity(bytes.len() + 8);
    for (at, &byte) in bytes.iter().enumerate() {
        let rest = &bytes[at + 1..];
        let word = |word: &[u8]| rest[1..].starts_with(word);
        if byte == 0xc3
            && rest.first() == Some(&b' ')
            && ![&b" "[..], b"quele", b"quela", b"quilo", b"s "]
                .into_iter()
                .any(word)
        {
            apart.extend([0xc3, 0xa0]);
        } else {
            apart.push(byte);
        }
    }
    substitute(&apart, ALTERED, |found| {
        let restored = found.iter().map(|&b| if b == b' ' { 0xa0 } else { b });
        restored.collect()
    })
    .0
}

/// Ranges of bytes that may stand in one place.
type Bytes = &'static [(u8, u8)];
const C0: Bytes = &[(0xc0, 0xc0)];
const ED: Bytes = &[(0xed, 0xed)];
const HIGH: Bytes = &[(0xa0, 0xaf)];
const LOW: Bytes = &[(0xb0, 0xbf)];
const ANY: Bytes = &[(0x80, 0xbf)];
const SPACE: Bytes = &[(b' ', b' ')];
const NOT_85_A0: Bytes = &[(0x80, 0x84), (0x86, 0x9f), (0xa1, 0xbf)];
const GONE: Bytes = &[(LOST, LOST)];
const GONE_OR_ASKED: Bytes = &[(LOST, LOST), (b'?', b'?')];
const GONE_OR_ANY: Bytes = &[(LOST, LOST), (0x80, 0xbf)];
const GONE_ASKED_OR_ANY: Bytes = &[(LOST, LOST), (b'?', b'?'), (0x80, 0xbf)];
const FIRST_OF_3: Bytes = &[(0xe0, 0xef)];
const FIRST_OF_4: Bytes = &[(0xf0, 0xf4)];
const F0: Bytes = &[(0xf0, 0xf0)];

/// UTF-8 in which a space took the place of A0, where that makes a likely character.
const ALTERED: &[&[Bytes]] = &[
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

/// UTF-8 of which a part was lost.
const LOSSY: &[&[Bytes]] = &[
    &[&[(0xc2, 0xdf)], GONE],
    &[&[(0xc2, 0xc3)], &[(b'?', b'?')]],
    &[ED, HIGH, GONE_OR_ASKED, ED, LOW, GONE_ASKED_OR_ANY],
    &[ED, HIGH, GONE_ASKED_OR_ANY, ED, LOW, GONE_OR_ASKED],
    &[FIRST_OF_3, GONE_OR_ASKED, GONE_OR_ANY],
    &[FIRST_OF_3, GONE_OR_ANY, GONE_OR_ASKED],
    &[FIRST_OF_4, GONE_OR_ASKED, GONE_OR_ANY, GONE_OR_ANY],
    &[FIRST_OF_4, GONE_OR_ANY, GONE_OR_ASKED, GONE_OR_ANY],
    &[FIRST_OF_4, GONE_OR_ANY, GONE_OR_ANY, GONE_OR_ASKED],
    &[GONE],
];

/// Replaces every match of the first pattern that fits, and says whether there was one.
fn substitute(
    bytes: &[u8],
    patterns: &[&[Bytes]],
    replacement: impl Fn(&[u8]) -> Vec<u8>,
) -> (Vec<u8>, bool) {
    let fits = |rest: &[u8], pattern: &[Bytes]| {
        let is_in =
            |(byte, ranges): (&u8, &Bytes)| ranges.iter().any(|(a, b)| (a..=b).contains(&byte));
        rest.len() >= pattern.len() && rest.iter().zip(pattern).all(is_in)
    };
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    let mut any = false;
    while let Some((&first, behind)) = rest.split_first() {
        if let Some(pattern) = patterns.iter().find(|pattern| fits(rest, pattern)) {
            let (found, behind) = rest.split_at(pattern.len());
            out.extend(replacement(found));
            rest = behind;
            any = true;
        } else {
            out.push(first);
            rest = behind;
        }
    }
    (out, any)
}

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

/// Whether characters meet that hardly ever meet, unless they were decoded wrongly.
fn is_bad(text: &str) -> bool {
    static BADNESS: LazyLock<Regex> = LazyLock::new(|| regex(&badness_pattern()));
    // An expression that gives up has found nothing.
    !text.is_ascii() && BADNESS.is_match(text).unwrap_or(false)
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this file are sound")
}

/// Unlikely neighbours, in the order and words of `ftfy`'s `BADNESS_RE`.
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
        "√[±∂†≠®™´≤≥¥µø]".to_owned(),
        "≈[°¢]".to_owned(),
        "‚Ä[ìîïòôúùû†°¢π]".to_owned(),
        "‚[âó][àä°ê]".to_owned(),
        "вЂ".to_owned(),
        format!("[ВГРС][{C1}{BAD}{start}{end}{CURRENCY}°µ][ВГРС]"),
        "ГўВЂВ.[A-Za-z ]".to_owned(),
        "Ã[\u{a0}¡]".to_owned(),
        r"[a-z]\s?[ÃÂ][ ]".to_owned(),
        "^[ÃÂ][ ]".to_owned(),
        format!("[a-z.,?!{end}]Â[ {start}{end}]"),
        "β€[™\u{a0}Ά\u{ad}®°]".to_owned(),
        format!("[ΒΓΞΟ][{C1}{BAD}{start}{end}{CURRENCY}°][ΒΓΞΟ]"),
        "ā€".to_owned(),
    ]
    .join("|")
}
