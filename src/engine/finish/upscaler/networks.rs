//! The networks of upscalers: the compact VGG network of Real-ESRGAN, RRDBNet and SPAN.

use safelight_core::networks::{RrdbConfig, SPAN_BLOCKS};
use tch::{Kind, Tensor};

use crate::finish::conv::{FinishConv, LeakyRelu};
use crate::weights::{Weights, WeightsError};

/// Plain convolutions, and pixels shuffled at the end. After `SRVGGNetCompact` of
/// <https://github.com/xinntao/Real-ESRGAN>.
#[derive(Debug)]
pub(super) struct CompactUpscaler {
    /// Each with how much of what is below 0 stays, a number for each channel: `(C)`.
    layers: Vec<(FinishConv, Tensor)>,
    last: FinishConv,
    scale: i64,
}

impl CompactUpscaler {
    pub(super) fn new(
        w: &Weights,
        width: i64,
        num_convs: i64,
        scale: i64,
    ) -> Result<Self, WeightsError> {
        let w = w / "body";
        let layers = (0..=num_convs).map(|number| {
            let inputs = if number == 0 { 3 } else { width };
            let conv = FinishConv::new(&(&w / (2 * number)), [inputs, width], 3)?;
            let slopes = (&w / (2 * number + 1)).tensor("weight", &[width])?;
            Ok((conv, slopes))
        });
        Ok(Self {
            layers: layers.collect::<Result<_, WeightsError>>()?,
            last: FinishConv::new(&(&w / (2 * num_convs + 2)), [width, 3 * scale * scale], 3)?,
            scale,
        })
    }

    pub(super) fn trunk(&self, places: &Tensor, go_on: &dyn Fn() -> bool) -> Option<Tensor> {
        let mut xs = places.shallow_clone();
        for (conv, slopes) in &self.layers {
            if !go_on() {
                return None;
            }
            xs = conv.forward(&xs).prelu(slopes);
        }
        Some(self.last.forward(&xs))
    }

    pub(super) fn end(&self, made: &Tensor, places: &Tensor) -> Tensor {
        let [height, width] = [2, 3].map(|axis| places.size()[axis] * self.scale);
        let nearest = places.upsample_nearest2d([height, width], None, None);
        made.pixel_shuffle(self.scale) + nearest
    }
}

const NUM_CONVS: i64 = 5;
const NUM_DENSE: i64 = 3;
/// Residual scale of a block.
const SHARE: f64 = 0.2;
const SLOPE: f64 = 0.2;

/// Five convolutions, each of which sees what all before it made.
#[derive(Debug)]
struct DenseBlock {
    convs: Vec<FinishConv>,
    shortcut: Option<FinishConv>,
}

impl DenseBlock {
    fn new(w: &Weights, width: i64, cfg: &RrdbConfig) -> Result<Self, WeightsError> {
        let convs = (0..NUM_CONVS).map(|number| {
            let outputs = if number + 1 == NUM_CONVS {
                width
            } else {
                cfg.growth
            };
            let sizes = [width + number * cfg.growth, outputs];
            FinishConv::new(&(w / cfg.within(number)), sizes, 3)
        });
        let shortcut = cfg.has_shortcuts.then(|| {
            let w = w / "conv1x1";
            FinishConv::without_bias(&w, [width, cfg.growth], 1)
        });
        Ok(Self {
            convs: convs.collect::<Result<_, _>>()?,
            shortcut: shortcut.transpose()?,
        })
    }

    fn forward(&self, xs: &Tensor, act: &LeakyRelu) -> Tensor {
        let mut seen = vec![xs.shallow_clone()];
        for (number, conv) in self.convs.iter().enumerate() {
            let made = conv.forward(&Tensor::cat(&seen, 1));
            if number + 1 == self.convs.len() {
                return made * SHARE + xs;
            }
            let mut made = act.forward(&made);
            match &self.shortcut {
                Some(shortcut) if number == 1 => made += shortcut.forward(xs),
                Some(_) if number == 3 => made += &seen[2],
                _ => {}
            }
            seen.push(made);
        }
        xs.shallow_clone()
    }
}

/// Residual blocks in residual blocks, then nearest pixels doubled. After `RRDBNet` of <https://github.com/xinntao/ESRGAN>
/// and BasicSR, and ESRGAN+ with its shortcuts.
#[derive(Debug)]
pub(super) struct RrdbUpscaler {
    first: FinishConv,
    blocks: Vec<[DenseBlock; NUM_DENSE as usize]>,
    trunk: FinishConv,
    ups: Vec<FinishConv>,
    ends: [FinishConv; 2],
    act: LeakyRelu,
}

impl RrdbUpscaler {
    pub(super) fn new(w: &Weights, width: i64, cfg: &RrdbConfig) -> Result<Self, WeightsError> {
        let conv = |name: String, sizes| FinishConv::new(&(w / name), sizes, 3);
        let same = [width, width];
        let dense = |block, part| DenseBlock::new(&(w / cfg.dense(block, part)), width, cfg);
        let blocks = (0..cfg.num_blocks)
            .map(|block| Ok([dense(block, 0)?, dense(block, 1)?, dense(block, 2)?]));
        let [before, last] = cfg.ends();
        Ok(Self {
            first: conv(cfg.first(), [3 * cfg.unshuffle.pow(2), width])?,
            blocks: blocks.collect::<Result<_, WeightsError>>()?,
            trunk: conv(cfg.trunk(), same)?,
            ups: (0..cfg.num_doublings)
                .map(|number| conv(cfg.up(number), same))
                .collect::<Result<_, _>>()?,
            ends: [conv(before, same)?, conv(last, [width, 3])?],
            act: LeakyRelu::new(SLOPE, w),
        })
    }

    pub(super) fn trunk(&self, places: &Tensor, go_on: &dyn Fn() -> bool) -> Option<Tensor> {
        let first = self.first.forward(places);
        let mut xs = first.shallow_clone();
        for block in &self.blocks {
            let mut ys = xs.shallow_clone();
            for dense in block {
                if !go_on() {
                    return None;
                }
                ys = dense.forward(&ys, &self.act);
            }
            xs = ys * SHARE + xs;
        }
        Some(first + self.trunk.forward(&xs))
    }

    pub(super) fn end(&self, made: &Tensor) -> Tensor {
        let mut xs = made.shallow_clone();
        for up in &self.ups {
            let [height, width] = [xs.size()[2] * 2, xs.size()[3] * 2];
            let doubled = xs.upsample_nearest2d([height, width], None, None);
            xs = self.act.forward(&up.forward(&doubled));
        }
        let [before, last] = &self.ends;
        last.forward(&self.act.forward(&before.forward(&xs)))
    }
}

/// Mean that is subtracted from pixels; files do not store it.
const MEAN: [f32; 3] = [0.4488, 0.4371, 0.4040];
const RANGE: f64 = 255.0;

/// A convolution of 3 × 3 that was trained as 1 × 1, 3 × 3 and 1 × 1 with a shortcut of 1 × 1.
fn merged(w: &Weights, [inputs, outputs]: [i64; 2]) -> Result<FinishConv, WeightsError> {
    let kind = w.kind();
    let exact = w.with_kind(Kind::Double);
    let read = |name: &str, sizes: [i64; 2], kernel: i64| {
        let w = &exact / name;
        let [inputs, outputs] = sizes;
        let weight = w.tensor("weight", &[outputs, inputs, kernel, kernel])?;
        Ok::<_, WeightsError>((weight, w.tensor("bias", &[outputs])?))
    };
    // Width factor of the middle layers.
    let first = (w / "conv" / 0).shape_of("weight");
    let gain = first.and_then(|shape| shape.first().copied()).unwrap_or(0) / inputs;
    let (a, a_bias) = read("conv.0", [inputs, inputs * gain], 1)?;
    let (b, b_bias) = read("conv.1", [inputs * gain, outputs * gain], 3)?;
    let (c, c_bias) = read("conv.2", [outputs * gain, outputs], 1)?;
    let (shortcut, shortcut_bias) = read("sk", [inputs, outputs], 1)?;
    // o m h w, m i -> o i h w; then the same with the last layer in front.
    let a = a.view([inputs * gain, inputs]);
    let ab = Tensor::einsum("omhw,mi->oihw", &[&b, &a], None::<i64>);
    let ab_bias = b
        .sum_dim_intlist([2_i64, 3].as_slice(), false, None)
        .mv(&a_bias)
        + b_bias;
    let c = c.view([outputs, outputs * gain]);
    let weight = Tensor::einsum("om,mihw->oihw", &[&c, &ab], None::<i64>);
    let bias = c.mv(&ab_bias) + c_bias + shortcut_bias;
    // In the middle of nothing else.
    let weight = weight + shortcut.constant_pad_nd([1, 1, 1, 1]);
    Ok(FinishConv::from_tensors(
        &weight.to_kind(kind),
        Some(bias.to_kind(kind)),
    ))
}

#[derive(Debug)]
struct SpanBlock([FinishConv; 3]);

impl SpanBlock {
    fn new(w: &Weights, width: i64) -> Result<Self, WeightsError> {
        let conv = |name: &str| merged(&(w / name), [width, width]);
        Ok(Self([conv("c1_r")?, conv("c2_r")?, conv("c3_r")?]))
    }

    /// Output, and output of the first layer.
    fn forward(&self, xs: &Tensor) -> (Tensor, Tensor) {
        let [first, second, third] = &self.0;
        let opening = first.forward(xs);
        // The published activation works in place: what is handed out later has gone through it.
        let opening = opening.silu();
        let made = third.forward(&second.forward(&opening).silu());
        let share = made.sigmoid() - 0.5;
        ((made + xs) * share, opening)
    }
}

/// Blocks whose own output says how much of it counts, and pixels shuffled at the end. After
/// <https://github.com/hongyuanyu/SPAN>. The three layers that each convolution was trained as are made one when they are
/// loaded, as the published code does for every image.
#[derive(Debug)]
pub(super) struct SpanUpscaler {
    /// `(1, 3, 1, 1)`
    mean: Option<Tensor>,
    first: FinishConv,
    blocks: Vec<SpanBlock>,
    behind: FinishConv,
    joined: FinishConv,
    last: FinishConv,
    scale: i64,
}

impl SpanUpscaler {
    pub(super) fn new(
        w: &Weights,
        width: i64,
        scale: i64,
        is_normed: bool,
    ) -> Result<Self, WeightsError> {
        let mean = is_normed.then(|| {
            let mean = Tensor::from_slice(&MEAN).view([1, 3, 1, 1]);
            mean.to_kind(w.kind()).to_device(w.device())
        });
        let blocks =
            (1..=SPAN_BLOCKS).map(|number| SpanBlock::new(&(w / format!("block_{number}")), width));
        Ok(Self {
            mean,
            first: merged(&(w / "conv_1"), [3, width])?,
            blocks: blocks.collect::<Result<_, _>>()?,
            behind: merged(&(w / "conv_2"), [width, width])?,
            joined: FinishConv::new(&(w / "conv_cat"), [4 * width, width], 1)?,
            last: FinishConv::new(&(w / "upsampler.0"), [width, 3 * scale * scale], 3)?,
            scale,
        })
    }

    pub(super) fn trunk(&self, places: &Tensor, go_on: &dyn Fn() -> bool) -> Option<Tensor> {
        let first = match &self.mean {
            Some(mean) => self.first.forward(&((places - mean) * RANGE)),
            None => self.first.forward(places),
        };
        let mut xs = first.shallow_clone();
        let (mut of_first, mut opening) = (None, None);
        for block in &self.blocks {
            if !go_on() {
                return None;
            }
            let (made, opened) = block.forward(&xs);
            of_first.get_or_insert_with(|| made.shallow_clone());
            opening = Some(opened);
            xs = made;
        }
        let behind = self.behind.forward(&xs);
        let joined = [&first, &behind, of_first.as_ref()?, opening.as_ref()?];
        Some(self.joined.forward(&Tensor::cat(&joined, 1)))
    }

    pub(super) fn end(&self, made: &Tensor) -> Tensor {
        self.last.forward(made).pixel_shuffle(self.scale)
    }
}
