//! Searches by planning: the largest tiles that fit, and the largest image or video.

use super::*;
use crate::model::{ControlUse, SizeLimits};
use crate::plan::largest;

const LIMITS: SizeLimits = SizeLimits {
    size_multiple: 16,
    max_edge: 4096,
    max_pixels: 1 << 23,
    frame_stride: 4,
    max_frames: 257,
    fixed_size: false,
    max_batch: 1,
    max_references: 0,
    controls: ControlUse::NONE,
};

#[test]
fn the_largest_tiles_that_fit_are_taken() {
    let case = Case::flux("transformer dev", "BF16");
    let mut request = case.request(4096, 4096, 1);
    let mut tiles = Vec::new();
    for step in 0..2048 {
        request.options.memory.cap_bytes = Some(GIB + step * GIB / 32);
        let decode = case.stage(&request, card(80), Stage::Decode);
        if decode.fits && tiles.last() != Some(&decode.tile) {
            tiles.push(decode.tile);
        }
    }
    // Beside the image itself small tiles take hardly less than those of 768.
    tiles.retain(|tile| tile.is_none_or(|edge| edge >= 768));
    assert_eq!(tiles, [Some(768), Some(1024), None]);
}

#[test]
fn the_largest_video_that_fits_does_and_a_larger_one_does_not() {
    let case = Case::wan(T2V_14B, "BF16");
    let request = case.request(832, 480, 81);
    let fits = |width, height, frames| {
        let request = case.request(width, height, frames);
        case.plan(&request, card(12)).fits()
    };
    let found = largest(&case.planner(card(12)), &request, &LIMITS);
    let (width, height) = found.size.unwrap();
    assert!(fits(width, height, 81), "{width}x{height}");
    let aspect = f64::from(width) / f64::from(height);
    assert!((aspect - 832.0 / 480.0).abs() < 0.1, "{width}x{height}");
    assert!(!fits(width + 32, height + 16, 81), "{width}x{height}");
    let frames = found.num_frames.unwrap();
    assert!(fits(832, 480, frames));
    assert!(frames == LIMITS.max_frames || !fits(832, 480, frames + 4));

    // The limits of the model end the search, and no memory ends it at once.
    let all = largest(&case.planner(card(141)), &case.request(64, 32, 5), &LIMITS);
    let (width, height) = all.size.unwrap();
    assert_eq!(all.num_frames, Some(257));
    assert!(u64::from(width) * u64::from(height) <= LIMITS.max_pixels && width <= LIMITS.max_edge);
    let none = largest(&case.planner(card(1)), &request, &LIMITS);
    assert_eq!((none.size, none.num_frames), (None, None));
    let flux = Case::flux("transformer dev", "BF16");
    let image = flux.request(1024, 1024, 1);
    let found = largest(&flux.planner(card(24)), &image, &LIMITS);
    assert_eq!(found.num_frames, None);
}
