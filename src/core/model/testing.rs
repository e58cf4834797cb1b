//! A made-up model for tests.

use std::path::PathBuf;

use super::{
    ControlUse, GuidanceMode, ImageRole, InputUse, ModelDefaults, ModelFamily, ModelFiles,
    ModelSpec, SamplingOptions, SizeLimits,
};

pub(crate) fn test_spec() -> ModelSpec {
    ModelSpec {
        id: "test".into(),
        computer: None,
        name: "Test model".into(),
        description: String::new(),
        licence: "MIT".into(),
        family: ModelFamily::WAN,
        variant: "TI2V".into(),
        folder: PathBuf::new(),
        files: ModelFiles::default(),
        bytes: 0,
        start_image: InputUse::Optional,
        image_role: ImageRole::FirstFrame,
        mask: InputUse::No,
        end_image: InputUse::No,
        guidance: GuidanceMode::Cfg,
        section_order: None,
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
            max_edge: 32768,
            max_pixels: 1 << 24,
            frame_stride: 4,
            max_frames: 257,
            fixed_size: true,
            max_batch: 1,
            max_references: 0,
            controls: ControlUse::NONE,
        },
        example_prompts: Vec::new(),
        latent_rgb: None,
        latent_channels: None,
        prompt_images: None,
    }
}
