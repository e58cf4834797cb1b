//! Int8 matrices with one scale per row, whose columns may be rotated in groups (ComfyUI's ConvRot), dequantized for
//! computing.
//!
//! [`kernels::expand_int8`] dequantizes. `scales` reads the scales.

use tch::{Kind, Tensor};

use crate::kernels;

/// `(rows, columns)` numbers.
#[derive(Debug)]
pub(super) struct Int8Matrix {
    codes: Tensor,
    /// `(rows, 1)` in f32
    scales: Tensor,
    /// Result of [`kernels::twins::rotation`], if the columns are rotated.
    rotation: Option<Tensor>,
}

/// Tensors stored next to the codes of a matrix.
#[derive(Debug)]
pub(super) struct Int8Side {
    scales: Tensor,
    rotation: Option<Tensor>,
}

impl Int8Side {
    /// As [`Int8Matrix::new`] has them.
    pub(super) fn new(scales: Tensor, rotation: Option<Tensor>) -> Self {
        Self { scales, rotation }
    }

    pub(super) fn scales(&self) -> &Tensor {
        &self.scales
    }

    /// Number of columns rotated together, if any.
    pub(super) fn group(&self) -> Option<i64> {
        self.rotation.as_ref().map(|rotation| rotation.size()[0])
    }

    /// `codes`: `(rows, columns)`
    pub(super) fn matrix(&self, codes: Tensor) -> Int8Matrix {
        let rotation = self.rotation.as_ref().map(Tensor::shallow_clone);
        Int8Matrix::new(codes, self.scales.shallow_clone(), rotation)
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
    /// `codes`: `(rows, columns)` of int8, `scales`: `(rows, 1)` in f32, `rotation`: what [`kernels::twins::rotation`] gave.
    pub(super) fn new(codes: Tensor, scales: Tensor, rotation: Option<Tensor>) -> Self {
        Self {
            codes,
            scales,
            rotation,
        }
    }

    pub(super) fn codes(&self) -> &Tensor {
        &self.codes
    }

    /// On its device, the scales included; what rotates is its network's.
    pub(super) fn bytes(&self) -> u64 {
        (self.codes.numel() + self.scales.numel() * 4) as u64
    }

    /// All of it, as `kind`.
    pub(super) fn expand(&self, kind: Kind) -> Tensor {
        self.expanded(&self.codes, &self.scales, kind)
    }

    pub(super) fn expand_rows(&self, first: i64, count: i64, kind: Kind) -> Tensor {
        let codes = self.codes.narrow(0, first, count);
        let scales = self.scales.narrow(0, first, count);
        self.expanded(&codes, &scales, kind)
    }

    /// The rows at `ids`, flat.
    pub(super) fn look_up(&self, ids: &Tensor, kind: Kind) -> Tensor {
        let [codes, scales] = [&self.codes, &self.scales].map(|all| all.index_select(0, ids));
        self.expanded(&codes, &scales, kind)
    }

    fn expanded(&self, codes: &Tensor, scales: &Tensor, kind: Kind) -> Tensor {
        kernels::expand_int8(codes, scales, self.rotation.as_ref(), kind)
    }

    /// One below the other, where all are rotated alike.
    pub(super) fn stack(matrices: &[&Self]) -> Option<Self> {
        let first = matrices.first()?;
        if !matrices.iter().all(|other| other.stacks_with(first)) {
            return None;
        }
        let joined = |of: fn(&Self) -> &Tensor| {
            Tensor::cat(&matrices.iter().map(|it| of(it)).collect::<Vec<_>>(), 0)
        };
        Some(Self {
            codes: joined(|it| &it.codes),
            scales: joined(|it| &it.scales),
            rotation: first.rotation.as_ref().map(Tensor::shallow_clone),
        })
    }

    fn stacks_with(&self, other: &Self) -> bool {
        let group = |it: &Self| it.rotation.as_ref().map(|rotation| rotation.size()[0]);
        group(self) == group(other) && self.codes.size()[1] == other.codes.size()[1]
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::kernels::reference::rotation;

    #[test]
    fn what_is_rotated_by_other_groups_is_not_stacked() {
        let matrix = |group: Option<i64>| {
            Int8Matrix::new(
                Tensor::ones([2, 16], (Kind::Int8, Device::Cpu)),
                Tensor::ones([2, 1], (Kind::Float, Device::Cpu)),
                group.map(|group| rotation(group, Device::Cpu)),
            )
        };
        let [four, sixteen, plain] = [Some(4), Some(16), None].map(matrix);
        assert!(Int8Matrix::stack(&[&four, &four]).is_some());
        assert!(Int8Matrix::stack(&[&four, &sixteen]).is_none());
        assert!(Int8Matrix::stack(&[&plain, &sixteen]).is_none());
    }
}
