//! The second pass in forms and requests.

use Stage::{Decode, Denoise, DenoiseHigh, DenoiseLow, EncodeImage, EncodeText, Save, Unload};

use super::images::{dev, fill};
use super::*;
use crate::job::{EnlargedPass, GenerateRequest, Recipe, SecondPass, Stage};

fn two_passes(form: &mut GenerateForm, scale: f64, strength: f64) {
    (form.width, form.height) = (Some(512), Some(768));
    form.second_pass = Some(SecondPass { scale, strength });
}

fn with(change: impl FnOnce(&mut GenerateForm)) -> impl FnOnce(&mut GenerateForm) {
    |form| {
        two_passes(form, 1.5, 0.4);
        change(form);
    }
}

fn request(change: impl FnOnce(&mut GenerateForm)) -> GenerateRequest {
    request_of(&dev(), with(change))
}

#[test]
fn a_second_pass_makes_the_result_larger_in_whole_steps_of_the_model() {
    let made = request(|_| {});
    assert_eq!((made.width, made.height), (768, 1152));
    assert_eq!(made.first_size(), (512, 768));
    let made = request(|form| two_passes(form, 1.3, 0.4));
    assert_eq!((made.width, made.height), (672, 992));
}

#[test]
fn its_stages_see_their_own_size_and_strength() {
    let made = request(|_| {});
    let recipe = Recipe::from_request(&made);
    let first = [EncodeText, Denoise, Unload];
    let second = [EncodeImage, Denoise, Unload, Decode, Save];
    assert_eq!(recipe.stages, [&first[..], &second].concat());
    let first = made.clone().of_pass(Denoise, 0);
    assert_eq!((first.width, first.height), (512, 768));
    assert_eq!(first.sampling.strength, None);
    for (stage, section) in [(EncodeImage, 0), (Denoise, 1)] {
        let second = made.clone().of_pass(stage, section);
        assert_eq!((second.width, second.height), (768, 1152));
        assert_eq!(second.sampling.strength, Some(0.4));
    }
    // From an image, which the first pass reads.
    let from = request(|form| form.inputs.image = Some(start_image(512, 768)));
    assert_eq!(from.clone().of_pass(EncodeImage, 0).width, 512);
    assert_eq!(from.of_pass(EncodeImage, 1).width, 768);
}

#[test]
fn second_pass_splits_a_batch_into_one_job_per_image() {
    let mut filled = GenerateForm {
        out: "boat.png".into(),
        batch_size: Some(3),
        ..form()
    };
    two_passes(&mut filled, 2.0, 0.5);
    let made = jobs_of(&filled, &dev(), &|name| Err(name.to_owned())).unwrap();
    assert_eq!(made.jobs.len(), 3);
    assert!(made.jobs.iter().all(|job| job.request.batch_size == 1));
}

#[test]
fn incompatible_second_pass_settings_are_refused_with_a_reason() {
    let masked = |form: &mut GenerateForm| {
        (form.inputs.image, form.inputs.mask) =
            (Some(start_image(512, 768)), Some(start_image(512, 768)));
    };
    let passes = |scale, strength| refused(&dev(), |form| two_passes(form, scale, strength));
    let of_videos = refused(&test_spec(), |form| {
        form.second_pass = Some(SecondPass::of_scale(2.0));
    });
    let part = with(|form| form.sampling.end_step = Some(9));
    let masked_too = "second-pass: hires fix and a mask";
    for (text, expected) in [
        (refused(&dev(), with(masked)), masked_too),
        (refused(&fill(), with(masked)), "hires fix and a mask"),
        (passes(5.0, 0.4), "1.1 to 4 times"),
        (passes(4.0, 0.4), "choose a smaller size or scale"),
        (passes(2.0, 0.0), "leaves none of the 28 steps"),
        (passes(2.0, 1.5), "between 0 and 1"),
        (refused(&dev(), part), "needs all steps"),
        (of_videos, "has no hires fix"),
    ] {
        assert_contains(&text, expected);
    }
}

#[test]
fn second_pass_round_trips_through_the_request_and_is_omitted_when_unused() {
    let made = request(|_| {});
    let read = written_and_read(&made);
    assert_eq!(read.second_pass, made.second_pass);
    let again = GenerateForm::from(&read);
    assert_eq!((again.width, again.height), (Some(512), Some(768)));
    let pass = made.second_pass.map(|it: EnlargedPass| it.pass);
    assert_eq!(again.second_pass, pass);
    let older = request_of(&dev(), |_| {});
    let text = serde_json::to_string(&older).unwrap();
    assert!(!text.contains("second_pass"));
}

#[test]
fn a_videos_second_pass_is_made_by_the_last_of_its_experts() {
    let enlarged = |form: &mut GenerateForm| form.second_pass = Some(SecondPass::of_scale(1.5));
    let recipe = |has_two: bool| {
        let mut spec = free_spec();
        spec.files.transformer_2 = has_two.then(|| "low".into());
        let request = request_of(&spec, enlarged);
        assert_eq!((request.width, request.height), (384, 384));
        let stages = Recipe::from_request(&request).stages;
        let last = stages[stages.len() - 4];
        let second = request.clone().of_pass(last, 1);
        assert!(second.is_second_pass() && second.begins_from_video());
        let first = request.of_pass(last, 0);
        assert!(!first.is_second_pass() && !first.begins_from_video());
        stages
    };
    let last = |denoise| [EncodeImage, denoise, Unload, Decode, Save];
    let first = [EncodeText, DenoiseHigh, DenoiseLow, Unload];
    assert_eq!(recipe(true), [&first[..], &last(DenoiseLow)].concat());
    let first = [EncodeText, Denoise, Unload];
    assert_eq!(recipe(false), [&first[..], &last(Denoise)].concat());
    let text = refused(&free_spec(), |form| {
        enlarged(form);
        form.inputs.extend = Some(source_video(256, 256, 8.0));
    });
    let expected = "hires fix and a video to continue do not go together";
    assert_contains(&text, expected);
}
