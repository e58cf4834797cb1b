//! Causal convolution over time, fed a few frames at a time.
//!
//! Each convolution caches the last frames of its input, so that chunks give the result of the whole video.
//! The caller chooses the chunks.

use safelight_core::compute::conv_backends::ConvBackend;
use tch::{Device, Kind, Tensor};

use super::toom::{TAPS, TimeTransform};
use crate::nn::convolve_images;
use crate::parallel::{is_shared, row_bands};
use crate::runtime::{conv_backend, is_rocm};
use crate::weights::{Weights, WeightsError};

/// Cached frames of one network's convolutions from chunk to chunk, in execution order.
#[derive(Default)]
pub(super) struct FrameCache {
    slots: Vec<Option<Tensor>>,
    next: usize,
    first_chunk: bool,
}

impl FrameCache {
    /// To be called before each chunk, which are counted from 0.
    pub(super) fn begin(&mut self, chunk: usize) {
        self.next = 0;
        self.first_chunk = chunk == 0;
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

/// Algorithms for convolutions over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvForm {
    /// Volume by volume.
    Volumes,
    /// Image by image: for GPUs whose kernels for volumes are slow or missing, and for half precision on the CPU.
    Images,
    /// Each layer in the faster one of the two, and fewer operations between layers: for GPUs.
    Mixed,
    /// Image by image with fewer multiplications, and all between two convolutions at once: for f32 on the CPU.
    Planes,
}

impl ConvForm {
    /// The fastest one for the place and kind of `weights`.
    pub fn for_weights(weights: &Weights) -> Self {
        match (weights.device(), weights.kind()) {
            // Planes take whole frames.
            (Device::Cpu, Kind::Float) if !is_shared() => Self::Planes,
            (Device::Cpu, _) => Self::Images,
            _ => Self::Mixed,
        }
    }

    /// The form of one layer with taps in time and space.
    ///
    /// Measured on an H200 for 3 × 3 × 3 in bf16, channels innermost, in milliseconds, volumes against images:
    /// 480 × 832 at width 96, 4 frames: 2.9 against 1.63; 240 × 416 at width 192: 1.38 against 1.46; 120 × 208 at
    /// width 384: 1.21 against 0.99; 60 × 104 at width 384, 1 frame: 0.11 against 0.21. Making the images that
    /// carry their predecessors costs two more passes over the frames than making the volume does.
    ///
    /// On AMD all layers are what the backend says, because that is what its probe measured.
    fn of_layer(self, backend: ConvBackend, is_rocm: bool, inputs: i64, frames: i64) -> Self {
        match self {
            Self::Mixed if matches!(backend, ConvBackend::Frames | ConvBackend::Cpu) => {
                Self::Images
            }
            Self::Mixed if is_rocm => Self::Volumes,
            Self::Mixed if frames > 1 && !(129..=255).contains(&inputs) => Self::Images,
            Self::Mixed => Self::Volumes,
            other => other,
        }
    }

    /// Algorithm of a probe or benchmark of `backend`.
    pub(super) fn of_backend(backend: ConvBackend) -> Self {
        match backend {
            ConvBackend::Direct | ConvBackend::NoMiopen => Self::Volumes,
            ConvBackend::Frames | ConvBackend::Cpu => Self::Images,
        }
    }

    /// This one where it can be used, else the fastest one.
    pub(super) fn or_fastest(self, weights: &Weights) -> Self {
        let fastest = Self::for_weights(weights);
        if self == Self::Planes { fastest } else { self }
    }
}

/// Frames per chunk and algorithm with which a network's layers are fed.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConvFeed {
    pub(super) form: ConvForm,
    /// Frames of every chunk after the first one, which is one frame.
    pub(super) frames: i64,
    /// Frames that a convolution over time sees at once: 1 in networks of images.
    pub(super) taps: i64,
}

/// The weights as the form wants them.
#[derive(Debug)]
enum ConvForm3d {
    /// As one convolution of images that carry their predecessors as more channels, `(O, taps · C, kh, kw)`.
    /// On the CPU this is twice to ten times as fast as the convolution of volumes at widths that are no power of two.
    Images(Tensor),
    /// As convolutions of sums of frames, fewer than there are taps: for 3 × 3 × 3 and several frames at a time.
    Planes(ToomCookConv),
    /// As one convolution of volumes, `(O, C, taps, kh, kw)`.
    Volumes(Tensor),
    /// As one product of matrices, `(O, taps · C)`: for kernels of one pixel.
    Matrix(Tensor),
}

/// A convolution whose taps in time are planes, see `toom`.
#[derive(Debug)]
pub(super) struct ToomCookConv {
    pub(super) transform: TimeTransform,
    /// Each `(O, C, 3, 3)`
    weights: Vec<Tensor>,
}

impl ToomCookConv {
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
            .map(|(plane, weight)| convolve_images(&plane, weight, None, [1, 1]))
            .collect()
    }
}

/// A convolution of `(T, H, W, C)` frames whose borders in space are zero and whose future is unknown.
#[derive(Debug)]
pub(super) struct CausalConv3d {
    form: ConvForm3d,
    bias: Tensor,
    taps: i64,
    padding: [i64; 2],
    inputs: i64,
}

impl CausalConv3d {
    pub(super) fn new(
        w: &Weights,
        widths: [i64; 2],
        kernel: [i64; 3],
        feed: ConvFeed,
    ) -> Result<Self, WeightsError> {
        Self::in_form(w, widths, kernel, feed, None)
    }

    /// For a convolution after norm and SiLU: with planes, the frames must come from `pointwise`.
    pub(super) fn behind_norm(
        w: &Weights,
        widths: [i64; 2],
        kernel: [i64; 3],
        feed: ConvFeed,
    ) -> Result<Self, WeightsError> {
        let transform = TimeTransform::for_frames(feed.frames);
        Self::in_form(w, widths, kernel, feed, transform)
    }

    /// `transform`: what planes are made with, where they can be.
    fn in_form(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        kernel: [i64; 3],
        feed: ConvFeed,
        transform: Option<TimeTransform>,
    ) -> Result<Self, WeightsError> {
        let [taps, kernel_h, kernel_w] = kernel;
        let taps = taps.min(feed.taps);
        let size = [outputs, inputs, taps, kernel_h, kernel_w];
        let is_flat = taps == 1 && w.shape_of("weight").is_some_and(|found| found.len() == 4);
        let weight = if is_flat {
            let size = [outputs, inputs, kernel_h, kernel_w];
            w.tensor("weight", &size)?.unsqueeze(2)
        } else {
            w.tensor("weight", &size)?
        };
        let transform = transform.filter(|_| taps > 1);
        let bias = w.tensor("bias", &[outputs])?;
        if feed.form == ConvForm::Mixed && kernel_h * kernel_w == 1 {
            // o c t 1 1 -> o (t c)
            let rows = weight.permute([0, 3, 4, 2, 1]).contiguous();
            let form = ConvForm3d::Matrix(rows.view([outputs, taps * inputs]));
            return Ok(Self::with(form, &weight, bias));
        }
        Ok(match (feed.form, transform) {
            (ConvForm::Planes, Some(transform)) => {
                let form = ConvForm3d::Planes(ToomCookConv::new(&weight, transform));
                Self::with(form, &weight, bias)
            }
            _ => Self::of_feed(&weight, bias, feed),
        })
    }

    /// `weight`: `(O, C, taps, kh, kw)`, `bias`: `(O)`
    pub(super) fn of_feed(weight: &Tensor, bias: Tensor, feed: ConvFeed) -> Self {
        let (inputs, frames) = (weight.size()[1], feed.frames);
        let form = feed
            .form
            .of_layer(conv_backend(), is_rocm(), inputs, frames);
        Self::of_tensors(weight, bias, form)
    }

    /// `weight`: `(O, C, taps, kh, kw)`, `bias`: `(O)`; by volumes or by images.
    pub(super) fn of_tensors(weight: &Tensor, bias: Tensor, form: ConvForm) -> Self {
        let size = weight.size();
        let [outputs, inputs, taps, kernel_h, kernel_w] = [0, 1, 2, 3, 4].map(|dim| size[dim]);
        let form = if form == ConvForm::Volumes {
            // o c t h w with channels innermost in memory
            let rows = weight.permute([0, 2, 3, 4, 1]).contiguous();
            ConvForm3d::Volumes(rows.permute([0, 4, 1, 2, 3]))
        } else {
            // o c t h w -> o h w (t c), seen as o (t c) h w
            let rows = weight.permute([0, 3, 4, 2, 1]).contiguous();
            let rows = rows.view([outputs, kernel_h, kernel_w, taps * inputs]);
            ConvForm3d::Images(rows.permute([0, 3, 1, 2]))
        };
        Self::with(form, weight, bias)
    }

    fn with(form: ConvForm3d, weight: &Tensor, bias: Tensor) -> Self {
        let size = weight.size();
        Self {
            form,
            bias,
            taps: size[2],
            padding: [size[3] / 2, size[4] / 2],
            inputs: size[1],
        }
    }

    /// Rows and columns of zeros on each side: bands come with their neighbours' rows.
    fn padding(&self) -> [i64; 2] {
        let [rows, columns] = self.padding;
        [if row_bands().is_some() { 0 } else { rows }, columns]
    }

    pub(super) fn device(&self) -> Device {
        self.bias.device()
    }

    pub(super) fn bias(&self) -> &Tensor {
        &self.bias
    }

    /// The form for `frames` at a time, where there is a faster one.
    pub(super) fn planes_for(&self, frames: i64) -> Option<&ToomCookConv> {
        match &self.form {
            ConvForm3d::Planes(planes) if planes.transform.frames as i64 == frames => Some(planes),
            _ => None,
        }
    }

    /// `xs`: `(T, H, W, C)` → `(T, H, W, O)`, with what came before `xs` taken from and left in `history`.
    pub(super) fn forward(&self, xs: &Tensor, history: &mut Option<Tensor>) -> Tensor {
        if self.taps == 1 {
            return self.convolve(xs, 1);
        }
        self.forward_filled(xs, history, |frames| frames.shallow_clone().copy_(xs))
    }

    /// Like [`Self::forward`], for frames with the size and kind of `like` that `fill` writes directly into the
    /// convolution's input: this saves a pass over all of them.
    pub(super) fn forward_filled(
        &self,
        like: &Tensor,
        history: &mut Option<Tensor>,
        fill: impl FnOnce(&Tensor),
    ) -> Tensor {
        if self.padding[0] > 0
            && let Some(bands) = row_bands()
        {
            let frames = like.empty_like();
            fill(&frames);
            let frames = bands.bordered(&frames);
            return self.forward_in_place(&frames, history, |to| to.shallow_clone().copy_(&frames));
        }
        self.forward_in_place(like, history, fill)
    }

    fn forward_in_place(
        &self,
        like: &Tensor,
        history: &mut Option<Tensor>,
        fill: impl FnOnce(&Tensor),
    ) -> Tensor {
        let size = like.size();
        let [new, height, width, channels] = [0, 1, 2, 3].map(|dim| size[dim]);
        let remembered = self.taps - 1;
        let options = (like.kind(), like.device());
        if history.is_none() && new == 1 {
            // One frame at the start needs none of the frames before it, which are zero, only fewer taps.
            let frames = Tensor::empty(size.as_slice(), options);
            fill(&frames);
            let ys = self.convolve(&frames, 1);
            *history = Some(frames).filter(|_| self.taps > 1);
            return ys;
        }
        let before = match history.take() {
            Some(before) => with_zeros_in_front(before, remembered),
            None => Tensor::zeros([remembered, height, width, channels], options),
        };
        match &self.form {
            ConvForm3d::Images(_) | ConvForm3d::Matrix(_) => {
                let rows = [new, height, width, self.taps, channels];
                let rows = Tensor::empty(rows.as_slice(), options);
                let newest = rows.select(3, remembered);
                fill(&newest);
                for tap in 0..remembered {
                    let late = (remembered - tap).min(new);
                    let slots = rows.select(3, tap);
                    slots.narrow(0, 0, late).copy_(&before.narrow(0, tap, late));
                    slots
                        .narrow(0, late, new - late)
                        .copy_(&newest.narrow(0, 0, new - late));
                }
                *history = Some(last_frames(&before, &newest, remembered));
                self.convolve_images(&rows.view([new, height, width, self.taps * channels]))
            }
            ConvForm3d::Volumes(_) | ConvForm3d::Planes(_) => {
                let frames = [remembered + new, height, width, channels];
                let frames = Tensor::empty(frames, options);
                frames.narrow(0, 0, remembered).copy_(&before);
                fill(&frames.narrow(0, remembered, new));
                *history = Some(frames.narrow(0, new, remembered).copy());
                self.convolve(&frames, 1)
            }
        }
    }

    /// `frames`: `(stride · (T - 1) + taps, H, W, C)` → `(T, H, W, O)`; fewer frames than taps are the newest ones.
    pub(super) fn convolve(&self, frames: &Tensor, stride: i64) -> Tensor {
        let taps = self.taps.min(frames.size()[0]);
        match &self.form {
            ConvForm3d::Images(_) | ConvForm3d::Matrix(_) => {
                self.convolve_images(&with_predecessors(frames, taps, stride))
            }
            ConvForm3d::Planes(planes) => {
                // The last plane is the last tap alone: all that the first frame of a video needs.
                assert_eq!(
                    taps, 1,
                    "chunks are one frame and then always as many as the form is for"
                );
                let last = &planes.weights[planes.weights.len() - 1];
                convolve_images(frames, last, Some(&self.bias), self.padding())
            }
            ConvForm3d::Volumes(weight) => {
                let weight = weight.narrow(2, self.taps - taps, taps);
                let [pad_h, pad_w] = self.padding();
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

    /// `rows`: `(T, H, W, taps · C)`, each frame after its predecessors. Returns `(T, H, W, O)`; fewer taps are the
    /// newest.
    fn convolve_images(&self, rows: &Tensor) -> Tensor {
        let channels = rows.size()[3];
        let unused = self.taps * self.inputs - channels;
        let (bias, padding) = (Some(&self.bias), self.padding());
        match &self.form {
            ConvForm3d::Matrix(weight) => rows.linear(&weight.narrow(1, unused, channels), bias),
            ConvForm3d::Images(weight) => {
                convolve_images(rows, &weight.narrow(1, unused, channels), bias, padding)
            }
            ConvForm3d::Planes(_) | ConvForm3d::Volumes(_) => {
                unreachable!("these take frames alone")
            }
        }
    }
}

/// After a first chunk of one frame only that is there to be remembered.
pub(super) fn with_zeros_in_front(frames: Tensor, count: i64) -> Tensor {
    let missing = count - frames.size()[0];
    if missing > 0 {
        frames.constant_pad_nd([0, 0, 0, 0, 0, 0, missing, 0])
    } else {
        frames
    }
}

fn last_frames(before: &Tensor, newest: &Tensor, count: i64) -> Tensor {
    let new = newest.size()[0];
    if new >= count {
        newest.narrow(0, new - count, count).contiguous()
    } else {
        Tensor::cat(&[&before.narrow(0, new, count - new), newest], 0)
    }
}

/// `(stride · (T - 1) + taps, H, W, C)` to `(T, H, W, taps · C)`: every frame after its predecessors.
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

#[cfg(test)]
mod tests;
