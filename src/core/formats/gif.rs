//! The blocks of a GIF.

use std::io::{self, Read, Seek};

use super::{ByteSource, FilePart, FileParts, invalid};

const EXTENSION: u8 = 0x21;
const IMAGE: u8 = 0x2c;
const TRAILER: u8 = 0x3b;

/// The label of an extension that is a comment.
pub(crate) const COMMENT: u8 = 0xfe;

/// The extensions by their labels, and the images as [`IMAGE`], up to the end of the file.
pub(crate) fn blocks<R: Read + Seek>(
    source: &mut ByteSource<R>,
) -> io::Result<FileParts<'_, R, u8>> {
    let [.., flags, _, _] = source.array_at::<13>(0)?;
    let all = (13 + palette_bytes(flags), source.len);
    Ok(FileParts::new(source, all, |source, at, _| {
        let [kind] = source.array_at::<1>(at)?;
        let (name, start) = match kind {
            EXTENSION => {
                let [label] = source.array_at::<1>(at + 1)?;
                (label, at + 2)
            }
            IMAGE => {
                // Place, size and flags, the palette, and the width of the first code.
                let [.., flags] = source.array_at::<10>(at)?;
                (IMAGE, at + 10 + palette_bytes(flags) + 1)
            }
            TRAILER => return Ok(None),
            _ => return Err(invalid("it has an unknown block")),
        };
        let mut end = start;
        loop {
            let [len] = source.array_at::<1>(end)?;
            end += 1 + u64::from(len);
            if len == 0 {
                return Ok(Some((FilePart { name, start, end }, end)));
            }
        }
    }))
}

/// Content of a block, without the lengths of its pieces.
pub(crate) fn joined(block: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(block.len());
    let mut rest = block;
    while let Some((len, behind)) = rest.split_first()
        && let Some((piece, behind)) = behind.split_at_checked(usize::from(*len))
    {
        content.extend(piece);
        rest = behind;
    }
    content
}

fn palette_bytes(flags: u8) -> u64 {
    if flags & 0x80 == 0 {
        0
    } else {
        3 << ((flags & 7) + 1)
    }
}
