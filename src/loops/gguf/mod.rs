//! Blocks of GGUF to their numbers, in f32, in registers and the nearest cache, rounded as they are written.

mod blocks;
mod k_blocks;

use half::{bf16, f16};

use crate::vectors::{VectorWork, vectorized};

pub use blocks::IQ4_VALUES;

/// Output elements, of one of three types.
pub enum OutputElements<'a> {
    F32(&'a mut [f32]),
    Bf16(&'a mut [bf16]),
    F16(&'a mut [f16]),
}

impl OutputElements<'_> {
    /// The elements in parts of `len`, of which the last may be shorter.
    pub fn parts(self, len: usize) -> Vec<Self> {
        match self {
            Self::F32(all) => all.chunks_mut(len).map(Self::F32).collect(),
            Self::Bf16(all) => all.chunks_mut(len).map(Self::Bf16).collect(),
            Self::F16(all) => all.chunks_mut(len).map(Self::F16).collect(),
        }
    }
}

/// Turns whole blocks into as many numbers as there are places for.
pub type DequantizeFn = fn(blocks: &[u8], out: &mut OutputElements<'_>);

macro_rules! expanders {
    ($($name:ident: $one:path;)*) => {$(
        /// See [`DequantizeFn`].
        pub fn $name(blocks: &[u8], out: &mut OutputElements<'_>) {
            expand(blocks, out, $one);
        }
    )*};
}

expanders! {
    q4_0: blocks::q4_0;
    q4_1: blocks::q4_1;
    q5_0: blocks::q5_0;
    q5_1: blocks::q5_1;
    q8_0: blocks::q8_0;
    iq4_nl: blocks::iq4_nl;
    q2_k: k_blocks::q2_k;
    q3_k: k_blocks::q3_k;
    q4_k: k_blocks::q4_k;
    q5_k: k_blocks::q5_k;
    q6_k: k_blocks::q6_k;
    iq4_xs: k_blocks::iq4_xs;
}

/// `one` turns a block of `BYTES` bytes into `LEN` numbers.
fn expand<const BYTES: usize, const LEN: usize>(
    bytes: &[u8],
    out: &mut OutputElements<'_>,
    one: impl Fn(&[u8; BYTES], &mut [f32; LEN]),
) {
    let (blocks, _) = bytes.as_chunks();
    match out {
        OutputElements::F32(numbers) => vectorized(BlockRange {
            blocks,
            numbers,
            one,
        }),
        OutputElements::Bf16(numbers) => vectorized(BlockRange {
            blocks,
            numbers,
            one,
        }),
        OutputElements::F16(numbers) => vectorized(BlockRange {
            blocks,
            numbers,
            one,
        }),
    }
}

/// A number as it is written.
trait OutputElement: Copy + Send {
    fn from_f32(number: f32) -> Self;
}

impl OutputElement for f32 {
    #[inline(always)]
    fn from_f32(number: f32) -> Self {
        number
    }
}

impl OutputElement for bf16 {
    #[inline(always)]
    fn from_f32(number: f32) -> Self {
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

impl OutputElement for f16 {
    #[inline(always)]
    fn from_f32(number: f32) -> Self {
        Self::from_f32(number)
    }
}

struct BlockRange<'a, N, F, const BYTES: usize, const LEN: usize> {
    blocks: &'a [[u8; BYTES]],
    numbers: &'a mut [N],
    one: F,
}

impl<N, F, const BYTES: usize, const LEN: usize> VectorWork for BlockRange<'_, N, F, BYTES, LEN>
where
    N: OutputElement,
    F: Fn(&[u8; BYTES], &mut [f32; LEN]),
{
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let (numbers, _) = self.numbers.as_chunks_mut::<LEN>();
        for (block, out) in self.blocks.iter().zip(numbers) {
            let mut exact = [0.0; LEN];
            (self.one)(block, &mut exact);
            for (out, number) in out.iter_mut().zip(exact) {
                *out = N::from_f32(number);
            }
        }
    }
}
