//! The texts in a block of EXIF, which is a small TIFF: the user's comment in each of its encodings, the description,
//! and the tags that `ComfyUI` puts its graphs into.

use super::{Texts, text_of};

const DESCRIPTION: u16 = 0x010e;
const MAKE: u16 = 0x010f;
const MODEL: u16 = 0x0110;
const EXIF_IFD: u16 = 0x8769;
const USER_COMMENT: u16 = 0x9286;
/// Windows' own comment, always in UTF-16.
const XP_COMMENT: u16 = 0x9c9c;

/// Entries of one directory that are looked at.
const MAX_ENTRIES: u16 = 512;

/// Pushes what the block says; what does not hold together is passed over.
pub(super) fn texts(block: &[u8], texts: &mut Texts) {
    let block = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
    let is_little = match block.get(..2) {
        Some(b"II") => true,
        Some(b"MM") => false,
        _ => return,
    };
    let tiff = Tiff { block, is_little };
    let Some(first) = tiff.u32_at(4) else {
        return;
    };
    // One directory below the first, and no deeper: a circle is not walked.
    if let Some(below) = tiff.directory(first, texts) {
        tiff.directory(below, texts);
    }
}

struct Tiff<'a> {
    block: &'a [u8],
    is_little: bool,
}

impl Tiff<'_> {
    fn u16_at(&self, at: usize) -> Option<u16> {
        let bytes = self.block.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if self.is_little {
            u16::from_le_bytes(bytes)
        } else {
            u16::from_be_bytes(bytes)
        })
    }

    fn u32_at(&self, at: usize) -> Option<u32> {
        let bytes = self.block.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.is_little {
            u32::from_le_bytes(bytes)
        } else {
            u32::from_be_bytes(bytes)
        })
    }

    /// Pushes the texts of a directory; gives where the EXIF directory is that it names.
    fn directory(&self, at: u32, texts: &mut Texts) -> Option<u32> {
        let at = at as usize;
        let count = self.u16_at(at)?.min(MAX_ENTRIES);
        let mut below = None;
        for index in 0..usize::from(count) {
            let entry = at + 2 + index * 12;
            let Some(tag) = self.u16_at(entry) else {
                break;
            };
            if tag == EXIF_IFD {
                below = self.u32_at(entry + 8);
            } else if let Some(value) = self.value(entry) {
                self.push(tag, value, texts);
            }
        }
        below
    }

    /// The bytes of an entry whose values are bytes or letters.
    fn value(&self, entry: usize) -> Option<&[u8]> {
        // Bytes, letters, undefined.
        if !matches!(self.u16_at(entry + 2)?, 1 | 2 | 7) {
            return None;
        }
        let len = self.u32_at(entry + 4)? as usize;
        let start = if len <= 4 {
            entry + 8
        } else {
            self.u32_at(entry + 8)? as usize
        };
        self.block.get(start..start.checked_add(len)?)
    }

    fn push(&self, tag: u16, value: &[u8], texts: &mut Texts) {
        let name = match tag {
            USER_COMMENT => return texts.push("UserComment", self.user_comment(value)),
            XP_COMMENT => return texts.push("XPComment", utf16(value, true)),
            DESCRIPTION => "ImageDescription",
            MAKE => "Make",
            MODEL => "Model",
            _ => return,
        };
        let text = text_of(value);
        // `prompt:{…}`: a tag of no meaning of its own, with a name in front.
        match text.split_once(':') {
            Some((name @ ("prompt" | "workflow"), graph)) if graph.starts_with('{') => {
                texts.push(name, graph.to_owned());
            }
            _ => texts.push(name, text),
        }
    }

    /// The comment behind the eight bytes that say how it is written.
    fn user_comment(&self, value: &[u8]) -> String {
        match value.split_at_checked(8) {
            Some((b"UNICODE\0", text)) => utf16(text, is_little_endian(text, self.is_little)),
            // JIS says the same of every letter that a setting is named with.
            Some((b"ASCII\0\0\0" | b"JIS\0\0\0\0\0" | b"\0\0\0\0\0\0\0\0", text)) => text_of(text),
            _ => text_of(value),
        }
    }
}

/// Which half of each letter is the small one. The standard leaves it to the block, but the most used writer always
/// puts the large half first; so the zeros beside the Latin letters decide.
fn is_little_endian(text: &[u8], is_block_little: bool) -> bool {
    if text.starts_with(&[0xff, 0xfe]) {
        return true;
    }
    let zeros = |offset: usize| text.iter().skip(offset).step_by(2).take(4096);
    let first = zeros(0).filter(|byte| **byte == 0).count();
    let second = zeros(1).filter(|byte| **byte == 0).count();
    match first.cmp(&second) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => is_block_little,
    }
}

fn utf16(bytes: &[u8], is_little: bool) -> String {
    let units = bytes.chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        if is_little {
            u16::from_le_bytes(pair)
        } else {
            u16::from_be_bytes(pair)
        }
    });
    let text: String = char::decode_utf16(units)
        .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    text.trim_matches(['\u{feff}', '\0']).to_owned()
}
