//! Weight files of the published shapes without weights: a whole header, and a file that is long but empty.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::networks::{TransformerConfig as _, TransformerKeys, WanTransformerConfig};

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
    /// Blocks for a control clip.
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

fn add_linear(shapes: &mut Shapes, name: &str, output: u64, input: u64) {
    shapes.insert(format!("{name}.weight"), vec![output, input]);
    shapes.insert(format!("{name}.bias"), vec![output]);
}

fn add_norm(shapes: &mut Shapes, name: &str, width: u64) {
    shapes.insert(format!("{name}.weight"), vec![width]);
    shapes.insert(format!("{name}.bias"), vec![width]);
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
    let schema = config.tensors_in(TransformerKeys::bare(false)).into_iter();
    schema.map(|tensor| (tensor.name, tensor.shape)).collect()
}

/// The same tensors in another dialect.
pub(crate) fn in_dialect(shapes: &Shapes, keys: TransformerKeys) -> Shapes {
    let renamed = shapes.iter();
    renamed
        .map(|(key, shape)| (keys.file_key(key), shape.clone()))
        .collect()
}

/// An autoencoder in the authors' names: of Wan 2.2 where there are 48 channels.
pub(crate) fn vae(channels: u64) -> Shapes {
    let (base, decoder) = if channels == 48 { (160, 256) } else { (96, 96) };
    let dims = VaeDims {
        base,
        decoder,
        channels,
        is_residual: channels == 48,
    };
    vae_of(dims, true)
}

#[derive(Clone, Copy)]
pub(crate) struct VaeDims {
    pub base: u64,
    pub decoder: u64,
    pub channels: u64,
    /// The form of Wan 2.2.
    pub is_residual: bool,
}

/// An autoencoder of four levels in the authors' names or diffusers'.
pub(crate) fn vae_of(dims: VaeDims, is_original: bool) -> Shapes {
    let VaeDims {
        base,
        decoder,
        channels,
        is_residual,
    } = dims;
    let pixels = if is_residual { 12 } else { 3 };
    let mut shapes = Shapes::new();
    let names = |theirs: &str, ours: &str| (if is_original { theirs } else { ours }).to_owned();
    for (name, output, input, edge) in [
        (names("conv1", "quant_conv"), 2 * channels, 2 * channels, 1),
        (names("conv2", "post_quant_conv"), channels, channels, 1),
        (names("encoder.conv1", "encoder.conv_in"), base, pixels, 3),
        (
            names("encoder.head.2", "encoder.conv_out"),
            2 * channels,
            4 * base,
            3,
        ),
        (
            names("decoder.conv1", "decoder.conv_in"),
            4 * decoder,
            channels,
            3,
        ),
        (
            names("decoder.head.2", "decoder.conv_out"),
            pixels,
            decoder,
            3,
        ),
    ] {
        add_conv(&mut shapes, &name, &[output, input, edge, edge, edge]);
    }
    for (half, width, last) in [
        ("encoder", 4 * base, 4 * base),
        ("decoder", 4 * decoder, decoder),
    ] {
        let norm = names(&format!("{half}.head.0"), &format!("{half}.norm_out"));
        shapes.insert(format!("{norm}.gamma"), vec![last, 1, 1, 1]);
        let middle = |theirs: usize, ours: &str| {
            names(
                &format!("{half}.middle.{theirs}"),
                &format!("{half}.mid_block.{ours}"),
            )
        };
        add_residual(
            &mut shapes,
            &middle(0, "resnets.0"),
            [width; 2],
            is_original,
        );
        add_residual(
            &mut shapes,
            &middle(2, "resnets.1"),
            [width; 2],
            is_original,
        );
        let attention = middle(1, "attentions.0");
        shapes.insert(format!("{attention}.norm.gamma"), vec![width, 1, 1]);
        add_conv(
            &mut shapes,
            &format!("{attention}.to_qkv"),
            &[3 * width, width, 1, 1],
        );
        add_conv(
            &mut shapes,
            &format!("{attention}.proj"),
            &[width, width, 1, 1],
        );
    }
    add_levels(&mut shapes, dims, is_original);
    shapes
}

fn add_conv(shapes: &mut Shapes, name: &str, shape: &[u64]) {
    shapes.insert(format!("{name}.weight"), shape.to_vec());
    shapes.insert(format!("{name}.bias"), vec![shape[0]]);
}

fn add_residual(shapes: &mut Shapes, block: &str, [input, output]: [u64; 2], is_original: bool) {
    let names = if is_original {
        [
            "residual.0",
            "residual.2",
            "residual.3",
            "residual.6",
            "shortcut",
        ]
    } else {
        ["norm1", "conv1", "norm2", "conv2", "conv_shortcut"]
    };
    let [norm1, conv1, norm2, conv2, shortcut] = names.map(|name| format!("{block}.{name}"));
    shapes.insert(format!("{norm1}.gamma"), vec![input, 1, 1, 1]);
    shapes.insert(format!("{norm2}.gamma"), vec![output, 1, 1, 1]);
    add_conv(shapes, &conv1, &[output, input, 3, 3, 3]);
    add_conv(shapes, &conv2, &[output, output, 3, 3, 3]);
    if input != output {
        add_conv(shapes, &shortcut, &[output, input, 1, 1, 1]);
    }
}

/// Widths in, within and behind each level, written out; the encoder's and decoder's in units of their bases.
fn add_levels(shapes: &mut Shapes, dims: VaeDims, is_original: bool) {
    let down = [[1, 1, 1], [1, 2, 2], [2, 4, 4], [4, 4, 4]];
    // Twice the width behind each step, as Wan 2.1 halves it there.
    let up = if dims.is_residual {
        [[4, 4, 8], [4, 4, 8], [4, 2, 4], [2, 1, 2]]
    } else {
        [[4, 4, 4], [2, 4, 4], [2, 2, 2], [1, 1, 2]]
    };
    let mut number = 0;
    for (level, [input, output, _]) in down.into_iter().enumerate() {
        for entry in 0..3 {
            let is_step = entry == 2;
            if is_step && level == 3 {
                break;
            }
            let place = match (is_original, dims.is_residual) {
                (true, true) => format!("encoder.downsamples.{level}.downsamples.{entry}"),
                (true, false) => format!("encoder.downsamples.{number}"),
                (false, false) => format!("encoder.down_blocks.{number}"),
                (false, true) if is_step => format!("encoder.down_blocks.{level}.downsampler"),
                (false, true) => format!("encoder.down_blocks.{level}.resnets.{entry}"),
            };
            number += 1;
            let (input, width) = (input * dims.base, output * dims.base);
            if is_step {
                add_step(shapes, &place, [width, width], (level > 0).then_some(width));
            } else {
                let from = if entry == 0 { input } else { width };
                add_residual(shapes, &place, [from, width], is_original);
            }
        }
    }
    number = 0;
    for (level, [input, output, twice_next]) in up.into_iter().enumerate() {
        for entry in 0..4 {
            let is_step = entry == 3;
            if is_step && level == 3 {
                break;
            }
            let place = match (is_original, dims.is_residual) {
                (true, true) => format!("decoder.upsamples.{level}.upsamples.{entry}"),
                (true, false) => format!("decoder.upsamples.{number}"),
                (false, true) if is_step => format!("decoder.up_blocks.{level}.upsampler"),
                (false, false) if is_step => format!("decoder.up_blocks.{level}.upsamplers.0"),
                (false, _) => format!("decoder.up_blocks.{level}.resnets.{entry}"),
            };
            number += 1;
            let (input, width) = (input * dims.decoder, output * dims.decoder);
            if is_step {
                let next = twice_next * dims.decoder / 2;
                add_step(
                    shapes,
                    &place,
                    [width, next],
                    (level < 2).then_some(2 * width),
                );
            } else {
                let from = if entry == 0 { input } else { width };
                add_residual(shapes, &place, [from, width], is_original);
            }
        }
    }
}

/// `time`: what comes out of the convolution over time, where there is one.
fn add_step(shapes: &mut Shapes, place: &str, [width, next]: [u64; 2], time: Option<u64>) {
    add_conv(shapes, &format!("{place}.resample.1"), &[next, width, 3, 3]);
    if let Some(output) = time {
        add_conv(
            shapes,
            &format!("{place}.time_conv"),
            &[output, width, 3, 1, 1],
        );
    }
}

/// UMT5-XXL's encoder in transformers' names.
pub(crate) fn umt5() -> Shapes {
    let mut shapes = Shapes::new();
    shapes.insert("shared.weight".into(), vec![256_384, 4096]);
    shapes.insert("encoder.final_layer_norm.weight".into(), vec![4096]);
    for layer in 0..24 {
        let block = format!("encoder.block.{layer}.layer");
        for (name, shape) in [
            ("0.layer_norm", vec![4096]),
            ("1.layer_norm", vec![4096]),
            ("0.SelfAttention.q", vec![4096, 4096]),
            ("0.SelfAttention.k", vec![4096, 4096]),
            ("0.SelfAttention.v", vec![4096, 4096]),
            ("0.SelfAttention.o", vec![4096, 4096]),
            ("0.SelfAttention.relative_attention_bias", vec![32, 64]),
            ("1.DenseReluDense.wi_0", vec![10240, 4096]),
            ("1.DenseReluDense.wi_1", vec![10240, 4096]),
            ("1.DenseReluDense.wo", vec![4096, 10240]),
        ] {
            shapes.insert(format!("{block}.{name}.weight"), shape);
        }
    }
    shapes
}

/// T5-XXL's encoder: one table of positions for all blocks, and another vocabulary.
pub(crate) fn t5() -> Shapes {
    let mut shapes = umt5();
    shapes.retain(|key, _| !key.contains("relative_attention_bias") || key.contains("block.0."));
    shapes.insert("shared.weight".into(), vec![32_128, 4096]);
    shapes
}

/// CLIP ViT-H's vision tower.
pub(crate) fn clip_vision() -> Shapes {
    let mut shapes = Shapes::new();
    let embeddings = "vision_model.embeddings";
    shapes.insert(
        format!("{embeddings}.patch_embedding.weight"),
        vec![1280, 3, 14, 14],
    );
    shapes.insert(format!("{embeddings}.class_embedding"), vec![1280]);
    shapes.insert(
        format!("{embeddings}.position_embedding.weight"),
        vec![257, 1280],
    );
    for norm in ["pre_layrnorm", "post_layernorm"] {
        add_norm(&mut shapes, &format!("vision_model.{norm}"), 1280);
    }
    for layer in 0..32 {
        let layer = format!("vision_model.encoder.layers.{layer}");
        for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            add_linear(
                &mut shapes,
                &format!("{layer}.self_attn.{part}"),
                1280,
                1280,
            );
        }
        add_linear(&mut shapes, &format!("{layer}.mlp.fc1"), 5120, 1280);
        add_linear(&mut shapes, &format!("{layer}.mlp.fc2"), 1280, 5120);
        add_norm(&mut shapes, &format!("{layer}.layer_norm1"), 1280);
        add_norm(&mut shapes, &format!("{layer}.layer_norm2"), 1280);
    }
    shapes
}

/// Writes a header and a file of the length that it promises, whose data takes no place on the disk.
pub(crate) fn write(path: &Path, shapes: &Shapes, dtype: &'static str) -> PathBuf {
    write_with_tokenizer(path, shapes, dtype, 0)
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
    let start = [
        &(header.len() as u64).to_le_bytes(),
        header.as_slice(),
        &spiece,
    ]
    .concat();
    file.write_all_at(&start, 0).unwrap();
    file.set_len(8 + header.len() as u64 + end).unwrap();
    path.to_owned()
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
