//! FLUX.2 klein.

use super::comfy::{ComfyNodes, ComfyReferences};
use super::info::{FamilyInfo, readable_files};
use crate::model::detection_rules;

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "flux2",
    label: "FLUX.2",
    models: "FLUX.2 klein 4B or 9B",
    names: &["klein"],
    other_names: &["flux3"],
    wan2gp_types: &["flux2_klein"],
    has_dynamic_shift: true,
    // 26 in a double block, 13 in a single one; what all share is spread over them.
    matrices_a_block: |_| 16.5,
    kinds: detection_rules! {
        "flux2" "transformer" "a FLUX.2 transformer in the original layout": "double_stream_modulation_img.lin.weight";
        "flux2" "transformer" "a FLUX.2 transformer": "double_stream_modulation_img.linear.weight";
        "flux2" "vae" "a FLUX.2 VAE" as KlVae: "bn.running_mean", "decoder.conv_in.weight";
    },
    // Distilled and base differ only in name.
    published_name: |weights| {
        let shape = weights.shape_by_end(&["txt_in.weight", "context_embedder.weight"])?;
        Some(match (shape.first()?, shape.get(1)?) {
            (3072, 7680) => "FLUX.2 klein 4B",
            (4096, 12_288) => "FLUX.2 klein 9B",
            (6144, 15_360) => "FLUX.2 dev",
            _ => return None,
        })
    },
    instead: readable_files! {
        "vae": "flux2-vae.safetensors from Comfy-Org/flux2-dev";
        "transformer": "flux-2-klein-4b.safetensors from black-forest-labs/FLUX.2-klein-4B, or flux-2-klein-9b.safetensors from black-forest-labs/FLUX.2-klein-9B";
    },
    comfy: Some(&NODES),
    ..FamilyInfo::IMAGES
};

pub(super) const NODES: ComfyNodes = ComfyNodes {
    clip_type: "flux2",
    text_encoders: &["qwen_3_4b.safetensors"],
    vae: "flux2-vae.safetensors",
    latents: "EmptyFlux2LatentImage",
    shift: "ModelSamplingFlux",
    scheduler: Some("Flux2Scheduler"),
    references: ComfyReferences::Latents {
        scaled_by: "ImageScaleToTotalPixels",
    },
    ..ComfyNodes::IMAGES
};
