//! A matrix that may stream: its location in the files, its storage format, and its current location.
//!
//! `mod.rs` decides which matrices stay and which are fetched when.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use safelight_core::formats::weights::gguf::BlockType;
use safelight_core::formats::weights::quant::QuantFormat;
use tch::{Device, Kind, Tensor};

use super::residency::ResidencyCandidate;
use super::{PendingTransfer, WeightStreamer, give_up};
use crate::weights::copy_stream::StagingError;
use crate::weights::gguf::BlockMatrix;
use crate::weights::mapping::FileMapping;
use crate::weights::quant::{QuantMatrix, QuantSide, block_scales, code_kind};
use crate::weights::stored_matrix::StoredMatrix;
use crate::weights::{Weights, WeightsError};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::weights) enum MatrixFormat {
    /// Of one kind, which becomes another, times a scale.
    Plain {
        stored: Kind,
        kind: Kind,
        scale: Option<f32>,
    },
    /// Of eight bits, and as such to the product.
    Fp8 {
        stored: Kind,
        scale: f32,
    },
    Quant(QuantFormat),
    Blocks(BlockType),
}

/// Bytes of a file.
#[derive(Clone)]
pub(in crate::weights) struct MatrixSource {
    pub(in crate::weights) file: Arc<File>,
    pub(in crate::weights) mapping: Option<Arc<FileMapping>>,
    pub(in crate::weights) path: PathBuf,
    pub(in crate::weights) start: u64,
    pub(in crate::weights) len: usize,
}

/// Bytes of a matrix, and what is stored next to them.
#[derive(Clone)]
pub(in crate::weights) struct StoredSource {
    pub(in crate::weights) codes: MatrixSource,
    /// Of quantized matrices, which also have `side`.
    pub(in crate::weights) blocks: Option<MatrixSource>,
    pub(in crate::weights) side: Option<Rc<QuantSide>>,
}

/// Rows of a matrix that one tensor of a file has.
#[derive(Clone)]
pub(super) struct MatrixPart {
    source: StoredSource,
    form: MatrixFormat,
    rows: i64,
}

/// Byte ranges of all parts in the order in which they are fetched: those of codes, then those of block scales.
pub(super) fn sources_of(parts: &[MatrixPart]) -> impl Iterator<Item = &MatrixSource> {
    let codes = parts.iter().map(|part| &part.source.codes);
    codes.chain(parts.iter().filter_map(|part| part.source.blocks.as_ref()))
}

/// Location of a matrix once that is decided.
pub(super) enum Residency {
    Resident(StoredMatrix),
    /// In its file, and by this number in the stream's window.
    Window(usize),
}

/// `(rows, columns)` numbers in a file.
pub struct StreamedMatrix {
    stream: Rc<WeightStreamer>,
    key: String,
    parts: Rc<Vec<MatrixPart>>,
    columns: i64,
    is_seldom: bool,
    home: OnceCell<Residency>,
}

impl MatrixFormat {
    /// Stored dtype of the file's bytes.
    pub(in crate::weights) fn stored(self) -> Kind {
        match self {
            Self::Plain { stored, .. } | Self::Fp8 { stored, .. } => stored,
            Self::Quant(format) => code_kind(format.codes),
            Self::Blocks(_) => Kind::Uint8,
        }
    }

    /// Matrix as a resident load would give it, bit for bit. `numbers`: flat, of the [stored](Self::stored_matrix) kind,
    /// `rows` × `columns`; `sides`: scales and other tensors, in the order of their rows
    pub(in crate::weights) fn matrix(
        self,
        numbers: &Tensor,
        [rows, columns]: [i64; 2],
        sides: &[&QuantSide],
    ) -> StoredMatrix {
        let shaped = || numbers.view([rows, columns]);
        match self {
            Self::Quant(format) => {
                let matrix = QuantMatrix::new(format, numbers, [rows, columns], sides);
                StoredMatrix::Quant(matrix.expect("quantized matrices have scales"))
            }
            Self::Plain {
                kind, scale: None, ..
            } => StoredMatrix::Plain(shaped().to_kind(kind)),
            Self::Plain {
                kind,
                scale: Some(scale),
                ..
            } => {
                let exact = shaped().to_kind(Kind::Float);
                StoredMatrix::Plain((exact * f64::from(scale)).to_kind(kind))
            }
            Self::Fp8 { scale, .. } => StoredMatrix::fp8(shaped(), scale),
            Self::Blocks(block) => {
                StoredMatrix::Blocks(BlockMatrix::new(numbers, block, [rows, columns]))
            }
        }
    }

    /// Side of a part with its block scales, `bytes` of the file.
    pub(in crate::weights) fn with_blocks(
        self,
        side: &QuantSide,
        bytes: Option<&Tensor>,
        size: [i64; 2],
    ) -> QuantSide {
        let blocks = match (self, bytes) {
            (Self::Quant(format), Some(bytes)) => format
                .blocks
                .map(|blocks| block_scales(bytes, format, blocks, size)),
            _ => None,
        };
        side.with_blocks(blocks)
    }

    /// Returns whether every row of `columns` numbers begins with a block, where there are blocks.
    fn has_whole_rows(self, columns: i64) -> bool {
        !matches!(self, Self::Blocks(block) if columns % block.block_len() as i64 != 0)
    }

    /// Returns whether rows of both can form one matrix.
    fn stacks_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Plain { kind, .. }, Self::Plain { kind: others, .. }) => kind == others,
            _ => self == other,
        }
    }
}

impl MatrixPart {
    /// `numbers`: flat, those of the part; `blocks`: bytes of its block scales
    fn matrix(&self, numbers: &Tensor, blocks: Option<&Tensor>, columns: i64) -> StoredMatrix {
        let side = self.side(blocks, columns);
        let sides: Vec<&QuantSide> = side.iter().collect();
        self.form.matrix(numbers, [self.rows, columns], &sides)
    }

    fn side(&self, blocks: Option<&Tensor>, columns: i64) -> Option<QuantSide> {
        let side = self.source.side.as_deref()?;
        Some(self.form.with_blocks(side, blocks, [self.rows, columns]))
    }

    fn stacks_with(&self, other: &Self) -> bool {
        let has_equal_sides = match (&self.source.side, &other.source.side) {
            (Some(own), Some(others)) => own.stacks_with(others),
            _ => true,
        };
        self.form.stacks_with(other.form) && has_equal_sides
    }
}

impl StreamedMatrix {
    /// One that stays in its file as long as `stream` does not know of it.
    pub(in crate::weights) fn new(
        w: &Weights,
        stream: &Rc<WeightStreamer>,
        key: String,
        (source, form): (StoredSource, MatrixFormat),
        [rows, columns]: [i64; 2],
    ) -> Rc<Self> {
        Rc::new(Self {
            stream: Rc::clone(stream),
            key,
            parts: Rc::new(vec![MatrixPart { source, form, rows }]),
            columns,
            is_seldom: w.is_seldom,
            home: OnceCell::new(),
        })
    }

    /// One below the other, where all are stored alike.
    pub(in crate::weights) fn stack(matrices: &[&Rc<Self>]) -> Option<Rc<Self>> {
        let (first, others) = matrices.split_first()?;
        let part = first.parts.first()?;
        let is_alike = |other: &&Rc<Self>| {
            let forms = other.parts.iter().all(|other| other.stacks_with(part));
            forms && other.columns == first.columns
        };
        if !part.form.has_whole_rows(first.columns) || !others.iter().all(is_alike) {
            return None;
        }
        let parts = matrices.iter().flat_map(|it| it.parts.iter().cloned());
        let stacked = Rc::new(Self {
            stream: Rc::clone(&first.stream),
            key: first.key.clone(),
            parts: Rc::new(parts.collect()),
            columns: first.columns,
            is_seldom: first.is_seldom,
            home: OnceCell::new(),
        });
        first.stream.know(&stacked);
        Some(stacked)
    }

    pub(in crate::weights) fn rows(&self) -> i64 {
        self.parts.iter().map(|part| part.rows).sum()
    }

    pub(in crate::weights) fn columns(&self) -> i64 {
        self.columns
    }

    pub(in crate::weights) fn device(&self) -> Device {
        self.stream.device
    }

    /// Returns whether a product takes the stored format directly.
    pub(in crate::weights) fn needs_no_expansion(&self, kind: Kind) -> bool {
        self.parts.iter().all(|part| match part.form {
            MatrixFormat::Plain { kind: own, .. } => own == kind,
            MatrixFormat::Fp8 { .. } | MatrixFormat::Quant(_) => false,
            MatrixFormat::Blocks(_) => !part.form.has_whole_rows(self.columns),
        })
    }

    /// Bytes on the device while not in use.
    pub(in crate::weights) fn resident_bytes(&self) -> u64 {
        match self.home.get() {
            Some(Residency::Resident(matrix)) => matrix.bytes(),
            _ => 0,
        }
    }

    /// Calls with the matrix on its device, which is there until another one is used; unwinds where it cannot be
    /// brought there.
    pub(in crate::weights) fn with<T>(&self, call: impl FnOnce(&StoredMatrix) -> T) -> T {
        if self.home.get().is_none() {
            self.stream.settle().unwrap_or_else(|err| give_up(err));
        }
        match self.home.get() {
            Some(Residency::Resident(matrix)) => call(matrix),
            Some(&Residency::Window(index)) => {
                let bytes = self.stream.fetch(index);
                let bytes = bytes.unwrap_or_else(|err| give_up(self.failed(err)));
                call(&self.matrix(&bytes))
            }
            None => self.apart(call),
        }
    }

    /// Like `with`, read for this call only and without deciding residency: while the network is built.
    pub(in crate::weights) fn apart<T>(&self, call: impl FnOnce(&StoredMatrix) -> T) -> T {
        let read = self.begin().and_then(|coming| self.finish(&coming));
        call(&read.unwrap_or_else(|err| give_up(err)))
    }

    /// The rows at `ids`, flat -> `(N, columns)` of `kind`. Where the matrix is not on the device, only they are read.
    pub(in crate::weights) fn look_up(&self, ids: &Tensor, kind: Kind) -> Tensor {
        if let Some(Residency::Resident(matrix)) = self.home.get() {
            return matrix.look_up(ids, kind);
        }
        match self.some_rows(ids) {
            Ok(Some((rows, ids))) => rows.look_up(&ids, kind),
            Ok(None) => self.apart(|matrix| matrix.look_up(ids, kind)),
            Err(err) => give_up(err),
        }
    }

    /// The rows that `ids` name, each once, and what names them there; `None` where they cannot be read by themselves.
    fn some_rows(&self, ids: &Tensor) -> Result<Option<(StoredMatrix, Tensor)>, WeightsError> {
        let [part] = &self.parts[..] else {
            return Ok(None);
        };
        let (source, form, rows) = (&part.source.codes, part.form, part.rows as usize);
        let has_whole_rows = match form {
            MatrixFormat::Blocks(_) => form.has_whole_rows(self.columns),
            // Each row has separate scales.
            MatrixFormat::Quant(_) => false,
            _ => source.len % rows.max(1) == 0,
        };
        if rows == 0 || !has_whole_rows {
            return Ok(None);
        }
        let wanted: Vec<i64> =
            Vec::try_from(ids.to_kind(Kind::Int64)).map_err(|err| self.torch(err))?;
        let mut places: BTreeMap<usize, i64> = BTreeMap::new();
        for &id in &wanted {
            match usize::try_from(id) {
                Ok(id) if id < rows => places.insert(id, 0),
                _ => return Ok(None),
            };
        }
        let len = source.len / rows;
        let mut bytes = vec![0; len * places.len()];
        for (place, (row, number)) in places.iter_mut().enumerate() {
            *number = place as i64;
            let start = source.start + (*row * len) as u64;
            let read = source
                .file
                .read_exact_at(&mut bytes[place * len..][..len], start);
            read.map_err(|err| self.failed(err.into()))?;
        }
        let count = places.len() as i64;
        let bytes = Tensor::from_slice(&bytes).to_device(self.device());
        let numbers = bytes.view_dtype(form.stored());
        let ids: Vec<i64> = wanted.iter().map(|id| places[&(*id as usize)]).collect();
        let ids = Tensor::from_slice(&ids).to_device(self.device());
        let rows = form.matrix(&numbers, [count, self.columns], &[]);
        Ok(Some((rows, ids)))
    }

    /// `bytes`: of [`sources_of`] all parts, concatenated.
    fn matrix(&self, bytes: &Tensor) -> StoredMatrix {
        let first = self.parts[0].form;
        if self.parts.iter().all(|part| part.form == first) {
            let mut place = self
                .parts
                .iter()
                .map(|part| part.source.codes.len)
                .sum::<usize>() as i64;
            let numbers = bytes.narrow(0, 0, place).view_dtype(first.stored());
            let sides = self.parts.iter().filter_map(|part| {
                let blocks = part.source.blocks.as_ref().map(|source| {
                    let blocks = bytes.narrow(0, place, source.len as i64);
                    place += source.len as i64;
                    blocks
                });
                part.side(blocks.as_ref(), self.columns)
            });
            let sides: Vec<QuantSide> = sides.collect();
            let sides: Vec<&QuantSide> = sides.iter().collect();
            return first.matrix(&numbers, [self.rows(), self.columns], &sides);
        }
        let mut place = 0;
        let all = self.parts.iter().map(|part| {
            let len = part.source.codes.len as i64;
            let numbers = bytes.narrow(0, place, len).view_dtype(part.form.stored());
            place += len;
            part.matrix(&numbers, None, self.columns)
        });
        let all: Vec<StoredMatrix> = all.collect();
        StoredMatrix::stack(&all.iter().collect::<Vec<_>>())
            .expect("only what stacks was made one matrix")
    }

    /// Starts reading into separate memory.
    pub(super) fn begin(&self) -> Result<PendingTransfer, WeightsError> {
        let bytes = Tensor::f_empty([self.len() as i64], (Kind::Uint8, self.device()));
        let bytes = bytes.map_err(|err| self.torch(err))?;
        PendingTransfer::begin(0, &self.parts, bytes).map_err(|err| self.failed(err))
    }

    pub(super) fn finish(&self, coming: &PendingTransfer) -> Result<StoredMatrix, WeightsError> {
        coming.wait().map_err(|err| self.failed(err))?;
        Ok(self.matrix(&coming.bytes))
    }

    /// On the CPU the file itself is what stays.
    pub(super) fn mapped(&self) -> Result<Option<StoredMatrix>, WeightsError> {
        let [part] = &self.parts[..] else {
            return Ok(None);
        };
        let mapped = |source: &MatrixSource, kind: Kind| {
            let mapping = source.mapping.as_ref()?;
            let count = source.len / kind.elt_size_in_bytes();
            let numbers = mapping.tensor(source.start as usize, &[count as i64], kind);
            Some(numbers.map_err(|err| self.torch(err)))
        };
        let numbers = mapped(&part.source.codes, part.form.stored()).transpose()?;
        let blocks = part.source.blocks.as_ref();
        let blocks = blocks.and_then(|source| mapped(source, Kind::Uint8));
        let blocks = blocks.transpose()?;
        Ok(numbers.map(|numbers| part.matrix(&numbers, blocks.as_ref(), self.columns)))
    }

    pub(super) fn settle(&self, home: Residency) {
        self.home.set(home).ok(); // It is settled once.
    }

    pub(super) fn parts(&self) -> Rc<Vec<MatrixPart>> {
        Rc::clone(&self.parts)
    }

    /// In its files.
    pub(super) fn len(&self) -> usize {
        sources_of(&self.parts).map(|source| source.len).sum()
    }

    pub(super) fn candidate(&self) -> ResidencyCandidate {
        let width = |part: &MatrixPart| match part.form {
            MatrixFormat::Plain { kind, .. } => {
                part.rows * self.columns * kind.elt_size_in_bytes() as i64
            }
            MatrixFormat::Fp8 { .. } | MatrixFormat::Quant(_) | MatrixFormat::Blocks(_) => {
                let blocks = part.source.blocks.as_ref().map_or(0, |source| source.len);
                (part.source.codes.len + blocks) as i64
            }
        };
        ResidencyCandidate {
            bytes: self.parts.iter().map(width).sum::<i64>() as u64,
            is_seldom: self.is_seldom,
        }
    }

    pub(super) fn failed(&self, err: StagingError) -> WeightsError {
        let err = match err {
            StagingError::Io(err) if err.kind() == ErrorKind::UnexpectedEof => {
                io::Error::new(err.kind(), "the file is shorter than it was").into()
            }
            err => err,
        };
        err.of(&self.key, &self.parts[0].source.codes.path)
    }

    fn torch(&self, source: tch::TchError) -> WeightsError {
        self.failed(source.into())
    }
}

impl fmt::Debug for StreamedMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamedMatrix({})", self.key)
    }
}
