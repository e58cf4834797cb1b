//! Networks: one file each, with all that is known of it before a weight is read.
//!
//! A file holds the network's typed config, how it is read from `config.json` and from a header, what other programs
//! call its tensors, and its schema: every tensor that is read, with its shape and role.
//! The engine builds the network from the same config. Which networks a model consists of is its family's business.

mod anima_adapter;
pub mod anima_transformer;
pub mod chroma_transformer;
pub mod clip_text;
mod config;
mod declared;
mod depth_anything;
pub mod dialects;
mod discrete_schedule;
pub mod flux2_transformer;
pub mod flux3_transformer;
pub mod flux_control;
pub mod flux_transformer;
pub mod framepack_transformer;
mod header;
mod hunyuan_vae;
mod ifnet;
mod kl_vae;
pub mod krea2_transformer;
pub mod language;
pub mod ltx2;
mod prelude;
pub mod qwen3_vision;
pub mod qwen_image_21_transformer;
pub mod qwen_image_control;
pub mod qwen_image_transformer;
pub mod qwen_vision;
mod redux;
mod scheduler;
mod schema;
pub mod sdxl_control;
pub mod sdxl_unet;
pub mod stream_blocks;
pub mod t5;
#[cfg(test)]
mod tests;
mod tiny_decoder;
// A family that lives in one folder of the tests. Releases are built without.
#[cfg(debug_assertions)]
#[path = "../../../tests/toy_family/network.rs"]
mod toy;
mod transformer;
mod upscaler;
mod vae;
pub mod vision;
pub mod wan_transformer;
mod wan_vae;
pub mod z_image_control;
pub mod z_image_transformer;

use config::{class_name, model_type};

pub(crate) use crate::model::{DetectionRule, PartKind};
pub use anima_adapter::AnimaAdapterConfig;
pub use anima_transformer::AnimaTransformerConfig;
pub use chroma_transformer::ChromaTransformerConfig;
pub use clip_text::{
    ClipActivation, ClipConfig, ClipG, ClipGTextConfig, ClipKind, ClipL, ClipLayers,
    ClipTextConfig, ClipTextKeys,
};
pub use config::{AutoencoderConfig, NetworkConfig, config_path};
pub(crate) use config::{check_epsilon, check_layers, check_sizes};
pub use declared::DeclaredConfig;
pub use depth_anything::{DEPTH_EDGE, DEPTH_FACTORS, DepthConfig, DepthNames};
pub use discrete_schedule::{DiscreteScheduleConfig, PredictionType, TimestepSpacing};
pub use flux_control::{FluxControlConfig, FluxControlKeys};
pub use flux_transformer::{FluxTransformerConfig, FluxTransformerKeys};
pub use flux2_transformer::{Flux2TransformerConfig, Flux2TransformerKeys};
pub use flux3_transformer::{Flux3TransformerConfig, Flux3TransformerKeys};
pub use framepack_transformer::{FramePackTransformerConfig, FramePackTransformerKeys};
pub use hunyuan_vae::HunyuanVaeConfig;
pub use ifnet::{IFNET_CONVS, IfnetConfig, IfnetHead};
pub use kl_vae::{KlVaeConfig, KlVaeKeys, NORM_MEAN, NORM_VARIANCE, NORMED_EDGE};
pub use krea2_transformer::{Krea2TransformerConfig, Krea2TransformerKeys};
pub(crate) use language::TEKKEN_TENSOR;
pub use language::{LanguageConfig, LanguageKeys, LanguageKind, LanguageTap, LanguageUse};
pub use qwen_image_21_transformer::QwenImage21TransformerConfig;
pub use qwen_image_control::{QwenImageControlConfig, QwenImageControlKeys};
pub use qwen_image_transformer::{QwenImageTransformerConfig, QwenImageTransformerKeys, ZERO_TIME};
pub use qwen_vision::QwenVisionConfig;
pub use qwen3_vision::Qwen3VisionConfig;
pub use redux::ReduxConfig;
pub use scheduler::SchedulerConfig;
pub use schema::{Schema, TensorRole, TensorSpec};
pub use sdxl_control::SdxlControlConfig;
pub use sdxl_unet::SdxlUnetConfig;
pub use t5::{T5Config, T5Keys, T5Kind, T5Names};
pub use tiny_decoder::{TinyDecoderConfig, TinyDecoderKeys, TinyDecoderLayers, TinyDecoderLevel};
#[cfg(debug_assertions)]
pub use toy::ToyConfig;
pub use transformer::{DenoiserConfig, TransformerConfig};
pub use upscaler::{RrdbConfig, RrdbNames, SPAN_BLOCKS, UpscalerConfig, UpscalerLayers};
pub use vae::VaeHalf;
pub use vision::{ClipVisionConfig, SiglipConfig, VisionConfig, VisionKind};
pub use wan_transformer::{TransformerKeys, WanTransformerConfig};
pub use wan_vae::{WanVaeConfig, WanVaeKeys, WanVaeLevel};
pub use z_image_control::{ControlRefiner, ZImageControlConfig, ZImageControlKeys};
pub use z_image_transformer::{ZImageTransformerConfig, ZImageTransformerKeys};

/// Encoders, whichever models they are for. The first that fits wins, so the more special come first.
pub(crate) const ENCODERS: [&[DetectionRule]; 5] = [
    language::GEMMA,
    vision::KINDS,
    t5::KINDS,
    clip_text::KINDS,
    language::RULES,
];
/// Decoders of the latents of several families.
pub(crate) const DECODERS: [&[DetectionRule]; 2] = [tiny_decoder::KINDS, kl_vae::KINDS];
/// Networks that change finished images and videos.
pub(crate) const FINISHERS: [&[DetectionRule]; 3] =
    [upscaler::KINDS, ifnet::KINDS, depth_anything::KINDS];
