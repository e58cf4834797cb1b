//! Qwen-Image's transformer: its numbers, what its files call its tensors, and all of them with their shapes.
//!
//! Qwen-Image and Qwen-Image-Edit are configs of it. Every file has diffusers' names, bare or behind a prefix; readers
//! ask with those of Flux's double blocks, of which it has nothing but.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flux_transformer::PREFIXES;
use super::header::{heads, not_a, sizes};
use super::stream_blocks::{
    self, AXES, DIFFUSERS, DOUBLE, HEAD_DIM, Names, OUTER, SINUSOIDS, StreamShape, StreamStyle,
    ToldShape,
};
use super::{NetworkConfig, Schema, TensorSpec, check_layers, check_sizes, class_name};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;

/// Latents along an edge of one token.
const PATCH: i64 = 2;
/// How much wider the feed-forward layers are.
const MLP_RATIO: i64 = 4;
/// By this empty tensor files without a config say that tokens of given pictures are told the timestep 0.
pub const ZERO_TIME: &str = "__index_timestep_zero__";

with_defaults! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct QwenImageTransformerConfig {
        pub patch_size: i64 = PATCH,
        /// Numbers of a token.
        pub in_channels: i64 = 64,
        /// Channels of the latents that it gives.
        pub out_channels: Option<i64> = Some(16),
        /// Blocks, all of two streams.
        pub num_layers: i64 = 60,
        pub attention_head_dim: i64 = HEAD_DIM,
        pub num_attention_heads: i64 = 24,
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 3584,
        pub guidance_embeds: bool = false,
        /// How many numbers of a head turn with each of a token's places: picture, row and column.
        pub axes_dims_rope: [i64; 3] = AXES,
        /// Whether tokens of given pictures are told the timestep 0.
        pub zero_cond_t: bool = false,
        /// What only models of layered pictures have.
        pub use_additional_t_cond: bool = false,
        pub use_layer3d_rope: bool = false,
        pub quantization_config: Option<Value> = None,
    }
}

impl NetworkConfig for QwenImageTransformerConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("QwenImageTransformer2DModel")
    }

    /// What shapes cannot say, the width of a head and the axes of positions, is as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = QwenImageTransformerKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("Qwen-Image transformer", weights))?;
        let size = |name: &str| sizes(weights, &keys.file_key(name));
        let [dim, in_channels] = size("img_in.weight")?;
        let [outputs, _] = size("final_layer.linear.weight")?;
        let [_, joint_attention_dim] = size("txt_in.weight")?;
        Ok(Self {
            in_channels,
            out_channels: Some(outputs / (PATCH * PATCH)),
            num_layers: stream_blocks::count_blocks(weights, &keys.block_name()),
            num_attention_heads: heads(dim, HEAD_DIM)?,
            joint_attention_dim,
            zero_cond_t: weights.has(&format!("{}{ZERO_TIME}", keys.prefix)),
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("in_channels", self.in_channels),
            ("out_channels", self.latent_channels()),
            ("attention_head_dim", self.attention_head_dim),
            ("num_attention_heads", self.num_attention_heads),
            ("joint_attention_dim", self.joint_attention_dim),
        ])?;
        check_layers(&[("num_layers", self.num_layers)])?;
        let (latents, numbers) = (self.latent_channels(), self.in_channels);
        Err(if self.patch_size != PATCH {
            format!(
                "expected a patch_size of {PATCH}, found {}",
                self.patch_size
            )
        } else if numbers != latents * PATCH * PATCH {
            format!(
                "expected in_channels of {} for out_channels of {latents}, found {numbers}",
                latents * PATCH * PATCH
            )
        } else if self.guidance_embeds {
            "expected a model that is told no guidance, found guidance_embeds on".to_owned()
        } else {
            let (axes, head_dim) = (self.axes_dims_rope, self.attention_head_dim);
            return stream_blocks::check_axes("axes_dims_rope", axes, head_dim);
        })
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        schema(self, QwenImageTransformerKeys::of(|key| weights.has(key)))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = QwenImageTransformerKeys::of(|key| weights.has(key));
        stream_blocks::check_blocks(weights, &[keys.block_name()], &[self.num_layers])
    }
}

impl QwenImageTransformerConfig {
    /// Width of the hidden states.
    pub fn dim(&self) -> i64 {
        self.num_attention_heads * self.attention_head_dim
    }

    pub fn streams(&self) -> StreamShape {
        StreamShape {
            dim: self.dim(),
            head_dim: self.attention_head_dim,
            mlp_dim: MLP_RATIO * self.dim(),
            blocks: [self.num_layers, 0],
            // Of the timestep alone.
            style: StreamStyle::Own,
            told: Some(ToldShape {
                pooled: 0,
                guidance_embeds: false,
            }),
        }
    }

    /// Channels of latents; a token holds two by two of them.
    pub fn latent_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }
}

/// What stands before the names in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QwenImageTransformerKeys {
    pub prefix: &'static str,
}

/// By which a file is known; two of three are enough for one that lacks one.
const MARKS: [&str; 3] = [
    "txt_norm.weight",
    "transformer_blocks.0.img_mod.1.weight",
    "transformer_blocks.0.txt_mlp.net.2.weight",
];

/// Not as Flux has it, outside the blocks.
const OWN: [Names; 1] = [["img_in", "", "img_in"]];
/// The same within a block, by what diffusers calls Flux's.
const INSIDE: [[&str; 2]; 4] = [
    [".norm1.linear.", ".img_mod.1."],
    [".norm1_context.linear.", ".txt_mod.1."],
    [".ff.net.", ".img_mlp.net."],
    [".ff_context.net.", ".txt_mlp.net."],
];

impl QwenImageTransformerKeys {
    pub const BARE: Self = Self { prefix: "" };

    /// Those of a file, by whether it has a key; `None` for what is no Qwen-Image transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let mut prefixes = PREFIXES.into_iter();
        let prefix = prefixes.find(|prefix| {
            let found = MARKS.iter().filter(|mark| has(&format!("{prefix}{mark}")));
            found.count() >= 2
        })?;
        Some(Self { prefix })
    }

    /// The same, where what is no such transformer counts as a bare one: the first key that is asked for says what is
    /// wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self::BARE)
    }

    /// What the file calls the tensor that Flux's authors would call `original`.
    pub fn file_key(self, original: &str) -> String {
        let name = stream_blocks::renamed(original, &[DOUBLE], &[&OWN, &OUTER], DIFFUSERS);
        let inside = INSIDE.iter().find(|[flux, _]| name.contains(flux));
        let own = inside.map_or_else(|| name.clone(), |[flux, own]| name.replacen(flux, own, 1));
        format!("{}{own}", self.prefix)
    }

    pub(super) fn block_name(self) -> String {
        format!("{}{}", self.prefix, DOUBLE.1)
    }

    /// The names before the first dot, of which a transformer has no others.
    pub(crate) fn tops() -> &'static [&'static str] {
        &[
            ZERO_TIME,
            "img_in",
            "norm_out",
            "proj_out",
            "time_text_embed",
            "transformer_blocks",
            "txt_in",
            "txt_norm",
        ]
    }
}

pub fn schema(
    config: &QwenImageTransformerConfig,
    keys: QwenImageTransformerKeys,
) -> Vec<TensorSpec> {
    // Queries, keys and values are apart in every file.
    named_as_flux(config, true).renamed(|name| keys.file_key(name))
}

/// The same in the names with which readers ask, matrices of several parts as one.
pub fn flux_schema(config: &QwenImageTransformerConfig) -> Vec<TensorSpec> {
    named_as_flux(config, false).into_tensors()
}

fn named_as_flux(config: &QwenImageTransformerConfig, is_split: bool) -> Schema {
    let dim = config.dim();
    let mut schema = before_last(config, is_split);
    schema.modulation("final_layer.adaLN_modulation.1", 2 * dim, dim);
    schema.linear("final_layer.linear", config.in_channels, dim);
    schema
}

/// All but the last layer, which ControlNets of it have too.
pub(super) fn before_last(config: &QwenImageTransformerConfig, is_split: bool) -> Schema {
    let dim = config.dim();
    let mut schema = Schema::default();
    schema.linear("img_in", dim, config.in_channels);
    schema.vector("txt_norm.weight", config.joint_attention_dim);
    schema.linear("txt_in", dim, config.joint_attention_dim);
    schema.in_f32(|schema| stream_blocks::embedder(schema, "time_in", dim, SINUSOIDS));
    stream_blocks::add_blocks(&mut schema, config.streams(), is_split);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        for (original, expected) in crate::testing::table(
            "img_in.weight -> img_in.weight
             txt_norm.weight -> txt_norm.weight
             time_in.out_layer.bias -> time_text_embed.timestep_embedder.linear_2.bias
             double_blocks.59.txt_attn.qkv.v.bias -> transformer_blocks.59.attn.add_v_proj.bias
             double_blocks.0.img_attn.norm.key_norm.scale -> transformer_blocks.0.attn.norm_k.weight
             double_blocks.1.img_mod.lin.weight -> transformer_blocks.1.img_mod.1.weight
             double_blocks.1.txt_mod.lin.bias -> transformer_blocks.1.txt_mod.1.bias
             double_blocks.0.img_mlp.0.weight -> transformer_blocks.0.img_mlp.net.0.proj.weight
             double_blocks.0.txt_mlp.2.weight -> transformer_blocks.0.txt_mlp.net.2.weight
             final_layer.linear.bias -> proj_out.bias
             final_layer.adaLN_modulation.1.weight -> norm_out.linear.weight",
        ) {
            assert_eq!(QwenImageTransformerKeys::BARE.file_key(original), expected);
        }
    }

    #[test]
    fn a_transformer_is_found_behind_every_prefix() {
        for prefix in PREFIXES {
            let names = [MARKS[0], MARKS[2]].map(|mark| format!("{prefix}{mark}"));
            let keys = QwenImageTransformerKeys::detect(|key| names.contains(&key.to_owned()));
            let keys = keys.unwrap();
            assert_eq!(keys.prefix, prefix);
            assert_eq!(keys.file_key("txt_norm.weight"), names[0]);
        }
        let one = |key: &str| key == MARKS[0];
        assert_eq!(QwenImageTransformerKeys::detect(one), None);
    }
}
