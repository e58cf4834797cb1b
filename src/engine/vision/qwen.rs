//! The part of Qwen 2.5 VL that looks at images: patches through blocks that mostly look no further than a window,
//! four of them merged to each token of the language network.
//!
//! Fields have the names of `transformers`, after
//! <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/qwen2_5_vl/modeling_qwen2_5_vl.py>.
//!
//! Shapes: `N` patches of all images, `C` width, `H` heads of `D`. Patches that become one token follow each other,
//! and inside, tokens of one window too.

use safelight_core::media::{self, RgbPixels};
use safelight_core::networks::{QwenVisionConfig, qwen_vision};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use super::ClipImageProcessor;
use crate::error::EngineError;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{Linear, Rope, RopePairing, T5Norm, angles_at, attention, silu_times};
use crate::weights::{Weights, WeightsError};

const EPS: f64 = 1e-6;
const ROPE_THETA: f64 = 10000.0;

pub struct QwenVisionTower {
    /// `(C, 3 t p p)`
    patch_embed: Tensor,
    blocks: Vec<VisionBlock>,
    ln_q: T5Norm,
    merger: (Linear, Linear),
    config: QwenVisionConfig,
    kind: Kind,
}

pub struct TowerOutput {
    /// Before they are merged: `(N, C)`, window by window
    pub last_hidden_state: Tensor,
    /// `(N / 4, out_hidden_size)`, row by row of each image
    pub tokens: Tensor,
}

impl QwenVisionTower {
    /// `w`: a text encoder's, in the file's own names.
    pub fn new(config: &QwenVisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = w.keys();
        let prefix = qwen_vision::prefix_of(keys).unwrap_or_default().to_owned();
        let w = &crate::encoder_prefix::behind(&prefix, w);
        let (dim, merged) = (config.hidden_size, config.hidden_size * config.merged());
        let (time, edge) = (config.temporal_patch_size, config.patch_size);
        let kernel = (w / "patch_embed" / "proj").tensor("weight", &[dim, 3, time, edge, edge])?;
        let merger = w / "merger";
        let blocks = (0..config.depth).map(|i| VisionBlock::new(config, &(w / "blocks" / i)));
        Ok(Self {
            patch_embed: kernel.view([dim, -1]),
            blocks: blocks.collect::<Result<_, _>>()?,
            ln_q: T5Norm::new(dim, EPS, &(&merger / "ln_q"))?,
            merger: (
                Linear::new(merged, merged, &(&merger / "mlp" / 0))?,
                Linear::new(merged, config.out_hidden_size, &(&merger / "mlp" / 2))?,
            ),
            config: config.clone(),
            kind: w.kind(),
        })
    }

    /// `patches`: `(N, 3 t p p)`, `grids`: rows and columns of each image's patches; `None` when cancelled
    pub fn forward(
        &self,
        patches: &Tensor,
        grids: &[[i64; 2]],
        hooks: &dyn Hooks,
    ) -> Option<TowerOutput> {
        let device = self.patch_embed.device();
        let windows = PatchWindows::from_grids(&self.config, grids);
        let order = Tensor::from_slice(&windows.order).to_device(device);
        let unit = self.config.merged();
        // n (u) c: as many rows as there are tokens
        let ordered = |xs: &Tensor| {
            let size = xs.size();
            xs.view([-1, unit, size[1]])
                .index_select(0, &order)
                .view_as(xs)
        };
        let patches = patches.to_device(device).to_kind(self.kind);
        let mut xs = ordered(&patches.matmul(&self.patch_embed.tr()));
        let angles = ordered(&self.angles(grids).to_device(device));
        let rope = Rope::new(&angles, device);
        for (number, block) in (0..).zip(&self.blocks) {
            hooks.check_cancelled(FaultSite::Vision)?;
            let is_whole = self.config.fullatt_block_indexes.contains(&number);
            let parts = if is_whole {
                &windows.images
            } else {
                &windows.lengths
            };
            xs = block.forward(&xs, parts, &rope);
        }
        let merged = self.ln_q.forward(&xs).view([order.size()[0], -1]);
        let merged = self.merger.0.forward(&merged).gelu("none");
        let merged = self.merger.1.forward(&merged);
        Some(TowerOutput {
            tokens: merged.index_select(0, &order.argsort(0, false)),
            last_hidden_state: xs,
        })
    }

    fn angles(&self, grids: &[[i64; 2]]) -> Tensor {
        angles_of(
            grids,
            self.config.spatial_merge_size,
            self.config.head_dim(),
        )
    }
}

/// Row and column of each patch of an image, patches of a token next to each other: `(N)` each in f32
pub(super) fn patch_positions([rows, columns]: [i64; 2], merge: i64) -> [Tensor; 2] {
    let f32s = (Kind::Float, Device::Cpu);
    let row = Tensor::arange(rows, f32s).view([-1, 1]);
    let column = Tensor::arange(columns, f32s).view([1, -1]);
    [row, column].map(|places| {
        // (h m) (w n) -> (h w m n)
        places
            .expand([rows, columns], false)
            .reshape([rows / merge, merge, columns / merge, merge])
            .transpose(1, 2)
            .reshape([-1])
    })
}

/// Rotation angles of a head's pairs by row and column of each patch: `(N, D / 2)` in f32
pub(super) fn angles_of(grids: &[[i64; 2]], merge: i64, head_dim: i64) -> Tensor {
    let of_image = grids.iter().map(|&grid| {
        let axes = patch_positions(grid, merge);
        let axes = axes.map(|places| angles_at(&places, head_dim / 2, ROPE_THETA));
        Tensor::cat(&axes, 1)
    });
    Tensor::cat(&of_image.collect::<Vec<_>>(), 0)
}

/// Positions of the patches of windows and of images.
struct PatchWindows {
    /// Of each token, window by window: its number row by row.
    order: Vec<i64>,
    /// Patches of each window, and of each image.
    lengths: Vec<i64>,
    images: Vec<i64>,
}

impl PatchWindows {
    fn from_grids(config: &QwenVisionConfig, grids: &[[i64; 2]]) -> Self {
        let merge = config.spatial_merge_size;
        let edge = config.window_size / config.token_pixels();
        let mut found = Self {
            order: Vec::new(),
            lengths: Vec::new(),
            images: Vec::new(),
        };
        let mut first = 0;
        for [rows, columns] in grids.iter().map(|grid| grid.map(|edge| edge / merge)) {
            for top in (0..rows).step_by(edge as usize) {
                for left in (0..columns).step_by(edge as usize) {
                    let (bottom, right) = ((top + edge).min(rows), (left + edge).min(columns));
                    for row in top..bottom {
                        let start = first + row * columns;
                        found.order.extend(start + left..start + right);
                    }
                    let tokens = (bottom - top) * (right - left);
                    found.lengths.push(tokens * config.merged());
                }
            }
            first += rows * columns;
            found.images.push(rows * columns * config.merged());
        }
        found
    }
}

struct VisionBlock {
    norm1: T5Norm,
    norm2: T5Norm,
    qkv: Linear,
    proj: Linear,
    /// `gate_proj`, `up_proj` and `down_proj`.
    mlp: [Linear; 3],
    num_heads: i64,
}

impl VisionBlock {
    fn new(config: &QwenVisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, wide) = (config.hidden_size, config.intermediate_size);
        let (attn, mlp) = (w / "attn", w / "mlp");
        Ok(Self {
            norm1: T5Norm::new(dim, EPS, &(w / "norm1"))?,
            norm2: T5Norm::new(dim, EPS, &(w / "norm2"))?,
            qkv: Linear::new(dim, 3 * dim, &(&attn / "qkv"))?,
            proj: Linear::new(dim, dim, &(&attn / "proj"))?,
            mlp: [
                Linear::new(dim, wide, &(&mlp / "gate_proj"))?,
                Linear::new(dim, wide, &(&mlp / "up_proj"))?,
                Linear::new(wide, dim, &(&mlp / "down_proj"))?,
            ],
            num_heads: config.num_heads,
        })
    }

    /// `xs`: `(N, C)`, `parts`: how many patches look at each other, `rope`: of `N` patches
    fn forward(&self, xs: &Tensor, parts: &[i64], rope: &Rope) -> Tensor {
        let xs = xs + self.attend(&self.norm1.forward(xs), parts, rope);
        let normal = self.norm2.forward(&xs);
        let [gate, up, down] = &self.mlp;
        let wide = silu_times(gate.forward(&normal), &up.forward(&normal));
        xs + down.forward(&wide)
    }

    fn attend(&self, xs: &Tensor, parts: &[i64], rope: &Rope) -> Tensor {
        let attended = attend_in_parts(&self.qkv.forward(xs), self.num_heads, parts, rope);
        self.proj.forward(&attended)
    }
}

/// `qkv`: `(N, 3 H D)`, `parts`: numbers of patches that look at each other -> `(N, H D)`
pub(super) fn attend_in_parts(qkv: &Tensor, heads: i64, parts: &[i64], rope: &Rope) -> Tensor {
    // n (k h d) -> 1 n (k h) d
    let qkv = qkv.view([1, qkv.size()[0], 3 * heads, -1]);
    let turned = rope.turn_heads(&qkv.narrow(2, 0, 2 * heads), None, RopePairing::Halves);
    // 1 n h d -> n h d
    let of = |xs: &Tensor, which: i64| xs.narrow(2, which * heads, heads).squeeze_dim(0);
    let all = [of(&turned, 0), of(&turned, 1), of(&qkv, 2)];
    let mut start = 0;
    let attended = parts.iter().map(|&len| {
        // n h d -> 1 h n d
        let part = |xs: &Tensor| xs.narrow(0, start, len).transpose(0, 1).unsqueeze(0);
        let [q, k, v] = [0, 1, 2].map(|i: usize| part(&all[i]));
        start += len;
        let ys = attention(&q, &k, &v, None, None);
        ys.squeeze_dim(0).transpose(0, 1).reshape([len, -1])
    });
    Tensor::cat(&attended.collect::<Vec<_>>(), 0)
}

/// An image's patches as the tower reads them, `(N, 3 t p p)` in f32, and their rows and columns. The image's edges
/// become the nearest multiples of a token's.
pub fn patches_of(
    image: &RgbPixels,
    config: &QwenVisionConfig,
) -> Result<(Tensor, [i64; 2]), EngineError> {
    let edges = [
        config.patch_size,
        config.spatial_merge_size,
        config.temporal_patch_size,
    ];
    shared_patches(image, edges, json!({}))
}

/// Like [`patches_of`]. `edges`: pixels of a patch, patches of a token, frames of a patch; `statistics`: of colours, where
/// they are not CLIP's
pub(super) fn shared_patches(
    image: &RgbPixels,
    [patch, merge, frames]: [i64; 3],
    statistics: Value,
) -> Result<(Tensor, [i64; 2]), EngineError> {
    let token = patch * merge;
    let nearest =
        |edge: u32| ((f64::from(edge) / token as f64).round_ties_even() as i64).max(1) * token;
    let [height, width] = [image.height, image.width].map(nearest);
    let mut options = statistics;
    options["size"] = json!({"height": height, "width": width});
    options["do_center_crop"] = json!(false);
    let processor = ClipImageProcessor::read_over(None, options)?;
    let pixels = super::pixel_values(&image.rgb, image.width, image.height, &processor)?;
    let grid = [height / patch, width / patch];
    let [rows, columns] = grid.map(|edge| edge / merge);
    // c (h m p) (w n q) -> (h w m n) (c p q)
    let patches = pixels
        .view(&[3, rows, merge, patch, columns, merge, patch][..])
        .permute([1, 4, 2, 5, 0, 3, 6])
        .reshape([-1, 3, 1, patch * patch])
        // An image is a video of equal frames.
        .expand([-1, -1, frames, -1], false)
        .reshape([-1, 3 * frames * patch * patch]);
    Ok((patches, grid))
}

/// The size, width and height, of about `area` pixels in the aspect of an image, in steps of 32.
pub fn size_of_area(image: &RgbPixels, area: f64) -> (u32, u32) {
    let ratio = f64::from(image.width) / f64::from(image.height);
    let width = (area * ratio).sqrt();
    let step = |edge: f64| ((edge / 32.0).round_ties_even() as u32).max(1) * 32;
    (step(width), step(width / ratio))
}

pub fn resized_to_area(image: &RgbPixels, area: f64) -> Result<RgbPixels, EngineError> {
    let (width, height) = size_of_area(image, area);
    Ok(media::resize_lanczos(image, width, height)?)
}
