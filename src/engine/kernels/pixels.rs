//! The passes of autoencoders over images: statistics of channels, what is made of each number with them, the four
//! pixels that one becomes, and the softmax of their attention.
//!
//! As in `ops.rs`: everything that a kernel takes for granted is checked, and `None` means that it does not fit.

use std::ffi::c_void;
use std::ptr;

use tch::{Device, Kind, Tensor};

use super::driver::LaunchGrid;
use super::loaded::{KernelSet, SingleKernel};
use super::ops::{RowsOf, is_aligned};

/// `PIXEL_THREADS` of the source.
const PIXEL_THREADS: usize = 256;

/// `PIXELS_AHEAD` of the source.
const PIXELS_AHEAD: usize = 4;

/// `JOINED_CHANNELS` and `JOINED_PARTS` of the source.
const JOINED: [u32; 2] = [32, 16];

/// Parts that statistics are taken of, for images that have enough pixels: eight for each core of a large GPU.
const MAX_PARTS: usize = 1024;

/// Pixels that each thread takes at the least.
const MIN_PIXELS: usize = 8;

/// Threads that share a row of scores.
const SOFTMAX_THREADS: u32 = 512;

#[repr(C)]
struct MomentsArgs {
    xs: *const c_void,
    means: *mut c_void,
    variances: *mut c_void,
    pixels: i64,
    channels: u32,
    per_part: u32,
}

#[repr(C)]
struct JoinArgs {
    means: *const c_void,
    variances: *const c_void,
    mean: *mut c_void,
    variance: *mut c_void,
    pixels: i64,
    channels: u32,
    parts: u32,
    per_part: u32,
}

#[repr(C)]
struct AffineArgs {
    xs: *const c_void,
    ys: *const c_void,
    out: *mut c_void,
    scale: *const c_void,
    shift: *const c_void,
    pixels: i64,
    channels: u32,
    with_silu: i32,
}

#[repr(C)]
struct PlaceArgs {
    corners: *const c_void,
    out: *mut c_void,
    bias: *const c_void,
    pixels: i64,
    height: u32,
    width: u32,
    channels: u32,
}

#[repr(C)]
struct SoftmaxArgs {
    scores: *const c_void,
    out: *mut c_void,
    columns: u32,
    scale: f32,
}

impl KernelSet {
    pub(super) fn channel_moments(&self, xs: &Tensor) -> Option<(Tensor, Tensor)> {
        let shape = self.whole_rows(xs)?;
        let threads = self.pixel_threads(&shape)?;
        let (pixels, channels) = (shape.rows as usize, i64::from(shape.channels));
        let least = MIN_PIXELS * threads[1] as usize;
        let per_part = pixels.div_ceil(MAX_PARTS).max(least);
        let parts = pixels.div_ceil(per_part);
        let f32s = (Kind::Float, xs.device());
        let [means, variances] = [(); 2].map(|()| Tensor::empty([parts as i64, channels], f32s));
        let grid = LaunchGrid {
            blocks: parts as u32,
            threads,
        };
        let mut args = MomentsArgs {
            xs: xs.data_ptr(),
            means: means.data_ptr(),
            variances: variances.data_ptr(),
            pixels: pixels as i64,
            channels: shape.channels,
            per_part: u32::try_from(per_part).ok()?,
        };
        self.launch_single(SingleKernel::ChannelMoments, grid, &mut args)?;
        let [mean, variance] = [(); 2].map(|()| Tensor::empty([channels], f32s));
        let mut args = JoinArgs {
            means: means.data_ptr(),
            variances: variances.data_ptr(),
            mean: mean.data_ptr(),
            variance: variance.data_ptr(),
            pixels: pixels as i64,
            channels: shape.channels,
            parts: parts as u32,
            per_part: args.per_part,
        };
        let grid = LaunchGrid {
            blocks: shape.channels.div_ceil(JOINED[0]),
            threads: JOINED,
        };
        self.launch_single(SingleKernel::JoinMoments, grid, &mut args)?;
        Some((mean, variance))
    }

    pub(super) fn scaled_channels(
        &self,
        xs: &Tensor,
        scale: &Tensor,
        shift: &Tensor,
        with_silu: bool,
    ) -> Option<Tensor> {
        let out = xs.empty_like();
        self.affine(xs, None, Some(scale), Some(shift), with_silu, &out)?;
        Some(out)
    }

    pub(super) fn add_to_pixels(
        &self,
        xs: &Tensor,
        ys: Option<&Tensor>,
        bias: Option<&Tensor>,
    ) -> Option<()> {
        self.affine(xs, ys, None, bias, false, xs)
    }

    /// `xs * scale + shift + ys`, with as much of that as there is. `out` may be `xs`.
    fn affine(
        &self,
        xs: &Tensor,
        ys: Option<&Tensor>,
        scale: Option<&Tensor>,
        shift: Option<&Tensor>,
        with_silu: bool,
        out: &Tensor,
    ) -> Option<()> {
        let shape = self.whole_rows(xs)?;
        for other in [ys, Some(out)].into_iter().flatten() {
            let fits = other.size() == xs.size() && other.device() == xs.device();
            (fits && self.whole_rows(other)? == shape).then_some(())?;
        }
        let mut args = AffineArgs {
            xs: xs.data_ptr(),
            ys: ys.map_or(ptr::null(), |ys| ys.data_ptr()),
            out: out.data_ptr(),
            scale: self.vector(scale, &shape, xs.device())?,
            shift: self.vector(shift, &shape, xs.device())?,
            pixels: i64::from(shape.rows),
            channels: shape.channels,
            with_silu: i32::from(with_silu),
        };
        let grid = self.pixel_grid(&shape)?;
        self.launch_single(SingleKernel::Affine, grid, &mut args)
    }

    pub(super) fn placed_corners(&self, corners: &Tensor, bias: Option<&Tensor>) -> Option<Tensor> {
        self.whole_rows(corners)?;
        let &[frames, rows, columns, all] = &corners.size()[..] else {
            return None;
        };
        (rows > 1 && columns > 1 && all % 4 == 0).then_some(())?;
        let (height, width) = (rows - 1, columns - 1);
        let size = [frames, 2 * height, 2 * width, all / 4];
        let out = Tensor::empty(size, (corners.kind(), corners.device()));
        let shape = self.whole_rows(&out)?;
        let mut args = PlaceArgs {
            corners: corners.data_ptr(),
            out: out.data_ptr(),
            bias: self.vector(bias, &shape, corners.device())?,
            pixels: i64::from(shape.rows),
            height: u32::try_from(height).ok()?,
            width: u32::try_from(width).ok()?,
            channels: shape.channels,
        };
        let grid = self.pixel_grid(&shape)?;
        self.launch_single(SingleKernel::PlaceCorners, grid, &mut args)?;
        Some(out)
    }

    pub(super) fn softmax_to(&self, scores: &Tensor, scale: f64) -> Option<Tensor> {
        let &[rows, columns] = &scores.size()[..] else {
            return None;
        };
        let fits = scores.kind() == Kind::Float
            && scores.is_contiguous()
            && is_aligned(scores.data_ptr())
            && columns > 0
            && columns % self.piece_len() as i64 == 0;
        let columns = i32::try_from(columns).ok().filter(|_| fits)?;
        let blocks = i32::try_from(rows).ok().filter(|&rows| rows > 0)?;
        let out = Tensor::empty(scores.size(), (self.kind(), scores.device()));
        let mut args = SoftmaxArgs {
            scores: scores.data_ptr(),
            out: out.data_ptr(),
            columns: columns as u32,
            scale: scale as f32,
        };
        let grid = LaunchGrid {
            blocks: blocks as u32,
            threads: [SOFTMAX_THREADS, 1],
        };
        self.launch_single(SingleKernel::Softmax, grid, &mut args)?;
        Some(out)
    }

    /// `(C)` in f32, or null for none; the outer `None` for what does not fit.
    fn vector(
        &self,
        vector: Option<&Tensor>,
        shape: &RowsOf,
        device: Device,
    ) -> Option<*const c_void> {
        match vector {
            None => Some(ptr::null()),
            Some(vector) if vector.kind() == Kind::Float => {
                Some(self.one_row(vector, shape, device)?.at)
            }
            Some(_) => None,
        }
    }

    /// Along the channels of a pixel and over pixels.
    fn pixel_threads(&self, shape: &RowsOf) -> Option<[u32; 2]> {
        let along = shape.channels as usize / self.piece_len();
        (1..=PIXEL_THREADS)
            .contains(&along)
            .then(|| [along as u32, (PIXEL_THREADS / along) as u32])
    }

    fn pixel_grid(&self, shape: &RowsOf) -> Option<LaunchGrid> {
        let threads = self.pixel_threads(shape)?;
        Some(LaunchGrid {
            blocks: shape.rows.div_ceil(PIXELS_AHEAD as u32 * threads[1]),
            threads,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_laid_out_as_in_the_source() {
        assert_eq!(size_of::<MomentsArgs>(), 40);
        assert_eq!(size_of::<JoinArgs>(), 56);
        assert_eq!(size_of::<AffineArgs>(), 56);
        assert_eq!(size_of::<PlaceArgs>(), 48);
        assert_eq!(size_of::<SoftmaxArgs>(), 24);
    }
}
