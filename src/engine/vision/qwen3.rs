//! The part of Qwen 3 VL that looks at images: patches with learned and rotary positions through blocks that see the whole
//! image, four of them merged to each token of the language network; after some blocks also to what that adds to its first
//! layers (DeepStack).
//!
//! Fields have the names of `transformers`, after
//! <https://github.com/huggingface/transformers/blob/v5.3.0/src/transformers/models/qwen3_vl/modeling_qwen3_vl.py>.
//!
//! Shapes: `N` patches of all images, those of one token next to each other; `C` width.

use safelight_core::media::RgbPixels;
use safelight_core::networks::{Qwen3VisionConfig, qwen3_vision};
use serde_json::json;
use tch::{Kind, Tensor};

use super::qwen::{angles_of, attend_in_parts, patch_positions, shared_patches};
use crate::error::EngineError;
use crate::fault::FaultSite;
use crate::hooks::Hooks;
use crate::nn::{LayerNorm, Linear, Mlp, Rope, gelu_tanh};
use crate::weights::{Weights, WeightsError};

const EPS: f64 = 1e-6;

pub struct Qwen3VisionTower {
    patch_embed: Linear,
    /// `(positions, C)`
    pos_embed: Tensor,
    blocks: Vec<Qwen3VisionBlock>,
    merger: PatchMerger,
    deepstack_merger_list: Vec<PatchMerger>,
    config: Qwen3VisionConfig,
    kind: Kind,
}

pub struct TowerFeatures {
    /// Before patches are merged: `(N, C)`
    pub last_hidden_state: Tensor,
    /// `(N / 4, out_hidden_size)`
    pub tokens: Tensor,
    /// For the first layers of the language network: each `(N / 4, out_hidden_size)`
    pub deepstack: Vec<Tensor>,
}

impl Qwen3VisionTower {
    /// `w`: a text encoder's, in the file's own names.
    pub fn new(config: &Qwen3VisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = w.keys();
        let prefix = qwen3_vision::prefix_of(keys).unwrap_or_default().to_owned();
        let w = &crate::encoder_prefix::behind(&prefix, w);
        let (dim, patch) = (config.hidden_size, config.patch_size);
        let kernel = [config.temporal_patch_size, patch, patch];
        let positions = [config.num_position_embeddings, dim];
        let blocks = (0..config.depth).map(|i| Qwen3VisionBlock::new(config, &(w / "blocks" / i)));
        let lists = (0..config.deepstack_visual_indexes.len()).map(|i| {
            let w = &(w / "deepstack_merger_list" / i as i64);
            PatchMerger::new(config, true, w)
        });
        Ok(Self {
            patch_embed: Linear::from_patch_conv(3, dim, &kernel, &(w / "patch_embed" / "proj"))?,
            pos_embed: (w / "pos_embed").tensor("weight", &positions)?,
            blocks: blocks.collect::<Result<_, _>>()?,
            merger: PatchMerger::new(config, false, &(w / "merger"))?,
            deepstack_merger_list: lists.collect::<Result<_, _>>()?,
            config: config.clone(),
            kind: w.kind(),
        })
    }

    /// An image's patches, `(N, 3 t p p)` in f32, and their rows and columns, see [`patches_of`](super::patches_of).
    pub fn patches_of(&self, image: &RgbPixels) -> Result<(Tensor, [i64; 2]), EngineError> {
        let config = &self.config;
        let edges = [
            config.patch_size,
            config.spatial_merge_size,
            config.temporal_patch_size,
        ];
        let half = [0.5; 3];
        shared_patches(image, edges, json!({"image_mean": half, "image_std": half}))
    }

    /// `patches`: `(N, 3 t p p)`, `grids`: rows and columns of each image's patches; `None` when cancelled
    pub fn forward(
        &self,
        patches: &Tensor,
        grids: &[[i64; 2]],
        hooks: &dyn Hooks,
    ) -> Option<TowerFeatures> {
        let (device, config) = (self.pos_embed.device(), &self.config);
        let patches = patches.to_device(device).to_kind(self.kind);
        let mut xs = self.patch_embed.forward(&patches);
        let positions = grids.iter().map(|grid| self.positions(*grid));
        xs += Tensor::cat(&positions.collect::<Vec<_>>(), 0).to_kind(self.kind);
        let angles = angles_of(grids, config.spatial_merge_size, config.head_dim());
        let rope = Rope::new(&angles, device);
        let images: Vec<i64> = grids.iter().map(|[rows, columns]| rows * columns).collect();
        let mut deepstack = Vec::new();
        for (number, block) in (0..).zip(&self.blocks) {
            hooks.check_cancelled(FaultSite::Vision)?;
            xs = block.forward(&xs, &images, &rope);
            let mut indexes = config.deepstack_visual_indexes.iter();
            if let Some(index) = indexes.position(|index| *index == number) {
                deepstack.push(self.deepstack_merger_list[index].forward(&xs));
            }
        }
        Some(TowerFeatures {
            tokens: self.merger.forward(&xs),
            deepstack,
            last_hidden_state: xs,
        })
    }

    /// Learned positions of an image's patches, on straight lines between those of a square whose corners are the image's:
    /// `(n, C)` in f32
    fn positions(&self, grid: [i64; 2]) -> Tensor {
        let device = self.pos_embed.device();
        let edge = self.config.position_edge();
        let axes = patch_positions(grid, self.config.spatial_merge_size);
        let axes = [0, 1].map(|axis| {
            let scale = (edge - 1) as f64 / (grid[axis] - 1).max(1) as f64;
            let places = axes[axis].to_device(device) * scale;
            let first = places.floor();
            let part = &places - &first;
            let first = first.to_kind(Kind::Int64);
            let next = (&first + 1).clamp_max(edge - 1);
            [(first, 1.0 - &part), (next, part)]
        });
        let [rows, columns] = &axes;
        let corners = rows.iter().flat_map(|(row, of_row)| {
            columns.iter().map(move |(column, of_column)| {
                let found = self.pos_embed.index_select(0, &(row * edge + column));
                found.to_kind(Kind::Float) * (of_row * of_column).unsqueeze(1)
            })
        });
        Tensor::stack(&corners.collect::<Vec<_>>(), 0).sum_dim_intlist(
            [0].as_slice(),
            false,
            Kind::Float,
        )
    }
}

/// Makes one token of four patches.
struct PatchMerger {
    norm: LayerNorm,
    layers: Mlp,
    /// The norm is of all four patches as one.
    is_norm_of_all: bool,
    width: i64,
}

impl PatchMerger {
    fn new(
        config: &Qwen3VisionConfig,
        is_norm_of_all: bool,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let width = config.hidden_size * config.merged();
        let normed = if is_norm_of_all {
            width
        } else {
            config.hidden_size
        };
        let sizes = [width, width, config.out_hidden_size];
        Ok(Self {
            norm: LayerNorm::new(normed, EPS, &(w / "norm"))?,
            layers: Mlp::new(sizes, ["linear_fc1", "linear_fc2"], w)?,
            is_norm_of_all,
            width,
        })
    }

    /// `(N, C)` -> `(N / 4, out_hidden_size)`
    fn forward(&self, xs: &Tensor) -> Tensor {
        let xs = if self.is_norm_of_all {
            self.norm.forward_as_kind(&xs.view([1, -1, self.width]))
        } else {
            self.norm.forward_as_kind(&xs.unsqueeze(0))
        };
        let merged = xs.view([-1, self.width]);
        self.layers.forward(&merged, |xs| xs.gelu("none"))
    }
}

struct Qwen3VisionBlock {
    norm1: LayerNorm,
    norm2: LayerNorm,
    qkv: Linear,
    proj: Linear,
    mlp: Mlp,
    num_heads: i64,
}

impl Qwen3VisionBlock {
    fn new(config: &Qwen3VisionConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, attn) = (config.hidden_size, w / "attn");
        let sizes = [dim, config.intermediate_size, dim];
        Ok(Self {
            norm1: LayerNorm::new(dim, EPS, &(w / "norm1"))?,
            norm2: LayerNorm::new(dim, EPS, &(w / "norm2"))?,
            qkv: Linear::new(dim, 3 * dim, &(&attn / "qkv"))?,
            proj: Linear::new(dim, dim, &(&attn / "proj"))?,
            mlp: Mlp::new(sizes, ["linear_fc1", "linear_fc2"], &(w / "mlp"))?,
            num_heads: config.num_heads,
        })
    }

    /// `xs`: `(N, C)`, `images`: patches of each image, `rope`: of `N` patches
    fn forward(&self, xs: &Tensor, images: &[i64], rope: &Rope) -> Tensor {
        let normed =
            |norm: &LayerNorm, xs: &Tensor| norm.forward_as_kind(&xs.unsqueeze(0)).squeeze_dim(0);
        let qkv = self.qkv.forward(&normed(&self.norm1, xs));
        let attended = attend_in_parts(&qkv, self.num_heads, images, rope);
        let xs = xs + self.proj.forward(&attended);
        let wide = self.mlp.forward(&normed(&self.norm2, &xs), gelu_tanh);
        xs + wide
    }
}
