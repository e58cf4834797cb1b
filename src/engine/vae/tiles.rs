//! Overlapping spatial tiles of a video: their positions, and the blending of their results.
//!
//! Every tile passes through its part of the network with all frames and a separate cache, and is blended into the tile
//! above, then into the tile to its left. Time is never cut.

use tch::{Device, Kind, Tensor};

/// Spatial tiles: edge and distance, both rounded down to whole latents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    /// In pixels; with [`TileScheme::Seamless`] and in the encoder in patches of the autoencoder, where it has some.
    pub size: i64,
    /// In the same unit.
    pub stride: i64,
    pub scheme: TileScheme,
}

/// Parts of the network that run tile by tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TileScheme {
    /// All but the level of the latents themselves, where attention looks at the whole frame and a convolution reaches
    /// furthest: that level takes whole frames. What a tile does not see then makes a difference in less than half of
    /// its overlap, and the blend keeps to the middle: with random weights 67 to 100 dB from the untiled result on
    /// smooth content at the default size.
    Seamless,
    /// All of it, number by number what diffusers' `tiled_decode` and `tiled_encode` do: each tile sees only itself, and
    /// the blend grows evenly over the overlap, from pixels at the very edge of a tile on. For comparing with diffusers:
    /// with random weights 14 to 31 dB from the untiled result.
    Separate,
}

impl Default for Tiling {
    fn default() -> Self {
        Self::of_size(256)
    }
}

impl Tiling {
    /// Tiles that overlap by a quarter.
    pub fn of_size(size: i64) -> Self {
        Self {
            size,
            stride: size * 3 / 4,
            scheme: TileScheme::Seamless,
        }
    }

    /// Equal tiles, each computed independently.
    pub(super) fn separate(self) -> Self {
        Self {
            scheme: TileScheme::Separate,
            ..self
        }
    }

    pub fn is_seamless(self) -> bool {
        self.scheme == TileScheme::Seamless
    }
}

/// The tiles of one video, in latents.
#[derive(Debug, Clone, Copy)]
pub(super) struct TileGrid {
    size: i64,
    stride: i64,
    height: i64,
    width: i64,
    scheme: TileScheme,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LatentTile {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) top: i64,
    pub(super) left: i64,
    pub(super) height: i64,
    pub(super) width: i64,
}

impl LatentTile {
    /// This part of `xs`, whose axes of height and width are `dim` and the next, with `cell` pixels to a latent.
    pub(super) fn cut(&self, xs: &Tensor, dim: i64, cell: i64) -> Tensor {
        xs.narrow(dim, self.top * cell, self.height * cell).narrow(
            dim + 1,
            self.left * cell,
            self.width * cell,
        )
    }
}

impl TileGrid {
    /// `factor`: the unit of `tiling` along an edge of one latent. `None` when one tile holds all latents.
    pub(super) fn new(tiling: Tiling, factor: i64, [height, width]: [i64; 2]) -> Option<Self> {
        let size = (tiling.size / factor).max(1);
        let grid = Self {
            size,
            stride: (tiling.stride / factor).clamp(1, size),
            height,
            width,
            scheme: tiling.scheme,
        };
        (height > size || width > size).then_some(grid)
    }

    pub(super) fn tiles(self) -> impl Iterator<Item = LatentTile> {
        (0..self.rows()).flat_map(move |row| {
            (0..self.columns()).map(move |column| {
                let [top, left] = [row, column].map(|index| index as i64 * self.stride);
                LatentTile {
                    row,
                    column,
                    top,
                    left,
                    height: self.size.min(self.height - top),
                    width: self.size.min(self.width - left),
                }
            })
        })
    }

    fn rows(self) -> usize {
        self.count(self.height)
    }

    fn columns(self) -> usize {
        self.count(self.width)
    }

    /// Tiles along an edge of `len` latents.
    fn count(self, len: i64) -> usize {
        let covered = match self.scheme {
            // Skips a tile that is inside the one before it.
            TileScheme::Seamless => (len - self.overlap()).max(1),
            TileScheme::Separate => len,
        };
        (covered as usize).div_ceil(self.stride as usize)
    }

    fn overlap(self) -> i64 {
        self.size - self.stride
    }

    fn is_last(self, tile: &LatentTile) -> bool {
        tile.row + 1 == self.rows() && tile.column + 1 == self.columns()
    }
}

/// Applies `of_tile` to each tile of `xs`, `(T, h, w, C)`, and blends the results to `(T, H, W, C)`; to all of it if
/// one tile holds it. `None` as soon as `of_tile` returns `None`.
///
/// `dim`: axis of the height, followed by the width; `factor`: pixels of the tiling per latent along an edge;
/// `[cell, result_cell]`: elements per latent of input and output.
pub(super) fn in_tiles(
    xs: &Tensor,
    dim: i64,
    tiling: Option<Tiling>,
    factor: i64,
    [cell, result_cell]: [i64; 2],
    of_tile: &dyn Fn(&Tensor) -> Option<Tensor>,
) -> Option<Tensor> {
    let latents = [dim, dim + 1].map(|dim| xs.size()[dim as usize] / cell);
    let Some(grid) = tiling.and_then(|tiling| TileGrid::new(tiling, factor, latents)) else {
        return of_tile(xs);
    };
    let mut mosaic = TileBlender::new(grid, result_cell);
    let mut whole = None;
    for tile in grid.tiles() {
        whole = mosaic.put(&tile, 0, &of_tile(&tile.cut(xs, dim, cell))?);
    }
    whole
}

/// Blends the results of tiles, `(T, h, w, C)`, one chunk of frames at a time, to whole frames.
///
/// A tile is computed with all its frames before the next one begins: the convolutions then cache one tile, where
/// frame-wise order would need as much as no tiles at all. No frame is complete before the last tile, so results are
/// kept off the device, in their kind and only once: each tile's own part, and the edges that the next tiles are
/// blended with.
pub(super) struct TileBlender {
    grid: TileGrid,
    /// Pixels, or whatever comes out, along an edge of one latent.
    cell: i64,
    /// Whole frames, one tensor a chunk; those that were given away are gone.
    frames: Vec<Option<Tensor>>,
    /// For each chunk, the right edge of the tile to the left.
    left: Vec<Tensor>,
    /// For each column and chunk, the lower edge of the tile above.
    above: Vec<Vec<Tensor>>,
}

impl TileBlender {
    pub(super) fn new(grid: TileGrid, cell: i64) -> Self {
        Self {
            grid,
            cell,
            frames: Vec::new(),
            left: Vec::new(),
            above: (0..grid.columns()).map(|_| Vec::new()).collect(),
        }
    }

    /// Takes the result of a tile for one chunk, and gives that chunk's frames when this was their last tile:
    /// `(T, H, W, C)` on the device of `result`.
    ///
    /// Tiles must come in their order, and the chunks of each in theirs. `result` is written to.
    pub(super) fn put(
        &mut self,
        tile: &LatentTile,
        chunk: usize,
        result: &Tensor,
    ) -> Option<Tensor> {
        let (scheme, overlap) = (self.grid.scheme, self.grid.overlap() * self.cell);
        if tile.row > 0 {
            let edge = &self.above[tile.column][chunk];
            blend(edge, result, 1, overlap, scheme);
        }
        if tile.column > 0 {
            blend(&self.left[chunk], result, 2, overlap, scheme);
        }
        if tile.row + 1 < self.grid.rows() {
            let edge = on_cpu(&last_of(result, 1, overlap));
            keep(&mut self.above[tile.column], chunk, edge);
        }
        if tile.column + 1 < self.grid.columns() {
            keep(&mut self.left, chunk, on_cpu(&last_of(result, 2, overlap)));
        }
        self.place(tile, chunk, result);
        let is_whole = self.grid.is_last(tile);
        let frames = is_whole.then(|| self.frames[chunk].take()).flatten()?;
        Some(frames.to_device(result.device()))
    }

    /// Copies the tile's own part: up to where the next tiles begin.
    fn place(&mut self, tile: &LatentTile, chunk: usize, result: &Tensor) {
        let TileGrid { height, width, .. } = self.grid;
        let size = result.size();
        if chunk == self.frames.len() {
            let whole = [size[0], height * self.cell, width * self.cell, size[3]];
            let whole = Tensor::empty(whole, (result.kind(), Device::Cpu));
            self.frames.push(Some(whole));
        }
        let Some(frames) = &self.frames[chunk] else {
            return;
        };
        let own = |edge: i64, is_last: bool| {
            let own = if is_last {
                edge
            } else {
                edge.min(self.grid.stride)
            };
            own * self.cell
        };
        let own_height = own(tile.height, tile.row + 1 == self.grid.rows());
        let own_width = own(tile.width, tile.column + 1 == self.grid.columns());
        let own = result.narrow(1, 0, own_height).narrow(2, 0, own_width);
        frames
            .narrow(1, tile.top * self.cell, own_height)
            .narrow(2, tile.left * self.cell, own_width)
            .copy_(&own);
    }
}

fn keep(edges: &mut Vec<Tensor>, chunk: usize, edge: Tensor) {
    if chunk < edges.len() {
        edges[chunk] = edge;
    } else {
        edges.push(edge);
    }
}

/// A copy, so that what `xs` is a part of can go.
pub(super) fn on_cpu(xs: &Tensor) -> Tensor {
    if xs.device() == Device::Cpu {
        xs.copy()
    } else {
        xs.to_device(Device::Cpu)
    }
}

/// At most `count` rows or columns at the end of axis `dim`.
fn last_of(xs: &Tensor, dim: i64, count: i64) -> Tensor {
    let len = xs.size()[dim as usize];
    let count = count.min(len);
    xs.narrow(dim, len - count, count)
}

/// Lets `edge`, the end of the tile before, pass over into the start of `result` along axis `dim`, in place.
pub(super) fn blend(edge: &Tensor, result: &Tensor, dim: i64, overlap: i64, scheme: TileScheme) {
    let extent = overlap.min(result.size()[dim as usize]);
    let edge = last_of(edge, dim, extent);
    let extent = edge.size()[dim as usize];
    if extent == 0 {
        return;
    }
    let place = Tensor::arange(extent, (Kind::Float, result.device()));
    let weight = match scheme {
        TileScheme::Seamless => {
            let ramp = (extent / 4).max(1) as f64;
            let from_middle = place + (0.5 - extent as f64 / 2.0);
            (from_middle / ramp + 0.5).clamp(0.0, 1.0)
        }
        TileScheme::Separate => place / extent,
    };
    let mut shape = vec![1; result.dim()];
    shape[dim as usize] = extent;
    let weight = weight.view(&shape[..]);
    let mut start = result.narrow(dim, 0, extent);
    let edge = edge.to_device(result.device()) * (1.0 - &weight);
    // In f32 also for halves, and rounded once.
    start.copy_(&(edge + &start * weight));
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::{LatentTile, TileBlender, TileGrid, TileScheme, Tiling};

    /// The tiles of one image of `height` × `width`, put together from `of_tile`.
    fn put_together(
        grid: TileGrid,
        chunks: usize,
        of_tile: impl Fn(&LatentTile, usize) -> Tensor,
    ) -> Vec<Tensor> {
        let mut mosaic = TileBlender::new(grid, 1);
        let mut whole = Vec::new();
        for tile in grid.tiles() {
            for chunk in 0..chunks {
                whole.extend(mosaic.put(&tile, chunk, &of_tile(&tile, chunk)));
            }
        }
        whole
    }

    const SCHEMES: [TileScheme; 2] = [TileScheme::Seamless, TileScheme::Separate];

    fn tiling(size: i64, stride: i64, scheme: TileScheme) -> Tiling {
        Tiling {
            size,
            stride,
            scheme,
        }
    }

    #[test]
    fn tiles_that_agree_where_they_overlap_give_the_image_they_were_cut_from() {
        let sizes = [
            (9, 7, 4, 3),
            (4, 9, 4, 3),
            (1, 9, 4, 2),
            (10, 5, 4, 1),
            (8, 8, 4, 4),
            (11, 13, 5, 2),
        ];
        for (scheme, (height, width, size, stride)) in SCHEMES
            .iter()
            .flat_map(|scheme| sizes.map(|size| (scheme, size)))
        {
            let grid = TileGrid::new(tiling(size, stride, *scheme), 1, [height, width]).unwrap();
            let image = |chunk: usize| {
                let values = Tensor::arange(height * width * 2, (Kind::Float, Device::Cpu));
                (values + chunk as i64).view([1, height, width, 2])
            };
            let found = put_together(grid, 3, |tile, chunk| {
                let rows = image(chunk).narrow(1, tile.top, tile.height);
                rows.narrow(2, tile.left, tile.width).copy()
            });
            assert_eq!(found.len(), 3);
            for (chunk, found) in found.iter().enumerate() {
                let off = (found - image(chunk)).abs().max().double_value(&[]);
                assert!(
                    off < 1e-4,
                    "{height} × {width} in {size} / {stride}, {scheme:?}: off by {off}"
                );
            }
        }
    }

    /// A row of `width` pixels in tiles of 8, each filled with its number.
    fn numbered(width: i64, scheme: TileScheme) -> Vec<f32> {
        let grid = TileGrid::new(tiling(8, 4, scheme), 1, [1, width]).unwrap();
        let found = put_together(grid, 1, |tile, _| {
            let size = [1, 1, tile.width, 1];
            Tensor::full(size, tile.column as f64, (Kind::Float, Device::Cpu))
        });
        Vec::try_from(found[0].flatten(0, 3)).unwrap()
    }

    #[test]
    fn one_tile_passes_over_into_the_next() {
        let separate = numbered(10, TileScheme::Separate);
        let expected = [0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5];
        assert_eq!(separate, expected);
        // Only in the middle of the overlap, and with no third tile in what the second holds already.
        let seamless = numbered(10, TileScheme::Seamless);
        assert_eq!(seamless, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn edges_are_rounded_to_whole_latents() {
        let latents = [20, 20];
        for scheme in SCHEMES {
            let odd = TileGrid::new(tiling(79, 55, scheme), 8, latents).unwrap();
            let even = TileGrid::new(tiling(72, 48, scheme), 8, latents).unwrap();
            assert!(odd.tiles().eq(even.tiles()));
            // Whatever is asked for, tiles have no gaps between them.
            for (size, stride) in [(0, 0), (-5, 3), (16, 800), (1, 1)] {
                let grid = TileGrid::new(tiling(size, stride, scheme), 8, latents).unwrap();
                let area: i64 = grid.tiles().map(|tile| tile.height * tile.width).sum();
                assert!(area >= 400, "{size} / {stride}: {area}");
            }
        }
    }

    #[test]
    fn a_video_within_one_tile_is_not_cut() {
        assert!(TileGrid::new(Tiling::default(), 8, [32, 32]).is_none());
        assert!(TileGrid::new(Tiling::default(), 8, [32, 33]).is_some());
    }
}
