//! The files of a Krea 2 model: what its folder has, which other models it is told from, and what is known of it.
//!
//! Looks at configs and headers only. Defaults and names are not its business.

use std::path::Path;

use super::parts::parts;
use super::variant::Variant;
use crate::families::Family;
use crate::families::files::{Checked, Hints, OneTransformer, foreign_part};
use crate::families::parts::{is_published_wan_vae, picture_limits};
use crate::formats::weights::WeightSet;
use crate::library::companions::wanted::Wanted;
use crate::model::choices::Sampler;
use crate::model::facts::{Facts, Schedule, TransformerShape};
use crate::model::{CatalogError, Guidance, ImageRole, InputUse, ModelFiles};
use crate::networks::{
    Krea2TransformerConfig, Krea2TransformerKeys, NetworkConfig as _, SchedulerConfig, WanVaeConfig,
};

pub(super) enum Krea2 {}

impl OneTransformer for Krea2 {
    type Config = Krea2TransformerConfig;
    type Variant = Variant;

    const FAMILY: Family = super::FAMILY;
    const COMPONENTS: &'static [(&'static str, Option<&'static str>)] = &[
        ("scheduler", None),
        ("text_encoder", None),
        ("tokenizer", None),
        ("transformer", Some("Krea2Transformer2DModel")),
        ("vae", None),
    ];

    fn is_in(weights: &WeightSet) -> bool {
        Krea2TransformerKeys::detect(|key| weights.has(key)).is_some()
    }

    fn check_class(class: &str) -> Result<(), String> {
        match class {
            "Krea2Pipeline" => Ok(()),
            other => Err(format!("a Krea 2 model for {other}")),
        }
    }

    fn foreign_part(weights: &WeightSet) -> Option<String> {
        let keys = Krea2TransformerKeys::detect(|key| weights.has(key))?;
        foreign_part(weights, Self::FAMILY, keys.prefix, &[], keys.tops())
    }

    fn is_quantised(config: &Krea2TransformerConfig) -> bool {
        config.quantization_config.is_some()
    }

    fn variant(_: &Krea2TransformerConfig, hints: &Hints<'_>) -> Result<Variant, String> {
        Ok(Variant::of(hints))
    }

    fn variant_name(variant: Variant) -> &'static str {
        variant.name()
    }

    fn is_published_vae(place: &Path) -> bool {
        is_published_wan_vae(place)
    }

    fn parts(config: &Krea2TransformerConfig) -> Vec<Wanted<'_>> {
        parts(config)
    }

    /// The shift goes with the size of a picture, so it is nobody's default but Turbo's.
    fn schedule(scheduler: &Path) -> Result<Schedule, CatalogError> {
        SchedulerConfig::read_flow_match_euler(scheduler)?;
        Ok(Schedule {
            sampler: Sampler::Euler,
            shift: None,
        })
    }

    fn facts(
        config: &Krea2TransformerConfig,
        variant: Variant,
        files: &ModelFiles,
        checked: Checked,
    ) -> Result<Facts, CatalogError> {
        let vae = WanVaeConfig::read(&files.vae)?;
        Ok(Facts {
            family: Self::FAMILY,
            variant: variant.name(),
            shape: TransformerShape {
                heads: config.num_attention_heads,
                head_dim: config.attention_head_dim,
                layers: config.num_layers,
                channels: config.in_channels,
            },
            start_image: InputUse::Optional,
            image_role: ImageRole::Base,
            mask: InputUse::Optional,
            end_image: InputUse::No,
            guidance: Guidance::Cfg,
            section_order: None,
            latent_channels: vae.z_dim.unsigned_abs(),
            limits: picture_limits(vae.spatial_factor()),
            schedule: variant.schedule(checked.schedule),
            bytes: checked.bytes,
        })
    }
}
