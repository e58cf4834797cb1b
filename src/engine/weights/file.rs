//! One weight file, safetensors or GGUF: its checked header, its mapping (CPU) or its reader (other devices).
//!
//! The header is read and checked by the catalogue, which trusts no length, text, offset or size in it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::formats::weights::header::{TensorInfo, TensorType, WeightHeader};
use safelight_core::model::CatalogError;
use safetensors::Dtype;
use tch::{Device, Kind, Tensor};

use super::mapping::FileMapping;
use super::prefetch::{StoredBytes, TensorLocation, WeightPrefetcher};
use super::stream::MatrixSource;
use super::{WeightsError, gguf};
use crate::fault::{self, FaultSite};

pub(super) struct OpenWeightFile {
    path: PathBuf,
    file: Arc<File>,
    header: WeightHeader,
    mapping: Option<Arc<FileMapping>>,
    /// The way of all files of a component, and which of them this is; for other devices than the CPU.
    staging: Option<(Arc<WeightPrefetcher>, usize)>,
}

impl OpenWeightFile {
    pub(super) fn open(path: &Path, device: Device) -> Result<Self, WeightsError> {
        let (file, header) =
            WeightHeader::open(path).map_err(|err| CatalogError::of_header(err, path))?;
        let mapping = if device == Device::Cpu && header.data_bytes() > 0 {
            let mapping = FileMapping::new(&file).map_err(WeightsError::io(path))?;
            Some(Arc::new(mapping))
        } else {
            None
        };
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            header,
            mapping,
            staging: None,
        })
    }

    /// Plans the way of all `files` of a component to a device.
    pub(super) fn stage(files: &mut [Self]) {
        let places = files.iter().enumerate().flat_map(|(number, file)| {
            file.header
                .tensors()
                .map(move |(name, info)| TensorLocation {
                    name,
                    file: number,
                    start: info.start,
                    len: info.bytes as usize,
                })
        });
        let handles = files.iter().map(|file| Arc::clone(&file.file)).collect();
        let staging = Arc::new(WeightPrefetcher::new(handles, places));
        for (number, file) in files.iter_mut().enumerate() {
            file.staging = Some((Arc::clone(&staging), number));
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.header.tensors().map(|(name, _)| name)
    }

    pub(super) fn source(&self, info: &TensorInfo) -> MatrixSource {
        MatrixSource {
            file: Arc::clone(&self.file),
            mapping: self.mapping.clone(),
            path: self.path.clone(),
            start: info.start,
            len: info.bytes as usize,
        }
    }

    /// From here on only tensors too small for a separate read are read ahead.
    pub(super) fn read_only_tiny_ahead(&self) {
        if let Some((staging, _)) = &self.staging {
            staging.read_only_tiny_ahead();
        }
    }

    pub(super) fn stored_kind(&self, key: &str, info: &TensorInfo) -> Result<Kind, WeightsError> {
        kind_from_dtype(info.dtype).ok_or_else(|| WeightsError::UnsupportedDtype {
            key: key.to_owned(),
            dtype: info.dtype.to_string(),
            path: self.path.clone(),
        })
    }

    /// The one number that `key` is, read without a buffer; `None` where it is more, or no plain number.
    pub(super) fn number(&self, key: &str, info: &TensorInfo) -> Result<Option<f32>, WeightsError> {
        if info.shape.iter().any(|&n| n != 1) {
            return Ok(None);
        }
        let mut bytes = [0; 8];
        let Some(bytes) = bytes.get_mut(..info.bytes as usize) else {
            return Ok(None);
        };
        let read = self.file.read_exact_at(bytes, info.start);
        read.map_err(WeightsError::io(&self.path))?;
        let stored = self.stored_kind(key, info)?;
        let is_plain = matches!(
            stored,
            Kind::Half | Kind::BFloat16 | Kind::Float | Kind::Double
        );
        Ok(is_plain.then(|| Tensor::from_data_size(bytes, &[1], stored).double_value(&[0]) as f32))
    }

    /// The bytes of what is small, read without a buffer.
    pub(super) fn small(&self, info: &TensorInfo) -> Result<Vec<u8>, WeightsError> {
        let mut bytes = vec![0; info.bytes as usize];
        let read = self.file.read_exact_at(&mut bytes, info.start);
        read.map_err(WeightsError::io(&self.path))?;
        Ok(bytes)
    }

    /// `key` as a tensor of `kind` on `device`; a view of the mapping where nothing has to change.
    pub(super) fn tensor(
        &self,
        key: &str,
        info: &TensorInfo,
        kind: Kind,
        device: Device,
    ) -> Result<Tensor, WeightsError> {
        let stored = self.stored_kind(key, info)?;
        self.bring(key, info, &shape_of(info), [stored, kind], device)
    }

    /// The blocks of a tensor of GGUF, or codes and their scales, as they are: flat bytes on `device`.
    pub(super) fn blocks(
        &self,
        key: &str,
        info: &TensorInfo,
        device: Device,
    ) -> Result<Tensor, WeightsError> {
        let kinds = [Kind::Uint8, Kind::Uint8];
        self.bring(key, info, &[info.bytes as i64], kinds, device)
    }

    /// Bytes as `shape` of one kind, turned into another.
    fn bring(
        &self,
        key: &str,
        info: &TensorInfo,
        shape: &[i64],
        [stored, kind]: [Kind; 2],
        device: Device,
    ) -> Result<Tensor, WeightsError> {
        fault::at(FaultSite::Staging);
        let torch = WeightsError::tensor(key, &self.path);
        if info.bytes == 0 {
            return Tensor::f_zeros(shape, (kind, device)).map_err(&torch);
        }
        if let Some(mapping) = &self.mapping {
            let view = mapping
                .tensor(info.start as usize, shape, stored)
                .map_err(&torch)?;
            if kind == stored {
                return Ok(view);
            }
            return view.f_to_kind(kind).map_err(&torch);
        }
        let stored = StoredBytes {
            start: info.start,
            len: info.bytes as usize,
            kind: stored,
        };
        let Some((staging, number)) = &self.staging else {
            let reason = format!("'{key}' was to go to another device");
            return Err(WeightsError::header(reason, &self.path));
        };
        let numbers = staging.bring(*number, stored, shape, kind, device);
        numbers.map_err(|err| err.of(key, &self.path))
    }

    /// `key`, which the file has, on the CPU in its own type; in f32 where that is one of blocks.
    pub(super) fn stored_tensor(&self, key: &str) -> Result<Tensor, WeightsError> {
        let Some(info) = self.header.info(key) else {
            let reason = format!("it has no '{key}'");
            return Err(WeightsError::header(reason, &self.path));
        };
        if let Some(block) = info.dtype.blocks() {
            let bytes = self.blocks(key, info, Device::Cpu)?;
            let numbers = gguf::expand(&bytes, block, Kind::Float);
            return Ok(numbers.view(&shape_of(info)[..]));
        }
        self.as_stored(key, info, Device::Cpu)
    }

    /// Elements in their own type: blocks as flat bytes, codes as `(rows, bytes of a row)`.
    pub(super) fn as_stored(
        &self,
        key: &str,
        info: &TensorInfo,
        device: Device,
    ) -> Result<Tensor, WeightsError> {
        if info.dtype.plain().is_some() {
            let kind = self.stored_kind(key, info)?;
            return self.tensor(key, info, kind, device);
        }
        let bytes = self.blocks(key, info, device)?;
        let Some(format) = info.dtype.quant() else {
            return Ok(bytes);
        };
        let kind = kind_from_dtype(TensorType::Plain(format.codes.stored())).unwrap_or(Kind::Uint8);
        let rows = info.shape.first().map_or(0, |&rows| rows as i64);
        let width = info.bytes as i64 / rows.max(1);
        Ok(bytes.view_dtype(kind).view([rows, width]))
    }

    /// Block scales of the quantized matrix at `key`: their name and header entry.
    pub(super) fn block_scales(
        &self,
        key: &str,
        info: &TensorInfo,
    ) -> Option<(String, &TensorInfo)> {
        let key = info.dtype.quant()?.block_scale_key(key)?;
        let info = self.info(&key)?;
        Some((key, info))
    }

    /// Noun phrase for a quantized matrix that cannot be read.
    pub(super) fn fault(&self, key: &str) -> Option<&str> {
        self.header.faults.get(key).map(String::as_str)
    }

    pub(super) fn info(&self, key: &str) -> Option<&TensorInfo> {
        self.header.info(key)
    }
}

fn shape_of(info: &TensorInfo) -> Vec<i64> {
    info.shape.iter().map(|&n| n as i64).collect()
}

/// `None` for types that libtorch has no arithmetic for.
fn kind_from_dtype(dtype: TensorType) -> Option<Kind> {
    Some(match dtype.plain()? {
        // A byte that claims to be a truth value may be anything.
        Dtype::BOOL | Dtype::U8 => Kind::Uint8,
        Dtype::I8 => Kind::Int8,
        Dtype::I16 => Kind::Int16,
        Dtype::I32 => Kind::Int,
        Dtype::I64 => Kind::Int64,
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::F32 => Kind::Float,
        Dtype::F64 => Kind::Double,
        Dtype::F8_E4M3 => Kind::Float8e4m3fn,
        Dtype::F8_E5M2 => Kind::Float8e5m2,
        _ => return None,
    })
}
