//! The settings in a WebM or Matroska file: the tag called `COMMENT`.

use std::io::{self, Read, Seek};

use super::{ByteSource, MAX_PARTS, settings_from_bytes};
use crate::media::clip::id;

/// An element's name and where its content begins and ends.
pub(in crate::media) struct Element {
    pub id: u32,
    pub start: u64,
    pub end: u64,
}

/// What has to be entered, from the file inwards, to get at a tag's name and text.
const PATH: [u32; 4] = [id::SEGMENT, id::TAGS, id::TAG, id::SIMPLE_TAG];

pub(super) fn settings<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<Option<String>> {
    // Where the elements that are being read end, from the file inwards.
    let mut ends = vec![source.len];
    let mut at = 0;
    let mut is_comment = false;
    for _ in 0..MAX_PARTS {
        while ends.len() > 1 && ends.last().is_some_and(|end| at >= *end) {
            ends.pop();
        }
        let end = ends.last().copied().unwrap_or_default();
        if at >= end {
            return Ok(None);
        }
        let element = element_at(source, at, end)?;
        at = element.end;
        let depth = ends.len() - 1;
        if PATH.get(depth) == Some(&element.id) {
            is_comment = false;
            ends.push(element.end);
            at = element.start;
        } else if depth == PATH.len() {
            let content = source.read_at(element.start, element.end - element.start)?;
            if element.id == id::TAG_NAME {
                is_comment = content.eq_ignore_ascii_case(b"COMMENT");
            } else if element.id == id::TAG_STRING
                && is_comment
                && let Some(settings) = settings_from_bytes(&content)
            {
                return Ok(Some(settings));
            }
        } else if element.id == id::CLUSTER && element.end == end {
            // One of unknown length: what is in it is stepped over piece by piece.
            at = element.start;
        }
    }
    Ok(None)
}

pub(in crate::media) fn element_at<R: Read + Seek>(
    source: &mut ByteSource<R>,
    at: u64,
    end: u64,
) -> io::Result<Element> {
    let (id, id_bytes) = number_at(source, at, 4, true)?;
    let (size, size_bytes) = number_at(source, at + id_bytes, 8, false)?;
    let start = at + id_bytes + size_bytes;
    // All bits set: the length was not known when it was written.
    let is_unknown = size == (1 << (7 * size_bytes)) - 1;
    let element_end = if is_unknown {
        Some(end)
    } else {
        start.checked_add(size)
    };
    match element_end {
        Some(element_end) if element_end <= end && start <= end => Ok(Element {
            id: id as u32,
            start,
            end: element_end,
        }),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A number whose leading zero bits tell its length; names keep the marker bit, sizes lose it.
fn number_at<R: Read + Seek>(
    source: &mut ByteSource<R>,
    at: u64,
    longest: u32,
    keeps_marker: bool,
) -> io::Result<(u64, u64)> {
    let [first] = source.array_at::<1>(at)?;
    let length = first.leading_zeros() + 1;
    if length > longest {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it has a name without end",
        ));
    }
    let mut value = u64::from(first);
    if !keeps_marker {
        value &= (1 << (8 - length)) - 1;
    }
    for byte in source.read_at(at + 1, u64::from(length - 1))? {
        value = value << 8 | u64::from(byte);
    }
    Ok((value, u64::from(length)))
}
