//! Qwen-Image 2.1's transformer: config, tensor names of ComfyUI's files and of diffusers, and schema.
//!
//! Both name tensors alike, except for the first layer of the feed-forward part: one matrix in ComfyUI's files, gates and
//! values apart in diffusers'. No layer has a bias. Readers ask for queries, keys and values as parts of one layer.

use super::stream_blocks::{AXES, HEAD_DIM, SINUSOIDS};
use crate::networks::prelude::*;

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct QwenImage21TransformerConfig {
        /// Latents along an edge of one token.
        pub patch_size: i64 = 1 => only(),
        /// Channels of the latents.
        pub in_channels: i64 = 64 => dim("img_in.weight", 1),
        pub out_channels: Option<i64> = None => size(),
        pub num_layers: i64 = 32 => blocks("transformer_blocks"),
        pub attention_head_dim: i64 = HEAD_DIM => width("transformer_blocks.0.attn.norm_q.weight"),
        pub num_attention_heads: i64 = 32 => size(),
        /// Width of the text's embeddings.
        pub context_in_dim: i64 = 4096 => width("txt_in.text_norm.weight"),
        /// Width inside the feed-forward layers, in multiples of the hidden states'.
        pub mlp_ratio: i64 = 3 => size(),
        /// Rotary dimensions of a head for order, row and column.
        pub axes_dims_rope: [i64; 3] = AXES => axes(),
        pub eps: f64 = 1e-6 => epsilon(),
        /// Text and references have the timestep 0.
        pub causal_condition: bool = true => only(),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for QwenImage21TransformerConfig {
    const LABEL: &'static str = "Qwen-Image 2.1 transformer";
    const CLASSES: &'static [&'static str] = &["QwenImage21Transformer2DModel"];
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect {
            is_split: true,
            ..TensorDialect::own(
                &[any_of(&MARKS), any_of(&GATE_UP)],
                &[BLOCKS.named(BLOCKS.own, &[HEADS])],
            )
        },
        TensorDialect::diffusers(
            &[any_of(&MARKS)],
            &[BLOCKS.named(BLOCKS.own, &[HEADS, DIFFUSERS_LAYERS])],
            &[],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let dim = header.dim("img_in.weight", 0)?;
        let inner = header.dim("transformer_blocks.0.img_mlp.out.weight", 1)?;
        Ok(Self {
            num_attention_heads: heads(dim, self.attention_head_dim)?,
            mlp_ratio: inner / dim,
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let (inputs, outputs) = (self.in_channels, self.out_channels);
        ensure!(
            outputs.is_none_or(|outputs| outputs == inputs),
            "expected as many out_channels as in_channels ({inputs}), found {}",
            outputs.unwrap_or_default()
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.num_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, wide, text) = (self.dim(), self.inner_dim(), self.context_in_dim);
        let once = |schema: &mut Schema, name: &str, rows, columns| {
            let name = format!("{name}.weight");
            schema.add(name, &[rows, columns], TensorRole::Modulation);
        };
        schema.matrix("img_in", dim, self.in_channels);
        schema.in_f32(|schema| schema.vector("txt_in.text_norm.weight", text));
        once(schema, "txt_in.in_layer", dim, text);
        once(schema, "txt_in.out_layer", dim, dim);
        once(schema, &format!("{TIME}.linear_1"), dim, SINUSOIDS);
        once(schema, &format!("{TIME}.linear_2"), dim, dim);
        once(schema, "modulation.1", 4 * dim, dim);
        let has_parts = schema.is_diffusers;
        schema.blocks(BLOCKS.own, self.num_layers, |schema| {
            schema.fused("attn.qkv", &Self::qkv(dim), |schema, name, rows| {
                schema.matrix(name, rows, dim);
            });
            schema.vector("attn.norm_q.weight", self.attention_head_dim);
            schema.vector("attn.norm_k.weight", self.attention_head_dim);
            schema.matrix("attn.to_out.0", dim, dim);
            if has_parts {
                for (part, rows) in Self::gate_up(wide) {
                    schema.matrix(&format!("img_mlp.gate_up.{part}"), rows, dim);
                }
            } else {
                schema.matrix("img_mlp.gate_up", 2 * wide, dim);
            }
            schema.matrix("img_mlp.out", dim, wide);
        });
        once(schema, "norm_out.linear", dim, dim);
        schema.matrix("proj_out", self.in_channels, dim);
    }
}

impl DenoiserConfig for QwenImage21TransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.in_channels
    }

    fn shape(&self) -> TransformerShape {
        TransformerShape {
            heads: self.num_attention_heads,
            head_dim: self.attention_head_dim,
            layers: self.num_layers,
            channels: self.in_channels,
        }
    }
}

impl QwenImage21TransformerConfig {
    /// Width inside the feed-forward layers.
    pub fn inner_dim(&self) -> i64 {
        self.mlp_ratio * self.dim()
    }

    /// Rows of queries, keys and values of heads that fill a width.
    pub fn qkv(dim: i64) -> [(&'static str, i64); 3] {
        [("q", dim), ("k", dim), ("v", dim)]
    }

    /// Rows of gates and values of a feed-forward layer.
    pub fn gate_up(wide: i64) -> [(&'static str, i64); 2] {
        [("gate", wide), ("up", wide)]
    }
}

/// Layers that embed the timestep.
const TIME: &str = "time_text_embed.timestep_embedder";

/// One is enough for a file that lacks the other.
const MARKS: [&str; 2] = ["txt_in.text_norm.weight", "modulation.1.weight"];
/// In a file that lacks one.
const GATE_UP: [&str; 2] = [
    "transformer_blocks.0.img_mlp.gate_up.weight",
    "transformer_blocks.1.img_mlp.gate_up.weight",
];

const BLOCKS: BlockList = BlockList::shared("transformer_blocks");
const HEADS: &[NamePair] = names! {
    "attn.qkv.q" => "attn.to_q",
    "attn.qkv.k" => "attn.to_k",
    "attn.qkv.v" => "attn.to_v",
};
const DIFFUSERS_LAYERS: &[NamePair] = names! {
    "img_mlp.gate_up.gate" => "img_mlp.gate_layer",
    "img_mlp.gate_up.up" => "img_mlp.proj",
};
