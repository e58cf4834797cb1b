//! Writes files in ComfyUI's quantized formats. The numbers of rotated ones are not those that were given. For tests
//! alone.

use std::collections::BTreeMap;
use std::path::Path;

use safelight_core::formats::weights::quant::CodeType;
use serde_json::json;
use tch::{Device, Kind, Tensor};

use super::made_up::write_named;

/// Formats other than int8.
pub const FORMATS: [(CodeType, &str); 4] = [
    (CodeType::Int4, "convrot_w4a4"),
    (CodeType::Index4, "asym_w4a8_int8"),
    (CodeType::E2m1, "nvfp4"),
    (CodeType::E4m3, "mxfp8"),
];

/// Writes matrices of whole blocks in a format, and all others in f32.
pub fn write_quant(path: &Path, tensors: &BTreeMap<String, Tensor>, codes: CodeType) {
    let (_, format) = FORMATS.into_iter().find(|(own, _)| *own == codes).unwrap();
    let mut stored = BTreeMap::new();
    for (name, tensor) in tensors {
        let has_blocks = tensor.dim() == 2 && tensor.size()[1] % 32 == 0;
        let Some(layer) = name.strip_suffix(".weight").filter(|_| has_blocks) else {
            stored.insert(name.clone(), tensor.shallow_clone());
            continue;
        };
        let mut put = |end: &str, tensor: Tensor| stored.insert(format!("{layer}.{end}"), tensor);
        let group = [256, 64, 16]
            .into_iter()
            .find(|&group| tensor.size()[1] % group == 0);
        let note = json!({"format": format, "convrot_groupsize": group});
        put(
            "comfy_quant",
            Tensor::from_slice(note.to_string().as_bytes()),
        );
        for (end, tensor) in quantized(tensor, codes) {
            put(end, tensor);
        }
    }
    write_named(path, &stored);
}

fn quantized(matrix: &Tensor, codes: CodeType) -> Vec<(&'static str, Tensor)> {
    let (rows, columns) = (matrix.size()[0], matrix.size()[1]);
    let largest = matrix.abs().amax([1], true).clamp_min(1e-6);
    let seventh = (matrix / &largest * 7.0).round();
    // Of which every other one is half as large.
    let blocks = |count: i64, one: i64, half: i64| {
        let numbers = Tensor::arange(count, (Kind::Int64, Device::Cpu));
        ((numbers.remainder(2)) * (half - one) + one).to_kind(Kind::Uint8)
    };
    let tiles = |block: i64, one, half| {
        let (down, across) = ((rows + 127) / 128, (columns / block + 3) / 4);
        blocks(down * across * 512, one, half).view([down * 128, across * 4])
    };
    match codes {
        CodeType::E4m3 => {
            let exponent = largest.max().log2().ceil().double_value(&[]);
            let numbers = matrix / exponent.exp2();
            let one = 127 + exponent as i64;
            vec![
                ("weight", numbers.to_kind(Kind::Float8e4m3fn)),
                ("weight_scale", tiles(32, one, one - 1)),
            ]
        }
        CodeType::E2m1 => {
            let sign = matrix.lt(0.0).to_kind(Kind::Float) * 8.0;
            let codes = packed(&(seventh.abs() + sign), 0);
            let scale = (largest.max() / 6.0).view([]);
            let blocks = tiles(16, 0x38, 0x30).view_dtype(Kind::Float8e4m3fn);
            vec![
                ("weight", codes),
                ("weight_scale", blocks),
                ("weight_scale_2", scale),
            ]
        }
        CodeType::Index4 => {
            // 16 and 8.
            let blocks = blocks(rows * columns / 16, 0x58, 0x50).view([rows, columns / 16]);
            vec![
                ("weight", packed(&(seventh + 8.0), 1).view_dtype(Kind::Int8)),
                ("weight_s_rel", blocks.view_dtype(Kind::Float8e4m3fn)),
                ("weight_s_channel", (largest / 112.0).view([rows])),
            ]
        }
        CodeType::Int4 | CodeType::Int8 => vec![
            (
                "weight",
                packed(&seventh.remainder(16.0), 1).view_dtype(Kind::Int8),
            ),
            ("weight_scale", (largest / 7.0).view([rows])),
        ],
    }
}

/// Codes below 16, two to a byte; `high`: which of the two columns is in the high half.
fn packed(codes: &Tensor, high: i64) -> Tensor {
    let codes = codes.to_kind(Kind::Uint8);
    let columns = codes.size()[1] / 2;
    let pairs = codes.view([-1, columns, 2]);
    pairs.select(2, high) * 16 + pairs.select(2, 1 - high)
}
