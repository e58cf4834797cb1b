//! Krea 2's transformer: config, tensor names of the authors and of diffusers, and schema.
//!
//! Turbo and Raw are alike. Either dialect may have a prefix, as in checkpoints that hold a whole pipeline. Readers ask with
//! the authors' names, which ComfyUI's and GGUF's files have, but for the four matrices before an attention, which every
//! file has apart: readers ask for them as parts of one, `attn.heads.q`.

use crate::networks::prelude::*;

/// Two by two.
const LATENTS_A_TOKEN: i64 = 4;

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Krea2TransformerConfig {
        /// Numbers of a token.
        pub in_channels: i64 = 64 => dim("first.weight", 1),
        pub num_layers: i64 = 28 => count("blocks.{}.prenorm.scale"),
        pub attention_head_dim: i64 = 128 => width("blocks.0.attn.qknorm.qnorm.scale"),
        pub num_attention_heads: i64 = 48 => size(),
        /// Heads of keys and values, which several heads of queries share.
        pub num_key_value_heads: i64 = 12 => size(),
        /// Width inside the feed-forward layers.
        pub intermediate_size: i64 = 16_384 => dim("blocks.0.mlp.gate.weight", 0),
        /// Width of the sinusoids of timesteps.
        pub timestep_embed_dim: i64 = 256 => dim("tmlp.0.weight", 1),
        pub text_hidden_dim: i64 = 2560 => width("txtmlp.0.scale"),
        /// Hidden states that are read of each token.
        pub num_text_layers: i64 = 12 => size(),
        pub text_num_attention_heads: i64 = 20 => size(),
        pub text_num_key_value_heads: i64 = 20 => size(),
        pub text_intermediate_size: i64 = 6912 => dim("txtfusion.layerwise_blocks.0.mlp.gate.weight", 0),
        /// Blocks that go over the states of one token, and those that go over the tokens of a text.
        pub num_layerwise_text_blocks: i64 = 2 => count("txtfusion.layerwise_blocks.{}.prenorm.scale"),
        pub num_refiner_text_blocks: i64 = 2 => count("txtfusion.refiner_blocks.{}.prenorm.scale"),
        /// Rotary dimensions of a head for order, row and column.
        pub axes_dims_rope: [i64; 3] = [32, 48, 48] => axes(),
        pub rope_theta: f64 = 1000.0 => base(),
        pub norm_eps: f64 = 1e-5 => epsilon(),
        pub quantization_config: Option<Value> = None => quantization(),
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
        ensure!(
            heads % shared == 0 && heads * self.head_dim == self.dim,
            "expected {name} that fill a width of {} and that as many heads of keys divide, found {heads} and {shared}",
            self.dim
        );
        Ok(())
    }
}

impl TransformerConfig for Krea2TransformerConfig {
    const LABEL: &'static str = "Krea 2 transformer";
    const CLASSES: &'static [&'static str] = &["Krea2Transformer2DModel"];
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect {
            is_split: true,
            ..TensorDialect::own(
                // One is enough for a file that lacks others.
                &[any_of(&[
                    PROJECTOR,
                    "txtfusion.layerwise_blocks.0.prenorm.scale",
                    "blocks.0.attn.qknorm.qnorm.scale",
                ])],
                &[
                    LISTS[0].named(LISTS[0].own, AUTHORS_LAYERS),
                    LISTS[1].named(LISTS[1].own, AUTHORS_LAYERS),
                    LISTS[2].named(LISTS[2].own, AUTHORS_LAYERS),
                ],
            )
        },
        TensorDialect::diffusers(
            &[any_of(&[
                "text_fusion.projector.weight",
                "text_fusion.layerwise_blocks.0.norm1.weight",
                "transformer_blocks.0.attn.to_gate.weight",
            ])],
            &[
                LISTS[0].named("transformer_blocks", DIFFUSERS_LAYERS),
                LISTS[1].named("text_fusion.layerwise_blocks", DIFFUSERS_LAYERS),
                LISTS[2].named("text_fusion.refiner_blocks", DIFFUSERS_LAYERS),
            ],
            &[names! {
                "first" => "img_in",
                "tmlp.0" => "time_embed.linear_1",
                "tmlp.2" => "time_embed.linear_2",
                "tproj.1" => "time_mod_proj",
                "txtmlp.0.scale" => "txt_in.norm.weight",
                "txtmlp.1" => "txt_in.linear_1",
                "txtmlp.3" => "txt_in.linear_2",
                "txtfusion.projector" => "text_fusion.projector",
                "last.linear" => "final_layer.linear",
                "last.norm.scale" => "final_layer.norm.weight",
                "last.modulation.lin" => "final_layer.scale_shift_table",
            }],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        // Heads of queries and of keys, each as wide as the norm of a block.
        let heads = |block: &str| {
            let width = header.width(&format!("{block}.attn.qknorm.qnorm.scale"))?;
            let rows = |part| header.dim(&format!("{block}.attn.heads.{part}.weight"), 0);
            Ok::<_, String>([rows("q")? / width, rows("k")? / width])
        };
        let [num_attention_heads, num_key_value_heads] = heads("blocks.0")?;
        let text = heads("txtfusion.layerwise_blocks.0")?;
        let [text_num_attention_heads, text_num_key_value_heads] = text;
        // Some converters to GGUF leave out axes of 1.
        let states = header.dim(PROJECTOR, 1);
        Ok(Self {
            num_attention_heads,
            num_key_value_heads,
            num_text_layers: states.or_else(|_| header.width(PROJECTOR))?,
            text_num_attention_heads,
            text_num_key_value_heads,
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let channels = self.in_channels;
        ensure!(
            channels % LATENTS_A_TOKEN == 0,
            "expected in_channels that are a multiple of {LATENTS_A_TOKEN}, found {channels}"
        );
        self.block().check("num_attention_heads")?;
        self.text_block().check("text_num_attention_heads")
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![
            self.num_layers,
            self.num_layerwise_text_blocks,
            self.num_refiner_text_blocks,
        ]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, text) = (self.dim(), self.text_hidden_dim);
        // A block's six vectors.
        let (rows, one_row) = ([6, dim], [6 * dim]);
        let vectors: &[i64] = if schema.is_diffusers { &rows } else { &one_row };
        schema.linear("first", dim, self.in_channels);
        // Used once for a text, or for all timesteps at once.
        schema.modulation("tmlp.0", dim, self.timestep_embed_dim);
        schema.modulation("tmlp.2", dim, dim);
        schema.modulation("tproj.1", 6 * dim, dim);
        let states = [1, self.num_text_layers];
        schema.add(PROJECTOR, &states, TensorRole::Modulation);
        schema.in_f32(|schema| schema.vector("txtmlp.0.scale", text));
        schema.modulation("txtmlp.1", dim, text);
        schema.modulation("txtmlp.3", dim, dim);
        let of_text = self.text_block();
        // A block that no timestep modulates is used once for each text.
        let (own, text) = (TensorRole::Matrix, TensorRole::Modulation);
        for (list, (count, shape, role)) in LISTS.iter().zip([
            (self.num_layers, self.block(), own),
            (self.num_layerwise_text_blocks, of_text, text),
            (self.num_refiner_text_blocks, of_text, text),
        ]) {
            schema.blocks(list.own, count, |schema| {
                add_block(schema, shape, role);
                if role == own {
                    schema.in_f32(|schema| schema.add("mod.lin", vectors, TensorRole::Fixed));
                }
            });
        }
        schema.in_f32(|schema| {
            schema.vector("last.norm.scale", dim);
            schema.add("last.modulation.lin", &[2, dim], TensorRole::Fixed);
        });
        schema.linear("last.linear", self.in_channels, dim);
    }
}

impl DenoiserConfig for Krea2TransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.in_channels / LATENTS_A_TOKEN
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

impl Krea2TransformerConfig {
    /// Shape of the blocks that text and image share.
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

/// Adds a block whose matrices have a role.
fn add_block(schema: &mut Schema, shape: BlockShape, role: TensorRole) {
    let BlockShape { dim, wide, .. } = shape;
    let matrix = |schema: &mut Schema, name: &str, rows, columns| {
        schema.add(format!("{name}.weight"), &[rows, columns], role);
    };
    schema.fused("attn.heads", &shape.parts(), |schema, name, rows| {
        matrix(schema, name, rows, dim);
    });
    matrix(schema, "attn.wo", dim, dim);
    matrix(schema, "mlp.gate", wide, dim);
    matrix(schema, "mlp.up", wide, dim);
    matrix(schema, "mlp.down", dim, wide);
    schema.in_f32(|schema| {
        schema.vector("attn.qknorm.qnorm.scale", shape.head_dim);
        schema.vector("attn.qknorm.knorm.scale", shape.head_dim);
        schema.vector("prenorm.scale", dim);
        schema.vector("postnorm.scale", dim);
    });
}

pub type Krea2TransformerKeys = TensorKeys<Krea2TransformerConfig>;

impl Krea2TransformerKeys {
    /// Tensors of the authors' files that no reader asks for.
    pub const UNREAD: [&'static str; 2] = ["last.down.weight", "last.up.weight"];
}

/// Mixes the hidden states of the text encoder's layers into one.
const PROJECTOR: &str = "txtfusion.projector.weight";

const LISTS: [BlockList; 3] = [
    BlockList::shared("blocks"),
    BlockList::shared("txtfusion.layerwise_blocks"),
    BlockList::shared("txtfusion.refiner_blocks"),
];

const AUTHORS_LAYERS: &[&[NamePair]] = &[names! {
    "attn.heads.q" => "attn.wq",
    "attn.heads.k" => "attn.wk",
    "attn.heads.v" => "attn.wv",
    "attn.heads.gate" => "attn.gate",
}];
const DIFFUSERS_LAYERS: &[&[NamePair]] = &[names! {
    "attn.heads.q" => "attn.to_q",
    "attn.heads.k" => "attn.to_k",
    "attn.heads.v" => "attn.to_v",
    "attn.heads.gate" => "attn.to_gate",
    "attn.wo" => "attn.to_out.0",
    "attn.qknorm.qnorm.scale" => "attn.norm_q.weight",
    "attn.qknorm.knorm.scale" => "attn.norm_k.weight",
    "mlp" => "ff",
    "prenorm.scale" => "norm1.weight",
    "postnorm.scale" => "norm2.weight",
    "mod.lin" => "scale_shift_table",
}];
