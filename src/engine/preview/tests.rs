//! Which way previews are made, and that nothing about them ever costs a job more than a line.

use safelight_core::job::GenerateRequest;
use serde_json::json;
use tch::{Device, Kind, Tensor};

use super::*;
use crate::vae::tiny::tests as tiny;

fn request(preview: &str, decoder: Option<&Path>) -> GenerateRequest {
    serde_json::from_value(json!({
        "model": "m", "family": "flux", "prompt": "", "negative_prompt": "", "width": 48, "height": 32,
        "num_frames": 1, "fps": 1.0, "num_steps": 1, "guidance_scale": 1.0, "sampler": "euler", "seed": 0,
        "preview": preview, "files": {"preview_decoder": decoder},
    }))
    .unwrap()
}

fn latents(channels: i64) -> Tensor {
    Tensor::ones([1, channels, 1, 4, 6], (Kind::Float, Device::Cpu))
}

fn previewer(request: &GenerateRequest) -> StagePreviewer {
    StagePreviewer::new(request, Device::Cpu, true)
}

#[test]
fn preview_choice_selects_tiny_decoder_linear_map_or_none() {
    let (_folder, path) = tiny::write("taef1", |key| Some(key.to_owned()));
    for (choice, has_file, size) in [
        ("auto", true, Some([1, 32, 48, 3])),
        ("auto", false, Some([1, 4, 6, 3])),
        ("linear", true, Some([1, 4, 6, 3])),
        ("off", true, None),
    ] {
        let request = request(choice, has_file.then_some(path.as_path()));
        let shown = previewer(&request).show(&latents(16), false);
        let found = shown.map(|shown| {
            assert_eq!(shown.problem, None);
            shown.images.size()
        });
        assert_eq!(found, size.map(|size| size.to_vec()), "{choice}");
    }
    // Where memory has run out the job alone counts.
    let request = request("auto", Some(&path));
    let mut bare = StagePreviewer::new(&request, Device::Cpu, false);
    let shown = bare.show(&latents(16), false).unwrap();
    assert_eq!(shown.images.size(), [1, 4, 6, 3]);
}

#[test]
fn a_decoder_that_cannot_be_used_leaves_coarse_previews_and_one_line() {
    let (_folder, path) = tiny::write("taew2_1", |key| Some(key.to_owned()));
    let gone = path.with_file_name("gone.safetensors");
    let cut = path.with_file_name("cut.safetensors");
    std::fs::write(&cut, &std::fs::read(&path).unwrap()[..2000]).unwrap();
    let for_48 = latents(48);
    for (place, latents) in [(&gone, latents(16)), (&cut, latents(16)), (&path, for_48)] {
        let mut previewer = previewer(&request("auto", Some(place)));
        let shown = previewer.show(&latents, false).unwrap();
        assert!(!previewer.is_tiny());
        assert_eq!(shown.images.size(), [1, 4, 6, 3]);
        let problem = shown.problem.unwrap();
        assert!(problem.starts_with("previews are coarse"), "{problem}");
        assert_eq!(problem.lines().count(), 1);
        let again = previewer.show(&latents, true).unwrap();
        assert_eq!(again.problem, None);
    }
}

#[test]
fn previews_are_throttled_except_for_the_last_step() {
    let mut previewer = previewer(&request("linear", None));
    assert!(previewer.show(&latents(16), false).is_some());
    assert!(previewer.show(&latents(16), false).is_none());
    // The last one stays until frames come.
    assert!(previewer.show(&latents(16), true).is_some());
}
