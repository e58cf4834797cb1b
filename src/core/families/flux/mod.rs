//! FLUX.1: pictures from text, from a picture, inside a mask, along a depth map or edges, and as a prompt says beside a
//! given one.

pub mod control;
mod files;
pub mod lora;
mod memory;
mod parts;
#[cfg(test)]
pub(crate) mod tests;
mod variant;

use super::def::recipe_of_pictures;
use super::files::rules;
use super::{Family, FamilyDef, FileRules, TimeConvolutions, TinyDecoderRules};
use crate::formats::weights::WeightSet;
use crate::job::StepCacheKind;
use crate::model::Guidance;
use crate::networks::{KindRule, PartKind};
use crate::tokens::{CLIP_TOKENS, TextReader, TextRule};
use files::Flux;

pub const FAMILY: Family = Family::new(&DEF);

/// Tokens of a prompt that T5 reads: 512 in guidance-distilled models, 256 in schnell, which was distilled to few
/// steps and to short prompts.
pub fn text_tokens(guidance: Guidance) -> u32 {
    match guidance {
        Guidance::None => 256,
        Guidance::Cfg | Guidance::Distilled => 512,
    }
}

pub(super) static DEF: FamilyDef = FamilyDef {
    id: "flux",
    label: "Flux",
    models: "FLUX.1 dev, schnell, Fill, Kontext, Depth or Canny",
    makes_pictures: true,
    clip_strength: |_| None,
    has_second_pass: true,
    has_dynamic_shift: true,
    guidance_is_cfg: false,
    step_caches: |_| &StepCacheKind::ALL,
    token_limit: |guidance| Some(text_tokens(guidance)),
    time_convolutions: TimeConvolutions::None,
    vae_in_f16: false,
    trained_sizes: &[],
    recipe: recipe_of_pictures,
    text_readers: |spec| {
        let clip = TextReader::first(spec, "CLIP", CLIP_TOKENS, TextRule::Plain);
        let t5 = TextReader::second(spec, "T5", text_tokens(spec.guidance));
        t5.into_iter().chain([clip]).collect()
    },
    networks: memory::networks,
    needs: memory::needs,
    published: memory::published,
    // CLIP, and the encoder half of T5.
    text_encoder_weights: [123_000_000, 4_800_000_000],
    // Nineteen blocks of two streams and thirty-eight of one.
    matrices_a_block: |_| 22.3,
    // FLUX.2 and Chroma Radiance are other networks, of which nothing can be restored.
    is_named: |name| {
        let others = ["flux2", "chroma"];
        name.contains("flux") && !others.iter().any(|other| name.contains(other))
    },
    wan2gp_types: &[],
    files: FileRules {
        owns_pipeline: |class| class.starts_with("Flux") && !class.starts_with("Flux2"),
        kinds: &[
            KindRule::new(
                "flux",
                "controlnet",
                "a Flux ControlNet",
                &["controlnet_x_embedder.weight", "context_embedder.weight"],
            ),
            KindRule::new(
                "flux",
                "adapter",
                "a Flux Redux adapter",
                &["redux_up.weight", "redux_down.weight"],
            )
            .of(PartKind::Redux),
            KindRule::transformer(
                "flux",
                "a Flux transformer in the original layout",
                &["double_blocks.0.img_attn.qkv.weight"],
            ),
            KindRule::transformer(
                "flux",
                "a Flux transformer",
                &[
                    "single_transformer_blocks.0.proj_mlp.weight",
                    "x_embedder.weight",
                ],
            ),
            KindRule::transformer(
                "flux",
                "a Flux transformer",
                &[
                    "single_transformer_blocks.0.mlp_fc1.weight",
                    "x_embedder.weight",
                ],
            ),
            KindRule::new(
                "flux",
                "vae",
                "an image VAE in the original layout",
                &["decoder.mid.block_1.conv1.weight"],
            )
            .of(PartKind::KlVae),
        ],
        published_name,
        instead: |kind| {
            Some(match kind.role {
                "transformer" if kind.family == "flux" => {
                    "flux1-dev-fp8.safetensors from Comfy-Org/flux1-dev, or flux1-schnell-fp8.safetensors from Comfy-Org/flux1-schnell"
                }
                "vae" => "ae.safetensors from black-forest-labs/FLUX.1-schnell",
                _ => return None,
            })
        },
        picture_prompts: Some(files::picture_prompts),
        tiny_decoder: TinyDecoderRules {
            words: &["taef1", "flux"],
            is_f16: false,
        },
        control_network: control::network,
        control_weights: Some(control::weights),
        control_lora: Some(lora::with_control),
        ..rules::<Flux>()
    },
    lora: lora::RULES,
};

/// The published transformers of full size; dev and Kontext are told apart by name alone.
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
