//! Reference dequantization of GGUF blocks and quantized matrices with libtorch's operations, which every device has.
//!
//! Every product and difference is rounded separately, as in the reference, so the bits agree. The layouts of blocks are
//! those of <https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-common.h>.

use safelight_core::formats::weights::gguf::BlockType;
use safelight_core::formats::weights::quant::{BlockScales, CodeType};
use safelight_loops::gguf::IQ4_VALUES;
use safetensors::Dtype;
use tch::{Device, Kind, Tensor};

use super::pass_params::QuantRows;

/// Numbers that are expanded at once: that takes several tensors of their size.
const NUMBERS_PER_PIECE: i64 = 16 << 20;

/// `blocks`: `(N, bytes of a block)` -> flat, of `kind`
pub fn expand_blocks(blocks: &Tensor, block: BlockType, kind: Kind) -> Tensor {
    let (count, len) = (blocks.size()[0], block.block_len() as i64);
    let out = Tensor::empty([count, len], (kind, blocks.device()));
    let step = NUMBERS_PER_PIECE / len;
    let mut start = 0;
    while start < count {
        let taken = step.min(count - start);
        let piece = blocks.narrow(0, start, taken);
        let numbers = expand(&piece, block);
        out.narrow(0, start, taken).copy_(&numbers);
        start += taken;
    }
    out.view(-1)
}

/// `blocks`: `(N, bytes of a block)` -> `(N, numbers of a block)` in f32
fn expand(blocks: &Tensor, block: BlockType) -> Tensor {
    let blocks = QuantBlocks(blocks);
    match block {
        BlockType::Q4_0 => blocks.half(0) * (blocks.nibbles(2) - 8.0),
        BlockType::Q4_1 => blocks.half(0) * blocks.nibbles(4) + blocks.half(2),
        BlockType::Q5_0 => blocks.half(0) * (blocks.five_bits(2) - 16.0),
        BlockType::Q5_1 => blocks.half(0) * blocks.five_bits(4) + blocks.half(2),
        BlockType::Q8_0 => {
            let numbers = blocks.bytes(2, 32).view_dtype(Kind::Int8);
            numbers.to_kind(Kind::Float) * blocks.half(0)
        }
        BlockType::Iq4Nl => {
            let indices = parted(&blocks.bytes(2, 16), 16, 4, 0xf);
            blocks.half(0) * iq4_values(&indices.view([-1, 32]))
        }
        BlockType::Q2K => q2_k(&blocks),
        BlockType::Q3K => q3_k(&blocks),
        BlockType::Q4K => q4_k(&blocks),
        BlockType::Q5K => q5_k(&blocks),
        BlockType::Q6K => q6_k(&blocks),
        BlockType::Iq4Xs => iq4_xs(&blocks),
    }
}

/// `(N, bytes of a block)`
pub(super) struct QuantBlocks<'a>(&'a Tensor);

impl QuantBlocks<'_> {
    /// `(N, len)` bytes of every block.
    pub(super) fn bytes(&self, start: i64, len: i64) -> Tensor {
        self.0.narrow(1, start, len)
    }

    /// The f16 number at a byte of every block: `(N, 1)` in f32
    pub(super) fn half(&self, start: i64) -> Tensor {
        let bytes = self.bytes(start, 2).contiguous();
        bytes.view_dtype(Kind::Half).to_kind(Kind::Float)
    }

    /// 32 numbers of four bits, the low halves of 16 bytes first: `(N, 32)` in f32
    fn nibbles(&self, start: i64) -> Tensor {
        let numbers = parted(&self.bytes(start, 16), 16, 4, 0xf);
        numbers.view([-1, 32]).to_kind(Kind::Float)
    }

    /// As [`Self::nibbles`], with a fifth bit of each in the four bytes before.
    fn five_bits(&self, start: i64) -> Tensor {
        let high = parted(&self.bytes(start, 4), 1, 1, 1).view([-1, 32]);
        self.nibbles(start + 4) + high.to_kind(Kind::Float) * 16.0
    }
}

/// The parts of `bits` bits that bytes consist of, lowest first, of a group of `width` bytes at a time:
/// `(N, L)` -> `(N, L / width, 8 / bits, width)`; what `mask` has not is 0.
pub(super) fn parted(bytes: &Tensor, width: i64, bits: i64, mask: i64) -> Tensor {
    let count = bytes.size()[0];
    // Made on the device: nothing waits for a copy.
    let shifts = Tensor::arange_start_step(0, 8, bits, (Kind::Uint8, bytes.device()));
    bytes
        .reshape([count, -1, 1, width])
        .bitwise_right_shift(&shifts.view([1, 1, -1, 1]))
        .bitwise_and(mask)
}

/// Values of four-bit indices, in f32.
pub(super) fn iq4_values(indices: &Tensor) -> Tensor {
    let values = Tensor::from_slice(&IQ4_VALUES).to_device(indices.device());
    let found = values.index_select(0, &indices.to_kind(Kind::Int).flatten(0, -1));
    found.view(&indices.size()[..]).to_kind(Kind::Float)
}

/// `(N, 256)` in f32, as everything here
pub(super) fn q2_k(blocks: &QuantBlocks<'_>) -> Tensor {
    let scales = blocks.bytes(0, 16);
    let (low, high) = (scales.bitwise_and(0xf), halves(&scales).1);
    let scale = blocks.half(80) * low.to_kind(Kind::Float);
    let min = blocks.half(82) * high.to_kind(Kind::Float);
    let numbers = parted(&blocks.bytes(16, 64), 32, 2, 3);
    let numbers = numbers.view([-1, 16, 16]).to_kind(Kind::Float);
    (scale.unsqueeze(-1) * numbers - min.unsqueeze(-1)).view([-1, 256])
}

pub(super) fn q3_k(blocks: &QuantBlocks<'_>) -> Tensor {
    let low = parted(&blocks.bytes(96, 8), 8, 4, 0xf).view([-1, 16]);
    let high = parted(&blocks.bytes(104, 4), 4, 2, 3).view([-1, 16]);
    let scale = blocks.half(108) * (joined(&low, &high, 16.0) - 32.0);
    let low = parted(&blocks.bytes(32, 64), 32, 2, 3).view([-1, 16, 16]);
    // A bit that is set takes nothing away.
    let high = parted(&blocks.bytes(0, 32), 32, 1, 1).view([-1, 16, 16]);
    let numbers = joined(&low, &high, 4.0) - 4.0;
    (scale.unsqueeze(-1) * numbers).view([-1, 256])
}

pub(super) fn q4_k(blocks: &QuantBlocks<'_>) -> Tensor {
    let numbers = parted(&blocks.bytes(16, 128), 32, 4, 0xf);
    with_mins(blocks, &numbers.view([-1, 8, 32]).to_kind(Kind::Float))
}

pub(super) fn q5_k(blocks: &QuantBlocks<'_>) -> Tensor {
    let low = parted(&blocks.bytes(48, 128), 32, 4, 0xf).view([-1, 8, 32]);
    let high = parted(&blocks.bytes(16, 32), 32, 1, 1).view([-1, 8, 32]);
    with_mins(blocks, &joined(&low, &high, 16.0))
}

pub(super) fn q6_k(blocks: &QuantBlocks<'_>) -> Tensor {
    let scales = blocks.bytes(192, 16).view_dtype(Kind::Int8);
    let scale = blocks.half(208) * scales.to_kind(Kind::Float);
    let low = parted(&blocks.bytes(0, 128), 64, 4, 0xf).view([-1, 16, 16]);
    let high = parted(&blocks.bytes(128, 64), 32, 2, 3).view([-1, 16, 16]);
    let numbers = joined(&low, &high, 16.0) - 32.0;
    (scale.unsqueeze(-1) * numbers).view([-1, 256])
}

pub(super) fn iq4_xs(blocks: &QuantBlocks<'_>) -> Tensor {
    let low = parted(&blocks.bytes(4, 4), 1, 4, 0xf).view([-1, 8]);
    let high = parted(&blocks.bytes(2, 2), 1, 2, 3).view([-1, 8]);
    let scale = blocks.half(0) * (joined(&low, &high, 16.0) - 32.0);
    let indices = parted(&blocks.bytes(8, 128), 16, 4, 0xf).view([-1, 8, 32]);
    (scale.unsqueeze(-1) * iq4_values(&indices)).view([-1, 256])
}

/// `numbers`: `(N, 8, 32)`, times their scales less their minima, as the types of four and five bits have them
fn with_mins(blocks: &QuantBlocks<'_>, numbers: &Tensor) -> Tensor {
    let [a, b, c] = [4, 8, 12].map(|start| blocks.bytes(start, 4));
    let (c_low, c_high) = halves(&c);
    // The upper two bits of what belongs to the first four parts belong to the last four.
    let upper = |xs: &Tensor| {
        let bits = xs.bitwise_and(0xc0).to_kind(Kind::Float);
        bits * 0.25
    };
    let lower = |xs: &Tensor| xs.bitwise_and(0x3f).to_kind(Kind::Float);
    let last = |rest: &Tensor, xs: &Tensor| rest.to_kind(Kind::Float) + upper(xs);
    let scales = Tensor::cat(&[lower(&a), last(&c_low, &a)], 1);
    let mins = Tensor::cat(&[lower(&b), last(&c_high, &b)], 1);
    let scale = blocks.half(0) * scales;
    let min = blocks.half(2) * mins;
    (scale.unsqueeze(-1) * numbers - min.unsqueeze(-1)).view([-1, 256])
}

/// The lower and the upper four bits of bytes.
fn halves(bytes: &Tensor) -> (Tensor, Tensor) {
    let (count, len) = (bytes.size()[0], bytes.size()[1]);
    let parts = parted(bytes, len, 4, 0xf).view([count, 2, len]);
    (parts.select(1, 0), parts.select(1, 1))
}

/// Integers whose upper bits are stored separately, `factor` above the lower ones: exact in f32.
fn joined(low: &Tensor, high: &Tensor, factor: f64) -> Tensor {
    low.to_kind(Kind::Float) + high.to_kind(Kind::Float) * factor
}

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

pub fn expand_quant(rows: &QuantRows<'_>, kind: Kind) -> Tensor {
    let (count, width) = (rows.codes.size()[0], rows.codes.size()[1]);
    let columns = width * 8 / rows.format.codes.bits() as i64;
    let step = (NUMBERS_PER_PIECE / columns.max(1)).max(1);
    let some = |first: i64, count: i64| {
        let [codes, scales] = [rows.codes, rows.scales].map(|all| all.narrow(0, first, count));
        let blocks = rows.blocks.map(|all| all.narrow(0, first, count));
        let piece = QuantRows {
            codes: &codes,
            scales: &scales,
            blocks: blocks.as_ref(),
            ..*rows
        };
        dequantize(&piece, columns).to_kind(kind)
    };
    if count <= step || rows.codes.device() == Device::Cpu {
        return some(0, count);
    }
    let out = Tensor::empty([count, columns], (kind, rows.codes.device()));
    let mut first = 0;
    while first < count {
        let taken = step.min(count - first);
        out.narrow(0, first, taken).copy_(&some(first, taken));
        first += taken;
    }
    out
}

/// `(R, columns)` in f32
fn dequantize(rows: &QuantRows<'_>, columns: i64) -> Tensor {
    let count = rows.codes.size()[0];
    let codes = match rows.table {
        Some(table) => {
            let low = rows.codes.bitwise_and(0xf);
            let high = rows.codes.bitwise_right_shift_tensor_scalar(4);
            let halves = match rows.format.codes {
                CodeType::E2m1 => [high, low],
                _ => [low, high],
            };
            let indices = Tensor::stack(&halves, -1).flatten(0, -1).to_kind(Kind::Int);
            table.index_select(0, &indices).view([count, columns])
        }
        None => rows.codes.shallow_clone(),
    };
    let Some((format, blocks)) = rows.format.blocks.zip(rows.blocks) else {
        return straight(&codes, rows.rotation) * rows.scales;
    };
    let factors = block_factors(blocks, format);
    let codes = codes.to_kind(Kind::Float);
    let block = format.columns as i64;
    let codes = codes.view([count, columns / block, block]);
    if rows.format.codes == CodeType::Index4 {
        let codes = (codes * factors.unsqueeze(-1)).round().clamp(-127, 127);
        return straight(&codes.view([count, columns]), rows.rotation) * rows.scales;
    }
    (codes * (factors * rows.scales).unsqueeze(-1)).view([count, columns])
}

/// Block scales in f32.
fn block_factors(blocks: &Tensor, format: BlockScales) -> Tensor {
    match format.dtype {
        Dtype::F8_E4M3 => blocks.view_dtype(Kind::Float8e4m3fn).to_kind(Kind::Float),
        // The bits of an exponent, of which 0 is zero.
        Dtype::F8_E8M0 => (blocks.to_kind(Kind::Int) * (1 << 23)).view_dtype(Kind::Float),
        _ => blocks.shallow_clone(),
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
