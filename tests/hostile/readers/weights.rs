//! Weight files, LoRAs, the folders of models, and tokenizers.
//!
//! Weight data is sparse zeros, so a file of a few kilobytes can declare gigabytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use safelight_core::catalog::ModelCatalog;
use safelight_core::families::lora_target;
use safelight_core::fitting::{LoraInfo, LoraOrigin, fitting_plan};
use safelight_core::formats::weights::gguf::{GgufElement, GgufValue};
use safelight_core::formats::weights::header::WeightHeader;
use safelight_core::job::prompt::WeightedText;
use safelight_core::lora::{CLIP, LayerTable, LoraFile, LoraPlan, T5};
use safelight_core::model::{ModelFamily, ModelSpec};
use safelight_core::networks::{IfnetConfig, UpscalerConfig};
use safelight_core::tokens::{SpieceModel, TextTokenizer};

use crate::scratch::Scratch;

/// Largest tensor of a LoRA.
const MAX_TENSOR_BYTES: u64 = 1 << 30;
/// Zeros after a GGUF header.
const GGUF_DATA_BYTES: u64 = 1 << 20;
/// Prompts that include difficult cases for tokenizers.
const TEXTS: [&str; 3] = [
    "a red fox, 8k",
    "  \u{e9}\u{301}\u{fb01} <extra_id_0></s>\u{1f98a}\u{200b}\u{5c0f}\u{72d0} it's\t\r\n",
    "",
];

/// Files of a diffusers folder that are read before any weights.
const MODEL_FILES: &str = "model_index.json transformer/config.json \
    transformer/diffusion_pytorch_model.safetensors.index.json transformer_2/config.json vae/config.json \
    text_encoder/config.json text_encoder_2/config.json text_encoder/model.safetensors.index.json \
    image_encoder/config.json image_processor/preprocessor_config.json \
    feature_extractor/preprocessor_config.json scheduler/scheduler_config.json tokenizer/tokenizer.json \
    tokenizer/tokenizer_config.json tokenizer/vocab.json tokenizer/merges.txt tokenizer_2/tokenizer.json";
/// Weight files of a diffusers folder, given by their headers.
const MODEL_WEIGHTS: &[&str] = &[
    "transformer/diffusion_pytorch_model.safetensors",
    "vae/diffusion_pytorch_model.safetensors",
    "text_encoder/model.safetensors",
    "text_encoder_2/model.safetensors",
];
const TOKENIZER_FILES: &[&str] = &[
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "spiece.model",
];

/// A whole file.
pub fn safetensors(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.file("x.safetensors", bytes)?;
    weights(scratch, &path);
    Ok(0)
}

/// A line with the number of data bytes, then the header; its length is filled in.
pub fn safetensors_header(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let data = String::from_utf8_lossy(&bytes[..end]);
    let header = bytes.get(end + 1..).unwrap_or_default();
    let data_bytes = data.trim().parse().unwrap_or(0);
    let path = write_safetensors(scratch, "x.safetensors", header, data_bytes)?;
    weights(scratch, &path);
    Ok(0)
}

pub fn gguf(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let path = scratch.sparse_file("x.gguf", bytes, GGUF_DATA_BYTES)?;
    weights(scratch, &path);
    scratch.call(|| {
        drop(SpieceModel::find(&path).map(|model| model.map(|model| model.encode(TEXTS[1]))));
    });
    encode(scratch, &path, None);
    let Ok((file, header)) = WeightHeader::open(&path) else {
        return Ok(0);
    };
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "a"] {
        let metadata = header.gguf.as_ref();
        let value = metadata.and_then(|it| Some((it, it.value(key)?)));
        let Some((metadata, GgufValue::List(list))) = value else {
            continue;
        };
        if list.element == GgufElement::Text {
            let mut count = 0;
            let read = scratch.call(|| metadata.each_text(&file, *list, |_| count += 1));
            assert!(read.is_err() || count == list.count);
        } else {
            scratch.call(|| drop(metadata.list_bytes(&file, *list)));
        }
    }
    Ok(0)
}

/// Header, model identification, upscaler and interpolator configs.
fn weights(scratch: &Scratch, path: &Path) {
    if let Ok((_, header)) = scratch.call(|| WeightHeader::open(path)) {
        let mut bytes = 0_u64;
        for (name, info) in header.tensors() {
            let end = info.start.checked_add(info.bytes).expect("a tensor ends");
            let is_within = info.bytes == 0 || end <= header.file_bytes;
            assert!(is_within, "'{name}' lies within the file");
            bytes = bytes.saturating_add(info.bytes);
        }
        assert_eq!(bytes, header.data_bytes());
    }
    scratch.call(|| drop(ModelCatalog::default().card(path)));
    scratch.call(|| drop(UpscalerConfig::read(path)));
    scratch.call(|| drop(IfnetConfig::read(path)));
}

fn write_safetensors(
    scratch: &Scratch,
    name: &str,
    header: &[u8],
    data_bytes: u64,
) -> io::Result<std::path::PathBuf> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    scratch.sparse_file(name, &bytes, data_bytes)
}

/// A diffusers folder in the format of [`Scratch::tree`].
pub fn model_folder(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let names = MODEL_FILES.split(' ').chain(MODEL_WEIGHTS.iter().copied());
    let names: Vec<&str> = names.collect();
    let folder = scratch.tree(bytes, &names)?;
    for name in MODEL_WEIGHTS {
        let Ok(header) = std::fs::read(folder.join(name)) else {
            continue;
        };
        write_safetensors(scratch, &format!("tree/{name}"), &header, 0)?;
    }
    scratch.call(|| drop(ModelCatalog::default().card(&folder)));
    scratch.call(|| drop(ModelSpec::open(&folder)));
    for part in ["transformer", "vae", "text_encoder"] {
        scratch.call(|| drop(ModelCatalog::default().card(&folder.join(part))));
    }
    Ok(0)
}

/// A tokenizer folder in the format of [`Scratch::tree`].
pub fn tokenizer_folder(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let folder = scratch.tree(bytes, TOKENIZER_FILES)?;
    for class in [None, Some("T5TokenizerFast"), Some("CLIPTokenizer")] {
        encode(scratch, &folder, class);
    }
    scratch.call(|| drop(SpieceModel::find(&folder)));
    Ok(0)
}

fn encode(scratch: &Scratch, place: &Path, class: Option<&str>) {
    let Ok(tokenizer) = scratch.call(|| TextTokenizer::open(place, class, 77)) else {
        return;
    };
    for text in TEXTS {
        if let Ok(ids) = scratch.call(|| tokenizer.encode(text)) {
            assert_eq!(ids.ids.len(), 77);
        }
        scratch.call(|| drop(tokenizer.count(&[WeightedText::plain(text)])));
    }
}

pub fn spiece(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let folder = scratch.tree(b"", &[])?;
    scratch.file("tree/spiece.model", bytes)?;
    if let Ok(Some(model)) = scratch.call(|| SpieceModel::find(&folder)) {
        for text in TEXTS {
            scratch.call(|| drop(model.encode(text)));
        }
    }
    encode(scratch, &folder, None);
    Ok(0)
}

type Shapes = BTreeMap<String, Vec<u64>>;

/// A LoRA and the model it is applied to, as text: `key<TAB>size,size,…` for a tensor of bytes, `#name<TAB>text` for
/// metadata, and a line `---` between LoRA and model.
pub fn lora(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let text = String::from_utf8_lossy(bytes);
    let (lora, model) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let (shapes, notes) = parse(lora);
    let (model, _) = parse(model);
    let path = write_lora(scratch, &shapes, &notes)?;
    scratch.call(|| drop(ModelCatalog::default().card(&path)));
    let Ok(file) = scratch.call(|| LoraFile::read(&path)) else {
        return Ok(0);
    };
    for layer in file.layers.keys() {
        let factor = file.factor(layer);
        assert!(!factor.is_nan(), "the factor of '{layer}' is a number");
    }
    scratch.call(|| drop((LoraInfo::of(&file), LoraOrigin::from_file(&file))));
    let shape_of = |name: &str| model.get(name).cloned();
    let networks = ModelFamily::all()
        .flat_map(|family| [false, true].map(|is_diffusers| lora_target(family, is_diffusers)));
    let networks = networks.chain([CLIP, T5]);
    let tables = networks.map(|network| scratch.call(|| LayerTable::new(network, &shape_of)));
    let tables: Vec<LayerTable> = tables.collect();
    for table in &tables {
        let plan = scratch.call(|| LoraPlan::new(&file, std::slice::from_ref(table)));
        assert!(plan.coverage.applied <= file.num_keys());
        plan.of_network(table.network).for_each(drop);
    }
    for family in ModelFamily::all() {
        if let Ok(plan) = scratch.call(|| fitting_plan(&file, family, &tables)) {
            assert!(!plan.coverage.to_string().is_empty());
        }
    }
    Ok(0)
}

fn parse(half: &str) -> (Shapes, Vec<(&str, &str)>) {
    let (mut shapes, mut notes) = (Shapes::new(), Vec::new());
    for line in half.lines() {
        let (key, value) = line.split_once('\t').unwrap_or((line, ""));
        if let Some(name) = key.strip_prefix('#') {
            notes.push((name, value));
            continue;
        }
        let sizes = value.split(',').filter_map(|size| size.parse().ok());
        let sizes: Vec<u64> = sizes.take(6).collect();
        // The product must fit in any order, also when one size is 0.
        let product = |least| {
            let mut sizes = sizes.iter().map(|&size: &u64| size.max(least));
            sizes.try_fold(8, u64::checked_mul)
        };
        let is_small = product(0).is_some_and(|bits| bits / 8 <= MAX_TENSOR_BYTES);
        if is_small && product(1).is_some() {
            shapes.insert(key.to_owned(), sizes);
        }
    }
    (shapes, notes)
}

fn write_lora(
    scratch: &Scratch,
    shapes: &Shapes,
    notes: &[(&str, &str)],
) -> io::Result<std::path::PathBuf> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let notes: BTreeMap<&str, &str> = notes.iter().copied().collect();
    let notes = notes
        .iter()
        .map(|(name, text)| format!("{}:{}", quoted(name), quoted(text)));
    let mut header = format!(
        "{{\"__metadata__\":{{{}}}",
        notes.collect::<Vec<_>>().join(",")
    );
    let mut start = 0;
    for (key, sizes) in shapes {
        let end = start + sizes.iter().product::<u64>();
        write!(
            header,
            ",{}:{{\"dtype\":\"U8\",\"shape\":{sizes:?},\"data_offsets\":[{start},{end}]}}",
            quoted(key)
        )
        .map_err(io::Error::other)?;
        start = end;
    }
    header.push('}');
    write_safetensors(scratch, "adapter.safetensors", header.as_bytes(), start)
}
