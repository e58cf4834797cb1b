//! The `alpha` tensors of a file: the scales that they give to layers, and values that make a LoRA useless.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use half::{bf16, f16};
use safetensors::Dtype;

use super::file::LoraFile;
use super::keys::LoraTensorKind;
use crate::formats::weights::header::{TensorInfo, WeightHeader};
use crate::model::CatalogError;

/// Alpha over rank that no training uses.
const MAX_SCALE: f64 = 1000.0;

impl LoraFile {
    /// Reads the numbers of the `alpha` tensors: adds the scales of their layers, and a notice for each kind of value that
    /// makes no sense. The engine uses the values as they are.
    pub fn read_alphas(&mut self) -> Result<(), CatalogError> {
        // Layers of each effect, with the first of them and its value.
        let mut odd: BTreeMap<&str, (usize, &str, f64)> = BTreeMap::new();
        for path in &self.weights.files {
            let opened = WeightHeader::open(path);
            let (file, header) = opened.map_err(|err| CatalogError::of_header(err, path))?;
            for (layer, parts) in &self.layers {
                let info = parts
                    .get(&LoraTensorKind::Alpha)
                    .and_then(|key| header.info(key));
                let Some((info, rank)) = info.zip(self.rank(parts)) else {
                    continue;
                };
                let Some(alpha) = first_number(&file, info) else {
                    continue;
                };
                let scale = alpha / rank.max(1) as f64;
                if scale.is_finite() {
                    self.scales.insert(layer.clone(), scale);
                }
                let effect = match scale {
                    _ if !scale.is_finite() => "layers whose alpha is no finite number",
                    _ if scale > MAX_SCALE => "layers that act far too strongly",
                    _ if scale < 0.0 => "layers that act in reverse",
                    0.0 => "layers without effect",
                    _ => continue,
                };
                odd.entry(effect).or_insert((0, layer, alpha)).0 += 1;
            }
        }
        let notices = odd.into_iter().map(|(effect, (count, layer, alpha))| {
            let (total, alpha) = (self.layers.len(), short(alpha));
            format!("{effect}: {count} of {total}, such as {layer} (alpha {alpha})")
        });
        self.notices.extend(notices);
        Ok(())
    }
}

/// The first number of a tensor; `None` for types that no trainer writes.
fn first_number(file: &File, info: &TensorInfo) -> Option<f64> {
    let mut bytes = [0; 8];
    let size = info.bytes.min(bytes.len() as u64) as usize;
    file.read_exact_at(&mut bytes[..size], info.start).ok()?;
    let [a, b, c, d, ..] = bytes;
    Some(match info.dtype.plain().filter(|_| size > 0)? {
        Dtype::F64 => f64::from_le_bytes(bytes),
        Dtype::F32 => f32::from_le_bytes([a, b, c, d]).into(),
        Dtype::F16 => f16::from_le_bytes([a, b]).into(),
        Dtype::BF16 => bf16::from_le_bytes([a, b]).into(),
        _ => return None,
    })
}

/// A number in a few digits.
pub(super) fn short(number: f64) -> String {
    if number == 0.0 || (1e-3..1e6).contains(&number.abs()) {
        ((number * 1e4).round() / 1e4).to_string()
    } else {
        format!("{number:.1e}")
    }
}
