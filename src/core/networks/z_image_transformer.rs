//! Z-Image's transformer: config, tensor names of the authors and of diffusers, and schema.
//!
//! Turbo and Base are configs of it. Either dialect may have a prefix, as in checkpoints that hold a whole pipeline. Readers
//! ask with the authors' names, which ComfyUI's and GGUF's files have; diffusers has queries, keys and values apart, for
//! which readers ask as parts of one: `attention.qkv.q`.

use super::stream_blocks;
use crate::networks::prelude::*;

/// Rotary dimensions of a head for each axis, in every published file.
const AXES: [i64; 3] = [32, 48, 48];
/// Latents along an edge of one token.
pub(super) const PATCH: i64 = 2;
/// Width of the sinusoids of timesteps, and inside the layers that read them.
pub const SINUSOIDS: i64 = 256;
pub const TIME_WIDTH: i64 = 1024;
/// Width of the timestep's embedding that modulates blocks, in networks that are at least as wide.
const MODULATION_WIDTH: i64 = 256;
/// Tokens of an image and of a text are padded to multiples of this.
pub const TOKENS_MULTIPLE: i64 = 32;

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ZImageTransformerConfig {
        pub all_patch_size: Vec<i64> = vec![PATCH] => only(),
        pub all_f_patch_size: Vec<i64> = vec![1] => only(),
        pub in_channels: i64 = 16 => size(),
        /// Width of the hidden states.
        pub dim: i64 = 3840 => dim("x_embedder.weight", 0),
        /// Blocks that text and image go through together.
        pub n_layers: i64 = 30 => count("layers.{}.attention_norm1.weight"),
        /// Blocks of each of the two refiners before.
        pub n_refiner_layers: i64 = 2 => count("noise_refiner.{}.attention_norm1.weight"),
        pub n_heads: i64 = 30 => size(),
        pub n_kv_heads: i64 = 30,
        pub norm_eps: f64 = 1e-5 => epsilon(),
        pub qk_norm: bool = true => only(),
        /// Width of the text's embeddings.
        pub cap_feat_dim: i64 = 2560 => width("cap_embedder.0.weight"),
        /// Width of an image encoder's embeddings, which only Omni reads.
        pub siglip_feat_dim: Option<i64> = None,
        pub rope_theta: f64 = 256.0 => base(),
        /// Factor of timesteps, which come between 0 and 1.
        pub t_scale: f64 = 1000.0 => within(1e-6, 1e6),
        /// Rotary dimensions of a head for order, row and column.
        pub axes_dims: [i64; 3] = AXES,
        /// Places along each axis.
        pub axes_lens: [i64; 3] = [1536, 512, 512],
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for ZImageTransformerConfig {
    const LABEL: &'static str = "Z-Image transformer";
    const CLASSES: &'static [&'static str] = &["ZImageTransformer2DModel"];
    // A tensor of Lumina 2 that no reader asks for.
    const MORE_TOPS: Option<&'static [&'static str]> = Some(&["norm_final"]);
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::own(&[any_of(&PADS), any_of(&MARKS)], &LISTS),
        TensorDialect::diffusers(
            &[
                any_of(&PADS),
                any_of(&[
                    "all_x_embedder.2-1.weight",
                    "all_final_layer.2-1.linear.weight",
                    "layers.0.attention.to_q.weight",
                ]),
            ],
            &[
                LISTS[0].named("layers", DIFFUSERS_LAYERS),
                LISTS[1].named("noise_refiner", DIFFUSERS_LAYERS),
                LISTS[2].named("context_refiner", DIFFUSERS_LAYERS),
            ],
            &[names! {
                "x_embedder" => "all_x_embedder.2-1",
                "final_layer" => "all_final_layer.2-1",
            }],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let patch = header.dim("x_embedder.weight", 1)?;
        let head_dim = header.width("layers.0.attention.q_norm.weight")?;
        let n_heads = heads(self.dim, head_dim)?;
        Ok(Self {
            in_channels: patch / (PATCH * PATCH),
            n_heads,
            n_kv_heads: n_heads,
            siglip_feat_dim: header.width("siglip_embedder.0.weight").ok(),
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        check_sizes(&self.axes_lens.map(|length| ("axes_lens", length)))?;
        let (dim, heads, shared) = (self.dim, self.n_heads, self.n_kv_heads);
        ensure!(
            shared == heads && dim % heads == 0,
            "expected n_heads that divide a dim of {dim}, and as many n_kv_heads, found {heads} and {shared}"
        );
        stream_blocks::check_axes("axes_dims", self.axes_dims, self.head_dim())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.n_layers, self.n_refiner_layers, self.n_refiner_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, modulation_dim) = (self.dim, self.modulation_dim());
        schema.linear("x_embedder", dim, self.token_numbers());
        schema.vector("cap_embedder.0.weight", self.cap_feat_dim);
        // Used once for each text, like the context refiner.
        schema.modulation("cap_embedder.1", dim, self.cap_feat_dim);
        for pad in PADS {
            schema.add(pad, &[1, dim], TensorRole::Fixed);
        }
        schema.in_f32(|schema| {
            schema.linear("t_embedder.mlp.0", TIME_WIDTH, SINUSOIDS);
            schema.linear("t_embedder.mlp.2", modulation_dim, TIME_WIDTH);
        });
        for (list, count) in LISTS.iter().zip(self.block_counts()) {
            // A block that no timestep modulates is used once for each text.
            let role = if list.own == "context_refiner" {
                TensorRole::Modulation
            } else {
                TensorRole::Matrix
            };
            schema.blocks(list.own, count, |schema| add_block(schema, self, role));
        }
        schema.modulation("final_layer.adaLN_modulation.1", dim, modulation_dim);
        schema.linear("final_layer.linear", self.token_numbers(), dim);
    }
}

impl DenoiserConfig for ZImageTransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.in_channels
    }

    fn shape(&self) -> TransformerShape {
        TransformerShape {
            heads: self.n_heads,
            head_dim: self.head_dim(),
            layers: self.n_layers,
            channels: self.in_channels,
        }
    }
}

impl ZImageTransformerConfig {
    pub fn head_dim(&self) -> i64 {
        self.dim / self.n_heads
    }

    /// Width inside the feed-forward layers.
    pub fn ffn_dim(&self) -> i64 {
        // Rounded down, as diffusers has it.
        (self.dim as f64 / 3.0 * 8.0) as i64
    }

    pub fn token_numbers(&self) -> i64 {
        PATCH * PATCH * self.in_channels
    }

    /// Width of the timestep's embedding that modulates blocks.
    pub fn modulation_dim(&self) -> i64 {
        self.dim.min(MODULATION_WIDTH)
    }
}

pub type ZImageTransformerKeys = TensorKeys<ZImageTransformerConfig>;

/// Lumina 2, from which this network was built, has all but these.
const PADS: [&str; 2] = ["x_pad_token", "cap_pad_token"];
/// By which the authors' names are known; one is enough for a file that lacks others.
const MARKS: [&str; 3] = [
    "x_embedder.weight",
    "final_layer.linear.weight",
    "layers.0.attention.qkv.weight",
];

/// The lists of blocks, which all files name alike.
const LISTS: [BlockList; 3] = [
    BlockList::shared("layers"),
    BlockList::shared("noise_refiner"),
    BlockList::shared("context_refiner"),
];

pub(super) const DIFFUSERS_LAYERS: &[&[NamePair]] = &[names! {
    "attention.qkv.q" => "attention.to_q",
    "attention.qkv.k" => "attention.to_k",
    "attention.qkv.v" => "attention.to_v",
    "attention.q_norm" => "attention.norm_q",
    "attention.k_norm" => "attention.norm_k",
    "attention.out" => "attention.to_out.0",
}];

/// Adds a block whose matrices have a role; [`TensorRole::Matrix`] is that of blocks that a timestep modulates.
pub(super) fn add_block(schema: &mut Schema, config: &ZImageTransformerConfig, role: TensorRole) {
    let (dim, wide) = (config.dim, config.ffn_dim());
    let matrix = |schema: &mut Schema, name: &str, rows, columns| {
        schema.add(format!("{name}.weight"), &[rows, columns], role);
    };
    let parts = [("q", dim), ("k", dim), ("v", dim)];
    schema.fused("attention.qkv", &parts, |schema, name, rows| {
        matrix(schema, name, rows, dim);
    });
    matrix(schema, "attention.out", dim, dim);
    matrix(schema, "feed_forward.w1", wide, dim);
    matrix(schema, "feed_forward.w2", dim, wide);
    matrix(schema, "feed_forward.w3", wide, dim);
    schema.vector("attention.q_norm.weight", config.head_dim());
    schema.vector("attention.k_norm.weight", config.head_dim());
    schema.vector("attention_norm1.weight", dim);
    schema.vector("attention_norm2.weight", dim);
    schema.vector("ffn_norm1.weight", dim);
    schema.vector("ffn_norm2.weight", dim);
    if role == TensorRole::Matrix {
        schema.modulation("adaLN_modulation.0", 4 * dim, config.modulation_dim());
    }
}
