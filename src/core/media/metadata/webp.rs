//! The texts in a WebP file: its EXIF and its XMP.

use std::io::{self, Read, Seek};

use super::{MetadataTexts, exif, is_short, xmp};
use crate::formats::{ByteSource, webp};

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut MetadataTexts,
) -> io::Result<()> {
    let mut chunks = webp::chunks(source)?;
    while !texts.is_complete()
        && let Some(chunk) = chunks.next_part()?
    {
        match &chunk.name {
            b"EXIF" if is_short(&chunk) => exif::texts(chunks.content(&chunk)?, texts),
            b"XMP " if is_short(&chunk) => xmp(&chunks.content(&chunk)?, texts),
            _ => {}
        }
    }
    Ok(())
}
