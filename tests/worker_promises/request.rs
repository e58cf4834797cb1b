//! Requests that say nothing but what every one must.

use safelight_core::families::wan;
use safelight_core::finish::{PostprocessKind, PostprocessRequest};
use safelight_core::job::{DtypeChoice, PreviewChoice, ResizeMode, SamplingOptions};
use safelight_core::library::ComponentOverrides;
use safelight_core::media::{ClipInfo, RgbPixels};
use safelight_core::memory::MemoryOptions;
use safelight_core::model::{ImageRole, ModelFiles};

use crate::worker_promises::prelude::*;

/// `folder`: of the model, and of the result.
pub fn plain(folder: &Path) -> GenerateRequest {
    GenerateRequest {
        model: "test".to_owned(),
        family: wan::FAMILY,
        files: ModelFiles::in_folder(folder),
        companions: ComponentOverrides::default(),
        latent_rgb: None,
        preview: PreviewChoice::Auto,
        image_role: ImageRole::FirstFrame,
        prompt: "a boat".to_owned(),
        prompt_template: None,
        negative_prompt: String::new(),
        negative_prompt_template: None,
        image: None,
        last_image: None,
        extend: None,
        source_clip: None,
        mask: None,
        keeps_unmasked: false,
        references: Vec::new(),
        controls: Vec::new(),
        prompt_pictures: Vec::new(),
        is_out_automatic: false,
        fit: ResizeMode::Stretch,
        width: 32,
        height: 32,
        sections: None,
        step_cache: None,
        num_frames: 5,
        fps: 8.0,
        batch_size: 1,
        sampling: SamplingOptions::plain(2, 1.0),
        vae_tile: None,
        memory: MemoryOptions::default(),
        seed: 0,
        max_sequence_length: None,
        loras: Vec::new(),
        dtype: DtypeChoice::Auto,
        capture: None,
        out: folder.join("clip.mp4"),
        sidecar: false,
        second_pass: None,
        grid: None,
    }
}

/// To make a picture in this folder twice as large; writes the picture and a network that a fake engine does not read.
pub fn enlarging(folder: &Path) -> PostprocessRequest {
    let (source, network) = (folder.join("small.png"), folder.join("net.safetensors"));
    let picture = RgbPixels::from_fn(16, 16, |x, y| [x as u8, y as u8, 0]).unwrap();
    media::write_png(&source, &picture).unwrap();
    fs::write(&network, "the first weights").unwrap();
    let of_size = |size| ClipInfo {
        width: size,
        height: size,
        fps: 0.0,
        num_frames: 1,
        is_uneven: false,
    };
    PostprocessRequest {
        fingerprint: media::picture_fingerprint(&source).unwrap(),
        source,
        is_picture: true,
        before: of_size(16),
        after: of_size(32),
        work: PostprocessKind::Upscale { network, passes: 1 },
        dtype: DtypeChoice::Auto,
        tile: None,
        memory: MemoryOptions::default(),
        crf: 16,
        out: folder.join("large.png"),
        is_out_automatic: false,
    }
}
