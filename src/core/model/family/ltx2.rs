//! LTX-2.3, video with sound.

use super::info::{FamilyInfo, RecipeKind, TemporalConvPolicy, readable_files};
use crate::model::detection_rules;

/// Noise levels of the distilled model; fewer steps take the first of them.
pub const DISTILLED_SIGMAS: [f32; 8] = [
    1.0, 0.99375, 0.9875, 0.98125, 0.975, 0.909_375, 0.725, 0.421_875,
];

/// Noise levels of the second stage, at twice the edges.
pub const SECOND_STAGE_SIGMAS: [f32; 3] = [0.909_375, 0.725, 0.421_875];

pub(super) static INFO: FamilyInfo = FamilyInfo {
    id: "ltx2",
    label: "LTX-2.3",
    models: "LTX-2.3 distilled",
    makes_images: false,
    names: &["ltx23", "ltx2322b"],
    wan2gp_types: &["ltx2_22B_distilled"],
    has_second_pass: false,
    sigmas: &DISTILLED_SIGMAS,
    guidance_is_cfg: true,
    step_caches: |_| &[],
    time_convolutions: TemporalConvPolicy::Fastest,
    recipe: RecipeKind::Videos,
    // Both streams, of which the sound is half as wide.
    matrices_a_block: |_| 23.0,
    kinds: detection_rules! {
        "ltx2" "transformer" "an LTX-2.3 transformer":
            "audio_prompt_adaln_single.linear.weight", "audio_patchify_proj.weight";
        "ltx2" "transformer" "an LTX-2.3 transformer": "audio_prompt_adaln.linear.weight", "audio_proj_in.weight";
        "ltx2" "text_connectors" "text connectors of LTX-2" as Ltx2Text:
            "video_embeddings_connector.learnable_registers";
        "ltx2" "text_connectors" "a text projection of LTX-2.3" as Ltx2Text:
            "text_embedding_projection.video_aggregate_embed.weight";
        "ltx2" "video_vae" "an LTX-2.3 video VAE" as Ltx2Vae: "decoder.up_blocks.8.res_blocks.0.conv1.conv.weight";
        "ltx2" "audio_vae" "an LTX-2.3 vocoder" as Ltx2Audio: "bwe_generator.conv_pre.weight";
        "ltx2" "audio_vae" "an LTX-2 audio VAE" as Ltx2Audio:
            "decoder.mid.block_1.conv1.conv.weight", "per_channel_statistics.mean-of-means";
        "ltx2" "latent_upscaler" "a latent upscaler of LTX" as LatentUpscaler:
            "initial_conv.weight", "post_upsample_res_blocks.0.conv1.weight";
    },
    instead: readable_files! {
        "transformer": "ltx-2.3-22b-distilled-1.1.safetensors from Lightricks/LTX-2.3";
    },
    ..FamilyInfo::IMAGES
};
