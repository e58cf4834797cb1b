//! FLUX.2's transformer: its numbers, what the authors and diffusers call its tensors, and all of them with their shapes.
//!
//! klein of 4 and of 9 billion numbers, distilled or not, and dev are configs of it. Either dialect may stand behind a
//! prefix, as in checkpoints that hold a whole pipeline. Readers ask with the authors' names. The blocks are
//! `stream_blocks`' with shared modulations; it has no biases.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flux_transformer::{OWN, PREFIXES};
use super::header::{heads, not_a, sizes};
use super::stream_blocks::{
    self, DIFFUSERS, DOUBLE, GUIDANCE, HEAD_DIM, Names, OUTER, SHARED_MODULATIONS, SINGLE,
    StreamShape, StreamStyle,
};
use super::{NetworkConfig, Schema, TensorSpec, check_layers, check_sizes, class_name};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;

/// How many numbers of a published head turn with each of a token's places: time, row, column and order.
const AXES: [i64; 4] = [32, 32, 32, 32];
/// The norms' number that keeps them from dividing by 0.
const EPS: f64 = 1e-6;
/// Latents in a token.
const LATENTS_A_TOKEN: i64 = 4;

with_defaults! {
    /// `transformer/config.json`, with diffusers' defaults, which are dev's, where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Flux2TransformerConfig {
        pub patch_size: i64 = 1,
        /// Of a token: two by two latents.
        pub in_channels: i64 = 128,
        pub out_channels: Option<i64> = None,
        /// Double blocks.
        pub num_layers: i64 = 8,
        pub num_single_layers: i64 = 48,
        pub attention_head_dim: i64 = HEAD_DIM,
        pub num_attention_heads: i64 = 48,
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 15_360,
        /// Width of the sinusoids of timesteps.
        pub timestep_guidance_channels: i64 = stream_blocks::SINUSOIDS,
        /// How much wider the feed-forward layers are, behind their gates.
        pub mlp_ratio: f64 = 3.0,
        pub axes_dims_rope: [i64; 4] = AXES,
        pub rope_theta: f64 = 2000.0,
        pub eps: f64 = EPS,
        /// Whether guidance is an input of the model: dev has it, klein does not.
        pub guidance_embeds: bool = true,
        pub quantization_config: Option<Value> = None,
    }
}

impl NetworkConfig for Flux2TransformerConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("Flux2Transformer2DModel")
    }

    /// What shapes cannot say is as published, where each axis of positions has a quarter of a head.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = Flux2TransformerKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("FLUX.2 transformer", weights))?;
        let key = |name: &str| keys.file_key(name);
        let [dim, in_channels] = sizes(weights, &key("img_in.weight"))?;
        let [out_channels, _] = sizes(weights, &key("final_layer.linear.weight"))?;
        let [_, joint_attention_dim] = sizes(weights, &key("txt_in.weight"))?;
        let norm = "double_blocks.0.img_attn.norm.query_norm.scale";
        let [head_dim] = sizes(weights, &key(norm))?;
        let [_, mlp_dim] = sizes(weights, &key("double_blocks.0.img_mlp.2.weight"))?;
        let [double, single] = keys.block_names();
        Ok(Self {
            in_channels,
            out_channels: Some(out_channels),
            num_layers: stream_blocks::count_blocks(weights, &double),
            num_single_layers: stream_blocks::count_blocks(weights, &single),
            attention_head_dim: head_dim,
            num_attention_heads: heads(dim, head_dim)?,
            joint_attention_dim,
            mlp_ratio: mlp_dim as f64 / dim as f64,
            axes_dims_rope: [head_dim / 4; 4],
            guidance_embeds: weights.has(&key(GUIDANCE)),
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("in_channels", self.in_channels),
            ("attention_head_dim", self.attention_head_dim),
            ("num_attention_heads", self.num_attention_heads),
            ("joint_attention_dim", self.joint_attention_dim),
        ])?;
        check_layers(&[
            ("num_layers", self.num_layers),
            ("num_single_layers", self.num_single_layers),
        ])?;
        let (tokens, outputs) = (self.in_channels, self.out_channels());
        Err(if self.patch_size != 1 {
            format!("expected a patch_size of 1, found {}", self.patch_size)
        } else if tokens != outputs || tokens % LATENTS_A_TOKEN != 0 {
            format!(
                "expected in_channels that are a multiple of {LATENTS_A_TOKEN} and as many out_channels, found {tokens} and {outputs}"
            )
        } else if self.timestep_guidance_channels != stream_blocks::SINUSOIDS {
            format!(
                "expected timestep_guidance_channels of {}, found {}",
                stream_blocks::SINUSOIDS,
                self.timestep_guidance_channels
            )
        } else if !(self.mlp_ratio > 0.0 && self.mlp_ratio <= 64.0) {
            format!(
                "expected a mlp_ratio between 0 and 64, found {}",
                self.mlp_ratio
            )
        } else if !(self.rope_theta.is_finite() && self.rope_theta >= 1.0) {
            format!(
                "expected a rope_theta of at least 1, found {}",
                self.rope_theta
            )
        } else if (self.eps - EPS).abs() > EPS / 1e3 {
            format!("expected an eps of {EPS:e}, found {:e}", self.eps)
        } else {
            return stream_blocks::check_axes(
                "axes_dims_rope",
                self.axes_dims_rope,
                self.attention_head_dim,
            );
        })
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        schema(self, Flux2TransformerKeys::of(|key| weights.has(key)))
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = Flux2TransformerKeys::of(|key| weights.has(key));
        let counts = self.streams().blocks;
        stream_blocks::check_blocks(weights, &keys.block_names(), &counts)?;
        stream_blocks::check_guidance(weights, self.guidance_embeds, &keys.file_key(GUIDANCE))
    }
}

impl Flux2TransformerConfig {
    /// The published klein of 4 billion numbers.
    pub fn klein_4b() -> Self {
        Self {
            num_layers: 5,
            num_single_layers: 20,
            num_attention_heads: 24,
            joint_attention_dim: 7680,
            guidance_embeds: false,
            ..Self::default()
        }
    }

    /// The published klein of 9 billion numbers.
    pub fn klein_9b() -> Self {
        Self {
            num_layers: 8,
            num_single_layers: 24,
            num_attention_heads: 32,
            joint_attention_dim: 12_288,
            guidance_embeds: false,
            ..Self::default()
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
            mlp_dim: (self.dim() as f64 * self.mlp_ratio) as i64,
            blocks: [self.num_layers, self.num_single_layers],
            told: None,
            style: StreamStyle::Shared,
        }
    }

    /// Numbers of a token that the model gives back.
    pub fn out_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    /// Channels of latents; a token holds two by two of them.
    pub fn latent_channels(&self) -> i64 {
        self.in_channels / LATENTS_A_TOKEN
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flux2TransformerKeys {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
}

/// Only this network's own, outside the blocks.
const MODULATIONS: [Names; 3] = [
    [
        "double_stream_modulation_img.lin",
        "",
        "double_stream_modulation_img.linear",
    ],
    [
        "double_stream_modulation_txt.lin",
        "",
        "double_stream_modulation_txt.linear",
    ],
    [
        "single_stream_modulation.lin",
        "",
        "single_stream_modulation.linear",
    ],
];

/// Where diffusers' names are others than those of the same layers of FLUX.1.
const RENAMED: [(&str, &str); 7] = [
    ("time_text_embed.", "time_guidance_embed."),
    (".ff.net.0.proj.", ".ff.linear_in."),
    (".ff.net.2.", ".ff.linear_out."),
    (".ff_context.net.0.proj.", ".ff_context.linear_in."),
    (".ff_context.net.2.", ".ff_context.linear_out."),
    (".linear1.", ".attn.to_qkv_mlp_proj."),
    (".proj_out.", ".attn.to_out."),
];

impl Flux2TransformerKeys {
    /// The authors' names, bare.
    pub const ORIGINAL: Self = Self {
        prefix: "",
        is_diffusers: false,
    };

    /// The dialect of a file, by whether it has a key; `None` for what is no FLUX.2 transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        PREFIXES.into_iter().find_map(|prefix| {
            let all = [false, true].map(|is_diffusers| Self {
                prefix,
                is_diffusers,
            });
            all.into_iter().find(|keys| {
                let mark = |name: &&str| has(&keys.file_key(&format!("{name}.lin.weight")));
                SHARED_MODULATIONS.iter().any(mark)
            })
        })
    }

    /// The same, where what is no FLUX.2 transformer counts as one in the authors' names: the first key that is asked
    /// for says what is wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self::ORIGINAL)
    }

    /// What the file calls the tensor that is `original` in the authors' code.
    pub fn file_key(self, original: &str) -> String {
        if !self.is_diffusers {
            return format!("{}{original}", self.prefix);
        }
        let (lists, outer): (_, [&[Names]; 3]) = ([DOUBLE, SINGLE], [&OWN, &MODULATIONS, &OUTER]);
        let mut name = stream_blocks::renamed(original, &lists, &outer, DIFFUSERS);
        for (one, other) in RENAMED {
            name = name.replace(one, other);
        }
        format!("{}{name}", self.prefix)
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
                "time_guidance_embed",
                "double_stream_modulation_img",
                "double_stream_modulation_txt",
                "single_stream_modulation",
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
                "guidance_in",
                "double_stream_modulation_img",
                "double_stream_modulation_txt",
                "single_stream_modulation",
                "double_blocks",
                "single_blocks",
                "final_layer",
            ]
        }
    }
}

pub fn schema(config: &Flux2TransformerConfig, keys: Flux2TransformerKeys) -> Vec<TensorSpec> {
    let (dim, shape) = (config.dim(), config.streams());
    let mut schema = Schema::default();
    schema.matrix("img_in", dim, config.in_channels);
    schema.matrix("txt_in", dim, config.joint_attention_dim);
    schema.in_f32(|schema| {
        schema.matrix("time_in.in_layer", dim, stream_blocks::SINUSOIDS);
        schema.matrix("time_in.out_layer", dim, dim);
    });
    stream_blocks::add_blocks(&mut schema, shape, keys.is_diffusers);
    let last = "final_layer.adaLN_modulation.1";
    shape.modulation(&mut schema, last, 2 * dim, dim);
    schema.matrix("final_layer.linear", config.out_channels(), dim);
    schema.renamed(|name| keys.file_key(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let diffusers = Flux2TransformerKeys {
            prefix: "",
            is_diffusers: true,
        };
        for (original, expected) in crate::testing::table(
            "img_in.weight -> x_embedder.weight
             txt_in.weight -> context_embedder.weight
             time_in.out_layer.weight -> time_guidance_embed.timestep_embedder.linear_2.weight
             double_stream_modulation_txt.lin.weight -> double_stream_modulation_txt.linear.weight
             double_blocks.4.txt_attn.qkv.v.weight -> transformer_blocks.4.attn.add_v_proj.weight
             double_blocks.1.img_attn.norm.key_norm.scale -> transformer_blocks.1.attn.norm_k.weight
             double_blocks.0.txt_mlp.0.weight -> transformer_blocks.0.ff_context.linear_in.weight
             double_blocks.0.img_mlp.2.weight -> transformer_blocks.0.ff.linear_out.weight
             single_blocks.19.linear1.weight -> single_transformer_blocks.19.attn.to_qkv_mlp_proj.weight
             single_blocks.3.linear2.weight -> single_transformer_blocks.3.attn.to_out.weight
             final_layer.linear.weight -> proj_out.weight",
        ) {
            assert_eq!(diffusers.file_key(original), expected);
        }
    }

    #[test]
    fn a_dialect_is_found_behind_every_prefix_and_not_in_the_older_network() {
        for prefix in PREFIXES {
            for (end, is_diffusers) in [("lin", false), ("linear", true)] {
                let mark = format!("{prefix}single_stream_modulation.{end}.weight");
                let keys = Flux2TransformerKeys::detect(|key| key == mark).unwrap();
                assert_eq!((keys.prefix, keys.is_diffusers), (prefix, is_diffusers));
            }
        }
        let older = ["img_in.weight", "single_blocks.0.modulation.lin.weight"];
        assert_eq!(
            Flux2TransformerKeys::detect(|key| older.contains(&key)),
            None
        );
    }
}
