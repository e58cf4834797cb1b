//! The texts in a WebM or Matroska file: its tags.

use std::io::{self, Read, Seek};

use super::super::clip::id;
use super::super::metadata::{ByteSource, MAX_SETTINGS_BYTES, element_at};
use super::{Texts, text_of};

/// Elements that are looked at; a cluster of known length is one.
const MAX_ELEMENTS: usize = 1_000_000;

/// What has to be entered, from the file inwards, to get at a tag's name and text.
const PATH: [u32; 4] = [id::SEGMENT, id::TAGS, id::TAG, id::SIMPLE_TAG];

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut Texts,
) -> io::Result<()> {
    // Where the elements that are being read end, from the file inwards.
    let mut ends = vec![source.len];
    let mut at = 0;
    let mut name = String::new();
    for _ in 0..MAX_ELEMENTS {
        while ends.len() > 1 && ends.last().is_some_and(|end| at >= *end) {
            ends.pop();
        }
        let end = ends.last().copied().unwrap_or_default();
        if at >= end {
            break;
        }
        let element = element_at(source, at, end)?;
        at = element.end;
        let depth = ends.len() - 1;
        if PATH.get(depth) == Some(&element.id) {
            name.clear();
            ends.push(element.end);
            at = element.start;
        } else if depth == PATH.len() {
            let len = element.end - element.start;
            let is_text = matches!(element.id, id::TAG_NAME | id::TAG_STRING);
            if is_text && len <= MAX_SETTINGS_BYTES {
                let content = text_of(&source.read_at(element.start, len)?);
                if element.id == id::TAG_NAME {
                    name = content.to_lowercase();
                } else {
                    texts.push(&name, content);
                }
            }
        } else if element.id == id::CLUSTER && element.end == end {
            // One of unknown length: what is in it is stepped over piece by piece.
            at = element.start;
        }
    }
    Ok(())
}
