//! The texts in a WebM or Matroska file: its tags.

use std::io::{self, Read, Seek};

use super::{MetadataTexts, is_short, text_of};
use crate::formats::ByteSource;
use crate::formats::webm::{elements, id};

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut MetadataTexts,
) -> io::Result<()> {
    let mut elements = elements(source);
    let mut name = String::new();
    while !texts.is_complete()
        && let Some(element) = elements.next_part()?
    {
        match element.name {
            id::SEGMENT | id::TAGS | id::TAG => elements.enter(&element),
            id::SIMPLE_TAG => {
                name.clear();
                elements.enter(&element);
            }
            id::TAG_NAME if is_short(&element) => {
                name = text_of(&elements.content(&element)?).to_lowercase();
            }
            id::TAG_STRING if is_short(&element) => {
                texts.push(&name, text_of(&elements.content(&element)?));
            }
            _ => {}
        }
    }
    Ok(())
}
