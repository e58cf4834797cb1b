//! One safe function per kernel pass, from tensors to a launch; `None` if the kernel does not fit the tensors.
//!
//! Everything that a kernel assumes is checked here: device, kind, sizes, strides, alignment. In-place passes change
//! tensors through a shared reference, as libtorch does. The function of the same name in `reference.rs` defines the
//! result.

use std::ffi::c_void;
use std::ptr;

use tch::{Device, Kind, Tensor};

use super::driver::{DriverHandle, LaunchGrid};
use super::loaded::{HELD, KernelSet, RowKernel, SingleKernel};
use super::pass_params::{ElementActivation, FusedNorm, GateArgs, TokenRows};

/// Bytes that a thread reads and writes at a time.
pub(super) const PIECE_BYTES: usize = 16;

/// Threads of a block at the most; the source could take more.
const MAX_THREADS: usize = 512;

/// Threads of a block that has one row.
const LONG_ROW_THREADS: [usize; 4] = [64, 128, 256, MAX_THREADS];

/// Threads that exchange numbers without the block's shared memory.
const LANES: usize = 32;

/// Pieces that a thread holds, unless that makes too many threads.
const USUAL_HELD: usize = 5;

/// Threads of a block of short rows, and of one without rows: more are slower, by up to a third.
const USUAL_THREADS: usize = 128;

/// `Rows` of the source.
#[repr(C)]
pub(super) struct RowsArg {
    pub(super) at: *const c_void,
    stride: i64,
    split: u32,
    pub(super) is_wide: i32,
}

/// `NormArgs` of the source.
#[repr(C)]
struct NormArgs {
    xs: *mut c_void,
    ys: *const c_void,
    out: *mut c_void,
    gate: RowsArg,
    scale: RowsArg,
    shift: RowsArg,
    rows: u32,
    tokens: u32,
    channels: u32,
    per_channel: f32,
    eps: f32,
    offset: f32,
}

/// `ActivationArgs` of the source.
#[repr(C)]
struct ActivationArgs {
    xs: *mut c_void,
    ys: *const c_void,
    count: i64,
    stride: i64,
    ys_stride: i64,
    row_pieces: u32,
    what: i32,
}

/// A tensor as rows of channels with one stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowsOf {
    pub(super) rows: u32,
    pub(super) tokens: u32,
    pub(super) channels: u32,
    pub(super) stride: i64,
}

impl KernelSet {
    pub(super) fn layer_norm(&self, xs: &Tensor, norm: &FusedNorm<'_>, eps: f64) -> Option<Tensor> {
        self.add_and_norm(xs, None, Some((norm, eps)))
    }

    /// See [`super::reference::gated_add`]; `ys` without a gate is added as it is.
    pub(super) fn gated_add(
        &self,
        xs: &Tensor,
        ys: &Tensor,
        gate: Option<GateArgs<'_>>,
    ) -> Option<()> {
        self.add_and_norm(xs, Some((ys, gate)), None).map(drop)
    }

    /// Both in one: `xs` in place, and its norm.
    pub(super) fn gated_add_norm(
        &self,
        xs: &Tensor,
        ys: &Tensor,
        gate: Option<GateArgs<'_>>,
        norm: &FusedNorm<'_>,
        eps: f64,
    ) -> Option<Tensor> {
        self.add_and_norm(xs, Some((ys, gate)), Some((norm, eps)))
    }

    /// Gives back the norm, or without one an empty tensor.
    fn add_and_norm(
        &self,
        xs: &Tensor,
        added: Option<(&Tensor, Option<GateArgs<'_>>)>,
        norm: Option<(&FusedNorm<'_>, f64)>,
    ) -> Option<Tensor> {
        let shape = self.whole_rows(xs)?;
        let mut args = NormArgs {
            xs: xs.data_ptr(),
            ys: ptr::null(),
            out: ptr::null_mut(),
            gate: RowsArg::NONE,
            scale: RowsArg::NONE,
            shift: RowsArg::NONE,
            rows: shape.rows,
            tokens: shape.tokens,
            channels: shape.channels,
            per_channel: 1.0 / shape.channels as f32,
            eps: 0.0,
            offset: 1.0,
        };
        if let Some((ys, gate)) = added {
            if ys.size() != xs.size() || self.whole_rows(ys)? != shape {
                return None;
            }
            args.ys = ys.data_ptr();
            if let Some(GateArgs { rows, index }) = gate {
                args.gate = self.token_rows(&rows, index, &shape, xs.device())?;
            }
        }
        let mut out = Tensor::new();
        if let Some((norm, eps)) = norm {
            match *norm {
                FusedNorm::Plain => {}
                FusedNorm::Affine { weight, bias } => {
                    args.offset = 0.0;
                    args.scale = self.one_row(weight, &shape, xs.device())?;
                    args.shift = self.one_row(bias, &shape, xs.device())?;
                }
                FusedNorm::Modulated { rows, shift, scale } => {
                    args.scale = self.token_rows(&rows, scale, &shape, xs.device())?;
                    args.shift = self.token_rows(&rows, shift, &shape, xs.device())?;
                }
            }
            args.eps = eps as f32;
            out = xs.empty_like();
            args.out = out.data_ptr();
        }
        let kernel = match (added.is_some(), norm.is_some()) {
            (true, true) => RowKernel::AddNorm,
            (true, false) => RowKernel::Add,
            (false, _) => RowKernel::Norm,
        };
        self.launch_rows(kernel, &shape, &mut args)?;
        Some(out)
    }

    /// See the functions of [`super::twins`] that [`ElementActivation`] names. Rows may have any stride.
    pub(super) fn activate(&self, xs: &Tensor, what: ElementActivation<'_>) -> Option<()> {
        let count = i64::try_from(xs.numel()).ok().filter(|&count| count > 0)?;
        let ys = what.beside();
        let is_sound = |zs: &Tensor| zs.kind() == self.kind() && is_aligned(zs.data_ptr());
        let fits = is_sound(xs)
            && ys.is_none_or(|ys| {
                is_sound(ys) && ys.size() == xs.size() && ys.device() == xs.device()
            });
        let piece = self.piece_len();
        let is_whole = xs.is_contiguous() && ys.is_none_or(Tensor::is_contiguous);
        let (stride, ys_stride, row_pieces) = if is_whole {
            (0, 0, 0)
        } else {
            let shape = self.rows(xs)?;
            let ys_stride = match ys {
                Some(ys) => self.rows(ys)?.stride,
                None => 0,
            };
            // They are numbered by 32 bits.
            u32::try_from(count as usize / piece).ok()?;
            (shape.stride, ys_stride, shape.channels / piece as u32)
        };
        let per_block = 2 * USUAL_THREADS * piece;
        let blocks = (count as usize).div_ceil(per_block);
        let grid = LaunchGrid {
            blocks: i32::try_from(blocks).ok().filter(|_| fits)? as u32,
            threads: [USUAL_THREADS as u32, 1],
        };
        let mut args = ActivationArgs {
            xs: xs.data_ptr(),
            ys: ys.map_or(ptr::null(), |ys| ys.data_ptr().cast_const()),
            count,
            stride,
            ys_stride,
            row_pieces,
            what: what.number(),
        };
        self.launch_single(SingleKernel::Activate, grid, &mut args)
    }

    pub(super) fn launch_rows<T>(
        &self,
        kernel: RowKernel,
        shape: &RowsOf,
        args: &mut T,
    ) -> Option<()> {
        let (pieces, threads) = threads_for(shape.channels as usize / self.piece_len())?;
        let grid = LaunchGrid {
            blocks: shape.rows.div_ceil(threads[1]),
            threads,
        };
        self.launch_checked(self.row_kernel(kernel, pieces)?, grid, args)
    }

    /// A kernel that goes over numbers and not over rows.
    pub(super) fn launch_single<T>(
        &self,
        kernel: SingleKernel,
        grid: LaunchGrid,
        args: &mut T,
    ) -> Option<()> {
        self.launch_checked(self.single[kernel as usize], grid, args)
    }

    fn launch_checked<T>(
        &self,
        kernel: DriverHandle,
        grid: LaunchGrid,
        args: &mut T,
    ) -> Option<()> {
        #[expect(unsafe_code, reason = "a kernel writes through pointers")]
        // SAFETY: only the passes in this folder call this, with the struct that the kernel takes. Its pointers are
        // those of tensors whose kinds, sizes, strides, alignment and device were checked, and which libtorch
        // allocated on its current stream.
        unsafe {
            self.launch(kernel, grid, args)
        }
    }

    pub(super) fn piece_len(&self) -> usize {
        PIECE_BYTES / self.kind().elt_size_in_bytes()
    }

    /// Rows without gaps.
    pub(super) fn whole_rows(&self, xs: &Tensor) -> Option<RowsOf> {
        self.rows(xs).filter(|_| xs.is_contiguous())
    }

    pub(super) fn rows(&self, xs: &Tensor) -> Option<RowsOf> {
        let shape = rows_of(&xs.size(), &xs.stride())?;
        let piece = self.piece_len() as i64;
        let is_even = i64::from(shape.channels) % piece == 0 && shape.stride % piece == 0;
        (xs.kind() == self.kind() && is_even && is_aligned(xs.data_ptr())).then_some(shape)
    }

    /// One vector for all tokens: `(C)`
    pub(super) fn one_row(&self, row: &Tensor, shape: &RowsOf, device: Device) -> Option<RowsArg> {
        let fits = row.size() == [i64::from(shape.channels)]
            && row.is_contiguous()
            && row.device() == device
            && is_aligned(row.data_ptr());
        let is_wide = self.is_wide(row)?;
        fits.then(|| RowsArg {
            at: row.data_ptr(),
            stride: 0,
            split: u32::MAX,
            is_wide,
        })
    }

    /// Vector `index` of one range or of two.
    fn token_rows(
        &self,
        rows: &TokenRows<'_>,
        index: i64,
        shape: &RowsOf,
        device: Device,
    ) -> Option<RowsArg> {
        let tokens = i64::from(shape.tokens);
        let split = match *rows.ranges {
            [(0, len)] if len == tokens => tokens,
            [(0, first), (start, second)] if start == first && first + second == tokens => first,
            _ => return None,
        };
        let values = rows.values;
        let &[ranges, vectors, channels] = &values.size()[..] else {
            return None;
        };
        let &[range_stride, vector_stride, 1] = &values.stride()[..] else {
            return None;
        };
        let is_wide = self.is_wide(values)?;
        let width = values.kind().elt_size_in_bytes() as i64;
        let at = values
            .data_ptr()
            .wrapping_byte_offset((index * vector_stride * width) as isize);
        let fits = ranges == rows.ranges.len() as i64
            && (0..vectors).contains(&index)
            && channels == i64::from(shape.channels)
            && values.device() == device
            && is_aligned(at)
            && (range_stride * width) % PIECE_BYTES as i64 == 0;
        fits.then_some(RowsArg {
            at,
            stride: range_stride,
            split: split as u32,
            is_wide,
        })
    }

    /// 1 if parameters are in f32 rather than in the kind of the rows; `None` for other kinds.
    pub(super) fn is_wide(&self, parameters: &Tensor) -> Option<i32> {
        match parameters.kind() {
            Kind::Float => Some(1),
            kind if kind == self.kind() => Some(0),
            _ => None,
        }
    }
}

impl RowsArg {
    const NONE: Self = Self {
        at: ptr::null(),
        stride: 0,
        split: 0,
        is_wide: 1,
    };
}

pub(super) fn is_aligned(pointer: *const c_void) -> bool {
    pointer.addr().is_multiple_of(PIECE_BYTES)
}

/// Rows of a tensor of this size: all dimensions but the last, if they have one stride. The tokens are the second to
/// last dimension.
pub(super) fn rows_of(size: &[i64], stride: &[i64]) -> Option<RowsOf> {
    let (&channels, outer) = size.split_last()?;
    let (&tokens, batch) = outer.split_last()?;
    let (&innermost, outer_strides) = stride.split_last()?;
    let (&row_stride, _) = outer_strides.split_last()?;
    let rows: i64 = outer.iter().product();
    let mut expected = row_stride * tokens;
    let is_even = batch
        .iter()
        .zip(&outer_strides[..batch.len()])
        .rev()
        .all(|(&len, &stride)| {
            let is_next = len == 1 || stride == expected;
            expected *= len;
            is_next
        });
    let is_sound = is_even && innermost == 1 && row_stride >= channels && rows > 0 && channels > 0;
    is_sound.then_some(())?;
    Some(RowsOf {
        rows: i32::try_from(rows).ok()? as u32,
        tokens: i32::try_from(tokens).ok()? as u32,
        channels: i32::try_from(channels).ok()? as u32,
        stride: row_stride,
    })
}

/// Pieces that each thread holds, and the threads along a row and over rows, for rows of `pieces`.
///
/// The choices are those that were fastest on an H200.
fn threads_for(pieces: usize) -> Option<(usize, [u32; 2])> {
    (pieces > 0).then_some(())?;
    let usual = HELD.into_iter().take_while(|&held| held <= USUAL_HELD);
    // A short row fits within the lanes, with as few idle lanes as possible.
    let short = usual
        .map(|held| (held, pieces.div_ceil(held).next_power_of_two()))
        .filter(|&(_, along)| along <= LANES)
        .min_by_key(|(held, along)| held * along);
    if let Some((held, along)) = short {
        return Some((held, [along as u32, (USUAL_THREADS / along) as u32]));
    }
    // A long one has a block for itself, of few threads: then more rows are under way at once.
    let along = LONG_ROW_THREADS
        .into_iter()
        .find(|along| along * USUAL_HELD >= pieces)
        .unwrap_or(MAX_THREADS);
    let held = HELD.into_iter().find(|held| held * along >= pieces)?;
    Some((held, [along as u32, 1]))
}

/// The longest row that there are kernels for, in pieces.
pub(super) fn most_pieces() -> usize {
    MAX_THREADS * HELD.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_of_a_row_has_a_thread() {
        for pieces in 1..=most_pieces() {
            let (held, [along, rows]) = threads_for(pieces).unwrap();
            assert!(held * along as usize >= pieces, "{pieces}");
            assert!((along * rows) as usize <= MAX_THREADS && rows > 0);
            // What the sum over a row in the source takes for granted.
            assert!((along * rows) % 32 == 0);
            let holds = along <= 32 && along.is_power_of_two() || rows == 1 && along % 32 == 0;
            assert!(holds, "{pieces}");
        }
        assert_eq!(threads_for(most_pieces() + 1), None);
        assert_eq!(threads_for(0), None);
        // Wan's rows in half precision.
        assert_eq!(threads_for(5120 / 8), Some((5, [128, 1])));
        assert_eq!(threads_for(3072 / 8), Some((3, [128, 1])));
        assert_eq!(threads_for(96 / 8), Some((3, [4, 32])));
    }

    #[test]
    fn rows_may_lie_apart_but_at_one_distance() {
        let rows = |size: &[i64], stride: &[i64]| {
            rows_of(size, stride).map(|found| (found.rows, found.tokens, found.stride))
        };
        assert_eq!(rows(&[2, 3, 8], &[24, 8, 1]), Some((6, 3, 8)));
        // One of three thirds of a wider product.
        assert_eq!(rows(&[1, 3, 8], &[72, 24, 1]), Some((3, 3, 24)));
        assert_eq!(rows(&[2, 3, 8], &[72, 24, 1]), Some((6, 3, 24)));
        assert_eq!(rows(&[2, 3, 8], &[80, 24, 1]), None);
        assert_eq!(rows(&[1, 3, 8], &[24, 1, 3]), None);
        assert_eq!(rows(&[2, 3, 8], &[8, 0, 1]), None);
        assert_eq!(rows(&[0, 3, 8], &[24, 8, 1]), None);
        assert_eq!(rows(&[8], &[1]), None);
    }

    #[test]
    fn arguments_are_laid_out_as_in_the_source() {
        assert_eq!(size_of::<RowsArg>(), 24);
        assert_eq!(size_of::<NormArgs>(), 120);
        assert_eq!(size_of::<ActivationArgs>(), 48);
    }
}
