//! The passes around a root mean square: norms of rows, heads and pixels, with what is joined to them.
//!
//! As in `ops.rs`: everything that the kernel takes for granted is checked, and `None` means that it does not fit.

use std::ffi::c_void;
use std::ptr;

use tch::{Device, Kind, Tensor};

use super::loaded::{Kernels, RowKernel};
use super::ops::{RowsOf, is_aligned, rows_of};
use super::twins::SHORTEST_PIXEL;

#[repr(C)]
struct RmsArgs {
    xs: *const c_void,
    out: *mut c_void,
    weight: *const c_void,
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
}

impl RmsArgs {
    /// In place, with one weight for all of a row, and no turns.
    fn of(xs: &Tensor, shape: &RowsOf) -> Self {
        Self {
            xs: xs.data_ptr(),
            out: xs.data_ptr(),
            weight: ptr::null(),
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
        }
    }
}

impl Kernels {
    /// See [`super::twins::rms_norm_rope`], but the result takes the place of `xs`.
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
            ..RmsArgs::of(xs, &shape)
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

    /// See [`super::rms_norm`].
    pub(super) fn rms_norm(&self, xs: &Tensor, weight: &Tensor, eps: f64) -> Option<Tensor> {
        let shape = self.rows(xs)?;
        let out = Tensor::empty(xs.size(), (xs.kind(), xs.device()));
        let weight = self.one_row(weight, &shape, xs.device())?;
        let mut args = RmsArgs {
            out: out.data_ptr(),
            out_stride: i64::from(shape.channels),
            weight: weight.at,
            eps: eps as f32,
            is_wide: weight.is_wide,
            ..RmsArgs::of(xs, &shape)
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
        let &[batch, tokens, heads, head_dim] = &xs.size()[..] else {
            return None;
        };
        let &[batch_stride, stride, head_stride, 1] = &xs.stride()[..] else {
            return None;
        };
        // Heads side by side are the rows of their tokens.
        let width = heads * head_dim;
        let places = rows_of(&[batch, tokens, width], &[batch_stride, stride, 1])?;
        let &[vectors, weight_dim] = &weights.size()[..] else {
            return None;
        };
        let piece = self.piece_len() as i64;
        let fits = xs.kind() == self.kind()
            && (head_stride == head_dim || heads == 1)
            && stride % piece == 0
            && head_dim % piece == 0
            && is_aligned(xs.data_ptr())
            && vectors > 0
            && heads % vectors == 0
            && weight_dim == head_dim
            && weights.is_contiguous()
            && weights.device() == xs.device()
            && is_aligned(weights.data_ptr());
        let rows = i32::try_from(batch * tokens * heads)
            .ok()
            .filter(|_| fits)?;
        let shape = RowsOf {
            rows: rows as u32,
            tokens: places.tokens,
            channels: head_dim as u32,
            stride,
        };
        let mut args = RmsArgs {
            weight: weights.data_ptr(),
            turns: self.turns(turns, &shape, head_dim, xs.device())?,
            parts: heads as u32,
            sharing: (heads / vectors) as u32,
            eps: eps as f32,
            is_wide: self.is_wide(weights)?,
            ..RmsArgs::of(xs, &shape)
        };
        self.launch_rows(RowKernel::Rms, &shape, &mut args)
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

    pub(super) fn pixel_norm(
        &self,
        xs: &Tensor,
        factor: &Tensor,
        with_silu: bool,
    ) -> Option<Tensor> {
        let out = xs.empty_like();
        self.pixel_norm_into(xs, factor, with_silu, &out)?;
        Some(out)
    }

    /// The same into `out`, whose rows may lie apart.
    pub(super) fn pixel_norm_into(
        &self,
        xs: &Tensor,
        factor: &Tensor,
        with_silu: bool,
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
            with_silu: i32::from(with_silu),
            ..RmsArgs::of(xs, &shape)
        };
        self.launch_rows(RowKernel::Rms, &shape, &mut args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_laid_out_as_in_the_source() {
        assert_eq!(size_of::<RmsArgs>(), 96);
    }
}
