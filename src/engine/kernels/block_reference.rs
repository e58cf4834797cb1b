//! Reference dequantization of GGUF blocks with libtorch's operations, which every device has: the types with blocks of
//! 32 values.
//!
//! Every product and difference is rounded separately, as in the reference, so the bits agree. The layouts are
//! those of <https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-common.h>.
//! Blocks of 256 values are in [`k_block_reference`].

use safelight_core::formats::weights::gguf::BlockType;
use safelight_loops::gguf::IQ4_VALUES;
use tch::{Kind, Tensor};

use super::k_block_reference;

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
        BlockType::Q2K => k_block_reference::q2_k(&blocks),
        BlockType::Q3K => k_block_reference::q3_k(&blocks),
        BlockType::Q4K => k_block_reference::q4_k(&blocks),
        BlockType::Q5K => k_block_reference::q5_k(&blocks),
        BlockType::Q6K => k_block_reference::q6_k(&blocks),
        BlockType::Iq4Xs => k_block_reference::iq4_xs(&blocks),
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
