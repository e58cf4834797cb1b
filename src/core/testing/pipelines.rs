//! Writes a tiny Wan 2.2 TI2V pipeline whose weights are all zero: as complete as a real one, 100 kB.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::made_up::{VaeDims, vae_of};
use crate::settings::AppPaths;

pub(crate) const DIM: usize = 8;
pub(crate) const TEXT_DIM: usize = 6;
pub(crate) const CHANNELS: usize = 4;

pub(crate) type Shapes = BTreeMap<String, Vec<usize>>;

/// A safetensors file of zeros.
pub(crate) fn write_weights(path: &Path, shapes: &Shapes) {
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, shape) in shapes {
        let begin = end;
        end += 4 * shape.iter().product::<usize>();
        header.insert(
            name.clone(),
            json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}),
        );
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.resize(bytes.len() + end, 0);
    fs::write(path, bytes).unwrap();
}

pub(crate) fn write_json(path: &Path, value: &Value) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, serde_json::to_vec_pretty(value).unwrap()).unwrap();
}

/// Changes a JSON file.
pub(crate) fn edit_json(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    edit(&mut value);
    write_json(path, &value);
}

fn add_linear(shapes: &mut Shapes, name: &str, output: usize, input: usize) {
    shapes.insert(format!("{name}.weight"), vec![output, input]);
    shapes.insert(format!("{name}.bias"), vec![output]);
}

pub(crate) fn transformer_shapes() -> Shapes {
    let mut shapes = Shapes::new();
    shapes.insert(
        "patch_embedding.weight".into(),
        vec![DIM, CHANNELS, 1, 2, 2],
    );
    shapes.insert("patch_embedding.bias".into(), vec![DIM]);
    let embedder = "condition_embedder";
    add_linear(
        &mut shapes,
        &format!("{embedder}.time_embedder.linear_1"),
        DIM,
        16,
    );
    add_linear(
        &mut shapes,
        &format!("{embedder}.time_embedder.linear_2"),
        DIM,
        DIM,
    );
    add_linear(&mut shapes, &format!("{embedder}.time_proj"), 6 * DIM, DIM);
    add_linear(
        &mut shapes,
        &format!("{embedder}.text_embedder.linear_1"),
        DIM,
        TEXT_DIM,
    );
    add_linear(
        &mut shapes,
        &format!("{embedder}.text_embedder.linear_2"),
        DIM,
        DIM,
    );
    for layer in 0..2 {
        let block = format!("blocks.{layer}");
        for attention in ["attn1", "attn2"] {
            for part in ["to_q", "to_k", "to_v", "to_out.0"] {
                add_linear(
                    &mut shapes,
                    &format!("{block}.{attention}.{part}"),
                    DIM,
                    DIM,
                );
            }
            for norm in ["norm_q", "norm_k"] {
                shapes.insert(format!("{block}.{attention}.{norm}.weight"), vec![DIM]);
            }
        }
        for end in ["weight", "bias"] {
            shapes.insert(format!("{block}.norm2.{end}"), vec![DIM]);
        }
        add_linear(&mut shapes, &format!("{block}.ffn.net.0.proj"), 12, DIM);
        add_linear(&mut shapes, &format!("{block}.ffn.net.2"), DIM, 12);
        shapes.insert(format!("{block}.scale_shift_table"), vec![1, 6, DIM]);
    }
    shapes.insert("scale_shift_table".into(), vec![1, 2, DIM]);
    add_linear(&mut shapes, "proj_out", 4 * CHANNELS, DIM);
    shapes
}

fn vae_shapes() -> Shapes {
    let dims = VaeDims {
        base: 2,
        decoder: 4,
        channels: CHANNELS as u64,
        is_residual: true,
    };
    let shapes = vae_of(dims, false).into_iter();
    shapes
        .map(|(key, shape)| (key, shape.into_iter().map(|n| n as usize).collect()))
        .collect()
}

fn text_shapes() -> Shapes {
    let mut shapes = Shapes::new();
    shapes.insert("shared.weight".into(), vec![20, TEXT_DIM]);
    shapes.insert("encoder.final_layer_norm.weight".into(), vec![TEXT_DIM]);
    for layer in 0..2 {
        let block = format!("encoder.block.{layer}.layer");
        for norm in ["0.layer_norm", "1.layer_norm"] {
            shapes.insert(format!("{block}.{norm}.weight"), vec![TEXT_DIM]);
        }
        for part in ["q", "k", "v"] {
            let key = format!("{block}.0.SelfAttention.{part}.weight");
            shapes.insert(key, vec![10, TEXT_DIM]);
        }
        shapes.insert(
            format!("{block}.0.SelfAttention.o.weight"),
            vec![TEXT_DIM, 10],
        );
        let bias = format!("{block}.0.SelfAttention.relative_attention_bias.weight");
        shapes.insert(bias, vec![32, 2]);
        for part in ["wi_0", "wi_1"] {
            let key = format!("{block}.1.DenseReluDense.{part}.weight");
            shapes.insert(key, vec![9, TEXT_DIM]);
        }
        shapes.insert(
            format!("{block}.1.DenseReluDense.wo.weight"),
            vec![TEXT_DIM, 9],
        );
    }
    shapes
}

/// Writes the pipeline into `folder`, which is made.
pub(crate) fn write_pipeline(folder: &Path) -> PathBuf {
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": "WanPipeline", "expand_timesteps": true, "boundary_ratio": null,
            "scheduler": ["diffusers", "UniPCMultistepScheduler"],
            "text_encoder": ["transformers", "UMT5EncoderModel"],
            "tokenizer": ["transformers", "T5TokenizerFast"],
            "transformer": ["diffusers", "WanTransformer3DModel"],
            "transformer_2": [null, null],
            "vae": ["diffusers", "AutoencoderKLWan"],
        }),
    );
    write_json(
        &folder.join("scheduler/scheduler_config.json"),
        &json!({
            "_class_name": "UniPCMultistepScheduler", "prediction_type": "flow_prediction", "use_flow_sigmas": true,
            "flow_shift": 5.0,
        }),
    );
    write_json(
        &folder.join("transformer/config.json"),
        &json!({
            "_class_name": "WanTransformer3DModel", "patch_size": [1, 2, 2], "num_attention_heads": 1,
            "attention_head_dim": 8, "in_channels": CHANNELS, "out_channels": CHANNELS,
            "text_dim": TEXT_DIM, "freq_dim": 16, "ffn_dim": 12, "num_layers": 2,
            "image_dim": null, "rope_max_seq_len": 64,
        }),
    );
    write_json(
        &folder.join("vae/config.json"),
        &json!({
            "_class_name": "AutoencoderKLWan", "base_dim": 2, "decoder_base_dim": 4, "z_dim": CHANNELS,
            "latents_mean": vec![0.0; CHANNELS], "latents_std": vec![1.0; CHANNELS],
            "dim_mult": [1, 2, 4, 4], "temperal_downsample": [false, true, true], "is_residual": true,
            "in_channels": 12, "out_channels": 12, "patch_size": 2,
        }),
    );
    write_json(
        &folder.join("text_encoder/config.json"),
        &json!({
            "model_type": "umt5", "d_model": TEXT_DIM, "d_kv": 5, "d_ff": 9, "num_layers": 2,
            "num_heads": 2, "vocab_size": 20, "feed_forward_proj": "gated-gelu",
        }),
    );
    let pieces: Vec<Value> = (0..18).map(|n| json!([format!("p{n}"), -1.0])).collect();
    write_json(
        &folder.join("tokenizer/tokenizer.json"),
        &json!({
            "model": {"type": "Unigram", "vocab": pieces},
            "added_tokens": [{"id": 19, "content": "<extra>"}],
        }),
    );
    let weights = "diffusion_pytorch_model.safetensors";
    write_weights(
        &folder.join("transformer").join(weights),
        &transformer_shapes(),
    );
    write_weights(&folder.join("vae").join(weights), &vae_shapes());
    write_weights(
        &folder.join("text_encoder/model.safetensors"),
        &text_shapes(),
    );
    folder.to_owned()
}

/// Splits the transformer's weights into two shards with an index.
pub(crate) fn shard_transformer(folder: &Path) {
    let folder = folder.join("transformer");
    fs::remove_file(folder.join("diffusion_pytorch_model.safetensors")).unwrap();
    let mut parts = [Shapes::new(), Shapes::new()];
    let mut map = serde_json::Map::new();
    for (number, (name, shape)) in transformer_shapes().into_iter().enumerate() {
        map.insert(name.clone(), json!(shard_name(number % 2)));
        parts[number % 2].insert(name, shape);
    }
    for (number, part) in parts.iter().enumerate() {
        write_weights(&folder.join(shard_name(number)), part);
    }
    write_json(
        &folder.join("diffusion_pytorch_model.safetensors.index.json"),
        &json!({"metadata": {"total_size": 0}, "weight_map": map}),
    );
}

pub(crate) fn shard_name(number: usize) -> String {
    format!(
        "diffusion_pytorch_model-0000{}-of-00002.safetensors",
        number + 1
    )
}

/// A user without anything, in a folder of its own.
pub(crate) fn user() -> (tempfile::TempDir, AppPaths) {
    let root = tempfile::tempdir().unwrap();
    let paths = AppPaths::under(root.path());
    (root, paths)
}
