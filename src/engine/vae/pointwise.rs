//! What stands between two convolutions, in one pass over memory: norm, SiLU, shortcut and the transforms in time.
//!
//! For f32 on the CPU, where each operation of libtorch would read and write all frames again. Frames and planes
//! are `(T, H, W, C)`, contiguous; a pixel's channels in all frames fit the innermost cache.

use std::ops::Range;

use tch::{Device, Kind, Tensor};

use super::causal::with_zeros_in_front;
use super::slices::{SharedMut, SharedWork, floats, multiply_add};
use super::toom::TimeTransform;

/// Frames that a convolution remembers.
const REMEMBERED: usize = 2;

/// Numbers that the widest vectors hold.
const LANES: usize = 16;

/// About this many numbers of one frame are worth a turn of a thread.
const NUMBERS_PER_TURN: usize = 16 * 1024;

/// Where the frames of a pass come from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// `(T, H, W, C)`
    Frames(&'a Tensor),
    /// Convolved planes, each `(1, H, W, C)`, that still miss the bias of their convolution.
    Planes(&'a [Tensor], &'a Tensor),
}

/// The memory that planes live in until they are convolved, used again and again.
///
/// Fresh memory of this size would cost a page fault for every 4 KiB, each time.
pub(super) struct Scratch(Tensor);

impl Scratch {
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
    source: Source<'_>,
    gamma: &Tensor,
    history: &mut Option<Tensor>,
    transform: &TimeTransform,
    scratch: &mut Scratch,
) -> Tensor {
    let [height, width, channels] = source.size();
    let planes = scratch.tensor([transform.planes() as i64, height, width, channels]);
    // Frames before the first are zero.
    let memory = match history.take() {
        // After the first chunk only one frame is there to be remembered.
        Some(frames) => with_zeros_in_front(frames, REMEMBERED as i64).contiguous(),
        None => buffer([REMEMBERED as i64, height, width, channels]).zero_(),
    };
    let sink = Sink::Planes {
        gamma: floats(gamma),
        memory: SharedMut::new(&memory),
        planes: SharedMut::new(&planes),
    };
    run(source, &sink, transform);
    *history = Some(memory);
    planes
}

/// The frames that convolved planes stand for, plus `residual`: `(T, H, W, C)`.
pub(super) fn frames_from(
    planes: &[Tensor],
    bias: &Tensor,
    residual: Option<&Tensor>,
    transform: &TimeTransform,
) -> Tensor {
    let source = Source::Planes(planes, bias);
    let [height, width, channels] = source.size();
    let frames = buffer([transform.frames as i64, height, width, channels]);
    let residual = residual.map(Tensor::contiguous);
    let sink = Sink::Frames {
        residual: residual.as_ref().map(floats),
        frames: SharedMut::new(&frames),
    };
    run(source, &sink, transform);
    frames
}

/// Norm and SiLU alone, for any number of frames: `(T, H, W, C)` → the same shape.
pub(super) fn activated(xs: &Tensor, gamma: &Tensor) -> Tensor {
    let xs = xs.contiguous();
    let out = xs.empty_like();
    let channels = floats(gamma).len();
    let pass = Activation {
        xs: floats(&xs),
        gamma: floats(gamma),
        out: SharedMut::new(&out),
    };
    let grain = NUMBERS_PER_TURN.div_ceil(channels.max(1));
    pass.run_all(xs.numel() / channels.max(1), grain);
    out
}

struct Activation<'a> {
    xs: &'a [f32],
    gamma: &'a [f32],
    out: SharedMut<'a>,
}

impl SharedWork for Activation<'_> {
    #[expect(
        unsafe_code,
        reason = "threads write to different pixels of the same tensor"
    )]
    #[inline(always)]
    fn run<const FUSED: bool>(&self, pixels: Range<usize>) {
        let channels = self.gamma.len();
        for start in pixels.map(|pixel| pixel * channels) {
            // SAFETY: this pixel is written here alone.
            let row = unsafe { self.out.row(start, channels) };
            copy(row, &self.xs[start..][..channels]);
            normalize_and_activate::<FUSED>(row, self.gamma);
        }
    }
}

fn buffer<const N: usize>(size: [i64; N]) -> Tensor
where
    [i64; N]: tch::Shape,
{
    Tensor::empty(size, (Kind::Float, Device::Cpu))
}

impl Source<'_> {
    /// Height, width and channels.
    fn size(&self) -> [i64; 3] {
        let size = match self {
            Self::Frames(frames) => frames.size(),
            Self::Planes(planes, _) => planes[0].size(),
        };
        [size[1], size[2], size[3]]
    }
}

enum Sink<'a> {
    Planes {
        gamma: &'a [f32],
        /// What was remembered, replaced by what is to be.
        memory: SharedMut<'a>,
        planes: SharedMut<'a>,
    },
    Frames {
        residual: Option<&'a [f32]>,
        frames: SharedMut<'a>,
    },
}

/// The same as `Source`, open for reading.
enum Input<'a> {
    Frames(&'a [f32]),
    Planes(Vec<&'a [f32]>, &'a [f32]),
}

struct Pass<'a> {
    input: Input<'a>,
    sink: &'a Sink<'a>,
    transform: &'a TimeTransform,
    pixels: usize,
    channels: usize,
}

fn run(source: Source<'_>, sink: &Sink<'_>, transform: &TimeTransform) {
    let [height, width, channels] = source.size().map(|n| n as usize);
    let pass = Pass {
        input: match source {
            Source::Frames(frames) => Input::Frames(floats(frames)),
            Source::Planes(planes, bias) => {
                Input::Planes(planes.iter().map(floats).collect(), floats(bias))
            }
        },
        sink,
        transform,
        pixels: height * width,
        channels,
    };
    let grain = NUMBERS_PER_TURN.div_ceil(channels.max(1));
    pass.run_all(pass.pixels, grain);
}

impl SharedWork for Pass<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(&self, pixels: Range<usize>) {
        match self.transform.frames {
            2 => self.of_frames::<2, 4, FUSED>(pixels),
            4 => self.of_frames::<4, 6, FUSED>(pixels),
            other => unreachable!("no transform is made for {other} frames"),
        }
    }
}

impl Pass<'_> {
    /// `N` frames, `P` = `N` + 2 planes.
    #[expect(
        unsafe_code,
        reason = "threads write to different pixels of the same tensors"
    )]
    #[inline(always)]
    fn of_frames<const N: usize, const P: usize, const FUSED: bool>(&self, pixels: Range<usize>) {
        let channels = self.channels;
        // Two remembered frames, then the new ones.
        let mut pixel = vec![0.0; P * channels];
        for at in pixels {
            let (remembered, new) = pixel.split_at_mut(REMEMBERED * channels);
            self.read::<P, FUSED>(at, new);
            match self.sink {
                Sink::Frames { residual, frames } => {
                    for (t, row) in new.chunks_exact_mut(channels).enumerate() {
                        let start = (t * self.pixels + at) * channels;
                        if let Some(residual) = residual {
                            add(row, &residual[start..][..channels]);
                        }
                        // SAFETY: this pixel of this frame is written here alone.
                        copy(unsafe { frames.row(start, channels) }, row);
                    }
                }
                Sink::Planes {
                    gamma,
                    memory,
                    planes,
                } => {
                    for row in new.chunks_exact_mut(channels) {
                        normalize_and_activate::<FUSED>(row, gamma);
                    }
                    let newest = &new[(N - REMEMBERED) * channels..];
                    let rows = remembered.chunks_exact_mut(channels);
                    for (i, (row, newest)) in rows.zip(newest.chunks_exact(channels)).enumerate() {
                        let start = (i * self.pixels + at) * channels;
                        // SAFETY: this pixel of this frame is used here alone.
                        let memory = unsafe { memory.row(start, channels) };
                        copy(row, memory);
                        copy(memory, newest);
                    }
                    let rows: [&[f32]; P] =
                        std::array::from_fn(|i| &pixel[i * channels..][..channels]);
                    for (k, factors) in self
                        .transform
                        .planes_from_frames
                        .chunks_exact(P)
                        .enumerate()
                    {
                        let start = (k * self.pixels + at) * channels;
                        // SAFETY: this pixel of this plane is written here alone.
                        let plane = unsafe { planes.row(start, channels) };
                        sum_of_rows::<P, FUSED>(plane, rows, factors, None);
                    }
                }
            }
        }
    }

    /// The new frames of one pixel.
    #[inline(always)]
    fn read<const P: usize, const FUSED: bool>(&self, at: usize, new: &mut [f32]) {
        let channels = self.channels;
        match &self.input {
            Input::Frames(frames) => {
                for (t, row) in new.chunks_exact_mut(channels).enumerate() {
                    copy(
                        row,
                        &frames[(t * self.pixels + at) * channels..][..channels],
                    );
                }
            }
            Input::Planes(planes, bias) => {
                let rows: [&[f32]; P] =
                    std::array::from_fn(|k| &planes[k][at * channels..][..channels]);
                let factors = self.transform.frames_from_planes.chunks_exact(P);
                for (row, factors) in new.chunks_exact_mut(channels).zip(factors) {
                    sum_of_rows::<P, FUSED>(row, rows, factors, Some(bias));
                }
            }
        }
    }
}

#[inline(always)]
fn add(row: &mut [f32], other: &[f32]) {
    for (x, y) in row.iter_mut().zip(other) {
        *x += y;
    }
}

/// `out` = `factors` · `rows` (+ `start`)
#[inline(always)]
fn sum_of_rows<const J: usize, const FUSED: bool>(
    out: &mut [f32],
    rows: [&[f32]; J],
    factors: &[f32],
    start: Option<&[f32]>,
) {
    let channels = out.len();
    let factors: [f32; J] = std::array::from_fn(|j| factors[j]);
    let mut at = 0;
    // Blocks of fixed size become vector code for certain.
    while at + LANES <= channels {
        let mut sum = start.map_or([0.0; LANES], |start| block(start, at));
        for j in 0..J {
            let row = block(rows[j], at);
            for lane in 0..LANES {
                sum[lane] = multiply_add::<FUSED>(factors[j], row[lane], sum[lane]);
            }
        }
        out[at..at + LANES].copy_from_slice(&sum);
        at += LANES;
    }
    for c in at..channels {
        let mut sum = start.map_or(0.0, |start| start[c]);
        for j in 0..J {
            sum = multiply_add::<FUSED>(factors[j], rows[j][c], sum);
        }
        out[c] = sum;
    }
}

#[inline(always)]
fn block(row: &[f32], at: usize) -> [f32; LANES] {
    let mut block = [0.0; LANES];
    block.copy_from_slice(&row[at..at + LANES]);
    block
}

/// Short rows: a call of the library's copy costs more than the copying.
#[inline(always)]
fn copy(to: &mut [f32], from: &[f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

/// One pixel of one frame: divided by its length, times `gamma`, then SiLU.
#[inline(always)]
fn normalize_and_activate<const FUSED: bool>(row: &mut [f32], gamma: &[f32]) {
    let inverse = 1.0 / sum_of_squares::<FUSED>(row).sqrt().max(1e-12);
    for (x, gamma) in row.iter_mut().zip(gamma) {
        *x = silu::<FUSED>(*x * inverse * gamma);
    }
}

/// In as many partial sums as a vector has lanes.
#[inline(always)]
fn sum_of_squares<const FUSED: bool>(row: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let mut chunks = row.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum = multiply_add::<FUSED>(*x, *x, *sum);
        }
    }
    for (sum, x) in sums.iter_mut().zip(chunks.remainder()) {
        *sum = multiply_add::<FUSED>(*x, *x, *sum);
    }
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
pub(super) fn silu<const FUSED: bool>(x: f32) -> f32 {
    x / (1.0 + exp::<FUSED>(-x))
}

/// e to the power of `x` to a unit or two in the last place, without branches, so that it becomes vector code.
#[inline(always)]
fn exp<const FUSED: bool>(x: f32) -> f32 {
    // Above, the result would be infinite; below, not a normal number.
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    // Adding this number rounds to an integer, which is then in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let shifted = multiply_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts, the first of which times n is exact.
    let r = multiply_add::<FUSED>(n, -0.693_359_4, x);
    let r = multiply_add::<FUSED>(n, 2.121_944_4e-4, r);
    let power_of_two = f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000));
    // The series of e^r up to its 7th power: |r| is below 0.35.
    let mut sum = 1.0 / 5040.0;
    for factor in [
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        sum = multiply_add::<FUSED>(sum, r, factor);
    }
    sum * power_of_two
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::{activated, exp, silu};

    #[test]
    fn the_exponential_is_as_exact_as_single_precision_allows() {
        for i in -8700..8800 {
            let x = i as f32 / 100.0;
            let exact = f64::from(x).exp();
            for found in [exp::<false>(x), exp::<true>(x)] {
                let off = (f64::from(found) - exact).abs() / exact;
                assert!(off < 2.5e-7, "e^{x} is off by {off}");
            }
        }
    }

    #[test]
    fn the_activation_goes_to_zero_and_to_its_argument() {
        assert_eq!(silu::<false>(0.0), 0.0);
        assert_eq!(silu::<false>(200.0), 200.0);
        assert!(silu::<false>(-200.0).abs() < 1e-30);
        assert!(silu::<false>(f32::NAN).is_nan());
    }

    #[test]
    fn pixels_are_divided_by_their_length_whatever_their_width() {
        for channels in [1, 5, 16, 37] {
            let xs = Tensor::randn([2, 3, 2, channels], (Kind::Float, Device::Cpu));
            let gamma = Tensor::randn([channels], (Kind::Float, Device::Cpu));
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
