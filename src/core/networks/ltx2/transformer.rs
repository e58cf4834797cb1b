//! The transformer: config, tensor names of the authors and of diffusers, and schema.

use crate::networks::prelude::*;
use crate::networks::stream_blocks::SINUSOIDS;

network_config! {
    /// `transformer/config.json`, with the numbers of the published model where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Ltx2TransformerConfig {
        /// Channels of the video's latents.
        pub in_channels: i64 = 128 => dim("patchify_proj.weight", 1),
        pub num_attention_heads: i64 = 32 => dim("transformer_blocks.0.attn1.to_gate_logits.weight", 0),
        pub attention_head_dim: i64 = 128 => size(),
        /// Numbers of a token of the sound: its latent channels times their frequencies.
        pub audio_in_channels: i64 = 128 => dim("audio_patchify_proj.weight", 1),
        pub audio_num_attention_heads: i64 = 32 => dim("transformer_blocks.0.audio_attn1.to_gate_logits.weight", 0),
        pub audio_attention_head_dim: i64 = 64 => size(),
        pub num_layers: i64 = 48 => count("transformer_blocks.{}.attn1.to_q.weight"),
        /// Length of a video at the end of the rotary positions, in seconds.
        pub pos_embed_max_pos: i64 = 20 => size(),
        pub audio_pos_embed_max_pos: i64 = 20 => size(),
        /// Edges of a frame at the end of the rotary positions, in pixels.
        pub base_height: i64 = 2048 => size(),
        pub base_width: i64 = 2048 => size(),
        pub rope_theta: f64 = 10_000.0 => base(),
        pub rope_type: String = "split".to_owned() => only(),
        pub rope_double_precision: bool = true => only(),
        pub norm_eps: f64 = 1e-6 => epsilon(),
        /// False in LTX-2, which has neither gates nor modulated texts.
        pub gated_attn: bool = true => only(),
        pub cross_attn_mod: bool = true => only(),
        pub use_prompt_embeddings: bool = false => only(),
        /// True in LTX-2.5, as is a feed-forward layer without biases.
        pub use_keyframes_abs_pos_embedding: bool = false => only(),
        pub ff_bias: bool = true => only(),
        pub quantization_config: Option<Value> = None => quantization(),
    }
}

/// One of the two streams: its sizes, and the names of its layers.
#[derive(Clone, Copy, Debug)]
pub struct Ltx2Stream {
    pub dim: i64,
    pub heads: i64,
    pub head_dim: i64,
    /// Channels of a token's latents.
    pub channels: i64,
    /// Beginning of most names.
    pub prefix: &'static str,
    /// Attention of this stream to the other.
    pub cross: &'static str,
    /// Scales and shifts of both attentions between the streams, and the gate of [`Self::cross`]: in a block.
    pub cross_table: &'static str,
    /// Layers that make these of a timestep.
    pub cross_shift: &'static str,
    pub cross_gate: &'static str,
}

/// Sizes of one attention: widths of its two inputs, and heads.
#[derive(Clone, Copy, Debug)]
pub struct Ltx2Attention {
    pub query_dim: i64,
    pub context_dim: i64,
    pub heads: i64,
    pub head_dim: i64,
}

impl Ltx2Attention {
    pub fn inner_dim(&self) -> i64 {
        self.heads * self.head_dim
    }

    pub(super) fn add_tensors(&self, schema: &mut Schema, name: &str) {
        let inner = self.inner_dim();
        for (part, inputs) in [
            ("to_q", self.query_dim),
            ("to_k", self.context_dim),
            ("to_v", self.context_dim),
        ] {
            schema.linear(&format!("{name}.{part}"), inner, inputs);
        }
        schema.linear(&format!("{name}.to_out.0"), self.query_dim, inner);
        schema.linear(
            &format!("{name}.to_gate_logits"),
            self.heads,
            self.query_dim,
        );
        for norm in ["q_norm", "k_norm"] {
            schema.vector(&format!("{name}.{norm}.weight"), inner);
        }
    }
}

impl Ltx2TransformerConfig {
    /// Streams of the video and of the sound.
    pub fn streams(&self) -> [Ltx2Stream; 2] {
        [
            Ltx2Stream {
                dim: self.num_attention_heads * self.attention_head_dim,
                heads: self.num_attention_heads,
                head_dim: self.attention_head_dim,
                channels: self.in_channels,
                prefix: "",
                cross: "audio_to_video_attn",
                cross_table: "scale_shift_table_a2v_ca_video",
                cross_shift: "av_ca_video_scale_shift_adaln_single",
                cross_gate: "av_ca_a2v_gate_adaln_single",
            },
            Ltx2Stream {
                dim: self.audio_num_attention_heads * self.audio_attention_head_dim,
                heads: self.audio_num_attention_heads,
                head_dim: self.audio_attention_head_dim,
                channels: self.audio_in_channels,
                prefix: "audio_",
                cross: "video_to_audio_attn",
                cross_table: "scale_shift_table_a2v_ca_audio",
                cross_shift: "av_ca_audio_scale_shift_adaln_single",
                cross_gate: "av_ca_v2a_gate_adaln_single",
            },
        ]
    }
}

impl Ltx2Stream {
    /// Attention to itself, and to its text, which is as wide.
    pub fn own_attention(&self) -> Ltx2Attention {
        Ltx2Attention {
            query_dim: self.dim,
            context_dim: self.dim,
            heads: self.heads,
            head_dim: self.head_dim,
        }
    }

    /// Attention to the `other` stream, with the heads of the sound either way.
    pub fn cross_attention(&self, other: &Self, audio: &Self) -> Ltx2Attention {
        Ltx2Attention {
            query_dim: self.dim,
            context_dim: other.dim,
            heads: audio.heads,
            head_dim: audio.head_dim,
        }
    }

    /// Layers that modulate this stream, and the vectors that each makes of a timestep.
    pub fn modulations(&self) -> [(String, i64); 4] {
        [
            (format!("{}adaln_single", self.prefix), 9),
            (format!("{}prompt_adaln_single", self.prefix), 2),
            (self.cross_shift.to_owned(), 4),
            (self.cross_gate.to_owned(), 1),
        ]
    }

    fn add_block(&self, other: &Self, audio: &Self, schema: &mut Schema) {
        let (prefix, dim) = (self.prefix, self.dim);
        for attention in ["attn1", "attn2"] {
            let name = format!("{prefix}{attention}");
            self.own_attention().add_tensors(schema, &name);
        }
        let cross = self.cross_attention(other, audio);
        cross.add_tensors(schema, self.cross);
        schema.linear(&format!("{prefix}ff.net.0.proj"), 4 * dim, dim);
        schema.linear(&format!("{prefix}ff.net.2"), dim, 4 * dim);
        schema.in_f32(|schema| {
            for (table, rows) in [
                (format!("{prefix}scale_shift_table"), 9),
                (format!("{prefix}prompt_scale_shift_table"), 2),
                (self.cross_table.to_owned(), 5),
            ] {
                schema.add(table, &[rows, dim], TensorRole::Fixed);
            }
        });
    }
}

impl TransformerConfig for Ltx2TransformerConfig {
    const LABEL: &'static str = "LTX-2.3 transformer";
    const CLASSES: &'static [&'static str] = &["LTX2VideoTransformer3DModel"];
    const MORE_TOPS: Option<&'static [&'static str]> =
        Some(&["video_embeddings_connector", "audio_embeddings_connector"]);
    const DIALECTS: &'static [TensorDialect] = &[
        TensorDialect::own(
            &[any_of(&[
                "audio_patchify_proj.weight",
                "audio_adaln_single.linear.weight",
            ])],
            &[BLOCKS],
        ),
        TensorDialect::diffusers(
            &[any_of(&[
                "audio_proj_in.weight",
                "audio_time_embed.linear.weight",
            ])],
            &[BLOCKS.named("transformer_blocks", DIFFUSERS_LAYERS)],
            &[DIFFUSERS_OUTER],
        ),
    ];

    fn completed(self, header: &NamedShapes<'_>, _authors: Option<&Value>) -> Result<Self, String> {
        let width = |layer: &str, heads: i64| {
            let rows = header.dim(&format!("transformer_blocks.0.{layer}.to_q.weight"), 0)?;
            ensure!(
                rows % heads == 0,
                "expected rows of {layer}.to_q that {heads} heads divide, found {rows}"
            );
            Ok::<_, String>(rows / heads)
        };
        Ok(Self {
            attention_head_dim: width("attn1", self.num_attention_heads)?,
            audio_attention_head_dim: width("audio_attn1", self.audio_num_attention_heads)?,
            ..self
        })
    }

    fn check_numbers(&self) -> Result<(), String> {
        for (name, width) in [
            ("attention_head_dim", self.attention_head_dim),
            ("audio_attention_head_dim", self.audio_attention_head_dim),
        ] {
            ensure!(width % 2 == 0, "expected an even {name}, found {width}");
        }
        let heads = [self.num_attention_heads, self.audio_num_attention_heads];
        ensure!(
            heads[0] == heads[1],
            "expected as many num_attention_heads as audio_num_attention_heads, found {} and {}",
            heads[0],
            heads[1]
        );
        Ok(())
    }

    fn block_counts(&self) -> Vec<i64> {
        vec![self.num_layers]
    }

    fn add_tensors(&self, schema: &mut Schema) {
        let [video, audio] = self.streams();
        for stream in [&video, &audio] {
            let (prefix, dim) = (stream.prefix, stream.dim);
            schema.linear(&format!("{prefix}patchify_proj"), dim, stream.channels);
            for (name, vectors) in stream.modulations() {
                schema.in_f32(|schema| {
                    let embedder = format!("{name}.emb.timestep_embedder");
                    schema.modulation(&format!("{embedder}.linear_1"), dim, SINUSOIDS);
                    schema.modulation(&format!("{embedder}.linear_2"), dim, dim);
                });
                schema.modulation(&format!("{name}.linear"), vectors * dim, dim);
            }
        }
        schema.blocks("transformer_blocks", self.num_layers, |schema| {
            video.add_block(&audio, &audio, schema);
            audio.add_block(&video, &audio, schema);
        });
        for stream in [&video, &audio] {
            let (prefix, dim) = (stream.prefix, stream.dim);
            let table = format!("{prefix}scale_shift_table");
            schema.in_f32(|schema| schema.add(table, &[2, dim], TensorRole::Fixed));
            schema.linear(&format!("{prefix}proj_out"), stream.channels, dim);
        }
    }
}

impl DenoiserConfig for Ltx2TransformerConfig {
    fn latent_channels(&self) -> i64 {
        self.in_channels
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

pub type Ltx2TransformerKeys = TensorKeys<Ltx2TransformerConfig>;

const BLOCKS: BlockList = BlockList::shared("transformer_blocks");

const DIFFUSERS_LAYERS: &[&[NamePair]] = &[names! {
    "attn1.q_norm" => "attn1.norm_q",
    "attn1.k_norm" => "attn1.norm_k",
    "attn2.q_norm" => "attn2.norm_q",
    "attn2.k_norm" => "attn2.norm_k",
    "audio_attn1.q_norm" => "audio_attn1.norm_q",
    "audio_attn1.k_norm" => "audio_attn1.norm_k",
    "audio_attn2.q_norm" => "audio_attn2.norm_q",
    "audio_attn2.k_norm" => "audio_attn2.norm_k",
    "audio_to_video_attn.q_norm" => "audio_to_video_attn.norm_q",
    "audio_to_video_attn.k_norm" => "audio_to_video_attn.norm_k",
    "video_to_audio_attn.q_norm" => "video_to_audio_attn.norm_q",
    "video_to_audio_attn.k_norm" => "video_to_audio_attn.norm_k",
    "scale_shift_table_a2v_ca_video" => "video_a2v_cross_attn_scale_shift_table",
    "scale_shift_table_a2v_ca_audio" => "audio_a2v_cross_attn_scale_shift_table",
}];
const DIFFUSERS_OUTER: &[NamePair] = names! {
    "patchify_proj" => "proj_in",
    "audio_patchify_proj" => "audio_proj_in",
    "adaln_single" => "time_embed",
    "audio_adaln_single" => "audio_time_embed",
    "prompt_adaln_single" => "prompt_adaln",
    "audio_prompt_adaln_single" => "audio_prompt_adaln",
    "av_ca_video_scale_shift_adaln_single" => "av_cross_attn_video_scale_shift",
    "av_ca_audio_scale_shift_adaln_single" => "av_cross_attn_audio_scale_shift",
    "av_ca_a2v_gate_adaln_single" => "av_cross_attn_video_a2v_gate",
    "av_ca_v2a_gate_adaln_single" => "av_cross_attn_audio_v2a_gate",
};
