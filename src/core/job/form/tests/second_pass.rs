//! The second pass in forms and requests.

use super::pictures::{asked, dev, fill};
use super::*;
use crate::job::{EnlargedPass, GenerateRequest, Recipe, SecondPass, Stage};

fn two_passes(form: &mut GenerateForm, scale: f64, strength: f64) {
    (form.width, form.height) = (Some(512), Some(768));
    form.second_pass = Some(SecondPass { scale, strength });
}

fn request(change: impl FnOnce(&mut GenerateForm)) -> GenerateRequest {
    asked(&dev(), |form| {
        two_passes(form, 1.5, 0.4);
        change(form);
    })
    .unwrap()
    .request
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
    let recipe = Recipe::of(&made);
    let expected = [
        Stage::EncodeText,
        Stage::Denoise,
        Stage::Unload,
        Stage::EncodeImage,
        Stage::Denoise,
        Stage::Unload,
        Stage::Decode,
        Stage::Save,
    ];
    assert_eq!(recipe.stages, expected);
    let first = made.clone().of_pass(Stage::Denoise, 0);
    assert_eq!((first.width, first.height), (512, 768));
    assert_eq!(first.sampling.strength, None);
    for (stage, section) in [(Stage::EncodeImage, 0), (Stage::Denoise, 1)] {
        let second = made.clone().of_pass(stage, section);
        assert_eq!((second.width, second.height), (768, 1152));
        assert_eq!(second.sampling.strength, Some(0.4));
    }
    // From a picture, which the first pass reads.
    let from = request(|form| form.image = Some(picture(512, 768)));
    assert_eq!(from.clone().of_pass(Stage::EncodeImage, 0).width, 512);
    assert_eq!(from.of_pass(Stage::EncodeImage, 1).width, 768);
}

#[test]
fn each_picture_is_a_job_of_its_own() {
    let mut wish = GenerateForm {
        out: "boat.png".into(),
        batch_size: Some(3),
        ..form()
    };
    two_passes(&mut wish, 2.0, 0.5);
    let made = jobs_of(&wish, &dev(), &|name| Err(name.to_owned())).unwrap();
    assert_eq!(made.jobs.len(), 3);
    assert!(made.jobs.iter().all(|job| job.request.batch_size == 1));
}

#[test]
fn what_does_not_go_together_is_told_in_a_sentence() {
    let told = |change: &dyn Fn(&mut GenerateForm)| {
        asked(&dev(), |form| {
            two_passes(form, 1.5, 0.4);
            change(form);
        })
        .unwrap_err()
    };
    let of_mask = told(&|form| {
        form.image = Some(picture(512, 768));
        form.mask = Some(picture(512, 768));
    });
    assert!(
        of_mask.contains("second-pass: a second pass and a mask"),
        "{of_mask}"
    );
    assert!(told(&|form| two_passes(form, 5.0, 0.4)).contains("1.1 to 4 times"));
    assert!(told(&|form| two_passes(form, 4.0, 0.4)).contains("choose a smaller size or scale"));
    assert!(told(&|form| two_passes(form, 2.0, 0.0)).contains("leaves none of the 28 steps"));
    assert!(told(&|form| two_passes(form, 2.0, 1.5)).contains("between 0 and 1"));
    assert!(told(&|form| form.sampling.end_step = Some(9)).contains("needs all steps"));
    let of_fill = asked(&fill(), |form| {
        form.image = Some(picture(512, 768));
        form.mask = Some(picture(512, 768));
        two_passes(form, 1.5, 0.4);
    });
    assert!(of_fill.unwrap_err().contains("a second pass and a mask"));
    let of_clips = problems(|form| form.second_pass = Some(SecondPass::of_scale(2.0)));
    assert!(of_clips.contains("has no second pass"), "{of_clips}");
}

#[test]
fn a_result_is_repeated_by_what_it_carries_and_older_files_have_none() {
    let made = request(|_| {});
    let text = serde_json::to_string(&made).unwrap();
    let read: GenerateRequest = serde_json::from_str(&text).unwrap();
    assert_eq!(read.second_pass, made.second_pass);
    let again = GenerateForm::from(&read);
    assert_eq!((again.width, again.height), (Some(512), Some(768)));
    assert_eq!(
        again.second_pass,
        made.second_pass.map(|it: EnlargedPass| it.pass)
    );
    let older = asked(&dev(), |_| {}).unwrap().request;
    assert!(
        !serde_json::to_string(&older)
            .unwrap()
            .contains("second_pass")
    );
}

#[test]
fn a_clips_second_pass_is_made_by_the_last_of_its_experts() {
    let recipe = |has_two: bool| {
        let mut spec = free_spec();
        spec.files.transformer_2 = has_two.then(|| "low".into());
        let wish = GenerateForm {
            second_pass: Some(SecondPass::of_scale(1.5)),
            ..form()
        };
        let request = wish.validate(&spec).unwrap().request;
        assert_eq!((request.width, request.height), (384, 384));
        let stages = Recipe::of(&request).stages;
        let last = stages[stages.len() - 4];
        let second = request.clone().of_pass(last, 1);
        assert!(second.is_second_pass() && second.begins_from_clip());
        let first = request.of_pass(last, 0);
        assert!(!first.is_second_pass() && !first.begins_from_clip());
        stages
    };
    let of_two = [
        Stage::EncodeText,
        Stage::DenoiseHigh,
        Stage::DenoiseLow,
        Stage::Unload,
        Stage::EncodeImage,
        Stage::DenoiseLow,
        Stage::Unload,
        Stage::Decode,
        Stage::Save,
    ];
    assert_eq!(recipe(true), of_two);
    let of_one: Vec<Stage> = of_two
        .into_iter()
        .filter(|stage| *stage != Stage::DenoiseHigh)
        .map(|stage| match stage {
            Stage::DenoiseLow => Stage::Denoise,
            other => other,
        })
        .collect();
    assert_eq!(recipe(false), of_one);
    let wish = GenerateForm {
        second_pass: Some(SecondPass::of_scale(1.5)),
        extend: Some(clip(256, 256, 8.0)),
        ..form()
    };
    let errors = wish.validate(&free_spec()).unwrap_err();
    let said = "a second pass and a clip to continue do not go together";
    assert!(errors[0].message.starts_with(said), "{errors:?}");
}
