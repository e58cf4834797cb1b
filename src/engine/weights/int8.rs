//! Whole numbers of eight bits with a scale for each row, whose columns may be rotated in groups (ComfyUI's ConvRot), to
//! numbers that can be computed with.
//!
//! The rotation is the regular Hadamard matrix of a power of four, which is its own inverse. Codes are whole numbers, and
//! what rotates them has a power of two for every number: their sums are exact in f32, in any order and on every device.
//! What is rounded is the product with the scale, and what is made of it. Does not know where scales are written.

use tch::{Device, Kind, Tensor};

/// Numbers that are expanded at a time on a GPU, with six bytes beside each: tens of megabytes.
const NUMBERS_PER_PIECE: i64 = 16 << 20;

/// `(rows, columns)` numbers.
#[derive(Debug)]
pub(super) struct Int8Matrix {
    codes: Tensor,
    /// `(rows, 1)` in f32
    scales: Tensor,
    /// `(group, group)` in f32, where the columns are rotated.
    rotation: Option<Tensor>,
}

/// What a file has beside the codes of a matrix.
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

    /// How many columns are rotated together, where they are.
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

/// What turns a group of codes back: `(group, group)` in f32; `group`: a power of four.
pub(super) fn rotation(group: i64, device: Device) -> Tensor {
    let four = Tensor::from_slice2(&[
        [1.0_f32, 1.0, 1.0, -1.0],
        [1.0, 1.0, -1.0, 1.0],
        [1.0, -1.0, 1.0, 1.0],
        [-1.0, 1.0, 1.0, 1.0],
    ]) * 0.5;
    let mut whole = four.shallow_clone();
    while whole.size()[0] < group {
        whole = whole.kron(&four);
    }
    whole.to_device(device)
}

impl Int8Matrix {
    /// `codes`: `(rows, columns)` of int8, `scales`: `(rows, 1)` in f32, `rotation`: what [`rotation`] gave.
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
        let (rows, columns) = (self.codes.size()[0], self.codes.size()[1]);
        let step = (NUMBERS_PER_PIECE / columns.max(1)).max(1);
        if rows <= step || self.codes.device() == Device::Cpu {
            return self.expand_rows(0, rows, kind);
        }
        let out = Tensor::empty([rows, columns], (kind, self.codes.device()));
        let mut first = 0;
        while first < rows {
            let count = step.min(rows - first);
            out.narrow(0, first, count)
                .copy_(&self.expand_rows(first, count, kind));
            first += count;
        }
        out
    }

    pub(super) fn expand_rows(&self, first: i64, count: i64, kind: Kind) -> Tensor {
        let codes = self.codes.narrow(0, first, count);
        let scales = self.scales.narrow(0, first, count);
        scaled(&straight(&codes, self.rotation.as_ref()), &scales, kind)
    }

    /// The rows at `ids`, flat.
    pub(super) fn look_up(&self, ids: &Tensor, kind: Kind) -> Tensor {
        let [codes, scales] = [&self.codes, &self.scales].map(|all| all.index_select(0, ids));
        scaled(&straight(&codes, self.rotation.as_ref()), &scales, kind)
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

/// Codes turned back, in f32.
fn straight(codes: &Tensor, rotation: Option<&Tensor>) -> Tensor {
    let Some(rotation) = rotation else {
        return codes.to_kind(Kind::Float);
    };
    let size = codes.size();
    let groups = codes.reshape([-1, rotation.size()[0]]);
    // Halves have room for every code and for what rotates it, and are multiplied many times as fast.
    let by_halves = if codes.device() == Device::Cpu {
        None
    } else {
        let [groups, rotation] = [&groups, rotation].map(|xs| xs.to_kind(Kind::BFloat16));
        groups.f_mm_dtype(&rotation, Kind::Float).ok()
    };
    let turned = by_halves.unwrap_or_else(|| groups.to_kind(Kind::Float).mm(rotation));
    turned.view(&size[..])
}

fn scaled(straight: &Tensor, scales: &Tensor, kind: Kind) -> Tensor {
    (straight * scales).to_kind(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_is_symmetric_and_its_own_inverse() {
        for group in [4, 16, 64, 256] {
            let whole = rotation(group, Device::Cpu);
            assert_eq!(whole.size(), [group, group]);
            assert!(whole.equal(&whole.tr()), "{group}");
            let eye = Tensor::eye(group, (Kind::Float, Device::Cpu));
            assert!(whole.mm(&whole).equal(&eye), "{group}");
        }
    }

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
