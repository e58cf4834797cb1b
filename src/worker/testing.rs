//! The request that the worker's unit tests work on.

use safelight_core::job::GenerateRequest;

/// A video of 81 frames of 832 × 480 by a Wan model.
pub(crate) fn request() -> GenerateRequest {
    let json = serde_json::json!({
        "model": "wan", "family": "wan", "prompt": "a boat", "negative_prompt": "",
        "width": 832, "height": 480, "num_frames": 81, "fps": 16.0, "num_steps": 12,
        "guidance_scale": 4.0, "sampler": "unipc", "seed": 7,
    });
    serde_json::from_value(json).unwrap()
}
