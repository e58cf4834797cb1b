//! Scales of fp8 and quantized matrices: ComfyUI's names for them, rotations, and keys to ignore.
//!
//! A scale multiplies. Scales of activations (`scale_input`) and repeated storage notes are not used. The catalogue has
//! refused other formats that use the same names.

use std::sync::PoisonError;

use safelight_core::formats::weights::keys::{MARKER, SCALES, aside_ends, is_aside};
use safelight_core::formats::weights::quant::{CodeType, QuantFormat};
use safelight_core::formats::weights::{TensorInfo, TensorType};
use safetensors::Dtype;
use tch::{Kind, Tensor};

use super::file::OpenWeightFile;
use super::quant::QuantSide;
use super::stored_matrix::StoredMatrix;
use super::stream::MatrixFormat;
use super::{Weights, WeightsError};
use crate::kernels::reference;

/// FP4 values by their bits.
const E2M1_VALUES: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

/// Returns whether any of the keys is a scale: most files have none and need not be searched.
pub(super) fn stand_among<'a>(mut keys: impl Iterator<Item = &'a str>) -> bool {
    keys.any(is_aside)
}

/// A tensor that only says that a file has scales.
pub(super) fn is_marker(key: &str) -> bool {
    key.rsplit('.').next() == Some(MARKER)
}

impl Weights {
    /// Scale of the matrix at `key`, a name of the file; all its scale keys count as requested.
    pub(super) fn scale_of(
        &self,
        key: &str,
        stored: TensorType,
    ) -> Result<Option<f32>, WeightsError> {
        let Some(layer) = key.strip_suffix(".weight") else {
            return Ok(None);
        };
        if !self.source.has_scales {
            return Ok(None);
        }
        self.ignore_beside(layer);
        let mut scales = SCALES.iter().map(|end| format!("{layer}{end}"));
        let Some(key) = scales.find(|key| self.source.keys.contains_key(key)) else {
            return Ok(None);
        };
        let wrong = |path| WeightsError::Scale {
            key: key.clone(),
            path,
        };
        let Some(file) = self.source.keys.get(&key).map(|&i| &self.source.files[i]) else {
            return Err(wrong(self.source.path.clone()));
        };
        let scale = match file.info(&key) {
            Some(info) if is_scalable(stored) => file.number(&key, info)?,
            _ => None,
        };
        match scale {
            Some(scale) if scale.is_finite() => Ok(Some(scale)),
            _ => Err(wrong(file.path().to_owned())),
        }
    }

    /// Tensors next to the quantized matrix at `key`, a name of the file, without the scales of blocks; all its scale
    /// keys count as requested. They are in the file of the matrix, whose header has been checked.
    pub(super) fn quant_side(
        &self,
        key: &str,
        (file, info): (&OpenWeightFile, &TensorInfo),
        format: QuantFormat,
    ) -> Result<QuantSide, WeightsError> {
        let layer = key.strip_suffix(".weight").unwrap_or(key);
        self.ignore_beside(layer);
        let rows = info.shape.first().copied().unwrap_or_default() as i64;
        let mut scale_keys = format.codes.row_scale_keys(layer).into_iter();
        let scale_key = scale_keys.find(|key| file.info(key).is_some());
        let scales = match &scale_key {
            Some(key) => floats(file, key)?.unwrap_or_default(),
            None => vec![1.0],
        };
        if !scales.iter().all(|scale| scale.is_finite()) {
            return Err(WeightsError::Scale {
                key: scale_key.unwrap_or_default(),
                path: file.path().to_owned(),
            });
        }
        let scales = Tensor::from_slice(&scales).view([-1, 1]);
        let scales = scales.expand([rows, 1], false).contiguous();
        let table = match format.codes {
            CodeType::Int8 | CodeType::E4m3 => None,
            CodeType::E2m1 => Some(E2M1_VALUES.to_vec()),
            CodeType::Int4 => Some((0..8).chain(-8..0).map(|n| n as f32).collect()),
            CodeType::Index4 => {
                let codebook = floats(file, &format!("{layer}.weight_codebook"))?;
                Some(codebook.unwrap_or_else(|| (-8..8).map(|n| n as f32).collect()))
            }
        };
        let columns = format!("{layer}.pre_quant_scale");
        let columns = file.info(&columns).map(|info| {
            let factors = file.tensor(&columns, info, Kind::Float, self.device());
            factors.map(|factors| factors.flatten(0, -1))
        });
        Ok(QuantSide {
            scales: scales.to_device(self.device()),
            blocks: None,
            table: table.map(|table| Tensor::from_slice(&table).to_device(self.device())),
            rotation: format.group.map(|group| self.rotation(group as i64)),
            columns: columns.transpose()?,
        })
    }

    /// Matrix of a file on the device, in its storage.
    pub(super) fn loaded(
        &self,
        key: &str,
        (file, info): (&OpenWeightFile, &TensorInfo),
        (form, side): (MatrixFormat, Option<QuantSide>),
        size: [i64; 2],
    ) -> Result<StoredMatrix, WeightsError> {
        let numbers = file.blocks(key, info, self.device)?;
        let blocks = file.block_scales(key, info);
        let blocks = blocks.map(|(key, info)| file.blocks(&key, info, self.device));
        let blocks = blocks.transpose()?;
        let side = side.map(|side| form.with_blocks(&side, blocks.as_ref(), size));
        let sides: Vec<&QuantSide> = side.iter().collect();
        Ok(form.matrix(&numbers.view_dtype(form.stored()), size, &sides))
    }

    /// Inverse rotation of groups of `group` columns, shared by all matrices of the files.
    fn rotation(&self, group: i64) -> Tensor {
        let rotations = self.source.rotations.lock();
        let mut rotations = rotations.unwrap_or_else(PoisonError::into_inner);
        let known = rotations.entry(group);
        let rotation = known.or_insert_with(|| reference::rotation(group, self.device()));
        rotation.shallow_clone()
    }

    /// Counts all scale keys of the matrix at `key` as requested.
    pub(super) fn ignore_beside(&self, key: &str) {
        if !self.source.has_scales {
            return;
        }
        let layer = key.strip_suffix(".weight").unwrap_or(key);
        self.requested_keys()
            .extend(aside_ends().map(|end| format!("{layer}{end}")));
    }
}

/// Elements of a small tensor of f32, if it is there.
fn floats(file: &OpenWeightFile, key: &str) -> Result<Option<Vec<f32>>, WeightsError> {
    let Some(info) = file.info(key) else {
        return Ok(None);
    };
    let bytes = file.small(info)?;
    let (numbers, _) = bytes.as_chunks::<4>();
    let numbers = numbers.iter().map(|it| f32::from_le_bytes(*it));
    Ok(Some(numbers.collect()))
}

/// Whole numbers with a scale are of another format, which has more to it.
fn is_scalable(stored: TensorType) -> bool {
    matches!(
        stored.plain(),
        Some(Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::BF16 | Dtype::F16 | Dtype::F32)
    )
}
