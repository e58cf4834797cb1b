//! FLUX.1's files without weights, from names and shapes that diffusers, transformers and the authors' code have.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::write_json;
use crate::testing::published::{behind, kl_vae_config, shapes_of, shipped};

/// One of the files in `tests/fixtures/headers/flux.json`.
pub(crate) fn shapes(name: &str) -> Shapes {
    shapes_of("flux", name)
}

/// One of the files in `tests/fixtures/headers/framepack.json`.
pub(crate) fn framepack_shapes(name: &str) -> Shapes {
    shapes_of("framepack", name)
}

/// Everything in one file, as ComfyUI saves a checkpoint.
pub(crate) fn all_in_one(transformer: &str) -> Shapes {
    let mut all = behind("model.diffusion_model.", &shapes(transformer));
    all.extend(behind("vae.", &shapes("ae")));
    let clip = "text_encoders.clip_l.transformer.";
    all.extend(behind(clip, &shapes("clip_l")));
    all.insert(format!("{clip}text_projection.weight"), vec![768, 768]);
    all.insert("text_encoders.clip_l.logit_scale".into(), Vec::new());
    let t5 = "text_encoders.t5xxl.transformer.";
    all.extend(behind(t5, &shapes("t5xxl")));
    all.insert("text_encoders.t5xxl.logit_scale".into(), Vec::new());
    all
}

/// ComfyUI's `models` folder with every companion that Flux needs, and no transformer.
pub(crate) fn flux_tree(models: &Path) -> PathBuf {
    write(&models.join("vae/ae.safetensors"), &shapes("ae"), "F32");
    let text = models.join("text_encoders");
    write(&text.join("clip_l.safetensors"), &shapes("clip_l"), "F16");
    let t5 = text.join("t5xxl_fp16.safetensors");
    write(&t5, &shapes("t5xxl"), "F16");
    models.to_owned()
}

/// A diffusers folder of published size.
pub(crate) fn write_folder(folder: &Path, class: &str, transformer: &str) -> PathBuf {
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": class,
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "CLIPTextModel"],
            "text_encoder_2": ["transformers", "T5EncoderModel"],
            "tokenizer": ["transformers", "CLIPTokenizer"],
            "tokenizer_2": ["transformers", "T5TokenizerFast"],
            "transformer": ["diffusers", "FluxTransformer2DModel"],
            "vae": ["diffusers", "AutoencoderKL"],
        }),
    );
    let shapes_of = shapes(&format!("transformer {transformer} diffusers"));
    let channels = shapes_of["x_embedder.weight"][1];
    let transformer = transformer_config(channels, transformer != "schnell");
    let stem = "diffusion_pytorch_model.safetensors";
    for (component, config, stem, shapes) in [
        ("transformer", transformer, stem, shapes_of),
        ("vae", kl_vae_config(), stem, shapes("ae diffusers")),
        (
            "text_encoder",
            clip_config(),
            "model.safetensors",
            shapes("clip_l"),
        ),
        (
            "text_encoder_2",
            t5_config(),
            "model.safetensors",
            shapes("t5xxl"),
        ),
    ] {
        write_json(&folder.join(component).join("config.json"), &config);
        write(&folder.join(component).join(stem), &shapes, "BF16");
    }
    write_json(
        &folder.join("scheduler/scheduler_config.json"),
        &json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0, "use_dynamic_shifting": true}),
    );
    for (component, name) in [("tokenizer", "clip-l"), ("tokenizer_2", "t5-xxl")] {
        std::os::unix::fs::symlink(shipped(name), folder.join(component)).unwrap();
    }
    folder.to_owned()
}

fn transformer_config(channels: u64, guidance: bool) -> Value {
    json!({
        "_class_name": "FluxTransformer2DModel", "in_channels": channels, "out_channels": 64,
        "num_layers": 19, "num_single_layers": 38, "attention_head_dim": 128, "num_attention_heads": 24,
        "joint_attention_dim": 4096, "pooled_projection_dim": 768, "guidance_embeds": guidance,
        "axes_dims_rope": [16, 56, 56],
    })
}

pub(crate) fn clip_config() -> Value {
    json!({
        "model_type": "clip_text_model", "hidden_size": 768, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 49408,
    })
}

pub(crate) fn t5_config() -> Value {
    json!({
        "model_type": "t5", "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64,
        "vocab_size": 32128, "feed_forward_proj": "gated-gelu",
    })
}
