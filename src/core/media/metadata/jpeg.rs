//! The texts in a JPEG: its EXIF, its XMP and its comments; those that begin with our name are the parts of the
//! settings, in their order.

use std::io::{self, Read, Seek};

use super::{JPEG_PREFIX, MetadataTexts, OWN_NAME, exif, text_of, xmp};
use crate::formats::{ByteSource, jpeg};
use crate::media::MAX_SETTINGS_BYTES;

const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut MetadataTexts,
) -> io::Result<()> {
    let mut segments = jpeg::segments(source);
    let mut settings = Vec::new();
    while !texts.is_complete()
        && let Some(segment) = segments.next_part()?
    {
        if !matches!(segment.name, jpeg::APP1 | jpeg::COMMENT) {
            continue;
        }
        let data = segments.content(&segment)?;
        if segment.name == jpeg::COMMENT {
            match data.strip_prefix(JPEG_PREFIX) {
                Some(part) if settings.len() as u64 <= MAX_SETTINGS_BYTES => settings.extend(part),
                Some(_) => {}
                None => texts.push("comment", text_of(&data)),
            }
        } else if data.starts_with(exif::PREFIX) {
            exif::texts(data, texts);
        } else if let Some(packet) = data.strip_prefix(XMP) {
            xmp(packet, texts);
        }
    }
    texts.push(OWN_NAME, text_of(&settings));
    Ok(())
}
