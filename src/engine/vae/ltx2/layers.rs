//! Layers of both halves, fed a few frames at a time. A layer gives out the frames whose neighbours are known by now, perhaps
//! none.

use safelight_core::networks::ltx2::Ltx2VaeStep;
use tch::Tensor;

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
}

impl StreamConv {
    pub(super) fn new(
        w: &Weights,
        widths: [i64; 2],
        place: StreamPlace,
    ) -> Result<Self, WeightsError> {
        let feed = ConvFeed {
            form: ConvForm::for_weights(w),
            frames: place.frames,
        };
        Ok(Self {
            conv: CausalConv3d::new(&(w / "conv"), widths, [3, 3, 3], feed)?,
            ahead: place.ahead,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(t, H, W, O)`; `before`: frames of earlier calls; `is_last`: no frames follow
    fn forward(&self, xs: &Tensor, before: &mut Option<Tensor>, is_last: bool) -> Tensor {
        let mut frames = match before.take() {
            Some(before) => Tensor::cat(&[&before, xs], 0),
            None if xs.numel() == 0 => xs.shallow_clone(),
            None => repeated(xs, 0, OTHER_TAPS - self.ahead, true),
        };
        if is_last {
            frames = repeated(&frames, frames.size()[0] - 1, self.ahead, false);
        }
        let count = frames.size()[0];
        let kept = count.min(OTHER_TAPS);
        *before = (kept > 0).then(|| frames.narrow(0, count - kept, kept).copy());
        if count > OTHER_TAPS {
            return self.conv.convolve(&frames, 1);
        }
        let [height, width] = [1, 2].map(|dim| frames.size()[dim]);
        let outputs = self.conv.bias().numel() as i64;
        Tensor::empty(
            [0, height, width, outputs],
            (frames.kind(), frames.device()),
        )
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

/// Each pixel's channels divided by their root mean square, then SiLU: `(T, H, W, C)` → the same
fn normed_silu(xs: &Tensor) -> Tensor {
    let width = xs.size()[3];
    xs.rms_norm([width], None::<&Tensor>, EPS).silu_()
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
            Self::Conv(conv) => conv.forward(xs, first, is_last),
            Self::Head(conv) => conv.forward(&normed_silu(xs), first, is_last),
            Self::Residual([conv1, conv2]) => {
                let ys = conv1.forward(&normed_silu(xs), first, is_last);
                let mut ys = conv2.forward(&normed_silu(&ys), second, is_last);
                let waiting = match state.waiting.take() {
                    Some(before) => Tensor::cat(&[&before, xs], 0),
                    None => xs.shallow_clone(),
                };
                let (count, done) = (waiting.size()[0], ys.size()[0]);
                state.waiting = Some(waiting.narrow(0, done, count - done).copy());
                ys.g_add_(&waiting.narrow(0, 0, done))
            }
            Self::Unfold(conv, step) => {
                let ys = unfolded(&conv.forward(xs, first, is_last), *step);
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
                let ys = folded(&conv.forward(&xs, first, is_last), *step);
                let [frames, height, width, channels] = [0, 1, 2, 3].map(|dim| ys.size()[dim]);
                let shortcut = folded(&xs, *step).view([frames, height, width, channels, -1]);
                ys + shortcut.mean_dim([-1_i64].as_slice(), false, None)
            }
        }
    }
}

/// `(T, H, W, O · pt · ph · pw)` → `(T · pt, H · ph, W · pw, O)`
fn unfolded(xs: &Tensor, step: Ltx2VaeStep) -> Tensor {
    let [time, edges] = step.factors();
    let [frames, height, width, channels] = [0, 1, 2, 3].map(|dim| xs.size()[dim]);
    let outputs = channels / step.folded();
    let xs = xs.view([frames, height, width, outputs, time, edges, edges].as_slice());
    // t h w (c pt ph pw) -> (t pt) (h ph) (w pw) c
    let xs = xs.permute([0, 4, 1, 5, 2, 6, 3]);
    xs.reshape([time * frames, edges * height, edges * width, outputs])
}

/// The way back.
fn folded(xs: &Tensor, step: Ltx2VaeStep) -> Tensor {
    let [time, edges] = step.factors();
    let [frames, height, width, channels] = [0, 1, 2, 3].map(|dim| xs.size()[dim]);
    let [frames, height, width] = [frames / time, height / edges, width / edges];
    let xs = xs.view([frames, time, height, edges, width, edges, channels].as_slice());
    // (t pt) (h ph) (w pw) c -> t h w (c pt ph pw)
    let xs = xs.permute([0, 2, 4, 6, 1, 3, 5]);
    xs.reshape([frames, height, width, channels * step.folded()])
}
