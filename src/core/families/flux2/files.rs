//! The files of a FLUX.2 model: what its folder has, which other models it is told from, and what is known of it.
//!
//! Looks at configs and headers only. Defaults and names are not its business.

use std::path::Path;

use super::parts::{is_published_vae, parts};
use super::variant::{DEV, KV, Variant};
use crate::families::Family;
use crate::families::files::{Checked, Hints, OneTransformer, foreign_part};
use crate::families::parts::picture_limits;
use crate::formats::weights::WeightSet;
use crate::library::companions::wanted::Wanted;
use crate::model::choices::Sampler;
use crate::model::facts::{Facts, Schedule, TransformerShape};
use crate::model::{CatalogError, Guidance, ImageRole, InputUse, Limits, ModelFiles};
use crate::networks::{
    Flux2TransformerConfig, Flux2TransformerKeys, KlVaeConfig, NetworkConfig as _, SchedulerConfig,
};

/// Pictures that are seen beside the one that is made, as the authors say.
const MAX_REFERENCES: u32 = 4;

/// Parts that only other models have, and what those are called.
const FOREIGN_PARTS: &[(&str, &str)] = &[
    ("guidance_in", DEV),
    ("guidance_embedder", DEV),
    ("control", "a FLUX.2 ControlNet"),
];

pub(super) enum Flux2 {}

impl OneTransformer for Flux2 {
    type Config = Flux2TransformerConfig;
    type Variant = Variant;

    const FAMILY: Family = super::FAMILY;
    const COMPONENTS: &'static [(&'static str, Option<&'static str>)] = &[
        ("scheduler", None),
        ("text_encoder", None),
        ("tokenizer", None),
        ("transformer", Some("Flux2Transformer2DModel")),
        ("vae", Some("AutoencoderKLFlux2")),
    ];

    fn is_in(weights: &WeightSet) -> bool {
        Flux2TransformerKeys::detect(|key| weights.has(key)).is_some()
    }

    fn check_class(class: &str) -> Result<(), String> {
        match class {
            "Flux2KleinPipeline" | "Flux2KleinInpaintPipeline" => Ok(()),
            "Flux2KleinKVPipeline" => Err(KV.to_owned()),
            "Flux2Pipeline" => Err(DEV.to_owned()),
            other => Err(format!("a FLUX.2 model for {other}")),
        }
    }

    fn foreign_part(weights: &WeightSet) -> Option<String> {
        let keys = Flux2TransformerKeys::detect(|key| weights.has(key))?;
        let (family, prefix) = (Self::FAMILY, keys.prefix);
        foreign_part(weights, family, prefix, FOREIGN_PARTS, keys.tops())
    }

    fn is_quantised(config: &Flux2TransformerConfig) -> bool {
        config.quantization_config.is_some()
    }

    fn variant(config: &Flux2TransformerConfig, hints: &Hints<'_>) -> Result<Variant, String> {
        Variant::of(config, hints.is_distilled, hints.names)
    }

    fn variant_name(variant: Variant) -> &'static str {
        variant.name()
    }

    fn is_published_vae(place: &Path) -> bool {
        is_published_vae(place)
    }

    fn parts(config: &Flux2TransformerConfig) -> Vec<Wanted<'_>> {
        parts(config)
    }

    /// The shift goes with the size of a picture and the number of steps, so it is nobody's default.
    fn schedule(scheduler: &Path) -> Result<Schedule, CatalogError> {
        SchedulerConfig::read_flow_match_euler(scheduler)?;
        Ok(Schedule {
            sampler: Sampler::Euler,
            shift: None,
        })
    }

    fn facts(
        config: &Flux2TransformerConfig,
        variant: Variant,
        files: &ModelFiles,
        checked: Checked,
    ) -> Result<Facts, CatalogError> {
        let vae = KlVaeConfig::read(&files.vae)?;
        Ok(Facts {
            family: Self::FAMILY,
            variant: variant.name(),
            shape: TransformerShape {
                heads: config.num_attention_heads,
                head_dim: config.attention_head_dim,
                layers: config.num_layers + config.num_single_layers,
                channels: config.in_channels,
            },
            start_image: InputUse::Optional,
            image_role: ImageRole::Base,
            mask: InputUse::Optional,
            end_image: InputUse::No,
            guidance: Guidance::Cfg,
            section_order: None,
            latent_channels: vae.latent_channels.unsigned_abs(),
            limits: Limits {
                max_references: MAX_REFERENCES,
                ..picture_limits(vae.spatial_factor())
            },
            schedule: checked.schedule,
            bytes: checked.bytes,
        })
    }
}
