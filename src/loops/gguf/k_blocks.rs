//! One block of 256 numbers to its numbers: the K types and IQ4_XS.
//!
//! A block has parts of 16 or 32 numbers, each with its own scale of a few bits, which the block's scale multiplies.

use super::blocks::{half_at, iq4_part, signed};

#[inline(always)]
pub(super) fn q2_k(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scale, min) = (half_at(block, 80), half_at(block, 82));
    for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let both = block[i];
        let (scale, min) = (scale * f32::from(both & 0xf), min * f32::from(both >> 4));
        // Parts 2s and 2s + 1 share a shift; eight parts share 32 bytes.
        let start = 16 + 32 * (i / 8) + 16 * (i % 2);
        let shift = 2 * (i % 8 / 2);
        for (out, &byte) in out.iter_mut().zip(&block[start..start + 16]) {
            *out = scale * f32::from(byte >> shift & 3) - min;
        }
    }
}

#[inline(always)]
pub(super) fn q3_k(block: &[u8; 110], out: &mut [f32; 256]) {
    let whole = half_at(block, 108);
    for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let low = block[96 + i % 8] >> (4 * (i / 8)) & 0xf;
        let high = block[104 + i % 4] >> (2 * (i / 4)) & 3;
        let scale = whole * (f32::from(low | high << 4) - 32.0);
        let start = 32 + 32 * (i / 8) + 16 * (i % 2);
        let shift = 2 * (i % 8 / 2);
        let thirds = &block[16 * (i % 2)..][..16];
        let bit = i / 2;
        for ((out, &byte), &third) in out.iter_mut().zip(&block[start..start + 16]).zip(thirds) {
            let number = byte >> shift & 3 | (third >> bit & 1) << 2;
            // A bit that is set takes nothing away.
            *out = scale * (f32::from(number) - 4.0);
        }
    }
}

#[inline(always)]
pub(super) fn q4_k(block: &[u8; 144], out: &mut [f32; 256]) {
    let (scale, min) = (half_at(block, 0), half_at(block, 2));
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(block, i, scale, min);
        let start = 16 + 32 * (i / 2);
        let shift = 4 * (i % 2);
        for (out, &byte) in out.iter_mut().zip(&block[start..start + 32]) {
            *out = scale * f32::from(byte >> shift & 0xf) - min;
        }
    }
}

#[inline(always)]
pub(super) fn q5_k(block: &[u8; 176], out: &mut [f32; 256]) {
    let (scale, min) = (half_at(block, 0), half_at(block, 2));
    let fifths = &block[16..48];
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, min) = scale_and_min(block, i, scale, min);
        let start = 48 + 32 * (i / 2);
        let shift = 4 * (i % 2);
        for ((out, &byte), &fifth) in out.iter_mut().zip(&block[start..start + 32]).zip(fifths) {
            let number = byte >> shift & 0xf | (fifth >> i & 1) << 4;
            *out = scale * f32::from(number) - min;
        }
    }
}

#[inline(always)]
pub(super) fn q6_k(block: &[u8; 210], out: &mut [f32; 256]) {
    let whole = half_at(block, 208);
    for (i, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let scale = whole * signed(block[192 + i]);
        // Of 64 bytes, the low halves are four parts, and the high halves the next four.
        let start = 64 * (i / 8) + 16 * (i % 4);
        let shift = 4 * (i % 8 / 4);
        let uppers = &block[128 + 32 * (i / 8) + 16 * (i % 2)..][..16];
        let upper_shift = 2 * (i % 8 / 2);
        for ((out, &byte), &upper) in out.iter_mut().zip(&block[start..start + 16]).zip(uppers) {
            let number = byte >> shift & 0xf | (upper >> upper_shift & 3) << 4;
            *out = scale * (f32::from(number) - 32.0);
        }
    }
}

#[inline(always)]
pub(super) fn iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let whole = half_at(block, 0);
    for (i, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let low = block[4 + i / 2] >> (4 * (i % 2)) & 0xf;
        let high = block[2 + i / 4] >> (2 * (i % 4)) & 3;
        let scale = whole * (f32::from(low | high << 4) - 32.0);
        iq4_part(scale, &block[8 + 16 * i..][..16], out);
    }
}

/// The scale and the minimum of a part, of six bits each; those of the last four parts are in two places.
#[inline(always)]
fn scale_and_min(block: &[u8], part: usize, scale: f32, min: f32) -> (f32, f32) {
    let bytes = &block[4..16];
    let (own_scale, own_min) = if part < 4 {
        (bytes[part] & 0x3f, bytes[part + 4] & 0x3f)
    } else {
        let rest = bytes[part + 4];
        (
            rest & 0xf | bytes[part - 4] >> 2 & 0x30,
            rest >> 4 | bytes[part] >> 2 & 0x30,
        )
    };
    (scale * f32::from(own_scale), min * f32::from(own_min))
}
