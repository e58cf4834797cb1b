//! Visible part of an image with its mask: texture tiles, only those in view, only as fine as the screen.
//!
//! An image of 8192 × 8192 would be one texture larger than many devices allow. Here at most `MAX_TILES` tiles exist at
//! a time, and a stroke renews only the part of a tile that it touched. Downsampling a large mask takes long, so this
//! runs on the painter's thread; egui accepts textures from any.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Instant;

use egui::{ColorImage, Context, Pos2, Rect, TextureHandle, TextureOptions, pos2};
use safelight_core::media::{ImageMask, MediaError, PixelArea, RgbPixels, thumbnail};

/// The edge of a square in texels.
pub const TILE: u32 = 512;
const MAX_TILES: usize = 96;

/// An image in its own size and in halves of that, down to one square.
pub struct ImagePyramid(Vec<RgbPixels>);

impl ImagePyramid {
    /// Takes some time for large images.
    pub fn from_image(image: RgbPixels) -> Result<Self, MediaError> {
        let mut levels = vec![image];
        while let Some(last) = levels.last()
            && last.width.max(last.height) > TILE
        {
            let (width, height) = (last.width.div_ceil(2), last.height.div_ceil(2));
            let half = thumbnail(last, width, height)?;
            levels.push(half);
        }
        Ok(Self(levels))
    }

    /// Mean colour, from the coarsest level.
    pub(super) fn mean_rgb(&self) -> [u8; 3] {
        let rgb = self.0.last().map_or(&[][..], |level| &level.rgb);
        let count = (rgb.len() / 3).max(1) as u64;
        let sum = |channel| rgb.iter().skip(channel).step_by(3).map(|it| u64::from(*it));
        [0, 1, 2].map(|channel| (sum(channel).sum::<u64>() / count) as u8)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|level| level.rgb.len()).sum()
    }

    fn has(&self, key: TileKey) -> bool {
        let level = self.0.get(key.level as usize);
        let (left, top) = (key.column * TILE, key.row * TILE);
        level.is_some_and(|level| left < level.width && top < level.height)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleTiles {
    level: u32,
    columns: RangeInclusive<u32>,
    rows: RangeInclusive<u32>,
}

impl VisibleTiles {
    /// Tiles of an image of this size that are visible in `seen`, at the coarsest level with a texel for each dot of
    /// the screen.
    pub(super) fn from_view((width, height): (u32, u32), seen: Rect, dots_a_pixel: f32) -> Self {
        let wanted = (1.0 / dots_a_pixel.max(f32::EPSILON)).log2().floor();
        // As many as `ImagePyramid` has: down to one square.
        let num_squares = width.max(height).div_ceil(TILE).max(1);
        let level = (wanted.max(0.0) as u32).min(num_squares.next_power_of_two().ilog2());
        let side = TILE << level;
        let index =
            |at: f32, size: u32| ((at.max(0.0) / side as f32) as u32).min((size.max(1) - 1) / side);
        Self {
            level,
            columns: index(seen.left(), width)..=index(seen.right(), width),
            rows: index(seen.top(), height)..=index(seen.bottom(), height),
        }
    }

    fn keys(&self) -> impl Iterator<Item = TileKey> {
        let (level, columns) = (self.level, self.columns.clone());
        self.rows.clone().flat_map(move |row| {
            let columns = columns.clone();
            columns.map(move |column| TileKey { level, column, row })
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TileKey {
    level: u32,
    column: u32,
    row: u32,
}

struct TextureTile {
    shown: ShownTile,
    /// Area painted since its texture was created, in pixels of the image.
    touched: PixelArea,
    /// When it was last in view and as it should be.
    seen: u64,
}

#[derive(Clone)]
pub struct ShownTile {
    /// In pixels of the image.
    pub rect: Rect,
    pub image: TextureHandle,
    pub mask: TextureHandle,
}

pub(super) struct TileCache {
    levels: ImagePyramid,
    tiles: BTreeMap<TileKey, TextureTile>,
    view: Option<VisibleTiles>,
    now: u64,
}

impl TileCache {
    pub(super) fn new(levels: ImagePyramid) -> Self {
        Self {
            levels,
            tiles: BTreeMap::new(),
            view: None,
            now: 0,
        }
    }

    pub(super) fn replace(&mut self, levels: ImagePyramid) -> ImagePyramid {
        self.tiles.clear();
        std::mem::replace(&mut self.levels, levels)
    }

    /// The image at full size.
    pub(super) fn image(&self) -> &RgbPixels {
        &self.levels.0[0]
    }

    pub(super) fn look_at(&mut self, view: VisibleTiles) {
        self.view = Some(view);
    }

    pub(super) fn touch(&mut self, area: PixelArea) {
        for tile in self.tiles.values_mut() {
            tile.touched = tile.touched.around(area);
        }
    }

    /// Brings squares in view up to date until then, one at least; whether all are.
    pub(super) fn renew(&mut self, ctx: &Context, mask: &ImageMask, until: Instant) -> bool {
        self.now += 1;
        let mut keys: Vec<TileKey> = self.view.iter().flat_map(VisibleTiles::keys).collect();
        // The view may still be that of a larger image.
        keys.retain(|key| self.levels.has(*key));
        // Missing tiles come first, and one that a stroke keeps touching does not delay the others.
        keys.sort_by_key(|key| self.tiles.get(key).map(|tile| tile.seen));
        for key in keys {
            if self.renew_one(ctx, mask, key) && Instant::now() >= until {
                return false;
            }
        }
        self.forget_oldest();
        true
    }

    /// All existing tiles, from back to front. Those of the visible level cover the others, which fill in for missing
    /// ones.
    pub(super) fn visible_tiles(&self) -> Vec<ShownTile> {
        let level = self.view.as_ref().map(|view| view.level);
        let mut tiles: Vec<(&TileKey, &TextureTile)> = self.tiles.iter().collect();
        tiles.sort_by_key(|(key, _)| (Some(key.level) == level, Reverse(key.level)));
        tiles
            .into_iter()
            .map(|(_, tile)| tile.shown.clone())
            .collect()
    }

    fn renew_one(&mut self, ctx: &Context, mask: &ImageMask, key: TileKey) -> bool {
        let square = area_of(key, mask);
        let Some(tile) = self.tiles.get_mut(&key) else {
            let tile = self.new_tile(ctx, mask, key, square);
            self.tiles.insert(key, tile);
            return true;
        };
        tile.seen = self.now;
        let touched = whole_texels(tile.touched.within(square), square, key.level);
        tile.touched = PixelArea::default();
        if touched.is_empty() {
            return false;
        }
        let part = mask_image(mask, touched, key.level);
        let at = [
            ((touched.left - square.left) >> key.level) as usize,
            ((touched.top - square.top) >> key.level) as usize,
        ];
        tile.shown.mask.set_partial(at, part, options());
        true
    }

    fn new_tile(
        &self,
        ctx: &Context,
        mask: &ImageMask,
        key: TileKey,
        square: PixelArea,
    ) -> TextureTile {
        let image = image_of(&self.levels.0[key.level as usize], key);
        let painted = mask_image(mask, square, key.level);
        // The last texel of a coarse tile may cover pixels beyond the image.
        let texels = |from: u32, to: u32| (to - from).div_ceil(1 << key.level) << key.level;
        let end = corner(
            square.left + texels(square.left, square.right),
            square.top + texels(square.top, square.bottom),
        );
        TextureTile {
            shown: ShownTile {
                rect: Rect::from_min_max(corner(square.left, square.top), end),
                image: ctx.load_texture("image-under-a-mask", image, options()),
                mask: ctx.load_texture("mask", painted, options()),
            },
            touched: PixelArea::default(),
            seen: self.now,
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

fn area_of(key: TileKey, mask: &ImageMask) -> PixelArea {
    let side = TILE << key.level;
    PixelArea {
        left: key.column * side,
        top: key.row * side,
        right: (key.column + 1) * side,
        bottom: (key.row + 1) * side,
    }
    .within(mask.whole())
}

/// The area grown to whole texels of a level, within its square.
fn whole_texels(area: PixelArea, square: PixelArea, level: u32) -> PixelArea {
    if area.is_empty() {
        return area;
    }
    let down = |at: u32| at >> level << level;
    let up = |at: u32| at.div_ceil(1 << level) << level;
    PixelArea {
        left: down(area.left),
        top: down(area.top),
        right: up(area.right),
        bottom: up(area.bottom),
    }
    .within(square)
}

fn image_of(level: &RgbPixels, key: TileKey) -> ColorImage {
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
fn mask_image(mask: &ImageMask, area: PixelArea, level: u32) -> ColorImage {
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
    use safelight_core::media::MaskBrush;

    fn tiles_of(width: u32, height: u32) -> (TileCache, ImageMask) {
        let image = RgbPixels::from_fn(width, height, |x, y| [x as u8, y as u8, 9]).unwrap();
        let levels = ImagePyramid::from_image(image).unwrap();
        (TileCache::new(levels), ImageMask::new(width, height))
    }

    fn all(mask: &ImageMask) -> Rect {
        Rect::from_min_max(Pos2::ZERO, corner(mask.width(), mask.height()))
    }

    fn see(tiles: &mut TileCache, ctx: &Context, mask: &ImageMask, seen: Rect, dots_a_pixel: f32) {
        let size = (mask.width(), mask.height());
        tiles.look_at(VisibleTiles::from_view(size, seen, dots_a_pixel));
        while !tiles.renew(ctx, mask, Instant::now()) {}
    }

    fn num_written(ctx: &Context) -> usize {
        let mut written = ctx.tex_manager().write().take_delta();
        let deltas = written.set.values().flatten();
        let sizes = deltas.map(|delta| delta.image.size());
        let num_texels = sizes.map(|[width, height]| width * height).sum();
        // egui minds if nobody takes them.
        written.clear();
        num_texels
    }

    #[test]
    fn a_large_image_is_seen_in_few_squares_as_fine_as_the_screen() {
        let (mut tiles, mask) = tiles_of(5001, 3000);
        let ctx = Context::default();
        // A quarter of a dot a pixel, then each pixel a dot in one corner.
        see(&mut tiles, &ctx, &mask, all(&mask), 0.25);
        assert_eq!(tiles.visible_tiles().len(), 6);
        let near = Rect::from_min_max(pos2(4000.0, 2000.0), pos2(4700.0, 2600.0));
        see(&mut tiles, &ctx, &mask, near, 1.0);
        // The fine ones lie over the coarse ones.
        let shown = tiles.visible_tiles();
        assert_eq!(shown.len(), 6 + 9);
        assert_eq!(shown[6].rect.min, pos2(3584.0, 1536.0));
        assert!(shown[..6].iter().all(|coarse| coarse.rect.width() > 900.0));
    }

    #[test]
    fn squares_are_made_one_by_one_while_the_old_ones_are_seen() {
        let (mut tiles, mut mask) = tiles_of(1024, 1024);
        let ctx = Context::default();
        see(&mut tiles, &ctx, &mask, all(&mask), 0.5);
        tiles.look_at(VisibleTiles::from_view((1024, 1024), all(&mask), 1.0));
        for num_made in 1..=4 {
            assert!(!tiles.renew(&ctx, &mask, Instant::now()));
            assert_eq!(tiles.visible_tiles().len(), 1 + num_made);
        }
        assert!(tiles.renew(&ctx, &mask, Instant::now()));
        num_written(&ctx);
        let touched = mask.fill(255);
        tiles.touch(touched);
        for _ in 0..4 {
            // A stroke that continues in one of them does not keep the others waiting.
            let (left, top, right, bottom) = (0, 0, 1, 1);
            tiles.touch(PixelArea {
                left,
                top,
                right,
                bottom,
            });
            assert!(!tiles.renew(&ctx, &mask, Instant::now()));
            assert_eq!(num_written(&ctx), 512 * 512);
        }
    }

    #[test]
    fn a_stroke_renews_the_part_that_it_touched_and_nothing_else() {
        let (mut tiles, mut mask) = tiles_of(4096, 4096);
        let ctx = Context::default();
        see(&mut tiles, &ctx, &mask, all(&mask), 1.0);
        num_written(&ctx);
        let brush = MaskBrush {
            radius: 10.0,
            softness: 0.0,
            erases: false,
        };
        let touched = mask.stroke([600.0, 600.0], [620.0, 600.0], brush);
        tiles.touch(touched);
        see(&mut tiles, &ctx, &mask, all(&mask), 1.0);
        let written = num_written(&ctx);
        assert!(written > 0 && written < 60 * 30, "{written} texels");
        see(&mut tiles, &ctx, &mask, all(&mask), 1.0);
        assert_eq!(num_written(&ctx), 0);
    }

    #[test]
    fn view_of_a_larger_mask_is_limited_to_the_tiles_of_a_smaller_one() {
        let (mut tiles, mask) = tiles_of(3000, 3000);
        let ctx = Context::default();
        see(&mut tiles, &ctx, &mask, all(&mask), 1.0);
        let (small, mask) = tiles_of(600, 300);
        tiles.replace(small.levels);
        while !tiles.renew(&ctx, &mask, Instant::now()) {}
        assert_eq!(tiles.visible_tiles().len(), 2);
        let (smallest, mask) = tiles_of(100, 100);
        let view = VisibleTiles::from_view((3000, 3000), Rect::EVERYTHING, 1e-9);
        tiles.replace(smallest.levels);
        tiles.look_at(view);
        assert!(tiles.renew(&ctx, &mask, Instant::now()));
        assert!(tiles.visible_tiles().is_empty());
    }
}
