//! The files of a Chroma model: what its folder has, which other models it is told from, and what is known of it.
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
use crate::model::choices::Sampler;
use crate::model::facts::{Facts, Schedule, TransformerShape};
use crate::model::{CatalogError, Guidance, ImageRole, InputUse, ModelFiles};
use crate::networks::{
    ChromaTransformerConfig, ChromaTransformerKeys, KlVaeConfig, NetworkConfig as _,
    SchedulerConfig,
};

const RADIANCE: &str = "a Chroma Radiance model";
/// Parts that only other models have, and what those are called.
const FOREIGN_PARTS: &[(&str, &str)] = &[
    ("nerf_", RADIANCE),
    ("img_in_patch", RADIANCE),
    ("controlnet_", "a Chroma ControlNet"),
    ("ip_adapter", "a Chroma IP-Adapter"),
];

pub(super) enum Chroma {}

impl OneTransformer for Chroma {
    type Config = ChromaTransformerConfig;
    type Variant = Variant;

    const FAMILY: Family = super::FAMILY;
    const COMPONENTS: &'static [(&'static str, Option<&'static str>)] = &[
        ("scheduler", None),
        ("text_encoder", Some("T5EncoderModel")),
        ("tokenizer", None),
        ("transformer", Some("ChromaTransformer2DModel")),
        ("vae", Some("AutoencoderKL")),
    ];

    fn is_in(weights: &WeightSet) -> bool {
        ChromaTransformerKeys::detect(|key| weights.has(key)).is_some()
    }

    fn check_class(class: &str) -> Result<(), String> {
        match class {
            "ChromaPipeline" | "ChromaImg2ImgPipeline" | "ChromaInpaintPipeline" => Ok(()),
            _ if class.starts_with("ChromaRadiance") => Err(RADIANCE.to_owned()),
            _ if class.starts_with("Chroma2") || class.starts_with("ZetaChroma") => {
                Err("a Chroma 2 model".to_owned())
            }
            other => Err(format!("a Chroma model for {other}")),
        }
    }

    fn foreign_part(weights: &WeightSet) -> Option<String> {
        let keys = ChromaTransformerKeys::detect(|key| weights.has(key))?;
        foreign_part(
            weights,
            Self::FAMILY,
            keys.prefix,
            FOREIGN_PARTS,
            keys.tops(),
        )
    }

    fn is_quantised(config: &ChromaTransformerConfig) -> bool {
        config.quantization_config.is_some()
    }

    fn variant(_: &ChromaTransformerConfig, hints: &Hints<'_>) -> Result<Variant, String> {
        Ok(Variant::of_names(hints.names))
    }

    fn variant_name(variant: Variant) -> &'static str {
        variant.name()
    }

    fn is_published_vae(place: &Path) -> bool {
        is_published_flux_vae(place)
    }

    fn parts(config: &ChromaTransformerConfig) -> Vec<Wanted<'_>> {
        parts(config)
    }

    fn schedule(scheduler: &Path) -> Result<Schedule, CatalogError> {
        let config = SchedulerConfig::read_flow_match_euler(scheduler)?;
        Ok(Schedule {
            sampler: Sampler::Euler,
            shift: config
                .stated_shift()
                .filter(|_| !config.use_dynamic_shifting),
        })
    }

    fn facts(
        config: &ChromaTransformerConfig,
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
            limits: picture_limits(vae.spatial_factor()),
            schedule: checked.schedule,
            bytes: checked.bytes,
        })
    }
}
