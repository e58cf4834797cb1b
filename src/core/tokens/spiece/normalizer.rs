//! SentencePiece's normalisation: characters by a compiled map, then white space.
//!
//! The map is a double array (`darts-clone`) with the texts that it points to; every index into either is checked,
//! because a damaged file can point anywhere.
//! After <https://github.com/google/sentencepiece/blob/v0.2.0/src/normalizer.cc>.

use super::pieces::PieceTable;
use super::proto::NormalizerSpec;

/// Marks a unit without predecessor.
const NO_UNIT: usize = usize::MAX;

/// Replacement of a space: U+2581.
const SPACE_SYMBOL: &[u8] = "\u{2581}".as_bytes();

pub(super) struct SpieceNormalizer {
    charsmap: Option<CharsMap>,
    spec: NormalizerSpec,
    space_is_suffix: bool,
}

impl SpieceNormalizer {
    pub(super) fn new(mut spec: NormalizerSpec, space_is_suffix: bool) -> Result<Self, String> {
        let blob = std::mem::take(&mut spec.precompiled_charsmap);
        let charsmap = (!blob.is_empty()).then(|| CharsMap::parse(&blob));
        Ok(Self {
            charsmap: charsmap.transpose()?,
            spec,
            space_is_suffix,
        })
    }

    /// The text in which pieces are looked for; `kept` are pieces that no rule may touch.
    pub(super) fn normalize(&self, text: &str, kept: &PieceTable) -> Vec<u8> {
        let space = self.space();
        let mut rest = text;
        if self.spec.remove_extra_whitespaces {
            while let Some((b" ", len)) = self.next(rest, kept) {
                rest = &rest[len..];
            }
        }
        let mut normal = Vec::with_capacity(rest.len() + space.len());
        if rest.is_empty() {
            return normal;
        }
        if !self.space_is_suffix && self.spec.add_dummy_prefix {
            normal.extend_from_slice(space);
        }
        let mut was_space = self.spec.remove_extra_whitespaces;
        while let Some((mut part, len)) = self.next(rest, kept) {
            while was_space && let Some(shorter) = part.strip_prefix(b" ") {
                part = shorter;
            }
            for &byte in part {
                match byte {
                    b' ' => normal.extend_from_slice(space),
                    byte => normal.push(byte),
                }
            }
            if !part.is_empty() {
                was_space = part.ends_with(b" ");
            }
            was_space &= self.spec.remove_extra_whitespaces;
            rest = &rest[len..];
        }
        if self.spec.remove_extra_whitespaces {
            while normal.ends_with(space) {
                normal.truncate(normal.len() - space.len());
            }
        }
        if self.space_is_suffix && self.spec.add_dummy_prefix {
            normal.extend_from_slice(space);
        }
        normal
    }

    fn space(&self) -> &'static [u8] {
        if self.spec.escape_whitespaces {
            SPACE_SYMBOL
        } else {
            b" "
        }
    }

    /// Replacement of the beginning of `rest`, and the number of its bytes that it replaces; `None` at the end.
    fn next<'a>(&'a self, rest: &'a str, kept: &PieceTable) -> Option<(&'a [u8], usize)> {
        let bytes = rest.as_bytes();
        let first = rest.chars().next()?.len_utf8();
        if let Some((len, _)) = kept.prefixes(bytes).last() {
            return Some((&bytes[..len], len));
        }
        let rule = self.charsmap.as_ref().and_then(|map| map.longest(bytes));
        // A rule that ends within a character comes from a damaged map.
        match rule {
            Some((text, len)) if rest.is_char_boundary(len) => Some((text, len)),
            _ => Some((&bytes[..first], first)),
        }
    }
}

/// Returns whether a compiled map is valid for a reader that checks no index.
pub(in crate::tokens) fn is_sound(blob: &[u8]) -> bool {
    CharsMap::parse(blob).is_ok_and(|map| map.is_sound())
}

/// Rules: character sequences and their replacements.
struct CharsMap {
    units: Vec<u32>,
    texts: Vec<u8>,
}

impl CharsMap {
    fn parse(blob: &[u8]) -> Result<Self, String> {
        let wrong = || "its map of characters is damaged".to_owned();
        let (len, rest) = blob.split_first_chunk::<4>().ok_or_else(wrong)?;
        let len = u32::from_le_bytes(*len) as usize;
        let (units, texts) = rest.split_at_checked(len).ok_or_else(wrong)?;
        let (units, odd) = units.as_chunks::<4>();
        if !odd.is_empty() || units.is_empty() || texts.last() != Some(&0) {
            return Err(wrong());
        }
        Ok(Self {
            units: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(),
            texts: texts.to_vec(),
        })
    }

    /// Returns whether no text leads out of the units, or to invalid text.
    fn is_sound(&self) -> bool {
        let Ok(texts) = std::str::from_utf8(&self.texts) else {
            return false;
        };
        // A unit of a byte is at that offset from the base of its parents.
        let mut first = vec![NO_UNIT; self.units.len()];
        let mut next = first.clone();
        for (at, &unit) in self.units.iter().enumerate() {
            if let Some(byte) = byte_of(unit)
                && let Some(first) = first.get_mut(at ^ usize::from(byte))
            {
                next[at] = std::mem::replace(first, at);
            }
        }
        let mut waiting = vec![0];
        while let Some(at) = waiting.pop() {
            let unit = self.units[at];
            let base = at ^ offset(unit);
            // Any byte may be looked up from here.
            if base | 0xff >= self.units.len() {
                return false;
            }
            let has_leaf = unit >> 8 & 1 == 1;
            let value = (self.units[base] & 0x7fff_ffff) as usize;
            if byte_of(unit).is_some() && has_leaf && !texts.is_char_boundary(value) {
                return false;
            }
            let mut child = std::mem::replace(&mut first[base], NO_UNIT);
            while child != NO_UNIT {
                waiting.push(child);
                child = next[child];
            }
        }
        true
    }

    /// The rule for the longest beginning of `bytes`: its text, and how many bytes it replaces.
    fn longest(&self, bytes: &[u8]) -> Option<(&[u8], usize)> {
        let mut found = None;
        let mut unit = *self.units.first()?;
        let mut position = offset(unit);
        for (i, &byte) in bytes.iter().enumerate() {
            position ^= usize::from(byte);
            let Some(&next) = self.units.get(position) else {
                break;
            };
            unit = next;
            if byte_of(unit) != Some(byte) {
                break;
            }
            position ^= offset(unit);
            let has_leaf = unit >> 8 & 1 == 1;
            if has_leaf && let Some(leaf) = self.units.get(position) {
                found = Some(((leaf & 0x7fff_ffff) as usize, i + 1));
            }
        }
        let (start, len) = found?;
        let text = self.texts.get(start..)?.split(|&byte| byte == 0).next()?;
        Some((text, len))
    }
}

/// The byte that leads to a unit. The root is no byte's, nor is a unit that holds a value: its top bit is set.
fn byte_of(unit: u32) -> Option<u8> {
    let byte = unit & (1 << 31 | 0xff);
    u8::try_from(byte).ok().filter(|byte| *byte > 0)
}

/// Offset of a unit's children.
fn offset(unit: u32) -> usize {
    (unit as usize >> 10) << ((unit & 1 << 9) >> 6)
}
