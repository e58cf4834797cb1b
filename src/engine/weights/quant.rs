//! Quantized matrices in their storage: codes, scales of rows and blocks, and rotation, dequantized for each use.
//!
//! [`kernels::expand_quant`] dequantizes. `scales` reads what is next to a matrix.

use safelight_core::formats::weights::quant::{BlockScales, CodeType, QuantFormat};
use safetensors::Dtype;
use tch::{Kind, Tensor};

use crate::kernels::{self, QuantRows};

/// Tensors stored next to the codes of a matrix.
#[derive(Debug)]
pub(super) struct QuantSide {
    /// `(rows, 1)` in f32
    pub(super) scales: Tensor,
    /// `(rows, blocks)`: bytes, or f32
    pub(super) blocks: Option<Tensor>,
    /// Values of 4-bit codes, `(16)` in f32
    pub(super) table: Option<Tensor>,
    /// Result of [`kernels::reference::rotation`], if the columns are rotated.
    pub(super) rotation: Option<Tensor>,
    /// Factors of the columns, `(columns)` in f32
    pub(super) columns: Option<Tensor>,
}

/// `(rows, columns)` numbers.
#[derive(Debug)]
pub struct QuantMatrix {
    pub(super) format: QuantFormat,
    /// `(rows, bytes of a row)`
    pub(super) codes: Tensor,
    pub(super) side: QuantSide,
}

/// Kind of the bytes of codes on a device.
pub(super) fn code_kind(codes: CodeType) -> Kind {
    match codes {
        CodeType::Int8 => Kind::Int8,
        CodeType::E4m3 => Kind::Float8e4m3fn,
        CodeType::Int4 | CodeType::Index4 | CodeType::E2m1 => Kind::Uint8,
    }
}

/// Block scales of `rows` rows: `bytes`: flat, as in the file -> `(rows, blocks)`
pub(super) fn block_scales(
    bytes: &Tensor,
    format: QuantFormat,
    blocks: BlockScales,
    [rows, columns]: [i64; 2],
) -> Tensor {
    let count = columns / blocks.columns as i64;
    if format.codes.has_tiled_scales() {
        // Tiles of 128 rows and 4 blocks: row 32 q + r of a tile is the q-th four of line r.
        let (down, across) = ((rows + 127) / 128, (count + 3) / 4);
        let tiles = bytes.view([down, across, 32, 4, 4]);
        let whole = tiles.permute([0, 3, 2, 1, 4]);
        let whole = whole.reshape([down * 128, across * 4]);
        return whole.narrow(0, 0, rows).narrow(1, 0, count).contiguous();
    }
    if blocks.dtype == Dtype::F32 {
        // A copy begins where f32 may.
        return bytes.copy().view_dtype(Kind::Float).view([rows, count]);
    }
    bytes.view([rows, count])
}

impl QuantSide {
    pub(super) fn with_blocks(&self, blocks: Option<Tensor>) -> Self {
        let shared = |tensor: &Option<Tensor>| tensor.as_ref().map(Tensor::shallow_clone);
        Self {
            scales: self.scales.shallow_clone(),
            blocks,
            table: shared(&self.table),
            rotation: shared(&self.rotation),
            columns: shared(&self.columns),
        }
    }

    /// Returns true if rows of both can form one matrix.
    pub(super) fn stacks_with(&self, other: &Self) -> bool {
        let is_equal = |a: &Option<Tensor>, b: &Option<Tensor>| match (a, b) {
            (Some(a), Some(b)) => a.equal(b),
            (None, None) => true,
            _ => false,
        };
        is_equal(&self.table, &other.table) && is_equal(&self.columns, &other.columns)
    }

    /// Of rows one below the other, which [stack](Self::stacks_with).
    fn stack(sides: &[&Self]) -> Option<Self> {
        let first = sides.first()?;
        let scales: Vec<&Tensor> = sides.iter().map(|side| &side.scales).collect();
        let blocks: Vec<&Tensor> = sides.iter().filter_map(|it| it.blocks.as_ref()).collect();
        let blocks = (!blocks.is_empty()).then(|| Tensor::cat(&blocks, 0));
        Some(Self {
            scales: Tensor::cat(&scales, 0),
            ..first.with_blocks(blocks)
        })
    }
}

impl QuantMatrix {
    /// `numbers`: flat codes of `code_kind`; `sides`: in the order of their rows
    pub(super) fn new(
        format: QuantFormat,
        numbers: &Tensor,
        [rows, columns]: [i64; 2],
        sides: &[&QuantSide],
    ) -> Option<Self> {
        Some(Self {
            format,
            codes: numbers.view([rows, columns * format.codes.bits() as i64 / 8]),
            side: QuantSide::stack(sides)?,
        })
    }

    pub(super) fn columns(&self) -> i64 {
        self.codes.size()[1] * 8 / self.format.codes.bits() as i64
    }

    /// On its device, the scales included; what rotates is its network's.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |tensor: &Tensor| tensor.numel() * tensor.kind().elt_size_in_bytes();
        let blocks = self.side.blocks.as_ref().map_or(0, bytes);
        (bytes(&self.codes) + bytes(&self.side.scales) + blocks) as u64
    }

    /// Some of its rows, or all of them, as `kind`; `some`: takes these rows of bytes or f32.
    pub(super) fn expand(&self, kind: Kind, some: impl Fn(&Tensor) -> Tensor) -> Tensor {
        // Bytes can be picked on every device.
        let codes = some(&self.codes.view_dtype(Kind::Uint8)).view_dtype(self.codes.kind());
        let scales = some(&self.side.scales);
        let blocks = self.side.blocks.as_ref().map(some);
        let rows = QuantRows {
            format: self.format,
            codes: &codes,
            scales: &scales,
            blocks: blocks.as_ref(),
            table: self.side.table.as_ref(),
            rotation: self.side.rotation.as_ref(),
        };
        match &self.side.columns {
            Some(factors) => (kernels::expand_quant(&rows, Kind::Float) * factors).to_kind(kind),
            None => kernels::expand_quant(&rows, kind),
        }
    }

    /// One below the other, where all are stored alike.
    pub(super) fn stack(matrices: &[&Self]) -> Option<Self> {
        let first = matrices.first()?;
        let is_alike = |it: &&Self| {
            it.format == first.format
                && it.codes.size()[1] == first.codes.size()[1]
                && it.side.stacks_with(&first.side)
        };
        if !matrices.iter().all(is_alike) {
            return None;
        }
        let codes = matrices.iter().map(|it| it.codes.view_dtype(Kind::Uint8));
        let codes = Tensor::cat(&codes.collect::<Vec<_>>(), 0);
        Some(Self {
            format: first.format,
            codes: codes.view_dtype(first.codes.kind()),
            side: QuantSide::stack(&matrices.iter().map(|it| &it.side).collect::<Vec<_>>())?,
        })
    }
}
