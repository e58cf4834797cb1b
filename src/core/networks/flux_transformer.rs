//! FLUX.1's transformer: config, tensor names of the authors and of diffusers, and schema.
//!
//! dev, schnell, Fill, Kontext, Depth and Canny are configs of it. Either dialect may have a prefix, as in checkpoints that
//! hold a whole pipeline. Readers ask with the authors' names. The blocks are those of `stream_blocks`.

use super::stream_blocks::{
    self, AXES, DIFFUSERS_DOUBLE, DIFFUSERS_OUTER, DIFFUSERS_SINGLE, DOUBLE, GUIDANCE, HEAD_DIM,
    ModulationInputs, SINGLE, StreamShape,
};
use crate::networks::prelude::*;

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct FluxTransformerConfig {
        pub patch_size: i64 = 1 => only(),
        /// Numbers of a token: noise, and in models that fill, image and mask next to it.
        pub in_channels: i64 = 64 => dim("img_in.weight", 1),
        pub out_channels: Option<i64> = None => size(),
        pub num_layers: i64 = 19 => blocks("double_blocks"),
        pub num_single_layers: i64 = 38 => blocks("single_blocks"),
        pub attention_head_dim: i64 = HEAD_DIM => size(),
        pub num_attention_heads: i64 = 24 => heads("img_in.weight", HEAD_DIM),
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 4096 => dim("txt_in.weight", 1),
        /// Width of the pooled text.
        pub pooled_projection_dim: i64 = 768 => dim("vector_in.in_layer.weight", 1),
        /// Guidance is an input of the model: dev has it, schnell does not.
        pub guidance_embeds: bool = false => has(GUIDANCE),
        /// Rotary dimensions of a head for each of a token's ids.
        pub axes_dims_rope: [i64; 3] = AXES => axes(),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for FluxTransformerConfig {
    const LABEL: &'static str = "Flux transformer";
    const CLASSES: &'static [&'static str] = &["FluxTransformer2DModel"];
    const MORE_TOPS: Option<&'static [&'static str]> = Some(&["guidance_in"]);
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::own(&[MARKS], &[DOUBLE, SINGLE]),
        TensorDialect::diffusers(
            &[DIFFUSERS_MARKS],
            &[DIFFUSERS_DOUBLE, DIFFUSERS_SINGLE],
            &[DIFFUSERS_TEXT, DIFFUSERS_OUTER],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        Ok(Self {
            out_channels: Some(header.dim("final_layer.linear.weight", 0)?),
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        ensure!(
            self.out_channels() <= self.in_channels && self.out_channels() % 4 == 0,
            "expected out_channels of at most {} that are a multiple of 4, found {}",
            self.in_channels,
            self.out_channels()
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.num_layers, self.num_single_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let dim = self.dim();
        self.add_before_last(schema);
        schema.modulation("final_layer.adaLN_modulation.1", 2 * dim, dim);
        schema.linear("final_layer.linear", self.out_channels(), dim);
    }
}

impl DenoiserConfig for FluxTransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.out_channels() / 4
    }

    fn shape(&self) -> TransformerShape {
        self.streams().transformer(self.in_channels)
    }
}

impl FluxTransformerConfig {
    /// Adds every tensor but those of the last layer, which ControlNets do not have.
    pub(super) fn add_before_last(&self, schema: &mut Schema) {
        let dim = self.dim();
        schema.linear("img_in", dim, self.in_channels);
        schema.linear("txt_in", dim, self.joint_attention_dim);
        schema.in_f32(|schema| stream_blocks::add_embedders(schema, dim, self.modulation_inputs()));
        stream_blocks::add_blocks(schema, self.streams());
    }

    /// The config of a model that a LoRA lets see a control image: tokens of `in_channels` numbers, noise included.
    pub fn widened(self, in_channels: i64) -> Self {
        Self {
            out_channels: Some(self.out_channels()),
            in_channels,
            ..self
        }
    }

    pub fn streams(&self) -> StreamShape {
        let blocks = [self.num_layers, self.num_single_layers];
        StreamShape::own(
            self.dim(),
            self.attention_head_dim,
            blocks,
            self.modulation_inputs(),
        )
    }

    pub fn modulation_inputs(&self) -> ModulationInputs {
        ModulationInputs {
            pooled: Some(self.pooled_projection_dim),
            guidance_embeds: self.guidance_embeds,
        }
    }

    /// Numbers of a token that the model gives back.
    pub fn out_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    /// Numbers of a token besides the noise, in models that fill: image and mask.
    pub fn condition_channels(&self) -> i64 {
        self.in_channels - self.out_channels()
    }
}

pub type FluxTransformerKeys = TensorKeys<FluxTransformerConfig>;

/// diffusers' name of the text's embedder.
pub(super) const DIFFUSERS_TEXT: &[NamePair] = names! {"txt_in" => "context_embedder"};

/// Two of three are enough for a file that lacks one.
pub(super) const MARKS: MarkGroup = two_of(&[
    "img_in.weight",
    "final_layer.linear.weight",
    "double_blocks.0.img_attn.proj.weight",
]);
pub(super) const DIFFUSERS_MARKS: MarkGroup = two_of(&[
    "x_embedder.weight",
    "context_embedder.weight",
    "single_transformer_blocks.0.proj_mlp.weight",
]);
