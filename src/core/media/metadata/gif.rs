//! The texts in a GIF: its comments.

use std::io::{self, Read, Seek};

use super::{COMMENT, MetadataTexts, is_short, text_of};
use crate::formats::{ByteSource, gif};

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut MetadataTexts,
) -> io::Result<()> {
    let mut blocks = gif::blocks(source)?;
    while !texts.is_complete()
        && let Some(block) = blocks.next_part()?
    {
        if block.name == gif::COMMENT && is_short(&block) {
            let content = gif::joined(&blocks.content(&block)?);
            texts.push(COMMENT, text_of(&content));
        }
    }
    Ok(())
}
