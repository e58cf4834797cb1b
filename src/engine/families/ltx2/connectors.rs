//! Text connectors, one for each stream: a projection of all hidden states of each token, then a small transformer in which
//! learned registers take the place of padding.

use safelight_core::networks::ltx2::{Ltx2Connector, Ltx2ConnectorsConfig};
use tch::{Device, Kind, Tensor};

use super::attention::{HeadGatedAttention, feed_forward};
use super::positions::turns;
use crate::encoder_prefix::behind;
use crate::fault::FaultSite;
use crate::nn::{Linear, Mlp, gelu_tanh};
use crate::{Hooks, Weights, WeightsError};

/// Epsilon of every norm.
const EPS: f64 = 1e-6;

pub struct Ltx2TextConnectors {
    /// Of the video and of the sound.
    parts: [TextConnector; 2],
    config: Ltx2ConnectorsConfig,
    kind: Kind,
    device: Device,
}

impl Ltx2TextConnectors {
    /// `projections`, `connectors`: the files that have them, which may be one
    pub fn new(
        config: &Ltx2ConnectorsConfig,
        projections: &Weights,
        connectors: &Weights,
    ) -> Result<Self, WeightsError> {
        let prefix = Ltx2ConnectorsConfig::prefix(connectors.keys());
        let inside = behind(prefix, connectors);
        let states = config.caption_channels * config.text_proj_in_factor;
        let [video, audio] = config.connectors();
        let part = |connector| TextConnector::new(connector, states, projections, &inside);
        Ok(Self {
            parts: [part(video)?, part(audio)?],
            config: config.clone(),
            kind: connectors.kind(),
            device: connectors.device(),
        })
    }

    /// `states`: `(1, n, states · C)`, the hidden states of a text's tokens side by side, without padding; `length`: tokens
    /// with the registers -> the texts of the video and of the sound, `(1, length, D)` each; `None` when cancelled
    pub fn forward(&self, states: &Tensor, length: i64, hooks: &dyn Hooks) -> Option<[Tensor; 2]> {
        let tokens = states.size()[1];
        let channels = self.config.caption_channels;
        let states = states.to_device(self.device).to_kind(Kind::Float);
        let states = states.view([1, tokens, -1, channels]);
        let normed = states.rms_norm([channels], None::<&Tensor>, EPS);
        // 1 n s c -> 1 n (c s)
        let normed = normed.transpose(2, 3).flatten(2, 3);
        let shares = Tensor::arange(length, (Kind::Float, Device::Cpu));
        let shares = shares.unsqueeze(1) / self.config.connector_rope_base_seq_len as f64;
        let mut texts = self.parts.iter().map(|part| {
            let scale = (part.shape.dim as f64 / channels as f64).sqrt();
            let xs = (&normed * scale).to_kind(self.kind);
            part.forward(&xs, &shares, self.config.rope_theta, hooks)
        });
        Some([texts.next()??, texts.next()??])
    }
}

struct TextConnector {
    projection: Linear,
    /// `(registers, D)`
    registers: Tensor,
    blocks: Vec<(HeadGatedAttention, Mlp)>,
    shape: Ltx2Connector,
}

impl TextConnector {
    fn new(
        shape: Ltx2Connector,
        states: i64,
        projections: &Weights,
        connectors: &Weights,
    ) -> Result<Self, WeightsError> {
        let w = connectors / shape.name;
        let blocks = (0..shape.num_layers).map(|i| {
            let w = &w / "transformer_1d_blocks" / i;
            let attention = HeadGatedAttention::new(&shape.attention(), EPS, &(&w / "attn1"))?;
            Ok((attention, feed_forward(shape.dim, &(&w / "ff"))?))
        });
        Ok(Self {
            projection: Linear::new(states, shape.dim, &(projections / shape.projection))?,
            registers: w.tensor("learnable_registers", &[shape.registers, shape.dim])?,
            blocks: blocks.collect::<Result<_, WeightsError>>()?,
            shape,
        })
    }

    /// `xs`: `(1, n, states · C)`, `shares`: `(length, 1)` -> `(1, length, D)`
    fn forward(
        &self,
        xs: &Tensor,
        shares: &Tensor,
        theta: f64,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let Ltx2Connector { dim, heads, .. } = self.shape;
        let xs = self.projection.forward(xs);
        let (taken, length) = (xs.size()[1], shares.size()[0]);
        let rope = turns(shares, dim, heads, theta, xs.device());
        // Each register belongs to the places of one remainder.
        let places = Tensor::arange_start(taken, length, (Kind::Int64, xs.device()));
        let places = places.remainder(self.shape.registers);
        let registers = self.registers.index_select(0, &places).unsqueeze(0);
        let mut xs = Tensor::cat(&[xs, registers], 1);
        let norm = |xs: &Tensor| xs.rms_norm([dim], None::<&Tensor>, EPS);
        for (attention, layers) in &self.blocks {
            hooks.check_cancelled(FaultSite::Text)?;
            let normed = norm(&xs);
            xs += attention.forward(&normed, &normed, Some([&rope, &rope]));
            xs += layers.forward(&norm(&xs), gelu_tanh);
        }
        Some(norm(&xs))
    }
}
