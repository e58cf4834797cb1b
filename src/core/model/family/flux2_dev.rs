//! FLUX.2 dev.

use super::comfy::ComfyNodes;
use super::flux2;
use super::info::{FamilyInfo, readable_files};
use crate::model::detection_rules;

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "flux2_dev",
    label: "FLUX.2 dev",
    models: "FLUX.2 dev",
    names: &["flux2dev"],
    wan2gp_types: &["flux2_dev"],
    guidance_is_cfg: false,
    kinds: detection_rules! {
        "flux2_dev" "transformer" "a FLUX.2 dev transformer in the original layout":
            "double_stream_modulation_img.lin.weight", "guidance_in.in_layer.weight";
        "flux2_dev" "transformer" "a FLUX.2 dev transformer":
            "double_stream_modulation_img.linear.weight",
            "time_guidance_embed.guidance_embedder.linear_1.weight";
    },
    instead: readable_files! {
        "vae": "flux2-vae.safetensors from Comfy-Org/flux2-dev";
        "transformer": "flux2_dev_fp8mixed.safetensors from Comfy-Org/flux2-dev";
    },
    comfy: Some(&ComfyNodes {
        text_encoders: &["mistral_3_small_flux2_bf16.safetensors"],
        ..flux2::NODES
    }),
    ..flux2::INFO
};
