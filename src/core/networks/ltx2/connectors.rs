//! The connectors between the text encoder and the two streams of the transformer, with the projections in front of them.
//!
//! Published files have the projections at their top level, and the connectors bare or with the transformer's prefix; either
//! may be in another file.

use super::Ltx2Attention;
use crate::networks::prelude::*;

/// By which connectors are known; the prefix of the transformer may be in front.
const REGISTERS: &str = "video_embeddings_connector.learnable_registers";
const VIDEO_PROJECTION: &str = "text_embedding_projection.video_aggregate_embed.weight";

network_config! {
    /// `connectors/config.json`, with the numbers of the published model where a key is left out.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Ltx2ConnectorsConfig {
        /// Width of the text encoder.
        pub caption_channels: i64 = 3840 => size(),
        /// Hidden states that are read of each token: all of them.
        pub text_proj_in_factor: i64 = 49 => size(),
        pub video_connector_num_attention_heads: i64 = 32 => size(),
        pub video_connector_attention_head_dim: i64 = 128 => size(),
        pub video_connector_num_layers: i64 = 8 => layers(),
        pub video_connector_num_learnable_registers: i64 = 128 => size(),
        pub audio_connector_num_attention_heads: i64 = 32 => size(),
        pub audio_connector_attention_head_dim: i64 = 64 => size(),
        pub audio_connector_num_layers: i64 = 8 => layers(),
        pub audio_connector_num_learnable_registers: i64 = 128 => size(),
        /// Tokens at the end of the rotary positions.
        pub connector_rope_base_seq_len: i64 = 4096 => size(),
        pub rope_theta: f64 = 10_000.0 => base(),
        pub rope_type: String = "split".to_owned() => only(),
        pub rope_double_precision: bool = true => only(),
        /// False in LTX-2, which has one projection for both.
        pub per_modality_projections: bool = true => only(),
    }
}

/// One of the two connectors: its sizes, and the names of it and of its projection.
#[derive(Clone, Copy, Debug)]
pub struct Ltx2Connector {
    pub dim: i64,
    pub heads: i64,
    pub num_layers: i64,
    pub registers: i64,
    pub name: &'static str,
    pub projection: &'static str,
}

impl Ltx2Connector {
    pub fn attention(&self) -> Ltx2Attention {
        Ltx2Attention {
            query_dim: self.dim,
            context_dim: self.dim,
            heads: self.heads,
            head_dim: self.dim / self.heads,
        }
    }
}

impl NetworkConfig for Ltx2ConnectorsConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("LTX2TextConnectors")
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = prefix_before(weights.names(), &[REGISTERS])
            .ok_or_else(|| not_a("LTX-2.3 text connectors", weights))?;
        let key = |name: &str| format!("{prefix}{name}");
        let header = NamedShapes::new(weights, &key);
        // Heads, their width, blocks and registers.
        let sizes = |name: &str| {
            let [registers, dim] = header.sizes(&format!("{name}.learnable_registers"))?;
            let block = format!("{name}.transformer_1d_blocks");
            let heads = header.dim(&format!("{block}.0.attn1.to_gate_logits.weight"), 0)?;
            let layers = header.count(&format!("{block}.{{}}.attn1.to_q.weight"));
            Ok::<_, String>([heads, dim / heads, layers, registers])
        };
        let [video, audio] = [
            sizes("video_embeddings_connector")?,
            sizes("audio_embeddings_connector")?,
        ];
        let published = Self::default();
        // The projections may be in another file.
        let states = weights.shape(VIDEO_PROJECTION);
        let states = states.and_then(|shape| Some(*shape.get(1)? as i64));
        Ok(Self {
            caption_channels: states.map_or(published.caption_channels, |width| {
                width / published.text_proj_in_factor
            }),
            video_connector_num_attention_heads: video[0],
            video_connector_attention_head_dim: video[1],
            video_connector_num_layers: video[2],
            video_connector_num_learnable_registers: video[3],
            audio_connector_num_attention_heads: audio[0],
            audio_connector_attention_head_dim: audio[1],
            audio_connector_num_layers: audio[2],
            audio_connector_num_learnable_registers: audio[3],
            ..published
        })
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        for connector in self.connectors() {
            let width = connector.dim / connector.heads;
            ensure!(
                width % 2 == 0,
                "expected connectors with heads of an even width, found {width}"
            );
        }
        Ok(())
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        let prefix = Self::prefix(weights.names());
        let schema = self.schema();
        schema.renamed(|name| {
            if name.starts_with("text_embedding_projection.") {
                name.to_owned()
            } else {
                format!("{prefix}{name}")
            }
        })
    }
}

impl Ltx2ConnectorsConfig {
    /// Connectors of the video and of the sound.
    pub fn connectors(&self) -> [Ltx2Connector; 2] {
        [
            Ltx2Connector {
                dim: self.video_connector_num_attention_heads
                    * self.video_connector_attention_head_dim,
                heads: self.video_connector_num_attention_heads,
                num_layers: self.video_connector_num_layers,
                registers: self.video_connector_num_learnable_registers,
                name: "video_embeddings_connector",
                projection: "text_embedding_projection.video_aggregate_embed",
            },
            Ltx2Connector {
                dim: self.audio_connector_num_attention_heads
                    * self.audio_connector_attention_head_dim,
                heads: self.audio_connector_num_attention_heads,
                num_layers: self.audio_connector_num_layers,
                registers: self.audio_connector_num_learnable_registers,
                name: "audio_embeddings_connector",
                projection: "text_embedding_projection.audio_aggregate_embed",
            },
        ]
    }

    /// Prefix of the connectors among the keys of a file.
    pub fn prefix<'a>(keys: impl Iterator<Item = &'a str>) -> &'a str {
        prefix_before(keys, &[REGISTERS]).unwrap_or_default()
    }

    fn schema(&self) -> Schema {
        let mut schema = Schema::default();
        let states = self.caption_channels * self.text_proj_in_factor;
        for connector in self.connectors() {
            let dim = connector.dim;
            schema.linear(connector.projection, dim, states);
            let registers = format!("{}.learnable_registers", connector.name);
            schema.add(registers, &[connector.registers, dim], TensorRole::Fixed);
            let blocks = format!("{}.transformer_1d_blocks", connector.name);
            schema.blocks(&blocks, connector.num_layers, |schema| {
                connector.attention().add_tensors(schema, "attn1");
                schema.linear("ff.net.0.proj", 4 * dim, dim);
                schema.linear("ff.net.2", dim, 4 * dim);
            });
        }
        schema
    }
}
