//! The chunks of a PNG.

use std::io::{Read, Seek};

use super::{ByteSource, FilePart, FileParts};

const SIGNATURE_BYTES: u64 = 8;
const CHECKSUM_BYTES: u64 = 4;

/// The chunks up to the one that ends the image.
pub(crate) fn chunks<R: Read + Seek>(source: &mut ByteSource<R>) -> FileParts<'_, R, [u8; 4]> {
    let all = (SIGNATURE_BYTES, source.len);
    FileParts::new(source, all, |source, at, _| {
        let [a, b, c, d, name @ ..] = source.array_at::<8>(at)?;
        if &name == b"IEND" {
            return Ok(None);
        }
        let start = at + 8;
        let end = start + u64::from(u32::from_be_bytes([a, b, c, d]));
        Ok(Some((FilePart { name, start, end }, end + CHECKSUM_BYTES)))
    })
}
