//! FLUX.3's transformer: config, tensor names of the authors and of diffusers, and schema.
//!
//! Tokens of three modes, text, image and reference images, go through blocks of their mode and then through common ones.
//! Readers ask with the authors' names, which ComfyUI's and GGUF's files have, but for the four matrices that read the same
//! input, which every file has apart: readers ask for them as parts of one, `qkv_mlp.q`. Nothing has a bias.

use super::stream_blocks::{HEAD_DIM, SINUSOIDS};
use crate::networks::prelude::*;

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Flux3TransformerConfig {
        /// Numbers of an image's token, two by two latents, and of a reference image's.
        pub in_channels: i64 = 128 => dim("emb_in.image.weight", 1),
        pub cond_in_channels: i64 = 128 => dim("emb_in.image_cond.weight", 1),
        /// Blocks of each mode.
        pub num_layers: i64 = 5 => blocks("txt_mode_blocks"),
        /// Blocks that all modes go through.
        pub num_single_layers: i64 = 28 => blocks("single_blocks"),
        pub attention_head_dim: i64 = HEAD_DIM => width("single_blocks.0.norm.query_norm.scale"),
        pub num_attention_heads: i64 = 24 => size(),
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 20_480 => dim("txt_in.weight", 1),
        pub timestep_channels: i64 = SINUSOIDS => only(),
        /// Width of the feed-forward layers after their gates, in widths of the network.
        pub mlp_ratio: f64 = 3.0 => within(0.1, 64.0),
        /// Rotary dimensions of a head for time, row, column and order.
        pub axes_dims_rope: [i64; 4] = [32, 32, 32, 32] => axes(),
        pub rope_theta: f64 = 10_000.0 => base(),
        pub eps: f64 = 1e-6 => epsilon(),
        /// The timestep at the end of a step is an input of the model, as it is in distilled ones.
        pub flow_map: bool = false => has("ref_time_in.in_layer.weight"),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

/// Authors' names of the modes, in the order of their tokens.
pub const MODES: [&str; 3] = ["txt", "image", "image_cond"];

/// Lists of the blocks of each mode.
pub const MODE_BLOCKS: [&str; 3] = [
    "txt_mode_blocks",
    "content_mode_blocks.image",
    "content_mode_blocks.image_cond",
];

impl TransformerConfig for Flux3TransformerConfig {
    const LABEL: &'static str = "FLUX.3 transformer";
    const CLASSES: &'static [&'static str] = &["Flux3Transformer2DModel"];
    const MORE_TOPS: Option<&'static [&'static str]> =
        Some(&["ref_time_in", "target_timestep_embedder", UNREAD]);
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect {
            is_split: true,
            ..TensorDialect::own(
                &[two_of(&[
                    "emb_in.image.weight",
                    "early_stream_modulations.image.lin.weight",
                    "single_stream_modulations.image.lin.weight",
                ])],
                &[
                    LISTS[0].named(LISTS[0].own, AUTHORS_LAYERS),
                    LISTS[1].named(LISTS[1].own, AUTHORS_LAYERS),
                    LISTS[2].named(LISTS[2].own, AUTHORS_LAYERS),
                    LISTS[3].named(LISTS[3].own, AUTHORS_LAYERS),
                ],
            )
        },
        TensorDialect::diffusers(
            &[two_of(&[
                "x_embedders.image.weight",
                "early_stream_modulations.image.linear.weight",
                "single_stream_modulations.image.linear.weight",
            ])],
            &[
                LISTS[0].named(LISTS[0].own, DIFFUSERS_LAYERS),
                LISTS[1].named("mode_blocks.image", DIFFUSERS_LAYERS),
                LISTS[2].named("mode_blocks.image_cond", DIFFUSERS_LAYERS),
                LISTS[3].named("single_transformer_blocks", DIFFUSERS_LAYERS),
            ],
            &[names! {
                "emb_in" => "x_embedders",
                "txt_in" => "context_embedder",
                "time_in.in_layer" => "timestep_embedder.linear_1",
                "time_in.out_layer" => "timestep_embedder.linear_2",
                "ref_time_in.in_layer" => "target_timestep_embedder.linear_1",
                "ref_time_in.out_layer" => "target_timestep_embedder.linear_2",
                "early_stream_modulations.txt.lin" => "early_stream_modulations.txt.linear",
                "early_stream_modulations.image.lin" => "early_stream_modulations.image.linear",
                "early_stream_modulations.image_cond.lin" => "early_stream_modulations.image_cond.linear",
                "single_stream_modulations.txt.lin" => "single_stream_modulations.txt.linear",
                "single_stream_modulations.image.lin" => "single_stream_modulations.image.linear",
                "single_stream_modulations.image_cond.lin" => "single_stream_modulations.image_cond.linear",
                "final_layer.image.linear" => "proj_out",
                "final_layer.image.adaLN_modulation.1" => "norm_out.linear",
            }],
        ),
    ];

    /// Each axis of positions has a quarter of a head, as published.
    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let (dim, head_dim) = (header.dim("txt_in.weight", 0)?, self.attention_head_dim);
        let mlp_dim = header.dim("single_blocks.0.mlp_out.weight", 1)?;
        Ok(Self {
            num_attention_heads: heads(dim, head_dim)?,
            mlp_ratio: mlp_dim as f64 / dim as f64,
            axes_dims_rope: [head_dim / 4; 4],
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let (image, reference) = (self.in_channels, self.cond_in_channels);
        ensure!(
            image == reference && image % LATENTS_A_TOKEN == 0,
            "expected in_channels that are a multiple of {LATENTS_A_TOKEN} and as many cond_in_channels, found {image} and {reference}"
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        let each = self.num_layers;
        vec![each, each, each, self.num_single_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, head_dim) = (self.dim(), self.attention_head_dim);
        let once = |schema: &mut Schema, name: &str, rows, columns| {
            let name = format!("{name}.weight");
            schema.add(name, &[rows, columns], TensorRole::Modulation);
        };
        once(schema, "txt_in", dim, self.joint_attention_dim);
        schema.matrix("emb_in.image", dim, self.in_channels);
        schema.matrix("emb_in.image_cond", dim, self.cond_in_channels);
        let time = ["time_in", "ref_time_in"];
        for name in &time[..=usize::from(self.flow_map)] {
            once(schema, &format!("{name}.in_layer"), dim, SINUSOIDS);
            once(schema, &format!("{name}.out_layer"), dim, dim);
        }
        for mode in MODES {
            for stage in ["early", "single"] {
                let name = format!("{stage}_stream_modulations.{mode}.lin");
                once(schema, &name, 3 * dim, dim);
            }
        }
        for (list, count) in LISTS.iter().zip(self.block_counts()) {
            schema.blocks(list.own, count, |schema| {
                schema.fused("qkv_mlp", &self.block_inputs(), |schema, name, rows| {
                    schema.matrix(name, rows, dim);
                });
                schema.vector("norm.query_norm.scale", head_dim);
                schema.vector("norm.key_norm.scale", head_dim);
                schema.matrix("attn_out", dim, dim);
                schema.matrix("mlp_out", dim, self.mlp_dim());
            });
        }
        once(schema, "final_layer.image.adaLN_modulation.1", 2 * dim, dim);
        schema.matrix("final_layer.image.linear", self.in_channels, dim);
    }
}

impl DenoiserConfig for Flux3TransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.in_channels / LATENTS_A_TOKEN
    }

    fn shape(&self) -> TransformerShape {
        TransformerShape {
            heads: self.num_attention_heads,
            head_dim: self.attention_head_dim,
            layers: self.num_layers + self.num_single_layers,
            channels: self.in_channels,
        }
    }
}

impl Flux3TransformerConfig {
    /// Width inside the feed-forward layers.
    pub fn mlp_dim(&self) -> i64 {
        (self.dim() as f64 * self.mlp_ratio) as i64
    }

    /// Rows of the matrices that read a block's input: queries, keys, values, and gates with values of the feed-forward
    /// layers.
    pub fn block_inputs(&self) -> [(&'static str, i64); 4] {
        let dim = self.dim();
        [
            ("q", dim),
            ("k", dim),
            ("v", dim),
            ("mlp", 2 * self.mlp_dim()),
        ]
    }
}

pub type Flux3TransformerKeys = TensorKeys<Flux3TransformerConfig>;

/// First part of the names of layers that only training reads.
pub const UNREAD: &str = "repa_projectors";

const LATENTS_A_TOKEN: i64 = 4;

const LISTS: [BlockList; 4] = [
    BlockList::shared(MODE_BLOCKS[0]),
    BlockList::shared(MODE_BLOCKS[1]),
    BlockList::shared(MODE_BLOCKS[2]),
    BlockList::shared("single_blocks"),
];

const AUTHORS_LAYERS: &[&[NamePair]] = &[names! {
    "qkv_mlp.q" => "q_proj",
    "qkv_mlp.k" => "k_proj",
    "qkv_mlp.v" => "v_proj",
    "qkv_mlp.mlp" => "mlp_in",
}];
const DIFFUSERS_LAYERS: &[&[NamePair]] = &[names! {
    "qkv_mlp.q" => "attn.to_q",
    "qkv_mlp.k" => "attn.to_k",
    "qkv_mlp.v" => "attn.to_v",
    "qkv_mlp.mlp" => "ff.linear_in",
    "norm.query_norm.scale" => "attn.norm_q.weight",
    "norm.key_norm.scale" => "attn.norm_k.weight",
    "attn_out" => "attn.to_out.0",
    "mlp_out" => "ff.linear_out",
}];
