//! The segments of a JPEG, up to the image itself.

use std::io::{Read, Seek};

use super::{ByteSource, FilePart, FileParts, invalid};

/// Application segment with EXIF or XMP.
pub(crate) const APP1: u8 = 0xe1;
pub(crate) const COMMENT: u8 = 0xfe;

const START_BYTES: u64 = 2;

/// The segments before the image, by their markers; a marker that has no segment is one without content.
pub(crate) fn segments<R: Read + Seek>(source: &mut ByteSource<R>) -> FileParts<'_, R, u8> {
    let all = (START_BYTES, source.len);
    FileParts::new(source, all, |source, at, _| {
        let (name, start, end) = match source.array_at::<2>(at)? {
            // The image itself, or its end.
            [0xff, 0xd9 | 0xda] => return Ok(None),
            // A fill byte before a marker.
            [0xff, 0xff] => (0xff, at + 1, at + 1),
            [0xff, marker @ (0x01 | 0xd0..=0xd8)] => (marker, at + 2, at + 2),
            [0xff, marker] => {
                // The length counts its own two bytes.
                let len = u64::from(u16::from_be_bytes(source.array_at::<2>(at + 2)?)).max(2);
                (marker, at + 4, at + 2 + len)
            }
            _ => return Err(invalid("it has an unknown part")),
        };
        Ok(Some((FilePart { name, start, end }, end)))
    })
}
