//! Chroma's transformer: config, tensor names of the authors and of diffusers, and schema.
//!
//! FLUX.1's blocks and names, but one network, the approximator, makes all modulations. Readers ask with the authors'
//! names. The blocks are those of `stream_blocks`.

use super::flux_transformer::{DIFFUSERS_MARKS, DIFFUSERS_TEXT, MARKS};
use super::stream_blocks::{
    self, AXES, DIFFUSERS_DOUBLE, DIFFUSERS_OUTER, DIFFUSERS_SINGLE, DOUBLE, HEAD_DIM, SINGLE,
    StreamShape,
};
use crate::networks::prelude::*;

/// Shares of the approximator's input: a quarter timestep, a quarter guidance, and half the index of the vector.
const INPUT_PARTS: i64 = 4;

/// The approximator's first matrix, which FLUX.1 does not have.
pub(crate) const APPROXIMATOR: &str = "distilled_guidance_layer.in_proj.weight";

/// The approximator's lists of layers and norms.
const LAYERS: BlockList = BlockList::shared("distilled_guidance_layer.layers");
const NORMS: BlockList = BlockList::shared("distilled_guidance_layer.norms");

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct ChromaTransformerConfig {
        pub patch_size: i64 = 1 => only(),
        /// Numbers of a token.
        pub in_channels: i64 = 64 => dim("img_in.weight", 1),
        pub out_channels: Option<i64> = None,
        pub num_layers: i64 = 19 => blocks(DOUBLE.own),
        pub num_single_layers: i64 = 38 => blocks(SINGLE.own),
        pub attention_head_dim: i64 = HEAD_DIM => size(),
        pub num_attention_heads: i64 = 24 => heads("img_in.weight", HEAD_DIM),
        /// Width of the text's embeddings.
        pub joint_attention_dim: i64 = 4096 => dim("txt_in.weight", 1),
        /// Rotary dimensions of a head for each of a token's ids.
        pub axes_dims_rope: [i64; 3] = AXES => axes(),
        /// Width of the approximator's input.
        pub approximator_num_channels: i64 = 64 => dim(APPROXIMATOR, 1),
        pub approximator_hidden_dim: i64 = 5120 => dim(APPROXIMATOR, 0),
        pub approximator_layers: i64 = 5 => blocks(LAYERS.own),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for ChromaTransformerConfig {
    const LABEL: &'static str = "Chroma transformer";
    const CLASSES: &'static [&'static str] = &["ChromaTransformer2DModel"];
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::own(
            &[MARKS, any_of(&[APPROXIMATOR])],
            &[DOUBLE, SINGLE, LAYERS, NORMS],
        ),
        TensorDialect::diffusers(
            &[DIFFUSERS_MARKS, any_of(&[APPROXIMATOR])],
            &[
                DIFFUSERS_DOUBLE,
                DIFFUSERS_SINGLE,
                LAYERS.named(
                    LAYERS.own,
                    &[names! {"in_layer" => "linear_1", "out_layer" => "linear_2"}],
                ),
                NORMS.named(NORMS.own, &[names! {"scale" => "weight"}]),
            ],
            &[DIFFUSERS_TEXT, DIFFUSERS_OUTER],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let out_channels = header.dim("final_layer.linear.weight", 0)?;
        Ok(Self {
            out_channels: Some(out_channels).filter(|out| *out != self.in_channels),
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let out_channels = self.out_channels.unwrap_or(self.in_channels);
        ensure!(
            out_channels == self.in_channels && out_channels % 4 == 0,
            "expected as many out_channels as in_channels, a multiple of 4, found {out_channels} and {}",
            self.in_channels
        );
        ensure!(
            self.approximator_num_channels % (2 * INPUT_PARTS) == 0,
            "expected an approximator_num_channels that is a multiple of {}, found {}",
            2 * INPUT_PARTS,
            self.approximator_num_channels
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        let layers = self.approximator_layers;
        vec![self.num_layers, self.num_single_layers, layers, layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, inner) = (self.dim(), self.approximator_hidden_dim);
        schema.linear("img_in", dim, self.in_channels);
        schema.linear("txt_in", dim, self.joint_attention_dim);
        let inputs = self.approximator_num_channels;
        schema.in_f32(|schema| schema.linear("distilled_guidance_layer.in_proj", inner, inputs));
        schema.blocks(LAYERS.own, self.approximator_layers, |schema| {
            schema.modulation("in_layer", inner, inner);
            schema.modulation("out_layer", inner, inner);
        });
        schema.in_f32(|schema| {
            schema.blocks(NORMS.own, self.approximator_layers, |schema| {
                schema.vector("scale", inner);
            });
        });
        schema.modulation("distilled_guidance_layer.out_proj", dim, inner);
        stream_blocks::add_blocks(schema, self.streams());
        schema.linear("final_layer.linear", self.in_channels, dim);
    }
}

impl DenoiserConfig for ChromaTransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.in_channels / 4
    }

    fn shape(&self) -> TransformerShape {
        self.streams().transformer(self.in_channels)
    }
}

impl ChromaTransformerConfig {
    pub fn streams(&self) -> StreamShape {
        let blocks = [self.num_layers, self.num_single_layers];
        StreamShape::own(self.dim(), self.attention_head_dim, blocks, None)
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
