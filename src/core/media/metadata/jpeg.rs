//! The settings in a JPEG: the comments that begin with our name, put together in their order.

use std::io::{self, Read, Seek};

use super::{ByteSource, JPEG_PREFIX, MAX_PARTS, MAX_SETTINGS_BYTES, settings_from_bytes};

pub(super) fn settings<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<Option<String>> {
    let mut at = 2;
    let mut settings = Vec::new();
    for _ in 0..MAX_PARTS {
        let [first, marker] = source.array_at::<2>(at)?;
        match (first, marker) {
            // Fill bytes before a marker.
            (0xff, 0xff) => at += 1,
            // The picture itself, or its end.
            (0xff, 0xd9 | 0xda) => break,
            (0xff, 0x01 | 0xd0..=0xd8) => at += 2,
            (0xff, _) => {
                let len = u64::from(u16::from_be_bytes(source.array_at::<2>(at + 2)?)).max(2);
                if marker == 0xfe {
                    let text = source.read_at(at + 4, len - 2)?;
                    settings.extend(text.strip_prefix(JPEG_PREFIX).unwrap_or_default());
                }
                at += 2 + len;
            }
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "it has an unknown part",
                ));
            }
        }
        if settings.len() as u64 > MAX_SETTINGS_BYTES {
            return Ok(None);
        }
    }
    Ok(settings_from_bytes(&settings))
}
