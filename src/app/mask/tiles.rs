//! What is seen of a picture and of the mask over it: squares of textures, only those in sight, only as fine as the
//! screen is.
//!
//! A picture of 8192 × 8192 would be one texture larger than many devices take. Here no more than `MAX_TILES` squares
//! exist at a time, and a stroke renews the part of a square that it touched and nothing else.

use std::collections::BTreeMap;

use egui::{ColorImage, Context, Pos2, Rect, TextureHandle, TextureId, TextureOptions, pos2};
use safelight_core::media::{Area, Mask, MediaError, Picture, thumbnail};

/// The edge of a square in texels.
pub const TILE: u32 = 512;
/// Squares that are kept beside those in sight.
const MAX_TILES: usize = 96;

/// A picture in its own size and in halves of that, down to one square.
pub struct Levels(Vec<Picture>);

impl Levels {
    /// Takes some time for large pictures.
    pub fn of(picture: Picture) -> Result<Self, MediaError> {
        let mut levels = vec![picture];
        while let Some(last) = levels.last()
            && last.width.max(last.height) > TILE
        {
            let (width, height) = (last.width.div_ceil(2), last.height.div_ceil(2));
            let half = thumbnail(last, width, height)?;
            levels.push(half);
        }
        Ok(Self(levels))
    }

    /// The coarsest that still has a texel for each dot of the screen.
    fn for_scale(&self, dots_a_pixel: f32) -> u32 {
        let wanted = (1.0 / dots_a_pixel.max(f32::EPSILON)).log2().floor();
        (wanted.max(0.0) as u32).min(self.0.len() as u32 - 1)
    }
}

/// One square of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    level: u32,
    column: u32,
    row: u32,
}

struct Tile {
    picture: TextureHandle,
    mask: TextureHandle,
    /// What was painted in it since its texture was made, in pixels of the picture.
    touched: Area,
    /// When it was last in sight.
    seen: u64,
}

/// A square to draw.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// In pixels of the picture.
    pub rect: Rect,
    pub picture: TextureId,
    pub mask: TextureId,
}

/// The squares of one picture.
pub struct Tiles {
    levels: Levels,
    tiles: BTreeMap<Key, Tile>,
    now: u64,
    /// Texels that were written so far, for tests and the curious.
    pub num_written: u64,
}

impl Tiles {
    pub(super) fn new(levels: Levels) -> Self {
        Self {
            levels,
            tiles: BTreeMap::new(),
            now: 0,
            num_written: 0,
        }
    }

    /// Something was painted there.
    pub(super) fn touch(&mut self, area: Area) {
        for tile in self.tiles.values_mut() {
            tile.touched = tile.touched.around(area);
        }
    }

    /// The squares that lie in this part of the picture, with what was painted in them.
    pub fn show(
        &mut self,
        ctx: &Context,
        mask: &Mask,
        seen: Rect,
        dots_a_pixel: f32,
    ) -> Vec<Shown> {
        self.now += 1;
        let level = self.levels.for_scale(dots_a_pixel);
        let side = TILE << level;
        let last = |size: u32| (size.max(1) - 1) / side;
        let index = |at: f32, size: u32| ((at.max(0.0) / side as f32) as u32).min(last(size));
        let rows = index(seen.top(), mask.height())..=index(seen.bottom(), mask.height());
        let mut shown = Vec::new();
        for row in rows {
            let columns = index(seen.left(), mask.width())..=index(seen.right(), mask.width());
            for column in columns {
                let key = Key { level, column, row };
                shown.push(self.one(ctx, mask, key));
            }
        }
        self.forget_oldest();
        shown
    }

    fn one(&mut self, ctx: &Context, mask: &Mask, key: Key) -> Shown {
        let area = area_of(key, mask);
        let now = self.now;
        let tile = self.tiles.entry(key).or_insert_with(|| {
            let picture = picture_of(&self.levels.0[key.level as usize], key);
            let painted = mask_image(mask, area, key.level);
            self.num_written += (painted.width() * painted.height()) as u64;
            Tile {
                picture: ctx.load_texture("picture under a mask", picture, options()),
                mask: ctx.load_texture("mask", painted, options()),
                touched: Area::default(),
                seen: now,
            }
        });
        tile.seen = now;
        let touched = whole_texels(tile.touched.within(area), area, key.level);
        tile.touched = Area::default();
        if !touched.is_empty() {
            let part = mask_image(mask, touched, key.level);
            self.num_written += (part.width() * part.height()) as u64;
            let at = [
                ((touched.left - area.left) >> key.level) as usize,
                ((touched.top - area.top) >> key.level) as usize,
            ];
            tile.mask.set_partial(at, part, options());
        }
        Shown {
            rect: Rect::from_min_max(corner(area.left, area.top), {
                // The last texel of a coarse square may stand for pixels beyond the picture.
                let texels = |from: u32, to: u32| (to - from).div_ceil(1 << key.level) << key.level;
                corner(
                    area.left + texels(area.left, area.right),
                    area.top + texels(area.top, area.bottom),
                )
            }),
            picture: tile.picture.id(),
            mask: tile.mask.id(),
        }
    }

    fn forget_oldest(&mut self) {
        if self.tiles.len() <= MAX_TILES {
            return;
        }
        let mut seen: Vec<u64> = self.tiles.values().map(|tile| tile.seen).collect();
        seen.sort_unstable();
        let oldest = seen[seen.len() - MAX_TILES];
        let now = self.now;
        self.tiles
            .retain(|_, tile| tile.seen >= oldest || tile.seen == now);
    }
}

/// Texels stay sharp when they are larger than the screen's.
fn options() -> TextureOptions {
    TextureOptions {
        magnification: egui::TextureFilter::Nearest,
        ..TextureOptions::LINEAR
    }
}

fn corner(x: u32, y: u32) -> Pos2 {
    pos2(x as f32, y as f32)
}

fn area_of(key: Key, mask: &Mask) -> Area {
    let side = TILE << key.level;
    Area {
        left: key.column * side,
        top: key.row * side,
        right: (key.column + 1) * side,
        bottom: (key.row + 1) * side,
    }
    .within(mask.whole())
}

/// The area grown to whole texels of a level, within its square.
fn whole_texels(area: Area, square: Area, level: u32) -> Area {
    if area.is_empty() {
        return area;
    }
    let down = |at: u32| at >> level << level;
    let up = |at: u32| at.div_ceil(1 << level) << level;
    Area {
        left: down(area.left),
        top: down(area.top),
        right: up(area.right),
        bottom: up(area.bottom),
    }
    .within(square)
}

/// One square of a level of the picture.
fn picture_of(level: &Picture, key: Key) -> ColorImage {
    let (left, top) = (key.column * TILE, key.row * TILE);
    let width = TILE.min(level.width.saturating_sub(left)).max(1);
    let height = TILE.min(level.height.saturating_sub(top)).max(1);
    let mut rgb = Vec::with_capacity(width as usize * height as usize * 3);
    for y in top..top + height {
        let at = (y as usize * level.width as usize + left as usize) * 3;
        rgb.extend_from_slice(&level.rgb[at..at + width as usize * 3]);
    }
    ColorImage::from_rgb([width as usize, height as usize], &rgb)
}

/// The mask of an area in texels of a level, each the mean of its pixels: white, as opaque as it is made anew.
fn mask_image(mask: &Mask, area: Area, level: u32) -> ColorImage {
    let step = 1_u32 << level;
    let width = (area.right - area.left).div_ceil(step);
    let height = (area.bottom - area.top).div_ceil(step);
    let alpha = mask.means(area, level);
    let pixels = alpha
        .into_iter()
        .map(|value| egui::Color32::WHITE.gamma_multiply_u8(value));
    ColorImage::new([width as usize, height as usize], pixels.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use safelight_core::media::Brush;

    fn tiles_of(width: u32, height: u32) -> (Tiles, Mask) {
        let picture = Picture::from_fn(width, height, |x, y| [x as u8, y as u8, 9]).unwrap();
        let levels = Levels::of(picture).unwrap();
        (Tiles::new(levels), Mask::new(width, height))
    }

    fn all(mask: &Mask) -> Rect {
        Rect::from_min_max(Pos2::ZERO, corner(mask.width(), mask.height()))
    }

    #[test]
    fn a_large_picture_is_seen_in_few_squares_as_fine_as_the_screen() {
        let (mut tiles, mask) = tiles_of(5001, 3000);
        let ctx = Context::default();
        // A quarter of a dot a pixel, then each pixel a dot in one corner.
        assert_eq!(tiles.show(&ctx, &mask, all(&mask), 0.25).len(), 6);
        let near = Rect::from_min_max(pos2(4000.0, 2000.0), pos2(4700.0, 2600.0));
        let shown = tiles.show(&ctx, &mask, near, 1.0);
        assert_eq!(shown.len(), 9);
        assert_eq!(shown[0].rect.min, pos2(3584.0, 1536.0));
        assert!(tiles.show(&ctx, &mask, all(&mask), 1e-9).len() == 1);
    }

    #[test]
    fn a_stroke_renews_the_part_that_it_touched_and_nothing_else() {
        let (mut tiles, mut mask) = tiles_of(4096, 4096);
        let ctx = Context::default();
        tiles.show(&ctx, &mask, all(&mask), 1.0);
        let before = tiles.num_written;
        let brush = Brush {
            radius: 10.0,
            softness: 0.0,
            erases: false,
        };
        let touched = mask.stroke([600.0, 600.0], [620.0, 600.0], brush);
        tiles.touch(touched);
        tiles.show(&ctx, &mask, all(&mask), 1.0);
        let written = tiles.num_written - before;
        assert!(written > 0 && written < 60 * 30, "{written} texels");
        tiles.show(&ctx, &mask, all(&mask), 1.0);
        assert_eq!(tiles.num_written - before, written);
    }

    #[test]
    fn squares_out_of_sight_are_forgotten() {
        let (mut tiles, mask) = tiles_of(8, 512 * 120);
        let ctx = Context::default();
        for row in 0..120 {
            let top = row as f32 * 512.0;
            let seen = Rect::from_min_max(pos2(0.0, top), pos2(8.0, top + 500.0));
            tiles.show(&ctx, &mask, seen, 1.0);
        }
        assert!(tiles.tiles.len() <= MAX_TILES, "{}", tiles.tiles.len());
    }
}
