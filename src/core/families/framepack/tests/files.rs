//! FramePack's files without weights, in the layouts that users have them in.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::families::flux::tests::files::{clip_config, framepack_shapes, shapes};
use crate::testing::made_up::write;
use crate::testing::pipelines::write_json;
use crate::testing::published::shipped;

/// A tokenizer with as many ids as Llama 3 has.
pub(crate) fn write_llama_tokenizer(folder: &Path) {
    let last = json!({"model": {"type": "BPE", "vocab": {"a": 0, "z": 128_257}, "merges": []}});
    write_json(&folder.join("tokenizer.json"), &last);
}

/// ComfyUI's `models` folder with every companion that FramePack needs, and no transformer.
pub(crate) fn framepack_tree(models: &Path) -> PathBuf {
    let vae = models.join("vae/hunyuan_video_vae_bf16.safetensors");
    write(&vae, &framepack_shapes("vae comfy"), "BF16");
    let text = models.join("text_encoders");
    let llama = text.join("llava_llama3_fp16.safetensors");
    write(&llama, &framepack_shapes("llama"), "F16");
    write_llama_tokenizer(&text.join("llama-3"));
    write(&text.join("clip_l.safetensors"), &shapes("clip_l"), "F16");
    let vision = models.join("clip_vision/sigclip_vision_patch14_384.safetensors");
    write(&vision, &framepack_shapes("siglip"), "F16");
    models.to_owned()
}

pub(crate) fn transformer_in(models: &Path, name: &str) -> PathBuf {
    let place = models.join(format!("diffusion_models/{name}.safetensors"));
    write(&place, &framepack_shapes("transformer diffusers"), "BF16")
}

/// The parts of HunyuanVideo's repository that FramePack fetches, in its folder.
pub(crate) fn write_parts(folder: &Path) {
    let llama = json!({
        "architectures": ["LlamaModel"], "model_type": "llama", "vocab_size": 128_320,
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8,
    });
    let vae = json!({"_class_name": "AutoencoderKLHunyuanVideo"});
    let (model, diffusion) = ("model.safetensors", "diffusion_pytorch_model.safetensors");
    for (part, config, name, shapes) in [
        ("text_encoder", llama, model, framepack_shapes("llama")),
        ("text_encoder_2", clip_config(), model, shapes("clip_l")),
        ("vae", vae, diffusion, framepack_shapes("vae diffusers")),
    ] {
        write_json(&folder.join(part).join("config.json"), &config);
        write(&folder.join(part).join(name), &shapes, "F16");
    }
    write_llama_tokenizer(&folder.join("tokenizer"));
    let clip = folder.join("tokenizer_2");
    fs::create_dir_all(&clip).unwrap();
    for name in ["vocab.json", "merges.txt"] {
        fs::copy(shipped("clip-l").join(name), clip.join(name)).unwrap();
    }
}

pub(crate) fn write_siglip(folder: &Path) {
    let weights = folder.join("image_encoder/model.safetensors");
    write(&weights, &framepack_shapes("siglip"), "F16");
    write_json(
        &folder.join("image_encoder/config.json"),
        &json!({
            "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
            "num_hidden_layers": 27, "num_attention_heads": 16, "image_size": 384, "patch_size": 14,
        }),
    );
    let processor = folder.join("feature_extractor/preprocessor_config.json");
    write_json(&processor, &json!({"size": {"height": 384, "width": 384}}));
}

pub(crate) fn write_transformer(folder: &Path, class: &str) {
    let name = "diffusion_pytorch_model.safetensors";
    let shapes = framepack_shapes("transformer diffusers");
    write(&folder.join(name), &shapes, "BF16");
    write_json(
        &folder.join("config.json"),
        &json!({
            "_class_name": class, "has_image_proj": true, "has_clean_x_embedder": true,
            "rope_axes_dim": [16, 56, 56],
        }),
    );
}

pub(crate) fn write_folder(folder: &Path) {
    let class = "HunyuanVideoFramepackTransformer3DModel";
    write_transformer(&folder.join("transformer"), class);
    write_parts(folder);
    write_siglip(folder);
    write_json(
        &folder.join("scheduler/scheduler_config.json"),
        &json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 7.0}),
    );
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": "HunyuanVideoFramepackPipeline",
            "feature_extractor": ["transformers", "SiglipImageProcessor"],
            "image_encoder": ["transformers", "SiglipVisionModel"],
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "LlamaModel"],
            "text_encoder_2": ["transformers", "CLIPTextModel"],
            "tokenizer": ["transformers", "LlamaTokenizerFast"],
            "tokenizer_2": ["transformers", "CLIPTokenizer"],
            "transformer": ["diffusers", class],
            "vae": ["diffusers", "AutoencoderKLHunyuanVideo"],
        }),
    );
}
