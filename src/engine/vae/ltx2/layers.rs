//! Layers of both halves, fed a few frames at a time. A layer gives out the frames whose neighbours are known by now, perhaps
//! none.

use safelight_core::networks::ltx2::Ltx2VaeStep;
use tch::{Kind, Tensor};

use crate::nn::pixel_norm_silu_into;
use crate::vae::causal::{CausalConv3d, ConvFeed, ConvForm};
use crate::weights::{Weights, WeightsError};

/// Epsilon of the norm of a pixel.
const EPS: f64 = 1e-8;
/// Frames that a kernel sees besides one.
const OTHER_TAPS: i64 = 2;

/// Frames that one layer remembers of a video.
#[derive(Default)]
pub(super) struct LayerState {
    /// The last frames before each of its convolutions.
    before: [Option<Tensor>; 2],
    /// Frames of a shortcut that still lack what is added to them.
    waiting: Option<Tensor>,
    has_begun: bool,
}

/// Frames that a convolution sees ahead, and frames that come to it at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamPlace {
    pub(super) ahead: i64,
    pub(super) frames: i64,
}

/// Kernels of 3 × 3 × 3, zeros around frames, and the first and last frame repeated before and after a video.
#[derive(Debug)]
pub(super) struct StreamConv {
    conv: CausalConv3d,
    /// Frames that each frame sees after it: 1, or 0 in the encoder. So many are repeated at the end.
    ahead: i64,
    /// Root of the number of inputs for each of them, `(C)` in f32: the root mean square of a vector of length one.
    factor: Tensor,
}

/// Work on frames before a convolution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BeforeConv {
    Nothing,
    NormSilu,
}

impl StreamConv {
    pub(super) fn new(
        w: &Weights,
        widths: [i64; 2],
        place: StreamPlace,
    ) -> Result<Self, WeightsError> {
        Self::folded(w, widths, place, 1)
    }

    /// A convolution whose channels become `folded` pixels each: of all channels, first those of the first pixel.
    pub(super) fn folded(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        place: StreamPlace,
        folded: i64,
    ) -> Result<Self, WeightsError> {
        let feed = ConvFeed {
            form: ConvForm::for_weights(w),
            frames: place.frames,
            taps: 3,
        };
        let w = w / "conv";
        // (c p) .. -> (p c) ..
        let ordered = |xs: Tensor| {
            let [size, parts] = [xs.size(), vec![outputs / folded, folded]];
            let parts = [&parts, &size[1..]].concat();
            xs.view(parts.as_slice()).transpose(0, 1).reshape(size)
        };
        let weight = ordered(w.tensor("weight", &[outputs, inputs, 3, 3, 3])?);
        let bias = ordered(w.tensor("bias", &[outputs])?);
        let factor = Tensor::full([inputs], (inputs as f64).sqrt(), (Kind::Float, w.device()));
        Ok(Self {
            conv: CausalConv3d::of_feed(&weight, bias, feed),
            ahead: place.ahead,
            factor,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(t, H, W, O)`; `before`: frames of earlier calls; `is_last`: no frames follow
    fn forward(
        &self,
        xs: &Tensor,
        work: BeforeConv,
        before: &mut Option<Tensor>,
        is_last: bool,
    ) -> Tensor {
        let (mut count, height, width, channels) = xs.size4().expect("frames have four dimensions");
        let mut xs = xs.shallow_clone();
        let options = (xs.kind(), xs.device());
        if before.is_none() && count > 0 {
            let first = Tensor::empty([OTHER_TAPS, height, width, channels], options);
            self.write(&xs.narrow(0, 0, 1), work, &first.narrow(0, 0, 1));
            first.narrow(0, 1, 1).copy_(&first.narrow(0, 0, 1));
            *before = Some(first);
            count -= self.ahead;
            xs = xs.narrow(0, self.ahead, count);
        }
        let last = before
            .as_ref()
            .map(|before| before.narrow(0, OTHER_TAPS - 1, 1));
        let repeated = if is_last { self.ahead } else { 0 };
        let Some(last) = last.filter(|_| count + repeated > 0) else {
            let outputs = self.conv.bias().numel() as i64;
            return Tensor::empty([0, height, width, outputs], options);
        };
        let like = match repeated {
            0 => xs.shallow_clone(),
            _ => Tensor::empty([count + repeated, height, width, channels], options),
        };
        self.conv.forward_filled(&like, before, |to| {
            let newest = if count > 0 {
                self.write(&xs, work, &to.narrow(0, 0, count));
                to.narrow(0, count - 1, 1)
            } else {
                last
            };
            for copy in 0..repeated {
                to.narrow(0, count + copy, 1).copy_(&newest);
            }
        })
    }

    /// Frames as the convolution sees them, written to `out`, which has their size and any strides.
    fn write(&self, xs: &Tensor, work: BeforeConv, out: &Tensor) {
        if work == BeforeConv::Nothing {
            out.shallow_clone().copy_(xs);
        } else if pixel_norm_silu_into(xs, &self.factor, out).is_none() {
            let width = xs.size()[3];
            let normal = xs.rms_norm([width], None::<&Tensor>, EPS);
            drop(normal.silu_out(out));
        }
    }
}

/// Frames with `count` copies of frame `index` before or after them.
fn repeated(frames: &Tensor, index: i64, count: i64, is_before: bool) -> Tensor {
    let copies = frames.narrow(0, index, 1).repeat([count, 1, 1, 1]);
    let both = if is_before {
        [&copies, frames]
    } else {
        [frames, &copies]
    };
    Tensor::cat(&both, 0)
}

#[derive(Debug)]
pub(super) enum StreamLayer {
    Conv(StreamConv),
    /// Norm, SiLU and a convolution: the last layer.
    Head(StreamConv),
    /// Two of these, and a shortcut.
    Residual([StreamConv; 2]),
    /// Step of the decoder: a convolution whose channels become pixels. The first of all frames becomes one.
    Unfold(StreamConv, Ltx2VaeStep),
    /// Step of the encoder: a convolution whose pixels become channels, and as a shortcut means of its folded input. The
    /// first of all frames counts twice where time is halved.
    Fold(StreamConv, Ltx2VaeStep),
}

impl StreamLayer {
    pub(super) fn residual(
        w: &Weights,
        width: i64,
        place: StreamPlace,
    ) -> Result<Self, WeightsError> {
        let conv = |name| StreamConv::new(&(w / name), [width; 2], place);
        Ok(Self::Residual([conv("conv1")?, conv("conv2")?]))
    }

    /// `xs`: `(T, H, W, C)` → `(t, h, w, O)`
    pub(super) fn forward(&self, xs: &Tensor, state: &mut LayerState, is_last: bool) -> Tensor {
        let [first, second] = &mut state.before;
        match self {
            Self::Conv(conv) => conv.forward(xs, BeforeConv::Nothing, first, is_last),
            Self::Head(conv) => conv.forward(xs, BeforeConv::NormSilu, first, is_last),
            Self::Residual([conv1, conv2]) => {
                let ys = conv1.forward(xs, BeforeConv::NormSilu, first, is_last);
                let ys = conv2.forward(&ys, BeforeConv::NormSilu, second, is_last);
                let (mut start, done) = (0, ys.size()[0]);
                let mut left = Vec::new();
                for shortcut in state.waiting.iter().chain([xs]) {
                    let count = shortcut.size()[0];
                    let added = count.min(done - start);
                    drop(
                        ys.narrow(0, start, added)
                            .g_add_(&shortcut.narrow(0, 0, added)),
                    );
                    left.push(shortcut.narrow(0, added, count - added));
                    start += added;
                }
                state.waiting = Some(Tensor::cat(&left, 0));
                ys
            }
            Self::Unfold(conv, step) => {
                let ys = conv.forward(xs, BeforeConv::Nothing, first, is_last);
                let ys = unfolded(&ys, *step);
                let count = ys.size()[0];
                if count == 0 || std::mem::replace(&mut state.has_begun, true) {
                    return ys;
                }
                let dropped = step.factors()[0] - 1;
                ys.narrow(0, dropped, count - dropped)
            }
            Self::Fold(conv, step) => {
                let xs = if std::mem::replace(&mut state.has_begun, true) {
                    xs.shallow_clone()
                } else {
                    repeated(xs, 0, step.factors()[0] - 1, true)
                };
                let ys = conv.forward(&xs, BeforeConv::Nothing, first, is_last);
                let ys = folded(&ys, *step);
                let [frames, height, width, channels] = [0, 1, 2, 3].map(|dim| ys.size()[dim]);
                let shortcut = folded(&xs, *step).view([frames, height, width, channels, -1]);
                ys + shortcut.mean_dim([-1_i64].as_slice(), false, None)
            }
        }
    }
}

/// `(T, H, W, pt · ph · pw · O)` → `(T · pt, H · ph, W · pw, O)`
fn unfolded(xs: &Tensor, step: Ltx2VaeStep) -> Tensor {
    let [time, edges] = step.factors();
    let [frames, height, width, channels] = [0, 1, 2, 3].map(|dim| xs.size()[dim]);
    let outputs = channels / step.folded();
    let xs = xs.view([frames, height, width, time, edges, edges, outputs].as_slice());
    // t h w pt ph pw c -> (t pt) (h ph) (w pw) c
    let xs = xs.permute([0, 3, 1, 4, 2, 5, 6]);
    xs.reshape([time * frames, edges * height, edges * width, outputs])
}

/// Pixels become channels: `(T · pt, H · ph, W · pw, C)` → `(T, H, W, C · pt · ph · pw)`
fn folded(xs: &Tensor, step: Ltx2VaeStep) -> Tensor {
    let [time, edges] = step.factors();
    let [frames, height, width, channels] = [0, 1, 2, 3].map(|dim| xs.size()[dim]);
    let [frames, height, width] = [frames / time, height / edges, width / edges];
    let xs = xs.view([frames, time, height, edges, width, edges, channels].as_slice());
    // (t pt) (h ph) (w pw) c -> t h w (c pt ph pw)
    let xs = xs.permute([0, 2, 4, 6, 1, 3, 5]);
    xs.reshape([frames, height, width, channels * step.folded()])
}
