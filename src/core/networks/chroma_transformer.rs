//! Chroma's transformer: its numbers, what the authors and diffusers call its tensors, and all of them with their shapes.
//!
//! FLUX.1's blocks and names, but for one network, the approximator, in the place of all that makes modulations there.
//! Either dialect may stand behind a prefix. Readers ask with the authors' names. The blocks are `stream_blocks`'.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flux_transformer::FluxTransformerKeys;
use super::header::{heads, not_a, sizes};
use super::stream_blocks::{self, AXES, DIFFUSERS, HEAD_DIM, List, StreamShape, StreamStyle};
use super::{NetworkConfig, Schema, TensorSpec, check_layers, check_sizes, class_name};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;

/// How much wider the feed-forward layers are.
const MLP_RATIO: i64 = 4;
/// What the approximator reads: a quarter of it timestep, a quarter guidance, and half of it which vector it makes.
const INPUT_PARTS: i64 = 4;

/// The approximator's first matrix, by which a Chroma is told from FLUX.1.
pub(crate) const APPROXIMATOR: &str = "distilled_guidance_layer.in_proj.weight";

/// The approximator's lists, whose names before the number are everybody's.
const APPROXIMATOR_LISTS: [List; 2] = [
    (
        LAYERS,
        LAYERS,
        &[
            ["in_layer", "in_layer", "linear_1"],
            ["out_layer", "out_layer", "linear_2"],
        ],
    ),
    (NORMS, NORMS, &[["scale", "scale", "weight"]]),
];
const LAYERS: &str = "distilled_guidance_layer.layers";
const NORMS: &str = "distilled_guidance_layer.norms";

with_defaults! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ChromaTransformerConfig {
        pub patch_size: i64 = 1,
        /// Of a token.
        pub in_channels: i64 = 64,
        pub out_channels: Option<i64> = None,
        /// Double blocks.
        pub num_layers: i64 = 19,
        pub num_single_layers: i64 = 38,
        pub attention_head_dim: i64 = HEAD_DIM,
        pub num_attention_heads: i64 = 24,
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 4096,
        /// How many numbers of a head turn with each of a token's ids.
        pub axes_dims_rope: [i64; 3] = AXES,
        /// What the approximator reads.
        pub approximator_num_channels: i64 = 64,
        pub approximator_hidden_dim: i64 = 5120,
        pub approximator_layers: i64 = 5,
        pub quantization_config: Option<Value> = None,
    }
}

impl NetworkConfig for ChromaTransformerConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("ChromaTransformer2DModel")
    }

    /// What shapes cannot say, the width of a head and the axes of positions, is as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = ChromaTransformerKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("Chroma transformer", weights))?;
        let size = |name: &str| sizes(weights, &keys.file_key(name));
        let [dim, in_channels] = size("img_in.weight")?;
        let [out_channels, _] = size("final_layer.linear.weight")?;
        let [_, joint_attention_dim] = size("txt_in.weight")?;
        let [approximator_hidden_dim, approximator_num_channels] = size(APPROXIMATOR)?;
        let [double, single] = keys.flux().block_names();
        let layers = format!("{}{LAYERS}", keys.prefix);
        Ok(Self {
            in_channels,
            out_channels: Some(out_channels).filter(|out| *out != in_channels),
            num_layers: stream_blocks::count_blocks(weights, &double),
            num_single_layers: stream_blocks::count_blocks(weights, &single),
            num_attention_heads: heads(dim, HEAD_DIM)?,
            joint_attention_dim,
            approximator_num_channels,
            approximator_hidden_dim,
            approximator_layers: stream_blocks::count_blocks(weights, &layers),
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("in_channels", self.in_channels),
            ("attention_head_dim", self.attention_head_dim),
            ("num_attention_heads", self.num_attention_heads),
            ("joint_attention_dim", self.joint_attention_dim),
            ("approximator_num_channels", self.approximator_num_channels),
            ("approximator_hidden_dim", self.approximator_hidden_dim),
        ])?;
        check_layers(&[
            ("num_layers", self.num_layers),
            ("num_single_layers", self.num_single_layers),
            ("approximator_layers", self.approximator_layers),
        ])?;
        if self.patch_size != 1 {
            return Err(format!(
                "expected a patch_size of 1, found {}",
                self.patch_size
            ));
        }
        let out_channels = self.out_channels.unwrap_or(self.in_channels);
        if out_channels != self.in_channels || out_channels % 4 != 0 {
            return Err(format!(
                "expected as many out_channels as in_channels, a multiple of 4, found {out_channels} and {}",
                self.in_channels,
            ));
        }
        if self.approximator_num_channels % (2 * INPUT_PARTS) != 0 {
            return Err(format!(
                "expected an approximator_num_channels that is a multiple of {}, found {}",
                2 * INPUT_PARTS,
                self.approximator_num_channels
            ));
        }
        stream_blocks::check_axes(
            "axes_dims_rope",
            self.axes_dims_rope,
            self.attention_head_dim,
        )
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        schema(self, ChromaTransformerKeys::of(|key| weights.has(key)))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = ChromaTransformerKeys::of(|key| weights.has(key));
        let [double, single] = keys.flux().block_names();
        let [layers, norms] = [LAYERS, NORMS].map(|list| format!("{}{list}", keys.prefix));
        let counts = [
            self.num_layers,
            self.num_single_layers,
            self.approximator_layers,
            self.approximator_layers,
        ];
        stream_blocks::check_blocks(weights, &[double, single, layers, norms], &counts)
    }
}

impl ChromaTransformerConfig {
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
            told: None,
            style: StreamStyle::Own,
        }
    }

    /// Channels of latents; a token holds two by two of them.
    pub fn latent_channels(&self) -> i64 {
        self.in_channels / 4
    }

    /// Shifts, scales and gates of all blocks and of the last layer: what the approximator makes for one timestep.
    pub fn num_vectors(&self) -> i64 {
        3 * self.num_single_layers + 2 * 6 * self.num_layers + 2
    }

    /// Numbers that the approximator reads of the timestep, of the guidance, and of which vector is wanted.
    pub fn approximator_inputs(&self) -> [i64; 3] {
        let part = self.approximator_num_channels / INPUT_PARTS;
        [part, part, 2 * part]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChromaTransformerKeys {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
}

impl ChromaTransformerKeys {
    /// The authors' names, bare.
    pub const ORIGINAL: Self = Self {
        prefix: "",
        is_diffusers: false,
    };

    /// The dialect of a file, by whether it has a key; `None` for what is no Chroma transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let FluxTransformerKeys {
            prefix,
            is_diffusers,
        } = FluxTransformerKeys::detect(&has)?;
        has(&format!("{prefix}{APPROXIMATOR}")).then_some(Self {
            prefix,
            is_diffusers,
        })
    }

    /// The same, where what is no Chroma transformer counts as one in the authors' names: the first key that is asked for
    /// says what is wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self::ORIGINAL)
    }

    /// What the file calls the tensor that is `original` in the authors' code.
    pub fn file_key(self, original: &str) -> String {
        if self.is_diffusers && original.starts_with("distilled_guidance_layer.") {
            let name = stream_blocks::renamed(original, &APPROXIMATOR_LISTS, &[], DIFFUSERS);
            return format!("{}{name}", self.prefix);
        }
        self.flux().file_key(original)
    }

    /// The names before the first dot, of which a transformer has no others.
    pub(crate) fn tops(self) -> &'static [&'static str] {
        if self.is_diffusers {
            &[
                "x_embedder",
                "context_embedder",
                "distilled_guidance_layer",
                "transformer_blocks",
                "single_transformer_blocks",
                "proj_out",
            ]
        } else {
            &[
                "img_in",
                "txt_in",
                "distilled_guidance_layer",
                "double_blocks",
                "single_blocks",
                "final_layer",
            ]
        }
    }

    fn flux(self) -> FluxTransformerKeys {
        FluxTransformerKeys {
            prefix: self.prefix,
            is_diffusers: self.is_diffusers,
        }
    }
}

pub fn schema(config: &ChromaTransformerConfig, keys: ChromaTransformerKeys) -> Vec<TensorSpec> {
    let (dim, inner) = (config.dim(), config.approximator_hidden_dim);
    let mut schema = Schema::default();
    schema.linear("img_in", dim, config.in_channels);
    schema.linear("txt_in", dim, config.joint_attention_dim);
    let inputs = config.approximator_num_channels;
    schema.in_f32(|schema| schema.linear("distilled_guidance_layer.in_proj", inner, inputs));
    for layer in 0..config.approximator_layers {
        schema.modulation(&format!("{LAYERS}.{layer}.in_layer"), inner, inner);
        schema.modulation(&format!("{LAYERS}.{layer}.out_layer"), inner, inner);
        schema.in_f32(|schema| schema.vector(&format!("{NORMS}.{layer}.scale"), inner));
    }
    schema.modulation("distilled_guidance_layer.out_proj", dim, inner);
    stream_blocks::add_blocks(&mut schema, config.streams(), keys.is_diffusers);
    schema.linear("final_layer.linear", config.in_channels, dim);
    schema.renamed(|name| keys.file_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let diffusers = ChromaTransformerKeys {
            prefix: "transformer.",
            is_diffusers: true,
        };
        for (original, expected) in crate::testing::table(
            "txt_in.weight -> context_embedder.weight
             final_layer.linear.bias -> proj_out.bias
             distilled_guidance_layer.in_proj.bias -> distilled_guidance_layer.in_proj.bias
             distilled_guidance_layer.layers.4.out_layer.weight -> distilled_guidance_layer.layers.4.linear_2.weight
             distilled_guidance_layer.norms.0.scale -> distilled_guidance_layer.norms.0.weight
             single_blocks.37.linear1.mlp.weight -> single_transformer_blocks.37.proj_mlp.weight",
        ) {
            assert_eq!(
                diffusers.file_key(original),
                format!("transformer.{expected}")
            );
            assert_eq!(ChromaTransformerKeys::ORIGINAL.file_key(original), original);
        }
    }
}
