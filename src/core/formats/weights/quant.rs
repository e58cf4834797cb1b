//! ComfyUI's quantized matrices: their codes, scales and rotation, from the tensors next to them.
//!
//! `<layer>.comfy_quant`, bytes of JSON, or the note `_quantization_metadata` names the format of a layer. The formats
//! are those of <https://github.com/Comfy-Org/comfy-kitchen>. fp8 with one scale is read without them.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use safetensors::Dtype;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::header::{TensorInfo, TensorType, WeightHeader};
use super::keys::SCALES;

/// Tensor next to a matrix that names its format.
const QUANT: &str = "comfy_quant";
/// More than any layer's.
const MAX_QUANT_BYTES: u64 = 4096;
/// Header note with the formats of all layers.
const METADATA: &str = "_quantization_metadata";
/// Notes are parsed up to this length.
const MAX_METADATA_BYTES: usize = 2 << 20;
/// Default rotation group in ComfyUI.
const GROUP: u64 = 256;
/// The largest group whose rotated codes are exact in f32, with room to spare.
const LARGEST_GROUP: u64 = 4096;
/// Default block of w4a8 in ComfyUI.
const BLOCK: u64 = 16;
const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];
/// Prefix of layers that the metadata may leave out.
const PREFIX: &str = "model.diffusion_model.";

/// Element type of a quantized matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeType {
    Int8,
    /// Two's complement, the even column in the low half of a byte.
    Int4,
    /// Index into a table of values that become int8, the even column in the low half.
    Index4,
    /// FP4 of one mantissa bit, the even column in the high half.
    E2m1,
    E4m3,
}

/// Facts of a format.
struct FormatFacts {
    codes: CodeType,
    /// In ComfyUI's JSON.
    name: &'static str,
    label: &'static str,
    stored: Dtype,
    bits: u64,
    /// Scale of each row, or of all rows.
    row_scales: Option<&'static str>,
    /// Scale of each block of columns.
    block_scales: Option<&'static str>,
}

const FORMATS: [FormatFacts; 5] = [
    FormatFacts {
        codes: CodeType::Int8,
        name: "int8_tensorwise",
        label: "int8",
        stored: Dtype::I8,
        bits: 8,
        row_scales: Some("weight_scale"),
        block_scales: None,
    },
    FormatFacts {
        codes: CodeType::Int4,
        name: "convrot_w4a4",
        label: "int4",
        stored: Dtype::I8,
        bits: 4,
        row_scales: Some("weight_scale"),
        block_scales: None,
    },
    FormatFacts {
        codes: CodeType::Index4,
        name: "asym_w4a8_int8",
        label: "w4a8",
        stored: Dtype::I8,
        bits: 4,
        row_scales: Some("weight_s_channel"),
        block_scales: Some("weight_s_rel"),
    },
    FormatFacts {
        codes: CodeType::E2m1,
        name: "nvfp4",
        label: "nvfp4",
        stored: Dtype::U8,
        bits: 4,
        row_scales: Some("weight_scale_2"),
        block_scales: Some("weight_scale"),
    },
    FormatFacts {
        codes: CodeType::E4m3,
        name: "mxfp8",
        label: "mxfp8",
        stored: Dtype::F8_E4M3,
        bits: 8,
        row_scales: None,
        block_scales: Some("weight_scale"),
    },
];

/// Scales of blocks of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockScales {
    pub columns: u64,
    /// `F8_E4M3`, `F8_E8M0` or `F32`
    pub dtype: Dtype,
}

/// Storage of a quantized matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantFormat {
    pub codes: CodeType,
    pub blocks: Option<BlockScales>,
    /// Number of columns that are rotated together, a power of four.
    pub group: Option<u64>,
}

impl CodeType {
    /// In the order of the kernels' numbers.
    pub const ALL: [Self; 5] = [Self::Int8, Self::Int4, Self::Index4, Self::E2m1, Self::E4m3];

    fn facts(self) -> &'static FormatFacts {
        &FORMATS[self as usize]
    }

    pub fn label(self) -> &'static str {
        self.facts().label
    }

    /// Dtype of the file's tensor.
    pub fn stored(self) -> Dtype {
        self.facts().stored
    }

    pub fn bits(self) -> u64 {
        self.facts().bits
    }

    /// Returns true if block scales are in the tiles of 128 by 4 that cuBLAS reads.
    pub fn has_tiled_scales(self) -> bool {
        matches!(self, Self::E2m1 | Self::E4m3)
    }

    /// Names of the scales of rows in `layer`, of which a file has one.
    pub fn row_scale_keys(self, layer: &str) -> Vec<String> {
        match self.facts().row_scales {
            Some("weight_scale") => SCALES.map(|end| format!("{layer}{end}")).to_vec(),
            own => own
                .map(|end| format!("{layer}.{end}"))
                .into_iter()
                .collect(),
        }
    }
}

impl QuantFormat {
    /// Name of the block scales of the matrix at `key`.
    pub fn block_scale_key(self, key: &str) -> Option<String> {
        let end = self.codes.facts().block_scales?;
        Some(format!("{}.{end}", key.strip_suffix(".weight")?))
    }
}

/// Settings of a layer.
#[derive(Deserialize)]
struct QuantNote {
    format: String,
    #[serde(default)]
    convrot: bool,
    convrot_groupsize: Option<u64>,
    group_size: Option<u64>,
}

/// Gives every quantized matrix its format and its own shape. Those that cannot be read get a fault.
pub(super) fn mark(file: &File, header: &mut WeightHeader) {
    let metadata = header.notes.get(METADATA);
    let metadata = metadata.filter(|text| text.len() <= MAX_METADATA_BYTES);
    let metadata = metadata.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let layers = metadata
        .as_ref()
        .and_then(|all| all.get("layers")?.as_object());
    let reader = QuantReader {
        file,
        header,
        layers,
    };
    let found: BTreeMap<String, Result<_, String>> = header
        .tensors()
        .filter_map(|(key, info)| Some((key.to_owned(), reader.read(key, info).transpose()?)))
        .collect();
    for (key, read) in found {
        match (read, header.tensors.get_mut(&key)) {
            (Ok((format, shape)), Some(info)) => {
                info.dtype = TensorType::Quant(format);
                info.shape = shape.to_vec();
            }
            (Err(fault), _) => drop(header.faults.insert(key, fault)),
            _ => {}
        }
    }
}

struct QuantReader<'a> {
    file: &'a File,
    header: &'a WeightHeader,
    layers: Option<&'a Map<String, Value>>,
}

impl QuantReader<'_> {
    /// Format and shape of a matrix; `None` for other tensors. The error is a noun phrase.
    fn read(
        &self,
        key: &str,
        info: &TensorInfo,
    ) -> Result<Option<(QuantFormat, [u64; 2])>, String> {
        let Some(layer) = key.strip_suffix(".weight") else {
            return Ok(None);
        };
        let Some(note) = self.note(layer, info)? else {
            return Ok(None);
        };
        if matches!(&note.format[..], "float8_e4m3fn" | "float8_e5m2") {
            return Ok(None);
        }
        let Some(facts) = FORMATS.iter().find(|facts| facts.name == note.format) else {
            // Untrusted text is truncated.
            let name: String = note.format.chars().take(40).collect();
            return Err(format!("quantised numbers ({name})"));
        };
        let label = facts.label;
        let [rows, width] = info.shape[..] else {
            return Err(format!("{label} in a tensor that is no matrix"));
        };
        let shape = width.checked_mul(8 / facts.bits).map(|all| [rows, all]);
        let shape = shape.filter(|_| info.dtype == facts.stored);
        let Some([_, columns]) = shape else {
            return Err(format!("{label} in a tensor of {}", info.dtype));
        };
        let format = QuantFormat {
            codes: facts.codes,
            blocks: self.blocks(layer, facts, &note, [rows, columns])?,
            group: group(facts, &note, columns)?,
        };
        let is_row_scale = |key: &String| self.has(key, &[Dtype::F32], |n| n == 1 || n == rows);
        let mut row_keys = facts.codes.row_scale_keys(layer);
        if let Some(wanted) = row_keys.pop()
            && !row_keys.iter().chain([&wanted]).any(is_row_scale)
        {
            return Err(format!("{label} without a fitting '{wanted}'"));
        }
        for (end, dtypes, count) in [
            ("weight_codebook", &FLOATS[..1], 16),
            ("pre_quant_scale", &FLOATS, columns),
            ("weight_correction", &[], 0),
        ] {
            let key = format!("{layer}.{end}");
            if self.header.info(&key).is_some() && !self.has(&key, dtypes, |n| n == count) {
                return Err(format!("{label} with a '{key}' that does not fit"));
            }
        }
        Ok(Some((format, [rows, columns])))
    }

    /// Settings of a layer. fp8 with one scale has none that count.
    fn note(&self, layer: &str, info: &TensorInfo) -> Result<Option<QuantNote>, String> {
        let of_layer = |layers: &'_ Map<String, Value>| {
            let short = layer.strip_prefix(PREFIX).unwrap_or(layer);
            layers.get(layer).or_else(|| layers.get(short)).cloned()
        };
        if let Some(note) = self.layers.and_then(of_layer) {
            let fault = |err| format!("quantised numbers that {METADATA} does not describe: {err}");
            return serde_json::from_value(note).map(Some).map_err(fault);
        }
        let is_coded = match info.dtype.plain() {
            Some(Dtype::I8 | Dtype::U8) => true,
            Some(Dtype::F8_E4M3) => {
                let mut keys = SCALES.iter().map(|end| format!("{layer}{end}"));
                !keys.any(|key| self.has(&key, &FLOATS, |n| n == 1))
            }
            _ => false,
        };
        let Some(said) = self
            .header
            .info(&format!("{layer}.{QUANT}"))
            .filter(|_| is_coded)
        else {
            return Ok(None);
        };
        let mut json = vec![0; said.bytes.min(MAX_QUANT_BYTES) as usize];
        let read = self.file.read_exact_at(&mut json, said.start);
        let note = read.ok().and_then(|()| serde_json::from_slice(&json).ok());
        let unnamed = || format!("{} that do not say how they are stored", info.dtype);
        note.map(Some).ok_or_else(unnamed)
    }

    fn blocks(
        &self,
        layer: &str,
        facts: &FormatFacts,
        note: &QuantNote,
        [rows, columns]: [u64; 2],
    ) -> Result<Option<BlockScales>, String> {
        let Some(end) = facts.block_scales else {
            return Ok(None);
        };
        let (key, label) = (format!("{layer}.{end}"), facts.label);
        let (block, dtypes) = match facts.codes {
            CodeType::E2m1 => (16, [Dtype::F8_E4M3, Dtype::U8]),
            CodeType::E4m3 => (32, [Dtype::F8_E8M0, Dtype::U8]),
            _ => (
                note.group_size.unwrap_or(BLOCK),
                [Dtype::F8_E4M3, Dtype::F32],
            ),
        };
        let is_block = matches!(block, 4 | 8) || (block != 0 && block.is_multiple_of(16));
        if !is_block || !columns.is_multiple_of(block) {
            return Err(format!(
                "{label} in blocks of {block}, which do not fill rows of {columns}"
            ));
        }
        let count = if facts.codes.has_tiled_scales() {
            let tiled_rows = rows.checked_next_multiple_of(128);
            let tiled_columns = (columns / block).checked_next_multiple_of(4);
            tiled_rows
                .zip(tiled_columns)
                .and_then(|(a, b)| a.checked_mul(b))
        } else {
            rows.checked_mul(columns / block)
        };
        if !self.has(&key, &dtypes, |n| Some(n) == count) {
            return Err(format!("{label} without a fitting '{key}'"));
        }
        let stored = self.header.info(&key).and_then(|info| info.dtype.plain());
        Ok(Some(BlockScales {
            columns: block,
            dtype: stored
                .filter(|dtype| *dtype == Dtype::F32)
                .unwrap_or(dtypes[0]),
        }))
    }

    /// Returns true if a tensor exists with one of `dtypes` and a fitting number of elements.
    fn has(&self, key: &str, dtypes: &[Dtype], fits: impl Fn(u64) -> bool) -> bool {
        self.header.info(key).is_some_and(|info| {
            let sizes = info.shape.iter();
            let count = sizes.fold(1_u64, |all, n| all.saturating_mul(*n));
            dtypes.iter().any(|dtype| info.dtype == *dtype) && fits(count)
        })
    }
}

fn group(facts: &FormatFacts, note: &QuantNote, columns: u64) -> Result<Option<u64>, String> {
    let is_rotated = match facts.codes {
        CodeType::Int8 => note.convrot,
        CodeType::Int4 | CodeType::Index4 => true,
        CodeType::E2m1 | CodeType::E4m3 => false,
    };
    if !is_rotated {
        return Ok(None);
    }
    let group = note.convrot_groupsize.unwrap_or(GROUP);
    let reason = if !(4..=LARGEST_GROUP).contains(&group)
        || !group.is_power_of_two()
        || !group.trailing_zeros().is_multiple_of(2)
    {
        "is no power of four".to_owned()
    } else if !columns.is_multiple_of(group) {
        format!("do not fill rows of {columns}")
    } else {
        return Ok(Some(group));
    };
    Err(format!(
        "{} rotated in groups of {group}, which {reason}",
        facts.label
    ))
}
