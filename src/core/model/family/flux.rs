//! FLUX.1.

use super::comfy::{ComfyNodes, ComfyReferences};
use super::info::{FamilyInfo, TinyDecoderRules, readable_files};
use crate::formats::weights::WeightSet;
use crate::model::{GuidanceMode, StepCacheKind, detection_rules};

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "flux",
    label: "Flux",
    models: "FLUX.1 dev, schnell, Fill, Kontext, Depth or Canny",
    names: &["flux"],
    // FLUX.2 and Chroma Radiance are other networks, of which nothing can be restored.
    other_names: &["flux2", "chroma"],
    has_dynamic_shift: true,
    guidance_is_cfg: false,
    step_caches: |_| &StepCacheKind::ALL,
    token_limit: |guidance| Some(text_tokens(guidance)),
    // Nineteen double blocks and thirty-eight single ones.
    matrices_a_block: |_| 22.3,
    has_prompt_weights: true,
    kinds: detection_rules! {
        "flux" "controlnet" "a Flux ControlNet": "controlnet_x_embedder.weight", "context_embedder.weight";
        "flux" "adapter" "a Flux Redux adapter" as Redux: "redux_up.weight", "redux_down.weight";
        "flux" "transformer" "a Flux transformer in the original layout": "double_blocks.0.img_attn.qkv.weight";
        "flux" "transformer" "a Flux transformer":
            "single_transformer_blocks.0.proj_mlp.weight", "x_embedder.weight";
        "flux" "transformer" "a Flux transformer":
            "single_transformer_blocks.0.mlp_fc1.weight", "x_embedder.weight";
        "flux" "vae" "an image VAE in the original layout" as KlVae: "decoder.mid.block_1.conv1.weight";
    },
    published_name,
    instead: readable_files! {
        "transformer": "flux1-dev-fp8.safetensors from Comfy-Org/flux1-dev, or flux1-schnell-fp8.safetensors from Comfy-Org/flux1-schnell";
        "vae": "ae.safetensors from black-forest-labs/FLUX.1-schnell";
    },
    tiny_decoder: TinyDecoderRules::FLUX,
    comfy: Some(&ComfyNodes {
        clip_type: "flux",
        text_encoders: &["clip_l.safetensors", "t5xxl_fp16.safetensors"],
        shift: "ModelSamplingFlux",
        dynamic_shift: Some([0.5, 1.15]),
        references: ComfyReferences::Latents {
            scaled_by: "FluxKontextImageScale",
        },
        ..ComfyNodes::IMAGES
    }),
    ..FamilyInfo::IMAGES
};

/// Tokens of a prompt that T5 reads: 512 in guidance-distilled models, 256 in schnell, which was distilled to few
/// steps and to short prompts.
fn text_tokens(guidance: GuidanceMode) -> u32 {
    match guidance {
        GuidanceMode::None => 256,
        GuidanceMode::Cfg | GuidanceMode::Distilled => 512,
    }
}

/// Published transformers of full size; dev and Kontext differ only in name.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&["img_in.weight", "x_embedder.weight"])?;
    let is_distilled = weights
        .shape_by_end(&[
            "guidance_in.in_layer.weight",
            "time_text_embed.guidance_embedder.linear_1.weight",
        ])
        .is_some();
    Some(match (shape.first()?, shape.get(1)?) {
        (3072, 64) if is_distilled => "FLUX.1 dev",
        (3072, 64) => "FLUX.1 schnell",
        (3072, 384) => "FLUX.1 Fill",
        (3072, 128) => "FLUX.1 control (Canny or Depth)",
        (3072, 196) => "Flex.2",
        _ => return None,
    })
}
