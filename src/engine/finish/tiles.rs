//! Tiled upscaling, so that an image needs no more memory than there is.
//!
//! Tiles before the upsampling overlap by a border, bands after it by a few rows: away from the edges of tiles the
//! values equal those of the whole image. `core` plans the sizes.

use safelight_core::footprint::TileSize;
use tch::{Kind, Tensor};

use super::upscaler::LoadedUpscaler;
use crate::nn::channels_innermost;

/// Takes a piece of what comes of an image, `(1, 3, h, w)` where the network computes, and where its upper left corner is:
/// row and column.
pub type TakePiece<'a> = dyn FnMut(&Tensor, [i64; 2]) + 'a;

/// `first..end` of places along one edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TileSpan {
    first: i64,
    end: i64,
}

impl TileSpan {
    fn len(self) -> i64 {
        self.end - self.first
    }

    /// Range extended by `by` on both sides, within `within`.
    fn wider(self, by: i64, within: Self) -> Self {
        Self {
            first: (self.first - by).max(within.first),
            end: (self.end + by).min(within.end),
        }
    }

    /// Parts of at most `most`, all but the last of equal length.
    fn parts(self, most: i64) -> impl Iterator<Item = Self> {
        let step = most.max(1);
        (self.first..self.end)
            .step_by(step as usize)
            .map(move |first| Self {
                first,
                end: (first + step).min(self.end),
            })
    }

    fn slice(self, xs: &Tensor, axis: i64, origin: i64) -> Tensor {
        xs.narrow(axis, self.first - origin, self.len())
    }
}

/// `pixels`, `(1, 3, H, W)` from 0 to 1, to pieces that are `scale` times as large, in order. `None` once `go_on` says no.
pub fn upscale(
    network: &LoadedUpscaler,
    pixels: &Tensor,
    tiles: TileSize,
    go_on: &dyn Fn() -> bool,
    take: &mut TakePiece<'_>,
) -> Option<()> {
    let config = &network.config;
    let (unit, inner) = (i64::from(config.unit()), i64::from(config.inner_scale()));
    let (height, width) = (pixels.size()[2], pixels.size()[3]);
    let scale = i64::from(config.scale());
    let places = places(pixels, unit)
        .to_device(network.device)
        .to_kind(network.kind);
    let places = channels_innermost(&places);
    let [all_rows, all_columns] = [2, 3].map(|axis| TileSpan {
        first: 0,
        end: places.size()[axis],
    });
    let (halo, near) = (i64::from(tiles.halo), i64::from(config.reach_of_end()));
    for rows in all_rows.parts(i64::from(tiles.rows)) {
        for columns in all_columns.parts(i64::from(tiles.columns)) {
            let wide = [rows.wider(halo, all_rows), columns.wider(halo, all_columns)];
            let seen = wide[1].slice(&wide[0].slice(&places, 2, 0), 3, 0);
            let seen = channels_innermost(&seen);
            let made = network.trunk(&seen, go_on)?;
            for band in rows.parts(i64::from(tiles.band)) {
                if !go_on() {
                    return None;
                }
                let around = [band.wider(near, wide[0]), columns.wider(near, wide[1])];
                let part = |xs: &Tensor| {
                    let band = around[0].slice(xs, 2, wide[0].first);
                    channels_innermost(&around[1].slice(&band, 3, wide[1].first))
                };
                let enlarged = network.end(&part(&made), &part(&seen));
                // Without the places around it, and without those that only fill a unit.
                let [top, left] = [band.first, columns.first].map(|first| first * inner);
                let [bottom, right] = [(band.end, height), (columns.end, width)]
                    .map(|(end, size)| (end * inner).min(size * scale));
                let [top_in, left_in] = [(band, around[0]), (columns, around[1])]
                    .map(|(own, wide)| (own.first - wide.first) * inner);
                let piece =
                    enlarged
                        .narrow(2, top_in, bottom - top)
                        .narrow(3, left_in, right - left);
                take(&piece, [top, left]);
            }
        }
    }
    Some(())
}

/// Pixels as places with an edge of `unit`: the image is mirrored at its ends to whole ones. `(1, 3, H, W)` →
/// `(1, 3 u², H / u, W / u)`
fn places(pixels: &Tensor, unit: i64) -> Tensor {
    if unit == 1 {
        return pixels.shallow_clone();
    }
    let missing = |axis: usize| pixels.size()[axis].wrapping_neg().rem_euclid(unit);
    let (below, beside) = (missing(2), missing(3));
    let border = [0, beside, 0, below];
    let is_mirrored = below < pixels.size()[2] && beside < pixels.size()[3];
    let whole = if is_mirrored {
        pixels.reflection_pad2d(border)
    } else {
        // Too few pixels to mirror.
        pixels.replication_pad2d(border)
    };
    whole.pixel_unshuffle(unit)
}

/// A whole image of bytes, `(h, w, 3)` on the CPU, into which pieces are put.
pub struct UpscaleCanvas(Tensor);

impl UpscaleCanvas {
    pub fn new(height: i64, width: i64) -> Self {
        Self(Tensor::zeros(
            [height, width, 3],
            (Kind::Uint8, tch::Device::Cpu),
        ))
    }

    /// Puts a piece where it belongs; whether it was made of numbers.
    pub fn put(&mut self, piece: &Tensor, [top, left]: [i64; 2]) -> bool {
        let piece = piece.to_kind(Kind::Float);
        let is_sound = piece.isfinite().all().int64_value(&[]) == 1;
        // 1 c h w -> h w c
        let bytes = (piece.clamp(0.0, 1.0) * 255.0).round().to_kind(Kind::Uint8);
        let bytes = bytes.squeeze_dim(0).permute([1, 2, 0]).contiguous();
        let (height, width) = (bytes.size()[0], bytes.size()[1]);
        let mut place = self.0.narrow(0, top, height).narrow(1, left, width);
        place.copy_(&bytes);
        is_sound
    }

    /// Its bytes, row by row.
    pub fn into_rgb(self) -> Result<Vec<u8>, tch::TchError> {
        Vec::<u8>::try_from(self.0.flatten(0, -1))
    }
}
