//! Pictures and clips: what they are, the texts inside them, their pixels and frames.

use std::io;

use safelight_core::gallery::read_facts;
use safelight_core::media::{
    clip_info, first_picture, last_frame, media_info, open_picture, read_settings, read_texts,
};
use safelight_core::restore;

use crate::scratch::Scratch;

/// A clip with more pixels in all its frames is only looked at by its headers: decoding it is allowed, and slow.
const MAX_DECODED_PIXELS: u64 = 16_000_000;

pub const PNG: &[&str] = &[
    "IHDR",
    "PLTE",
    "IDAT",
    "IEND",
    "tRNS",
    "gAMA",
    "tEXt",
    "iTXt",
    "zTXt",
    "eXIf",
    "acTL",
    "fcTL",
    "fdAT",
    "parameters",
    "workflow",
    "prompt",
    "safelight",
    "\0\0\0\0",
];
pub const JPEG: &[&str] = &[
    "Exif\0\0",
    "JFIF\0",
    "Adobe",
    "safelight:",
    "II*\0",
    "MM\0*",
    "UNICODE\0",
    "ASCII\0\0\0",
];
pub const WEBP: &[&str] = &[
    "RIFF", "WEBP", "VP8 ", "VP8L", "VP8X", "ANIM", "ANMF", "ALPH", "EXIF", "XMP ", "ICCP",
];
pub const GIF: &[&str] = &[
    "GIF87a",
    "GIF89a",
    "NETSCAPE2.0",
    "!\u{fe}",
    "XMP DataXMP",
    ";",
];
pub const MP4: &[&str] = &[
    "ftyp",
    "moov",
    "moof",
    "mvhd",
    "trak",
    "tkhd",
    "mdia",
    "mdhd",
    "minf",
    "stbl",
    "stsd",
    "avc1",
    "avcC",
    "hvc1",
    "colr",
    "stts",
    "stsc",
    "stco",
    "co64",
    "stsz",
    "stz2",
    "ctts",
    "stss",
    "elst",
    "traf",
    "tfhd",
    "trun",
    "udta",
    "meta",
    "ilst",
    "data",
    "\0\0\0\u{1}",
];
pub const WEBM: &[&str] = &[
    "webm", "matroska", "V_VP8", "V_VP9", "A_OPUS", "COMMENT", "\u{1}",
];

pub fn png(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    media(scratch, "x.png", bytes)
}

pub fn jpeg(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    media(scratch, "x.jpg", bytes)
}

pub fn webp(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    media(scratch, "x.webp", bytes)
}

pub fn gif(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    media(scratch, "x.gif", bytes)
}

pub fn tiff(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    media(scratch, "x.tiff", bytes)
}

pub fn bmp(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    media(scratch, "x.bmp", bytes)
}

pub fn mp4(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    media(scratch, "x.mp4", bytes)
}

pub fn webm(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    media(scratch, "x.webm", bytes)
}

fn media(scratch: &Scratch, name: &str, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file(name, bytes)?;
    scratch.call(|| drop(read_settings(&path)));
    scratch.call(|| drop(read_texts(&path)));
    scratch.call(|| drop(restore::read(&path)));
    scratch.call(|| drop(read_facts(&path)));
    let infos = [
        scratch.call(|| media_info(&path)).ok(),
        scratch.call(|| clip_info(&path)).ok(),
    ];
    // A clip that is cut off says nothing as a whole, and its first frame is a picture all the same.
    let opened = [
        scratch.call(|| open_picture(&path)).ok(),
        scratch.call(|| first_picture(&path)).ok(),
    ];
    let told = infos.iter().flatten().map(|info| (info.width, info.height));
    let seen = opened
        .iter()
        .flatten()
        .map(|picture| (picture.width, picture.height));
    let pixels = told
        .chain(seen)
        .map(|(width, height)| u64::from(width) * u64::from(height));
    let of_frame = pixels.max().unwrap_or(0);
    drop(opened);
    let frames = infos
        .iter()
        .flatten()
        .map(|info| u64::from(info.num_frames))
        .max();
    let of_all = of_frame.saturating_mul(frames.unwrap_or(1));
    if of_all > MAX_DECODED_PIXELS {
        return Ok(of_frame);
    }
    scratch.call(|| drop(last_frame(&path)));
    Ok(of_all)
}
