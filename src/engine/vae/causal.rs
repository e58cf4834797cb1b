//! Convolution over time that never looks ahead, fed a few frames at a time.
//!
//! Each convolution remembers the last frames that it saw, so that chunks give what the whole clip would.
//! Does not choose the chunks, and knows nothing of what stands between two convolutions.

use tch::{Device, Kind, Tensor};

use super::toom::{TAPS, TimeTransform};
use crate::weights::{Weights, WeightsError};

/// What the convolutions of one network remember from chunk to chunk, in the order in which they run.
pub(super) struct FrameCache {
    slots: Vec<Option<Tensor>>,
    next: usize,
    first_chunk: bool,
}

impl FrameCache {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            next: 0,
            first_chunk: true,
        }
    }

    /// To be called between two chunks.
    pub(super) fn rewind(&mut self) {
        self.next = 0;
        self.first_chunk = false;
    }

    pub(super) fn is_first_chunk(&self) -> bool {
        self.first_chunk
    }

    /// The memory of the layer that runs now: the same one at the same place of every chunk.
    pub(super) fn slot(&mut self) -> &mut Option<Tensor> {
        if self.next == self.slots.len() {
            self.slots.push(None);
        }
        self.next += 1;
        &mut self.slots[self.next - 1]
    }
}

/// How convolutions over time are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvForm {
    /// Volume by volume: what GPUs have kernels for.
    Volumes,
    /// Picture by picture: for GPUs whose kernels for volumes are slow or missing, and for half precision on the CPU.
    Pictures,
    /// Picture by picture with fewer multiplications, and all between two convolutions at once: for f32 on the CPU.
    Planes,
}

impl ConvForm {
    /// The fastest one for the place and kind of `weights`.
    pub fn for_weights(weights: &Weights) -> Self {
        match (weights.device(), weights.kind()) {
            (Device::Cpu, Kind::Float) => Self::Planes,
            (Device::Cpu, _) => Self::Pictures,
            _ => Self::Volumes,
        }
    }

    /// This one where it can be used, else the fastest one.
    pub(super) fn or_fastest(self, weights: &Weights) -> Self {
        let fastest = Self::for_weights(weights);
        if self == Self::Planes { fastest } else { self }
    }
}

/// How a network's layers will be fed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Feed {
    pub(super) form: ConvForm,
    /// Frames of every chunk after the first one, which is one frame.
    pub(super) frames: i64,
}

/// The weights as the form wants them.
#[derive(Debug)]
enum Form {
    /// As one convolution of pictures that carry their predecessors as more channels, `(O, taps · C, kh, kw)`.
    /// On the CPU this is twice to ten times as fast as the convolution of volumes at widths that are no power of two.
    Pictures(Tensor),
    /// As convolutions of sums of frames, fewer than there are taps: for 3 × 3 × 3 and several frames at a time.
    Planes(Planes),
    /// As one convolution of volumes, `(O, C, taps, kh, kw)`.
    Volumes(Tensor),
}

/// A convolution whose taps in time are planes, see `toom`.
#[derive(Debug)]
pub(super) struct Planes {
    pub(super) transform: TimeTransform,
    /// Each `(O, C, 3, 3)`
    weights: Vec<Tensor>,
}

impl Planes {
    /// `weight`: `(O, C, 3, kh, kw)`
    fn new(weight: &Tensor, transform: TimeTransform) -> Self {
        let size = weight.size();
        let factors = Tensor::from_slice(&transform.planes_from_taps).view([-1, TAPS as i64]);
        // o c t h w -> t (o h w c), summed in f64
        let taps = weight.permute([2, 0, 3, 4, 1]).to_kind(Kind::Double);
        let planes = factors.matmul(&taps.reshape([TAPS as i64, -1]));
        let weights = planes
            .to_kind(Kind::Float)
            .unbind(0)
            .into_iter()
            .map(|plane| {
                let plane = plane.view([size[0], size[3], size[4], size[1]]);
                plane.permute([0, 3, 1, 2])
            });
        Self {
            weights: weights.collect(),
            transform,
        }
    }

    /// `planes`: `(T + 2, H, W, C)` → as many tensors `(1, H, W, O)`, without bias
    pub(super) fn convolve(&self, planes: &Tensor) -> Vec<Tensor> {
        let planes = planes.split(1, 0).into_iter().zip(&self.weights);
        planes
            .map(|(plane, weight)| convolve_pictures(&plane, weight, None, [1, 1]))
            .collect()
    }
}

/// A convolution of `(T, H, W, C)` frames whose borders in space are zero and whose future is unknown.
#[derive(Debug)]
pub(super) struct CausalConv3d {
    form: Form,
    bias: Tensor,
    taps: i64,
    padding: [i64; 2],
    inputs: i64,
}

impl CausalConv3d {
    pub(super) fn new(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        kernel: [i64; 3],
        form: ConvForm,
    ) -> Result<Self, WeightsError> {
        // One frame at a time has no form of planes.
        Self::behind_norm(w, [inputs, outputs], kernel, Feed { form, frames: 1 })
    }

    /// For the place behind a norm and SiLU: with planes, the frames must come from `pointwise`.
    pub(super) fn behind_norm(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        kernel: [i64; 3],
        feed: Feed,
    ) -> Result<Self, WeightsError> {
        let [taps, kernel_h, kernel_w] = kernel;
        let weight = w.tensor("weight", &[outputs, inputs, taps, kernel_h, kernel_w])?;
        let transform = TimeTransform::for_frames(feed.frames);
        let form = match (feed.form, transform) {
            (ConvForm::Planes, Some(transform)) => Form::Planes(Planes::new(&weight, transform)),
            (ConvForm::Volumes, _) => {
                // o c t h w with channels innermost in memory
                let rows = weight.permute([0, 2, 3, 4, 1]).contiguous();
                Form::Volumes(rows.permute([0, 4, 1, 2, 3]))
            }
            _ => {
                // o c t h w -> o h w (t c), seen as o (t c) h w
                let rows = weight.permute([0, 3, 4, 2, 1]).contiguous();
                let rows = rows.view([outputs, kernel_h, kernel_w, taps * inputs]);
                Form::Pictures(rows.permute([0, 3, 1, 2]))
            }
        };
        Ok(Self {
            form,
            bias: w.tensor("bias", &[outputs])?,
            taps,
            padding: [kernel_h / 2, kernel_w / 2],
            inputs,
        })
    }

    pub(super) fn device(&self) -> Device {
        self.bias.device()
    }

    pub(super) fn bias(&self) -> &Tensor {
        &self.bias
    }

    /// The form for `frames` at a time, where there is a faster one.
    pub(super) fn planes_for(&self, frames: i64) -> Option<&Planes> {
        match &self.form {
            Form::Planes(planes) if planes.transform.frames as i64 == frames => Some(planes),
            _ => None,
        }
    }

    /// `xs`: `(T, H, W, C)` → `(T, H, W, O)`, with what came before `xs` taken from and left in `history`.
    pub(super) fn forward(&self, xs: &Tensor, history: &mut Option<Tensor>) -> Tensor {
        if self.taps == 1 {
            return self.convolve(xs, 1);
        }
        let frames = match &*history {
            Some(before) => Tensor::cat(&[before, xs], 0),
            None => xs.shallow_clone(),
        };
        let kept = frames.size()[0].min(self.taps - 1);
        *history = Some(frames.narrow(0, frames.size()[0] - kept, kept).copy());
        // Frames before the first are zero. One frame alone needs none of them, only fewer taps.
        let missing = xs.size()[0] + self.taps - 1 - frames.size()[0];
        if missing > 0 && xs.size()[0] > 1 {
            self.convolve(&frames.constant_pad_nd([0, 0, 0, 0, 0, 0, missing, 0]), 1)
        } else {
            self.convolve(&frames, 1)
        }
    }

    /// `frames`: `(stride · (T - 1) + taps, H, W, C)` → `(T, H, W, O)`; fewer frames than taps are the newest ones.
    pub(super) fn convolve(&self, frames: &Tensor, stride: i64) -> Tensor {
        let taps = self.taps.min(frames.size()[0]);
        match &self.form {
            Form::Pictures(weight) => {
                let unused = (self.taps - taps) * self.inputs;
                let weight = weight.narrow(1, unused, taps * self.inputs);
                let pictures = with_predecessors(frames, taps, stride);
                convolve_pictures(&pictures, &weight, Some(&self.bias), self.padding)
            }
            Form::Planes(planes) => {
                // The last plane is the last tap alone: all that the first frame of a clip needs.
                assert_eq!(
                    taps, 1,
                    "chunks are one frame and then always as many as the form is for"
                );
                let last = &planes.weights[planes.weights.len() - 1];
                convolve_pictures(frames, last, Some(&self.bias), self.padding)
            }
            Form::Volumes(weight) => {
                let weight = weight.narrow(2, self.taps - taps, taps);
                let [pad_h, pad_w] = self.padding;
                // t h w c -> 1 c t h w and back: strides only
                let volume = frames.permute([3, 0, 1, 2]).unsqueeze(0);
                let ys = volume.conv3d(
                    &weight,
                    Some(&self.bias),
                    [stride, 1, 1],
                    [0, pad_h, pad_w],
                    [1, 1, 1],
                    1,
                );
                ys.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous()
            }
        }
    }
}

/// `xs`: `(T, H, W, C)` → `(T, H, W, O)`
pub(super) fn convolve_pictures(
    xs: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    padding: [i64; 2],
) -> Tensor {
    // t h w c -> t c h w and back: strides only
    let ys = xs.permute([0, 3, 1, 2]);
    let ys = ys.conv2d(weight, bias, [1, 1], padding, [1, 1], 1);
    ys.permute([0, 2, 3, 1]).contiguous()
}

/// `(stride · (T - 1) + taps, H, W, C)` → `(T, H, W, taps · C)`: every frame behind those before it.
fn with_predecessors(frames: &Tensor, taps: i64, stride: i64) -> Tensor {
    if taps == 1 && stride == 1 {
        return frames.shallow_clone();
    }
    let last = frames.size()[0] - taps;
    let shifted: Vec<Tensor> = (0..taps)
        .map(|tap| frames.slice(0, tap, tap + last + 1, stride))
        .collect();
    Tensor::cat(&shifted, -1)
}
