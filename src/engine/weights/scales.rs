//! What stands beside a matrix of fp8: ComfyUI's scale, under any of its names, and what may be ignored.
//!
//! A scale multiplies. How activations were to be scaled (`scale_input`), and what says again how the numbers are
//! stored, is of no use here. The catalogue has refused other formats that use the same names.

use safelight_core::formats::weights::TensorType;
use safetensors::Dtype;

use super::{Weights, WeightsError};

const SCALES: [&str; 2] = ["scale_weight", "weight_scale"];
const IGNORED: [&str; 3] = ["scale_input", "input_scale", "comfy_quant"];

/// Whether a file with these keys has anything beside its matrices: most have not, and need not be searched.
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
    /// The scale of the matrix at `key`, a name of the file; it and its like count as asked for.
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

    /// Counts all that may stand beside the matrix at `key` as asked for.
    pub(super) fn ignore_beside(&self, key: &str) {
        if !self.source.has_scales {
            return;
        }
        let layer = key.strip_suffix(".weight").unwrap_or(key);
        let ends = SCALES.iter().chain(&IGNORED);
        self.asked()
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
