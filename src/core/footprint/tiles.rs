//! Tile sizes of upscalers.
//!
//! The trunk, with a large receptive field, runs in tiles with a shared border, the upsampling layers in bands of rows; both
//! sizes follow from the available memory.

use crate::networks::UpscalerConfig;

/// Tiles share no more places than this on each side. The layers of a full RRDBNet reach 347 places, but its blocks add a
/// fifth of what they make: what is farther than this changes nothing beyond rounding, also with weights so large that
/// the numbers grow to 10⁷ (docs/figures.md).
pub const MAX_HALO: u32 = 64;
/// Memory of tiles on the CPU.
pub const CPU_TILE_BYTES: u64 = 1 << 30;
/// A tile is never smaller, whatever memory there is.
const MIN_EDGE: u32 = 32;
/// Kernels count the numbers of a tensor in 31 bits: the places of the widest one, and the pixels.
const MAX_PLACES: u64 = 1 << 23;
const MAX_PIXELS: u64 = 1 << 24;

/// Memory for tiles on a device with `held` bytes, of which `loaded` are in use: leaves a quarter for libraries and
/// fragmentation.
#[must_use]
pub fn room_for_tiles(held: u64, loaded: u64) -> u64 {
    held.saturating_sub(loaded) / 4 * 3
}

/// In places, which are pixels or squares of them: see [`UpscalerConfig::unit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSize {
    pub rows: u32,
    pub columns: u32,
    /// Border of each tile on all sides.
    pub halo: u32,
    /// Rows that are enlarged at a time.
    pub band: u32,
}

impl TileSize {
    /// The largest tiles of an image of `size`, width and height in pixels, that need at most `bytes`.
    ///
    /// `number_bytes`: bytes of an element. `most`: requested longest edge, in pixels.
    #[must_use]
    pub fn within(
        bytes: u64,
        config: &UpscalerConfig,
        size: [u32; 2],
        number_bytes: u64,
        most: Option<u32>,
    ) -> Self {
        let unit = config.unit();
        let [columns, rows] = size.map(|pixels| pixels.div_ceil(unit).max(1));
        let most = most.map_or(u32::MAX, |pixels| (pixels / unit).max(MIN_EDGE));
        let of_place = config.bytes_of_trunk(number_bytes);
        let area = (bytes / of_place.max(1)).min(MAX_PLACES);
        let is_whole = u64::from(rows) * u64::from(columns) <= area && rows.max(columns) <= most;
        let (rows, columns, halo) = if is_whole {
            (rows, columns, 0)
        } else {
            let edge = area.isqrt() as u32;
            // With little memory the border is smaller.
            let halo = config.reach().min(MAX_HALO).min(edge / 4);
            let edge = (edge - 2 * halo).clamp(MIN_EDGE, most);
            (rows.min(edge), columns.min(edge), halo)
        };
        let wide = [rows, columns].map(|edge| u64::from(edge + 2 * halo));
        let kept = wide[0] * wide[1] * config.channels_of_trunk() * number_bytes;
        // Upsampling layers have a small receptive field.
        let near = columns.saturating_add(2 * config.reach_of_end());
        let near = u64::from(near).min(wide[1]);
        let of_row = near * config.bytes_of_end(number_bytes);
        let pixels_of_row = near * u64::from(config.inner_scale()).pow(2);
        let band = bytes.saturating_sub(kept) / of_row.max(1);
        let band = band.min(MAX_PIXELS / pixels_of_row.max(1));
        // Without its border.
        let band = band.saturating_sub(2 * u64::from(config.reach_of_end()));
        Self {
            rows,
            columns,
            halo,
            band: u32::try_from(band).unwrap_or(u32::MAX).clamp(1, rows),
        }
    }

    /// Peak bytes of an image of `size`, width and height in pixels, without the image itself.
    #[must_use]
    pub fn peak_bytes(&self, config: &UpscalerConfig, size: [u32; 2], number_bytes: u64) -> u64 {
        let unit = config.unit();
        let [all_columns, all_rows] = size.map(|pixels| u64::from(pixels.div_ceil(unit).max(1)));
        let wide = |edge: u32, all: u64| u64::from(edge + 2 * self.halo).min(all);
        let (rows, columns) = (wide(self.rows, all_rows), wide(self.columns, all_columns));
        // All pixels as places, and those of the tile.
        let of_pixels = 3 * u64::from(unit).pow(2) * number_bytes;
        let seen = (all_rows * all_columns + rows * columns) * of_pixels;
        let trunk = rows * columns * config.bytes_of_trunk(number_bytes);
        let near = 2 * u64::from(config.reach_of_end());
        let band = (u64::from(self.band) + near).min(rows);
        let across = (u64::from(self.columns) + near).min(columns);
        let enlarged = band * across * config.bytes_of_end(number_bytes);
        let kept = rows * columns * config.channels_of_trunk() * number_bytes;
        seen + trunk.max(kept + enlarged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::networks::{RrdbConfig, RrdbNames, UpscalerLayers};

    fn real(num_blocks: i64, unshuffle: i64) -> UpscalerConfig {
        UpscalerConfig {
            prefix: String::new(),
            width: 64,
            layers: UpscalerLayers::Rrdb(RrdbConfig {
                names: RrdbNames::Body,
                growth: 32,
                num_blocks,
                num_doublings: 2,
                unshuffle,
                has_shortcuts: false,
            }),
        }
    }

    #[test]
    fn an_image_is_whole_where_it_fits_and_in_tiles_that_fit_elsewhere() {
        const GIB: u64 = 1 << 30;
        let config = real(23, 1);
        let whole = TileSize::within(8 * GIB, &config, [1024, 1024], 2, None);
        assert_eq!((whole.rows, whole.columns, whole.halo), (1024, 1024, 0));
        let holds = whole.band < 1024;
        assert!(holds, "sixteen times as many pixels come in bands");
        for (bytes, most) in [(GIB, None), (GIB / 4, None), (8 * GIB, Some(512))] {
            let tiles = TileSize::within(bytes, &config, [1024, 1024], 2, most);
            assert_eq!(tiles.halo, 64, "{bytes}");
            assert!(tiles.rows <= most.unwrap_or(1024), "{tiles:?}");
            let wide = u64::from(tiles.rows + 2 * tiles.halo);
            assert!(wide * wide * config.bytes_of_trunk(2) <= bytes, "{tiles:?}");
        }
        // Pixels that are made one place count as one.
        let tiles = TileSize::within(8 * GIB, &real(23, 2), [1023, 511], 2, None);
        assert_eq!((tiles.rows, tiles.columns), (256, 512));
    }

    #[test]
    fn no_memory_at_all_still_gives_tiles() {
        let tiles = TileSize::within(0, &real(23, 4), [8000, 3], 4, None);
        assert_eq!((tiles.rows, tiles.columns, tiles.band), (1, MIN_EDGE, 1));
        // A network that sees little shares little.
        let near = TileSize::within(1 << 28, &real(1, 1), [4000, 4000], 4, None);
        assert_eq!(near.halo, 17);
    }
}
