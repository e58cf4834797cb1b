//! The settings in a WebP file: the element of our own in its XMP.

use std::io::{self, Read, Seek};

use super::{ByteSource, MAX_PARTS, settings_from_bytes};

pub(super) fn settings<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<Option<String>> {
    // RIFF, size, WEBP.
    let [_, _, _, _, a, b, c, d, ..] = source.array_at::<12>(0)?;
    let end = u64::from(u32::from_le_bytes([a, b, c, d])) + 8;
    let mut at = 12;
    for _ in 0..MAX_PARTS {
        if at + 8 > end {
            return Ok(None);
        }
        let [name @ .., a, b, c, d] = source.array_at::<8>(at)?;
        let len = u64::from(u32::from_le_bytes([a, b, c, d]));
        if &name == b"XMP " {
            let packet = source.read_at(at + 8, len)?;
            return Ok(settings_from_packet(&packet));
        }
        at += 8 + len.next_multiple_of(2);
    }
    Ok(None)
}

fn settings_from_packet(packet: &[u8]) -> Option<String> {
    let packet = str::from_utf8(packet).ok()?;
    let (_, rest) = packet.split_once("<safelight:settings>")?;
    let (escaped, _) = rest.split_once("</safelight:settings>")?;
    settings_from_bytes(unescaped(escaped).as_bytes())
}

/// XML text with its entities put back; an unknown one stays as it is.
pub(in crate::media) fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let known = part.split_once(';').and_then(|(name, rest)| {
            let c = match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                name => char::from_u32(match name.strip_prefix("#x") {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => name.strip_prefix('#')?.parse().ok()?,
                })?,
            };
            Some((c, rest))
        });
        if let Some((c, rest)) = known {
            out.push(c);
            out.push_str(rest);
        } else {
            out.push('&');
            out.push_str(part);
        }
    }
    out
}
