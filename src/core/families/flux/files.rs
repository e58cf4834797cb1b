//! The files of a Flux model: what its folder has, which other models it is told from, and what is known of it.
//!
//! Looks at configs and headers only. Defaults and names are not its business.

use std::path::Path;

use super::parts::parts;
use super::variant::Variant;
use crate::families::Family;
use crate::families::files::{Checked, Hints, OneTransformer, foreign_part};
use crate::families::parts::{is_published_flux_vae, picture_limits};
use crate::formats::weights::WeightSet;
use crate::library::companions::wanted::Wanted;
use crate::library::{Item, Role};
use crate::model::choices::Sampler;
use crate::model::facts::{Facts, Schedule, TransformerShape};
use crate::model::{CatalogError, InputUse, Limits, ModelFiles, PicturePrompts};
use crate::networks::{
    FluxTransformerConfig, FluxTransformerKeys, KlVaeConfig, NetworkConfig as _, PartKind,
    ReduxConfig, SchedulerConfig, SiglipConfig,
};

/// Parts that only other models have, and what those are called.
const FOREIGN_PARTS: &[(&str, &str)] = &[
    ("distilled_guidance_layer", "a Chroma model"),
    ("individual_token_refiner", "a HunyuanVideo model"),
    ("controlnet_", "a Flux ControlNet"),
    ("pulid_ca", "a Flux model with PuLID in it"),
];

pub(super) enum Flux {}

impl OneTransformer for Flux {
    type Config = FluxTransformerConfig;
    type Variant = Variant;

    const FAMILY: Family = super::FAMILY;
    const COMPONENTS: &'static [(&'static str, Option<&'static str>)] = &[
        ("scheduler", None),
        ("text_encoder", Some("CLIPTextModel")),
        ("text_encoder_2", Some("T5EncoderModel")),
        ("tokenizer", None),
        ("tokenizer_2", None),
        ("transformer", Some("FluxTransformer2DModel")),
        ("vae", Some("AutoencoderKL")),
    ];

    fn is_in(weights: &WeightSet) -> bool {
        FluxTransformerKeys::detect(|key| weights.has(key)).is_some()
    }

    fn check_class(class: &str) -> Result<(), String> {
        is_kontext(class).map(|_| ())
    }

    fn foreign_part(weights: &WeightSet) -> Option<String> {
        let keys = FluxTransformerKeys::detect(|key| weights.has(key))?;
        foreign_part(
            weights,
            Self::FAMILY,
            keys.prefix,
            FOREIGN_PARTS,
            keys.tops(),
        )
    }

    fn is_quantised(config: &FluxTransformerConfig) -> bool {
        config.quantization_config.is_some()
    }

    /// Kontext differs from dev in its name alone.
    fn variant(config: &FluxTransformerConfig, hints: &Hints<'_>) -> Result<Variant, String> {
        let is_kontext = match hints.class {
            Some(class) => is_kontext(class)?,
            None => hints
                .names
                .iter()
                .any(|name| name.to_lowercase().contains("kontext")),
        };
        Variant::of(config, is_kontext, hints.names)
    }

    fn variant_name(variant: Variant) -> &'static str {
        variant.name()
    }

    fn is_published_vae(place: &Path) -> bool {
        is_published_flux_vae(place)
    }

    fn parts(config: &FluxTransformerConfig) -> Vec<Wanted<'_>> {
        parts(config)
    }

    /// The shift goes with the size of a picture, so it is nobody's default.
    fn schedule(scheduler: &Path) -> Result<Schedule, CatalogError> {
        SchedulerConfig::read_flow_match_euler(scheduler)?;
        Ok(Schedule {
            sampler: Sampler::Euler,
            shift: None,
        })
    }

    fn facts(
        config: &FluxTransformerConfig,
        variant: Variant,
        files: &ModelFiles,
        checked: Checked,
    ) -> Result<Facts, CatalogError> {
        let vae = KlVaeConfig::read(&files.vae)?;
        let (start_image, image_role, mask) = variant.inputs();
        Ok(Facts {
            family: Self::FAMILY,
            variant: variant.name(),
            shape: TransformerShape {
                heads: config.num_attention_heads,
                head_dim: config.attention_head_dim,
                layers: config.num_layers + config.num_single_layers,
                channels: config.in_channels,
            },
            start_image,
            image_role,
            mask,
            end_image: InputUse::No,
            guidance: variant.guidance(),
            section_order: None,
            latent_channels: vae.latent_channels.unsigned_abs(),
            limits: Limits {
                controls: variant.controls(),
                max_references: variant.max_references(),
                ..picture_limits(vae.spatial_factor())
            },
            schedule: checked.schedule,
            bytes: checked.bytes,
        })
    }
}

/// Redux and the SigLIP that it reads, of the width of this transformer's texts; those of one folder rather than others.
pub(super) fn picture_prompts(files: &ModelFiles, items: &[Item]) -> Option<PicturePrompts> {
    let of_kind = |kind: PartKind| {
        let items = items
            .iter()
            .filter(move |item| item.role == Role::Part(kind));
        items.map(|item| item.place.as_path())
    };
    // Where there is none, nothing is read.
    of_kind(PartKind::Redux).next()?;
    let transformer = FluxTransformerConfig::read(&files.transformer).ok()?;
    let width = transformer.joint_attention_dim;
    let whole = |place: &Path| {
        let (config, weights) = (ReduxConfig::read(place).ok()?, WeightSet::at(place).ok()?);
        let fits = config.txt_in_features == width && config.check_weights(&weights).is_ok();
        fits.then_some(config)
    };
    let sees = |place: &Path, config: &ReduxConfig| {
        let found = SiglipConfig::read(place).ok();
        let weights = WeightSet::at(place).ok();
        found.zip(weights).is_some_and(|(found, weights)| {
            found.hidden_size == config.redux_dim && found.check_weights(&weights).is_ok()
        })
    };
    of_kind(PartKind::Redux).find_map(|embedder| {
        let config = whole(embedder)?;
        let home = embedder.parent();
        let mut encoders: Vec<&Path> = of_kind(PartKind::Siglip).collect();
        encoders.sort_by_key(|place| place.parent() != home);
        let encoder = encoders.into_iter().find(|place| sees(place, &config))?;
        let processor = encoder.with_file_name("feature_extractor");
        let has_own = processor.join("preprocessor_config.json").is_file();
        Some(PicturePrompts {
            image_encoder: encoder.to_owned(),
            image_processor: has_own.then_some(processor),
            embedder: embedder.to_owned(),
        })
    })
}

/// Whether a pipeline's class is Kontext's, or the sentence part for a Flux model of another kind.
fn is_kontext(class: &str) -> Result<bool, String> {
    match class {
        "FluxPipeline"
        | "FluxImg2ImgPipeline"
        | "FluxInpaintPipeline"
        | "FluxFillPipeline"
        | "FluxControlPipeline"
        | "FluxControlImg2ImgPipeline" => Ok(false),
        "FluxKontextPipeline" | "FluxKontextInpaintPipeline" => Ok(true),
        "FluxPriorReduxPipeline" => Err("a Flux Redux model".to_owned()),
        _ if class.starts_with("FluxControlNet") => Err("a Flux ControlNet model".to_owned()),
        other => Err(format!("a Flux model for {other}")),
    }
}
