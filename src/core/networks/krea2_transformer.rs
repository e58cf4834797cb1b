//! Krea 2's transformer: its numbers, what the authors and diffusers call its tensors, and all of them with their
//! shapes.
//!
//! Turbo and Raw are alike. Either dialect may stand behind a prefix, as in checkpoints that hold a whole pipeline.
//! Readers ask with the authors' names, which ComfyUI's and GGUF's files have, but for the four products of what goes
//! into an attention, which every file has apart: they are asked for as parts of one, `attn.heads.q`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::flux_transformer::PREFIXES;
use super::header::{count, not_a, sizes};
use super::stream_blocks::{self, DIFFUSERS, List, Names};
use super::{
    NetworkConfig, Role, Schema, TensorSpec, check_epsilon, check_layers, check_sizes, class_name,
};
use crate::formats::weights::WeightSet;
use crate::model::CatalogError;
use crate::named::with_defaults;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Krea2TransformerKeys {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
}

/// What makes one state of several.
const PROJECTOR: &str = "txtfusion.projector.weight";
/// By which the authors' names are known, and diffusers'; one is enough for a file that lacks others.
const MARKS: [[&str; 3]; 2] = [
    [
        PROJECTOR,
        "txtfusion.layerwise_blocks.0.prenorm.scale",
        "blocks.0.attn.qknorm.qnorm.scale",
    ],
    [
        "text_fusion.projector.weight",
        "text_fusion.layerwise_blocks.0.norm1.weight",
        "transformer_blocks.0.attn.to_gate.weight",
    ],
];

/// Where the authors' names are among those of a layer, whose first are ours.
const AUTHORS: usize = 1;

/// In every block; what is empty no file has.
const BLOCK: [Names; 12] = [
    ["attn.heads.q", "attn.wq", "attn.to_q"],
    ["attn.heads.k", "attn.wk", "attn.to_k"],
    ["attn.heads.v", "attn.wv", "attn.to_v"],
    ["attn.heads.gate", "attn.gate", "attn.to_gate"],
    ["attn.heads", "", ""],
    ["attn.wo", "attn.wo", "attn.to_out.0"],
    [
        "attn.qknorm.qnorm.scale",
        "attn.qknorm.qnorm.scale",
        "attn.norm_q.weight",
    ],
    [
        "attn.qknorm.knorm.scale",
        "attn.qknorm.knorm.scale",
        "attn.norm_k.weight",
    ],
    ["mlp", "mlp", "ff"],
    ["prenorm.scale", "prenorm.scale", "norm1.weight"],
    ["postnorm.scale", "postnorm.scale", "norm2.weight"],
    ["mod.lin", "mod.lin", "scale_shift_table"],
];

/// The lists of blocks: the authors' name, and diffusers'.
const LISTS: [List; 3] = [
    ("blocks", "transformer_blocks", &BLOCK),
    (
        "txtfusion.layerwise_blocks",
        "text_fusion.layerwise_blocks",
        &BLOCK,
    ),
    (
        "txtfusion.refiner_blocks",
        "text_fusion.refiner_blocks",
        &BLOCK,
    ),
];

const OUTER: [Names; 11] = [
    ["first", "first", "img_in"],
    ["tmlp.0", "tmlp.0", "time_embed.linear_1"],
    ["tmlp.2", "tmlp.2", "time_embed.linear_2"],
    ["tproj.1", "tproj.1", "time_mod_proj"],
    ["txtmlp.0.scale", "txtmlp.0.scale", "txt_in.norm.weight"],
    ["txtmlp.1", "txtmlp.1", "txt_in.linear_1"],
    ["txtmlp.3", "txtmlp.3", "txt_in.linear_2"],
    [
        "txtfusion.projector",
        "txtfusion.projector",
        "text_fusion.projector",
    ],
    ["last.linear", "last.linear", "final_layer.linear"],
    [
        "last.norm.scale",
        "last.norm.scale",
        "final_layer.norm.weight",
    ],
    [
        "last.modulation.lin",
        "last.modulation.lin",
        "final_layer.scale_shift_table",
    ],
];

impl Krea2TransformerKeys {
    /// The authors' names, bare.
    pub const ORIGINAL: Self = Self {
        prefix: "",
        is_diffusers: false,
    };

    /// What lies in the authors' files and nobody reads.
    pub const UNREAD: [&'static str; 2] = ["last.down.weight", "last.up.weight"];

    /// The dialect of a file, by whether it has a key; `None` for what is no Krea 2 transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        let dialects = PREFIXES
            .iter()
            .flat_map(|prefix| [false, true].map(|is_diffusers| (prefix, is_diffusers)));
        dialects
            .map(|(prefix, is_diffusers)| Self {
                prefix,
                is_diffusers,
            })
            .find(|keys| {
                let marks = MARKS[usize::from(keys.is_diffusers)].iter();
                let mut marks = marks.map(|mark| format!("{}{mark}", keys.prefix));
                marks.any(|mark| has(&mark))
            })
    }

    /// The same, where what is no Krea 2 transformer counts as one in the authors' names: the first key that is asked
    /// for says what is wrong.
    pub fn of(has: impl Fn(&str) -> bool) -> Self {
        Self::detect(has).unwrap_or(Self::ORIGINAL)
    }

    /// What the file calls the tensor that readers call `own`.
    pub fn file_key(self, own: &str) -> String {
        let column = if self.is_diffusers {
            DIFFUSERS
        } else {
            AUTHORS
        };
        let name = stream_blocks::renamed(own, &LISTS, &[&OUTER], column);
        format!("{}{name}", self.prefix)
    }

    /// The names before the first dot, of which a transformer has no others.
    pub(crate) fn tops(self) -> &'static [&'static str] {
        if self.is_diffusers {
            &[
                "final_layer",
                "img_in",
                "text_fusion",
                "time_embed",
                "time_mod_proj",
                "transformer_blocks",
                "txt_in",
            ]
        } else {
            &[
                "blocks",
                "first",
                "last",
                "tmlp",
                "tproj",
                "txtfusion",
                "txtmlp",
            ]
        }
    }
}

/// As a file has them: queries, keys, values and gates apart.
pub fn schema(config: &Krea2TransformerConfig, keys: Krea2TransformerKeys) -> Vec<TensorSpec> {
    described(config, keys.is_diffusers, true).renamed(|name| keys.file_key(name))
}

/// As readers ask for them, with what goes into an attention in one.
pub(crate) fn own_schema(config: &Krea2TransformerConfig) -> Vec<TensorSpec> {
    described(config, false, false).into_tensors()
}

/// `has_rows`: whether the six vectors of a block are rows of one tensor; `is_split`: whether what goes into an
/// attention is several matrices.
fn described(config: &Krea2TransformerConfig, has_rows: bool, is_split: bool) -> Schema {
    let (dim, text) = (config.dim(), config.text_hidden_dim);
    let mut schema = Schema::default();
    schema.linear("first", dim, config.in_channels);
    // What is made of a text once, or of all timesteps at once.
    schema.modulation("tmlp.0", dim, config.timestep_embed_dim);
    schema.modulation("tmlp.2", dim, dim);
    schema.modulation("tproj.1", 6 * dim, dim);
    let name = PROJECTOR.to_owned();
    schema.add(name, &[1, config.num_text_layers], Role::Modulation);
    schema.in_f32(|schema| schema.vector("txtmlp.0.scale", text));
    schema.modulation("txtmlp.1", dim, text);
    schema.modulation("txtmlp.3", dim, dim);
    let of_text = config.text_block();
    for ((list, _, _), (count, shape)) in LISTS.into_iter().zip([
        (config.num_layers, config.block()),
        (config.num_layerwise_text_blocks, of_text),
        (config.num_refiner_text_blocks, of_text),
    ]) {
        let is_told = list == LISTS[0].0;
        for number in 0..count {
            let block = format!("{list}.{number}");
            add_block(&mut schema, &block, shape, is_told, is_split);
            if is_told {
                let rows = [6, shape.dim];
                let flat = [6 * shape.dim];
                let size: &[i64] = if has_rows { &rows } else { &flat };
                schema.in_f32(|schema| schema.add(format!("{block}.mod.lin"), size, Role::Fixed));
            }
        }
    }
    schema.in_f32(|schema| {
        schema.vector("last.norm.scale", dim);
        schema.add("last.modulation.lin", &[2, dim], Role::Fixed);
    });
    schema.linear("last.linear", config.in_channels, dim);
    schema
}

/// `is_told`: whether it is told the timestep; where not, it is used once for each text.
fn add_block(schema: &mut Schema, block: &str, shape: BlockShape, is_told: bool, is_split: bool) {
    let BlockShape {
        dim,
        head_dim,
        wide,
        ..
    } = shape;
    let role = if is_told {
        Role::Matrix
    } else {
        Role::Modulation
    };
    let mut matrix = |part: &str, output: i64, input: i64| {
        schema.add(format!("{block}.{part}.weight"), &[output, input], role);
    };
    if is_split {
        for (part, rows) in shape.parts() {
            matrix(&format!("attn.heads.{part}"), rows, dim);
        }
    } else {
        let rows = shape.parts().iter().map(|(_, rows)| rows).sum();
        matrix("attn.heads", rows, dim);
    }
    matrix("attn.wo", dim, dim);
    matrix("mlp.gate", wide, dim);
    matrix("mlp.up", wide, dim);
    matrix("mlp.down", dim, wide);
    schema.in_f32(|schema| {
        for norm in ["qnorm", "knorm"] {
            schema.vector(&format!("{block}.attn.qknorm.{norm}.scale"), head_dim);
        }
        for norm in ["prenorm", "postnorm"] {
            schema.vector(&format!("{block}.{norm}.scale"), dim);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_file() {
        let diffusers = Krea2TransformerKeys {
            prefix: "",
            is_diffusers: true,
        };
        for (own, authors, theirs) in [
            ("first.bias", "first.bias", "img_in.bias"),
            (
                "tmlp.2.weight",
                "tmlp.2.weight",
                "time_embed.linear_2.weight",
            ),
            ("txtmlp.0.scale", "txtmlp.0.scale", "txt_in.norm.weight"),
            ("txtmlp.3.bias", "txtmlp.3.bias", "txt_in.linear_2.bias"),
            (
                "blocks.27.attn.heads.v.weight",
                "blocks.27.attn.wv.weight",
                "transformer_blocks.27.attn.to_v.weight",
            ),
            (
                "txtfusion.refiner_blocks.1.attn.heads.gate.weight",
                "txtfusion.refiner_blocks.1.attn.gate.weight",
                "text_fusion.refiner_blocks.1.attn.to_gate.weight",
            ),
            (
                "txtfusion.layerwise_blocks.0.postnorm.scale",
                "txtfusion.layerwise_blocks.0.postnorm.scale",
                "text_fusion.layerwise_blocks.0.norm2.weight",
            ),
            (
                "blocks.3.mlp.down.weight",
                "blocks.3.mlp.down.weight",
                "transformer_blocks.3.ff.down.weight",
            ),
            (
                "last.modulation.lin",
                "last.modulation.lin",
                "final_layer.scale_shift_table",
            ),
        ] {
            assert_eq!(Krea2TransformerKeys::ORIGINAL.file_key(own), authors);
            assert_eq!(diffusers.file_key(own), theirs);
        }
    }

    #[test]
    fn a_dialect_is_found_behind_every_prefix() {
        for prefix in PREFIXES {
            for (mark, is_diffusers) in [
                ("txtfusion.projector.weight", false),
                ("text_fusion.projector.weight", true),
            ] {
                let name = format!("{prefix}{mark}");
                let keys = Krea2TransformerKeys::detect(|key| key == name).unwrap();
                assert_eq!((keys.prefix, keys.is_diffusers), (prefix, is_diffusers));
                assert_eq!(keys.file_key(PROJECTOR), name);
            }
        }
        assert_eq!(Krea2TransformerKeys::detect(|_| false), None);
    }
}
