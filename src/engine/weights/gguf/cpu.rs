//! All blocks of a tensor to numbers on the CPU: by several threads, each block in one go.
//!
//! A block's numbers are made in f32, in registers and the nearest cache, and rounded as they are written.

use std::slice;
use std::sync::{Mutex, PoisonError};

use half::{bf16, f16};
use safelight_core::formats::weights::gguf::BlockType;
use tch::{Device, Kind, Tensor};

use super::{blocks, k_blocks};
use crate::runtime::for_each_range;
use crate::vae::slices::{VectorWork, vectorized};

/// About this many numbers are worth a turn of a thread.
const NUMBERS_PER_TURN: usize = 64 * 1024;

/// A number as it is written.
trait Number: Copy + Send {
    fn of(number: f32) -> Self;
}

impl Number for f32 {
    #[inline(always)]
    fn of(number: f32) -> Self {
        number
    }
}

impl Number for bf16 {
    #[inline(always)]
    fn of(number: f32) -> Self {
        // To the nearest, ties to even; what is no number stays none.
        let bits = number.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let bits = if number.is_nan() {
            0x7fc0
        } else {
            rounded as u16
        };
        Self::from_bits(bits)
    }
}

impl Number for f16 {
    #[inline(always)]
    fn of(number: f32) -> Self {
        Self::from_f32(number)
    }
}

/// `blocks`: `(N, bytes of a block)`, contiguous, on the CPU -> flat, of `kind`, which is f32, bf16 or f16
pub(super) fn expand(blocks: &Tensor, block: BlockType, kind: Kind) -> Tensor {
    let count = blocks.size()[0] * block.block_len() as i64;
    let out = Tensor::empty([count], (kind, Device::Cpu));
    if count > 0 {
        match kind {
            Kind::BFloat16 => expand_into::<bf16>(blocks, block, &out),
            Kind::Half => expand_into::<f16>(blocks, block, &out),
            _ => expand_into::<f32>(blocks, block, &out),
        }
    }
    out
}

fn expand_into<N: Number>(blocks: &Tensor, block: BlockType, out: &Tensor) {
    let len = blocks.numel();
    assert!(
        blocks.is_contiguous() && blocks.kind() == Kind::Uint8 && blocks.device() == Device::Cpu,
        "expected blocks on the CPU, got {blocks:?}"
    );
    assert!(
        out.is_contiguous()
            && out.kind().elt_size_in_bytes() == size_of::<N>()
            && out.numel() == len / block.block_bytes() * block.block_len(),
        "expected a place for each number, got {out:?}"
    );
    #[expect(unsafe_code, reason = "reads and writes tensors without a copy")]
    // SAFETY: both are contiguous tensors on the CPU of so many elements of this width, which outlive the slices;
    // `out` was made for this, so nobody else uses it.
    let (bytes, numbers) = unsafe {
        (
            slice::from_raw_parts(blocks.data_ptr().cast::<u8>().cast_const(), len),
            slice::from_raw_parts_mut(out.data_ptr().cast::<N>(), out.numel()),
        )
    };
    match block {
        BlockType::Q4_0 => run(bytes, numbers, blocks::q4_0),
        BlockType::Q4_1 => run(bytes, numbers, blocks::q4_1),
        BlockType::Q5_0 => run(bytes, numbers, blocks::q5_0),
        BlockType::Q5_1 => run(bytes, numbers, blocks::q5_1),
        BlockType::Q8_0 => run(bytes, numbers, blocks::q8_0),
        BlockType::Q2K => run(bytes, numbers, k_blocks::q2_k),
        BlockType::Q3K => run(bytes, numbers, k_blocks::q3_k),
        BlockType::Q4K => run(bytes, numbers, k_blocks::q4_k),
        BlockType::Q5K => run(bytes, numbers, k_blocks::q5_k),
        BlockType::Q6K => run(bytes, numbers, k_blocks::q6_k),
        BlockType::Iq4Nl => run(bytes, numbers, blocks::iq4_nl),
        BlockType::Iq4Xs => run(bytes, numbers, k_blocks::iq4_xs),
    }
}

/// `expand` turns a block of `BYTES` bytes into `LEN` numbers.
fn run<N: Number, const BYTES: usize, const LEN: usize>(
    bytes: &[u8],
    numbers: &mut [N],
    expand: impl Fn(&[u8; BYTES], &mut [f32; LEN]) + Copy + Sync,
) {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let per_turn = NUMBERS_PER_TURN / LEN;
    // A turn each, and never two for one: the locks are always free.
    let turns: Vec<Mutex<&mut [N]>> = numbers.chunks_mut(per_turn * LEN).map(Mutex::new).collect();
    for_each_range(turns.len(), 1, &|range| {
        for turn in range {
            let mut numbers = turns[turn].lock().unwrap_or_else(PoisonError::into_inner);
            let start = turn * per_turn;
            let end = blocks.len().min(start + per_turn);
            vectorized(Turn::<N, _, BYTES, LEN> {
                blocks: &blocks[start..end],
                numbers: &mut numbers,
                expand,
            });
        }
    });
}

struct Turn<'a, N, F, const BYTES: usize, const LEN: usize> {
    blocks: &'a [[u8; BYTES]],
    numbers: &'a mut [N],
    expand: F,
}

impl<N, F, const BYTES: usize, const LEN: usize> VectorWork for Turn<'_, N, F, BYTES, LEN>
where
    N: Number,
    F: Fn(&[u8; BYTES], &mut [f32; LEN]),
{
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let (numbers, _) = self.numbers.as_chunks_mut::<LEN>();
        for (block, out) in self.blocks.iter().zip(numbers) {
            let mut exact = [0.0; LEN];
            (self.expand)(block, &mut exact);
            for (out, number) in out.iter_mut().zip(exact) {
                *out = N::of(number);
            }
        }
    }
}
