//! The files of a Qwen-Image model: what its folder has, which other models it is told from, and what is known of it.
//!
//! Looks at configs and headers only. Defaults and names are not its business.

use std::path::Path;

use super::parts::{TEXT_ENCODER, parts};
use super::variant::{LAYERED, Variant};
use crate::families::Family;
use crate::families::files::{Checked, Hints, OneTransformer, foreign_part};
use crate::families::parts::{is_published_wan_vae, picture_limits};
use crate::formats::weights::WeightSet;
use crate::library::companions::wanted::{Wanted, fits_transformer};
use crate::model::choices::Sampler;
use crate::model::facts::{Facts, Schedule, TransformerShape};
use crate::model::{CatalogError, ControlUse, Guidance, ImageRole, InputUse, Limits, ModelFiles};
use crate::networks::{
    NetworkConfig as _, QwenImageTransformerConfig, QwenImageTransformerKeys, QwenVisionConfig,
    SchedulerConfig, WanVaeConfig,
};

/// Pictures that a model that edits was trained to see.
const MAX_REFERENCES: u32 = 3;

/// Parts that only other models have, and what those are called.
const FOREIGN_PARTS: &[(&str, &str)] = &[
    ("controlnet_", "a Qwen-Image ControlNet"),
    ("addition_t_embedding", LAYERED),
];

pub(super) enum QwenImage {}

impl OneTransformer for QwenImage {
    type Config = QwenImageTransformerConfig;
    type Variant = Variant;

    const FAMILY: Family = super::FAMILY;
    const COMPONENTS: &'static [(&'static str, Option<&'static str>)] = &[
        ("scheduler", None),
        ("text_encoder", None),
        ("tokenizer", None),
        ("transformer", Some("QwenImageTransformer2DModel")),
        ("vae", Some("AutoencoderKLQwenImage")),
    ];

    fn is_in(weights: &WeightSet) -> bool {
        QwenImageTransformerKeys::detect(|key| weights.has(key)).is_some()
    }

    fn check_class(class: &str) -> Result<(), String> {
        Variant::check_class(class)
    }

    fn foreign_part(weights: &WeightSet) -> Option<String> {
        let keys = QwenImageTransformerKeys::detect(|key| weights.has(key))?;
        let (prefix, tops) = (keys.prefix, QwenImageTransformerKeys::tops());
        foreign_part(weights, Self::FAMILY, prefix, FOREIGN_PARTS, tops)
    }

    fn is_quantised(config: &QwenImageTransformerConfig) -> bool {
        config.quantization_config.is_some()
    }

    fn variant(config: &QwenImageTransformerConfig, hints: &Hints<'_>) -> Result<Variant, String> {
        Variant::of(config, hints.class, hints.names)
    }

    fn variant_name(variant: Variant) -> &'static str {
        variant.name()
    }

    fn is_published_vae(place: &Path) -> bool {
        is_published_wan_vae(place)
    }

    fn parts(config: &QwenImageTransformerConfig) -> Vec<Wanted<'_>> {
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
        config: &QwenImageTransformerConfig,
        variant: Variant,
        files: &ModelFiles,
        checked: Checked,
    ) -> Result<Facts, CatalogError> {
        let vae = WanVaeConfig::read(&files.vae)?;
        let edits = variant == Variant::Edit;
        if edits {
            check_sees(&files.text_encoder, config)?;
        }
        let given = if edits {
            InputUse::No
        } else {
            InputUse::Optional
        };
        Ok(Facts {
            family: Self::FAMILY,
            variant: variant.name(),
            shape: TransformerShape {
                heads: config.num_attention_heads,
                head_dim: config.attention_head_dim,
                layers: config.num_layers,
                channels: config.in_channels,
            },
            start_image: given,
            image_role: ImageRole::Base,
            mask: given,
            end_image: InputUse::No,
            guidance: Guidance::Cfg,
            section_order: None,
            latent_channels: vae.z_dim.unsigned_abs(),
            limits: Limits {
                max_references: if edits { MAX_REFERENCES } else { 0 },
                controls: controls(edits),
                ..picture_limits(vae.spatial_factor())
            },
            schedule: checked.schedule,
            bytes: checked.bytes,
        })
    }
}

/// Those that edit have not been trained with the published ControlNets.
fn controls(edits: bool) -> ControlUse {
    if edits {
        return ControlUse::NONE;
    }
    ControlUse {
        takes_masks: true,
        ..ControlUse::NETWORKS
    }
}

/// Checks that a text encoder has the part that looks at pictures, as wide as the transformer reads.
fn check_sees(place: &Path, config: &QwenImageTransformerConfig) -> Result<(), CatalogError> {
    let weights = WeightSet::at(place)?;
    let what = "a Qwen 2.5 VL 7B text encoder with the part that looks at pictures";
    let fits = |fits: bool, found: &str| {
        fits_transformer(fits, what, TEXT_ENCODER, place, || found.to_owned())
    };
    fits(QwenVisionConfig::is_in(&weights), "one without it")?;
    let sees = QwenVisionConfig::read(place)?;
    let is_wide = sees.out_hidden_size == config.joint_attention_dim;
    fits(is_wide, "one of another width")?;
    sees.check_weights(&weights)
}
