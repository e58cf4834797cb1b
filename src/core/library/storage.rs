//! Storage of a component's weights, by the header alone: a description of unsupported formats, and the file to get
//! instead.
//!
//! Supported are plain floats, fp8 (bare, or with ComfyUI's scales under any of their names), GGUF's blocks, and
//! ComfyUI's quantized matrices (`formats/weights/quant.rs`). Other scales that are not one number per matrix belong to
//! other formats, as do other integers with scales.

use std::collections::BTreeSet;

use safetensors::Dtype;

use super::tensor_kind;
use crate::formats::weights::keys::{MARKER, SCALES};
use crate::formats::weights::quant::CodeType;
use crate::formats::weights::{TensorEntry, TensorType, WeightSet};
use crate::model::family::ReadableFile;
use crate::model::{CatalogError, ModelFamily};

/// Ends of keys that only one format has; the first that fits wins.
const FOREIGN: [(&str, &str); 19] = [
    ("bitsandbytes__nf4", NF4),
    ("bitsandbytes__fp4", "bitsandbytes 4-bit numbers (fp4)"),
    (".absmax", NF4),
    (".SCB", "bitsandbytes 8-bit numbers (int8)"),
    ("._data", QUANTO),
    ("._packed", QUANTO),
    (".wscales", NUNCHAKU),
    (".smooth_factor", NUNCHAKU),
    (".smooth_orig", NUNCHAKU),
    (".proj_down", NUNCHAKU),
    (".g_idx", "quantised whole numbers (GPTQ)"),
    (".qzeros", "quantised whole numbers (GPTQ or AWQ)"),
    (".qweight", "quantised whole numbers"),
    (".weight_scale_2", NVFP4),
    (".biases", MLX),
    (".W_q", "quantised whole numbers (HQQ)"),
    (
        ".weight_packed",
        "quantised whole numbers (compressed-tensors)",
    ),
    (".tensor_impl.data", TORCHAO),
    (".tensor_impl.int_data", TORCHAO),
];
const MLX: &str = "MLX's quantised numbers";
const TORCHAO: &str = "torchao's quantised numbers";
const NF4: &str = "bitsandbytes 4-bit numbers (nf4)";
const QUANTO: &str = "quanto's whole numbers";
const NUNCHAKU: &str = "nunchaku's 4-bit numbers (SVDQuant)";
const NVFP4: &str = "4-bit numbers (nvfp4) in another layout than ComfyUI's";
const MXFP8: &str = "fp8 with a scale for each block (mxfp8) in another layout than ComfyUI's";

/// Refuses `what`, a noun phrase, in a storage that this version cannot read, and names a file that works.
pub(crate) fn check(weights: &WeightSet, what: &str) -> Result<(), CatalogError> {
    match unreadable(weights) {
        None => Ok(()),
        Some(storage) => Err(CatalogError::unsupported(
            format!("{what} stored as {storage} (get {})", instead(weights)),
            weights.files.first().cloned().unwrap_or_default(),
        )),
    }
}

/// Storage of weights that this version cannot read: a noun phrase.
pub(crate) fn unreadable(weights: &WeightSet) -> Option<String> {
    if let Some(fault) = weights.faults.values().next() {
        return Some(fault.clone());
    }
    if let Some(name) = foreign(weights) {
        return Some(name.to_owned());
    }
    let blocks = weights
        .tensors
        .values()
        .find_map(|entry| match entry.dtype {
            TensorType::Foreign(name) => Some(name),
            _ => None,
        });
    if let Some(name) = blocks {
        return Some(format!(
            "{name} blocks (of GGUF, Q2_K to Q8_0, IQ4_NL and IQ4_XS work)"
        ));
    }
    // A matrix with a scale states more about its format.
    [true, false]
        .into_iter()
        .find_map(|is_scaled| {
            weights.tensors.iter().find_map(|(key, entry)| {
                let layer = key.strip_suffix(".weight")?;
                let scale = scale_of(weights, layer);
                let is_wanted = scale.is_some() == is_scaled;
                is_wanted.then(|| unreadable_matrix(entry, scale)).flatten()
            })
        })
        .or_else(|| without_scale(weights))
}

/// A storage that a key's end alone tells: a noun phrase.
pub(crate) fn foreign(weights: &WeightSet) -> Option<&'static str> {
    let is_quant = |layer: &str| {
        let matrix = weights.tensors.get(&format!("{layer}.weight"));
        matrix.is_some_and(|entry| entry.dtype.quant().is_some())
    };
    let has = |end: &str| {
        let mut layers = weights
            .tensors
            .keys()
            .filter_map(|key| key.strip_suffix(end));
        layers.any(|layer| !is_quant(layer))
    };
    let (_, name) = FOREIGN.iter().find(|(end, _)| has(end))?;
    Some(name)
}

/// Format of the first quantized matrix: a noun phrase.
pub(super) fn quant_label(weights: &WeightSet) -> Option<&'static str> {
    let mut formats = weights
        .tensors
        .values()
        .filter_map(|entry| entry.dtype.quant());
    formats.next().map(|format| match format.codes {
        CodeType::Int8 => "int8 with rotation",
        codes => codes.label(),
    })
}

fn scale_of<'a>(weights: &'a WeightSet, layer: &str) -> Option<&'a TensorEntry> {
    SCALES
        .iter()
        .find_map(|end| weights.tensors.get(&format!("{layer}{end}")))
}

/// Returns true for floats that the engine reads one by one.
pub(crate) fn is_plain(dtype: TensorType) -> bool {
    let known = [
        Dtype::F64,
        Dtype::F32,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F8_E4M3,
        Dtype::F8_E5M2,
    ];
    known.iter().any(|known| dtype == *known)
}

fn unreadable_matrix(entry: &TensorEntry, scale: Option<&TensorEntry>) -> Option<String> {
    let stored = match entry.dtype {
        // Foreign blocks have been named before.
        TensorType::Foreign(_) | TensorType::Blocks(_) | TensorType::Quant(_) => return None,
        TensorType::Plain(dtype) => dtype,
    };
    let is_fp8 = matches!(stored, Dtype::F8_E4M3 | Dtype::F8_E5M2);
    let is_plain = is_plain(entry.dtype);
    let Some(scale) = scale else {
        return (!is_plain).then(|| stored.to_string());
    };
    let is_number = |dtype| scale.dtype == dtype;
    let has_numbers = [Dtype::F32, Dtype::BF16, Dtype::F16]
        .into_iter()
        .any(is_number);
    let is_one = has_numbers && scale.shape.iter().all(|&n| n == 1);
    match stored {
        _ if is_plain && is_one => None,
        Dtype::I8 => {
            Some("8-bit whole numbers whose scales are not those of int8_tensorwise".to_owned())
        }
        _ if is_fp8 && has_numbers => Some("fp8 with a scale for each row or block".to_owned()),
        _ if is_fp8 => Some(MXFP8.to_owned()),
        Dtype::U8 | Dtype::F4 => Some(NVFP4.to_owned()),
        _ => Some(format!("{stored} with scales")),
    }
}

/// Matrices of fp8 whose scales are missing while the file says or shows that there are scales. Without them the
/// result would be noise.
fn without_scale(weights: &WeightSet) -> Option<String> {
    let mut scaled = BTreeSet::new();
    let mut marked = BTreeSet::new();
    let mut bare = Vec::new();
    for (key, entry) in &weights.tensors {
        if let Some(before) = key.strip_suffix(MARKER) {
            marked.insert(part_of(before));
        }
        let Some(layer) = key.strip_suffix(".weight") else {
            continue;
        };
        if !(entry.dtype == Dtype::F8_E4M3 || entry.dtype == Dtype::F8_E5M2) {
            continue;
        }
        if scale_of(weights, layer).is_some() {
            scaled.insert(part_of(key));
        } else if entry.shape.len() == 2 && !is_table(layer) {
            bare.push(key);
        }
    }
    let wrong = |key: &&&String| {
        let part = part_of(key);
        scaled.contains(part) || marked.contains(part)
    };
    let key = bare.iter().find(wrong)?;
    Some(if scaled.contains(part_of(key)) {
        format!("fp8 with scales, of which that of '{key}' is missing")
    } else {
        "fp8 with scales that are not in the file".to_owned()
    })
}

/// Component of a key by its prefix, in a file of several.
fn part_of(key: &str) -> &str {
    let names = match key.split('.').next() {
        Some("text_encoders" | "model") => 2,
        Some("vae" | "transformer" | "text_encoder" | "diffusion_model") => 1,
        _ => 0,
    };
    let end = key.match_indices('.').nth(names.max(1) - 1);
    match end {
        Some((end, _)) if names > 0 => &key[..end],
        _ => "",
    }
}

/// Tables are looked up, not multiplied, and have no scales.
fn is_table(layer: &str) -> bool {
    let name = layer.rsplit('.').next().unwrap_or(layer);
    name == "shared"
        || name.contains("embed_tokens")
        || name.ends_with("embedding")
        || name.ends_with("bias")
}

/// The file to get instead where no name is known.
pub(crate) const PLAIN: &str = "the same weights as fp16, bf16, fp8 or GGUF";

fn instead(weights: &WeightSet) -> &'static str {
    let found = tensor_kind::of_tensors(weights);
    let of_kind = |family: &ModelFamily| {
        let mut kinds = family.kinds.iter();
        kinds.any(|rule| rule.family == found.family)
    };
    let mut families = ModelFamily::all().filter(of_kind);
    let is_it = |(role, part, _): &&ReadableFile| *role == found.role && found.text.contains(part);
    if let Some((.., file)) = families.find_map(|family| family.instead.iter().find(is_it)) {
        return file;
    }
    match (found.family, found.role) {
        ("umt5", _) => {
            "umt5_xxl_fp8_e4m3fn_scaled.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged"
        }
        ("t5", _) => "t5xxl_fp8_e4m3fn_scaled.safetensors from comfyanonymous/flux_text_encoders",
        ("clip", _) => "clip_l.safetensors from comfyanonymous/flux_text_encoders",
        ("llama", _) => {
            "llava_llama3_fp8_scaled.safetensors from Comfy-Org/HunyuanVideo_repackaged"
        }
        ("qwen", _) => "qwen_3_4b.safetensors from Comfy-Org/z_image_turbo",
        ("vision", _) => "clip_vision_h.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged",
        _ => PLAIN,
    }
}
