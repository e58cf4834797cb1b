//! Dequantization of one GGUF block: the types with blocks of 32. Blocks of 256 are in [`k_blocks`](super::k_blocks).
//!
//! Every product and difference is rounded separately, as in the reference, so the bits agree.

use half::f16;

/// Values of the four-bit indices of the IQ4 types.
pub const IQ4_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

#[inline(always)]
pub(super) fn half_at(block: &[u8], start: usize) -> f32 {
    f16::from_le_bytes([block[start], block[start + 1]]).to_f32()
}

/// Eight bits, of which the sign counts.
#[inline(always)]
pub(super) fn signed(byte: u8) -> f32 {
    f32::from(byte.cast_signed())
}

#[inline(always)]
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (out, &byte) in out.iter_mut().zip(&block[2..]) {
        *out = signed(byte) * scale;
    }
}

#[inline(always)]
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    let (low, high) = out.split_at_mut(16);
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(&block[2..]) {
        *low = scale * (f32::from(byte & 0xf) - 8.0);
        *high = scale * (f32::from(byte >> 4) - 8.0);
    }
}

#[inline(always)]
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let (scale, min) = (half_at(block, 0), half_at(block, 2));
    let (low, high) = out.split_at_mut(16);
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(&block[4..]) {
        *low = scale * f32::from(byte & 0xf) + min;
        *high = scale * f32::from(byte >> 4) + min;
    }
}

#[inline(always)]
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    let numbers = five_bits(&block[2..6], &block[6..]);
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = scale * (f32::from(number) - 16.0);
    }
}

#[inline(always)]
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (scale, min) = (half_at(block, 0), half_at(block, 2));
    let numbers = five_bits(&block[4..8], &block[8..]);
    for (out, number) in out.iter_mut().zip(numbers) {
        *out = scale * f32::from(number) + min;
    }
}

#[inline(always)]
pub(super) fn iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    iq4_part(scale, &block[2..], out);
}

/// 32 numbers of 16 bytes, the low halves first.
#[inline(always)]
pub(super) fn iq4_part(scale: f32, bytes: &[u8], out: &mut [f32]) {
    let (low, high) = out.split_at_mut(16);
    for ((low, high), &byte) in low.iter_mut().zip(high).zip(bytes) {
        *low = scale * f32::from(IQ4_VALUES[usize::from(byte & 0xf)]);
        *high = scale * f32::from(IQ4_VALUES[usize::from(byte >> 4)]);
    }
}

/// 32 numbers: four bits of each in 16 bytes, the low halves first, and the fifth in four bytes.
#[inline(always)]
fn five_bits(fifths: &[u8], bytes: &[u8]) -> [u8; 32] {
    let fifths = u32::from_le_bytes([fifths[0], fifths[1], fifths[2], fifths[3]]);
    let mut numbers = [0; 32];
    for i in 0..16 {
        numbers[i] = bytes[i] & 0xf | ((fifths >> i & 1) << 4) as u8;
        numbers[i + 16] = bytes[i] >> 4 | ((fifths >> (i + 16) & 1) << 4) as u8;
    }
    numbers
}
