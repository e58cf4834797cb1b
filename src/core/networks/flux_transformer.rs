//! Flux's transformer: its numbers, what the authors and diffusers call its tensors, and all of them with their shapes.
//!
//! dev, schnell, Fill, Kontext, Depth and Canny are configs of it. Either dialect may stand behind a prefix, as in checkpoints that
//! hold a whole pipeline. Readers ask with the authors' names. The blocks are `stream_blocks`'.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::header::{heads, not_a, sizes};
use super::stream_blocks::{
    self, AXES, DIFFUSERS, DOUBLE, GUIDANCE, HEAD_DIM, Names, OUTER, SINGLE, StreamShape,
    StreamStyle, ToldShape,
};
use super::{NetworkConfig, Schema, TensorSpec, check_layers, check_sizes, class_name};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;

/// How much wider the feed-forward layers are.
const MLP_RATIO: i64 = 4;

with_defaults! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct FluxTransformerConfig {
        pub patch_size: i64 = 1,
        /// Of a token: noise, and in models that fill, picture and mask beside it.
        pub in_channels: i64 = 64,
        pub out_channels: Option<i64> = None,
        /// Double blocks.
        pub num_layers: i64 = 19,
        pub num_single_layers: i64 = 38,
        pub attention_head_dim: i64 = HEAD_DIM,
        pub num_attention_heads: i64 = 24,
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 4096,
        /// Width of the pooled text.
        pub pooled_projection_dim: i64 = 768,
        /// Whether guidance is an input of the model: dev has it, schnell does not.
        pub guidance_embeds: bool = false,
        /// How many numbers of a head turn with each of a token's ids.
        pub axes_dims_rope: [i64; 3] = AXES,
        pub quantization_config: Option<Value> = None,
    }
}

impl NetworkConfig for FluxTransformerConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("FluxTransformer2DModel")
    }

    /// What shapes cannot say, the width of a head and the axes of positions, is as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = FluxTransformerKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("Flux transformer", weights))?;
        let own = Self::of_blocks(weights, keys)?;
        let [out_channels, _] = sizes(weights, &keys.file_key("final_layer.linear.weight"))?;
        Ok(Self {
            out_channels: Some(out_channels),
            ..own
        })
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels()),
            ("attention_head_dim", self.attention_head_dim),
            ("num_attention_heads", self.num_attention_heads),
            ("joint_attention_dim", self.joint_attention_dim),
            ("pooled_projection_dim", self.pooled_projection_dim),
        ])?;
        check_layers(&[
            ("num_layers", self.num_layers),
            ("num_single_layers", self.num_single_layers),
        ])?;
        if self.patch_size != 1 {
            return Err(format!(
                "expected a patch_size of 1, found {}",
                self.patch_size
            ));
        }
        if self.out_channels() > self.in_channels || self.out_channels() % 4 != 0 {
            return Err(format!(
                "expected out_channels of at most {} that are a multiple of 4, found {}",
                self.in_channels,
                self.out_channels()
            ));
        }
        stream_blocks::check_axes(
            "axes_dims_rope",
            self.axes_dims_rope,
            self.attention_head_dim,
        )
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        schema(self, FluxTransformerKeys::of(|key| weights.has(key)))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = FluxTransformerKeys::of(|key| weights.has(key));
        let counts = self.streams().blocks;
        stream_blocks::check_blocks(weights, &keys.block_names(), &counts)?;
        stream_blocks::check_guidance(weights, self.guidance_embeds, &keys.file_key(GUIDANCE))
    }
}

impl FluxTransformerConfig {
    /// What the header says of all but the last layer, which ControlNets of it have too.
    pub(super) fn of_blocks(
        weights: &WeightSet,
        keys: FluxTransformerKeys,
    ) -> Result<Self, String> {
        let size = |name: &str| sizes(weights, &keys.file_key(name));
        let [dim, in_channels] = size("img_in.weight")?;
        let [_, joint_attention_dim] = size("txt_in.weight")?;
        let [_, pooled_projection_dim] = size("vector_in.in_layer.weight")?;
        let [double, single] = keys.block_names();
        Ok(Self {
            in_channels,
            num_layers: stream_blocks::count_blocks(weights, &double),
            num_single_layers: stream_blocks::count_blocks(weights, &single),
            num_attention_heads: heads(dim, HEAD_DIM)?,
            joint_attention_dim,
            pooled_projection_dim,
            guidance_embeds: weights.has(&keys.file_key(GUIDANCE)),
            ..Self::default()
        })
    }

    /// The same with so many numbers of a token: noise, and what a LoRA lets it see beside that.
    #[must_use]
    pub fn widened(self, in_channels: i64) -> Self {
        Self {
            out_channels: Some(self.out_channels()),
            in_channels,
            ..self
        }
    }

    /// Width of the hidden states.
    pub fn dim(&self) -> i64 {
        self.num_attention_heads * self.attention_head_dim
    }

    pub fn streams(&self) -> StreamShape {
        StreamShape {
            dim: self.dim(),
            head_dim: self.attention_head_dim,
            mlp_dim: MLP_RATIO * self.dim(),
            blocks: [self.num_layers, self.num_single_layers],
            told: Some(self.told()),
            style: StreamStyle::Own,
        }
    }

    pub fn told(&self) -> ToldShape {
        ToldShape {
            pooled: self.pooled_projection_dim,
            guidance_embeds: self.guidance_embeds,
        }
    }

    /// Numbers of a token that the model gives back.
    pub fn out_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    /// Channels of latents; a token holds two by two of them.
    pub fn latent_channels(&self) -> i64 {
        self.out_channels() / 4
    }

    /// Numbers of a token beside the noise, in models that fill: picture and mask.
    pub fn condition_channels(&self) -> i64 {
        self.in_channels - self.out_channels()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FluxTransformerKeys {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
}

/// What stands before the names in files with other parts beside a transformer.
pub(super) const PREFIXES: [&str; 4] = [
    "",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
];

/// By which the authors' names are known, and diffusers'; two of three are enough for a file that lacks one.
const MARKS: [[&str; 3]; 2] = [
    [
        "img_in.weight",
        "final_layer.linear.weight",
        "double_blocks.0.img_attn.proj.weight",
    ],
    [
        "x_embedder.weight",
        "context_embedder.weight",
        "single_transformer_blocks.0.proj_mlp.weight",
    ],
];

/// Flux's own, outside the blocks.
pub(super) const OWN: [Names; 1] = [["txt_in", "", "context_embedder"]];

impl FluxTransformerKeys {
    /// The authors' names, bare.
    pub const ORIGINAL: Self = Self {
        prefix: "",
        is_diffusers: false,
    };
    /// diffusers', bare.
    pub const DIFFUSERS: Self = Self {
        prefix: "",
        is_diffusers: true,
    };

    /// The dialect of a file, by whether it has a key; `None` for what is no Flux transformer, nor of a family that
    /// was built after it.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        for prefix in PREFIXES {
            for (marks, is_diffusers) in MARKS.iter().zip([false, true]) {
                let found = marks.iter().filter(|mark| has(&format!("{prefix}{mark}")));
                if found.count() >= 2 {
                    return Some(Self {
                        prefix,
                        is_diffusers,
                    });
                }
            }
        }
        None
    }

    /// The same, where what is no Flux transformer counts as one in the authors' names: the first key that is asked for
    /// says what is wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self::ORIGINAL)
    }

    /// What the file calls the tensor that is `original` in the authors' code.
    pub fn file_key(self, original: &str) -> String {
        if self.is_diffusers {
            let lists = [DOUBLE, SINGLE];
            let name = stream_blocks::renamed(original, &lists, &[&OWN, &OUTER], DIFFUSERS);
            format!("{}{name}", self.prefix)
        } else {
            format!("{}{original}", self.prefix)
        }
    }

    pub fn block_names(self) -> [String; 2] {
        stream_blocks::block_names(self.prefix, self.is_diffusers)
    }

    /// Which vectors of the final modulation are the shift and the scale.
    pub fn final_shift_and_scale(self) -> (i64, i64) {
        stream_blocks::final_shift_and_scale(self.is_diffusers)
    }

    /// The names before the first dot, of which a transformer has no others.
    pub(crate) fn tops(self) -> &'static [&'static str] {
        if self.is_diffusers {
            &[
                "x_embedder",
                "context_embedder",
                "time_text_embed",
                "transformer_blocks",
                "single_transformer_blocks",
                "norm_out",
                "proj_out",
            ]
        } else {
            &[
                "img_in",
                "txt_in",
                "time_in",
                "vector_in",
                "guidance_in",
                "double_blocks",
                "single_blocks",
                "final_layer",
            ]
        }
    }
}

pub fn schema(config: &FluxTransformerConfig, keys: FluxTransformerKeys) -> Vec<TensorSpec> {
    let dim = config.dim();
    let mut schema = before_last(config, keys.is_diffusers);
    schema.modulation("final_layer.adaLN_modulation.1", 2 * dim, dim);
    schema.linear("final_layer.linear", config.out_channels(), dim);
    schema.renamed(|name| keys.file_key(name))
}

/// All but the last layer, which ControlNets of it have too.
pub(super) fn before_last(config: &FluxTransformerConfig, is_split: bool) -> Schema {
    let dim = config.dim();
    let mut schema = Schema::default();
    schema.linear("img_in", dim, config.in_channels);
    schema.linear("txt_in", dim, config.joint_attention_dim);
    schema.in_f32(|schema| stream_blocks::add_embedders(schema, dim, config.told()));
    stream_blocks::add_blocks(&mut schema, config.streams(), is_split);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let diffusers = FluxTransformerKeys::DIFFUSERS;
        for (original, expected) in [
            ("img_in.weight", "x_embedder.weight"),
            (
                "guidance_in.out_layer.bias",
                "time_text_embed.guidance_embedder.linear_2.bias",
            ),
            (
                "double_blocks.12.txt_attn.qkv.v.bias",
                "transformer_blocks.12.attn.add_v_proj.bias",
            ),
            (
                "double_blocks.1.img_attn.norm.key_norm.scale",
                "transformer_blocks.1.attn.norm_k.weight",
            ),
            (
                "double_blocks.0.txt_mlp.2.weight",
                "transformer_blocks.0.ff_context.net.2.weight",
            ),
            (
                "single_blocks.37.linear1.mlp.weight",
                "single_transformer_blocks.37.proj_mlp.weight",
            ),
            (
                "single_blocks.3.linear2.weight",
                "single_transformer_blocks.3.proj_out.weight",
            ),
            ("final_layer.linear.bias", "proj_out.bias"),
            // Neither file has such a thing: the parts are asked for instead.
            (
                "single_blocks.3.linear1.weight",
                "single_transformer_blocks.3.linear1.weight",
            ),
        ] {
            assert_eq!(diffusers.file_key(original), expected);
        }
        let prefixed = FluxTransformerKeys {
            prefix: "model.diffusion_model.",
            is_diffusers: false,
        };
        assert_eq!(
            prefixed.file_key("img_in.bias"),
            "model.diffusion_model.img_in.bias"
        );
    }
}
