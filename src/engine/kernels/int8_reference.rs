//! The definition of whole numbers of eight bits whose columns may be rotated in groups (ComfyUI's ConvRot), in libtorch's
//! operations, and the rotation itself.
//!
//! It is the regular Hadamard matrix of a power of four, which is its own inverse. Codes are whole numbers, and what
//! rotates them has a power of two for every number: their sums are exact in f32, in any order and on every device. What
//! is rounded is the product with the scale, and what is made of it.

use tch::{Device, Kind, Tensor};

/// Elements that are dequantized at a time on a GPU, with six bytes of temporaries each: tens of megabytes.
const NUMBERS_PER_PIECE: i64 = 16 << 20;

/// Inverse rotation of a group of codes: `(group, group)` in f32; `group`: a power of four.
pub fn rotation(group: i64, device: Device) -> Tensor {
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

pub fn expand_int8(
    codes: &Tensor,
    scales: &Tensor,
    rotation: Option<&Tensor>,
    kind: Kind,
) -> Tensor {
    let (rows, columns) = (codes.size()[0], codes.size()[1]);
    let step = (NUMBERS_PER_PIECE / columns.max(1)).max(1);
    let some = |first: i64, count: i64| {
        let [codes, scales] = [codes, scales].map(|all| all.narrow(0, first, count));
        (straight(&codes, rotation) * scales).to_kind(kind)
    };
    if rows <= step || codes.device() == Device::Cpu {
        return some(0, rows);
    }
    let out = Tensor::empty([rows, columns], (kind, codes.device()));
    let mut first = 0;
    while first < rows {
        let count = step.min(rows - first);
        out.narrow(0, first, count).copy_(&some(first, count));
        first += count;
    }
    out
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
}
