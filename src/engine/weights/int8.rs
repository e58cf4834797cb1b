//! Int8 matrices with one scale per row, whose columns may be rotated in groups (ComfyUI's ConvRot), dequantized for
//! computing.
//!
//! [`kernels::expand_int8`] dequantizes. `scales` reads the scales.

use tch::{Kind, Tensor};

use crate::kernels;

/// Tensors stored next to the codes of a matrix.
#[derive(Debug)]
pub(super) struct Int8Side {
    /// `(rows, 1)` in f32
    pub(super) scales: Tensor,
    /// Result of [`kernels::reference::rotation`], if the columns are rotated.
    pub(super) rotation: Option<Tensor>,
}

/// `(rows, columns)` numbers.
#[derive(Debug)]
pub struct Int8Matrix {
    pub(super) codes: Tensor,
    pub(super) side: Int8Side,
}

impl Int8Side {
    /// Number of columns rotated together, if any.
    pub(super) fn group(&self) -> Option<i64> {
        self.rotation.as_ref().map(|rotation| rotation.size()[0])
    }

    /// Of rows one below the other, all of them rotated alike.
    pub(super) fn stack(sides: &[&Self]) -> Option<Self> {
        let first = sides.first()?;
        let scales: Vec<&Tensor> = sides.iter().map(|side| &side.scales).collect();
        Some(Self {
            scales: Tensor::cat(&scales, 0),
            rotation: first.rotation.as_ref().map(Tensor::shallow_clone),
        })
    }
}

impl Int8Matrix {
    /// On its device, the scales included; what rotates is its network's.
    pub(super) fn bytes(&self) -> u64 {
        (self.codes.numel() + self.side.scales.numel() * 4) as u64
    }

    /// Some of its rows, or all of them, as `kind`; `some`: takes these rows of codes or scales.
    pub(super) fn expand(&self, kind: Kind, some: impl Fn(&Tensor) -> Tensor) -> Tensor {
        let [codes, scales] = [&self.codes, &self.side.scales].map(some);
        kernels::expand_int8(&codes, &scales, self.side.rotation.as_ref(), kind)
    }

    /// One below the other, where all are rotated alike.
    pub(super) fn stack(matrices: &[&Self]) -> Option<Self> {
        let first = matrices.first()?;
        let is_alike = |it: &&Self| {
            it.side.group() == first.side.group() && it.codes.size()[1] == first.codes.size()[1]
        };
        if !matrices.iter().all(is_alike) {
            return None;
        }
        let codes: Vec<&Tensor> = matrices.iter().map(|it| &it.codes).collect();
        Some(Self {
            codes: Tensor::cat(&codes, 0),
            side: Int8Side::stack(&matrices.iter().map(|it| &it.side).collect::<Vec<_>>())?,
        })
    }
}
