//! Sizes of reference images.

use super::super::*;

#[test]
fn an_image_is_seen_in_whole_tokens_of_at_most_a_megapixel() {
    let of = |width, height| RgbPixels::from_fn(width, height, |_, _| [0; 3]).unwrap();
    for (size, expected) in [
        ((100, 70), (96, 64)),
        ((64, 64), (64, 64)),
        ((1024, 1024), (1024, 1024)),
        ((2000, 1000), (1440, 720)),
        ((1040, 1024), (1024, 1008)),
    ] {
        let seen = prepared(&of(size.0, size.1)).unwrap();
        assert_eq!((seen.width, seen.height), expected, "{size:?}");
    }
    for (width, height) in [(63, 200), (600, 70)] {
        let err = prepared(&of(width, height)).unwrap_err().to_string();
        assert!(err.contains(&format!("{width} × {height}")), "{err}");
    }
    // The middle is kept.
    let columns = RgbPixels::from_fn(70, 64, |x, _| [x as u8; 3]).unwrap();
    assert_eq!(prepared(&columns).unwrap().rgb[0], 3);
}
