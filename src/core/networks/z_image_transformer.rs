//! Z-Image's transformer: its numbers, what the authors and diffusers call its tensors, and all of them with their
//! shapes.
//!
//! Turbo and Base are configs of it. Either dialect may stand behind a prefix, as in checkpoints that hold a whole
//! pipeline. Readers ask with the authors' names, which ComfyUI's and GGUF's files have; diffusers has queries, keys and
//! values apart, for which readers ask as parts of one: `attention.qkv.q`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flux_transformer::PREFIXES;
use super::header::{count, heads, not_a, sizes};
use super::stream_blocks::{self, DIFFUSERS, List, Names};
use super::{
    NetworkConfig, Role, Schema, TensorSpec, check_epsilon, check_layers, check_sizes, class_name,
};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;

/// How many numbers of a head turn with each of a token's places, in every published file.
const AXES: [i64; 3] = [32, 48, 48];
/// Latents along an edge of one token.
pub(super) const PATCH: i64 = 2;
/// Width of the sinusoids of timesteps, and inside the layers that read them.
pub const SINUSOIDS: i64 = 256;
pub const TIME_WIDTH: i64 = 1024;
/// Width of what the blocks are told of a timestep, in networks that are at least as wide.
const TOLD_WIDTH: i64 = 256;
/// Tokens of a picture and of a text are padded to multiples of this.
pub const TOKENS_MULTIPLE: i64 = 32;

with_defaults! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ZImageTransformerConfig {
        pub all_patch_size: Vec<i64> = vec![PATCH],
        pub all_f_patch_size: Vec<i64> = vec![1],
        /// Channels of latents.
        pub in_channels: i64 = 16,
        /// Width of the hidden states.
        pub dim: i64 = 3840,
        /// Blocks that text and picture go through together.
        pub n_layers: i64 = 30,
        /// Blocks of each of the two refiners before.
        pub n_refiner_layers: i64 = 2,
        pub n_heads: i64 = 30,
        pub n_kv_heads: i64 = 30,
        pub norm_eps: f64 = 1e-5,
        pub qk_norm: bool = true,
        /// Width of the text's embeddings.
        pub cap_feat_dim: i64 = 2560,
        /// Width of an image encoder's embeddings, which only Omni reads.
        pub siglip_feat_dim: Option<i64> = None,
        pub rope_theta: f64 = 256.0,
        /// What the model multiplies timesteps with, which come between 0 and 1.
        pub t_scale: f64 = 1000.0,
        /// How many numbers of a head turn with each of a token's places: order, row and column.
        pub axes_dims: [i64; 3] = AXES,
        /// Places along each axis.
        pub axes_lens: [i64; 3] = [1536, 512, 512],
        pub quantization_config: Option<Value> = None,
    }
}

impl NetworkConfig for ZImageTransformerConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("ZImageTransformer2DModel")
    }

    /// What shapes cannot say, the axes of positions, is as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = ZImageTransformerKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("Z-Image transformer", weights))?;
        let key = |name: &str| keys.file_key(name);
        let [dim, patch] = sizes(weights, &key("x_embedder.weight"))?;
        let [head_dim] = sizes(weights, &key("layers.0.attention.q_norm.weight"))?;
        let [cap_feat_dim] = sizes(weights, &key("cap_embedder.0.weight"))?;
        let siglip: Result<[i64; 1], _> = sizes(weights, &key("siglip_embedder.0.weight"));
        let blocks = |list: &str| {
            count(weights, |n| {
                key(&format!("{list}.{n}.attention_norm1.weight"))
            })
        };
        let n_heads = heads(dim, head_dim)?;
        Ok(Self {
            in_channels: patch / (PATCH * PATCH),
            dim,
            n_layers: blocks("layers"),
            n_refiner_layers: blocks("noise_refiner"),
            n_heads,
            n_kv_heads: n_heads,
            cap_feat_dim,
            siglip_feat_dim: siglip.ok().map(|[width]| width),
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("in_channels", self.in_channels),
            ("dim", self.dim),
            ("n_heads", self.n_heads),
            ("cap_feat_dim", self.cap_feat_dim),
            ("axes_lens", self.axes_lens[0]),
            ("axes_lens", self.axes_lens[1]),
            ("axes_lens", self.axes_lens[2]),
        ])?;
        check_layers(&[
            ("n_layers", self.n_layers),
            ("n_refiner_layers", self.n_refiner_layers),
        ])?;
        check_epsilon("norm_eps", self.norm_eps)?;
        let (dim, heads) = (self.dim, self.n_heads);
        Err(
            if (&self.all_patch_size[..], &self.all_f_patch_size[..]) != (&[PATCH], &[1]) {
                format!(
                    "expected an all_patch_size of {PATCH} and an all_f_patch_size of 1, found {:?} and {:?}",
                    self.all_patch_size, self.all_f_patch_size
                )
            } else if !self.qk_norm {
                "expected norms of queries and keys, found qk_norm off".to_owned()
            } else if self.n_kv_heads != heads || dim % heads != 0 {
                format!(
                    "expected n_heads that divide a dim of {dim}, and as many n_kv_heads, found {heads} and {}",
                    self.n_kv_heads
                )
            } else if !(self.rope_theta.is_finite() && self.rope_theta >= 1.0) {
                format!(
                    "expected a rope_theta of at least 1, found {}",
                    self.rope_theta
                )
            } else if !(self.t_scale.is_finite() && self.t_scale > 0.0) {
                format!("expected a t_scale above 0, found {}", self.t_scale)
            } else {
                return stream_blocks::check_axes("axes_dims", self.axes_dims, self.head_dim());
            },
        )
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        let keys = ZImageTransformerKeys::of(|key| weights.has(key));
        let mut tensors = schema(self, keys);
        // Some converters to GGUF leave out axes of 1.
        for tensor in &mut tensors {
            let found = weights.shape(&tensor.name);
            if found
                .as_deref()
                .is_some_and(|found| is_squeezed(&tensor.shape, found))
            {
                tensor.shape.remove(0);
            }
        }
        tensors
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = ZImageTransformerKeys::of(|key| weights.has(key));
        let lists = LISTS.map(|list| format!("{}{list}", keys.prefix));
        let counts = [self.n_layers, self.n_refiner_layers, self.n_refiner_layers];
        stream_blocks::check_blocks(weights, &lists, &counts)
    }
}

fn is_squeezed(wanted: &[u64], found: &[u64]) -> bool {
    matches!((wanted, found), ([1, width], [own]) if width == own)
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

    /// Numbers of a token.
    pub fn token_numbers(&self) -> i64 {
        PATCH * PATCH * self.in_channels
    }

    /// Width of what the blocks are told of a timestep.
    pub fn told_dim(&self) -> i64 {
        self.dim.min(TOLD_WIDTH)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZImageTransformerKeys {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
}

/// Lumina 2, of which this network came, has all but these.
const PADS: [&str; 2] = ["x_pad_token", "cap_pad_token"];
/// By which the authors' names are known, and diffusers'; one is enough for a file that lacks others.
const MARKS: [[&str; 3]; 2] = [
    [
        "x_embedder.weight",
        "final_layer.linear.weight",
        "layers.0.attention.qkv.weight",
    ],
    [
        "all_x_embedder.2-1.weight",
        "all_final_layer.2-1.linear.weight",
        "layers.0.attention.to_q.weight",
    ],
];

/// The lists of blocks, which all call so.
const LISTS: [&str; 3] = ["layers", "noise_refiner", "context_refiner"];

const BLOCK: [Names; 7] = [
    ["attention.qkv.q", "", "attention.to_q"],
    ["attention.qkv.k", "", "attention.to_k"],
    ["attention.qkv.v", "", "attention.to_v"],
    ["attention.qkv", "", ""],
    ["attention.q_norm", "", "attention.norm_q"],
    ["attention.k_norm", "", "attention.norm_k"],
    ["attention.out", "", "attention.to_out.0"],
];
const OUTER: [Names; 2] = [
    ["x_embedder", "", "all_x_embedder.2-1"],
    ["final_layer", "", "all_final_layer.2-1"],
];

impl ZImageTransformerKeys {
    /// The authors' names, bare.
    pub const ORIGINAL: Self = Self {
        prefix: "",
        is_diffusers: false,
    };

    /// The dialect of a file, by whether it has a key; `None` for what is no Z-Image transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        for prefix in PREFIXES {
            let is_there = |mark: &&str| has(&format!("{prefix}{mark}"));
            if !PADS.iter().any(is_there) {
                continue;
            }
            for (marks, is_diffusers) in MARKS.iter().zip([false, true]) {
                if marks.iter().any(is_there) {
                    return Some(Self {
                        prefix,
                        is_diffusers,
                    });
                }
            }
        }
        None
    }

    /// The same, where what is no Z-Image transformer counts as one in the authors' names: the first key that is asked
    /// for says what is wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self::ORIGINAL)
    }

    /// What the file calls the tensor that is `original` in the authors' code.
    pub fn file_key(self, original: &str) -> String {
        let own = if self.is_diffusers {
            let lists: [List; 3] = LISTS.map(|list| (list, list, &BLOCK[..]));
            stream_blocks::renamed(original, &lists, &[&OUTER], DIFFUSERS)
        } else {
            original.to_owned()
        };
        format!("{}{own}", self.prefix)
    }

    /// The names before the first dot, of which a transformer has no others.
    pub(crate) fn tops(self) -> &'static [&'static str] {
        if self.is_diffusers {
            &[
                "all_x_embedder",
                "all_final_layer",
                "cap_embedder",
                "cap_pad_token",
                "context_refiner",
                "layers",
                "noise_refiner",
                "t_embedder",
                "x_pad_token",
            ]
        } else {
            &[
                "cap_embedder",
                "cap_pad_token",
                "context_refiner",
                "final_layer",
                "layers",
                "noise_refiner",
                // Of Lumina 2, and read by nobody.
                "norm_final",
                "t_embedder",
                "x_embedder",
                "x_pad_token",
            ]
        }
    }
}

pub fn schema(config: &ZImageTransformerConfig, keys: ZImageTransformerKeys) -> Vec<TensorSpec> {
    let (dim, told) = (config.dim, config.told_dim());
    let mut schema = Schema::default();
    schema.linear("x_embedder", dim, config.token_numbers());
    schema.vector("cap_embedder.0.weight", config.cap_feat_dim);
    // As the context refiner, it is used once for each text.
    schema.modulation("cap_embedder.1", dim, config.cap_feat_dim);
    for pad in PADS {
        schema.add(pad, &[1, dim], Role::Fixed);
    }
    schema.in_f32(|schema| {
        schema.linear("t_embedder.mlp.0", TIME_WIDTH, SINUSOIDS);
        schema.linear("t_embedder.mlp.2", told, TIME_WIDTH);
    });
    let counts = [
        config.n_layers,
        config.n_refiner_layers,
        config.n_refiner_layers,
    ];
    for (list, count) in LISTS.into_iter().zip(counts) {
        for number in 0..count {
            let is_told = list != "context_refiner";
            let block = format!("{list}.{number}");
            add_block(&mut schema, &block, config, keys, is_told);
        }
    }
    schema.modulation("final_layer.adaLN_modulation.1", dim, told);
    schema.linear("final_layer.linear", config.token_numbers(), dim);
    schema.renamed(|name| keys.file_key(name))
}

/// `is_told`: whether it is told the timestep; where not, it is used once for each text.
pub(super) fn add_block(
    schema: &mut Schema,
    block: &str,
    config: &ZImageTransformerConfig,
    keys: ZImageTransformerKeys,
    is_told: bool,
) {
    let (dim, wide) = (config.dim, config.ffn_dim());
    let name = |part: &str| format!("{block}.{part}");
    let role = if is_told {
        Role::Matrix
    } else {
        Role::Modulation
    };
    let mut matrix = |part: &str, output: i64, input: i64| {
        schema.add(format!("{block}.{part}.weight"), &[output, input], role);
    };
    if keys.is_diffusers {
        for part in ["q", "k", "v"] {
            matrix(&format!("attention.qkv.{part}"), dim, dim);
        }
    } else {
        matrix("attention.qkv", 3 * dim, dim);
    }
    matrix("attention.out", dim, dim);
    matrix("feed_forward.w1", wide, dim);
    matrix("feed_forward.w2", dim, wide);
    matrix("feed_forward.w3", wide, dim);
    for norm in ["q_norm", "k_norm"] {
        schema.vector(
            &name(&format!("attention.{norm}.weight")),
            config.head_dim(),
        );
    }
    for norm in [
        "attention_norm1",
        "attention_norm2",
        "ffn_norm1",
        "ffn_norm2",
    ] {
        schema.vector(&name(&format!("{norm}.weight")), dim);
    }
    if is_told {
        schema.modulation(&name("adaLN_modulation.0"), 4 * dim, config.told_dim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let diffusers = ZImageTransformerKeys {
            prefix: "",
            is_diffusers: true,
        };
        for (original, expected) in crate::testing::table(
            "x_embedder.bias -> all_x_embedder.2-1.bias
             final_layer.adaLN_modulation.1.weight -> all_final_layer.2-1.adaLN_modulation.1.weight
             layers.29.attention.qkv.v.weight -> layers.29.attention.to_v.weight
             noise_refiner.1.attention.q_norm.weight -> noise_refiner.1.attention.norm_q.weight
             context_refiner.0.attention.out.weight -> context_refiner.0.attention.to_out.0.weight
             layers.3.feed_forward.w2.weight -> layers.3.feed_forward.w2.weight
             cap_embedder.1.bias -> cap_embedder.1.bias
             x_pad_token -> x_pad_token",
        ) {
            assert_eq!(diffusers.file_key(original), expected);
        }
    }

    #[test]
    fn a_dialect_is_found_behind_every_prefix_and_not_in_lumina() {
        for prefix in PREFIXES {
            for (mark, is_diffusers) in [
                ("x_embedder.weight", false),
                ("all_x_embedder.2-1.weight", true),
            ] {
                let names = ["cap_pad_token", mark].map(|name| format!("{prefix}{name}"));
                let keys = ZImageTransformerKeys::detect(|key| names.contains(&key.to_owned()));
                let keys = keys.unwrap();
                assert_eq!((keys.prefix, keys.is_diffusers), (prefix, is_diffusers));
                assert_eq!(keys.file_key("x_embedder.weight"), names[1]);
            }
        }
        let lumina = |key: &str| MARKS[0].contains(&key);
        assert_eq!(ZImageTransformerKeys::detect(lumina), None);
    }
}
