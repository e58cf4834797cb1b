//! The texts in a JPEG: its EXIF, its XMP and its comments.

use std::io::{self, Read, Seek};

use super::super::metadata::ByteSource;
use super::{Texts, exif, text_of, xmp};

/// So many segments stand before the picture at most.
const MAX_SEGMENTS: usize = 100_000;
const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut Texts,
) -> io::Result<()> {
    let mut at = 2;
    for _ in 0..MAX_SEGMENTS {
        let [first, marker] = source.array_at::<2>(at)?;
        match (first, marker) {
            // Fill bytes before a marker.
            (0xff, 0xff) => at += 1,
            // The picture itself, or its end.
            (0xff, 0xd9 | 0xda) => break,
            (0xff, 0x01 | 0xd0..=0xd8) => at += 2,
            (0xff, _) => {
                let len = u64::from(u16::from_be_bytes(source.array_at::<2>(at + 2)?)).max(2);
                if matches!(marker, 0xe1 | 0xfe) {
                    let data = source.read_at(at + 4, len - 2)?;
                    segment(marker, &data, texts);
                }
                at += 2 + len;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(())
}

fn segment(marker: u8, data: &[u8], texts: &mut Texts) {
    if marker == 0xfe {
        texts.push("comment", text_of(data));
    } else if data.starts_with(b"Exif\0\0") {
        exif::texts(data, texts);
    } else if let Some(packet) = data.strip_prefix(XMP) {
        xmp(packet, texts);
    }
}
