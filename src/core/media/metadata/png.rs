//! The settings in a PNG: the text called `safelight`, in any of the three forms that programs turn it
//! into when they save the picture again.

use std::io::{self, Read, Seek};

use flate2::read::ZlibDecoder;

use super::{ByteSource, MAX_PARTS, MAX_SETTINGS_BYTES, PNG_KEYWORD, settings_from_bytes};

pub(super) fn settings<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<Option<String>> {
    let mut at = 8;
    for _ in 0..MAX_PARTS {
        let [a, b, c, d, name @ ..] = source.array_at::<8>(at)?;
        let len = u64::from(u32::from_be_bytes([a, b, c, d]));
        match &name {
            b"IEND" => return Ok(None),
            b"tEXt" | b"zTXt" | b"iTXt" if len <= MAX_SETTINGS_BYTES + 200 => {
                let data = source.read_at(at + 8, len)?;
                if let Some(settings) = settings_from_chunk(name, &data) {
                    return Ok(Some(settings));
                }
            }
            _ => {}
        }
        // Its head, its data, its checksum.
        at += 12 + len;
    }
    Ok(None)
}

fn settings_from_chunk(name: [u8; 4], data: &[u8]) -> Option<String> {
    let rest = data
        .strip_prefix(PNG_KEYWORD.as_bytes())?
        .strip_prefix(b"\0")?;
    match &name {
        // Latin-1 by the standard, but UTF-8 is what careless programs copy into it.
        b"tEXt" => settings_from_bytes(rest).or_else(|| {
            let text: String = rest.iter().map(|byte| char::from(*byte)).collect();
            settings_from_bytes(text.as_bytes())
        }),
        b"zTXt" => settings_from_bytes(&inflated(rest.get(1..)?)?),
        _ => {
            let (flags, rest) = rest.split_at_checked(2)?;
            let language_end = rest.iter().position(|byte| *byte == 0)?;
            let rest = &rest[language_end + 1..];
            let keyword_end = rest.iter().position(|byte| *byte == 0)?;
            let text = &rest[keyword_end + 1..];
            if flags[0] == 0 {
                settings_from_bytes(text)
            } else {
                settings_from_bytes(&inflated(text)?)
            }
        }
    }
}

/// The decompressed bytes, unless they are broken or more than settings may have.
pub(in crate::media) fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    ZlibDecoder::new(bytes)
        .take(MAX_SETTINGS_BYTES + 1)
        .read_to_end(&mut out)
        .ok()?;
    (out.len() as u64 <= MAX_SETTINGS_BYTES).then_some(out)
}
