//! Writes a tiny Wan 2.2 TI2V pipeline whose weights are all zero: as complete as a real one, 100 kB.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::made_up::{Shapes, t5_of, vae_of, write};
use crate::catalog::ModelCatalog;
use crate::networks::{TransformerKeys, WanTransformerConfig};
use crate::settings::{AppPaths, Settings};

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

fn transformer_config() -> Value {
    json!({
        "_class_name": "WanTransformer3DModel", "patch_size": [1, 2, 2], "num_attention_heads": 1,
        "attention_head_dim": 8, "in_channels": 4, "out_channels": 4, "text_dim": 6, "freq_dim": 16, "ffn_dim": 12,
        "num_layers": 2, "image_dim": null, "rope_max_seq_len": 64,
    })
}

pub(crate) fn transformer_shapes() -> Shapes {
    let config: WanTransformerConfig = serde_json::from_value(transformer_config()).unwrap();
    let tensors = TransformerKeys::bare(true).tensors(&config).into_iter();
    tensors.map(|tensor| (tensor.name, tensor.shape)).collect()
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
        &transformer_config(),
    );
    let vae = json!({
        "_class_name": "AutoencoderKLWan", "base_dim": 2, "decoder_base_dim": 4, "z_dim": 4,
        "latents_mean": vec![0.0; 4], "latents_std": vec![1.0; 4],
        "dim_mult": [1, 2, 4, 4], "temperal_downsample": [false, true, true], "is_residual": true,
        "in_channels": 12, "out_channels": 12, "patch_size": 2,
    });
    write_json(&folder.join("vae/config.json"), &vae);
    let text = json!({
        "model_type": "umt5", "d_model": 6, "d_kv": 5, "d_ff": 9, "num_layers": 2, "num_heads": 2, "vocab_size": 20,
        "feed_forward_proj": "gated-gelu",
    });
    write_json(&folder.join("text_encoder/config.json"), &text);
    let pieces: Vec<Value> = (0..18).map(|n| json!([format!("p{n}"), -1.0])).collect();
    write_json(
        &folder.join("tokenizer/tokenizer.json"),
        &json!({
            "model": {"type": "Unigram", "vocab": pieces},
            "added_tokens": [{"id": 19, "content": "<extra>"}],
        }),
    );
    let vae = vae_of(&serde_json::from_value(vae).unwrap(), false);
    let text = t5_of(&serde_json::from_value(text).unwrap());
    for (file, shapes) in [
        ("transformer/diffusion_pytorch_model", transformer_shapes()),
        ("vae/diffusion_pytorch_model", vae),
        ("text_encoder/model", text),
    ] {
        let file = folder.join(file).with_extension("safetensors");
        write(&file, &shapes, "F32");
    }
    folder.to_owned()
}

/// Settings with which models are searched in these folders.
pub(crate) fn searching(folders: &[&Path]) -> Settings {
    let mut settings = Settings::default();
    settings.models.folders = folders.iter().map(|&path| path.to_owned()).collect();
    settings
}

/// The models of a user who keeps them in these folders.
pub(crate) fn catalog_in(folders: &[&Path]) -> ModelCatalog {
    ModelCatalog::load(&user().1, &searching(folders))
}

/// A user without anything, in a folder of its own.
pub(crate) fn user() -> (tempfile::TempDir, AppPaths) {
    let root = tempfile::tempdir().unwrap();
    let paths = AppPaths::under(root.path());
    (root, paths)
}
