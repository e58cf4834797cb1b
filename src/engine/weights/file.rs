//! One safetensors file: its checked header, its mapping (CPU) or its reader (other devices).
//!
//! The header is read and checked by the catalogue, which trusts no length, text, offset or size in it.
//! Does not know about keys of models, shards or folders.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::catalog::safetensors::{Header, HeaderError};
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use tch::{Device, Kind, Tensor};

use super::WeightsError;
use super::mapping::Mapping;

/// Weights for another device pass through a buffer of this size, so that loading never doubles a tensor in memory.
const STAGING_BYTES: usize = 32 << 20;

pub(super) struct WeightFile {
    path: PathBuf,
    file: File,
    header: Header,
    mapping: Option<Arc<Mapping>>,
}

impl WeightFile {
    pub(super) fn open(path: &Path, device: Device) -> Result<Self, WeightsError> {
        let io = |source| WeightsError::Io {
            source,
            path: path.to_owned(),
        };
        let bad = |reason: String| WeightsError::Header {
            reason,
            path: path.to_owned(),
        };
        let (file, header) = Header::open(path).map_err(|err| match err {
            HeaderError::Io(source) => io(source),
            HeaderError::Unsound(reason) => bad(reason),
        })?;
        let mapping = if device == Device::Cpu && header.data_bytes() > 0 {
            Some(Arc::new(Mapping::new(&file).map_err(io)?))
        } else {
            None
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            header,
            mapping,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.header.names()
    }

    /// `None` when the file has no such key.
    pub(super) fn shape(&self, key: &str) -> Option<Vec<i64>> {
        let info = self.header.info(key)?;
        Some(info.shape.iter().map(|&n| n as i64).collect())
    }

    /// `key` as a tensor of `kind` on `device`; a view of the mapping where nothing has to change.
    pub(super) fn tensor(
        &self,
        key: &str,
        info: &TensorInfo,
        kind: Kind,
        device: Device,
    ) -> Result<Tensor, WeightsError> {
        let stored = kind_from_dtype(info.dtype).ok_or_else(|| WeightsError::UnsupportedDtype {
            key: key.to_owned(),
            dtype: info.dtype.to_string(),
            path: self.path.clone(),
        })?;
        let shape: Vec<i64> = info.shape.iter().map(|&n| n as i64).collect();
        let torch = |source| WeightsError::Tensor {
            key: key.to_owned(),
            source,
            path: self.path.clone(),
        };
        let start = self.header.data_start + info.data_offsets.0 as u64;
        let len = info.data_offsets.1 - info.data_offsets.0;
        if len == 0 {
            return Tensor::f_zeros(&shape, (kind, device)).map_err(torch);
        }
        match &self.mapping {
            Some(mapping) => {
                let view = mapping
                    .tensor(start as usize, &shape, stored)
                    .map_err(torch)?;
                view.f_to_kind(kind).map_err(torch)
            }
            None => self
                .staged(start, len, stored, kind, device, &torch)
                .and_then(|flat| flat.f_view(&shape[..]).map_err(torch)),
        }
    }

    /// `key`, which the file has, on the CPU in its own type.
    pub(super) fn stored_tensor(&self, key: &str) -> Result<Tensor, WeightsError> {
        let Some(info) = self.header.info(key) else {
            return Err(WeightsError::Header {
                reason: format!("it has no '{key}'"),
                path: self.path.clone(),
            });
        };
        let stored = kind_from_dtype(info.dtype).unwrap_or(Kind::Float);
        self.tensor(key, info, stored, Device::Cpu)
    }

    pub(super) fn info(&self, key: &str) -> Option<&TensorInfo> {
        self.header.info(key)
    }

    /// Reads through a bounded buffer: a mapped pointer is never handed to a device, because drivers pin
    /// and keep such pages.
    fn staged(
        &self,
        start: u64,
        len: usize,
        stored: Kind,
        kind: Kind,
        device: Device,
        torch: &dyn Fn(tch::TchError) -> WeightsError,
    ) -> Result<Tensor, WeightsError> {
        let width = stored.elt_size_in_bytes();
        let whole = Tensor::f_empty([(len / width) as i64], (kind, device)).map_err(torch)?;
        let mut buffer = vec![0; len.min(STAGING_BYTES)];
        let mut done = 0;
        while done < len {
            let chunk = &mut buffer[..STAGING_BYTES.min(len - done)];
            self.file
                .read_exact_at(chunk, start + done as u64)
                .map_err(|source| WeightsError::Io {
                    source,
                    path: self.path.clone(),
                })?;
            let count = (chunk.len() / width) as i64;
            let part = Tensor::f_from_data_size(chunk, &[count], stored).map_err(torch)?;
            // Converted on the device: the narrower type is what crosses the bus, and `copy_` widens.
            let part = part.f_to_device(device).map_err(torch)?;
            whole
                .f_narrow(0, (done / width) as i64, count)
                .and_then(|mut slot| slot.f_copy_(&part))
                .map_err(torch)?;
            done += chunk.len();
        }
        Ok(whole)
    }
}

/// `None` for types that libtorch has no arithmetic for.
fn kind_from_dtype(dtype: Dtype) -> Option<Kind> {
    Some(match dtype {
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
