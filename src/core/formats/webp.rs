//! The chunks of a WebP file.

use std::io::{self, Read, Seek};

use super::{ByteSource, FilePart, FileParts, invalid};

/// `RIFF`, the size of what follows, `WEBP`.
const HEAD_BYTES: u64 = 12;
/// Of a frame, before its chunks.
const ANMF_BYTES: u64 = 16;
const SIDE_BITS: u32 = (1 << 14) - 1;

/// End of the file by its own header: after its true end when it is cut off.
pub(crate) fn end<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<u64> {
    let size = u32::from_le_bytes(source.array_at(4)?);
    Ok(u64::from(size) + 8)
}

pub(crate) fn chunks<R: Read + Seek>(
    source: &mut ByteSource<R>,
) -> io::Result<FileParts<'_, R, [u8; 4]>> {
    let all = (HEAD_BYTES, end(source)?);
    Ok(within(source, all))
}

/// The chunks between two places.
fn within<R: Read + Seek>(
    source: &mut ByteSource<R>,
    all: (u64, u64),
) -> FileParts<'_, R, [u8; 4]> {
    FileParts::new(source, all, |source, at, end| {
        if at + 8 > end {
            return Ok(None);
        }
        let [name @ .., a, b, c, d] = source.array_at::<8>(at)?;
        let len = u64::from(u32::from_le_bytes([a, b, c, d]));
        let start = at + 8;
        let part = FilePart {
            name,
            start,
            end: start + len,
        };
        Ok(Some((part, start + len.next_multiple_of(2))))
    })
}

/// An error where the pixels of a frame, or of an image with a canvas, say that they are more than the file says of them, or
/// where what next to the pixels says that it is longer than the file: a decoder makes room for those first. It also
/// reads after the end that the file's header names, so all of the file is checked.
pub(crate) fn check_sizes<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<()> {
    let mut frames = Vec::new();
    let mut canvas = None;
    let all = (HEAD_BYTES, source.len);
    let mut chunks = within(source, all);
    while let Some(chunk) = chunks.next_part()? {
        match &chunk.name {
            b"VP8X" => {
                let size = size_at(chunks.source, chunk.start + 4)?;
                if size.iter().any(|side| *side > SIDE_BITS + 1) {
                    return Err(invalid("its canvas is larger than a frame can be"));
                }
                canvas = Some(size);
            }
            b"ANMF" => {
                let size = size_at(chunks.source, chunk.start + 6)?;
                frames.push((size, (chunk.start + ANMF_BYTES, chunk.end)));
            }
            b"EXIF" | b"ICCP" | b"XMP " if chunk.end > chunks.source.len => {
                return Err(invalid("a part of it is longer than the file"));
            }
            _ => check_pixels(chunks.source, &chunk, canvas)?,
        }
    }
    for (size, all) in frames {
        let mut chunks = within(source, all);
        while let Some(chunk) = chunks.next_part()? {
            if chunk.end > all.1 {
                return Err(invalid("a part of a frame is longer than the frame"));
            }
            check_pixels(chunks.source, &chunk, Some(size))?;
        }
    }
    Ok(())
}

/// Width and height less one, three bytes each.
fn size_at<R: Read + Seek>(source: &mut ByteSource<R>, at: u64) -> io::Result<[u32; 2]> {
    let [w0, w1, w2, h0, h1, h2] = source.array_at(at)?;
    let side = |bytes: [u8; 4]| u32::from_le_bytes(bytes) + 1;
    Ok([side([w0, w1, w2, 0]), side([h0, h1, h2, 0])])
}

/// Returns true if these are pixels of at most this size.
fn check_pixels<R: Read + Seek>(
    source: &mut ByteSource<R>,
    chunk: &FilePart<[u8; 4]>,
    most: Option<[u32; 2]>,
) -> io::Result<()> {
    let found = match &chunk.name {
        // Behind three bytes and a mark: 14 bits each.
        b"VP8 " => {
            let [_, _, _, _, _, _, w0, w1, h0, h1] = source.array_at(chunk.start)?;
            [[w0, w1], [h0, h1]].map(|side| u32::from(u16::from_le_bytes(side)) & SIDE_BITS)
        }
        // Behind a mark: 14 bits each, less one.
        b"VP8L" => {
            let [_, bits @ ..] = source.array_at::<5>(chunk.start)?;
            let bits = u32::from_le_bytes(bits);
            [(bits & SIDE_BITS) + 1, ((bits >> 14) & SIDE_BITS) + 1]
        }
        _ => return Ok(()),
    };
    let is_more = most.is_some_and(|most| found[0] > most[0] || found[1] > most[1]);
    if is_more {
        return Err(invalid("a frame of it is larger than it says"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn chunk(name: [u8; 4], content: &[u8]) -> Vec<u8> {
        let mut bytes = name.to_vec();
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        bytes
    }

    fn is_sound(chunks: &[Vec<u8>]) -> bool {
        let file = chunk(*b"RIFF", &[b"WEBP".to_vec(), chunks.concat()].concat());
        let len = file.len() as u64;
        check_sizes(&mut ByteSource::new(Cursor::new(file), len)).is_ok()
    }

    #[test]
    fn webp_metadata_chunks_longer_than_the_file_are_refused() {
        for name in [*b"EXIF", *b"ICCP", *b"XMP "] {
            let mut text = chunk(name, b"about this");
            assert!(is_sound(&[text.clone()]));
            text[7] = 0x40;
            assert!(!is_sound(&[text.clone()]));
            // Behind the end that the header names.
            let mut file = chunk(*b"RIFF", b"WEBP");
            file.extend(text);
            let len = file.len() as u64;
            assert!(check_sizes(&mut ByteSource::new(Cursor::new(file), len)).is_err());
        }
    }

    #[test]
    fn webp_bitstreams_larger_than_their_canvas_or_frame_are_refused() {
        let lossy = |width: u16| {
            let [low, high] = width.to_le_bytes();
            chunk(*b"VP8 ", &[0, 0, 0, 0x9d, 1, 0x2a, low, high, 7, 0])
        };
        let lossless = |width: u32| {
            let bits = ((width - 1) | (6 << 14)).to_le_bytes();
            chunk(*b"VP8L", &[&[0x2f][..], &bits].concat())
        };
        // 20 by 7.
        let canvas = chunk(*b"VP8X", &[0, 0, 0, 0, 19, 0, 0, 6, 0, 0]);
        let frame = |pixels: Vec<u8>| {
            let head = [0, 0, 0, 0, 0, 0, 19, 0, 0, 6, 0, 0, 100, 0, 0, 0];
            chunk(*b"ANMF", &[&head[..], &pixels].concat())
        };
        let mut long = frame(chunk(*b"EXIF", b"about"));
        assert!(is_sound(&[canvas.clone(), long.clone()]));
        // Behind the frame's own head and numbers, and the name of its chunk.
        long[28..32].fill(0x20);
        assert!(!is_sound(&[canvas.clone(), long]));
        for (width, is_good) in [(20, true), (21, false), (16_383, false)] {
            for pixels in [lossy(width), lossless(width.into())] {
                let found = is_sound(&[canvas.clone(), pixels.clone()]);
                assert_eq!(found, is_good, "{width}");
                let frames = [canvas.clone(), frame(lossy(20)), frame(pixels.clone())];
                assert_eq!(is_sound(&frames), is_good, "{width}");
                // Without a canvas it is what it is.
                assert!(is_sound(&[pixels]));
            }
        }
    }
}
