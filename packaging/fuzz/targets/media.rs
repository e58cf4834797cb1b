//! Hostile pictures and clips: what they are, the settings and texts inside them, their pixels and frames.
//!
//! The first byte of an input chooses the ending of the file's name; the rest is the file.
#![no_main]

mod harness;

use libfuzzer_sys::fuzz_target;
use safelight_core::media::{last_frame, media_info, open_picture, read_settings, read_texts};
use safelight_core::restore;

const NAMES: [&str; 9] = [
    "x.png", "x.jpg", "x.webp", "x.gif", "x.mp4", "x.mov", "x.webm", "x.tiff", "x.bmp",
];
/// Pixels of a picture, or the few frames of a clip that are held at once: 16 MP as `f32`.
const PIXEL_BYTES: usize = 1 << 30;

fuzz_target!(|input: &[u8]| {
    let Some((&name, rest)) = input.split_first() else {
        return;
    };
    harness::scratch(NAMES[usize::from(name) % NAMES.len()], |scratch| {
        scratch.write(rest, rest.len() as u64);
        harness::bounded(rest.len(), || {
            drop(read_settings(&scratch.path));
            drop(read_texts(&scratch.path));
            drop(restore::read(&scratch.path));
        });
        harness::bounded(PIXEL_BYTES, || {
            drop(media_info(&scratch.path));
            drop(open_picture(&scratch.path));
            drop(last_frame(&scratch.path));
        });
    });
});
