//! FLUX.2's transformer: config, tensor names of the authors and of diffusers, and schema.
//!
//! klein of 4 and of 9 billion numbers, distilled or not, and dev are configs of it. Either dialect may have a prefix, as
//! in checkpoints that hold a whole pipeline. Readers ask with the authors' names. The blocks are those of `stream_blocks`
//! with shared modulations; it has no biases.

use super::flux_transformer::DIFFUSERS_TEXT;
use super::stream_blocks::{
    self, DIFFUSERS_DOUBLE, DIFFUSERS_DOUBLE_LAYERS, DIFFUSERS_OUTER, DIFFUSERS_SINGLE,
    DIFFUSERS_SINGLE_LAYERS, DOUBLE, GUIDANCE, HEAD_DIM, ModulationInputs, SINGLE, StreamShape,
};
use crate::networks::prelude::*;

/// A norm of every attention, as wide as a head.
const QUERY_NORM: &str = "double_blocks.0.img_attn.norm.query_norm.scale";
/// Rotary dimensions of a published head for time, row, column and order.
const AXES: [i64; 4] = [32, 32, 32, 32];
/// The norms' number that keeps them from dividing by 0.
const EPS: f64 = 1e-6;
const LATENTS_A_TOKEN: i64 = 4;

network_config! {
    /// `transformer/config.json`; missing keys have the defaults of diffusers, those of FLUX.2 dev.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Flux2TransformerConfig {
        pub patch_size: i64 = 1 => only(),
        /// Numbers of a token: two by two latents.
        pub in_channels: i64 = 128 => dim("img_in.weight", 1),
        pub out_channels: Option<i64> = None,
        pub num_layers: i64 = 8 => blocks("double_blocks"),
        pub num_single_layers: i64 = 48 => blocks("single_blocks"),
        pub attention_head_dim: i64 = HEAD_DIM => width(QUERY_NORM),
        pub num_attention_heads: i64 = 48 => size(),
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 15_360 => dim("txt_in.weight", 1),
        pub timestep_guidance_channels: i64 = stream_blocks::SINUSOIDS => only(),
        /// Width of the feed-forward layers after their gates, in widths of the network.
        pub mlp_ratio: f64 = 3.0 => within(0.1, 64.0),
        pub axes_dims_rope: [i64; 4] = AXES => axes(),
        pub rope_theta: f64 = 2000.0 => base(),
        pub eps: f64 = EPS,
        /// Guidance is an input of the model: dev has it, klein does not.
        pub guidance_embeds: bool = true => has(GUIDANCE),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for Flux2TransformerConfig {
    const LABEL: &'static str = "FLUX.2 transformer";
    const CLASSES: &'static [&'static str] = &["Flux2Transformer2DModel"];
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::own(
            &[any_of(&[
                "double_stream_modulation_img.lin.weight",
                "double_stream_modulation_txt.lin.weight",
                "single_stream_modulation.lin.weight",
            ])],
            &[DOUBLE, SINGLE],
        ),
        TensorDialect::diffusers(
            &[any_of(&[
                "double_stream_modulation_img.linear.weight",
                "double_stream_modulation_txt.linear.weight",
                "single_stream_modulation.linear.weight",
            ])],
            &[
                DIFFUSERS_DOUBLE.named(
                    DIFFUSERS_DOUBLE.other,
                    &[OWN_DOUBLE_LAYERS, DIFFUSERS_DOUBLE_LAYERS],
                ),
                DIFFUSERS_SINGLE.named(
                    DIFFUSERS_SINGLE.other,
                    &[OWN_SINGLE_LAYERS, DIFFUSERS_SINGLE_LAYERS],
                ),
            ],
            &[OWN_OUTER, DIFFUSERS_TEXT, DIFFUSERS_OUTER],
        ),
    ];

    /// Each axis of positions has a quarter of a head, as published.
    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let (dim, head_dim) = (header.dim("img_in.weight", 0)?, self.attention_head_dim);
        let mlp_dim = header.dim("double_blocks.0.img_mlp.2.weight", 1)?;
        Ok(Self {
            out_channels: Some(header.dim("final_layer.linear.weight", 0)?),
            num_attention_heads: heads(dim, head_dim)?,
            mlp_ratio: mlp_dim as f64 / dim as f64,
            axes_dims_rope: [head_dim / 4; 4],
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let (tokens, outputs) = (self.in_channels, self.out_channels());
        ensure!(
            tokens == outputs && tokens % LATENTS_A_TOKEN == 0,
            "expected in_channels that are a multiple of {LATENTS_A_TOKEN} and as many out_channels, found {tokens} and {outputs}"
        );
        ensure!(
            (self.eps - EPS).abs() <= EPS / 1e3,
            "expected an eps of {EPS:e}, found {:e}",
            self.eps
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.num_layers, self.num_single_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, shape) = (self.dim(), self.streams());
        schema.matrix("img_in", dim, self.in_channels);
        schema.matrix("txt_in", dim, self.joint_attention_dim);
        schema.in_f32(|schema| {
            schema.matrix("time_in.in_layer", dim, stream_blocks::SINUSOIDS);
            schema.matrix("time_in.out_layer", dim, dim);
            if self.guidance_embeds {
                schema.matrix("guidance_in.in_layer", dim, stream_blocks::SINUSOIDS);
                schema.matrix("guidance_in.out_layer", dim, dim);
            }
        });
        stream_blocks::add_blocks(schema, shape);
        shape.modulation(schema, "final_layer.adaLN_modulation.1", 2 * dim, dim);
        schema.matrix("final_layer.linear", self.out_channels(), dim);
    }
}

impl DenoiserConfig for Flux2TransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.in_channels / LATENTS_A_TOKEN
    }

    fn shape(&self) -> TransformerShape {
        self.streams().transformer(self.in_channels)
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

    pub fn modulation_inputs(&self) -> ModulationInputs {
        ModulationInputs {
            pooled: None,
            guidance_embeds: self.guidance_embeds,
        }
    }

    pub fn streams(&self) -> StreamShape {
        let blocks = [self.num_layers, self.num_single_layers];
        StreamShape {
            mlp_dim: (self.dim() as f64 * self.mlp_ratio) as i64,
            is_shared: true,
            ..StreamShape::own(self.dim(), self.attention_head_dim, blocks, None)
        }
    }

    /// Numbers of a token that the model gives back.
    pub fn out_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }
}

pub type Flux2TransformerKeys = TensorKeys<Flux2TransformerConfig>;

/// diffusers' names that differ from those of FLUX.1's layers.
const OWN_OUTER: &[NamePair] = names! {
    "time_in.in_layer" => "time_guidance_embed.timestep_embedder.linear_1",
    "time_in.out_layer" => "time_guidance_embed.timestep_embedder.linear_2",
    "guidance_in.in_layer" => "time_guidance_embed.guidance_embedder.linear_1",
    "guidance_in.out_layer" => "time_guidance_embed.guidance_embedder.linear_2",
    "double_stream_modulation_img.lin" => "double_stream_modulation_img.linear",
    "double_stream_modulation_txt.lin" => "double_stream_modulation_txt.linear",
    "single_stream_modulation.lin" => "single_stream_modulation.linear",
};
const OWN_DOUBLE_LAYERS: &[NamePair] = names! {
    "img_mlp.0" => "ff.linear_in",
    "img_mlp.2" => "ff.linear_out",
    "txt_mlp.0" => "ff_context.linear_in",
    "txt_mlp.2" => "ff_context.linear_out",
};
const OWN_SINGLE_LAYERS: &[NamePair] = names! {
    "linear1" => "attn.to_qkv_mlp_proj",
    "linear2" => "attn.to_out",
};
