//! Scales of fp8 and int8 matrices: ComfyUI's names for them, rotations of int8 matrices, and keys to ignore.
//!
//! A scale multiplies. Scales of activations (`scale_input`) and repeated storage notes are not used. The catalogue has
//! refused other formats that use the same names.

use std::sync::PoisonError;

use safelight_core::formats::weights::quant::{MAX_QUANT_BYTES, QUANT, int8_group};
use safelight_core::formats::weights::{TensorInfo, TensorType};
use safetensors::Dtype;
use tch::Tensor;

use super::int8::Int8Side;
use super::{Weights, WeightsError};
use crate::kernels::reference;

const SCALES: [&str; 2] = ["scale_weight", "weight_scale"];
const IGNORED: [&str; 3] = ["scale_input", "input_scale", "comfy_quant"];

/// Returns whether any of the keys is a scale: most files have none and need not be searched.
pub(super) fn stand_among<'a>(mut keys: impl Iterator<Item = &'a str>) -> bool {
    keys.any(|key| {
        let end = key.rsplit('.').next().unwrap_or(key);
        SCALES.contains(&end) || IGNORED.contains(&end)
    })
}

/// A tensor that only says that a file has scales.
pub(super) fn is_marker(key: &str) -> bool {
    key.rsplit('.').next() == Some("scaled_fp8")
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
        let mut scales = SCALES.iter().map(|end| format!("{layer}.{end}"));
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

    /// Scales and rotation of the matrix at `key`, a name of the file, if it is an int8 matrix that states its storage;
    /// all its scale keys count as requested.
    pub(super) fn int8_of(
        &self,
        key: &str,
        info: &TensorInfo,
    ) -> Result<Option<Int8Side>, WeightsError> {
        let (Some(layer), [rows, columns]) = (key.strip_suffix(".weight"), &info.shape[..]) else {
            return Ok(None);
        };
        if info.dtype != Dtype::I8 || !self.source.has_scales {
            return Ok(None);
        }
        let Some((file, said)) = self.entry(&format!("{layer}.{QUANT}")) else {
            return Ok(None);
        };
        self.ignore_beside(layer);
        let json = match said.bytes {
            0..=MAX_QUANT_BYTES => file.small(said)?,
            _ => Vec::new(),
        };
        let group = int8_group(&json, *columns);
        let group = group.map_err(|reason| WeightsError::header(reason, file.path()))?;
        let mut scales = SCALES.iter().map(|end| format!("{layer}.{end}"));
        let scale_key = scales.find(|key| self.source.keys.contains_key(key));
        let scale_key = scale_key.unwrap_or_else(|| format!("{layer}.{}", SCALES[1]));
        let wrong = || WeightsError::Scale {
            key: scale_key.clone(),
            path: file.path().to_owned(),
        };
        let (file, info) = self.entry(&scale_key).ok_or_else(wrong)?;
        if info.dtype != Dtype::F32 || info.bytes > 4 * rows.max(&1) {
            return Err(wrong());
        }
        let numbers = file.small(info)?;
        let (numbers, _) = numbers.as_chunks::<4>();
        let numbers: Vec<f32> = numbers.iter().map(|it| f32::from_le_bytes(*it)).collect();
        let count = *rows as usize;
        let is_fit = (numbers.len() == count || numbers.len() == 1)
            && numbers.iter().all(|number| number.is_finite());
        if !is_fit {
            return Err(wrong());
        }
        let scales = Tensor::from_slice(&numbers).view([-1, 1]);
        let scales = scales.expand([count as i64, 1], false).contiguous();
        let rotation = group.map(|group| self.rotation(group));
        let scales = scales.to_device(self.device());
        Ok(Some(Int8Side { scales, rotation }))
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
        let ends = SCALES.iter().chain(&IGNORED);
        self.requested_keys()
            .extend(ends.map(|end| format!("{layer}.{end}")));
    }
}

/// Whole numbers with a scale are of another format, which has more to it.
fn is_scalable(stored: TensorType) -> bool {
    matches!(
        stored.plain(),
        Some(Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::BF16 | Dtype::F16 | Dtype::F32)
    )
}
