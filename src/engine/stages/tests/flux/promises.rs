//! What jobs of Flux promise beside the right numbers: batches, resuming, cancelling, and what they refuse.

use safelight_core::job::{CannyThresholds, SamplerKind};
use safelight_core::media;

use super::super::images;
use super::*;

fn pixels(height: i64, width: i64) -> Tensor {
    images::pixels("pixels", height, width)
}

#[test]
fn every_image_of_a_batch_is_the_one_that_its_seed_alone_makes() {
    let image = pixels(20, 30);
    for (variant, role, sampler) in [
        ("dev", "base", "euler"),
        ("dev", "base", "lcm"),
        ("fill", "canvas", "euler"),
        ("control", "base", "euler"),
        ("control", "base", "lcm"),
    ] {
        let is_controlled = variant == "control";
        let mask = Some(pixels(30, 20));
        let mask = mask.filter(|_| variant == "fill" || (sampler == "lcm" && !is_controlled));
        let made = |seed: u64, batch_size: u32| {
            let facts = json!({
                "seed": seed, "batch_size": batch_size, "image_role": role, "num_steps": 3, "strength": 0.7,
                "sampler": sampler, "true_cfg_scale": 2.0,
            });
            // With and without an image to begin from.
            let begins = !(is_controlled && sampler == "euler");
            let start = Some(&image).filter(|_| begins);
            let job = Job::new(variant, &facts, start, mask.as_ref());
            let job = job.with_controls(Some(&image).filter(|_| is_controlled).into_iter());
            let output = job.run(false);
            (job.latents(), output)
        };
        let (batch, output) = made(u64::MAX - 1, 3);
        let sent = output.frames.iter().map(|(i, count, _)| (*i, *count));
        assert!(sent.eq([(0, 3), (1, 3), (2, 3)]));
        for index in 0..3 {
            // Seeds go round.
            let (alone, _) = made((u64::MAX - 1).wrapping_add(index), 1);
            let of_batch = batch.narrow(0, index as i64, 1);
            let what = format!("{variant} {role} {sampler} {index}");
            assert_eq!(of_batch, alone, "{what}");
        }
        let others = distance(&batch.narrow(0, 0, 1), &batch.narrow(0, 1, 1));
        assert!(others > 0.1, "{variant} {role}: all images are the same");
    }
}

#[test]
fn cancelled_or_crashed_flux_job_resumes_bit_for_bit() {
    for sampler in SamplerKind::ALL {
        let facts = json!({"num_steps": 7, "batch_size": 2, "sampler": sampler});
        let job = Job::new("dev", &facts, None, None);
        jobs::assert_goes_on(&job, sampler.name());
    }
    let facts = json!({"num_steps": 7, "batch_size": 2, "sampler": "lcm"});
    let control = pixels(32, 32);
    let job = Job::new("control", &facts, None, None).with_controls([&control].into_iter());
    jobs::assert_goes_on(&job, "control");
}

#[test]
fn computed_canny_edges_give_the_same_result_as_a_given_edge_image() {
    let control = pixels(32, 32);
    let edges = {
        let bytes: Vec<u8> = control.flatten(0, -1).try_into().unwrap();
        let image = media::RgbPixels::new(32, 32, bytes).unwrap();
        let edges = media::canny(&image, 50, 150).unwrap();
        Tensor::from_slice(&edges.rgb).view([32, 32, 3])
    };
    let made = |control: &Tensor, made: Option<CannyThresholds>| {
        let job = Job::new("control", &json!({}), None, None);
        let mut job = job.with_controls([control].into_iter());
        job.request.controls[0].settings.made = made;
        job.run(false);
        job.latents()
    };
    let computed = made(&control, Some(CannyThresholds { low: 50, high: 150 }));
    assert_eq!(computed, made(&edges, None));
    assert_ne!(computed, made(&control, None));
}

#[test]
fn a_second_pass_follows_the_control_image_at_its_own_size() {
    let control = pixels(32, 32);
    let facts = json!({
        "width": 64, "height": 64, "num_steps": 4,
        "second_pass": {"scale": 2.0, "strength": 0.5, "first_width": 32, "first_height": 32},
    });
    let job = Job::new("control", &facts, None, None).with_controls([&control].into_iter());
    let output = job.run(false);
    assert_eq!(output.frames[0].2.len(), 64 * 64 * 3);
}

#[test]
fn fill_keeps_unmasked_pixels_only_if_requested() {
    let image = pixels(32, 48);
    let mask = images::mask(32, 48);
    let left_of = |keeps: bool| {
        let facts = json!({
            "width": 48, "image_role": "canvas", "num_steps": 2, "keeps_unmasked": keeps,
        });
        let output = Job::new("fill", &facts, Some(&image), Some(&mask)).run(false);
        let made = Tensor::from_slice(&output.frames[0].2).view([32, 48, 3]);
        let half = |xs: &Tensor, from: i64| xs.narrow(1, from, 24).copy();
        assert_ne!(half(&made, 24), half(&image, 24));
        half(&made, 0)
    };
    let own = image.narrow(1, 0, 24).copy();
    assert_eq!(left_of(true), own);
    assert_ne!(left_of(false), own);
}

#[test]
fn every_flux_fill_stage_stops_after_cancellation() {
    let facts = json!({"image_role": "canvas"});
    let (image, mask) = (pixels(32, 32), pixels(32, 32));
    let job = Job::new("fill", &facts, Some(&image), Some(&mask));
    jobs::assert_stops(&job);
}

#[test]
fn tiles_of_the_autoencoder_change_nothing_but_rounding() {
    let image = pixels(64, 96);
    let made = |tile: Option<u32>| {
        let facts = json!({"width": 96, "height": 64, "vae_tile": tile, "image_role": "base"});
        let job = Job::new("dev", &facts, Some(&image), None);
        let output = job.run(true);
        assert_eq!(output.frames.len(), 1);
        let found = job.captured();
        ["vae.encode.0.mean", "pixels"].map(|name| found[name].shallow_clone())
    };
    let [whole, tiled] = [made(None), made(Some(32))];
    assert_close("encoder", &tiled[0], &whole[0], 1e-5);
    assert_close("decoder", &tiled[1], &whole[1], 3e-5);
}

#[test]
fn unsupported_flux_inputs_and_settings_are_refused_with_a_reason() {
    let (image, mask) = (pixels(32, 32), pixels(32, 32));
    let [none, image, both] = [[None; 2], [Some(&image), None], [Some(&image), Some(&mask)]];
    let canvas = || json!({"image_role": "canvas"});
    let (encode, denoise) = (Stage::EncodeImage, Stage::Denoise);
    let (weak, late) = (json!({"strength": 0.0}), json!({"start_step": 2}));
    let (narrow, shift) = (json!({"width": 40}), json!({"shift": -1.0}));
    let vision = Stage::EncodeVision;
    for (variant, facts, [image, mask], stage, expected) in [
        ("fill", canvas(), image, encode, "a mask"),
        ("fill", canvas(), none, denoise, "an image and a mask"),
        ("dev", canvas(), both, denoise, "else with an image"),
        ("dev", weak, image, denoise, "strength of 0 "),
        ("dev", late, none, denoise, "from 2 to 2"),
        ("dev", narrow, none, denoise, "multiples of 16"),
        ("dev", shift, none, denoise, "shift of -1"),
        ("dev", json!({}), none, vision, "nothing that reads images"),
    ] {
        let job = Job::new(variant, &facts, image, mask);
        for before in Recipe::from_request(&job.request).stages {
            if before == stage || before == Stage::Save {
                break;
            }
            job.stage(before, false);
        }
        let (done, _) = try_stage(&job.order(stage, false), &|_, _| {});
        let found = done.unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn shift_of_the_request_overrides_the_shift_of_the_model() {
    let sigmas = |variant: &str, shift: Option<f64>| {
        let facts = json!({"num_steps": 4, "shift": shift});
        let job = Job::new(variant, &facts, None, None);
        job.run(true);
        job.captured().remove("sigmas").unwrap()
    };
    for variant in ["dev", "schnell"] {
        let even = Tensor::from_slice(&[1.0_f32, 0.75, 0.5, 0.25, 0.0]);
        let expected = &even * 3.0 / (&even * 2.0 + 1.0);
        assert_close(variant, &sigmas(variant, Some(3.0)), &expected, 1e-6);
        assert!(distance(&sigmas(variant, None), &expected) > 1e-2);
    }
}

#[test]
fn an_image_whose_numbers_are_too_large_for_halves_is_decoded_once_more_in_f32() {
    let job = Job::new("dev", &json!({ "dtype": "f16" }), None, None);
    let config = json_of("vae/kl/flux/config.json");
    let (channels, levels) = (&config["latent_channels"], &config["block_out_channels"]);
    let side = 32 >> (levels.as_array().unwrap().len() - 1);
    let size = [1, channels.as_i64().unwrap(), side, side];
    let latents = Tensor::full(size, 1e6, (Kind::Float, Device::Cpu));
    tensor_files::write_one(&job.result(Stage::Denoise), "latents", &latents).unwrap();
    let (done, output) = try_stage(&job.order(Stage::Decode, false), &|_, _| {});
    done.unwrap();
    assert_eq!(output.frames.len(), 1);
    assert!(output.warning().contains("once more in f32"));
}

#[test]
fn second_pass_starts_from_the_image_of_the_first_pass() {
    let make: images::Make<'_> = &|facts, [image, mask]| Job::new("dev", facts, image, mask);
    images::assert_second_pass(make, false);
}
