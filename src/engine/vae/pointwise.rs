//! Pointwise work between two convolutions, in one pass over memory: norm, SiLU, shortcut and the transforms in time.
//!
//! For f32 on the CPU, where each operation of libtorch would read and write all frames again. Frames and planes
//! are `(T, H, W, C)`, contiguous; a pixel's channels in all frames fit the innermost cache.

use safelight_loops::activation::NormSilu;
use safelight_loops::planes::{PassInput, PassOutput, PlanePass, REMEMBERED};
use tch::{Device, Kind, Tensor};

use super::causal::with_zeros_in_front;
use super::slices::{floats, run_all, shared};
use super::toom::TimeTransform;

/// About this many numbers of one frame are worth a turn of a thread.
const NUMBERS_PER_TURN: usize = 16 * 1024;

/// Source of the frames of a pass.
#[derive(Clone, Copy)]
pub(super) enum PointwiseSource<'a> {
    /// `(T, H, W, C)`
    Frames(&'a Tensor),
    /// Convolved planes, each `(1, H, W, C)`, that still miss the bias of their convolution.
    Planes(&'a [Tensor], &'a Tensor),
}

/// The memory that planes live in until they are convolved, used again and again.
///
/// Fresh memory of this size would cost a page fault for every 4 KiB, each time.
pub(super) struct ScratchPlanes(Tensor);

impl ScratchPlanes {
    pub(super) fn new() -> Self {
        Self(buffer([0]))
    }

    /// Whatever was handed out before must no longer be in use.
    fn tensor(&mut self, size: [i64; 4]) -> Tensor {
        let numel: i64 = size.iter().product();
        if self.0.numel() < numel as usize {
            self.0 = buffer([numel]);
        }
        self.0.narrow(0, 0, numel).view(size)
    }
}

/// Norm, SiLU and the planes for the next convolution: `(T + 2, H, W, C)`, to be used before the next call.
///
/// `gamma` holds the factor of each channel for a pixel of length one. `history` is what was remembered of the frames
/// before, `(2, H, W, C)` or nothing, and takes what is to be remembered of these.
pub(super) fn planes_from(
    source: PointwiseSource<'_>,
    gamma: &Tensor,
    history: &mut Option<Tensor>,
    transform: &TimeTransform,
    scratch: &mut ScratchPlanes,
) -> Tensor {
    let [height, width, channels] = source.size();
    let planes = scratch.tensor([transform.planes() as i64, height, width, channels]);
    // Frames before the first are zero.
    let memory = match history.take() {
        // After the first chunk only one frame is there to be remembered.
        Some(frames) => with_zeros_in_front(frames, REMEMBERED as i64).contiguous(),
        None => buffer([REMEMBERED as i64, height, width, channels]).zero_(),
    };
    let sink = PassOutput::Planes {
        gamma: floats(gamma),
        memory: shared(&memory),
        planes: shared(&planes),
    };
    run(source, sink, transform);
    *history = Some(memory);
    planes
}

/// Frames from convolved planes, plus `residual`: `(T, H, W, C)`.
pub(super) fn frames_from(
    planes: &[Tensor],
    bias: &Tensor,
    residual: Option<&Tensor>,
    transform: &TimeTransform,
) -> Tensor {
    let source = PointwiseSource::Planes(planes, bias);
    let [height, width, channels] = source.size();
    let frames = buffer([transform.frames as i64, height, width, channels]);
    let residual = residual.map(Tensor::contiguous);
    let sink = PassOutput::Frames {
        residual: residual.as_ref().map(floats),
        frames: shared(&frames),
    };
    run(source, sink, transform);
    frames
}

/// Norm and SiLU alone, for any number of frames: `(T, H, W, C)` → the same shape.
pub(super) fn activated(xs: &Tensor, gamma: &Tensor) -> Tensor {
    let xs = xs.contiguous();
    let out = xs.empty_like();
    let channels = floats(gamma).len();
    let pass = NormSilu {
        xs: floats(&xs),
        gamma: floats(gamma),
        out: shared(&out),
    };
    let grain = NUMBERS_PER_TURN.div_ceil(channels.max(1));
    run_all(&pass, xs.numel() / channels.max(1), grain);
    out
}

fn buffer<const N: usize>(size: [i64; N]) -> Tensor
where
    [i64; N]: tch::Shape,
{
    Tensor::empty(size, (Kind::Float, Device::Cpu))
}

impl PointwiseSource<'_> {
    /// Height, width and channels.
    fn size(&self) -> [i64; 3] {
        let size = match self {
            Self::Frames(frames) => frames.size(),
            Self::Planes(planes, _) => planes[0].size(),
        };
        [size[1], size[2], size[3]]
    }
}

fn run(source: PointwiseSource<'_>, sink: PassOutput<'_>, transform: &TimeTransform) {
    let [height, width, channels] = source.size().map(|n| n as usize);
    let pass = PlanePass {
        input: match source {
            PointwiseSource::Frames(frames) => PassInput::Frames(floats(frames)),
            PointwiseSource::Planes(planes, bias) => {
                PassInput::Planes(planes.iter().map(floats).collect(), floats(bias))
            }
        },
        sink,
        frames: transform.frames,
        planes_from_frames: &transform.planes_from_frames,
        frames_from_planes: &transform.frames_from_planes,
        pixels: height * width,
        channels,
    };
    let grain = NUMBERS_PER_TURN.div_ceil(channels.max(1));
    run_all(&pass, pass.pixels, grain);
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::activated;
    use crate::drawn::drawn;

    #[test]
    fn pixel_norm_is_correct_for_any_number_of_channels() {
        for channels in [1, 5, 16, 37] {
            let xs = drawn(&[2, 3, 2, channels]);
            let gamma = drawn(&[channels]);
            let length = xs.norm_scalaropt_dim(2, [-1], true);
            let expected = (&xs / length * &gamma).silu();
            let off = (activated(&xs, &gamma) - expected).abs().max();
            assert!(f64::try_from(off).unwrap() < 1e-6);
        }
    }

    #[test]
    fn a_black_pixel_stays_black() {
        let xs = Tensor::zeros([1, 1, 1, 7], (Kind::Float, Device::Cpu));
        let found = activated(&xs, &Tensor::ones([7], (Kind::Float, Device::Cpu)));
        assert_eq!(f64::try_from(found.abs().max()).unwrap(), 0.0);
    }
}
