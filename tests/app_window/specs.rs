//! Models of the kinds that the window knows, none of which is on the disk.

use std::path::PathBuf;

use safelight_core::families::{flux, framepack, wan};
use safelight_core::job::{PartialSampling, SamplerKind, SamplingOptions, SectionOrder};
use safelight_core::model::{
    ControlUse, GuidanceMode, ImageRole, InputUse, ModelDefaults, ModelFiles, ModelSpec,
    SamplingPreset, SizeLimits,
};

/// A model that makes 256×256 videos of 17 frames by default, and any multiple of 64.
pub fn spec() -> ModelSpec {
    ModelSpec {
        section_order: None,
        id: "little-world".into(),
        computer: None,
        name: "Little World".into(),
        description: "A model for tests".into(),
        licence: "CC0-1.0".into(),
        family: wan::FAMILY,
        variant: "TI2V".into(),
        folder: PathBuf::from("models/little-world"),
        bytes: 38 << 20,
        files: ModelFiles::default(),
        start_image: InputUse::Optional,
        image_role: ImageRole::FirstFrame,
        mask: InputUse::No,
        end_image: InputUse::No,
        guidance: GuidanceMode::Cfg,
        presets: Vec::new(),
        defaults: ModelDefaults {
            width: 256,
            height: 256,
            num_frames: 17,
            fps: 8.0,
            sampling: SamplingOptions {
                shift: Some(3.0),
                ..SamplingOptions::plain(12, 4.0)
            },
            small_shift: None,
            negative_prompt: String::new(),
        },
        limits: SizeLimits {
            size_multiple: 32,
            max_pixels: 1 << 24,
            max_edge: 4096,
            frame_stride: 4,
            max_frames: 81,
            fixed_size: true,
            max_batch: 1,
            max_references: 0,
            controls: ControlUse::NONE,
        },
        example_prompts: vec![
            "a red boat sails to the right at sunset".into(),
            "a yellow balloon rises at dawn".into(),
        ],
        latent_rgb: None,
        latent_channels: None,
        prompt_images: None,
    }
}

/// A model of any size between a start and an end image, of two experts, with a preset.
pub fn pair_spec() -> ModelSpec {
    let mut spec = spec();
    spec.id = "pair".into();
    spec.name = "Pair".into();
    spec.variant = "I2V".into();
    spec.start_image = InputUse::Required;
    spec.end_image = InputUse::Optional;
    spec.files.transformer_2 = Some("transformer_2".into());
    spec.limits.fixed_size = false;
    spec.defaults.sampling.guidance_scale_2 = Some(3.0);
    spec.presets = vec![SamplingPreset {
        id: "fast-4".into(),
        name: "Fast 4 steps".into(),
        note: "Needs the lightx2v LoRAs".into(),
        loras: vec!["lightx2v".into()],
        models: Vec::new(),
        lora_strength: None,
        sampling: PartialSampling {
            num_steps: Some(4),
            guidance_scale: Some(1.0),
            shift: Some(5.0),
            sampler: Some(SamplerKind::Euler),
            ..PartialSampling::default()
        },
    }];
    spec
}

/// A model of two experts with an optional start image.
pub fn experts_spec() -> ModelSpec {
    ModelSpec {
        start_image: InputUse::Optional,
        ..pair_spec()
    }
}

pub fn flux_spec() -> ModelSpec {
    let mut spec = spec();
    spec.id = "flux".into();
    spec.name = "Flux".into();
    spec.family = flux::FAMILY;
    spec.variant = "dev".into();
    spec.image_role = ImageRole::Base;
    spec.mask = InputUse::Optional;
    spec.guidance = GuidanceMode::Distilled;
    let defaults = &mut spec.defaults;
    (defaults.width, defaults.height, defaults.num_frames) = (1024, 1024, 1);
    defaults.sampling = SamplingOptions::plain(28, 3.5);
    defaults.sampling.strength = Some(0.6);
    defaults.sampling.sampler = SamplerKind::Euler;
    let limits = &mut spec.limits;
    (limits.size_multiple, limits.max_pixels, limits.fixed_size) = (16, 1 << 22, false);
    (limits.frame_stride, limits.max_frames, limits.max_batch) = (1, 1, 8);
    spec
}

pub fn framepack_spec() -> ModelSpec {
    let mut spec = spec();
    spec.id = "framepack".into();
    spec.name = "FramePack".into();
    spec.family = framepack::FAMILY;
    spec.variant = "I2V".into();
    spec.section_order = Some(SectionOrder::Original);
    spec.start_image = InputUse::Required;
    spec.end_image = InputUse::Optional;
    spec.guidance = GuidanceMode::Distilled;
    let defaults = &mut spec.defaults;
    (defaults.width, defaults.height) = (640, 608);
    (defaults.num_frames, defaults.fps) = (145, 30.0);
    defaults.sampling = SamplingOptions::plain(25, 10.0);
    defaults.sampling.sampler = SamplerKind::UniPcBh1;
    let limits = &mut spec.limits;
    (limits.size_multiple, limits.max_pixels, limits.fixed_size) = (16, 1 << 21, false);
    limits.max_frames = 3601;
    spec
}
