//! Transforms of frames to Toom-Cook planes and back, with the pointwise work between two convolutions, in one pass
//! over memory. Frames and planes are `(T, H, W, C)`.

use std::ops::Range;

use crate::SharedRows;
use crate::activation::normalize_and_activate;
use crate::vectors::{InRanges, LANES, RangeWork, copy, multiply_add, vectorized_range};

/// Frames that a convolution remembers.
pub const REMEMBERED: usize = 2;

/// Source of a pass' frames.
pub enum PassInput<'a> {
    Frames(&'a [f32]),
    /// Convolved planes, that still miss the bias of their convolution.
    Planes(Vec<&'a [f32]>, &'a [f32]),
}

/// Destination of a pass' frames.
pub enum PassOutput<'a> {
    /// Norm, SiLU and the planes for the next convolution.
    Planes {
        gamma: &'a [f32],
        /// Cached frames, replaced by the next ones.
        memory: SharedRows<'a>,
        planes: SharedRows<'a>,
    },
    /// The frames, plus `residual`.
    Frames {
        residual: Option<&'a [f32]>,
        frames: SharedRows<'a>,
    },
}

/// Items are pixels of all frames.
pub struct PlanePass<'a> {
    pub input: PassInput<'a>,
    pub sink: PassOutput<'a>,
    /// New frames: 2 or 4, for which there are two planes more.
    pub frames: usize,
    /// planes × (2 remembered frames and the new ones), row by row
    pub planes_from_frames: &'a [f32],
    /// frames × planes, row by row
    pub frames_from_planes: &'a [f32],
    /// Pixels of a frame.
    pub pixels: usize,
    pub channels: usize,
}

impl InRanges for PlanePass<'_> {
    #[expect(unsafe_code, reason = "as the trait's")]
    unsafe fn run(&self, range: Range<usize>) {
        vectorized_range(self, range);
    }
}

impl RangeWork for PlanePass<'_> {
    #[inline(always)]
    fn run_range<const FUSED: bool>(&self, pixels: Range<usize>) {
        match self.frames {
            2 => self.of_frames::<2, 4, FUSED>(pixels),
            4 => self.of_frames::<4, 6, FUSED>(pixels),
            other => unreachable!("no transform is made for {other} frames"),
        }
    }
}

impl PlanePass<'_> {
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
            match &self.sink {
                PassOutput::Frames { residual, frames } => {
                    for (t, row) in new.chunks_exact_mut(channels).enumerate() {
                        let start = (t * self.pixels + at) * channels;
                        if let Some(residual) = residual {
                            add(row, &residual[start..][..channels]);
                        }
                        // SAFETY: this pixel of this frame is written here alone.
                        copy(unsafe { frames.row(start, channels) }, row);
                    }
                }
                PassOutput::Planes {
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
                    for (k, factors) in self.planes_from_frames.chunks_exact(P).enumerate() {
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
            PassInput::Frames(frames) => {
                for (t, row) in new.chunks_exact_mut(channels).enumerate() {
                    copy(
                        row,
                        &frames[(t * self.pixels + at) * channels..][..channels],
                    );
                }
            }
            PassInput::Planes(planes, bias) => {
                let rows: [&[f32]; P] =
                    std::array::from_fn(|k| &planes[k][at * channels..][..channels]);
                let factors = self.frames_from_planes.chunks_exact(P);
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
