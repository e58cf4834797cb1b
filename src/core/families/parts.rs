//! Parts next to a transformer that several families need, and the check of their widths.
//!
//! A family's table says which parts its transformer needs.

use std::path::Path;

use crate::formats::weights::WeightSet;
use crate::library::component_search::wanted::{
    ComponentQuery, TokenizerForm, WantedTokenizer, fits_transformer,
};
use crate::model::{CatalogError, ControlUse, ModelComponent, SizeLimits};
use crate::networks::{
    ClipConfig, ClipKind, ClipL, ClipTextConfig, ClipTextKeys, KlVaeConfig, LanguageConfig,
    LanguageKeys, LanguageKind, LanguageUse, NetworkConfig as _, PartKind, T5Config, T5Keys,
    T5Kind, WanVaeConfig,
};

/// The files to get where a part is missing or wrong.
const CLIP_L: &str = "clip_l.safetensors from comfyanonymous/flux_text_encoders";
const CLIP_G: &str = "clip_g.safetensors from Comfy-Org/stable-diffusion-3.5-fp8";
const SDXL_VAE: &str = "sdxl_vae.safetensors from stabilityai/sdxl-vae";
const T5: &str = "t5xxl_fp16.safetensors from comfyanonymous/flux_text_encoders";
const FLUX_VAE: &str = "ae.safetensors from black-forest-labs/FLUX.1-schnell";
pub(super) const FLUX2_VAE: &str = "flux2-vae.safetensors from Comfy-Org/flux2-dev";
const IMAGE_VAE: &str = "qwen_image_vae.safetensors from Comfy-Org/Qwen-Image_ComfyUI";
const RGBA_VAE: &str = "qwen_image_2.1_vae_bf16.safetensors from Comfy-Org/Qwen-Image-2.1";

/// The tokenizers to get with a first and a second text encoder.
const TOKENIZERS: [&str; 2] = [
    "the folder tokenizer that was published with this text encoder",
    "the folder tokenizer_2 that was published with this text encoder",
];

/// As much as four times the size that most models of images were trained at.
const MAX_PIXELS: u64 = 1 << 22;
/// Places are computed, so that only sense limits an edge.
const MAX_EDGE: u32 = 8192;
/// Images at once; more go into several jobs.
const MAX_BATCH: u32 = 8;
/// Latents along an edge of one token.
const PATCH: i64 = 2;

/// Limits of image models whose tokens are two by two latents; `factor`: pixels along an edge of a latent.
pub(super) fn image_limits(factor: i64) -> SizeLimits {
    SizeLimits {
        size_multiple: u32::try_from(factor * PATCH).unwrap_or(u32::MAX),
        max_edge: MAX_EDGE,
        max_pixels: MAX_PIXELS,
        frame_stride: 1,
        max_frames: 1,
        fixed_size: false,
        max_batch: MAX_BATCH,
        max_references: 0,
        controls: ControlUse::NONE,
    }
}

/// FLUX.1's autoencoder, for latents of `expected` channels.
pub(super) fn flux_vae(expected: i64) -> ComponentQuery<'static> {
    kl_vae(
        expected,
        "a Flux VAE",
        FLUX_VAE,
        (&["ae", "flux_vae", "flux_ae", "vae"], "ae"),
        |_| true,
    )
}

/// SDXL's autoencoder, for latents of `expected` channels.
pub(super) fn sdxl_vae(expected: i64) -> ComponentQuery<'static> {
    let usual = &["sdxl_vae", "sdxl-vae-fp16-fix", "sdxl_vae_fp16_fix", "vae"];
    kl_vae(expected, "an SDXL VAE", SDXL_VAE, (usual, "vae"), |_| true)
}

/// FLUX.2's autoencoder with normed latents, of `expected` channels.
pub(super) fn flux2_vae(expected: i64) -> ComponentQuery<'static> {
    kl_vae(
        expected,
        "a FLUX.2 VAE",
        FLUX2_VAE,
        (
            &[
                "flux2-vae",
                "flux2_vae",
                "full_encoder_small_decoder",
                "vae",
            ],
            "flux2",
        ),
        KlVaeConfig::is_normed,
    )
}

/// An autoencoder of images. `names`: its usual ones, and a word in those of pickles; `is_kind`: what must hold besides the
/// latents' channels.
fn kl_vae(
    expected: i64,
    kind: &'static str,
    example: &'static str,
    (usual, word): (&'static [&'static str], &'static str),
    is_kind: fn(&KlVaeConfig) -> bool,
) -> ComponentQuery<'static> {
    let what = format!("{kind} ({expected} latent channels)");
    ComponentQuery {
        component: ModelComponent::Vae,
        part: PartKind::KlVae,
        what: what.clone(),
        kind,
        example,
        usual,
        word,
        is_in: KlVaeConfig::is_in,
        fits: Box::new(move |weights, place| {
            let config = KlVaeConfig::read(place)?;
            let found = config.latent_channels;
            let fits = expected == found && is_kind(&config);
            fits_transformer(fits, &what, example, place, || {
                format!("one with {found} latent channels")
            })?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}

/// Wan 2.1's autoencoder as it was further trained for images, for latents of `expected` channels. That of videos will
/// do too: their latents are the same.
pub(super) fn image_wan_vae(expected: i64) -> ComponentQuery<'static> {
    let usual = &["qwen_image_vae", "vae", "wan_2.1_vae", "Wan2_1_VAE"];
    wan_vae(expected, "a Qwen-Image VAE", IMAGE_VAE, usual)
}

/// Qwen-Image 2.1's autoencoder of RGBA images, for latents of `expected` channels.
pub(super) fn rgba_vae(expected: i64) -> ComponentQuery<'static> {
    let usual = &["qwen_image_2.1_vae_bf16", "qwen_image_2.1_vae", "vae"];
    wan_vae(expected, "a Qwen-Image 2.1 VAE", RGBA_VAE, usual)
}

fn wan_vae(
    expected: i64,
    kind: &'static str,
    example: &'static str,
    usual: &'static [&'static str],
) -> ComponentQuery<'static> {
    let what = format!("{kind} (z_dim {expected})");
    ComponentQuery {
        component: ModelComponent::Vae,
        part: PartKind::WanVae,
        what: what.clone(),
        kind,
        example,
        usual,
        word: "vae",
        is_in: WanVaeConfig::is_in,
        fits: Box::new(move |weights, place| {
            let config = WanVaeConfig::read(place)?;
            let found = config.z_dim;
            fits_transformer(expected == found, &what, example, place, || match found {
                48 => "a Wan 2.2 VAE (z_dim 48)".to_owned(),
                64 => "a Qwen-Image 2.1 VAE (z_dim 64)".to_owned(),
                other => format!("one with a z_dim of {other}"),
            })?;
            config.check_weights(weights)
        }),
        tokenizer: None,
    }
}

/// A language model as text encoder, and its difference from the others.
#[derive(Clone, Copy)]
pub(super) struct LanguageModel {
    /// Noun phrases: the very model, and its kind.
    pub names: [&'static str; 2],
    pub example: &'static str,
    pub usual: &'static [&'static str],
    /// A word in the names of its pickles.
    pub word: &'static str,
    pub part: PartKind,
    /// Its tokenizer: a noun phrase, its folder among those that ship with the app, and its form.
    pub tokenizer: (&'static str, Option<&'static str>, TokenizerForm),
    /// Why a config is of another model that is as wide, as a noun phrase for that.
    pub objection: fn(&LanguageConfig) -> Option<&'static str>,
}

/// Qwen 3 of 0.6 billion.
pub(super) const QWEN3_06B: LanguageModel = LanguageModel {
    names: ["a Qwen 3 0.6B text encoder", "a Qwen 3 text encoder"],
    example: "qwen_3_06b_base.safetensors from circlestone-labs/Anima",
    usual: &["qwen_3_06b_base", "qwen3-0.6b-base", "text_encoder"],
    ..QWEN3_4B
};

/// Qwen 3 of 4 billion.
pub(super) const QWEN3_4B: LanguageModel = LanguageModel {
    names: ["a Qwen 3 4B text encoder", "a Qwen 3 text encoder"],
    example: "qwen_3_4b.safetensors from Comfy-Org/z_image_turbo",
    usual: &["qwen_3_4b", "qwen3_4b", "qwen3-4b", "text_encoder"],
    word: "qwen",
    part: PartKind::Qwen,
    tokenizer: ("the tokenizer of Qwen", Some("qwen"), TokenizerForm::Pairs),
    // Of Qwen 3 VL the text half is as wide, and another one.
    objection: |config| config.model_type.contains("vl").then_some("a Qwen 3 VL"),
};

/// Qwen 3 of 8 billion.
pub(super) const QWEN3_8B: LanguageModel = LanguageModel {
    names: ["a Qwen 3 8B text encoder", "a Qwen 3 text encoder"],
    example: "qwen_3_8b_fp8mixed.safetensors from Comfy-Org/flux2-klein-9B",
    usual: &["qwen_3_8b", "qwen3_8b", "qwen3-8b", "text_encoder"],
    ..QWEN3_4B
};

/// The text half of Qwen 3 VL of 4 billion.
pub(super) const QWEN3_VL_4B: LanguageModel = LanguageModel {
    names: ["a Qwen 3 VL 4B text encoder", "a Qwen 3 VL text encoder"],
    example: "qwen3vl_4b_fp8_scaled.safetensors from Comfy-Org/Krea-2",
    usual: &["qwen3vl_4b", "qwen3_vl_4b", "qwen_3_vl_4b", "text_encoder"],
    objection: |config| {
        let reads_alone = !config.model_type.contains("vl");
        reads_alone.then_some("a Qwen 3 that does not look at images")
    },
    ..QWEN3_4B
};

/// The text half of Qwen 3 VL of 8 billion.
pub(super) const QWEN3_VL_8B: LanguageModel = LanguageModel {
    names: ["a Qwen 3 VL 8B text encoder", "a Qwen 3 VL text encoder"],
    example: "qwen3vl_8b_bf16.safetensors from Comfy-Org/Qwen-Image-2.1",
    usual: &["qwen3vl_8b", "qwen3_vl_8b", "qwen_3_vl_8b", "text_encoder"],
    ..QWEN3_VL_4B
};

/// The text half of Qwen 2.5 VL of 7 billion.
pub(super) const QWEN25_VL_7B: LanguageModel = LanguageModel {
    names: [
        "a Qwen 2.5 VL 7B text encoder",
        "a Qwen 2.5 VL text encoder",
    ],
    example: "qwen_2.5_vl_7b_fp8_scaled.safetensors from Comfy-Org/Qwen-Image_ComfyUI",
    usual: &[
        "qwen_2.5_vl_7b",
        "qwen2.5_vl_7b",
        "Qwen2.5-VL-7B-Instruct",
        "text_encoder",
    ],
    objection: |_| None,
    ..QWEN3_4B
};

/// Mistral Small 3 of 24 billion, as far as FLUX.2 dev reads it.
pub(super) const MISTRAL_SMALL: LanguageModel = LanguageModel {
    names: ["a Mistral Small 3 text encoder", "a Mistral text encoder"],
    example: "mistral_3_small_flux2_fp8.safetensors from Comfy-Org/flux2-dev",
    usual: &[
        "mistral_3_small_flux2_bf16",
        "mistral_3_small_flux2_fp8",
        "Mistral-Small-3.2-24B-Instruct-2506",
        "text_encoder",
    ],
    word: "mistral",
    part: PartKind::Llama,
    tokenizer: (
        "the tokenizer of Mistral Small 3",
        None,
        TokenizerForm::Tekken,
    ),
    objection: |_| None,
};

/// `usage`: which hidden states are read; `width`: that of these by the transformer's config, and what that calls it.
pub(super) fn language_model(
    model: LanguageModel,
    usage: LanguageUse,
    (width, by): (i64, &'static str),
) -> ComponentQuery<'static> {
    let LanguageModel {
        names: [what, kind],
        example,
        usual,
        word,
        part,
        tokenizer: (tokenizer, bundled, form),
        objection,
    } = model;
    ComponentQuery {
        component: ModelComponent::TextEncoder,
        part,
        what: what.to_owned(),
        kind,
        example,
        usual,
        word,
        // Tensors do not tell a Mistral from a Llama.
        is_in: match usage.kind {
            LanguageKind::Qwen2 => |weights| kind_in(weights) == Some(LanguageKind::Qwen2),
            LanguageKind::Qwen3 => |weights| kind_in(weights) == Some(LanguageKind::Qwen3),
            LanguageKind::Gemma3 => |weights| kind_in(weights) == Some(LanguageKind::Gemma3),
            LanguageKind::Llama | LanguageKind::Mistral => {
                |weights| kind_in(weights) == Some(LanguageKind::Llama)
            }
        },
        fits: Box::new(move |weights, place| {
            let config = usage.read(place)?;
            let widths = [width, config.hidden_size];
            check_width([kind, "hidden_size"], by, widths, example, place)?;
            let other = objection(&config);
            fits_transformer(other.is_none(), what, example, place, || {
                other.unwrap_or_default().to_owned()
            })?;
            config.check_weights(weights)
        }),
        tokenizer: Some(WantedTokenizer {
            what: tokenizer,
            example: TOKENIZERS[0],
            folders: &[
                "tokenizer",
                "qwen",
                "qwen3",
                "tokenizers/qwen",
                "mistral",
                "tokenizers/mistral",
            ],
            bundled,
            form,
            vocab_size: |place| Ok(LanguageConfig::read(place)?.vocab_size),
        }),
    }
}

fn kind_in(weights: &WeightSet) -> Option<LanguageKind> {
    LanguageKeys::of(&weights.names()).map(|keys| keys.kind)
}

/// The CLIP-L that gives a transformer the pooled text, of `width` numbers.
pub(super) fn clip_l(component: ModelComponent, width: i64) -> ComponentQuery<'static> {
    clip::<ClipL>(component, (width, "pooled_projection_dim"))
}

/// The CLIP whose states or pooled text a denoiser reads. `width`: of them, and what the denoiser's config calls it.
pub(super) fn clip<K: ClipKind + 'static>(
    component: ModelComponent,
    (width, by): (i64, &'static str),
) -> ComponentQuery<'static> {
    let is_first = component == ModelComponent::TextEncoder;
    let (what, example, usual): (_, _, &[&str]) = match (K::IS_PROJECTED, is_first) {
        (true, _) => (
            "a CLIP-G text encoder",
            CLIP_G,
            &["clip_g", "text_encoder_2"],
        ),
        (false, true) => ("a CLIP-L text encoder", CLIP_L, &["clip_l", "text_encoder"]),
        (false, false) => (
            "a CLIP-L text encoder",
            CLIP_L,
            &["clip_l", "text_encoder_2"],
        ),
    };
    ComponentQuery {
        component,
        part: PartKind::Clip,
        what: what.to_owned(),
        kind: "a CLIP text encoder",
        example,
        usual,
        word: "clip",
        is_in: |weights| ClipTextKeys::detect::<K>(&weights.names()).is_some(),
        fits: Box::new(move |weights, place| {
            let config = ClipConfig::<K>::read(place)?;
            let what = ["a CLIP text encoder", "hidden_size"];
            check_width(what, by, [width, config.hidden_size], example, place)?;
            config.check_weights(weights)
        }),
        // CLIP-G reads CLIP-L's tokens.
        tokenizer: (!K::IS_PROJECTED).then_some(WantedTokenizer {
            what: "the tokenizer of CLIP",
            example: TOKENIZERS[usize::from(!is_first)],
            folders: if is_first {
                &[
                    "tokenizer",
                    "clip-l",
                    "clip-vit-large-patch14",
                    "tokenizers/clip-l",
                ]
            } else {
                &[
                    "tokenizer_2",
                    "clip-l",
                    "clip-vit-large-patch14",
                    "tokenizers/clip-l",
                ]
            },
            bundled: Some("clip-l"),
            form: TokenizerForm::Pairs,
            vocab_size: |place| Ok(ClipTextConfig::read(place)?.vocab_size),
        }),
    }
}

/// T5-XXL, whose hidden states of `width` a transformer reads.
pub(super) fn t5_xxl(component: ModelComponent, width: i64) -> ComponentQuery<'static> {
    let is_first = component == ModelComponent::TextEncoder;
    ComponentQuery {
        component,
        part: PartKind::T5,
        what: "a T5-XXL text encoder".to_owned(),
        kind: "a T5 text encoder",
        example: T5,
        usual: &[
            "t5xxl",
            "t5-v1_1-xxl",
            "google_t5-v1_1-xxl_encoderonly",
            "text_encoder_2",
            "text_encoder",
        ],
        word: "t5",
        is_in: |weights| T5Keys::kind_in(weights) == Some(T5Kind::T5),
        fits: Box::new(move |weights, place| {
            let config = T5Config::read_as(T5Kind::T5, place)?;
            let what = ["a T5 text encoder", "d_model"];
            let widths = [width, config.d_model];
            check_width(what, "joint_attention_dim", widths, T5, place)?;
            config.check_weights(weights)
        }),
        tokenizer: Some(WantedTokenizer {
            what: "the tokenizer of T5",
            example: TOKENIZERS[usize::from(!is_first)],
            folders: &[
                "tokenizer_2",
                "tokenizer_3",
                "tokenizer",
                "t5-xxl",
                "google/t5-v1_1-xxl",
                "tokenizers/t5-xxl",
            ],
            bundled: Some("t5-xxl"),
            form: TokenizerForm::Pieces,
            vocab_size: |place| Ok(T5Config::read_as(T5Kind::T5, place)?.vocab_size),
        }),
    }
}

/// Checks that an encoder is as wide as the transformer's config says. `what`: a noun phrase, and what its config calls
/// the width; `by`: what the transformer's does; `widths`: expected and found.
pub(super) fn check_width(
    [what, key]: [&str; 2],
    by: &str,
    [expected, found]: [i64; 2],
    example: &'static str,
    place: &Path,
) -> Result<(), CatalogError> {
    let what = format!("{what} with a {key} of {expected}, the transformer's {by}");
    fits_transformer(expected == found, &what, example, place, || {
        format!("one of {found}")
    })
}
