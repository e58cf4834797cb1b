//! The files of a Z-Image model: what its folder has, which other models it is told from, and what is known of it.
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
use crate::model::{CatalogError, ControlUse, Guidance, ImageRole, InputUse, Limits, ModelFiles};
use crate::networks::{
    KlVaeConfig, NetworkConfig as _, SchedulerConfig, ZImageTransformerConfig,
    ZImageTransformerKeys,
};

const OMNI: &str = "a Z-Image Omni model";
const CONTROL: &str = "a Z-Image ControlNet";
/// Parts that only other models have, and what those are called.
const FOREIGN_PARTS: &[(&str, &str)] = &[("siglip_", OMNI), ("control_", CONTROL)];

pub(super) enum ZImage {}

impl OneTransformer for ZImage {
    type Config = ZImageTransformerConfig;
    type Variant = Variant;

    const FAMILY: Family = super::FAMILY;
    const COMPONENTS: &'static [(&'static str, Option<&'static str>)] = &[
        ("scheduler", None),
        ("text_encoder", None),
        ("tokenizer", None),
        ("transformer", Some("ZImageTransformer2DModel")),
        ("vae", Some("AutoencoderKL")),
    ];

    fn is_in(weights: &WeightSet) -> bool {
        ZImageTransformerKeys::detect(|key| weights.has(key)).is_some()
    }

    fn check_class(class: &str) -> Result<(), String> {
        match class {
            "ZImagePipeline" | "ZImageImg2ImgPipeline" | "ZImageInpaintPipeline" => Ok(()),
            "ZImageOmniPipeline" => Err(OMNI.to_owned()),
            _ if class.starts_with("ZImageControlNet") => Err(CONTROL.to_owned()),
            other => Err(format!("a Z-Image model for {other}")),
        }
    }

    fn foreign_part(weights: &WeightSet) -> Option<String> {
        let keys = ZImageTransformerKeys::detect(|key| weights.has(key))?;
        foreign_part(
            weights,
            Self::FAMILY,
            keys.prefix,
            FOREIGN_PARTS,
            keys.tops(),
        )
    }

    fn is_quantised(config: &ZImageTransformerConfig) -> bool {
        config.quantization_config.is_some()
    }

    fn variant(config: &ZImageTransformerConfig, hints: &Hints<'_>) -> Result<Variant, String> {
        if config.siglip_feat_dim.is_some() {
            return Err(OMNI.to_owned());
        }
        Ok(Variant::of_names(hints.names))
    }

    fn variant_name(variant: Variant) -> &'static str {
        variant.name()
    }

    fn is_published_vae(place: &Path) -> bool {
        is_published_flux_vae(place)
    }

    fn parts(config: &ZImageTransformerConfig) -> Vec<Wanted<'_>> {
        parts(config)
    }

    fn schedule(scheduler: &Path) -> Result<Schedule, CatalogError> {
        let config = SchedulerConfig::read_flow_match_euler(scheduler)?;
        Ok(Schedule {
            sampler: Sampler::Euler,
            shift: config.stated_shift(),
        })
    }

    fn facts(
        config: &ZImageTransformerConfig,
        variant: Variant,
        files: &ModelFiles,
        checked: Checked,
    ) -> Result<Facts, CatalogError> {
        let vae = KlVaeConfig::read(&files.vae)?;
        Ok(Facts {
            family: Self::FAMILY,
            variant: variant.by_schedule(checked.schedule).name(),
            shape: TransformerShape {
                heads: config.n_heads,
                head_dim: config.head_dim(),
                layers: config.n_layers,
                channels: config.in_channels,
            },
            start_image: InputUse::Optional,
            image_role: ImageRole::Base,
            mask: InputUse::Optional,
            end_image: InputUse::No,
            guidance: Guidance::Cfg,
            section_order: None,
            latent_channels: vae.latent_channels.unsigned_abs(),
            limits: limits(config, &vae),
            schedule: checked.schedule,
            bytes: checked.bytes,
        })
    }
}

/// The transformer has tables of places.
fn limits(config: &ZImageTransformerConfig, vae: &KlVaeConfig) -> Limits {
    let limits = picture_limits(vae.spatial_factor());
    let [_, rows, columns] = config.axes_lens;
    let most = u32::try_from(rows.min(columns)).unwrap_or(u32::MAX);
    Limits {
        max_edge: most.saturating_mul(limits.size_multiple),
        controls: ControlUse::NETWORKS,
        ..limits
    }
}
