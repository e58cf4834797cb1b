//! The edges of an image after Canny, to the pixel as OpenCV's `Canny` draws them.

use safelight_loops::edges;

use super::{MediaError, RgbPixels};

/// White edges on black, with the size of the image. `low`: gradient above which an edge continues; `high`: above which
/// it starts.
pub fn canny(image: &RgbPixels, low: u16, high: u16) -> Result<RgbPixels, MediaError> {
    let size = (image.width as usize, image.height as usize);
    let edges = edges::canny(&image.rgb, size, low, high);
    let white = |is_edge: bool| [if is_edge { 255 } else { 0 }; 3];
    let rgb = edges.into_iter().flat_map(white).collect();
    RgbPixels::new(image.width, image.height, rgb)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::media::open_rgb;

    fn fixture(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/edges");
        folder.join(name)
    }

    #[test]
    fn edges_are_those_of_opencv_to_the_pixel() {
        for name in ["noise", "soft", "colours", "boat", "line", "column", "dot"] {
            let image = open_rgb(&fixture(&format!("{name}.png"))).unwrap();
            for (low, high) in [(100, 200), (50, 200), (30, 30), (400, 900)] {
                let file = fixture(&format!("{name}_{low}_{high}.png"));
                let expected = open_rgb(&file).unwrap();
                let found = canny(&image, low, high).unwrap();
                assert!(found == expected, "{name} at {low}..{high}");
            }
        }
    }

    #[test]
    fn an_image_of_one_colour_has_no_edges() {
        let plain = RgbPixels::from_fn(9, 7, |_, _| [90, 20, 200]).unwrap();
        let edges = canny(&plain, 1, 1).unwrap();
        assert_eq!((edges.width, edges.height), (9, 7));
        assert!(edges.rgb.iter().all(|&value| value == 0));
    }
}
