//! Weight files, LoRAs, the folders of models, and tokenizers.
//!
//! Weights are zeros that take no room, so a file of a few kilobytes can say that it has gigabytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use safelight_core::catalog::Catalog;
use safelight_core::families::{
    Family, chroma, flux, flux2, framepack, krea2, qwen_image, wan, z_image,
};
use safelight_core::formats::weights::gguf::{Element, Value};
use safelight_core::formats::weights::header::Header;
use safelight_core::lora::{CLIP, LoraCard, LoraFile, Origin, Plan, T5, Table, fitting_plan};
use safelight_core::model::ModelSpec;
use safelight_core::networks::{IfnetConfig, UpscalerConfig};
use safelight_core::tokens::{SpieceModel, TextTokenizer};

use crate::scratch::Scratch;

/// Of one tensor of a LoRA.
const MAX_TENSOR_BYTES: u64 = 1 << 30;
/// Behind a GGUF's header.
const GGUF_DATA_BYTES: u64 = 1 << 20;
/// What stands in prompts, and what makes tokenizers stumble.
const TEXTS: [&str; 3] = [
    "a red fox, 8k",
    "  \u{e9}\u{301}\u{fb01} <extra_id_0></s>\u{1f98a}\u{200b}\u{5c0f}\u{72d0} it's\t\r\n",
    "",
];

pub const SAFETENSORS: &[&str] = &[
    "\"__metadata__\"",
    "\"dtype\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"F32\"",
    "\"BF16\"",
    "\"F8_E4M3\"",
    "\"U8\"",
    "\"F4\"",
    "[0,0]",
    "\"format\"",
    "\"_quantization_metadata\"",
    "\"comfy_quant\"",
    ".scale_weight",
    ".weight_scale",
    "scaled_fp8",
    "spiece_model",
    "patch_embedding.weight",
    "blocks.0.",
    "double_blocks.0.",
    "encoder.block.0.",
    "text_model.",
    "vision_model.",
    "decoder.conv_in.weight",
    "{\"a\":",
    "[[[[[[[[",
];
pub const GGUF: &[&str] = &[
    "GGUF",
    "general.architecture",
    "general.alignment",
    "split.count",
    "comfy.gguf.orig_shape.",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.model",
    "t5encoder",
    "llama",
    "qwen2",
    "blk.0.attn_norm.weight",
    "token_embd.weight",
    "\u{9}\0\0\0",
    "\u{8}\0\0\0",
];
pub const LORA: &[&str] = &[
    "lora_unet_",
    "lora_te1_",
    ".lora_down.weight",
    ".lora_up.weight",
    ".lora_A.weight",
    ".lora_B.weight",
    ".alpha",
    ".diff",
    ".diff_b",
    ".diff_m",
    ".dora_scale",
    ".hada_w1_a",
    ".hada_w1_b",
    ".hada_w2_a",
    ".hada_w2_b",
    ".lokr_w1",
    ".lokr_w1_a",
    ".lokr_w1_b",
    ".lokr_w2",
    ".lokr_w2_a",
    ".lokr_w2_b",
    "diffusion_model.",
    "transformer.",
    "\n---\n",
    "#lora_adapter_metadata",
    "#ss_network_args",
    "blocks_0_self_attn_q",
    "double_blocks.0.img_attn.qkv",
    "single_blocks.0.linear1",
    "distilled_guidance_layer.layers.0.in_layer",
    "double_stream_modulation_img.lin",
    "single_transformer_blocks.0.attn.to_qkv_mlp_proj",
    "txtfusion.layerwise_blocks.0.attn.wq",
    "transformer_blocks.0.img_mlp.net.0.proj",
    "noise_refiner.0.attention.to_q",
    ",0,",
    "\t",
    "\n",
];
pub const CONFIG: &[&str] = &[
    "\"_class_name\"",
    "\"num_layers\"",
    "\"patch_size\"",
    "\"in_channels\"",
    "\"block_out_channels\"",
    "\"scaling_factor\"",
    "\"architectures\"",
    "\"hidden_size\"",
    "\"vocab_size\"",
    "\"weight_map\"",
    "null",
    "-1",
    "1e308",
    "0",
    "[]",
    "{}",
    "1048576",
    "9223372036854775807",
    "[[[[[[[[",
    "\n=== vae/config.json\n",
    "\n=== transformer/config.json\n",
];
pub const TOKENIZER: &[&str] = &[
    "\"model\"",
    "\"vocab\"",
    "\"merges\"",
    "\"BPE\"",
    "\"Unigram\"",
    "\"WordPiece\"",
    "\"WordLevel\"",
    "\"unk_id\"",
    "\"added_tokens\"",
    "\"normalizer\"",
    "\"Sequence\"",
    "\"Replace\"",
    "\"Regex\"",
    "\"Precompiled\"",
    "\"precompiled_charsmap\"",
    "\"pre_tokenizer\"",
    "\"ByteLevel\"",
    "\"Metaspace\"",
    "\"post_processor\"",
    "\"TemplateProcessing\"",
    "\"decoder\"",
    "\"truncation\"",
    "\"padding\"",
    "null",
    "(a+)+$",
    "-1",
    "4294967295",
    "1e308",
    "\n=== merges.txt\n",
    "\n=== tokenizer_config.json\n",
    "\"T5TokenizerFast\"",
    "\"CLIPTokenizer\"",
];

/// The files of a diffusers folder that are read before weights are.
const MODEL_FILES: &[&str] = &[
    "model_index.json",
    "transformer/config.json",
    "transformer/diffusion_pytorch_model.safetensors.index.json",
    "transformer_2/config.json",
    "vae/config.json",
    "text_encoder/config.json",
    "text_encoder_2/config.json",
    "text_encoder/model.safetensors.index.json",
    "image_encoder/config.json",
    "image_processor/preprocessor_config.json",
    "feature_extractor/preprocessor_config.json",
    "scheduler/scheduler_config.json",
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
    "tokenizer/vocab.json",
    "tokenizer/merges.txt",
    "tokenizer_2/tokenizer.json",
];
/// Weight files of the folder that are there when their headers are given.
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

/// A line with the number of bytes of data, then the header, whose length is put right.
pub fn safetensors_header(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let data = String::from_utf8_lossy(&bytes[..end]);
    let header = bytes.get(end + 1..).unwrap_or_default();
    let path = write_safetensors(
        scratch,
        "x.safetensors",
        header,
        data.trim().parse().unwrap_or(0),
    )?;
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
    let Ok((file, header)) = Header::open(&path) else {
        return Ok(0);
    };
    for key in ["tokenizer.ggml.tokens", "tokenizer.ggml.scores", "a"] {
        let Some((metadata, Value::List(list))) = header
            .gguf
            .as_ref()
            .and_then(|it| Some((it, it.value(key)?)))
        else {
            continue;
        };
        if list.element == Element::Text {
            let mut count = 0;
            let read = scratch.call(|| metadata.each_text(&file, *list, |_| count += 1));
            assert!(read.is_err() || count == list.count);
        } else {
            scratch.call(|| drop(metadata.list_bytes(&file, *list)));
        }
    }
    Ok(0)
}

/// The header, the identity card of the whole, and what jobs on finished pictures and clips make of it.
fn weights(scratch: &Scratch, path: &Path) {
    if let Ok((_, header)) = scratch.call(|| Header::open(path)) {
        let mut bytes = 0_u64;
        for (name, info) in header.tensors() {
            let end = info.start.checked_add(info.bytes).expect("a tensor ends");
            let is_within = info.bytes == 0 || end <= header.file_bytes;
            assert!(is_within, "'{name}' lies within the file");
            bytes = bytes.saturating_add(info.bytes);
        }
        assert_eq!(bytes, header.data_bytes());
    }
    scratch.call(|| drop(Catalog::default().card(path)));
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

/// The files of a diffusers folder, as [`Scratch::tree`] has them.
pub fn model_folder(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let names = [MODEL_FILES, MODEL_WEIGHTS].concat();
    let folder = scratch.tree(bytes, &names)?;
    for name in MODEL_WEIGHTS {
        let Ok(header) = std::fs::read(folder.join(name)) else {
            continue;
        };
        write_safetensors(scratch, &format!("tree/{name}"), &header, 0)?;
    }
    scratch.call(|| drop(Catalog::default().card(&folder)));
    scratch.call(|| drop(ModelSpec::open(&folder)));
    for part in ["transformer", "vae", "text_encoder"] {
        scratch.call(|| drop(Catalog::default().card(&folder.join(part))));
    }
    Ok(0)
}

/// The files of a tokenizer, as [`Scratch::tree`] has them.
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
        scratch.call(|| drop(tokenizer.count(text)));
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

/// A LoRA and the model that it is tried on, as text: `key<TAB>size,size,…` for a tensor of bytes, `#name<TAB>text` for a
/// note, and a line `---` between the two.
pub fn lora(scratch: &Scratch, bytes: &[u8]) -> io::Result<u64> {
    let text = String::from_utf8_lossy(bytes);
    let (lora, model) = text.split_once("\n---\n").unwrap_or((&text, ""));
    let (shapes, notes) = parse(lora);
    let (model, _) = parse(model);
    let path = write_lora(scratch, &shapes, &notes)?;
    scratch.call(|| drop(Catalog::default().card(&path)));
    let Ok(file) = scratch.call(|| LoraFile::read(&path)) else {
        return Ok(0);
    };
    for layer in file.layers.keys() {
        let factor = file.factor(layer);
        assert!(!factor.is_nan(), "the factor of '{layer}' is a number");
    }
    scratch.call(|| drop((LoraCard::of(&file), Origin::of(&file))));
    let shape_of = |name: &str| model.get(name).cloned();
    let networks = [
        wan::lora::NETWORK,
        flux::lora::network(false),
        flux::lora::network(true),
        framepack::lora::network(false),
        framepack::lora::network(true),
        chroma::lora::NETWORK,
        flux2::lora::network(false),
        flux2::lora::network(true),
        krea2::lora::NETWORK,
        qwen_image::lora::NETWORK,
        z_image::lora::NETWORK,
        CLIP,
        T5,
    ];
    let tables = networks.map(|network| scratch.call(|| Table::new(network, "", &shape_of)));
    for table in &tables {
        let plan = scratch.call(|| Plan::new(&file, std::slice::from_ref(table)));
        assert!(plan.coverage.applied <= file.num_keys());
        plan.of_network(table.network).for_each(drop);
    }
    for family in Family::all() {
        if let Ok(plan) = scratch.call(|| fitting_plan(&file, family, &tables)) {
            assert!(!plan.coverage.to_string().is_empty());
        }
    }
    Ok(0)
}

/// Tensors and notes of one half.
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
        // As headers have it: the sizes can be multiplied in any order, whether or not one is 0.
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
