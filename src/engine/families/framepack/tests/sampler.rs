//! The schedule of a section, and UniPC as FramePack's authors have it (`tests/fixtures/framepack/stages`).

use safelight_core::job::GenerateRequest;
use serde_json::{Value, json};

use super::*;
use crate::families::framepack::denoise::solver;

fn request(steps: &str, sampler: &str, shift: Option<f64>) -> GenerateRequest {
    let steps: Value = serde_json::from_str(steps).unwrap();
    let request = json!({
        "model": "tiny", "family": "framepack", "out": "a.mp4", "fps": 30.0, "prompt": "", "negative_prompt": "",
        "files": {
            "transformer": "", "vae": "", "text_encoder": "", "tokenizer": "", "expand_timesteps": false,
        },
        "width": 640, "height": 608, "num_frames": 37, "num_steps": steps, "guidance_scale": 10.0,
        "sampler": sampler, "seed": 0, "shift": shift,
    });
    serde_json::from_value(request).unwrap()
}

#[test]
fn framepack_unipc_matches_the_reference() {
    let path = fixture("../stages/unipc.safetensors");
    for (steps, expected) in Weights::read_all(&path).unwrap() {
        let mut solver = solver(&request(&steps, "unipc_bh1", Some(3.5)), 100).unwrap();
        let mut latents = made_up("noise", &[3, 5]);
        for call in solver.all_calls() {
            let sigma = f64::from(solver.sigmas()[call]);
            assert!((f64::from(solver.timestep(call)) - 1000.0 * sigma).abs() < 1e-3);
            let x0 = (&latents * (1.5 - sigma)).tanh() * 0.7 + 0.1;
            let velocity = (&latents - x0) / sigma;
            latents = solver.step(call, &velocity, &latents).latents;
        }
        assert_close(&steps, &latents, &expected, 1e-5);
    }
}

#[test]
fn the_shift_goes_with_the_number_of_tokens_up_to_seven() {
    let second = |tokens, shift| {
        let solver = solver(&request("2", "unipc_bh1", shift), tokens).unwrap();
        f64::from(solver.sigmas()[1])
    };
    let shifted = |factor: f64| factor / (factor + 1.0);
    // 9 latent frames of 608 × 640 pixels.
    assert!((second(9 * 38 * 40, None) - shifted(7.0)).abs() < 1e-6);
    assert!((second(256, None) - shifted(0.5_f64.exp())).abs() < 1e-6);
    assert!((second(256, Some(3.0)) - shifted(3.0)).abs() < 1e-6);
}

#[test]
fn scheduler_config_of_the_model_applies_only_to_diffusers_samplers() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({
        "_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": 7.0,
        "use_dynamic_shifting": false,
    });
    let path = folder.path().join("scheduler_config.json");
    fs::write(path, config.to_string()).unwrap();
    let dynamic = 0.5_f64.exp();
    for (sampler, dynamic_shift, factor) in [
        ("euler", true, dynamic),
        ("unipc_bh1", false, dynamic),
        ("euler", false, 7.0),
    ] {
        let mut request = request("2", sampler, None);
        request.files.scheduler = Some(folder.path().to_owned());
        request.sampling.dynamic_shift = dynamic_shift;
        let second = f64::from(solver(&request, 256).unwrap().sigmas()[1]);
        assert!((second - factor / (factor + 1.0)).abs() < 1e-6, "{sampler}");
    }
}
