//! Requests that say nothing but what every one must.

use safelight_core::job::{DtypeChoice, PostprocessKind, PostprocessRequest, SamplingOptions};
use safelight_core::media::{RgbPixels, VideoInfo};
use safelight_core::memory::MemoryOptions;
use safelight_core::model::ModelFiles;

use crate::worker_promises::prelude::*;

/// `folder`: of the model, and of the result.
pub fn plain(folder: &Path) -> GenerateRequest {
    let request = serde_json::json!({
        "model": "test", "family": "wan", "prompt": "a boat", "negative_prompt": "", "width": 32, "height": 32,
        "num_frames": 5, "fps": 8.0, "num_steps": 2, "guidance_scale": 1.0, "sampler": "unipc", "seed": 0,
        "out": folder.join("video.mp4"),
    });
    let mut request: GenerateRequest = serde_json::from_value(request).unwrap();
    request.sampling = SamplingOptions::plain(2, 1.0);
    request.files = ModelFiles::in_folder(folder);
    request
}

/// To make an image in this folder twice as large; writes the image and a network that a fake engine does not read.
pub fn enlarging(folder: &Path) -> PostprocessRequest {
    let (source, network) = (folder.join("small.png"), folder.join("net.safetensors"));
    let image = RgbPixels::from_fn(16, 16, |x, y| [x as u8, y as u8, 0]).unwrap();
    media::write_png(&source, &image).unwrap();
    fs::write(&network, "the first weights").unwrap();
    let of_size = |size| VideoInfo {
        width: size,
        height: size,
        fps: 0.0,
        num_frames: 1,
        is_uneven: false,
    };
    PostprocessRequest {
        fingerprint: media::image_fingerprint(&source).unwrap(),
        source,
        is_image: true,
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
