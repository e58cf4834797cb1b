//! Krea 2's transformer: its numbers, what the authors and diffusers call its tensors, and all of them with their
//! shapes.
//!
//! Turbo and Raw are alike. Either dialect may stand behind a prefix, as in checkpoints that hold a whole pipeline.
//! Readers ask with the authors' names, which ComfyUI's and GGUF's files have, but for the four products of what goes
//! into an attention, which every file has apart: they are asked for as parts of one, `attn.heads.q`.

mod keys;
mod schema;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::header::{count, not_a, sizes};
use super::{
    NetworkConfig, TensorSpec, check_epsilon, check_layers, check_sizes, class_name, stream_blocks,
};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;
pub use keys::Krea2TransformerKeys;
use keys::{LISTS, PROJECTOR};
pub(crate) use schema::own_schema;
pub use schema::schema;

/// Latents along an edge of one token.
const PATCH: i64 = 2;

with_defaults! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Krea2TransformerConfig {
        /// Numbers of a token.
        pub in_channels: i64 = 64,
        pub num_layers: i64 = 28,
        pub attention_head_dim: i64 = 128,
        pub num_attention_heads: i64 = 48,
        /// Heads of keys and values, which several heads of queries share.
        pub num_key_value_heads: i64 = 12,
        /// Width inside the feed-forward layers.
        pub intermediate_size: i64 = 16_384,
        /// Width of the sinusoids of timesteps.
        pub timestep_embed_dim: i64 = 256,
        /// Width of the text encoder's hidden states.
        pub text_hidden_dim: i64 = 2560,
        /// How many of them are read of each token.
        pub num_text_layers: i64 = 12,
        pub text_num_attention_heads: i64 = 20,
        pub text_num_key_value_heads: i64 = 20,
        pub text_intermediate_size: i64 = 6912,
        /// Blocks that go over the states of one token, and those that go over the tokens of a text.
        pub num_layerwise_text_blocks: i64 = 2,
        pub num_refiner_text_blocks: i64 = 2,
        /// How many numbers of a head turn with each of a token's places: order, row and column.
        pub axes_dims_rope: [i64; 3] = [32, 48, 48],
        pub rope_theta: f64 = 1000.0,
        pub norm_eps: f64 = 1e-5,
        pub quantization_config: Option<Value> = None,
    }
}

/// The numbers of one kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    pub dim: i64,
    pub head_dim: i64,
    /// Heads of queries, and of keys and values.
    pub heads: [i64; 2],
    /// Width inside the feed-forward layers.
    pub wide: i64,
}

impl BlockShape {
    /// Rows of the products that make queries, keys, values and the gate of what comes of them.
    pub fn parts(self) -> [(&'static str, i64); 4] {
        let [queries, keys] = self.heads.map(|heads| heads * self.head_dim);
        [("q", queries), ("k", keys), ("v", keys), ("gate", self.dim)]
    }

    fn check(self, name: &str) -> Result<(), String> {
        let [heads, shared] = self.heads;
        if heads % shared == 0 && heads * self.head_dim == self.dim {
            return Ok(());
        }
        Err(format!(
            "expected {name} that fill a width of {} and that as many heads of keys divide, found {heads} and {shared}",
            self.dim
        ))
    }
}

impl NetworkConfig for Krea2TransformerConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("Krea2Transformer2DModel")
    }

    /// What shapes cannot say, the axes of positions, is as published.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = Krea2TransformerKeys::detect(|key| weights.has(key))
            .ok_or_else(|| not_a("Krea 2 transformer", weights))?;
        let key = |name: &str| keys.file_key(name);
        let rows = |name: &str| sizes(weights, &key(name)).map(|[rows, _]: [i64; 2]| rows);
        // Rows of queries and of keys of a block, as heads of what its norm is wide.
        let heads = |block: &str| {
            let [width] = sizes(weights, &key(&format!("{block}.attn.qknorm.qnorm.scale")))?;
            let rows = |part| rows(&format!("{block}.attn.heads.{part}.weight"));
            Ok::<_, String>([width, rows("q")? / width, rows("k")? / width])
        };
        let blocks = |list: &str| count(weights, |n| key(&format!("{list}.{n}.prenorm.scale")));
        let [attention_head_dim, num_attention_heads, num_key_value_heads] = heads("blocks.0")?;
        let text = "txtfusion.layerwise_blocks.0";
        let [_, text_num_attention_heads, text_num_key_value_heads] = heads(text)?;
        let [_, in_channels] = sizes(weights, &key("first.weight"))?;
        let [_, timestep_embed_dim] = sizes(weights, &key("tmlp.0.weight"))?;
        let [text_hidden_dim] = sizes(weights, &key("txtmlp.0.scale"))?;
        let projector = key(PROJECTOR);
        let states: Result<[i64; 2], _> = sizes(weights, &projector);
        let num_text_layers = match states {
            Ok([_, states]) => states,
            // Some converters to GGUF leave out axes of 1.
            Err(_) => sizes(weights, &projector).map(|[states]: [i64; 1]| states)?,
        };
        Ok(Self {
            in_channels,
            num_layers: blocks("blocks"),
            attention_head_dim,
            num_attention_heads,
            num_key_value_heads,
            intermediate_size: rows("blocks.0.mlp.gate.weight")?,
            timestep_embed_dim,
            text_hidden_dim,
            num_text_layers,
            text_num_attention_heads,
            text_num_key_value_heads,
            text_intermediate_size: rows(&format!("{text}.mlp.gate.weight"))?,
            num_layerwise_text_blocks: blocks("txtfusion.layerwise_blocks"),
            num_refiner_text_blocks: blocks("txtfusion.refiner_blocks"),
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        check_sizes(&[
            ("in_channels", self.in_channels),
            ("attention_head_dim", self.attention_head_dim),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("intermediate_size", self.intermediate_size),
            ("timestep_embed_dim", self.timestep_embed_dim),
            ("text_hidden_dim", self.text_hidden_dim),
            ("num_text_layers", self.num_text_layers),
            ("text_num_attention_heads", self.text_num_attention_heads),
            ("text_num_key_value_heads", self.text_num_key_value_heads),
            ("text_intermediate_size", self.text_intermediate_size),
        ])?;
        check_layers(&[
            ("num_layers", self.num_layers),
            ("num_layerwise_text_blocks", self.num_layerwise_text_blocks),
            ("num_refiner_text_blocks", self.num_refiner_text_blocks),
        ])?;
        check_epsilon("norm_eps", self.norm_eps)?;
        let (channels, theta) = (self.in_channels, self.rope_theta);
        if channels % (PATCH * PATCH) != 0 {
            return Err(format!(
                "expected in_channels that are a multiple of {}, found {channels}",
                PATCH * PATCH
            ));
        }
        if !(theta.is_finite() && theta >= 1.0) {
            return Err(format!(
                "expected a rope_theta of at least 1, found {theta}"
            ));
        }
        self.block().check("num_attention_heads")?;
        self.text_block().check("text_num_attention_heads")?;
        stream_blocks::check_axes(
            "axes_dims_rope",
            self.axes_dims_rope,
            self.attention_head_dim,
        )
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        let keys = Krea2TransformerKeys::of(|key| weights.has(key));
        let mut tensors = schema(self, keys);
        // Some converters to GGUF leave out axes of 1.
        for tensor in &mut tensors {
            let found = weights.shape(&tensor.name);
            if let (&[1, width], Some(&[own])) = (&tensor.shape[..], found.as_deref())
                && width == own
            {
                tensor.shape.remove(0);
            }
        }
        tensors
    }

    fn check_spare(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let keys = Krea2TransformerKeys::of(|key| weights.has(key));
        let lists = LISTS.map(|(own, diffusers, _)| {
            let own = if keys.is_diffusers { diffusers } else { own };
            format!("{}{own}", keys.prefix)
        });
        let counts = [
            self.num_layers,
            self.num_layerwise_text_blocks,
            self.num_refiner_text_blocks,
        ];
        stream_blocks::check_blocks(weights, &lists, &counts)
    }
}

impl Krea2TransformerConfig {
    /// Width of the hidden states.
    pub fn dim(&self) -> i64 {
        self.attention_head_dim * self.num_attention_heads
    }

    pub fn latent_channels(&self) -> i64 {
        self.in_channels / (PATCH * PATCH)
    }

    /// Of the blocks that text and picture go through together.
    pub fn block(&self) -> BlockShape {
        BlockShape {
            dim: self.dim(),
            head_dim: self.attention_head_dim,
            heads: [self.num_attention_heads, self.num_key_value_heads],
            wide: self.intermediate_size,
        }
    }

    /// Of those that make one state of the several of each token.
    pub fn text_block(&self) -> BlockShape {
        BlockShape {
            dim: self.text_hidden_dim,
            head_dim: self.text_hidden_dim / self.text_num_attention_heads,
            heads: [self.text_num_attention_heads, self.text_num_key_value_heads],
            wide: self.text_intermediate_size,
        }
    }
}
