//! The passes around a root mean square: norms of rows, heads and pixels, with what is joined to them.
//!
//! As in `ops.rs`: everything that the kernel takes for granted is checked, and `None` means that it does not fit.

use std::ffi::c_void;
use std::ptr;

use tch::{Device, Kind, Tensor};

use super::loaded::{KernelSet, RowKernel};
use super::ops::{RowsOf, is_aligned, rows_of};
use super::pass_params::RopePairing;
use super::reference::SHORTEST_PIXEL;

#[repr(C)]
struct RmsArgs {
    xs: *const c_void,
    out: *mut c_void,
    weight: *const c_void,
    shift: *const c_void,
    turns: *const c_void,
    xs_stride: i64,
    out_stride: i64,
    rows: u32,
    tokens: u32,
    channels: u32,
    head_dim: u32,
    parts: u32,
    sharing: u32,
    factor: f32,
    eps: f32,
    least: f32,
    is_wide: i32,
    with_silu: i32,
    in_halves: i32,
}

impl RmsArgs {
    /// In place, with one weight for all of a row, and no turns.
    fn new(xs: &Tensor, shape: &RowsOf) -> Self {
        Self {
            xs: xs.data_ptr(),
            out: xs.data_ptr(),
            weight: ptr::null(),
            shift: ptr::null(),
            turns: ptr::null(),
            xs_stride: shape.stride,
            out_stride: shape.stride,
            rows: shape.rows,
            tokens: shape.tokens,
            channels: shape.channels,
            head_dim: shape.channels,
            parts: 1,
            sharing: 1,
            factor: 1.0 / shape.channels as f32,
            eps: 0.0,
            least: 0.0,
            is_wide: 0,
            with_silu: 0,
            in_halves: 0,
        }
    }
}

impl KernelSet {
    /// See [`super::reference::rms_norm_rope`], but the result takes the place of `xs`.
    pub(super) fn rms_norm_rope(
        &self,
        xs: &Tensor,
        weight: &Tensor,
        eps: f64,
        turns: Option<&Tensor>,
    ) -> Option<()> {
        let shape = self.rows(xs)?;
        let weight_arg = self.one_row(weight, &shape, xs.device())?;
        let mut args = RmsArgs {
            weight: weight_arg.at,
            eps: eps as f32,
            is_wide: weight_arg.is_wide,
            ..RmsArgs::new(xs, &shape)
        };
        if let Some(turns) = turns {
            let head_dim = 2 * turns.size().last()?;
            let fits = i64::from(shape.channels) % head_dim == 0;
            args.turns = self
                .turns(turns, &shape, head_dim, xs.device())
                .filter(|_| fits)?;
            args.head_dim = head_dim as u32;
        }
        self.launch_rows(RowKernel::Rms, &shape, &mut args)
    }

    /// See [`super::rms_norm`] and [`super::rms_norm_shifted`].
    pub(super) fn rms_norm(
        &self,
        xs: &Tensor,
        weight: &Tensor,
        shift: Option<&Tensor>,
        eps: f64,
    ) -> Option<Tensor> {
        let shape = self.rows(xs)?;
        let out = Tensor::empty(xs.size(), (xs.kind(), xs.device()));
        let weight = self.one_row(weight, &shape, xs.device())?;
        let shift = match shift {
            None => ptr::null(),
            Some(shift) => {
                let shift = self.one_row(shift, &shape, xs.device())?;
                (shift.is_wide == weight.is_wide).then_some(shift.at)?
            }
        };
        let mut args = RmsArgs {
            out: out.data_ptr(),
            out_stride: i64::from(shape.channels),
            weight: weight.at,
            shift,
            eps: eps as f32,
            is_wide: weight.is_wide,
            ..RmsArgs::new(xs, &shape)
        };
        self.launch_rows(RowKernel::Rms, &shape, &mut args)?;
        Some(out)
    }

    pub(super) fn head_norm_rope(
        &self,
        xs: &Tensor,
        weights: &Tensor,
        eps: f64,
        turns: &Tensor,
    ) -> Option<()> {
        let (shape, heads) = self.heads(xs)?;
        let vectors = weights.size().first().copied()?;
        let fits = vectors > 0 && heads % vectors == 0;
        let mut args = RmsArgs {
            weight: Self::of_heads(weights, &shape, xs.device()).filter(|_| fits)?,
            turns: self.turns(turns, &shape, i64::from(shape.channels), xs.device())?,
            parts: heads as u32,
            sharing: (heads / vectors) as u32,
            eps: eps as f32,
            is_wide: self.is_wide(weights)?,
            ..RmsArgs::new(xs, &shape)
        };
        self.launch_rows(RowKernel::Rms, &shape, &mut args)
    }

    /// See [`super::turned_heads`].
    pub(super) fn turned_heads(
        &self,
        xs: &Tensor,
        norm: Option<(&Tensor, f64)>,
        turns: &Tensor,
        pairs: RopePairing,
    ) -> Option<Tensor> {
        let (shape, heads) = self.heads(xs)?;
        let head_dim = i64::from(shape.channels);
        let in_halves = pairs == RopePairing::Halves;
        let fits = !in_halves || head_dim % (2 * self.piece_len() as i64) == 0;
        let out = Tensor::empty(xs.size(), (xs.kind(), xs.device()));
        let mut args = RmsArgs {
            out: out.data_ptr(),
            out_stride: heads * head_dim,
            turns: self
                .turns(turns, &shape, head_dim, xs.device())
                .filter(|_| fits)?,
            parts: heads as u32,
            sharing: heads as u32,
            in_halves: i32::from(in_halves),
            ..RmsArgs::new(xs, &shape)
        };
        if let Some((weight, eps)) = norm {
            args.weight = Self::of_heads(&weight.unsqueeze(0), &shape, xs.device())?;
            args.is_wide = self.is_wide(weight)?;
            args.eps = eps as f32;
        }
        self.launch_rows(RowKernel::Rms, &shape, &mut args)?;
        Some(out)
    }

    /// `xs`: `(B, L, H, D)`, heads side by side and tokens at any one distance -> its heads as rows, and `H`
    fn heads(&self, xs: &Tensor) -> Option<(RowsOf, i64)> {
        let &[batch, tokens, heads, head_dim] = &xs.size()[..] else {
            return None;
        };
        let &[batch_stride, stride, head_stride, 1] = &xs.stride()[..] else {
            return None;
        };
        // Heads side by side are the rows of their tokens.
        let width = heads * head_dim;
        let places = rows_of(&[batch, tokens, width], &[batch_stride, stride, 1])?;
        let piece = self.piece_len() as i64;
        let fits = xs.kind() == self.kind()
            && (head_stride == head_dim || heads == 1)
            && stride % piece == 0
            && head_dim % piece == 0
            && is_aligned(xs.data_ptr());
        let rows = i32::try_from(batch * tokens * heads)
            .ok()
            .filter(|_| fits)?;
        let shape = RowsOf {
            rows: rows as u32,
            tokens: places.tokens,
            channels: head_dim as u32,
            stride,
        };
        Some((shape, heads))
    }

    /// `weights`: `(N, D)`, of heads that are the rows of `shape`
    fn of_heads(weights: &Tensor, shape: &RowsOf, device: Device) -> Option<*const c_void> {
        let &[_, weight_dim] = &weights.size()[..] else {
            return None;
        };
        let fits = weight_dim == i64::from(shape.channels)
            && weights.is_contiguous()
            && weights.device() == device
            && is_aligned(weights.data_ptr());
        fits.then(|| weights.data_ptr().cast_const())
    }

    /// A table of turns, one row a token of `shape`, for heads of `head_dim`.
    fn turns(
        &self,
        turns: &Tensor,
        shape: &RowsOf,
        head_dim: i64,
        device: Device,
    ) -> Option<*const c_void> {
        let fits = turns.kind() == Kind::ComplexFloat
            && turns.device() == device
            && turns.is_contiguous()
            && turns.numel() as i64 * 2 == i64::from(shape.tokens) * head_dim
            && (head_dim as usize).is_multiple_of(self.piece_len())
            && is_aligned(turns.data_ptr());
        fits.then(|| turns.data_ptr().cast_const())
    }

    /// Norm of pixels with SiLU, into `out`, whose rows may have any stride.
    pub(super) fn pixel_norm_silu_into(
        &self,
        xs: &Tensor,
        factor: &Tensor,
        out: &Tensor,
    ) -> Option<()> {
        let shape = self.whole_rows(xs)?;
        let factor = self.one_row(factor, &shape, xs.device())?;
        let fits = out.size() == xs.size() && out.device() == xs.device();
        let out_stride = self.rows(out).filter(|_| fits)?.stride;
        let mut args = RmsArgs {
            out: out.data_ptr(),
            weight: factor.at,
            out_stride,
            factor: 1.0,
            least: (SHORTEST_PIXEL * SHORTEST_PIXEL) as f32,
            is_wide: factor.is_wide,
            with_silu: 1,
            ..RmsArgs::new(xs, &shape)
        };
        self.launch_rows(RowKernel::Rms, &shape, &mut args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_laid_out_as_in_the_source() {
        assert_eq!(size_of::<RmsArgs>(), 104);
    }
}
