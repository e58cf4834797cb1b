//! The files of a FramePack model (HunyuanVideo packed): what its folder has, and what is known of it.
//!
//! Looks at configs and headers only. Defaults and names are not its business.

use std::path::Path;

use super::parts::parts;
use super::variant;
use crate::families::Family;
use crate::families::files::{Checked, Hints, OneTransformer};
use crate::formats::weights::WeightSet;
use crate::library::companions::wanted::Wanted;
use crate::model::choices::{Sampler, SectionOrder};
use crate::model::facts::{Facts, Schedule, TransformerShape};
use crate::model::{CatalogError, ControlUse, Guidance, ImageRole, InputUse, Limits, ModelFiles};
use crate::networks::{
    FramePackTransformerConfig, FramePackTransformerKeys, HunyuanVaeConfig, NetworkConfig as _,
    SchedulerConfig,
};

pub(super) const PIPELINE: &str = "HunyuanVideoFramepackPipeline";
/// About twice each edge that the models were trained at.
const MAX_PIXELS: u64 = 1 << 21;
/// Places are computed, so that only sense limits an edge.
const MAX_EDGE: u32 = 4096;
/// Two minutes of 30 frames a second.
const MAX_FRAMES: u32 = 3601;
/// Pixels along an edge of one latent, and frames of one latent frame.
const VAE_FACTORS: (u32, u32) = (8, 4);
/// Latents along an edge of one token.
const PATCH: u32 = 2;

pub(super) enum FramePack {}

impl OneTransformer for FramePack {
    type Config = FramePackTransformerConfig;
    type Variant = SectionOrder;

    const FAMILY: Family = super::FAMILY;
    const COMPONENTS: &'static [(&'static str, Option<&'static str>)] = &[
        ("feature_extractor", None),
        ("image_encoder", Some("SiglipVisionModel")),
        ("scheduler", None),
        ("text_encoder", None),
        ("text_encoder_2", Some("CLIPTextModel")),
        ("tokenizer", None),
        ("tokenizer_2", None),
        (
            "transformer",
            Some("HunyuanVideoFramepackTransformer3DModel"),
        ),
        ("vae", Some("AutoencoderKLHunyuanVideo")),
    ];

    fn is_in(weights: &WeightSet) -> bool {
        FramePackTransformerKeys::detect(|key| weights.has(key)).is_some()
    }

    fn is_quantised(config: &FramePackTransformerConfig) -> bool {
        config.quantization_config.is_some()
    }

    fn variant(
        _config: &FramePackTransformerConfig,
        hints: &Hints<'_>,
    ) -> Result<SectionOrder, String> {
        Ok(variant::of_names(hints.names))
    }

    fn variant_name(order: SectionOrder) -> &'static str {
        variant::name(order)
    }

    fn add_files(folder: &Path, files: &mut ModelFiles) {
        files.image_processor = Some(folder.join("feature_extractor"));
    }

    fn is_published_vae(place: &Path) -> bool {
        let published = HunyuanVaeConfig::default().block_out_channels;
        HunyuanVaeConfig::read(place).is_ok_and(|config| config.block_out_channels == published)
    }

    fn parts(config: &FramePackTransformerConfig) -> Vec<Wanted<'_>> {
        parts(config)
    }

    fn schedule(scheduler: &Path) -> Result<Schedule, CatalogError> {
        let scheduler = SchedulerConfig::read_flow_match_euler(scheduler)?;
        Ok(Schedule {
            sampler: Sampler::Euler,
            // Where it goes with the number of tokens, it is nobody's default.
            shift: scheduler.shift.filter(|_| !scheduler.use_dynamic_shifting),
        })
    }

    fn facts(
        config: &FramePackTransformerConfig,
        order: SectionOrder,
        files: &ModelFiles,
        checked: Checked,
    ) -> Result<Facts, CatalogError> {
        let vae = HunyuanVaeConfig::read(&files.vae)?;
        Ok(Facts {
            family: Self::FAMILY,
            variant: variant::name(order),
            shape: TransformerShape {
                heads: config.num_attention_heads,
                head_dim: config.attention_head_dim,
                layers: config.num_layers + config.num_single_layers,
                channels: config.in_channels,
            },
            start_image: InputUse::Required,
            image_role: ImageRole::FirstFrame,
            mask: InputUse::No,
            end_image: order.end_image(),
            guidance: if config.guidance_embeds {
                Guidance::Distilled
            } else {
                Guidance::None
            },
            section_order: Some(order),
            latent_channels: vae.latent_channels.unsigned_abs(),
            limits: limits(),
            schedule: checked.schedule,
            bytes: checked.bytes,
        })
    }
}

fn limits() -> Limits {
    let (spatial, temporal) = VAE_FACTORS;
    Limits {
        size_multiple: spatial * PATCH,
        max_edge: MAX_EDGE,
        max_pixels: MAX_PIXELS,
        frame_stride: temporal,
        max_frames: MAX_FRAMES,
        fixed_size: false,
        max_batch: 1,
        max_references: 0,
        controls: ControlUse::NONE,
    }
}
