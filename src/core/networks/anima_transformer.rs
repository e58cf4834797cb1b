//! Anima's transformer, which is Cosmos Predict2's: config, tensor names of the authors and of diffusers, and schema.
//!
//! Readers ask with the authors' names. Nothing has a bias.

use super::stream_blocks::HEAD_DIM;
use crate::networks::prelude::*;

/// Latents that make one token: over time, height and width.
const PATCH: [i64; 3] = [1, 2, 2];

network_config! {
    /// `transformer/config.json`, with the published model's numbers where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct AnimaTransformerConfig {
        /// Channels of the latents. The model reads one more, which marks padding.
        pub in_channels: i64 = 16 => size(),
        pub out_channels: i64 = 16 => size(),
        pub num_attention_heads: i64 = 16 => size(),
        pub attention_head_dim: i64 = HEAD_DIM => width("blocks.0.self_attn.q_norm.weight"),
        pub num_layers: i64 = 28 => blocks("blocks"),
        /// Width inside the feed-forward layers, in widths of the network.
        pub mlp_ratio: f64 = 4.0 => within(0.1, 64.0),
        /// Width of the text's embeddings.
        pub text_embed_dim: i64 = 1024 => dim("blocks.0.cross_attn.k_proj.weight", 1),
        /// Width between the two layers that make a modulation (AdaLN-LoRA).
        pub adaln_lora_dim: i64 = 256 => dim("blocks.0.adaln_modulation_mlp.1.weight", 0),
        pub patch_size: [i64; 3] = PATCH => only(),
        /// Factors by which time, height and width exceed those of the base frequencies (NTK).
        pub rope_scale: [f64; 3] = [1.0, 4.0, 4.0],
        pub concat_padding_mask: bool = true => only(),
        pub extra_pos_embed_type: Option<String> = None => only(),
        pub use_crossattn_projection: bool = false => only(),
        pub img_context_dim_in: Option<i64> = None => only(),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

/// First name components of tensors that the network has no use for: the text adapter's, positions, and counters of the
/// training.
pub const UNREAD: &[&str] = &[
    "llm_adapter",
    "pos_embedder",
    "accum_video_sample_counter",
    "accum_image_sample_counter",
    "accum_iteration",
    "accum_train_in_hours",
];
/// Last component of others.
pub const UNREAD_END: &str = "_extra_state";

/// Prefixes of files with a transformer and its text adapter.
pub(super) const PREFIXES: &[&str] = &[
    "",
    "net.",
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
];

impl TransformerConfig for AnimaTransformerConfig {
    const LABEL: &'static str = "transformer of Anima";
    const CLASSES: &'static [&'static str] = &["CosmosTransformer3DModel"];
    const PREFIXES: &'static [&'static str] = PREFIXES;
    const MORE_TOPS: Option<&'static [&'static str]> = Some(UNREAD);
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::own(
            &[two_of(&[
                "x_embedder.proj.1.weight",
                "t_embedder.1.linear_1.weight",
                "blocks.0.adaln_modulation_mlp.1.weight",
            ])],
            &[BLOCKS],
        ),
        TensorDialect::diffusers(
            &[two_of(&[
                "patch_embed.proj.weight",
                "time_embed.t_embedder.linear_1.weight",
                "transformer_blocks.0.norm3.linear_1.weight",
            ])],
            &[BLOCKS.named("transformer_blocks", &[DIFFUSERS_LAYERS])],
            &[names! {
                "x_embedder.proj.1" => "patch_embed.proj",
                "t_embedder.1" => "time_embed.t_embedder",
                "t_embedding_norm" => "time_embed.norm",
                "final_layer.adaln_modulation.1" => "norm_out.linear_1",
                "final_layer.adaln_modulation.2" => "norm_out.linear_2",
                "final_layer.linear" => "proj_out",
            }],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let [dim, inputs] = header.sizes("x_embedder.proj.1.weight")?;
        let outputs = header.dim("final_layer.linear.weight", 0)?;
        let mlp_dim = header.dim("blocks.0.mlp.layer1.weight", 0)?;
        let patch: i64 = PATCH.iter().product();
        ensure!(
            inputs % patch == 0 && outputs % patch == 0,
            "expected tokens of {patch} latents, found {inputs} inputs and {outputs} outputs"
        );
        Ok(Self {
            in_channels: inputs / patch - 1,
            out_channels: outputs / patch,
            num_attention_heads: heads(dim, self.attention_head_dim)?,
            mlp_ratio: mlp_dim as f64 / dim as f64,
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        let (inputs, outputs) = (self.in_channels, self.out_channels);
        ensure!(
            inputs == outputs,
            "expected as many in_channels as out_channels, as models of videos have more, found {inputs} and {outputs}"
        );
        let head_dim = self.attention_head_dim;
        ensure!(
            head_dim % 2 == 0 && head_dim >= 12,
            "expected an even attention_head_dim of at least 12, for three axes of positions, found {head_dim}"
        );
        ensure!(
            self.rope_scale
                .iter()
                .all(|scale| (0.1..=100.0).contains(scale)),
            "expected a rope_scale of three numbers between 0.1 and 100, found {:?}",
            self.rope_scale
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.num_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let (dim, lora, patch) = (
            self.dim(),
            self.adaln_lora_dim,
            PATCH.iter().product::<i64>(),
        );
        let seldom = |schema: &mut Schema, name: &str, rows, columns| {
            let name = format!("{name}.weight");
            schema.add(name, &[rows, columns], TensorRole::Modulation);
        };
        schema.matrix("x_embedder.proj.1", dim, patch * (self.in_channels + 1));
        seldom(schema, "t_embedder.1.linear_1", dim, dim);
        seldom(schema, "t_embedder.1.linear_2", 3 * dim, dim);
        schema.vector("t_embedding_norm.weight", dim);
        schema.blocks("blocks", self.num_layers, |schema| {
            for (attention, context) in [("self_attn", dim), ("cross_attn", self.text_embed_dim)] {
                for (name, input) in [
                    ("q_proj", dim),
                    ("k_proj", context),
                    ("v_proj", context),
                    ("output_proj", dim),
                ] {
                    schema.matrix(&format!("{attention}.{name}"), dim, input);
                }
                for name in ["q_norm", "k_norm"] {
                    schema.vector(
                        &format!("{attention}.{name}.weight"),
                        self.attention_head_dim,
                    );
                }
            }
            for part in MODULATED {
                seldom(schema, &format!("adaln_modulation_{part}.1"), lora, dim);
                seldom(schema, &format!("adaln_modulation_{part}.2"), 3 * dim, lora);
            }
            schema.matrix("mlp.layer1", self.mlp_dim(), dim);
            schema.matrix("mlp.layer2", dim, self.mlp_dim());
        });
        seldom(schema, "final_layer.adaln_modulation.1", lora, dim);
        seldom(schema, "final_layer.adaln_modulation.2", 2 * dim, lora);
        schema.matrix("final_layer.linear", patch * self.out_channels, dim);
    }
}

impl DenoiserConfig for AnimaTransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.out_channels
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

impl AnimaTransformerConfig {
    /// Width inside the feed-forward layers.
    pub fn mlp_dim(&self) -> i64 {
        (self.dim() as f64 * self.mlp_ratio) as i64
    }

    /// Rotary dimensions of a head for time, height and width, and the base of the frequencies of each.
    pub fn rope_axes(&self) -> [(i64, f64); 3] {
        let plane = self.attention_head_dim / 6 * 2;
        let dims = [self.attention_head_dim - 2 * plane, plane, plane];
        std::array::from_fn(|axis| {
            let dim = dims[axis] as f64;
            (
                dims[axis],
                ROPE_THETA * self.rope_scale[axis].powf(dim / (dim - 2.0)),
            )
        })
    }
}

/// Parts of a block with a modulation each, in their order.
pub const MODULATED: [&str; 3] = ["self_attn", "cross_attn", "mlp"];

/// Base of rotary frequencies before it is scaled.
const ROPE_THETA: f64 = 10_000.0;

const BLOCKS: BlockList = BlockList::shared("blocks");

const DIFFUSERS_LAYERS: &[NamePair] = names! {
    "self_attn.q_proj" => "attn1.to_q",
    "self_attn.k_proj" => "attn1.to_k",
    "self_attn.v_proj" => "attn1.to_v",
    "self_attn.output_proj" => "attn1.to_out.0",
    "self_attn.q_norm" => "attn1.norm_q",
    "self_attn.k_norm" => "attn1.norm_k",
    "cross_attn.q_proj" => "attn2.to_q",
    "cross_attn.k_proj" => "attn2.to_k",
    "cross_attn.v_proj" => "attn2.to_v",
    "cross_attn.output_proj" => "attn2.to_out.0",
    "cross_attn.q_norm" => "attn2.norm_q",
    "cross_attn.k_norm" => "attn2.norm_k",
    "adaln_modulation_self_attn.1" => "norm1.linear_1",
    "adaln_modulation_self_attn.2" => "norm1.linear_2",
    "adaln_modulation_cross_attn.1" => "norm2.linear_1",
    "adaln_modulation_cross_attn.2" => "norm2.linear_2",
    "adaln_modulation_mlp.1" => "norm3.linear_1",
    "adaln_modulation_mlp.2" => "norm3.linear_2",
    "mlp.layer1" => "ff.net.0.proj",
    "mlp.layer2" => "ff.net.2",
};
