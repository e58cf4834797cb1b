//! Sizes of reference images.

use super::super::*;

#[test]
fn an_image_is_seen_at_the_size_of_the_nearest_aspect() {
    for ((width, height), expected) in [
        ((1000, 1000), (1024, 1024)),
        ((1920, 1080), (1392, 752)),
        ((1080, 1920), (752, 1392)),
        ((300, 200), (1248, 832)),
        ((4000, 10), (1568, 672)),
        ((10, 4000), (672, 1568)),
        ((1, 1), (1024, 1024)),
        // Cut to 96 by 80 first.
        ((111, 95), (1104, 944)),
    ] {
        assert_eq!(reference_size(width, height), expected, "{width} {height}");
    }
}
