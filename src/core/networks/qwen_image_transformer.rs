//! Qwen-Image's transformer: config, tensor names, and schema.
//!
//! Qwen-Image and Qwen-Image-Edit are configs of it. Every file has diffusers' names, bare or with a prefix; readers ask
//! with those of Flux's double blocks, of which alone it is built.

use super::stream_blocks::{
    self, AXES, DIFFUSERS_DOUBLE, DIFFUSERS_DOUBLE_LAYERS, DIFFUSERS_OUTER, HEAD_DIM,
    ModulationInputs, SINUSOIDS, StreamShape,
};
use crate::networks::prelude::*;

/// Latents along an edge of one token.
const PATCH: i64 = 2;
/// An empty tensor of files without a config in which tokens of reference images have the timestep 0.
pub const ZERO_TIME: &str = "__index_timestep_zero__";

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct QwenImageTransformerConfig {
        pub patch_size: i64 = PATCH => only(),
        /// Numbers of a token.
        pub in_channels: i64 = 64 => dim("img_in.weight", 1),
        /// Channels of the latents that it gives.
        pub out_channels: Option<i64> = Some(16) => size(),
        /// Blocks, all of two streams.
        pub num_layers: i64 = 60 => blocks("double_blocks"),
        pub attention_head_dim: i64 = HEAD_DIM => size(),
        pub num_attention_heads: i64 = 24 => heads("img_in.weight", HEAD_DIM),
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 3584 => dim("txt_in.weight", 1),
        pub guidance_embeds: bool = false => only(),
        /// Rotary dimensions of a head for image, row and column.
        pub axes_dims_rope: [i64; 3] = AXES => axes(),
        /// Tokens of reference images have the timestep 0.
        pub zero_cond_t: bool = false => has(ZERO_TIME),
        /// Of models of layered images alone, as is the next.
        pub use_additional_t_cond: bool = false,
        pub use_layer3d_rope: bool = false,
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for QwenImageTransformerConfig {
    const LABEL: &'static str = "Qwen-Image transformer";
    const CLASSES: &'static [&'static str] = &["QwenImageTransformer2DModel"];
    const MORE_TOPS: Option<&'static [&'static str]> = Some(&[ZERO_TIME]);
    const DIALECTS: &'static [TensorDialect] = &[TensorDialect::diffusers(
        &[two_of(&MARKS)],
        &[BLOCKS],
        &[OWN_OUTER, DIFFUSERS_OUTER],
    )];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let outputs = header.dim("final_layer.linear.weight", 0)?;
        Ok(Self {
            out_channels: Some(outputs / (PATCH * PATCH)),
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let (latents, numbers) = (self.latent_channels(), self.in_channels);
        let expected = latents * PATCH * PATCH;
        ensure!(
            numbers == expected,
            "expected in_channels of {expected} for out_channels of {latents}, found {numbers}"
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.num_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let dim = self.dim();
        self.add_before_last(schema);
        schema.modulation("final_layer.adaLN_modulation.1", 2 * dim, dim);
        schema.linear("final_layer.linear", self.in_channels, dim);
    }
}

impl DenoiserConfig for QwenImageTransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    fn shape(&self) -> TransformerShape {
        self.streams().transformer(self.in_channels)
    }
}

impl QwenImageTransformerConfig {
    pub fn streams(&self) -> StreamShape {
        // Of the timestep alone.
        let modulation_inputs = ModulationInputs {
            pooled: None,
            guidance_embeds: false,
        };
        StreamShape::own(
            self.dim(),
            self.attention_head_dim,
            [self.num_layers, 0],
            modulation_inputs,
        )
    }

    /// Adds every tensor but those of the last layer, which ControlNets do not have.
    pub(super) fn add_before_last(&self, schema: &mut Schema) {
        let dim = self.dim();
        schema.linear("img_in", dim, self.in_channels);
        schema.vector("txt_norm.weight", self.joint_attention_dim);
        schema.linear("txt_in", dim, self.joint_attention_dim);
        schema.in_f32(|schema| stream_blocks::embedder(schema, "time_in", dim, SINUSOIDS));
        stream_blocks::add_blocks(schema, self.streams());
    }
}

pub type QwenImageTransformerKeys = TensorKeys<QwenImageTransformerConfig>;

/// Two of three are enough for a file that lacks one.
const MARKS: [&str; 3] = [
    "txt_norm.weight",
    "transformer_blocks.0.img_mod.1.weight",
    "transformer_blocks.0.txt_mlp.net.2.weight",
];

/// Names that differ from diffusers' of Flux.
pub(super) const OWN_OUTER: &[NamePair] = names! {"img_in" => "img_in"};
const OWN_LAYERS: &[NamePair] = names! {
    "img_mod.lin" => "img_mod.1",
    "txt_mod.lin" => "txt_mod.1",
    "img_mlp.0" => "img_mlp.net.0.proj",
    "img_mlp.2" => "img_mlp.net.2",
    "txt_mlp.0" => "txt_mlp.net.0.proj",
    "txt_mlp.2" => "txt_mlp.net.2",
};
pub(super) const BLOCKS: BlockList = DIFFUSERS_DOUBLE.named(
    DIFFUSERS_DOUBLE.other,
    &[OWN_LAYERS, DIFFUSERS_DOUBLE_LAYERS],
);
