//! The types with blocks of 256 numbers by tensor operations: the K types and IQ4_XS.
//!
//! A block has parts of 16 or 32 numbers, each with its own scale of a few bits, which the block's scale multiplies.

use tch::{Kind, Tensor};

use super::block_reference::{QuantBlocks, iq4_values, parted};

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
