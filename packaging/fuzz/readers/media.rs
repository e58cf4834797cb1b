//! Pictures and clips: what they are, the texts inside them, their pixels and frames.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use safelight_core::gallery::read_facts;
use safelight_core::media::{
    ClipReader, clip_info, first_picture, last_frame, media_info, open_clip, open_mask,
    open_picture, read_settings, read_texts, sound_for,
};
use safelight_core::restore;

use crate::scratch::Scratch;

/// A clip with more pixels in all its frames is only looked at by its headers: decoding it is allowed, and slow.
const MAX_DECODED_PIXELS: u64 = 16_000_000;
/// Of a mask: another size than any picture of the corpus, so that it is stretched.
const MASK_SIZE: (u32, u32) = (64, 48);
/// Frames that are taken from the middle of a clip.
const NUM_TAKEN: usize = 3;

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
    "tfdt",
    "trex",
    "mvex",
    "vide",
    "soun",
    "mp4a",
    "esds",
    "wave",
    "Opus",
    "dOps",
    "udta",
    "meta",
    "ilst",
    "data",
    "\0\0\0\u{1}",
];
pub const WEBM: &[&str] = &[
    "webm", "matroska", "V_VP8", "V_VP9", "A_OPUS", "A_VORBIS", "OpusHead", "COMMENT", "\u{1}",
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
    scratch.call(|| drop(sound_for(&path, Path::new("x.mp4"))));
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
    let is_picture = opened[0].is_some();
    drop(opened);
    if is_picture {
        let (width, height) = MASK_SIZE;
        scratch.call(|| drop(open_mask(&path, width, height)));
    }
    let frames = infos.iter().flatten().map(|info| info.num_frames);
    let num_frames = frames.max().unwrap_or(1);
    let of_all = of_frame.saturating_mul(u64::from(num_frames));
    if of_all > MAX_DECODED_PIXELS {
        return Ok(of_frame);
    }
    scratch.call(|| drop(last_frame(&path)));
    scratch.call(|| drop(open_clip(&path)));
    scratch.call(|| read_from(&path, num_frames / 2));
    Ok(of_all)
}

/// As a player does behind a seek.
fn read_from(path: &Path, first: u32) {
    let Ok(mut reader) = ClipReader::open(path) else {
        return;
    };
    let mut num_taken = 0;
    let read = reader.read(first, &mut |number, _| {
        assert!(number >= first, "no frame before the wanted one is given");
        num_taken += 1;
        if num_taken == NUM_TAKEN {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    // Whether it worked is no matter.
    drop(read);
    assert!(num_taken <= NUM_TAKEN, "nothing is given behind a break");
}
