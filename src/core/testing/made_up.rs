//! Weight files of the published shapes without weights: a whole header, and a file that is long but empty.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use serde_json::{Value, json};

use super::pipelines::write_json;
use crate::formats::weights::{TensorEntry, TensorType, WeightSet};
use crate::networks::{
    ClipVisionConfig, T5Config, T5Keys, T5Kind, TensorSpec, TransformerKeys, VaeHalf,
    WanTransformerConfig, WanVaeConfig, WanVaeKeys,
};

/// Name → shape.
pub(crate) type Shapes = BTreeMap<String, Vec<u64>>;

/// The numbers that the published transformers differ in.
#[derive(Clone, Copy)]
pub(crate) struct Dims {
    pub dim: u64,
    pub ffn: u64,
    pub layers: u64,
    pub input: u64,
    pub output: u64,
    pub image: Option<u64>,
    pub places: Option<u64>,
    /// Blocks for a control video.
    pub control: u64,
}

pub(crate) const T2V_1_3B: Dims = Dims {
    dim: 1536,
    ffn: 8960,
    layers: 30,
    input: 16,
    output: 16,
    image: None,
    places: None,
    control: 0,
};
/// Also each expert of Wan 2.2 T2V.
pub(crate) const T2V_14B: Dims = Dims {
    dim: 5120,
    ffn: 13824,
    layers: 40,
    ..T2V_1_3B
};
pub(crate) const VACE_1_3B: Dims = Dims {
    control: 15,
    ..T2V_1_3B
};
/// Also each expert of Wan 2.2 VACE Fun.
pub(crate) const VACE_14B: Dims = Dims {
    control: 8,
    ..T2V_14B
};
pub(crate) const I2V_14B: Dims = Dims {
    input: 36,
    image: Some(1280),
    ..T2V_14B
};
pub(crate) const FLF2V_14B: Dims = Dims {
    places: Some(514),
    ..I2V_14B
};
/// Each expert of Wan 2.2 I2V.
pub(crate) const I2V_EXPERT: Dims = Dims {
    input: 36,
    ..T2V_14B
};
pub(crate) const TI2V_5B: Dims = Dims {
    dim: 3072,
    ffn: 14336,
    layers: 30,
    input: 48,
    output: 48,
    image: None,
    places: None,
    control: 0,
};

pub(crate) fn shapes_of(schema: Vec<TensorSpec>) -> Shapes {
    let count = schema.len();
    let named = schema.into_iter().map(|tensor| (tensor.name, tensor.shape));
    let shapes: Shapes = named.collect();
    assert_eq!(shapes.len(), count, "a name stands twice");
    shapes
}

/// A header with these tensors.
pub(crate) fn header(shapes: &Shapes) -> WeightSet {
    let entries = shapes.iter().map(|(key, shape)| {
        let entry = TensorEntry {
            dtype: TensorType::Plain(Dtype::F32),
            shape: shape.clone(),
            bytes: shape
                .iter()
                .fold(4, |bytes, size| bytes.wrapping_mul(*size)),
            file: 0,
        };
        (key.clone(), entry)
    });
    WeightSet {
        tensors: entries.collect(),
        ..WeightSet::default()
    }
}

/// A transformer in the authors' names.
pub(crate) fn transformer(dims: Dims) -> Shapes {
    let size = |size: u64| i64::try_from(size).unwrap();
    let config = WanTransformerConfig {
        num_attention_heads: 1,
        attention_head_dim: size(dims.dim),
        ffn_dim: size(dims.ffn),
        num_layers: size(dims.layers),
        in_channels: size(dims.input),
        out_channels: size(dims.output),
        image_dim: dims.image.map(size),
        added_kv_proj_dim: dims.image.map(|_| size(dims.dim)),
        pos_embed_seq_len: dims.places.map(size),
        vace_layers: (0..size(dims.control)).collect(),
        ..WanTransformerConfig::default()
    };
    shapes_of(TransformerKeys::bare(false).tensors(&config))
}

/// Shapes with their tensors renamed.
pub(crate) fn renamed(shapes: &Shapes, rename: impl Fn(&str) -> String) -> Shapes {
    let named = shapes.iter();
    named
        .map(|(key, shape)| (rename(key), shape.clone()))
        .collect()
}

/// Shapes with the tensor names of a dialect.
pub(crate) fn in_dialect(shapes: &Shapes, keys: TransformerKeys) -> Shapes {
    renamed(shapes, |key| keys.file_key(key))
}

/// An autoencoder in the authors' names: of Wan 2.2 where there are 48 channels.
pub(crate) fn vae(channels: i64) -> Shapes {
    vae_of(&WanVaeConfig::published(channels), true)
}

/// One in the authors' names or diffusers'.
pub(crate) fn vae_of(config: &WanVaeConfig, is_original: bool) -> Shapes {
    let first = if is_original {
        "decoder.conv1"
    } else {
        "decoder.conv_in"
    };
    let keys = WanVaeKeys::detect([&format!("{first}.weight")[..]].into_iter()).unwrap();
    let halves = VaeHalf::BOTH.map(|half| config.schema(half, &keys));
    shapes_of(halves.concat())
}

/// UMT5-XXL's encoder in transformers' names.
pub(crate) fn umt5() -> Shapes {
    t5_of(&T5Config::xxl(T5Kind::Umt5))
}

/// T5-XXL's encoder: one table of positions for all blocks, and another vocabulary.
pub(crate) fn t5() -> Shapes {
    t5_of(&T5Config::xxl(T5Kind::T5))
}

pub(crate) fn t5_of(config: &T5Config) -> Shapes {
    shapes_of(config.schema(&T5Keys::default()))
}

/// CLIP ViT-H's vision tower.
pub(crate) fn clip_vision() -> Shapes {
    shapes_of(ClipVisionConfig::default().schema("vision_model."))
}

/// Writes a header and a file of the length that it promises, whose data takes no place on the disk.
pub(crate) fn write(path: &Path, shapes: &Shapes, dtype: &'static str) -> PathBuf {
    write_with_tokenizer(path, shapes, dtype, 0)
}

/// A Wan transformer in halves under this name in a folder.
pub(crate) fn wan_in(models: &Path, name: &str, dims: Dims) -> PathBuf {
    write(&models.join(name), &transformer(dims), "F16")
}

/// As [`write`], with a `spiece_model` of so many empty pieces.
pub(crate) fn write_with_tokenizer(
    path: &Path,
    shapes: &Shapes,
    dtype: &'static str,
    num_pieces: usize,
) -> PathBuf {
    write_as(path, shapes, &|_| dtype, num_pieces, &json!({}))
}

/// As [`write_with_tokenizer`], where tensors are of several types and the header has notes.
pub(crate) fn write_as(
    path: &Path,
    shapes: &Shapes,
    dtype_of: &dyn Fn(&str) -> &'static str,
    num_pieces: usize,
    notes: &Value,
) -> PathBuf {
    let spiece = [0x0a, 0].repeat(num_pieces);
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), notes.clone());
    let mut end = spiece.len() as u64;
    if end > 0 {
        let entry = json!({"dtype": "U8", "shape": [end], "data_offsets": [0, end]});
        header.insert("spiece_model".into(), entry);
    }
    for (name, shape) in shapes {
        let dtype = dtype_of(name);
        let size = match dtype {
            "F64" | "I64" => 8,
            "F32" | "I32" | "U32" => 4,
            "F16" | "BF16" | "I16" => 2,
            _ => 1,
        };
        let begin = end;
        end += size * shape.iter().product::<u64>();
        let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, end]});
        header.insert(name.clone(), entry);
    }
    let header = serde_json::to_vec(&header).unwrap();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = File::create(path).unwrap();
    let len = (header.len() as u64).to_le_bytes();
    let start = [&len, &header[..], &spiece].concat();
    file.write_all_at(&start, 0).unwrap();
    file.set_len(8 + header.len() as u64 + end).unwrap();
    path.to_owned()
}

/// Splits tensors into a number of shards with an index.
pub(crate) fn write_shards(folder: &Path, shapes: Shapes, count: usize, dtype: &'static str) {
    let mut parts = vec![Shapes::new(); count];
    let mut map = serde_json::Map::new();
    for (number, (key, shape)) in shapes.into_iter().enumerate() {
        let part = number % count;
        map.insert(key.clone(), json!(shard_name(part, count)));
        parts[part].insert(key, shape);
    }
    for (number, part) in parts.iter().enumerate() {
        write(&folder.join(shard_name(number, count)), part, dtype);
    }
    let index = folder.join("diffusion_pytorch_model.safetensors.index.json");
    write_json(&index, &json!({"metadata": {}, "weight_map": map}));
}

pub(crate) fn shard_name(number: usize, count: usize) -> String {
    format!(
        "diffusion_pytorch_model-0000{}-of-0000{count}.safetensors",
        number + 1
    )
}

/// ComfyUI's `models` folder with every companion that Wan needs, and no transformer.
pub(crate) fn comfy_tree(models: &Path) -> PathBuf {
    write(&models.join("vae/wan_2.1_vae.safetensors"), &vae(16), "F32");
    write(&models.join("vae/wan2.2_vae.safetensors"), &vae(48), "F16");
    let text = models.join("text_encoders/umt5_xxl_fp16.safetensors");
    write_with_tokenizer(&text, &umt5(), "F16", 256_300);
    let vision = models.join("clip_vision/clip_vision_h.safetensors");
    write(&vision, &clip_vision(), "F16");
    models.to_owned()
}
