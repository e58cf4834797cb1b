//! Parameters of the passes in addition to their tensors: modulations, gates and the norm that follows.
//!
//! Plain descriptions; nothing is computed here.

use safelight_core::formats::weights::quant::QuantFormat;
use tch::{Kind, Tensor};

/// Vectors of channels that hold for ranges of tokens.
#[derive(Clone, Copy)]
pub struct TokenRows<'a> {
    /// `(U, n, C)`: `n` vectors for each of `U` ranges
    pub values: &'a Tensor,
    /// Start and length of each of the `U` ranges; together, in order, they are all tokens.
    pub ranges: &'a [(i64, i64)],
}

impl TokenRows<'_> {
    /// Vector `n` of range `u`: `(C)` in f32
    pub(super) fn row(&self, u: usize, n: i64) -> Tensor {
        self.values.get(u as i64).get(n).to_kind(Kind::Float)
    }
}

/// Rows of a quantized matrix of `R` rows and `C` columns.
#[derive(Clone, Copy)]
pub struct QuantRows<'a> {
    pub format: QuantFormat,
    /// `(R, bytes of a row)`
    pub codes: &'a Tensor,
    /// `(R, 1)` in f32
    pub scales: &'a Tensor,
    /// `(R, blocks)`: bytes, or f32
    pub blocks: Option<&'a Tensor>,
    /// Values of 4-bit codes, `(16)` in f32
    pub table: Option<&'a Tensor>,
    /// Result of [`rotation`](super::reference::rotation), if the columns are rotated.
    pub rotation: Option<&'a Tensor>,
}

/// A factor for each channel and token: vector `index` of `rows`.
#[derive(Clone, Copy)]
pub struct GateArgs<'a> {
    pub rows: TokenRows<'a>,
    pub index: i64,
}

/// Function of each element, for some with the matching element of another tensor.
#[derive(Clone, Copy)]
pub(super) enum ElementActivation<'a> {
    GeluTanh,
    Silu,
    SiluTimes(&'a Tensor),
    TimesSigmoid(&'a Tensor),
    GeluTimes(&'a Tensor),
}

impl<'a> ElementActivation<'a> {
    pub(super) fn beside(self) -> Option<&'a Tensor> {
        match self {
            Self::GeluTanh | Self::Silu => None,
            Self::SiluTimes(ys) | Self::TimesSigmoid(ys) | Self::GeluTimes(ys) => Some(ys),
        }
    }

    /// In the source's list.
    pub(super) fn number(self) -> i32 {
        match self {
            Self::GeluTanh => 0,
            Self::Silu => 1,
            Self::SiluTimes(_) => 2,
            Self::TimesSigmoid(_) => 3,
            Self::GeluTimes(_) => 4,
        }
    }
}

/// Elements of a head that RoPE rotates together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairing {
    /// Those side by side.
    Neighbours,
    /// Those half a head apart.
    Halves,
}

/// Affine part after mean and deviation of a layer norm.
#[derive(Clone, Copy)]
pub enum FusedNorm<'a> {
    Plain,
    /// `* weight + bias`, both `(C)`
    Affine {
        weight: &'a Tensor,
        bias: &'a Tensor,
    },
    /// `* (1 + scale) + shift`: two vectors of `rows`
    Modulated {
        rows: TokenRows<'a>,
        shift: i64,
        scale: i64,
    },
}

impl<'a> FusedNorm<'a> {
    /// With the vectors `first` and `first + 1` as shift and scale.
    pub fn modulated(rows: TokenRows<'a>, first: i64) -> Self {
        Self::Modulated {
            rows,
            shift: first,
            scale: first + 1,
        }
    }
}
