//! Latents of sound to a mel spectrogram, causal over time: 25 latents a second, 100 frames of the spectrogram.

use safelight_core::networks::ltx2::Ltx2AudioVaeConfig;
use tch::{Device, Kind, Tensor};

use crate::encoder_prefix::behind;
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

/// Epsilon of every norm.
const EPS: f64 = 1e-6;

#[derive(Debug)]
pub struct MelDecoder {
    /// Of the numbers of a token: `(1, 1, 128)` in f32
    mean: Tensor,
    deviation: Tensor,
    conv_in: CausalConv2d,
    middle: [MelResidual; 2],
    levels: Vec<(Vec<MelResidual>, Option<CausalConv2d>)>,
    conv_out: CausalConv2d,
    channels: i64,
    kind: Kind,
    device: Device,
}

impl MelDecoder {
    pub fn new(config: &Ltx2AudioVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let root = behind(Ltx2AudioVaeConfig::prefix(weights.keys()), weights);
        let exact = root.with_kind(Kind::Float);
        let [mean, deviation] = Ltx2AudioVaeConfig::STATISTICS.map(|name| {
            let values = exact.tensor(name, &[config.token_numbers()])?;
            Ok::<_, WeightsError>(values.view([1, 1, -1]))
        });
        let w = &root / "decoder";
        let widest = config.widest();
        let middle = |name| MelResidual::new(&(&w / "mid" / name), [widest; 2]);
        let levels = config.levels().into_iter().map(|(level, [input, output])| {
            let w = &w / "up" / level;
            let blocks = (0..=config.num_res_blocks).map(|number| {
                let input = if number == 0 { input } else { output };
                MelResidual::new(&(&w / "block" / number), [input, output])
            });
            let blocks = blocks.collect::<Result<_, _>>()?;
            let doubling = || CausalConv2d::new(&(&w / "upsample" / "conv"), [output; 2], 3);
            Ok((blocks, (level > 0).then(doubling).transpose()?))
        });
        let levels = levels.collect::<Result<_, WeightsError>>()?;
        let last = config.base_channels * config.ch_mult.first().copied().unwrap_or(1);
        let outputs = config.output_channels;
        Ok(Self {
            mean: mean?,
            deviation: deviation?,
            conv_in: CausalConv2d::new(&(&w / "conv_in"), [config.latent_channels, widest], 3)?,
            middle: [middle("block_1")?, middle("block_2")?],
            levels,
            conv_out: CausalConv2d::new(&(&w / "conv_out"), [last, outputs], 3)?,
            channels: config.latent_channels,
            kind: weights.kind(),
            device: weights.device(),
        })
    }

    /// The decoder's input of the transformer's `tokens`: `(1, L, 128)` → `(1, 8, L, 16)` in f32
    pub fn denormalize(&self, tokens: &Tensor) -> Tensor {
        let tokens = tokens.to_device(self.device) * &self.deviation + &self.mean;
        let (_, length, _) = tokens.size3().expect("tokens have three dimensions");
        tokens.view([1, length, self.channels, -1]).transpose(1, 2)
    }

    /// `latents`: `(1, 8, L, 16)` → `(1, 2, 4L − 3, 64)` in f32, logarithms; `None` when cancelled
    pub fn decode(&self, latents: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
        let latents = latents.to_device(self.device).to_kind(self.kind);
        let _guard = disable_miopen(self.device);
        tch::no_grad(|| {
            let xs = self.conv_in.forward(&latents);
            let mut xs = self.middle.iter().fold(xs, |xs, block| block.forward(&xs));
            for (blocks, doubling) in &self.levels {
                for block in blocks {
                    if cancelled() {
                        return None;
                    }
                    xs = block.forward(&xs);
                }
                if let Some(conv) = doubling {
                    let [height, width] = [2, 3].map(|dim| 2 * xs.size()[dim]);
                    let doubled = xs.upsample_nearest2d([height, width], None, None);
                    // The first frame is one.
                    xs = conv.forward(&doubled).narrow(2, 1, height - 1);
                }
            }
            let mel = self.conv_out.forward(&normed_silu(&xs));
            Some(mel.to_kind(Kind::Float))
        })
    }
}

/// A convolution of `(B, C, T, F)` that sees no later frame.
#[derive(Debug)]
struct CausalConv2d {
    weight: Tensor,
    bias: Tensor,
    edge: i64,
}

impl CausalConv2d {
    fn new(w: &Weights, [inputs, outputs]: [i64; 2], edge: i64) -> Result<Self, WeightsError> {
        let w = w / "conv";
        Ok(Self {
            weight: w.tensor("weight", &[outputs, inputs, edge, edge])?,
            bias: w.tensor("bias", &[outputs])?,
            edge,
        })
    }

    fn forward(&self, xs: &Tensor) -> Tensor {
        let before = self.edge - 1;
        let side = before / 2;
        let xs = xs.constant_pad_nd([side, side, before, 0]);
        xs.conv2d(&self.weight, Some(&self.bias), [1, 1], [0, 0], [1, 1], 1)
    }
}

#[derive(Debug)]
struct MelResidual {
    conv1: CausalConv2d,
    conv2: CausalConv2d,
    shortcut: Option<CausalConv2d>,
}

impl MelResidual {
    fn new(w: &Weights, [input, output]: [i64; 2]) -> Result<Self, WeightsError> {
        let shortcut = || CausalConv2d::new(&(w / "nin_shortcut"), [input, output], 1);
        Ok(Self {
            conv1: CausalConv2d::new(&(w / "conv1"), [input, output], 3)?,
            conv2: CausalConv2d::new(&(w / "conv2"), [output; 2], 3)?,
            shortcut: (input != output).then(shortcut).transpose()?,
        })
    }

    fn forward(&self, xs: &Tensor) -> Tensor {
        let ys = self.conv1.forward(&normed_silu(xs));
        let ys = self.conv2.forward(&normed_silu(&ys));
        match &self.shortcut {
            Some(shortcut) => ys + shortcut.forward(xs),
            None => ys + xs,
        }
    }
}

/// Channels of each place divided by their root mean square, then SiLU.
fn normed_silu(xs: &Tensor) -> Tensor {
    let square = xs.to_kind(Kind::Float).square();
    let mean = square.mean_dim([1_i64].as_slice(), true, None);
    let root = (mean + EPS).sqrt().to_kind(xs.kind());
    (xs / root).silu_()
}
