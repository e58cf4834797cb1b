//! A clip in overlapping squares: which they are, and how their results become one picture again.
//!
//! Tile by tile and blend by blend what diffusers' `tiled_decode` and `tiled_encode` do: every tile goes through the
//! network with the whole clip's frames and a memory of its own, and is blended into what is above it, then into what
//! is to its left, with weights that grow evenly over the overlap. Time is never cut. Knows no network.

use tch::{Device, Kind, Tensor};

/// Spatial tiles, edge and distance in pixels; both are rounded down to whole latents.
///
/// The encoder of an autoencoder with patches counts in patches, as in diffusers: its tiles are that much larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiling {
    pub size: i64,
    pub stride: i64,
}

impl Default for Tiling {
    fn default() -> Self {
        Self::of_size(256)
    }
}

impl Tiling {
    /// Tiles that overlap by a quarter, as in diffusers.
    pub fn of_size(size: i64) -> Self {
        Self {
            size,
            stride: size * 3 / 4,
        }
    }
}

/// The tiles of one clip, in latents.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    size: i64,
    stride: i64,
    height: i64,
    width: i64,
}

/// One tile, in latents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) top: i64,
    pub(super) left: i64,
    pub(super) height: i64,
    pub(super) width: i64,
}

impl Grid {
    /// `factor`: the unit of `tiling` along an edge of one latent. `None` when one tile holds all latents.
    pub(super) fn new(tiling: Tiling, factor: i64, [height, width]: [i64; 2]) -> Option<Self> {
        let size = (tiling.size / factor).max(1);
        let grid = Self {
            size,
            stride: (tiling.stride / factor).clamp(1, size),
            height,
            width,
        };
        (height > size || width > size).then_some(grid)
    }

    /// Row by row.
    pub(super) fn tiles(self) -> impl Iterator<Item = Tile> {
        (0..self.rows()).flat_map(move |row| {
            (0..self.columns()).map(move |column| {
                let [top, left] = [row, column].map(|index| index as i64 * self.stride);
                Tile {
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
        (self.height as usize).div_ceil(self.stride as usize)
    }

    fn columns(self) -> usize {
        (self.width as usize).div_ceil(self.stride as usize)
    }

    fn is_last(self, tile: &Tile) -> bool {
        tile.row + 1 == self.rows() && tile.column + 1 == self.columns()
    }
}

/// The results of tiles, `(T, h, w, C)` a chunk of frames at a time, on their way to whole frames.
///
/// A tile is through with all its frames before the next one begins: the memory of the convolutions is then that of
/// one tile, where a frame after the other would need as much as no tiles at all. The price is that no frame is whole
/// before the last tile, so they wait outside of the device, in the kind they came in, and each once only: a tile
/// keeps its own part, and of what the next tiles are blended with only the edges.
pub(super) struct Mosaic {
    grid: Grid,
    /// Pixels, or whatever comes out, along an edge of one latent.
    cell: i64,
    /// Whole frames, one tensor a chunk; those that were given away are gone.
    frames: Vec<Option<Tensor>>,
    /// For each chunk, the right edge of the tile to the left.
    left: Vec<Tensor>,
    /// For each column and chunk, the lower edge of the tile above.
    above: Vec<Vec<Tensor>>,
}

impl Mosaic {
    pub(super) fn new(grid: Grid, cell: i64) -> Self {
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
    pub(super) fn put(&mut self, tile: &Tile, chunk: usize, result: &Tensor) -> Option<Tensor> {
        let overlap = (self.grid.size - self.grid.stride) * self.cell;
        if tile.row > 0 {
            blend(&self.above[tile.column][chunk], result, 1, overlap);
        }
        if tile.column > 0 {
            blend(&self.left[chunk], result, 2, overlap);
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
    fn place(&mut self, tile: &Tile, chunk: usize, result: &Tensor) {
        let Grid { height, width, .. } = self.grid;
        let size = result.size();
        if chunk == self.frames.len() {
            let whole = [size[0], height * self.cell, width * self.cell, size[3]];
            let whole = Tensor::empty(whole, (result.kind(), Device::Cpu));
            self.frames.push(Some(whole));
        }
        let Some(frames) = &self.frames[chunk] else {
            return;
        };
        let [own_height, own_width] =
            [tile.height, tile.width].map(|edge| edge.min(self.grid.stride) * self.cell);
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

/// A copy, so that the rest of the tile can go.
fn on_cpu(edge: &Tensor) -> Tensor {
    edge.to_device(Device::Cpu).copy()
}

/// At most `count` rows or columns at the end of axis `dim`.
fn last_of(xs: &Tensor, dim: i64, count: i64) -> Tensor {
    let len = xs.size()[dim as usize];
    let count = count.min(len);
    xs.narrow(dim, len - count, count)
}

/// Lets `edge`, the end of the tile before, pass over into the start of `result` along axis `dim`.
fn blend(edge: &Tensor, result: &Tensor, dim: i64, overlap: i64) {
    let extent = overlap.min(result.size()[dim as usize]);
    let edge = last_of(edge, dim, extent);
    let extent = edge.size()[dim as usize];
    if extent == 0 {
        return;
    }
    let options = (Kind::Float, result.device());
    let weight = Tensor::arange(extent, options) / extent;
    let mut shape = [1; 4];
    shape[dim as usize] = extent;
    let weight = weight.view(shape);
    let mut start = result.narrow(dim, 0, extent);
    let edge = edge.to_device(result.device()) * (1.0 - &weight);
    // In f32 also for halves, and rounded once.
    start.copy_(&(edge + &start * weight));
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::{Grid, Mosaic, Tile, Tiling};

    /// The tiles of one picture of `height` × `width`, put together from `of_tile`.
    fn put_together(
        grid: Grid,
        chunks: usize,
        of_tile: impl Fn(&Tile, usize) -> Tensor,
    ) -> Vec<Tensor> {
        let mut mosaic = Mosaic::new(grid, 1);
        let mut whole = Vec::new();
        for tile in grid.tiles() {
            for chunk in 0..chunks {
                whole.extend(mosaic.put(&tile, chunk, &of_tile(&tile, chunk)));
            }
        }
        whole
    }

    #[test]
    fn tiles_that_agree_where_they_overlap_give_the_picture_they_were_cut_from() {
        for (height, width, size, stride) in [
            (9, 7, 4, 3),
            (4, 9, 4, 3),
            (10, 5, 4, 1),
            (8, 8, 4, 4),
            (11, 13, 5, 2),
        ] {
            let tiling = Tiling { size, stride };
            let grid = Grid::new(tiling, 1, [height, width]).unwrap();
            let picture = |chunk: usize| {
                let values = Tensor::arange(height * width * 2, (Kind::Float, Device::Cpu));
                (values + chunk as i64).view([1, height, width, 2])
            };
            let found = put_together(grid, 3, |tile, chunk| {
                let rows = picture(chunk).narrow(1, tile.top, tile.height);
                rows.narrow(2, tile.left, tile.width).copy()
            });
            assert_eq!(found.len(), 3);
            for (chunk, found) in found.iter().enumerate() {
                let off = (found - picture(chunk)).abs().max().double_value(&[]);
                assert!(
                    off < 1e-4,
                    "{height} × {width} in {size} / {stride}: off by {off}"
                );
            }
        }
    }

    #[test]
    fn one_tile_passes_over_into_the_next() {
        let tiling = Tiling { size: 4, stride: 2 };
        let grid = Grid::new(tiling, 1, [1, 6]).unwrap();
        let found = put_together(grid, 1, |tile, _| {
            let size = [1, 1, tile.width, 1];
            Tensor::full(size, tile.column as f64, (Kind::Float, Device::Cpu))
        });
        let row = Vec::<f32>::try_from(found[0].flatten(0, 3)).unwrap();
        assert_eq!(row, [0.0, 0.0, 0.0, 0.5, 1.0, 1.5]);
    }

    #[test]
    fn edges_are_rounded_to_whole_latents() {
        let latents = [20, 20];
        let odd = Grid::new(
            Tiling {
                size: 79,
                stride: 55,
            },
            8,
            latents,
        )
        .unwrap();
        let even = Grid::new(
            Tiling {
                size: 72,
                stride: 48,
            },
            8,
            latents,
        )
        .unwrap();
        assert!(odd.tiles().eq(even.tiles()));
        // Whatever is asked for, tiles have no gaps between them.
        for (size, stride) in [(0, 0), (-5, 3), (16, 800), (1, 1)] {
            let grid = Grid::new(Tiling { size, stride }, 8, latents).unwrap();
            let area: i64 = grid.tiles().map(|tile| tile.height * tile.width).sum();
            assert!(area >= 400, "{size} / {stride}: {area}");
        }
    }

    #[test]
    fn a_clip_within_one_tile_is_not_cut() {
        assert!(Grid::new(Tiling::default(), 8, [32, 32]).is_none());
        assert!(Grid::new(Tiling::default(), 8, [32, 33]).is_some());
    }
}
