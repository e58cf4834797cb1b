//! Inpainting of videos: diffusers has no such pipeline for Wan, so the tests check the arithmetic of its inpainting
//! pipelines for images.

use safelight_core::job::SamplerKind;
use safelight_core::media::{RgbPixels, write_png};

use super::source::{VideoRun, frame, latents_of};
use super::variants::{VariantRun, denoise_all};
use super::*;

/// An image of the video's size, and a mask that is white in its right half.
fn given(run: &Run) -> (Vec<u8>, RgbPixels) {
    let (width, height) = (run.request.width, run.request.height);
    let made = |x: u32, y: u32| [x * 3, y * 5, x * y].map(|value| (value % 256) as u8);
    let image = RgbPixels::from_fn(width, height, made).unwrap();
    let mask = RgbPixels::from_fn(width, height, |x, _| {
        [if 2 * x < width { 0 } else { 255 }; 3]
    });
    (image.rgb.clone(), mask.unwrap())
}

fn kept_of(run: &Run) -> KeptVideo {
    let (image, mask) = given(run);
    let off = &mut StageCapture::off();
    encode_kept(&run.config, &image, &mask, &mut run.work(off, &NoHooks)).unwrap()
}

/// The left half, which the mask keeps, of latents.
fn left(latents: &Tensor) -> Tensor {
    latents.narrow(4, 0, latents.size()[4] / 2)
}

fn right(latents: &Tensor) -> Tensor {
    let half = latents.size()[4] / 2;
    latents.narrow(4, half, half)
}

/// Without the first latent frame, which some models are given as it is.
fn behind_first(latents: &Tensor) -> Tensor {
    latents.narrow(2, 1, latents.size()[2] - 1)
}

#[test]
fn masked_start_image_is_encoded_as_a_static_video() {
    let run = Run::open("image_to_video");
    let kept = kept_of(&run);
    assert_eq!(kept.latents.size(), run.shape().size());
    let (image, _) = given(&run);
    let off = &mut StageCapture::off();
    let first = encode_image(&run.config, &image, None, &mut run.work(off, &NoHooks)).unwrap();
    assert_close("first", &kept.latents.narrow(2, 0, 1), &first, 1e-5);
    assert_eq!(kept.mask.mean(Kind::Float).double_value(&[]), 0.5);
    let vae = &run.config.vae;
    let mask = latent_mask(&kept.mask, vae.spatial_factor(), vae.temporal_factor());
    let [_, _, _, height, width] = run.shape().size();
    assert_eq!(mask.size(), [1, 1, 1, height, width]);
    assert_eq!(left(&mask).max().double_value(&[]), 0.0);
    assert_eq!(right(&mask).min().double_value(&[]), 1.0);
}

#[test]
fn latents_outside_of_the_mask_follow_the_noised_image_and_end_as_its_own() {
    let mut run = Run::open("image_to_video");
    run.request.sampling.num_steps = 7;
    let plain = run.latents();
    run.kept = Some(kept_of(&run));
    let kept = kept_of(&run).latents;
    let (whole, recorder) = run.assert_resumes("masked");
    assert_eq!(behind_first(&left(&whole)), behind_first(&left(&kept)));
    assert!(distance(&behind_first(&right(&whole)), &behind_first(&right(&kept))) > 0.1);
    assert!(distance(&whole, &plain) > 0.01);

    let solver = new_solver(&run.config.scheduler, &run.request).unwrap();
    let noise = noise(&run.shape().size(), run.request.seed).unwrap();
    for state in recorder.states.take() {
        let sigma = f64::from(solver.sigmas()[state.step]);
        let noised = &noise * sigma + &kept * (1.0 - sigma);
        assert_close("on the way", &left(&state.latents), &left(&noised), 1e-6);
    }
    // A mask that keeps nothing changes nothing.
    run.kept = Some(KeptVideo {
        mask: kept_of(&run).mask.ones_like(),
        latents: kept,
    });
    assert_eq!(run.latents(), plain);
}

#[test]
fn both_experts_and_every_sampler_keep_it() {
    let mut opened = VariantRun::open("i2v22");
    let run = &mut opened.run;
    run.kept = Some(kept_of(run));
    let kept = kept_of(run).latents;
    for sampler in SamplerKind::ALL {
        run.request.sampling.sampler = sampler;
        let made = denoise_all(run, &mut StageCapture::off(), &NoHooks).latents;
        assert_eq!(left(&made), left(&kept), "{sampler}");
        assert!(distance(&right(&made), &right(&kept)) > 0.1, "{sampler}");
    }
}

#[test]
fn kept_latents_of_another_size_are_refused() {
    let mut run = Run::open("image_to_video");
    run.kept = Some(KeptVideo {
        latents: kept_of(&run).latents.narrow(2, 0, 1),
        mask: kept_of(&run).mask,
    });
    let text = run.refusal(Expert::Only);
    assert!(text.contains("the latents that the mask keeps are not of this job"));
}

/// A recorded run with the mask of its video as the stage reads it.
fn masked(name: &str) -> (VideoRun, FittedVideo) {
    let mut opened = VideoRun::open(name);
    let folder = opened.folder();
    let mask = opened.run.get("mask_u8").unsqueeze(-1);
    let mask = mask.expand([-1, -1, -1, 3], false);
    opened.run.request.mask = Some("mask.0000.png".into());
    if mask.size()[0] == 1 {
        write_png(&folder.mask(), &frame(&mask, 0)).unwrap();
    } else {
        fs::create_dir(folder.mask_video()).unwrap();
        for index in 0..mask.size()[0] {
            let path = folder.mask_video().join(format!("mask.{index:04}.png"));
            write_png(&path, &frame(&mask, index)).unwrap();
        }
    }
    let video = opened.video();
    opened.run.kept = Some(KeptVideo {
        latents: opened.run.get("base").copy(),
        mask: video.made(),
    });
    (opened, video)
}

#[test]
fn a_video_is_changed_inside_of_a_mask_as_the_composed_pipeline_does() {
    for name in ["masked", "moving_mask"] {
        let (opened, video) = masked(name);
        let run = &opened.run;
        let made = video.made().to_kind(Kind::Float);
        let expected = run.get("mask_u8").gt(0).to_kind(Kind::Float);
        assert_eq!(made.squeeze_dim(0).squeeze_dim(0), expected, "{name}");
        let (whole, recorder) = run.resumed(name);
        let steps = (0..).map_while(|step| run.step(step, "latents"));
        let steps: Vec<&Tensor> = steps.collect();
        let limit = run.limit(&latents_of(steps.len() - 1), FINAL_LIMIT);
        assert_close(name, &whole, steps.last().unwrap(), limit);
        for state in recorder.states.take() {
            let step = state.step - (run.request.sampling.num_steps as usize - steps.len());
            let limit = run.limit(&latents_of(step - 1), 3e-5);
            assert_close(name, &state.latents, steps[step - 1], limit);
        }
    }
}

#[test]
fn pixels_outside_a_moving_mask_are_restored_in_chunks_of_any_size() {
    let (_opened, video) = masked("moving_mask");
    let (frames, made) = (&video.frames, video.made());
    let kept = PixelRestore::of_video(frames, &made).unwrap();
    let new = Tensor::full_like(frames, 7);
    let runs = [(0, 1), (1, 4), (5, 4)];
    let over = runs.map(|(first, count)| kept.over_from(first, &new.narrow(0, first, count)));
    let over = Tensor::cat(&over, 0);
    let made = made.squeeze_dim(0).squeeze_dim(0).unsqueeze(-1).gt(0);
    assert_eq!(over, new.where_self(&made, frames));
    assert!(made.any().int64_value(&[]) == 1 && made.all().int64_value(&[]) == 0);
}

#[test]
fn soft_mask_edge_blends_generated_and_original_pixels() {
    let own = RgbPixels::from_fn(4, 1, |_, _| [100, 200, 50]).unwrap();
    let mask = Tensor::from_slice(&[0_f32, 0.25, 0.5, 1.0]).view([1, 1, 1, 4]);
    let made = Tensor::full([1, 1, 4, 3], 20, (Kind::Uint8, Device::Cpu));
    let over = PixelRestore::of(&own, &mask).unwrap().over(&made);
    let over = Vec::<u8>::try_from(over.flatten(0, -1)).unwrap();
    let expected = [[100, 200, 50], [80, 155, 42], [60, 110, 35], [20; 3]];
    assert_eq!(over, expected.concat());
}
