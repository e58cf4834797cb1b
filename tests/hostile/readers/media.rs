//! Images and videos: info, texts, pixels, frames.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use safelight_core::gallery::read_facts;
use safelight_core::media::{
    VideoReader, last_frame, media_info, open_mask, open_rgb, open_video, read_settings,
    read_texts, sound_for, video_info,
};
use safelight_core::restore;

use crate::scratch::Scratch;

/// Pixels of all frames above which only headers are read: decoding is allowed, but slow.
const MAX_DECODED_PIXELS: u64 = 16_000_000;
/// Size of masks, different from every image of the corpus, so that they are resized.
const MASK_SIZE: (u32, u32) = (64, 48);
/// Frames read from the middle of a video.
const NUM_TAKEN: usize = 3;

/// Texts only: the frames are ffmpeg's.
pub fn webm(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("x.webm", bytes)?;
    scratch.call(|| drop(read_settings(&path)));
    scratch.call(|| drop(read_texts(&path)));
    scratch.call(|| drop(restore::read(&path)));
    Ok(0)
}

pub fn media(scratch: &Scratch, name: &str, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file(name, bytes)?;
    scratch.call(|| drop(read_settings(&path)));
    scratch.call(|| drop(read_texts(&path)));
    scratch.call(|| drop(restore::read(&path)));
    scratch.call(|| drop(read_facts(&path)));
    scratch.call(|| drop(sound_for(&path, Path::new("x.mp4"))));
    let infos = [
        scratch.call(|| media_info(&path)).ok(),
        scratch.call(|| video_info(&path)).ok(),
    ];
    // The first frame of a truncated video may still be readable.
    let opened = [scratch.call(|| open_rgb(&path)).ok()];
    let told = infos.iter().flatten().map(|info| (info.width, info.height));
    let seen = opened.iter().flatten();
    let sizes = told.chain(seen.map(|image| (image.width, image.height)));
    let pixels = sizes.map(|(width, height)| u64::from(width) * u64::from(height));
    let of_frame = pixels.max().unwrap_or(0);
    let is_image = opened[0].is_some();
    drop(opened);
    if is_image {
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
    scratch.call(|| drop(open_video(&path)));
    scratch.call(|| read_from(&path, num_frames / 2));
    Ok(of_all)
}

/// Reads a few frames from `first` on, as a player does after a seek.
fn read_from(path: &Path, first: u32) {
    let Ok(mut reader) = VideoReader::open(path) else {
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
    drop(read);
    assert!(num_taken <= NUM_TAKEN, "nothing is given behind a break");
}
