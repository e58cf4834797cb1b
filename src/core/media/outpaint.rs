//! Outpainting: an image with room at its sides, and the mask of what is new.
//!
//! The image's own pixels stay where they are and as they are. How the room is filled is said by [`OutpaintFill`]; which
//! sizes a model takes is not known here. Whole videos are extended by [`crate::job::write_extended_video`].

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::mask::{ImageMask, softened, write_mask};
use super::{MediaError, RgbPixels, write_png};
use crate::files::{make_private, make_private_folder};
use crate::naming;

/// Default distance over which the mask fades into the image, in pixels.
const OVERLAP: u32 = 16;
/// Wider, it is no edge.
pub const MAX_OVERLAP: u32 = 256;
/// More on one side no model makes.
const MAX_MARGIN: u32 = 16_384;

/// Neither light nor dark: what a model with a control video takes for nothing.
const GRAY: [u8; 3] = [127; 3];

/// Content of the margins until they are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutpaintFill {
    /// The image's edge, blurred, as a model that starts from the image wants it.
    BlurredEdge,
    /// Gray, as a model with a control video wants it.
    Gray,
}

/// Pixels that an image gets more on each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutpaintMargins {
    pub left: u32,
    pub top: u32,
    pub right: u32,
    pub bottom: u32,
}

impl OutpaintMargins {
    pub fn are_none(self) -> bool {
        self == Self::default()
    }

    /// The size of an image of this size with them.
    pub fn around(self, (width, height): (u32, u32)) -> (u32, u32) {
        (
            width.saturating_add(self.left).saturating_add(self.right),
            height.saturating_add(self.top).saturating_add(self.bottom),
        )
    }

    /// As little larger as makes both edges multiples: on the sides that grow, else at the right and at the bottom.
    #[must_use]
    pub fn fitted(self, size: (u32, u32), multiple: u32) -> Self {
        let (width, height) = self.around(size);
        let missing = |edge: u32| {
            let next = edge.checked_next_multiple_of(multiple.max(1));
            next.map_or(0, |next| next - edge)
        };
        let mut fitted = self;
        let across = if self.left > 0 && self.right == 0 {
            &mut fitted.left
        } else {
            &mut fitted.right
        };
        *across = across.saturating_add(missing(width));
        let down = if self.top > 0 && self.bottom == 0 {
            &mut fitted.top
        } else {
            &mut fitted.bottom
        };
        *down = down.saturating_add(missing(height));
        fitted
    }
}

/// Outpainting request: `left=128,top=64`, with `overlap=0` to keep every pixel of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutpaintRequest {
    pub margins: OutpaintMargins,
    /// Distance over which the mask fades into the image from where it was extended: half of that is regenerated.
    pub overlap: u32,
}

impl Default for OutpaintRequest {
    fn default() -> Self {
        Self {
            margins: OutpaintMargins::default(),
            overlap: OVERLAP,
        }
    }
}

impl FromStr for OutpaintRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected pixels for sides such as left=128,top=64, of left, top, right, bottom and overlap, found {text:?}"
            )
        };
        let mut outpaint = Self::default();
        for part in text.split(',') {
            let (side, pixels) = part.split_once('=').ok_or_else(wrong)?;
            let pixels: u32 = pixels.trim().parse().map_err(|_err| wrong())?;
            let margins = &mut outpaint.margins;
            let (place, most) = match side.trim() {
                "left" => (&mut margins.left, MAX_MARGIN),
                "top" => (&mut margins.top, MAX_MARGIN),
                "right" => (&mut margins.right, MAX_MARGIN),
                "bottom" => (&mut margins.bottom, MAX_MARGIN),
                "overlap" => (&mut outpaint.overlap, MAX_OVERLAP),
                _ => return Err(wrong()),
            };
            if pixels > most {
                let side = side.trim();
                return Err(format!(
                    "{side} must be at most {most} pixels, not {pixels}"
                ));
            }
            *place = pixels;
        }
        if outpaint.margins.are_none() {
            return Err(wrong());
        }
        Ok(outpaint)
    }
}

/// An extended image and the mask of its size.
pub struct ExtendedImage {
    pub image: RgbPixels,
    pub mask: ImageMask,
}

/// Image with margins; `painted`: its existing mask, in the original size.
pub fn extend_image(
    image: &RgbPixels,
    painted: Option<&ImageMask>,
    outpaint: OutpaintRequest,
    filling: OutpaintFill,
) -> Result<ExtendedImage, MediaError> {
    let OutpaintRequest { margins, overlap } = outpaint;
    let size = (image.width, image.height);
    let (width, height) = margins.around(size);
    if u64::from(width) * u64::from(height) > super::MAX_PIXELS {
        return Err(MediaError::other(format!(
            "an image of {width} × {height} is larger than any that can be opened: extend it by less"
        )));
    }
    let painted = painted.filter(|mask| (mask.width(), mask.height()) == size);
    let mut values = Vec::with_capacity(width as usize * height as usize);
    for y in 0..height {
        for x in 0..width {
            let inside = within(x, margins.left, size.0).zip(within(y, margins.top, size.1));
            values.push(match inside {
                None => u8::MAX,
                Some((x, y)) => {
                    let own = painted.map_or(0, |mask| mask.value(x, y));
                    own.max(fade(x, y, size, margins, overlap))
                }
            });
        }
    }
    Ok(ExtendedImage {
        image: match filling {
            OutpaintFill::BlurredEdge => with_room(image, margins)?,
            OutpaintFill::Gray => with_gray(image, margins)?,
        },
        mask: ImageMask::from_values(width, height, values),
    })
}

fn within(at: u32, margin: u32, len: u32) -> Option<u32> {
    at.checked_sub(margin).filter(|at| *at < len)
}

/// Part of one of the image's own pixels that is regenerated, by its distance from an extended side.
fn fade(x: u32, y: u32, (width, height): (u32, u32), margins: OutpaintMargins, overlap: u32) -> u8 {
    let of_side = |margin: u32, away: u32| {
        if margin == 0 || away >= overlap {
            return 0;
        }
        let share = 1.0 - (f64::from(away) + 0.5) / f64::from(overlap);
        (share * 255.0).round() as u8
    };
    let sides = [
        of_side(margins.left, x),
        of_side(margins.top, y),
        of_side(margins.right, width - 1 - x),
        of_side(margins.bottom, height - 1 - y),
    ];
    sides.into_iter().max().unwrap_or_default()
}

/// Its nearest edge pixel everywhere around it, blurred the more the more room there is.
fn with_room(image: &RgbPixels, margins: OutpaintMargins) -> Result<RgbPixels, MediaError> {
    let (width, height) = margins.around((image.width, image.height));
    let nearest = |at: u32, margin: u32, len: u32| at.saturating_sub(margin).min(len - 1);
    let source = |x: u32, y: u32| {
        let x = nearest(x, margins.left, image.width);
        image.pixel(x, nearest(y, margins.top, image.height))
    };
    let repeated = RgbPixels::from_fn(width, height, source)?;
    let sides = [margins.left, margins.top, margins.right, margins.bottom];
    let most = sides.into_iter().max().unwrap_or_default();
    let radius = (most / 4).clamp(3, 64);
    let blurred: Vec<Vec<u8>> = (0..3)
        .map(|channel| {
            let plane = repeated.rgb.iter().skip(channel).step_by(3);
            let plane: Vec<u8> = plane.copied().collect();
            softened(width, height, &plane, radius)
        })
        .collect();
    RgbPixels::from_fn(width, height, |x, y| {
        let is_own = within(x, margins.left, image.width)
            .zip(within(y, margins.top, image.height))
            .is_some();
        if is_own {
            repeated.pixel(x, y)
        } else {
            let at = y as usize * width as usize + x as usize;
            [blurred[0][at], blurred[1][at], blurred[2][at]]
        }
    })
}

/// Gray everywhere around it.
pub(crate) fn with_gray(
    image: &RgbPixels,
    margins: OutpaintMargins,
) -> Result<RgbPixels, MediaError> {
    let (width, height) = margins.around((image.width, image.height));
    RgbPixels::from_fn(width, height, |x, y| {
        let x = within(x, margins.left, image.width);
        let own = x.zip(within(y, margins.top, image.height));
        own.map_or(GRAY, |(x, y)| image.pixel(x, y))
    })
}

/// Writes both into this folder, readable by their owner alone, under names that nothing has: the image's file and
/// the mask's.
pub fn write_extended(
    folder: &Path,
    stem: &str,
    extended: &ExtendedImage,
) -> Result<(PathBuf, PathBuf), MediaError> {
    let disk = |err: std::io::Error, path: &Path| MediaError::from_io("save the image", &err, path);
    make_private_folder(folder).map_err(|err| disk(err, folder))?;
    let number = crate::job_id::JobId::next();
    let slug = naming::slug(stem);
    let image = folder.join(format!("{slug}-extended-{number}.png"));
    let mask = folder.join(format!("{slug}-mask-{number}.png"));
    write_png(&image, &extended.image)?;
    let values = &extended.mask;
    write_mask(&mask, values.width(), values.height(), values.values())?;
    for path in [&image, &mask] {
        make_private(path).map_err(|err| disk(err, path))?;
    }
    Ok((image, mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn photo() -> RgbPixels {
        RgbPixels::from_fn(40, 24, |x, y| {
            [(x * 6) as u8, (y * 9) as u8, ((x * y) % 251) as u8]
        })
        .unwrap()
    }

    fn outpaint(text: &str) -> OutpaintRequest {
        text.parse().unwrap()
    }

    fn extended(image: &RgbPixels, painted: Option<&ImageMask>, text: &str) -> ExtendedImage {
        extend_image(image, painted, outpaint(text), OutpaintFill::BlurredEdge).unwrap()
    }

    #[test]
    fn extended_image_keeps_its_pixels_inside_gray_margins() {
        let image = RgbPixels::from_fn(3, 2, |x, y| [x as u8, y as u8, 9]).unwrap();
        let wish = outpaint("left=2,bottom=1,overlap=0");
        let found = extend_image(&image, None, wish, OutpaintFill::Gray).unwrap();
        assert_eq!((found.image.width, found.image.height), (5, 3));
        let (pixels, _) = found.image.rgb.as_chunks::<3>();
        assert_eq!(pixels[..5], [GRAY, GRAY, [0, 0, 9], [1, 0, 9], [2, 0, 9]]);
        assert_eq!(pixels[9], [2, 1, 9]);
        assert!(pixels[10..].iter().all(|pixel| *pixel == GRAY));
        let made = [255, 255, 0, 0, 0];
        assert_eq!(found.mask.values()[..5], made);
    }

    #[test]
    fn sides_are_read_as_they_are_written() {
        let read = outpaint("left=128, top=64,overlap=0");
        assert_eq!((read.margins.left, read.margins.top), (128, 64));
        assert_eq!((read.margins.right, read.overlap), (0, 0));
        assert_eq!(outpaint("right=8").overlap, OVERLAP);
        for wrong in ",left,left=x,left=-3,middle=3,overlap=3,left=99999".split(',') {
            assert!(wrong.parse::<OutpaintRequest>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn edges_become_multiples_on_the_sides_that_grow() {
        let fitted = |text: &str, size| outpaint(text).margins.fitted(size, 16);
        let margins = fitted("left=100", (512, 500));
        assert_eq!((margins.left, margins.bottom), (112, 12));
        assert_eq!((margins.right, margins.top), (0, 0));
        let margins = fitted("left=100,right=1,top=3", (512, 512));
        assert_eq!((margins.left, margins.right, margins.top), (100, 12, 16));
        assert_eq!(margins.around((512, 512)), (624, 528));
        assert_eq!(fitted("right=64", (512, 512)).right, 64);
    }

    #[test]
    fn the_images_own_pixels_stay_and_all_that_is_new_is_masked() {
        let photo = photo();
        for text in [
            "left=16,top=8",
            "right=5,bottom=7,overlap=0",
            "left=3,right=4,overlap=6",
        ] {
            let wish = outpaint(text);
            let made = extend_image(&photo, None, wish, OutpaintFill::BlurredEdge).unwrap();
            let OutpaintMargins { left, top, .. } = wish.margins;
            let size = wish.margins.around((40, 24));
            assert_eq!((made.image.width, made.image.height), size);
            assert_eq!((made.mask.width(), made.mask.height()), size);
            for y in 0..made.image.height {
                for x in 0..made.image.width {
                    let own = within(x, left, 40).zip(within(y, top, 24));
                    let Some((own_x, own_y)) = own else {
                        assert_eq!(made.mask.value(x, y), 255, "{text}: {x}, {y}");
                        continue;
                    };
                    assert_eq!(made.image.pixel(x, y), photo.pixel(own_x, own_y), "{text}");
                    let expected = fade(own_x, own_y, (40, 24), wish.margins, wish.overlap);
                    assert_eq!(made.mask.value(x, y), expected, "{text}");
                }
            }
        }
        let kept = extended(&photo, None, "left=16,overlap=0").mask;
        assert!((0..24).all(|y| kept.value(16, y) == 0), "every pixel stays");
        let faded = extended(&photo, None, "left=16,overlap=8").mask;
        let row: Vec<u8> = (16..25).map(|x| faded.value(x, 5)).collect();
        assert_eq!(row, [239, 207, 175, 143, 112, 80, 48, 16, 0]);
    }

    #[test]
    fn existing_mask_of_the_same_size_is_kept_when_an_image_is_extended() {
        let mut painted = ImageMask::new(40, 24);
        painted.fill(9);
        let made = extended(&photo(), Some(&painted), "top=8,overlap=0");
        assert_eq!((made.mask.value(3, 9), made.mask.value(3, 2)), (9, 255));
        let foreign = ImageMask::from_values(1, 1, vec![255]);
        let made = extended(&photo(), Some(&foreign), "top=8,overlap=0");
        let own = made.mask.value(3, 9);
        assert_eq!(own, 0, "one of another image is none of this one's");
    }

    #[test]
    fn both_files_are_their_owners_alone_and_never_replace_others() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let made = extended(&photo(), None, "left=8");
        let write = || write_extended(folder.path(), "My photo", &made).unwrap();
        let (first, second) = (write(), write());
        assert_ne!(first, second);
        for path in [&first.0, &first.1] {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o077, 0);
        }
        assert_eq!(crate::media::open_rgb(&first.0).unwrap(), made.image);
        let mask = crate::media::open_mask(&first.1, 48, 24).unwrap();
        assert_eq!(mask.values(), made.mask.values());
    }
}
