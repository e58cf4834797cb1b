//! A whole job of Wan with a mask, stage by stage as the worker orders them.

use std::os::unix::fs::symlink;

use serde_json::json;
use tch::Tensor;

use super::images::{mask, pixels};
use super::jobs::{Job, assert_stops, fixtures};
use super::*;

/// Nine frames from an image of which a mask keeps the left half.
fn job(image: &Tensor, mask: &Tensor) -> Job {
    let request = json!({
        "model": "tiny", "family": "wan", "out": "a.mp4", "fps": 24.0, "num_frames": 9, "sampler": "unipc",
        "prompt": "a red boat", "negative_prompt": "", "width": 64, "height": 32, "num_steps": 2,
        "guidance_scale": 1.0, "seed": 5,
    });
    let write = |folder: &Path| {
        for entry in fs::read_dir(fixtures().join("wan/pipeline")).unwrap() {
            let entry = entry.unwrap();
            symlink(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    };
    Job::of(write, request, Some(image), Some(mask))
}

#[test]
fn unmasked_area_equals_the_start_image_in_every_frame() {
    let (image, mask) = (pixels("pixels", 32, 64), mask(32, 64));
    let output = job(&image, &mask).run(false);
    assert_eq!(output.frames.len(), 9);
    let half = |xs: &Tensor, from: i64| xs.narrow(1, from, 32).copy();
    let mut made_anew = Vec::new();
    for (index, count, bytes) in &output.frames {
        assert_eq!(*count, 9);
        let frame = Tensor::from_slice(bytes).view([32, 64, 3]);
        assert_eq!(half(&frame, 0), half(&image, 0), "frame {index}");
        made_anew.push(half(&frame, 32));
    }
    assert_ne!(made_anew[8], half(&image, 32));
    assert_ne!(made_anew[8], made_anew[0]);
}

#[test]
fn every_stage_of_a_masked_video_job_stops_after_cancellation() {
    assert_stops(&job(&pixels("pixels", 32, 64), &mask(32, 64)));
}
