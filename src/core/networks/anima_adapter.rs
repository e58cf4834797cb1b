//! Anima's text adapter, which gives the ids of a T5 tokenizer embeddings that depend on a language model's hidden states:
//! config, tensor names, and schema.
//!
//! Readers ask with the names in the authors' files, which also hold the transformer; diffusers has a folder for it.

use super::anima_transformer::PREFIXES;
use crate::networks::prelude::*;

/// Width of one head in published files.
const HEAD_DIM: i64 = 64;

network_config! {
    /// `text_conditioner/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct AnimaAdapterConfig {
        /// Width of the language model's hidden states.
        pub source_dim: i64 = 1024 => dim("llm_adapter.blocks.0.cross_attn.k_proj.weight", 1),
        /// Width of the embeddings.
        pub target_dim: i64 = 1024 => dim("llm_adapter.out_proj.weight", 0),
        pub model_dim: i64 = 1024 => dim("llm_adapter.out_proj.weight", 1),
        pub num_layers: i64 = 6 => blocks("llm_adapter.blocks"),
        pub num_attention_heads: i64 = 16 => heads("llm_adapter.out_proj.weight", HEAD_DIM),
        /// Width inside the feed-forward layers, in widths of the network.
        pub mlp_ratio: f64 = 4.0 => within(0.1, 64.0),
        pub target_vocab_size: i64 = 32_128 => dim("llm_adapter.embed.weight", 0),
        pub use_self_attention: bool = true => only(),
        pub use_layer_norm: bool = false => only(),
        /// Rows of the embeddings at least: those after the text are zeros.
        pub min_sequence_length: i64 = 512 => size(),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for AnimaAdapterConfig {
    const LABEL: &'static str = "text adapter of Anima";
    const CLASSES: &'static [&'static str] = &["AnimaTextConditioner"];
    const PREFIXES: &'static [&'static str] = PREFIXES;
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::own(
            &[any_of(&["llm_adapter.blocks.0.cross_attn.q_proj.weight"])],
            &[BLOCKS],
        ),
        TensorDialect::diffusers(
            &[two_of(&[
                "embed.weight",
                "blocks.0.norm_cross_attn.weight",
                "blocks.0.mlp.0.bias",
            ])],
            &[BLOCKS.named("blocks", &[])],
            &[names! {
                "llm_adapter.embed" => "embed",
                "llm_adapter.out_proj" => "out_proj",
                "llm_adapter.norm" => "norm",
            }],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let mlp_dim = header.dim("llm_adapter.blocks.0.mlp.0.weight", 0)?;
        Ok(Self {
            mlp_ratio: mlp_dim as f64 / self.model_dim as f64,
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let (model_dim, target_dim, heads) =
            (self.model_dim, self.target_dim, self.num_attention_heads);
        ensure!(
            model_dim == target_dim,
            "expected a model_dim equal to target_dim, found {model_dim} and {target_dim}"
        );
        ensure!(
            model_dim % (2 * heads) == 0,
            "expected num_attention_heads of an even width in a model_dim of {model_dim}, found {heads}"
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.num_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, target) = (self.model_dim, self.target_dim);
        schema.table("llm_adapter.embed", self.target_vocab_size, target);
        schema.blocks(BLOCKS.own, self.num_layers, |schema| {
            for (attention, context) in [("self_attn", dim), ("cross_attn", self.source_dim)] {
                schema.vector(&format!("norm_{attention}.weight"), dim);
                for (name, input) in [
                    ("q_proj", dim),
                    ("k_proj", context),
                    ("v_proj", context),
                    ("o_proj", dim),
                ] {
                    schema.matrix(&format!("{attention}.{name}"), dim, input);
                }
                for name in ["q_norm", "k_norm"] {
                    schema.vector(&format!("{attention}.{name}.weight"), self.head_dim());
                }
            }
            schema.vector("norm_mlp.weight", dim);
            schema.linear("mlp.0", self.mlp_dim(), dim);
            schema.linear("mlp.2", dim, self.mlp_dim());
        });
        schema.linear("llm_adapter.out_proj", target, dim);
        schema.vector("llm_adapter.norm.weight", target);
    }
}

impl AnimaAdapterConfig {
    /// Width inside the feed-forward layers.
    pub fn mlp_dim(&self) -> i64 {
        (self.model_dim as f64 * self.mlp_ratio) as i64
    }

    pub fn head_dim(&self) -> i64 {
        self.model_dim / self.num_attention_heads
    }
}

const BLOCKS: BlockList = BlockList::shared("llm_adapter.blocks");
