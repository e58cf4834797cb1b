//! Runs every kernel on small tensors and compares it with its definition in f32.
//!
//! The numbers are waves, not random: no generator's state is touched. Costs milliseconds; times nothing.

use safelight_core::formats::weights::gguf::BlockType;
use safelight_core::formats::weights::quant::{BlockScales, CodeType, QuantFormat};
use safetensors::Dtype;
use tch::{Device, Kind, Tensor};

use super::loaded::KernelSet;
use super::ops::{PIECE_BYTES, most_pieces};
use super::pass_params::{
    ElementActivation, FusedNorm, GateArgs, QuantRows, RopePairing, TokenRows,
};
use super::{KernelError, reference};

const EPS: f64 = 1e-6;

/// Tokens of the check: no multiple of anything.
const TOKENS: i64 = 37;

/// Start of the second range of tokens.
const SPLIT: i64 = 5;

/// Rows from short to long: several to a block, one to a block, and each number of pieces a thread.
const CHANNELS: [i64; 9] = [32, 96, 384, 1024, 1536, 3072, 5120, 13824, 30720];

/// Heads of this size divide all of them.
const HEAD_DIM: i64 = 32;

/// Heads that are normed on their own.
const HEAD_DIMS: [i64; 4] = [16, 64, 96, 128];

/// Images of few channels to many, also of those that fill no block of threads.
const PIXEL_CHANNELS: [i64; 4] = [8, 96, 128, 512];

/// Compares all kernels of one kind with their definitions.
pub(super) fn check(kernels: &KernelSet, device: Device) -> Result<(), KernelError> {
    let longest = longest_row(kernels.kind());
    for channels in CHANNELS.into_iter().filter(|&channels| channels <= longest) {
        let data = CheckData::new(channels, kernels.kind(), device);
        data.check_norms(kernels)?;
        data.check_sums(kernels)?;
        data.check_rms(kernels)?;
        data.check_pixels(kernels)?;
    }
    for head_dim in HEAD_DIMS {
        check_heads(kernels, device, head_dim)?;
    }
    check_activations(kernels, device)?;
    for channels in PIXEL_CHANNELS {
        check_images(kernels, device, channels)?;
    }
    check_softmax(kernels, device)?;
    check_blocks(kernels, device)?;
    check_fp8(kernels, device)?;
    check_quant(kernels, device)
}

/// Longer rows are left to libtorch.
fn longest_row(kind: Kind) -> i64 {
    (most_pieces() * PIECE_BYTES / kind.elt_size_in_bytes()) as i64
}

struct CheckData {
    xs: Tensor,
    ys: Tensor,
    /// `(2, 6, C)` in f32
    values: Tensor,
    weight: Tensor,
    turns: Tensor,
}

const RANGES: [(i64, i64); 2] = [(0, SPLIT), (SPLIT, TOKENS - SPLIT)];

impl CheckData {
    fn new(channels: i64, kind: Kind, device: Device) -> Self {
        let wave = |size: &[i64], pace: f64| wave(size, pace, device);
        let angles = wave(&[TOKENS, 1, HEAD_DIM / 2], 0.83) * 3.0;
        Self {
            xs: (wave(&[1, TOKENS, channels], 0.37) * 2.0 + 0.5).to_kind(kind),
            ys: wave(&[1, TOKENS, channels], 0.71).to_kind(kind),
            values: wave(&[2, 6, channels], 0.53),
            weight: wave(&[channels], 0.29) + 1.5,
            turns: Tensor::complex(&angles.cos(), &angles.sin()),
        }
    }

    fn rows(&self) -> TokenRows<'_> {
        TokenRows {
            values: &self.values,
            ranges: &RANGES,
        }
    }

    fn check_norms(&self, kernels: &KernelSet) -> Result<(), KernelError> {
        let narrow = self.weight.to_kind(kernels.kind());
        let norms = [
            FusedNorm::Plain,
            FusedNorm::Affine {
                weight: &self.weight,
                bias: &narrow,
            },
            FusedNorm::Modulated {
                rows: self.rows(),
                shift: 3,
                scale: 4,
            },
        ];
        for norm in &norms {
            let found = kernels.layer_norm(&self.xs, norm, EPS);
            same(
                "layer_norm",
                found,
                &reference::layer_norm(&wide(&self.xs), norm, EPS),
            )?;
        }
        Ok(())
    }

    fn check_sums(&self, kernels: &KernelSet) -> Result<(), KernelError> {
        let gate = GateArgs {
            rows: self.rows(),
            index: 2,
        };
        let norm = FusedNorm::Modulated {
            rows: self.rows(),
            shift: 0,
            scale: 1,
        };
        for gate in [None, Some(gate)] {
            let mut expected = wide(&self.xs);
            reference::gated_add(&mut expected, &wide(&self.ys), gate);
            let sum = self.xs.copy();
            fits("gated_add", kernels.gated_add(&sum, &self.ys, gate))?;
            compare("gated_add", &sum, &expected)?;

            let sum = self.xs.copy();
            let normed = kernels.gated_add_norm(&sum, &self.ys, gate, &norm, EPS);
            let normed = fits("gated_add_norm", normed)?;
            compare("gated_add_norm", &sum, &expected)?;
            // The norm is that of the sum as it was rounded.
            let expected = reference::layer_norm(&wide(&sum), &norm, EPS);
            compare("gated_add_norm", &normed, &expected)?;
        }
        Ok(())
    }

    fn check_rms(&self, kernels: &KernelSet) -> Result<(), KernelError> {
        for weight in [&self.weight, &self.weight.to_kind(kernels.kind())] {
            for turns in [None, Some(&self.turns)] {
                let wide = wide(&self.xs);
                let expected =
                    reference::rms_norm_rope(&wide, &weight.to_kind(Kind::Float), EPS, turns);
                // As it comes, and as one of three parts of a wider product.
                let apart = Tensor::cat(&[&self.ys, &self.xs, &self.ys], -1);
                let channels = self.weight.size()[0];
                for found in [self.xs.copy(), apart.narrow(-1, channels, channels)] {
                    let done = kernels.rms_norm_rope(&found, weight, EPS, turns);
                    fits("rms_norm_rope", done)?;
                    compare("rms_norm_rope", &found, &expected)?;
                }
                if turns.is_none() {
                    let mut xs = apart.narrow(-1, channels, channels);
                    xs.copy_(&self.xs);
                    let found = kernels.rms_norm(&xs, weight, None, EPS);
                    same("rms_norm", found, &expected)?;
                    let shift = self.ys.select(1, 7).squeeze_dim(0).to_kind(weight.kind());
                    let found = kernels.rms_norm(&xs, weight, Some(&shift), EPS);
                    let shifted = &expected + shift.to_kind(Kind::Float);
                    same("rms_norm_shifted", found, &shifted)?;
                }
                let beside = apart.narrow(-1, 2 * channels, channels);
                compare("rms_norm_rope", &beside, &self.ys.to_kind(Kind::Float))?;
            }
        }
        Ok(())
    }

    fn check_pixels(&self, kernels: &KernelSet) -> Result<(), KernelError> {
        // A pixel without light divides by the shortest length instead of zero.
        let xs = self.xs.copy();
        drop(xs.narrow(1, 3, 1).zero_());
        let expected = reference::pixel_norm_silu(&wide(&xs), &self.weight);
        let channels = expected.size()[expected.dim() - 1];
        let apart = Tensor::cat(&[&xs, &xs, &xs], -1).narrow(-1, 2 * channels, channels);
        let done = kernels.pixel_norm_silu_into(&xs, &self.weight, &apart);
        same("pixel_norm_silu", done.map(|()| apart), &expected)?;
        Ok(())
    }
}

/// Queries and keys of five heads, next to values in one product.
fn check_heads(kernels: &KernelSet, device: Device, head_dim: i64) -> Result<(), KernelError> {
    const HEADS: i64 = 5;
    let name = "head_norm_rope";
    let xs = wave(&[1, TOKENS, 3 * HEADS, head_dim], 0.37, device) * 2.0 + 0.5;
    let xs = xs.to_kind(kernels.kind());
    let angles = wave(&[TOKENS, 1, head_dim / 2], 0.83, device) * 3.0;
    let turns = Tensor::complex(&angles.cos(), &angles.sin());
    let weights = wave(&[2, head_dim], 0.29, device) + 1.5;
    for weights in [weights.to_kind(kernels.kind()), weights] {
        // All tokens, and the last of them, as where another product made the first.
        for start in [0, SPLIT] {
            let tokens = |xs: &Tensor| xs.narrow(1, start, TOKENS - start);
            let turns = turns.narrow(0, start, TOKENS - start);
            check_turns(kernels, &tokens(&xs), &weights.get(1), &turns)?;
            let expected = wide(&xs);
            let mut normed = tokens(&expected).narrow(2, 0, 2 * HEADS);
            reference::head_norm_rope(&mut normed, &weights.to_kind(Kind::Float), EPS, &turns);
            let found = xs.copy();
            let normed = tokens(&found).narrow(2, 0, 2 * HEADS);
            fits(name, kernels.head_norm_rope(&normed, &weights, EPS, &turns))?;
            compare(name, &found, &expected)?;
            // The neighbouring values are unchanged.
            for (dim, from, len) in [(1, 0, start), (2, 2 * HEADS, HEADS)] {
                let beside = |xs: &Tensor| xs.narrow(dim, from, len);
                let is_same = len == 0 || beside(&found).equal(&beside(&xs));
                fits(name, is_same.then_some(()))?;
            }
        }
    }
    Ok(())
}

fn check_activations(kernels: &KernelSet, device: Device) -> Result<(), KernelError> {
    type Of = for<'a> fn(&'a Tensor) -> ElementActivation<'a>;
    // From saturation on both sides, with a rest after the last whole piece.
    let xs = (wave(&[40_003], 0.37, device) * 30.0).to_kind(kernels.kind());
    let ys = (wave(&[40_003], 0.71, device) * 30.0).to_kind(kernels.kind());
    for (name, of) in [
        ("gelu_tanh", (|_| ElementActivation::GeluTanh) as Of),
        ("silu", |_| ElementActivation::Silu),
        ("silu_times", |ys| ElementActivation::SiluTimes(ys)),
        ("times_sigmoid", |ys| ElementActivation::TimesSigmoid(ys)),
        ("gelu_times", |ys| ElementActivation::GeluTimes(ys)),
    ] {
        let found = xs.copy();
        fits(name, kernels.activate(&found, of(&ys)))?;
        let mut expected = wide(&xs);
        reference::activate(&mut expected, of(&wide(&ys)));
        compare(name, &found, &expected)?;

        // Strided rows: the middle one of three parts of a wider product, and the last one after it.
        let product = xs.narrow(0, 0, 37 * 3 * 96).view([1, 37, 3 * 96]);
        let found = product.copy();
        let part = |xs: &Tensor, first: i64| xs.narrow(-1, first * 96, 96);
        let done = kernels.activate(&part(&found, 1), of(&part(&found, 2)));
        fits(name, done)?;
        let expected = wide(&product);
        let ys = part(&expected, 2);
        reference::activate(&mut part(&expected, 1), of(&ys));
        compare(name, &found, &expected)?;
    }
    Ok(())
}

/// Heads whose pairs are turned into another tensor, normed or not.
fn check_turns(
    kernels: &KernelSet,
    xs: &Tensor,
    weight: &Tensor,
    turns: &Tensor,
) -> Result<(), KernelError> {
    let exact = weight.to_kind(Kind::Float);
    for pairs in [RopePairing::Neighbours, RopePairing::Halves] {
        let (norm, exact_norm) = (Some((weight, EPS)), Some((&exact, EPS)));
        for (norm, exact_norm) in [(None, None), (norm, exact_norm)] {
            let found = kernels.turned_heads(xs, norm, turns, pairs);
            let expected = reference::turned_heads(&wide(xs), exact_norm, turns, pairs);
            same("turned_heads", found, &expected)?;
        }
    }
    Ok(())
}

/// Statistics and sums over an image of odd size whose numbers are far from zero.
fn check_images(kernels: &KernelSet, device: Device, channels: i64) -> Result<(), KernelError> {
    let size = [1, 67, 61, channels];
    let xs = (wave(&size, 0.37, device) * 2.0 + 7.0).to_kind(kernels.kind());
    let ys = wave(&size, 0.71, device).to_kind(kernels.kind());
    let found = fits("channel_moments", kernels.channel_moments(&xs))?;
    let expected = reference::channel_moments(&wide(&xs).to_kind(Kind::Double));
    for (found, expected) in [(found.0, expected.0), (found.1, expected.1)] {
        compare("channel_moments", &found, &expected.to_kind(Kind::Float))?;
    }
    let scale = wave(&[channels], 0.53, device) + 1.5;
    let shift = wave(&[channels], 0.29, device) - &scale * 7.0;
    for with_silu in [false, true] {
        let found = kernels.scaled_channels(&xs, &scale, &shift, with_silu);
        let expected = reference::scaled_channels(&wide(&xs), &scale, &shift, with_silu);
        same("scaled_channels", found, &expected)?;
    }
    for (ys, bias) in [
        (Some(&ys), Some(&scale)),
        (Some(&ys), None),
        (None, Some(&scale)),
    ] {
        let found = xs.copy();
        fits("add_to_pixels", kernels.add_to_pixels(&found, ys, bias))?;
        let mut expected = wide(&xs);
        reference::add_to_pixels(&mut expected, ys.map(wide).as_ref(), bias);
        compare("add_to_pixels", &found, &expected)?;
    }
    if channels % (4 * kernels.piece_len() as i64) != 0 {
        return Ok(());
    }
    for bias in [None, Some(scale.narrow(0, 0, channels / 4))] {
        let found = kernels.placed_corners(&xs, bias.as_ref());
        let expected = reference::placed_corners(&wide(&xs), bias.as_ref());
        same("placed_corners", found, &expected)?;
    }
    Ok(())
}

fn check_softmax(kernels: &KernelSet, device: Device) -> Result<(), KernelError> {
    for columns in [16, 1000, 9_720] {
        let scores = wave(&[7, columns], 0.37, device) * 40.0;
        let expected = reference::softmax_to(&scores, 0.3, Kind::Float);
        same("softmax", kernels.softmax_to(&scores, 0.3), &expected)?;
    }
    Ok(())
}

/// Blocks of bytes that are as good as random, with scales that are small numbers.
fn check_blocks(kernels: &KernelSet, device: Device) -> Result<(), KernelError> {
    for block in BlockType::ALL {
        let size = [TOKENS, block.block_bytes() as i64];
        let bytes = (wave(&size, 0.37, device) * 900.0).to_kind(Kind::Int64);
        let bytes = bytes.bitwise_and(0xff).to_kind(Kind::Uint8);
        for &at in halves_of(block) {
            let mut upper = bytes.narrow(1, at + 1, 1);
            drop(upper.bitwise_and_(0x3f));
        }
        let name = format!("expand_blocks {}", block.name());
        let expected = reference::expand_blocks(&bytes, block, Kind::Float);
        same(&name, kernels.expand_blocks(&bytes, block), &expected)?;
    }
    Ok(())
}

/// Positions of f16 values in a block.
fn halves_of(block: BlockType) -> &'static [i64] {
    match block {
        BlockType::Q4_1 | BlockType::Q5_1 | BlockType::Q4K | BlockType::Q5K => &[0, 2],
        BlockType::Q2K => &[80, 82],
        BlockType::Q3K => &[108],
        BlockType::Q6K => &[208],
        _ => &[0],
    }
}

/// Every number of both formats but those that are none.
fn check_fp8(kernels: &KernelSet, device: Device) -> Result<(), KernelError> {
    for kind in [Kind::Float8e4m3fn, Kind::Float8e5m2] {
        let bytes = Tensor::arange(256, (Kind::Int64, device));
        let is_none = bytes.bitwise_and(0x7f).ge(0x7c);
        let bytes = bytes.where_self(&is_none.logical_not(), &bytes.zeros_like());
        let numbers = bytes.to_kind(Kind::Uint8).view_dtype(kind);
        for scale in [1.0, 0.0078] {
            let expected = reference::expand_fp8(&numbers, scale, Kind::Float);
            same("expand_fp8", kernels.expand_fp8(&numbers, scale), &expected)?;
        }
    }
    Ok(())
}

/// Every type of codes and scales, every group that is rotated in one pass, and more lanes than runs.
fn check_quant(kernels: &KernelSet, device: Device) -> Result<(), KernelError> {
    let scales = wave(&[TOKENS, 1], 0.53, device);
    // Whole numbers, as codes of four bits are: rotating them rounds nothing, in whatever precision libtorch multiplies.
    let table = (wave(&[16], 0.41, device) * 7.0).round();
    let none = (None, None);
    let fp8 = |columns| (Some((columns, Dtype::F8_E4M3)), Some(0x7e));
    let formats = [
        (CodeType::Int8, none, None),
        (CodeType::Int8, none, Some(4)),
        (CodeType::Int8, none, Some(16)),
        (CodeType::Int8, none, Some(64)),
        (CodeType::Int4, none, Some(256)),
        (CodeType::Index4, fp8(16), Some(256)),
        (CodeType::Index4, fp8(4), Some(16)),
        (CodeType::Index4, (Some((64, Dtype::F32)), None), Some(64)),
        (CodeType::E2m1, fp8(16), None),
        // No exponent whose numbers would overflow.
        (
            CodeType::E4m3,
            (Some((32, Dtype::F8_E8M0)), Some(0x7f)),
            None,
        ),
    ];
    for (codes, (blocks, largest), group) in formats {
        let format = QuantFormat {
            codes,
            blocks: blocks.map(|(columns, dtype)| BlockScales { columns, dtype }),
            group,
        };
        let bytes = (wave(&[TOKENS, 768 * codes.bits() as i64 / 8], 0.37, device) * 127.0)
            .to_kind(Kind::Int8);
        let bytes = match codes {
            CodeType::Int8 => bytes,
            // Not the byte that is no number.
            CodeType::E4m3 => bytes.clamp(0, 0x7e).view_dtype(Kind::Float8e4m3fn),
            _ => bytes.view_dtype(Kind::Uint8),
        };
        let blocks = blocks.map(|(columns, _)| {
            let factors = wave(&[TOKENS, 768 / columns as i64], 0.61, device).abs();
            match largest {
                Some(largest) => (factors * largest).to_kind(Kind::Uint8),
                None => factors,
            }
        });
        let rotation = group.map(|group| reference::rotation(group as i64, device));
        let rows = QuantRows {
            format,
            codes: &bytes,
            scales: &scales,
            blocks: blocks.as_ref(),
            table: (codes.bits() == 4).then_some(&table),
            rotation: rotation.as_ref(),
        };
        let expected = reference::expand_quant(&rows, kernels.kind()).to_kind(Kind::Float);
        let name = format!("expand_quant of {}", codes.label());
        same(&name, kernels.expand_quant(&rows), &expected)?;
    }
    Ok(())
}

/// Numbers between -1 and 1 that do not repeat.
pub(super) fn wave(size: &[i64], pace: f64, device: Device) -> Tensor {
    let count = size.iter().product::<i64>();
    let steps = Tensor::arange(count, (Kind::Float, device)) * pace;
    (steps.sin() * 0.6 + (&steps * 0.0137).cos() * 0.4).view(size)
}

/// A copy in f32: some definitions change what they are given.
fn wide(xs: &Tensor) -> Tensor {
    xs.to_dtype(Kind::Float, false, true)
}

fn fits<T>(kernel: &str, result: Option<T>) -> Result<T, KernelError> {
    result.ok_or_else(|| KernelError::Mismatch {
        kernel: kernel.to_owned(),
        off: f64::INFINITY,
    })
}

fn same(kernel: &str, result: Option<Tensor>, expected: &Tensor) -> Result<(), KernelError> {
    compare(kernel, &fits(kernel, result)?, expected)
}

/// Tolerance of a result: the rounding of its kind, fast functions and other orders of sums.
fn compare(kernel: &str, found: &Tensor, expected: &Tensor) -> Result<(), KernelError> {
    let (relative, absolute) = match found.kind() {
        Kind::BFloat16 => (1.0 / 256.0, 1e-4),
        Kind::Half => (1.0 / 2048.0, 1e-4),
        _ => (2e-5, 2e-5),
    };
    let limit = expected.abs() * relative + absolute;
    let off = (found.to_kind(Kind::Float) - expected).abs() / limit;
    let off = off.max().double_value(&[]);
    // NaN is not below the limit either.
    if off <= 1.0 {
        Ok(())
    } else {
        Err(KernelError::Mismatch {
            kernel: format!("{kernel} of {:?}", found.size()),
            off,
        })
    }
}
