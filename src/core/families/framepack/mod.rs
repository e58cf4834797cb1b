//! FramePack and FramePack F1: clips of up to two minutes from a picture, section by section.

mod files;
pub mod lora;
mod memory;
mod parts;
#[cfg(test)]
pub(crate) mod tests;
mod variant;

use super::files::rules;
use super::{Family, FamilyDef, FileRules, TimeConvolutions, TinyDecoderRules};
use crate::job::{GenerateRequest, Stage, StepCacheKind};
use crate::networks::{KindRule, LanguageKind, LanguageTap, LanguageUse, PartKind};
use crate::tokens::{CLIP_TOKENS, HUNYUAN_PROMPT, TextReader, TextRule};

use files::FramePack;

pub const FAMILY: Family = Family::new(&DEF);

/// The text encoder: LLaVA's Llama, of whose last two layers and last norm nothing is read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Llama,
    tap: LanguageTap::BeforeLast(2),
};

/// The sizes, width and height, that the models were trained at: about 640 × 640 in all shapes.
const TRAINED_SIZES: [(u32, u32); 14] = [
    (960, 416),
    (864, 448),
    (832, 480),
    (768, 512),
    (704, 544),
    (672, 576),
    (640, 608),
    (608, 640),
    (576, 672),
    (544, 704),
    (512, 768),
    (480, 832),
    (448, 864),
    (416, 960),
];

pub(super) static DEF: FamilyDef = FamilyDef {
    id: "framepack",
    label: "FramePack",
    models: "FramePack or FramePack F1",
    makes_pictures: false,
    clip_strength: |_| None,
    has_second_pass: false,
    has_dynamic_shift: true,
    guidance_is_cfg: false,
    step_caches: |_| &StepCacheKind::ALL,
    token_limit: |_| None,
    time_convolutions: TimeConvolutions::FrameByFrame,
    // bf16 would lose two bits of every pixel, and nothing in it is too large for f16.
    vae_in_f16: true,
    trained_sizes: &TRAINED_SIZES,
    recipe,
    text_readers: |spec| {
        let tokens = HUNYUAN_PROMPT.room as u32;
        let rule = TextRule::Within(&HUNYUAN_PROMPT);
        let llama = TextReader::first(spec, "Llama", tokens, rule);
        let clip = TextReader::second(spec, "CLIP", CLIP_TOKENS);
        [llama].into_iter().chain(clip).collect()
    },
    networks: memory::networks,
    needs: memory::needs,
    published: memory::published,
    // Llama 3, and CLIP.
    text_encoder_weights: [8_000_000_000, 123_000_000],
    // Twenty blocks of two streams and forty of one.
    matrices_a_block: |_| 22.3,
    is_named: |name| name.contains("framepack"),
    wan2gp_types: &[],
    files: FileRules {
        owns_pipeline: |class| class == files::PIPELINE,
        kinds: &[
            KindRule::transformer(
                "framepack",
                "a FramePack transformer",
                &["clean_x_embedder.proj.weight"],
            ),
            KindRule::transformer(
                "hunyuan",
                "a HunyuanVideo transformer",
                &["context_embedder.time_text_embed.timestep_embedder.linear_1.weight"],
            ),
            KindRule::transformer(
                "hunyuan",
                "a HunyuanVideo transformer in the original layout",
                &["txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight"],
            ),
            KindRule::transformer(
                "hunyuan",
                "a HunyuanVideo transformer in the layout of ComfyUI",
                &["txt_in.individual_token_refiner.blocks.0.self_attn.qkv.weight"],
            ),
            KindRule::new(
                "hunyuan",
                "vae",
                "a HunyuanVideo VAE",
                &["decoder.conv_in.conv.weight"],
            )
            .of(PartKind::VideoVae),
            KindRule::new(
                "hunyuan",
                "vae",
                "a HunyuanVideo VAE",
                &["encoder.conv_in.conv.weight"],
            )
            .of(PartKind::VideoVae),
        ],
        instead: |kind| {
            (kind.role == "transformer")
                .then_some("FramePackI2V_HY_fp8_e4m3fn.safetensors from Kijai/HunyuanVideo_comfy")
        },
        tiny_decoder: TinyDecoderRules {
            words: &["taehv", "taehy", "hunyuan", "framepack"],
            is_f16: true,
        },
        ..rules::<FramePack>()
    },
    lora: lora::RULES,
};

fn recipe(request: &GenerateRequest) -> Vec<Stage> {
    let mut stages = vec![Stage::EncodeText, Stage::EncodeImage, Stage::EncodeVision];
    let num_sections = request.sections.map_or(1, |sections| sections.count);
    for _ in 0..num_sections {
        stages.extend([Stage::Denoise, Stage::Unload, Stage::Decode]);
    }
    stages.push(Stage::Save);
    stages
}
