//! Wan 2.1 and 2.2: clips from text, from pictures, from other clips, and after control clips.

mod experts;
mod files;
pub mod lora;
mod memory;
mod names;
mod parts;
#[cfg(test)]
mod tests;
mod transformer;
mod variant;

use super::{FamilyDef, FileRules, ModelFamily, TemporalConvPolicy, TinyDecoderRules};
use crate::formats::weights::WeightSet;
use crate::job::{GenerateRequest, Stage, StepCacheKind};
use crate::networks::TransformerKeys;
use crate::networks::{DetectionRule, PartKind};
use crate::tokens::{TextReader, TextRule};
use variant::WanVariant;

pub const FAMILY: ModelFamily = ModelFamily::new(&DEF);

/// Tokens of a prompt, padding included.
pub const TEXT_TOKENS: u32 = 512;

pub(super) static DEF: FamilyDef = FamilyDef {
    id: "wan",
    label: "Wan",
    models: "Wan 2.1 or 2.2 text-to-video, image-to-video or VACE",
    makes_pictures: false,
    clip_strength: |variant| WanVariant::named(variant)?.clip_strength(),
    has_second_pass: true,
    has_dynamic_shift: false,
    guidance_is_cfg: true,
    step_caches: |spec| {
        WanVariant::named(&spec.variant)
            .map_or(StepCacheKind::OF_ANY_MODEL, WanVariant::step_caches)
    },
    token_limit: |_| None,
    time_convolutions: TemporalConvPolicy::Fastest,
    vae_in_f16: false,
    trained_sizes: &[],
    recipe,
    text_readers: |spec| {
        vec![TextReader::first(
            spec,
            "UMT5",
            TEXT_TOKENS,
            TextRule::CleanedForWan,
        )]
    },
    networks: memory::networks,
    needs: memory::needs,
    published: memory::published,
    // The encoder half of UMT5.
    text_encoder_weights: [5_700_000_000, 0],
    matrices_a_block: |width| {
        if width > 4000.0 {
            13.4
        } else if width > 2500.0 {
            17.3
        } else {
            19.7
        }
    },
    is_named: |name| {
        [
            "wan2", "wanv2", "wanvideo", "want2v", "wani2v", "wanti2v", "wanmoe",
        ]
        .iter()
        .any(|word| name.contains(word))
    },
    wan2gp_types: &["t2v", "i2v", "ti2v_2_2", "flf2v", "fun_inp", "vace"],
    files: FileRules {
        owns_pipeline: |class| class.starts_with("Wan"),
        check_folder: files::check_folder,
        has_transformer: |weights| TransformerKeys::detect(|key| weights.has(key)).is_some(),
        assemble: |place, _, companions, library| experts::assemble(place, companions, library),
        variant_at: transformer::variant_at,
        are_experts: experts::are_experts,
        boundary_of: |name| {
            let is_i2v = name.contains("i2v");
            let variant = if is_i2v {
                WanVariant::I2vA14b
            } else {
                WanVariant::T2vA14b
            };
            variant.boundary_ratio()
        },
        is_published_part: files::is_published_part,
        kinds: &[
            DetectionRule::transformer(
                "wan",
                "a Wan transformer",
                &[
                    "condition_embedder.time_proj.weight",
                    "patch_embedding.weight",
                ],
            ),
            DetectionRule::transformer(
                "wan",
                "a Wan transformer in the original layout",
                &["time_projection.1.weight", "patch_embedding.weight"],
            ),
            DetectionRule::transformer(
                "wan",
                "a Wan transformer in the original layout",
                &["blocks.0.self_attn.q.weight", "patch_embedding.weight"],
            ),
            DetectionRule::new("wan", "vae", "a Wan VAE", &["decoder.norm_out.gamma"])
                .of(PartKind::WanVae),
            DetectionRule::new(
                "wan",
                "vae",
                "a Wan VAE in the original layout",
                &["decoder.middle.0.residual.0.gamma"],
            )
            .of(PartKind::WanVae),
        ],
        published_name,
        instead: |kind| {
            let is = |part: &str| kind.text.contains(part);
            Some(match kind.role {
                "transformer" if is("VACE 1.3B") => {
                    "wan2.1_vace_1.3B_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged"
                }
                "transformer" if is("VACE 14B") => {
                    "wan2.1_vace_14B_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged"
                }
                "transformer" if is("T2V 1.3B") => {
                    "wan2.1_t2v_1.3B_fp16.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged"
                }
                "transformer" if is("2.1 I2V") => {
                    "wan2.1_i2v_480p_14B_fp8_scaled.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged"
                }
                "transformer" if is("I2V A14B") => {
                    "wan2.2_i2v_high_noise_14B_fp8_scaled.safetensors and its low_noise from Comfy-Org/Wan_2.2_ComfyUI_Repackaged"
                }
                "transformer" if is("TI2V 5B") => {
                    "wan2.2_ti2v_5B_fp16.safetensors from Comfy-Org/Wan_2.2_ComfyUI_Repackaged"
                }
                "transformer" => {
                    "wan2.1_t2v_14B_fp8_scaled.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged"
                }
                "vae" => "wan_2.1_vae.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged",
                _ => return None,
            })
        },
        ships_tokenizers: false,
        picture_prompts: None,
        tiny_decoder: TinyDecoderRules {
            words: &["taew", "wan"],
            is_f16: false,
        },
        control_network: |_, _| None,
        control_weights: None,
        control_lora: None,
    },
    lora: lora::RULES,
};

fn recipe(request: &GenerateRequest) -> Vec<Stage> {
    let mut stages = vec![Stage::EncodeText];
    let has_frames = request.has_start() || request.last_image.is_some();
    // Control layers see something in every job: where nothing is given, grey that is all to be made.
    if has_frames || request.source_clip.is_some() || request.files.takes_control {
        stages.push(Stage::EncodeImage);
        if has_frames && request.files.image_encoder.is_some() {
            stages.push(Stage::EncodeVision);
        }
    }
    let last = if request.files.transformer_2.is_some() {
        stages.push(Stage::DenoiseHigh);
        Stage::DenoiseLow
    } else {
        Stage::Denoise
    };
    stages.extend([last, Stage::Unload]);
    if request.second_pass.is_some() {
        // The second pass adds details, which are the low-noise expert's.
        stages.extend([Stage::EncodeImage, last, Stage::Unload]);
    }
    stages.extend([Stage::Decode, Stage::Save]);
    stages
}

/// Published transformers differ in width and channels; two experts differ only in name.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&["patch_embedding.weight"])?;
    let has_image_embedding = weights
        .tensors
        .keys()
        .any(|key| key.contains("img_emb.") || key.contains("image_embedder."));
    let has_control = weights
        .shape_by_end(&["vace_patch_embedding.weight"])
        .is_some();
    Some(match (shape.first()?, shape.get(1)?) {
        (1536, 16) if has_control => "Wan 2.1 VACE 1.3B",
        (5120, 16) if has_control => "Wan VACE 14B",
        (1536, 16) => "Wan 2.1 T2V 1.3B",
        (5120, 16) => "Wan T2V 14B",
        (5120, 36) if has_image_embedding => "Wan 2.1 I2V 14B",
        (5120, 36) => "Wan 2.2 I2V A14B",
        (3072, 48) => "Wan 2.2 TI2V 5B",
        _ => return None,
    })
}
