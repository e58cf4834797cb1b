//! Requests that forms make, and the notices and errors of them.

mod controls;
mod guidance;
mod images;
mod prompt_loras;
mod prompts;
mod second_pass;
mod sections;
mod sizes;
mod source;

use super::*;
use crate::job::SamplerKind;
use crate::model::{InputUse, ModelFamily, PartialSampling, test_spec};

fn form() -> GenerateForm {
    GenerateForm {
        prompt: "a red boat".into(),
        out: "video.mp4".into(),
        size: SizeChoice::Custom,
        ..Default::default()
    }
}

fn start_image(width: u32, height: u32) -> StartImage {
    StartImage {
        path: "a.jpg".into(),
        width,
        height,
    }
}

fn source_video(width: u32, height: u32, fps: f64) -> SourceVideo {
    let info = VideoInfo {
        width,
        height,
        fps,
        num_frames: 9,
        is_uneven: false,
    };
    SourceVideo {
        path: "a.mp4".into(),
        info,
    }
}

fn free_spec() -> ModelSpec {
    let mut spec = test_spec();
    spec.limits.fixed_size = false;
    spec
}

/// The changed form checked against `spec`, or each error as a line that begins with its field.
fn checked(
    spec: &ModelSpec,
    change: impl FnOnce(&mut GenerateForm),
) -> Result<ValidatedForm, String> {
    let mut form = form();
    if spec.limits.max_frames == 1 {
        form.out = "boat.png".into();
    }
    change(&mut form);
    form.validate(spec).map_err(|errors| {
        let lines = errors
            .iter()
            .map(|err| format!("{}: {}", err.field, err.message));
        lines.collect::<Vec<_>>().join("\n")
    })
}

fn refused(spec: &ModelSpec, change: impl FnOnce(&mut GenerateForm)) -> String {
    checked(spec, change).unwrap_err()
}

/// Request of the changed form, and its notices, a line each.
fn noted(spec: &ModelSpec, change: impl FnOnce(&mut GenerateForm)) -> (GenerateRequest, String) {
    let checked = checked(spec, change).unwrap();
    let notices = checked.notices.iter().map(|notice| &notice.message[..]);
    let text = notices.collect::<Vec<_>>().join("\n");
    (checked.request, text)
}

fn request_of(spec: &ModelSpec, change: impl FnOnce(&mut GenerateForm)) -> GenerateRequest {
    checked(spec, change).unwrap().request
}

fn size_of(spec: &ModelSpec, change: impl FnOnce(&mut GenerateForm)) -> (u32, u32) {
    let request = request_of(spec, change);
    (request.width, request.height)
}

/// Value after a round trip through JSON.
fn written_and_read<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

#[track_caller]
fn assert_starts(text: &str, start: &str) {
    assert!(text.starts_with(start), "expected {start}: {text}");
}

#[track_caller]
fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "expected {part}: {text}");
}

#[test]
fn an_empty_form_takes_the_models_defaults() {
    let spec = test_spec();
    let (request, text) = noted(&spec, |_| {});
    assert_eq!(request.width, spec.defaults.width);
    assert_eq!(request.height, spec.defaults.height);
    assert_eq!(request.num_frames, spec.defaults.num_frames);
    assert_eq!(request.sampling.num_steps, spec.defaults.sampling.num_steps);
    assert_eq!(text, "");
}

#[test]
fn every_invalid_field_is_reported_with_the_expected_value() {
    let wrong = GenerateForm {
        width: Some(0),
        num_frames: Some(0),
        fps: Some(f64::NAN),
        sampling: PartialSampling {
            num_steps: Some(0),
            guidance_scale: Some(-1.0),
            shift: Some(0.0),
            ..PartialSampling::default()
        },
        options: JobOptions {
            vae_tile: Some(63),
            ..JobOptions::default()
        },
        ..form()
    };
    let errors = wrong.validate(&test_spec()).unwrap_err();
    let fields: Vec<_> = errors.iter().map(|err| err.field).collect();
    let expected = "width frames fps steps guidance shift vae-tile";
    assert_eq!(fields.join(" "), expected);
    assert_contains(&errors[0].message, "multiple of 32");
    assert_contains(&errors[1].message, "4n+1 and at most 257");
}

#[test]
fn frames_become_the_nearest_that_the_model_makes_with_a_notice() {
    let spec = test_spec();
    let rows = [(1, 1), (2, 1), (3, 5), (14, 13), (15, 17), (16, 17)];
    let last = [(255, 257), (258, 257), (260, 257)];
    for (given, made) in rows.into_iter().chain(last) {
        let checked = checked(&spec, |form| form.num_frames = Some(given)).unwrap();
        assert_eq!(checked.request.num_frames, made, "{given}");
        let notices = checked.notices.iter().map(|it| (it.field, &it.message[..]));
        let expected = format!(
            "The number of frames was changed from {given} to {made}: Test model makes 4n+1 of them, up to 257"
        );
        let is_changed = given != made;
        let expected = is_changed.then_some(("frames", &expected[..]));
        assert!(notices.eq(expected), "{given}");
    }
    for far in [0, 261, 1000, u32::MAX - 2, u32::MAX] {
        let text = refused(&spec, |form| form.num_frames = Some(far));
        assert_contains(&text, "4n+1 and at most 257");
        assert!(text.ends_with(&format!("not {far}")), "{far}: {text}");
    }
    // A limit that is not itself a number of frames.
    let mut spec = test_spec();
    spec.limits.max_frames = 260;
    let request = request_of(&spec, |form| form.num_frames = Some(260));
    assert_eq!(request.num_frames, 257);
}

#[test]
fn an_image_that_is_too_long_for_the_image_encoder_is_refused_at_once() {
    let mut spec = free_spec();
    spec.end_image = InputUse::Optional;
    let with = |start, end| {
        move |form: &mut GenerateForm| {
            (form.inputs.image, form.inputs.last_image) = (Some(start), Some(end));
        }
    };
    let long = || start_image(3, 6000);
    assert!(checked(&spec, with(long(), long())).is_ok());
    spec.files.image_encoder = Some("clip".into());
    assert!(checked(&spec, with(start_image(3000, 2), start_image(9, 9))).is_ok());
    for (start, end) in [(long(), start_image(9, 9)), (start_image(9, 9), long())] {
        let text = refused(&spec, with(start, end));
        assert_contains(&text, "at most 1500:1");
        assert_contains(&text, "an image of 3×6000");
    }
}

#[test]
fn a_shift_is_between_a_hundredth_and_a_hundred_and_tiles_are_multiples_of_the_vaes_factor() {
    let with = |shift| move |form: &mut GenerateForm| form.sampling.shift = Some(shift);
    for shift in [0.01, 1.0, 100.0] {
        assert!(checked(&test_spec(), with(shift)).is_ok(), "{shift}");
    }
    for shift in [1e-300, 0.0, 0.009, -1.0, 101.0, f64::NAN] {
        let text = refused(&test_spec(), with(shift));
        assert_starts(&text, "shift: the shift must be between 0.01 and 100, not");
    }
    let with = |tile| move |form: &mut GenerateForm| form.options.vae_tile = Some(tile);
    for tile in [64, 80, 256, 8192] {
        assert_eq!(
            request_of(&test_spec(), with(tile)).options.vae_tile,
            Some(tile)
        );
    }
    for tile in [0, 16, 63, 72, 8208, u32::MAX] {
        assert_contains(&refused(&test_spec(), with(tile)), "multiple of 16");
    }
}

#[test]
fn seeds_differ_and_are_short() {
    let seeds: std::collections::BTreeSet<u64> = (0..20).map(|_| random_seed()).collect();
    assert!(seeds.len() > 15 && seeds.iter().all(|seed| *seed < 1_000_000_000));
}

#[test]
fn a_png_is_one_image_unless_frames_are_chosen_or_a_video_is_continued() {
    let video = source_video(256, 256, 8.0);
    for (num_frames, extend, expected) in
        [(None, None, 1), (Some(5), None, 5), (None, Some(video), 17)]
    {
        let request = request_of(&test_spec(), |form| {
            form.out = "a.PNG".into();
            (form.num_frames, form.inputs.extend) = (num_frames, extend);
        });
        assert_eq!(request.num_frames, expected);
    }
}

#[test]
fn required_input_images_must_be_given_and_unsupported_ones_are_refused() {
    use InputUse::{No, Optional, Required};
    let text_only = "makes videos from text only and cannot use a";
    for (uses, given, expected) in [
        ([Required, No], "", "image: * needs a start image"),
        (
            [No, No],
            "start",
            &format!("image: * {text_only} start image"),
        ),
        (
            [No, No],
            "video",
            &format!("extend: * {text_only} video to continue"),
        ),
        (
            [Required, No],
            "start, end",
            "last-image: * does not use end images",
        ),
        (
            [Required, Required],
            "start",
            "last-image: * needs an end image",
        ),
        (
            [Optional, Optional],
            "end",
            "image: * needs a start image beside the end image",
        ),
        ([Required, Optional], "start, end", ""),
        ([Required, No], "video", ""),
    ] {
        let mut spec = free_spec();
        [spec.start_image, spec.end_image] = uses;
        let result = checked(&spec, |form| {
            form.inputs.image = given.contains("start").then(|| start_image(9, 9));
            form.inputs.last_image = given.contains("end").then(|| start_image(9, 9));
            form.inputs.extend = given.contains("video").then(|| source_video(9, 9, 8.0));
        });
        let text = result.err().unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        assert_eq!(first, expected.replace('*', "Test model"));
    }
}

#[test]
fn a_video_to_continue_replaces_the_start_image_and_gives_its_rate() {
    let spec = test_spec();
    let continued = |width, height, fps| {
        move |form: &mut GenerateForm| form.inputs.extend = Some(source_video(width, height, fps))
    };
    let (request, text) = noted(&spec, continued(256, 256, 12.5));
    assert_eq!((request.fps, &text[..]), (12.5, ""));
    assert!(request.has_start());
    let faster = request_of(&spec, |form| {
        continued(256, 256, 12.5)(form);
        form.fps = Some(24.0);
    });
    assert_eq!(faster.fps, 24.0);
    let (slow, text) = noted(&spec, continued(256, 256, 0.25));
    assert_eq!(slow.fps, 1.0);
    let expected = "The frame rate was changed from the video's 0.250 to 1";
    assert_eq!(text, expected);
    let (_, text) = noted(&spec, continued(320, 240, 8.0));
    assert_starts(
        &text,
        "The video's frames are resized from 320×240 to 256×256",
    );
    let text = refused(&spec, |form| {
        continued(256, 256, 8.0)(form);
        form.inputs.image = Some(start_image(9, 9));
    });
    assert_starts(&text, "extend: give either");
    let text = refused(&spec, |form| {
        continued(256, 256, 8.0)(form);
        form.num_frames = Some(1);
    });
    assert_starts(&text, "frames: choose more than one frame");
}

#[test]
fn a_shift_is_refused_for_models_whose_noise_levels_have_none() {
    let mut spec = test_spec();
    spec.family = ModelFamily::SDXL;
    spec.defaults.sampling.shift = None;
    let text = refused(&spec, |form| form.sampling.shift = Some(3.0));
    assert!(
        text.contains("the noise levels of Test model have no shift"),
        "{text}"
    );
    let shown = GenerateForm {
        sampling: PartialSampling {
            shift: Some(3.0),
            ..PartialSampling::default()
        },
        ..GenerateForm::default()
    };
    assert_eq!(shown.as_shown(&spec).sampling.shift, None);
}

fn with_preset() -> ModelSpec {
    let mut spec = test_spec();
    spec.presets = vec![SamplingPreset {
        id: "fast-4".into(),
        name: "Fast 4 steps".into(),
        note: String::new(),
        loras: vec!["lightx2v".into()],
        models: Vec::new(),
        lora_strength: None,
        sampling: PartialSampling {
            num_steps: Some(4),
            guidance_scale: Some(1.0),
            shift: Some(5.0),
            sampler: Some(SamplerKind::Lcm),
            ..PartialSampling::default()
        },
    }];
    spec
}

fn use_preset(form: &mut GenerateForm) {
    form.preset = Some("fast-4".into());
}

#[test]
fn preset_fills_settings_that_the_form_leaves_empty() {
    let request = request_of(&with_preset(), |form| {
        use_preset(form);
        form.sampling.num_steps = Some(6);
    });
    assert_eq!(request.sampling.num_steps, 6);
    assert_eq!(request.sampling.guidance_scale, 1.0);
    assert_eq!(request.sampling.shift, Some(5.0));
    assert_eq!(request.sampling.sampler, SamplerKind::Lcm);
    let slow = |form: &mut GenerateForm| form.preset = Some("slow".into());
    let expected = r#"there is no preset "slow" (Test model has fast-4)"#;
    assert_contains(&refused(&with_preset(), slow), expected);
    assert_contains(&refused(&test_spec(), slow), "has none");
}

#[test]
fn the_low_noise_experts_guidance_is_the_other_one_where_only_that_was_chosen() {
    let mut spec = with_preset();
    spec.files.transformer_2 = Some("low".into());
    spec.defaults.sampling.guidance_scale_2 = Some(3.0);
    let low = |change: &dyn Fn(&mut GenerateForm)| {
        let request = request_of(&spec, change);
        request.sampling.low_guidance_scale()
    };
    assert_eq!(low(&|_| {}), 3.0);
    assert_eq!(low(&|form| form.sampling.guidance_scale = Some(1.0)), 1.0);
    assert_eq!(low(&|form| form.sampling.guidance_scale_2 = Some(2.0)), 2.0);
    assert_eq!(low(&use_preset), 1.0);
    let (one, text) = noted(&test_spec(), |form| {
        form.sampling.guidance_scale_2 = Some(2.0);
    });
    assert_eq!(one.sampling.guidance_scale_2, None);
    let expected = "The low-noise guidance is not used: Test model has only one expert";
    assert_eq!(text, expected);
}

#[test]
fn the_part_of_the_schedule_has_at_least_one_step() {
    for (start, end, wrong) in [
        (None, None, ""),
        (Some(9), None, ""),
        (None, Some(1), ""),
        (Some(3), Some(10), ""),
        (Some(10), None, "start-step: "),
        (Some(4), Some(4), "start-step: "),
        (None, Some(0), "end-step: "),
        (None, Some(11), "end-step: "),
    ] {
        let part = checked(&test_spec(), |form| {
            form.sampling.num_steps = Some(10);
            (form.sampling.start_step, form.sampling.end_step) = (start, end);
        });
        let text = part.err().unwrap_or_default();
        assert_eq!(text.lines().count(), usize::from(!wrong.is_empty()));
        assert_starts(&text, wrong);
    }
}

#[test]
fn few_step_lora_suggests_its_preset_and_uses_the_preset_strength() {
    let mut spec = with_preset();
    spec.presets[0].lora_strength = Some(0.125);
    let with = |name: &str, change: &dyn Fn(&mut GenerateForm)| {
        let path = format!("/loras/{name}.safetensors");
        let (request, text) = noted(&spec, |form| {
            form.loras = vec![ChosenLora::new(path.into())];
            change(form);
        });
        (text, request.loras[0].strength)
    };
    let name = "Wan21_T2V_14B_lightx2v_cfg_step_distill_lora_rank32";
    let (text, strength) = with(name, &|_| {});
    assert_contains(&text, "made for 4 steps");
    assert_contains(&text, "fast-4");
    assert_eq!(strength, 1.0);
    assert_eq!(with(name, &use_preset), (String::new(), 0.125));
    // A strength that was chosen stays.
    let chosen = with(name, &|form| {
        use_preset(form);
        form.loras[0].strength = 0.5;
    });
    assert_eq!(chosen, (String::new(), 0.5));
    assert_eq!(with("ink wash", &use_preset), (String::new(), 1.0));
}
