//! The transformer: a stream of video tokens and one of sound tokens, which attend to themselves, to their texts and to each
//! other in every block.
//!
//! Each stream is modulated by its own noise level, and in the attention between the streams by that of the other one.

use safelight_core::networks::ltx2::{Ltx2Stream, Ltx2TransformerConfig};
use safelight_core::networks::stream_blocks::SINUSOIDS;
use tch::{Device, Kind, Tensor};

use super::attention::{HeadGatedAttention, feed_forward};
use super::positions::Ltx2Positions;
use crate::fault::FaultSite;
use crate::nn::{
    FusedNorm, GateArgs, Linear, Mlp, Rope, TokenRows, gated_add, gelu_tanh, layer_norm,
    rms_norm_shifted, timestep_embedding,
};
use crate::parallel::TokenShards;
use crate::{Hooks, Weights, WeightsError};

/// Epsilon of the last norm.
const LAST_EPS: f64 = 1e-6;

pub struct Ltx2Transformer {
    /// Of the video and of the sound, as everywhere here.
    ends: [StreamEnds; 2],
    blocks: Vec<[StreamBlock; 2]>,
    kind: Kind,
    device: Device,
}

/// Inputs of a call.
pub struct Ltx2Inputs<'a> {
    /// `(1, S, 128)` and `(1, L, 128)`
    pub latents: [&'a Tensor; 2],
    /// `(1, T, D)` each
    pub texts: [&'a Tensor; 2],
    pub positions: &'a Ltx2Positions,
    /// Noise level of both streams, 1000 for pure noise.
    pub timestep: f32,
    /// Video tokens at the beginning that are given and have the timestep 0.
    pub given: i64,
}

impl Ltx2Transformer {
    /// `w` has the authors' names.
    pub fn new(config: &Ltx2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let [video, audio] = config.streams();
        let ends = [StreamEnds::new(&video, w)?, StreamEnds::new(&audio, w)?];
        let blocks = (0..config.num_layers).map(|i| {
            let w = &(w / "transformer_blocks" / i);
            let block =
                |own: &Ltx2Stream, other| StreamBlock::new(own, other, &audio, config.norm_eps, w);
            Ok([block(&video, &audio)?, block(&audio, &video)?])
        });
        Ok(Self {
            ends,
            blocks: blocks.collect::<Result<_, WeightsError>>()?,
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// Velocities of the video, `(1, S, 128)`, and of the sound, `(1, L, 128)`, in f32; `None` when cancelled.
    pub fn forward(&self, inputs: &Ltx2Inputs<'_>, hooks: &dyn Hooks) -> Option<[Tensor; 2]> {
        let here = |xs: &Tensor| xs.to_device(self.device).to_kind(self.kind);
        let [video_tokens, audio_tokens] = inputs.latents.map(|xs| xs.size()[1]);
        let parts = [
            (inputs.given, 0.0),
            (video_tokens - inputs.given, inputs.timestep),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let (counts, times): (Vec<i64>, Vec<f32>) = parts.unzip();
        let video = TokenShards::new(counts);
        let audio = video.of([audio_tokens]);
        let sinusoids = |times: &[f32]| {
            let times = Tensor::from_slice(times).to_device(self.device);
            timestep_embedding(&times, SINUSOIDS)
        };
        let one = sinusoids(&[inputs.timestep]);
        let state = |which: usize, shards: &TokenShards, times: &Tensor| {
            let latents = shards.own(&here(inputs.latents[which]), 1);
            StreamState::new(&self.ends[which], &latents, shards.ranges(), times, &one)
        };
        let mut streams = [state(0, &video, &sinusoids(&times)), state(1, &audio, &one)];
        let texts = inputs.texts.map(here);
        let positions = inputs.positions.spread([&video, &audio]);
        for block in &self.blocks {
            hooks.check_cancelled(FaultSite::Block)?;
            let seen = texts.iter().zip(&positions.own);
            for ((own, stream), (text, rope)) in block.iter().zip(&mut streams).zip(seen) {
                own.attend(stream, text, rope);
            }
            hooks.check_cancelled(FaultSite::Block)?;
            // The inputs of both are made before either changes its stream.
            let [a2v_query, v2a_key] = block[0].crossing(&streams[0]);
            let [a2v_key, v2a_query] = block[1].crossing(&streams[1]);
            // The sound has few tokens: each rank gets all of them, and the video's stay where they are.
            let a2v_key = audio.gathered(&a2v_key);
            let [video_rope, audio_rope] = &positions.cross;
            let ropes = Some([video_rope, &inputs.positions.cross[1]]);
            let to_video = block[0].cross.forward(&a2v_query, &a2v_key, ropes);
            drop((a2v_query, a2v_key));
            let ropes = Some([audio_rope, video_rope]);
            let to_audio = block[1].cross.forward(&v2a_query, &v2a_key, ropes);
            drop((v2a_query, v2a_key));
            for ((own, stream), crossed) in block.iter().zip(&mut streams).zip([to_video, to_audio])
            {
                own.finish(stream, &crossed);
            }
        }
        let [video_end, audio_end] = &self.ends;
        Some([
            video.gathered(&video_end.last(&streams[0])),
            audio.gathered(&audio_end.last(&streams[1])),
        ])
    }
}

/// This rank's tokens of a stream on their way through the blocks, and vectors of the timestep.
struct StreamState {
    /// `(1, N, D)`
    xs: Tensor,
    /// Those of each timestep.
    ranges: Vec<(i64, i64)>,
    /// `(U, 9, D)` and `(U, D)` in f32
    own: Tensor,
    embedded: Tensor,
    /// `(1, 2, D)`
    prompt: Tensor,
    /// Scales and shifts between the streams, and the gate: `(1, 5, D)`
    cross: Tensor,
}

impl StreamState {
    /// `times`: sinusoids of the timestep of each range, `one`: of the noise level, `(U, 256)` in f32
    fn new(
        ends: &StreamEnds,
        latents: &Tensor,
        ranges: Vec<(i64, i64)>,
        times: &Tensor,
        one: &Tensor,
    ) -> Self {
        let [own, prompt, shift, gate] = &ends.modulations;
        let (own, embedded) = own.forward(times);
        let of_one = |modulation: &TimeModulation| modulation.forward(one).0;
        Self {
            xs: ends.patchify_proj.forward(latents),
            ranges,
            own,
            embedded,
            prompt: of_one(prompt),
            cross: Tensor::cat(&[of_one(shift), of_one(gate)], 1),
        }
    }
}

/// `adaln_single` and the like: vectors of a timestep.
struct TimeModulation {
    embedder: Mlp,
    linear: Linear,
    vectors: i64,
    dim: i64,
}

impl TimeModulation {
    fn new(dim: i64, vectors: i64, w: &Weights) -> Result<Self, WeightsError> {
        let w = &w.seldom();
        let embedder = &w.with_kind(Kind::Float) / "emb" / "timestep_embedder";
        Ok(Self {
            embedder: Mlp::new([SINUSOIDS, dim, dim], ["linear_1", "linear_2"], &embedder)?,
            linear: Linear::new(dim, vectors * dim, &(w / "linear"))?,
            vectors,
            dim,
        })
    }

    /// `(U, 256)` -> `(U, vectors, D)`, and the embedding, `(U, D)`, both in f32
    fn forward(&self, sinusoids: &Tensor) -> (Tensor, Tensor) {
        let embedded = self.embedder.forward(sinusoids, |xs| xs.silu());
        let ys = embedded.silu().to_kind(self.linear.kind());
        let ys = self.linear.forward(&ys).to_kind(Kind::Float);
        (ys.view([-1, self.vectors, self.dim]), embedded)
    }
}

/// First and last layers of a stream, and its modulation layers.
struct StreamEnds {
    patchify_proj: Linear,
    modulations: [TimeModulation; 4],
    /// `(2, D)` in f32
    scale_shift_table: Tensor,
    proj_out: Linear,
}

impl StreamEnds {
    fn new(stream: &Ltx2Stream, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, channels) = (stream.dim, stream.channels);
        let named = |name: &str| format!("{}{name}", stream.prefix);
        let [own, prompt, shift, gate] = stream
            .modulations()
            .map(|(name, vectors)| TimeModulation::new(dim, vectors, &(w / name)));
        let table = named("scale_shift_table");
        Ok(Self {
            patchify_proj: Linear::new(channels, dim, &(w / named("patchify_proj")))?,
            modulations: [own?, prompt?, shift?, gate?],
            scale_shift_table: w.with_kind(Kind::Float).tensor(&table, &[2, dim])?,
            proj_out: Linear::new(dim, channels, &(w / named("proj_out")))?,
        })
    }

    /// `(1, N, D)` -> `(1, N, channels)` in f32
    fn last(&self, stream: &StreamState) -> Tensor {
        let values = &self.scale_shift_table + stream.embedded.unsqueeze(1);
        let rows = TokenRows {
            values: &values,
            ranges: &stream.ranges,
        };
        let normed = layer_norm(&stream.xs, &FusedNorm::modulated(rows, 0), LAST_EPS);
        self.proj_out.forward(&normed).to_kind(Kind::Float)
    }
}

/// The part of a block that belongs to one stream.
struct StreamBlock {
    attn1: HeadGatedAttention,
    attn2: HeadGatedAttention,
    /// To the other stream.
    cross: HeadGatedAttention,
    ff: Mlp,
    /// Shift, scale and gate of `attn1`, `ff` and `attn2`: `(9, D)` in f32, as the others
    own_table: Tensor,
    /// Shift and scale of the text: `(2, D)`
    prompt_table: Tensor,
    /// Scale and shift from sound to video, scale and shift from video to sound, gate: `(5, D)`
    cross_table: Tensor,
    eps: f64,
}

impl StreamBlock {
    fn new(
        own: &Ltx2Stream,
        other: &Ltx2Stream,
        audio: &Ltx2Stream,
        eps: f64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let named = |name: &str| format!("{}{name}", own.prefix);
        let exact = w.with_kind(Kind::Float);
        let table = |name: &str, rows| exact.tensor(name, &[rows, own.dim]);
        let attention =
            |name: &str| HeadGatedAttention::new(&own.own_attention(), eps, &(w / named(name)));
        let cross = own.cross_attention(other, audio);
        Ok(Self {
            attn1: attention("attn1")?,
            attn2: attention("attn2")?,
            cross: HeadGatedAttention::new(&cross, eps, &(w / own.cross))?,
            ff: feed_forward(own.dim, &(w / named("ff")))?,
            own_table: table(&named("scale_shift_table"), 9)?,
            prompt_table: table(&named("prompt_scale_shift_table"), 2)?,
            cross_table: table(own.cross_table, 5)?,
            eps,
        })
    }

    /// Attention of a stream to itself and to its text.
    fn attend(&self, stream: &mut StreamState, text: &Tensor, rope: &Rope) {
        let values = &self.own_table + &stream.own;
        let rows = TokenRows {
            values: &values,
            ranges: &stream.ranges,
        };
        let gate = |index| Some(GateArgs { rows, index });
        let normed = self.normed(&stream.xs, rows, 0);
        let ys = self.attn1.forward(&normed, &normed, Some([rope; 2]));
        gated_add(&mut stream.xs, &ys, gate(2));
        let normed = self.normed(&stream.xs, rows, 6);
        let prompt = (&self.prompt_table + &stream.prompt).squeeze_dim(0);
        let [shift, scale] = [0, 1].map(|row| prompt.get(row).to_kind(text.kind()));
        let text = text * (scale + 1.0) + shift;
        let ys = self.attn2.forward(&normed, &text, None);
        gated_add(&mut stream.xs, &ys, gate(8));
    }

    /// Inputs of the attention from sound to video and of that from video to sound: `(1, N, D)` each
    fn crossing(&self, stream: &StreamState) -> [Tensor; 2] {
        let values = (&self.cross_table + &stream.cross).squeeze_dim(0);
        [0, 2].map(|first| {
            let (scale, shift) = (values.get(first) + 1.0, values.get(first + 1));
            rms_norm_shifted(&stream.xs, &scale, &shift, self.eps)
        })
    }

    /// Adds the output of the attention to the other stream, then that of the feed-forward layers.
    fn finish(&self, stream: &mut StreamState, crossed: &Tensor) {
        let values = &self.cross_table + &stream.cross;
        let all = [(0, stream.xs.size()[1])];
        let rows = TokenRows {
            values: &values,
            ranges: &all,
        };
        gated_add(&mut stream.xs, crossed, Some(GateArgs { rows, index: 4 }));
        let values = &self.own_table + &stream.own;
        let rows = TokenRows {
            values: &values,
            ranges: &stream.ranges,
        };
        let normed = self.normed(&stream.xs, rows, 3);
        let ys = self.ff.forward(&normed, gelu_tanh);
        gated_add(&mut stream.xs, &ys, Some(GateArgs { rows, index: 5 }));
    }

    /// Root mean square, with the vectors `first` and `first + 1` of `rows` as shift and scale: `(1, N, D)` -> the same
    fn normed(&self, xs: &Tensor, rows: TokenRows<'_>, first: i64) -> Tensor {
        let parts = rows.ranges.iter().enumerate().map(|(u, &(start, count))| {
            let values = rows.values.get(u as i64);
            let (shift, scale) = (values.get(first), values.get(first + 1) + 1.0);
            rms_norm_shifted(&xs.narrow(1, start, count), &scale, &shift, self.eps)
        });
        let parts: Vec<_> = parts.collect();
        match &parts[..] {
            [only] => only.shallow_clone(),
            parts => Tensor::cat(parts, 1),
        }
    }
}
