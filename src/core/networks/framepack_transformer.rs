//! FramePack's transformer: config, tensor names in three dialects, and schema.
//!
//! The transformer of HunyuanVideo with a packed history; the original and F1 are the same network. Files have the names of
//! diffusers, in which it is published, of HunyuanVideo's authors, or of ComfyUI, which equal Flux's for the shared
//! parts and which readers use. If diffusers has several matrices instead of one, readers request parts of that one:
//! `img_attn.qkv.q`, `linear1.mlp`.

use super::stream_blocks::{
    self, AXES, DIFFUSERS_DOUBLE, DIFFUSERS_OUTER, DIFFUSERS_SINGLE, DOUBLE, GUIDANCE, HEAD_DIM,
    HUNYUAN_DOUBLE, HUNYUAN_OUTER, HUNYUAN_SINGLE, ModulationInputs, SINGLE, SINUSOIDS,
    StreamShape,
};
use crate::networks::prelude::*;

/// Latents along an edge of a token; in time it is one.
pub const PATCH: i64 = 2;

network_config! {
    /// `transformer/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct FramePackTransformerConfig {
        pub in_channels: i64 = 16 => size(),
        pub out_channels: Option<i64> = Some(16) => size(),
        pub num_attention_heads: i64 = 24 => size(),
        pub attention_head_dim: i64 = HEAD_DIM => size(),
        pub num_layers: i64 = 20 => blocks(DOUBLE.own),
        pub num_single_layers: i64 = 40 => blocks(SINGLE.own),
        pub num_refiner_layers: i64 = 2 => blocks(REFINER.own),
        pub mlp_ratio: f64 = 4.0 => within(1.0, 16.0),
        pub patch_size: i64 = PATCH => only(),
        pub patch_size_t: i64 = 1 => only(),
        pub qk_norm: Option<String> = Some("rms_norm".to_owned()) => only(),
        /// Guidance is an input of the model.
        pub guidance_embeds: bool = true => has(GUIDANCE),
        /// Width of the text's embeddings.
        pub text_embed_dim: i64 = 4096 => dim("txt_in.input_embedder.weight", 1),
        /// Width of the pooled text.
        pub pooled_projection_dim: i64 = 768 => dim("vector_in.in_layer.weight", 1),
        pub rope_theta: f64 = 256.0 => base(),
        /// Rotary dimensions of a head for frame, row and column.
        pub rope_axes_dim: [i64; 3] = AXES => axes(),
        pub image_condition_type: Option<String> = None => only(),
        // diffusers says no, and every published file has both. Whether they are there the schema says.
        pub has_image_proj: bool = true => only(),
        /// Width of the image's embeddings.
        pub image_proj_dim: i64 = 1152 => dim("image_projection.up.weight", 1),
        pub has_clean_x_embedder: bool = true => only(),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

impl TransformerConfig for FramePackTransformerConfig {
    const LABEL: &'static str = "FramePack transformer";
    const CLASSES: &'static [&'static str] = &[
        "HunyuanVideoFramepackTransformer3DModel",
        "HunyuanVideoTransformer3DModelPacked",
    ];
    const PREFIXES: &'static [&'static str] = &[
        "",
        "model.diffusion_model.",
        "diffusion_model.",
        "transformer.",
        "model.model.",
    ];
    const MORE_TOPS: Option<&'static [&'static str]> = None;
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::diffusers(
            &[
                any_of(&[MARK]),
                two_of(&[
                    "x_embedder.proj.weight",
                    "context_embedder.proj_in.weight",
                    "proj_out.weight",
                ]),
            ],
            &[
                REFINER.named(
                    "context_embedder.token_refiner.refiner_blocks",
                    &[DIFFUSERS_REFINER_LAYERS],
                ),
                DIFFUSERS_DOUBLE,
                DIFFUSERS_SINGLE,
            ],
            &[DIFFUSERS_TEXT, DIFFUSERS_OUTER],
        ),
        // The names of HunyuanVideo's authors.
        TensorDialect {
            is_diffusers: false,
            is_split: false,
            marks: &[
                any_of(&[MARK]),
                ORIGINAL_MARKS,
                any_of(&[
                    "time_in.mlp.0.weight",
                    "double_blocks.0.img_attn_qkv.weight",
                ]),
            ],
            lists: &[
                REFINER.named(REFINER.own, &[HUNYUAN_REFINER_LAYERS]),
                HUNYUAN_DOUBLE,
                HUNYUAN_SINGLE,
            ],
            outer: &[HUNYUAN_TEXT, HUNYUAN_OUTER],
            patterns: &[],
        },
        // ComfyUI's names, which are the readers'.
        TensorDialect::own(
            &[any_of(&[MARK]), ORIGINAL_MARKS],
            &[REFINER, DOUBLE, SINGLE],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let [dim, in_channels, patch_size_t, rows, patch_size] =
            header.sizes("img_in.proj.weight")?;
        let head_dim = header.width("double_blocks.0.img_attn.norm.query_norm.scale")?;
        ensure!(
            head_dim == HEAD_DIM && dim % HEAD_DIM == 0,
            "expected heads of {HEAD_DIM}, as no config.json says how the places of others turn, found {head_dim} of a width of {dim}"
        );
        let outputs = header.dim("final_layer.linear.weight", 0)?;
        let mlp = header.dim("double_blocks.0.img_mlp.0.weight", 0)?;
        let patch = patch_size_t.saturating_mul(rows).saturating_mul(patch_size);
        Ok(Self {
            in_channels,
            out_channels: Some(outputs / patch),
            num_attention_heads: dim / HEAD_DIM,
            mlp_ratio: mlp as f64 / dim as f64,
            patch_size,
            patch_size_t,
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let (inputs, outputs) = (self.in_channels, self.out_channels());
        ensure!(
            inputs == outputs,
            "expected as many in_channels as out_channels, found {inputs} and {outputs}"
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![
            self.num_refiner_layers,
            self.num_layers,
            self.num_single_layers,
        ]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        self.add_outer(schema);
        self.add_text(schema);
        stream_blocks::add_blocks(schema, self.streams());
    }
}

impl DenoiserConfig for FramePackTransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.in_channels
    }

    fn shape(&self) -> TransformerShape {
        self.streams().transformer(self.in_channels)
    }
}

impl FramePackTransformerConfig {
    pub fn streams(&self) -> StreamShape {
        let blocks = [self.num_layers, self.num_single_layers];
        StreamShape {
            mlp_dim: (self.dim() as f64 * self.mlp_ratio) as i64,
            ..StreamShape::own(
                self.dim(),
                self.attention_head_dim,
                blocks,
                self.modulation_inputs(),
            )
        }
    }

    pub fn modulation_inputs(&self) -> ModulationInputs {
        ModulationInputs {
            pooled: Some(self.pooled_projection_dim),
            guidance_embeds: self.guidance_embeds,
        }
    }

    /// Channels of the latents that the model gives back.
    pub fn out_channels(&self) -> i64 {
        self.out_channels.unwrap_or(self.in_channels)
    }

    /// Width inside the feed-forward layers of the text's refiner.
    pub fn refiner_mlp_dim(&self) -> i64 {
        4 * self.dim()
    }

    /// Width inside the projection of the image's embeddings.
    pub fn image_mlp_dim(&self) -> i64 {
        3 * self.dim()
    }

    fn add_outer(&self, schema: &mut Schema) {
        let (dim, channels) = (self.dim(), self.in_channels);
        for (name, factor) in [
            ("img_in.proj", 1),
            ("clean_x_embedder.proj", 1),
            ("clean_x_embedder.proj_2x", 2),
            ("clean_x_embedder.proj_4x", 4),
        ] {
            let edge = factor * PATCH;
            schema.conv(name, &[dim, channels, factor, edge, edge]);
        }
        let middle = self.image_mlp_dim();
        schema.linear("image_projection.up", middle, self.image_proj_dim);
        schema.linear("image_projection.down", dim, middle);
        schema.in_f32(|schema| {
            stream_blocks::add_embedders(schema, dim, self.modulation_inputs());
            schema.modulation("final_layer.adaLN_modulation.1", 2 * dim, dim);
            let outputs = PATCH * PATCH * self.out_channels();
            schema.linear("final_layer.linear", outputs, dim);
        });
    }

    fn add_text(&self, schema: &mut Schema) {
        let (dim, text) = (self.dim(), self.text_embed_dim);
        schema.linear("txt_in.input_embedder", dim, text);
        schema.in_f32(|schema| {
            stream_blocks::embedder(schema, "txt_in.t_embedder", dim, SINUSOIDS);
            stream_blocks::embedder(schema, "txt_in.c_embedder", dim, text);
        });
        let mlp_dim = self.refiner_mlp_dim();
        schema.blocks(REFINER.own, self.num_refiner_layers, |schema| {
            schema.in_f32(|schema| {
                schema.norm("norm1", dim);
                schema.norm("norm2", dim);
            });
            let parts = [("q", dim), ("k", dim), ("v", dim)];
            schema.fused("self_attn.qkv", &parts, |schema, name, rows| {
                schema.linear(name, rows, dim);
            });
            schema.linear("self_attn.proj", dim, dim);
            schema.linear("mlp.0", mlp_dim, dim);
            schema.linear("mlp.2", dim, mlp_dim);
            schema.modulation("adaLN_modulation.1", 2 * dim, dim);
        });
    }
}

pub type FramePackTransformerKeys = TensorKeys<FramePackTransformerConfig>;

const REFINER: BlockList = BlockList::shared("txt_in.individual_token_refiner.blocks");

/// A tensor that no other network derived from HunyuanVideo has.
const MARK: &str = "clean_x_embedder.proj.weight";
/// Two of three are enough for a file that lacks one.
const ORIGINAL_MARKS: MarkGroup = two_of(&[
    "img_in.proj.weight",
    "txt_in.input_embedder.weight",
    "final_layer.linear.weight",
]);

const DIFFUSERS_TEXT: &[NamePair] = names! {
    "txt_in.input_embedder" => "context_embedder.proj_in",
    "txt_in.t_embedder.in_layer" => "context_embedder.time_text_embed.timestep_embedder.linear_1",
    "txt_in.t_embedder.out_layer" => "context_embedder.time_text_embed.timestep_embedder.linear_2",
    "txt_in.c_embedder.in_layer" => "context_embedder.time_text_embed.text_embedder.linear_1",
    "txt_in.c_embedder.out_layer" => "context_embedder.time_text_embed.text_embedder.linear_2",
};
const DIFFUSERS_REFINER_LAYERS: &[NamePair] = names! {
    "self_attn.qkv.q" => "attn.to_q",
    "self_attn.qkv.k" => "attn.to_k",
    "self_attn.qkv.v" => "attn.to_v",
    "self_attn.proj" => "attn.to_out.0",
    "mlp.0" => "ff.net.0.proj",
    "mlp.2" => "ff.net.2",
    "adaLN_modulation.1" => "norm_out.linear",
};
const HUNYUAN_TEXT: &[NamePair] = names! {
    "txt_in.t_embedder.in_layer" => "txt_in.t_embedder.mlp.0",
    "txt_in.t_embedder.out_layer" => "txt_in.t_embedder.mlp.2",
    "txt_in.c_embedder.in_layer" => "txt_in.c_embedder.linear_1",
    "txt_in.c_embedder.out_layer" => "txt_in.c_embedder.linear_2",
};
const HUNYUAN_REFINER_LAYERS: &[NamePair] = names! {
    "self_attn.qkv" => "self_attn_qkv",
    "self_attn.proj" => "self_attn_proj",
    "mlp.0" => "mlp.fc1",
    "mlp.2" => "mlp.fc2",
};
