//! A mel spectrogram to a waveform of 48 kHz: one network makes a sound of 16 kHz, another of the same kind adds the high
//! frequencies to it. All of it is computed in f32, as half precision is audible.

use std::f64::consts::PI;

use safelight_core::networks::ltx2::{Ltx2VocoderConfig, VocoderShape};
use tch::{Device, Kind, Tensor};

use crate::encoder_prefix::behind;
use crate::runtime::disable_miopen;
use crate::weights::{Weights, WeightsError};

/// Samples of the waveform in a second.
pub const SAMPLE_RATE: u32 = 48_000;
/// Samples of the waveform for one of the first network's.
const RESAMPLING: i64 = 3;
/// The smallest magnitude that has a logarithm.
const QUIETEST: f64 = 1e-5;
/// Keeps an activation from dividing by 0.
const SNAKE_EPS: f64 = 1e-9;

#[derive(Debug)]
pub struct MelVocoder {
    /// To 16 kHz, and what adds to 48 kHz.
    networks: [WaveNetwork; 2],
    /// `(2 · spectrum, 1, window)`: real, then imaginary parts
    forward_basis: Tensor,
    /// `(bins, spectrum)`
    mel_basis: Tensor,
    /// `(1, 1, taps)`
    resampler: Tensor,
    hop: i64,
    device: Device,
}

impl MelVocoder {
    pub fn new(config: &Ltx2VocoderConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let w = behind(Ltx2VocoderConfig::prefix(weights.keys()), weights).with_kind(Kind::Float);
        let [low, high] = config.shapes();
        let spectrum = config.filter_length / 2 + 1;
        let stft = &w / "mel_stft";
        let basis = [2 * spectrum, 1, config.filter_length];
        (&stft / "stft_fn").ignore("inverse_basis");
        Ok(Self {
            networks: [WaveNetwork::new(&low, &w)?, WaveNetwork::new(&high, &w)?],
            forward_basis: (&stft / "stft_fn").tensor("forward_basis", &basis)?,
            mel_basis: stft.tensor("mel_basis", &[config.num_mel_channels, spectrum])?,
            resampler: resampling_filter().to_device(weights.device()),
            hop: config.hop_length,
            device: weights.device(),
        })
    }

    /// `mel`: `(1, 2, frames, bins)` → `(1, 2, 480 · frames)` in -1..1, f32; `None` when cancelled
    pub fn forward(&self, mel: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
        let mel = mel.to_device(self.device).to_kind(Kind::Float);
        let _guard = disable_miopen(self.device);
        tch::no_grad(|| {
            let low = self.low(&mel, cancelled)?;
            let high = self.networks[1].forward(&self.mel_of(&low), cancelled)?;
            Some((high + self.resampled(&low)).clamp_(-1.0, 1.0))
        })
    }

    /// The sound of 16 kHz: `(1, 2, 160 · frames)`
    pub(super) fn low(&self, mel: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
        self.networks[0].forward(mel, cancelled)
    }

    /// Logarithms of the mel spectrogram of each channel: `(1, 2, samples)` → `(1, 2, frames, bins)`. A spectrum sees no
    /// later sample.
    fn mel_of(&self, sound: &Tensor) -> Tensor {
        let window = self.forward_basis.size()[2];
        // 1 c n -> c 1 n
        let sound = sound
            .transpose(0, 1)
            .constant_pad_nd([window - self.hop, 0]);
        let parts = sound.conv1d(&self.forward_basis, None::<&Tensor>, self.hop, 0, 1, 1);
        let parts = parts.chunk(2, 1);
        let magnitude = (parts[0].square() + parts[1].square()).sqrt();
        let mel = self.mel_basis.matmul(&magnitude).clamp_min(QUIETEST).log();
        mel.transpose(1, 2).unsqueeze(0)
    }

    /// `(1, 2, n)` → `(1, 2, 3n)`
    fn resampled(&self, sound: &Tensor) -> Tensor {
        let taps = self.resampler.size()[2];
        let border = (taps - 1) / RESAMPLING / 2;
        upsampled(
            sound,
            &self.resampler,
            RESAMPLING,
            [border, 2 * border * RESAMPLING],
        )
    }
}

/// One of the two networks, each level of which has more samples and half the channels.
#[derive(Debug)]
struct WaveNetwork {
    conv_pre: SoundConv,
    levels: Vec<(UpsamplingConv, Vec<WaveResidual>)>,
    act_post: SnakeActivation,
    /// `(2, C, 7)`
    conv_post: Tensor,
}

impl WaveNetwork {
    fn new(shape: &VocoderShape, w: &Weights) -> Result<Self, WeightsError> {
        let w = &(w / shape.name);
        let mut width = shape.hidden_channels;
        let conv_pre = SoundConv::new(&(w / "conv_pre"), [shape.in_channels, width], 7, 1)?;
        let mut levels = Vec::with_capacity(shape.kernels.len());
        for (level, &kernel) in shape.kernels.iter().enumerate() {
            let doubling = UpsamplingConv::new(&(w / "ups" / level), width, kernel)?;
            width /= 2;
            let first = level * VocoderShape::RESIDUALS.len();
            let blocks = VocoderShape::RESIDUALS.into_iter().enumerate();
            let blocks = blocks.map(|(number, kernel)| {
                WaveResidual::new(&(w / "resblocks" / (first + number)), width, kernel)
            });
            levels.push((doubling, blocks.collect::<Result<_, _>>()?));
        }
        Ok(Self {
            conv_pre,
            levels,
            act_post: SnakeActivation::new(&(w / "act_post"), width)?,
            conv_post: (w / "conv_post").tensor("weight", &[2, width, 7])?,
        })
    }

    /// `mel`: `(1, 2, frames, bins)` → `(1, 2, samples)`; `None` when cancelled
    fn forward(&self, mel: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
        // 1 c t f -> 1 (c f) t
        let mut xs = self.conv_pre.forward(&mel.transpose(2, 3).flatten(1, 2));
        for (doubling, blocks) in &self.levels {
            xs = doubling.forward(&xs);
            let mut sum: Option<Tensor> = None;
            for block in blocks {
                let ys = block.forward(&xs, cancelled)?;
                sum = Some(sum.map_or_else(|| ys.shallow_clone(), |sum| sum + &ys));
            }
            xs = sum? / blocks.len() as f64;
        }
        let xs = self.act_post.forward(&xs);
        Some(xs.conv1d(&self.conv_post, None::<&Tensor>, 1, 3, 1, 1))
    }
}

/// A convolution that leaves the number of samples as it is.
#[derive(Debug)]
struct SoundConv {
    weight: Tensor,
    bias: Tensor,
    dilation: i64,
}

impl SoundConv {
    fn new(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        kernel: i64,
        dilation: i64,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[outputs, inputs, kernel])?,
            bias: w.tensor("bias", &[outputs])?,
            dilation,
        })
    }

    /// `(1, C, n)` → `(1, O, n)`
    fn forward(&self, xs: &Tensor) -> Tensor {
        let padding = (self.weight.size()[2] - 1) / 2 * self.dilation;
        let bias = Some(&self.bias);
        xs.conv1d(&self.weight, bias, 1, padding, self.dilation, 1)
    }
}

#[derive(Debug)]
struct UpsamplingConv {
    weight: Tensor,
    bias: Tensor,
}

impl UpsamplingConv {
    fn new(w: &Weights, width: i64, kernel: i64) -> Result<Self, WeightsError> {
        Ok(Self {
            weight: w.tensor("weight", &[width, width / 2, kernel])?,
            bias: w.tensor("bias", &[width / 2])?,
        })
    }

    /// `(1, C, n)` → `(1, C/2, n · stride)`
    fn forward(&self, xs: &Tensor) -> Tensor {
        let kernel = self.weight.size()[2];
        let stride = kernel / 2;
        let padding = (kernel - stride) / 2;
        xs.conv_transpose1d(&self.weight, Some(&self.bias), stride, padding, 0, 1, 1)
    }
}

/// Pairs of convolutions, the first of each dilated.
#[derive(Debug)]
struct WaveResidual(Vec<[(SnakeActivation, SoundConv); 2]>);

impl WaveResidual {
    fn new(w: &Weights, width: i64, kernel: i64) -> Result<Self, WeightsError> {
        let pairs = VocoderShape::DILATIONS.into_iter().enumerate();
        let pairs = pairs.map(|(part, dilation)| {
            let half = |number: i64, dilation| {
                let activation = w / format!("acts{number}") / part;
                let conv = w / format!("convs{number}") / part;
                Ok::<_, WeightsError>((
                    SnakeActivation::new(&activation, width)?,
                    SoundConv::new(&conv, [width; 2], kernel, dilation)?,
                ))
            };
            Ok([half(1, dilation)?, half(2, 1)?])
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    fn forward(&self, xs: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
        self.0.iter().try_fold(xs.shallow_clone(), |xs, pair| {
            if cancelled() {
                return None;
            }
            let ys = pair
                .iter()
                .fold(xs.shallow_clone(), |ys, (activation, conv)| {
                    conv.forward(&activation.forward(&ys))
                });
            Some(xs + ys)
        })
    }
}

/// `x + sin²(a x) / b` between a doubling of the samples and a halving, which keep its overtones from folding back.
#[derive(Debug)]
struct SnakeActivation {
    /// `(1, C, 1)`: `a`, and one by `b`
    frequency: Tensor,
    amplitude: Tensor,
    /// `(C, 1, 12)`
    doubling: Tensor,
    halving: Tensor,
}

impl SnakeActivation {
    fn new(w: &Weights, width: i64) -> Result<Self, WeightsError> {
        let taps = [1, 1, VocoderShape::FILTER];
        let filter = |name| Ok::<_, WeightsError>(w.tensor(name, &taps)?.repeat([width, 1, 1]));
        let act = w / "act";
        let exponential = |name| Ok::<_, WeightsError>(act.tensor(name, &[width])?.exp());
        let amplitude = exponential("beta")? + SNAKE_EPS;
        Ok(Self {
            frequency: exponential("alpha")?.view([1, -1, 1]),
            amplitude: amplitude.reciprocal().view([1, -1, 1]),
            doubling: filter("upsample.filter")?,
            halving: filter("downsample.lowpass.filter")?,
        })
    }

    /// `(1, C, n)` → the same
    fn forward(&self, xs: &Tensor) -> Tensor {
        let taps = VocoderShape::FILTER;
        let border = taps / 2 - 1;
        let xs = upsampled(xs, &self.doubling, 2, [border, 2 * border + taps / 2 - 1]);
        let sines = (&xs * &self.frequency).sin_().square_();
        let xs = xs + sines * &self.amplitude;
        let xs = xs.replication_pad1d([taps / 2 - 1, taps / 2]);
        xs.conv1d(&self.halving, None::<&Tensor>, 2, 0, 1, xs.size()[1])
    }
}

/// `factor` times as many samples, each channel on its own: `xs`: `(1, C, n)`; `filter`: `(C or 1, 1, taps)`
///
/// `border`: samples that are repeated at each end, and numbers that are cut off at the beginning.
fn upsampled(xs: &Tensor, filter: &Tensor, factor: i64, [border, cut]: [i64; 2]) -> Tensor {
    let (_, channels, count) = xs.size3().expect("sounds have three dimensions");
    let filter = filter.expand([channels, -1, -1], false);
    let xs = xs.replication_pad1d([border, border]);
    let none = None::<&Tensor>;
    let ys = xs.conv_transpose1d(&filter, none, factor, 0, 0, channels, 1) * factor as f64;
    ys.narrow(2, cut, count * factor)
}

/// Sinc function in a Hann window, of the samples' rate before: `(1, 1, 43)`
fn resampling_filter() -> Tensor {
    const ROLLOFF: f64 = 0.99;
    const CROSSINGS: f64 = 6.0;
    let width = (CROSSINGS / ROLLOFF).ceil() as i64;
    let taps = 2 * width * RESAMPLING + 1;
    let f32s = (Kind::Float, Device::Cpu);
    let times = (Tensor::arange(taps, f32s) / RESAMPLING as f64 - width as f64) * ROLLOFF;
    let window = (times.clamp(-CROSSINGS, CROSSINGS) * PI / CROSSINGS / 2.0)
        .cos()
        .square();
    let filter = times.sinc() * window * ROLLOFF / RESAMPLING as f64;
    filter.view([1, 1, -1])
}
