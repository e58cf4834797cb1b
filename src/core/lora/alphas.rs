//! The `alpha` tensors of a file: the scales that they give to layers, and values that make a LoRA useless.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use half::{bf16, f16};
use safetensors::Dtype;

use super::delta::LayerFault;
use super::file::LoraFile;
use crate::formats::weights::header::{TensorInfo, TensorType, WeightHeader};
use crate::library::lora_keys::LoraTensorKind;
use crate::model::CatalogError;

/// Alpha over rank that no training uses.
const MAX_SCALE: f64 = 1000.0;

impl LoraFile {
    /// Reads the numbers of the `alpha` tensors: adds the scales of their layers and a notice for each kind of strange
    /// value, and leaves out the layers whose alpha is no number.
    pub fn read_alphas(&mut self) -> Result<(), CatalogError> {
        let layers = self.layers.iter().filter_map(|(layer, parts)| {
            let key = parts.get(&LoraTensorKind::Alpha)?;
            let rank = self.rank(parts)?;
            let is_used = !self.left_out.contains_key(layer);
            is_used.then(|| (layer.clone(), key.clone(), rank))
        });
        let layers: Vec<(String, String, u64)> = layers.collect();
        let total = self.layers.len();
        // Layers of each effect, with the first of them and its value.
        let mut odd: BTreeMap<&str, (usize, String, f64)> = BTreeMap::new();
        let files = if layers.is_empty() {
            &[]
        } else {
            &self.weights.files[..]
        };
        for path in files {
            let opened = WeightHeader::open(path);
            let (file, header) = opened.map_err(|err| CatalogError::of_header(err, path))?;
            for (layer, key, rank) in &layers {
                let Some(info) = header.info(key) else {
                    continue;
                };
                let alpha = number_of(&file, info).map_err(|err| CatalogError::io(err, path))?;
                let scale = alpha / (*rank).max(1) as f64;
                // The engine computes in f32.
                if !(scale as f32).is_finite() {
                    let fault = LayerFault::of_alpha(alpha);
                    self.left_out.insert(layer.clone(), fault);
                    continue;
                }
                self.scales.insert(layer.clone(), scale);
                let effect = match scale {
                    _ if scale > MAX_SCALE => "layers that act far too strongly",
                    _ if scale < 0.0 => "layers that act in reverse",
                    0.0 => "layers without effect",
                    _ => continue,
                };
                odd.entry(effect)
                    .or_insert_with(|| (0, layer.clone(), alpha))
                    .0 += 1;
            }
        }
        let notices = odd.into_iter().map(|(effect, (count, layer, alpha))| {
            let alpha = short(alpha);
            format!("{effect}: {count} of {total}, such as {layer} (alpha {alpha})")
        });
        self.notices.extend(notices);
        Ok(())
    }
}

fn number_of(file: &File, info: &TensorInfo) -> std::io::Result<f64> {
    let mut bytes = [0; 8];
    let size = info.bytes.min(bytes.len() as u64) as usize;
    file.read_exact_at(&mut bytes[..size], info.start)?;
    Ok(decode(info.dtype, bytes).unwrap_or(f64::NAN))
}

/// Returns true if each element of a type is one number.
pub(super) fn is_number(dtype: TensorType) -> bool {
    decode(dtype, [0; 8]).is_some()
}

/// The number at the beginning of some bytes; `None` for types of blocks and of parts of a number.
fn decode(dtype: TensorType, bytes: [u8; 8]) -> Option<f64> {
    let [a, b, c, d, ..] = bytes;
    Some(match dtype.plain()? {
        Dtype::F64 => f64::from_le_bytes(bytes),
        Dtype::F32 => f32::from_le_bytes([a, b, c, d]).into(),
        Dtype::F16 => f16::from_le_bytes([a, b]).into(),
        Dtype::BF16 => bf16::from_le_bytes([a, b]).into(),
        Dtype::F8_E5M2 => f16::from_le_bytes([0, a]).into(),
        Dtype::F8_E4M3 if a & 0x7f == 0x7f => f64::NAN,
        // The exponent of f16 is larger by 8.
        Dtype::F8_E4M3 => {
            let bits = (u16::from(a & 0x80) << 8) | (u16::from(a & 0x7f) << 7);
            f64::from(f16::from_bits(bits)) * 256.0
        }
        Dtype::U8 => a.into(),
        Dtype::I8 => a.cast_signed().into(),
        Dtype::U16 => u16::from_le_bytes([a, b]).into(),
        Dtype::I16 => i16::from_le_bytes([a, b]).into(),
        Dtype::U32 => u32::from_le_bytes([a, b, c, d]).into(),
        Dtype::I32 => i32::from_le_bytes([a, b, c, d]).into(),
        Dtype::U64 => u64::from_le_bytes(bytes) as f64,
        Dtype::I64 => i64::from_le_bytes(bytes) as f64,
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
