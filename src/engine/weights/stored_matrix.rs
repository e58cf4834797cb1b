//! A matrix as its file stores it, on its device: it is expanded to numbers of the compute type when it is used.
//!
//! Plain numbers, fp8 with one scale, codes with scales, or GGUF's blocks; or all of these still in their file, from where they come for
//! each use. Knows neither files nor names (see [`Weights::matrix`](super::Weights::matrix)).

use std::rc::Rc;

use tch::{Device, Kind, Tensor};

use super::fp8;
use super::gguf::BlockMatrix;
use super::quant::QuantMatrix;
use super::stream::StreamedMatrix;

/// Numbers that are expanded at a time on the CPU: they stay in its caches until they have been used, in memory that
/// the allocator keeps.
const NUMBERS_PER_PIECE: i64 = 2 << 20;
/// With more rows on the other side the product itself is nearly all of the work, and fastest in one piece.
const MAX_ROWS_FOR_PIECES: i64 = 256;

/// `(rows, columns)` numbers in their storage.
#[derive(Debug)]
pub enum StoredMatrix {
    /// Already of the compute type.
    Plain(Tensor),
    /// Of a kind of eight bits, each number to be multiplied with the scale.
    Fp8 {
        numbers: Tensor,
        scale: f32,
    },
    Quant(QuantMatrix),
    Blocks(BlockMatrix),
    /// In its file, or on the device after all.
    Streamed(Rc<StreamedMatrix>),
}

impl StoredMatrix {
    pub(super) fn fp8(numbers: Tensor, scale: f32) -> Self {
        Self::Fp8 { numbers, scale }
    }

    pub fn rows(&self) -> i64 {
        match self {
            Self::Streamed(matrix) => matrix.rows(),
            Self::Blocks(matrix) => matrix.rows,
            Self::Quant(matrix) => matrix.codes.size()[0],
            Self::Plain(numbers) | Self::Fp8 { numbers, .. } => numbers.size()[0],
        }
    }

    pub fn columns(&self) -> i64 {
        match self {
            Self::Streamed(matrix) => matrix.columns(),
            Self::Blocks(matrix) => matrix.columns,
            Self::Quant(matrix) => matrix.columns(),
            Self::Plain(numbers) | Self::Fp8 { numbers, .. } => numbers.size()[1],
        }
    }

    pub fn device(&self) -> Device {
        match self {
            Self::Streamed(matrix) => matrix.device(),
            Self::Plain(numbers) | Self::Fp8 { numbers, .. } => numbers.device(),
            Self::Blocks(matrix) => matrix.bytes.device(),
            Self::Quant(matrix) => matrix.codes.device(),
        }
    }

    /// Bytes on its device while it is not in use.
    pub fn bytes(&self) -> u64 {
        let bytes = |numbers: &Tensor| numbers.numel() * numbers.kind().elt_size_in_bytes();
        match self {
            Self::Streamed(matrix) => matrix.resident_bytes(),
            Self::Plain(numbers) | Self::Fp8 { numbers, .. } => bytes(numbers) as u64,
            Self::Blocks(matrix) => bytes(&matrix.bytes) as u64,
            Self::Quant(matrix) => matrix.bytes(),
        }
    }

    /// All of it: `(rows, columns)` of `kind`. Never write to it: it may be what is stored. Of a matrix that streams it
    /// is there until another one is used.
    pub fn expand(&self, kind: Kind) -> Tensor {
        match self {
            Self::Streamed(matrix) => matrix.with(|it| it.expand(kind)),
            Self::Plain(numbers) if numbers.kind() == kind => numbers.shallow_clone(),
            Self::Plain(numbers) => numbers.to_kind(kind),
            Self::Fp8 { numbers, scale } => fp8::expand(numbers, *scale, kind),
            Self::Blocks(matrix) => matrix.expand(kind),
            Self::Quant(matrix) => matrix.expand(kind, Tensor::shallow_clone),
        }
    }

    /// Like `expand`, while the network is being built; valid as long as it is held.
    pub fn expand_early(&self, kind: Kind) -> Tensor {
        match self {
            Self::Streamed(matrix) => matrix.apart(|it| it.expand(kind)),
            _ => self.expand(kind),
        }
    }

    /// Some rows, `(count, columns)`, of `kind`; read-only and valid as long as `expand`'s result.
    pub fn expand_rows(&self, first: i64, count: i64, kind: Kind) -> Tensor {
        match self {
            Self::Streamed(matrix) => matrix.with(|it| it.expand_rows(first, count, kind)),
            Self::Plain(numbers) => numbers.narrow(0, first, count).to_kind(kind),
            Self::Fp8 { numbers, scale } => {
                fp8::expand(&numbers.narrow(0, first, count), *scale, kind)
            }
            Self::Blocks(matrix) => matrix.expand_rows(first, count, kind),
            Self::Quant(matrix) => matrix.expand(kind, |all| all.narrow(0, first, count)),
        }
    }

    /// Number of rows to dequantize at a time for a product with `others` rows in `kind`; all of them on a GPU.
    pub fn rows_per_piece(&self, others: i64, kind: Kind) -> i64 {
        let is_ready = match self {
            Self::Plain(numbers) => numbers.kind() == kind,
            Self::Fp8 { .. } | Self::Quant(_) => false,
            Self::Blocks(matrix) => !matrix.has_whole_rows(),
            Self::Streamed(matrix) => matrix.needs_no_expansion(kind),
        };
        let rows = self.rows().max(1);
        if is_ready || others > MAX_ROWS_FOR_PIECES || self.device() != Device::Cpu {
            return rows;
        }
        (NUMBERS_PER_PIECE / self.columns().max(1)).clamp(1, rows)
    }

    /// The rows at `ids`, integers of any shape, and only those -> `(.., columns)` of `kind`
    pub fn look_up(&self, ids: &Tensor, kind: Kind) -> Tensor {
        let mut size = ids.size();
        size.push(self.columns());
        let rows = |numbers: &Tensor| numbers.index_select(0, &ids.flatten(0, -1));
        let found = match self {
            Self::Plain(numbers) => rows(numbers).to_kind(kind),
            Self::Fp8 { numbers, scale } => {
                // Bytes can be picked on every device.
                let found = rows(&numbers.view_dtype(Kind::Uint8));
                fp8::expand(&found.view_dtype(numbers.kind()), *scale, kind)
            }
            Self::Blocks(matrix) => matrix.look_up(&ids.flatten(0, -1), kind),
            Self::Quant(matrix) => matrix.expand(kind, rows),
            Self::Streamed(matrix) => matrix.look_up(&ids.flatten(0, -1), kind),
        };
        found.view(&size[..])
    }

    /// One below the other, where all are stored alike; copies them, but for those that are in their files.
    pub fn stack(parts: &[&Self]) -> Option<Self> {
        let (first, others) = parts.split_first()?;
        if !others.iter().all(|other| other.is_stored_as(first)) {
            return None;
        }
        // Bytes can be joined on every device.
        let joined = |like: &Tensor| {
            let numbers = parts.iter().filter_map(|part| part.as_numbers());
            let bytes = numbers.map(|numbers| numbers.view_dtype(Kind::Uint8));
            Tensor::cat(&bytes.collect::<Vec<_>>(), 0).view_dtype(like.kind())
        };
        Some(match first {
            Self::Plain(numbers) => Self::Plain(joined(numbers)),
            Self::Fp8 { numbers, scale } => Self::fp8(joined(numbers), *scale),
            Self::Blocks(_) => {
                let matrices = parts.iter().filter_map(|part| match part {
                    Self::Blocks(matrix) => Some(matrix),
                    _ => None,
                });
                Self::Blocks(BlockMatrix::stack(&matrices.collect::<Vec<_>>())?)
            }
            Self::Quant(_) => {
                let matrices = parts.iter().filter_map(|part| match part {
                    Self::Quant(matrix) => Some(matrix),
                    _ => None,
                });
                Self::Quant(QuantMatrix::stack(&matrices.collect::<Vec<_>>())?)
            }
            Self::Streamed(_) => {
                let matrices = parts.iter().filter_map(|part| match part {
                    Self::Streamed(matrix) => Some(matrix),
                    _ => None,
                });
                Self::Streamed(StreamedMatrix::stack(&matrices.collect::<Vec<_>>())?)
            }
        })
    }

    fn is_stored_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Plain(a), Self::Plain(b)) => a.kind() == b.kind(),
            (
                Self::Fp8 { numbers, scale },
                Self::Fp8 {
                    numbers: others,
                    scale: of_others,
                },
            ) => numbers.kind() == others.kind() && scale.to_bits() == of_others.to_bits(),
            // The matrices check that their types agree.
            (Self::Blocks(_), Self::Blocks(_))
            | (Self::Quant(_), Self::Quant(_))
            | (Self::Streamed(_), Self::Streamed(_)) => true,
            _ => false,
        }
    }

    fn as_numbers(&self) -> Option<&Tensor> {
        match self {
            Self::Plain(numbers) | Self::Fp8 { numbers, .. } => Some(numbers),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::mapped_bytes;
    use crate::weights::tests::made_up::write;
    use crate::weights::{Weights, WeightsError};

    fn numbers(rows: i64, columns: i64, kind: Kind) -> Tensor {
        let flat = Tensor::arange(rows * columns, (Kind::Float, Device::Cpu)).sin();
        flat.view([rows, columns]).to_kind(kind)
    }

    fn written(tensors: &[(&str, &Tensor)]) -> (tempfile::TempDir, Weights) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        write(&path, tensors, &[]);
        let weights = Weights::open(&path, Kind::Float, Device::Cpu);
        (folder, weights.unwrap())
    }

    #[test]
    fn a_matrix_of_fp8_stays_as_small_as_its_file_has_it() {
        for kind in [Kind::Float8e4m3fn, Kind::Float8e5m2] {
            let stored = numbers(6, 8, kind);
            let (_folder, weights) = written(&[("a.weight", &stored)]);
            let mapped = mapped_bytes();
            let matrix = weights.matrix("a.weight", [6, 8]).unwrap();
            assert_eq!(matrix.rows(), 6);
            assert_eq!(matrix.columns(), 8);
            assert_eq!(matrix.bytes(), 48);
            let exact = stored.to_kind(Kind::Float);
            assert!(matrix.expand(Kind::Float).equal(&exact));
            let half = matrix.expand(Kind::BFloat16);
            assert!(half.equal(&exact.to_kind(Kind::BFloat16)));
            let tensor = weights.tensor("a.weight", &[6, 8]).unwrap();
            assert!(tensor.equal(&exact) && weights.finish().is_empty());
            assert!(weights.matrix("a.weight", [8, 6]).is_err());
            assert!(mapped > 0 && mapped_bytes() > 0);
        }
    }

    #[test]
    fn weight_scale_is_applied_under_each_of_its_key_names() {
        let one = |value: f64, kind| Tensor::from(value).to_kind(kind);
        let scale = one(0.375, Kind::Float);
        let ignored = one(2.0, Kind::Float);
        let marker = Tensor::zeros([2], (Kind::Float8e4m3fn, Device::Cpu));
        let json = Tensor::from_slice(br#"{"format": "float8_e4m3fn"}"#);
        for kind in [Kind::Float8e4m3fn, Kind::Float8e5m2, Kind::BFloat16] {
            let stored = numbers(6, 8, kind);
            let legacy = [
                ("t.a.weight", &stored),
                ("t.a.scale_weight", &scale),
                ("t.a.scale_input", &ignored),
                ("t.scaled_fp8", &marker),
            ];
            let new = [
                ("t.a.weight", &stored),
                ("t.a.weight_scale", &scale),
                ("t.a.input_scale", &ignored),
                ("t.a.comfy_quant", &json),
            ];
            for tensors in [legacy, new] {
                let (_folder, weights) = written(&tensors);
                let matrix = (&weights / "t" / "a").matrix("weight", [6, 8]).unwrap();
                let exact = stored.to_kind(Kind::Float) * 0.375;
                assert!(matrix.expand(Kind::Float).equal(&exact), "{kind:?}");
                assert!(weights.finish().is_empty(), "{:?}", weights.finish());
                let whole = weights.tensor("t.a.weight", &[6, 8]).unwrap();
                assert!(whole.equal(&exact));
            }
        }
    }

    #[test]
    fn a_scale_that_is_none_and_one_of_nothing_are_noticed() {
        let stored = numbers(6, 8, Kind::Float8e4m3fn);
        let many = Tensor::ones([6], (Kind::Float, Device::Cpu));
        let nan = Tensor::from(f32::NAN);
        let whole = Tensor::from(3_i64);
        for wrong in [&many, &nan, &whole] {
            let (_folder, weights) = written(&[("a.weight", &stored), ("a.scale_weight", wrong)]);
            let err = weights.matrix("a.weight", [6, 8]).unwrap_err();
            assert!(matches!(err, WeightsError::Scale { .. }), "{err}");
            assert!(err.to_string().contains("'a.scale_weight'"), "{err}");
        }
        // Whole numbers with a scale are of another format.
        let small = stored.to_kind(Kind::Float).to_kind(Kind::Int8);
        let scale = Tensor::from(0.5_f32);
        let (_folder, weights) = written(&[("a.weight", &small), ("a.weight_scale", &scale)]);
        assert!(weights.matrix("a.weight", [6, 8]).is_err());
        let (_folder, weights) = written(&[("a.weight", &stored), ("b.scale_weight", &scale)]);
        assert!(weights.matrix("a.weight", [6, 8]).is_ok());
        assert_eq!(weights.finish(), ["b.scale_weight"]);
    }

    #[test]
    fn rows_are_looked_up_without_the_others() {
        let ids = Tensor::from_slice(&[5_i64, 0, 5, 3]).view([2, 2]);
        let stored = numbers(6, 8, Kind::Float8e4m3fn);
        let exact = stored.to_kind(Kind::Float);
        let expected = Tensor::embedding(&exact, &ids, -1, false, false);
        let narrow = StoredMatrix::fp8(stored, 0.5);
        assert!(narrow.look_up(&ids, Kind::Float).equal(&(&expected * 0.5)));
        let plain = StoredMatrix::Plain(exact);
        assert!(plain.look_up(&ids, Kind::Float).equal(&expected));
        assert_eq!(plain.look_up(&ids, Kind::Half).size(), [2, 2, 8]);
    }

    #[test]
    fn matrices_are_stacked_only_where_they_are_stored_alike() {
        let stored = numbers(6, 8, Kind::Float8e4m3fn);
        let alike = [(0, 2), (2, 4)].map(|(start, len)| {
            let rows = stored.view_dtype(Kind::Uint8).narrow(0, start, len);
            StoredMatrix::fp8(rows.view_dtype(stored.kind()), 0.25)
        });
        let whole = StoredMatrix::stack(&[&alike[0], &alike[1]]).unwrap();
        assert_eq!(whole.bytes(), 48);
        let expected = stored.to_kind(Kind::Float) * 0.25;
        assert!(whole.expand(Kind::Float).equal(&expected));
        let plain = StoredMatrix::Plain(numbers(6, 8, Kind::Float));
        let two = StoredMatrix::stack(&[&plain, &plain]).unwrap();
        assert_eq!((two.rows(), two.bytes()), (12, 384));
        let other_scale = StoredMatrix::fp8(stored.shallow_clone(), 0.5);
        let other_kind = StoredMatrix::fp8(numbers(6, 8, Kind::Float8e5m2), 0.25);
        for other in [&other_scale, &other_kind, &plain] {
            assert!(StoredMatrix::stack(&[&alike[0], other]).is_none());
        }
        assert!(StoredMatrix::stack(&[]).is_none());
    }
}
