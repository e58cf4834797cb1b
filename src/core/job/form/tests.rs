//! What a form asks for, and what it is told about it.

mod controls;
mod guidance;
mod pictures;
mod prompt_loras;
mod prompts;
mod second_pass;
mod sections;
mod sizes;
mod source;

use super::*;
use crate::job::Sampler;
use crate::model::{InputUse, test_spec};

fn form() -> GenerateForm {
    GenerateForm {
        prompt: "a red boat".into(),
        out: "clip.mp4".into(),
        size: SizeChoice::Custom,
        ..Default::default()
    }
}

fn picture(width: u32, height: u32) -> StartPicture {
    StartPicture {
        path: "a.jpg".into(),
        width,
        height,
    }
}

fn clip(width: u32, height: u32, fps: f64) -> SourceClip {
    let info = ClipInfo {
        width,
        height,
        fps,
        num_frames: 9,
        is_uneven: false,
    };
    SourceClip {
        path: "a.mp4".into(),
        info,
    }
}

/// A model of any size.
fn free_spec() -> ModelSpec {
    let mut spec = test_spec();
    spec.limits.fixed_size = false;
    spec
}

/// The one changed field of a form, checked against a model of up to 16 Mi pixels.
fn changed(change: impl FnOnce(&mut GenerateForm)) -> Result<Validated, Vec<FieldError>> {
    let mut wish = form();
    change(&mut wish);
    wish.validate(&test_spec())
}

/// All that is wrong with the changed form.
fn problems(change: impl FnOnce(&mut GenerateForm)) -> String {
    let messages: Vec<String> = changed(change)
        .unwrap_err()
        .into_iter()
        .map(|err| format!("{}: {}", err.field, err.message))
        .collect();
    messages.join("\n")
}

fn told(checked: &Validated) -> Vec<&str> {
    let notices = checked.notices.iter();
    notices.map(|notice| notice.message.as_str()).collect()
}

#[test]
fn an_empty_form_takes_the_models_defaults() {
    let spec = test_spec();
    let checked = form().validate(&spec).unwrap();
    let request = &checked.request;
    assert_eq!(
        (request.width, request.height),
        (spec.defaults.width, spec.defaults.height)
    );
    assert_eq!(request.num_frames, spec.defaults.num_frames);
    assert_eq!(request.sampling.num_steps, spec.defaults.sampling.num_steps);
    assert_eq!(checked.notices, []);
}

#[test]
fn every_wrong_field_is_named_with_what_was_expected_and_found() {
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
        vae_tile: Some(63),
        ..form()
    };
    let errors = wrong.validate(&test_spec()).unwrap_err();
    let fields: Vec<_> = errors.iter().map(|err| err.field).collect();
    let expected = [
        "width", "frames", "fps", "steps", "guidance", "shift", "vae-tile",
    ];
    assert_eq!(fields, expected);
    assert!(errors[0].message.contains("multiple of 32"), "{errors:?}");
    assert!(
        errors[1].message.contains("4n+1 and at most 257"),
        "{errors:?}"
    );
}

#[test]
fn frames_become_the_nearest_that_the_model_makes_with_a_notice() {
    for (wish, made) in [
        (1, 1),
        (2, 1),
        (3, 5),
        (14, 13),
        (15, 17),
        (16, 17),
        (255, 257),
        (258, 257),
        (260, 257),
    ] {
        let checked = changed(|form| form.num_frames = Some(wish)).unwrap();
        assert_eq!(checked.request.num_frames, made, "{wish}");
        if wish == made {
            assert_eq!(checked.notices, []);
        } else {
            let expected = format!(
                "The number of frames was changed from {wish} to {made}: Test model makes 4n+1 of them, up to 257"
            );
            assert_eq!(told(&checked), [expected]);
            assert_eq!(checked.notices[0].field, "frames");
        }
    }
    for far in [0, 261, 1000, u32::MAX - 2, u32::MAX] {
        let text = problems(|form| form.num_frames = Some(far));
        assert!(text.contains("4n+1 and at most 257"), "{far}: {text}");
        assert!(text.ends_with(&format!("not {far}")), "{far}: {text}");
    }
    // A limit that is not itself a number of frames.
    let mut spec = test_spec();
    spec.limits.max_frames = 260;
    let wish = GenerateForm {
        num_frames: Some(260),
        ..form()
    };
    assert_eq!(wish.validate(&spec).unwrap().request.num_frames, 257);
}

#[test]
fn a_picture_that_is_too_long_for_the_image_encoder_is_refused_at_once() {
    let mut spec = free_spec();
    spec.end_image = InputUse::Optional;
    let problem = |spec: &ModelSpec, start, end| {
        let wish = GenerateForm {
            image: Some(start),
            last_image: Some(end),
            ..form()
        };
        wish.validate(spec)
            .err()
            .map(|errors| errors[0].to_string())
    };
    let long = || picture(3, 6000);
    assert_eq!(problem(&spec, long(), long()), None);
    spec.files.image_encoder = Some("clip".into());
    assert_eq!(problem(&spec, picture(3000, 2), picture(9, 9)), None);
    for text in [
        problem(&spec, long(), picture(9, 9)),
        problem(&spec, picture(9, 9), long()),
    ] {
        let text = text.unwrap();
        assert!(text.contains("at most 1500:1"), "{text}");
        assert!(text.contains("a picture of 3×6000"), "{text}");
    }
}

#[test]
fn a_shift_is_between_a_hundredth_and_a_hundred() {
    for shift in [0.01, 1.0, 100.0] {
        assert!(
            changed(|form| form.sampling.shift = Some(shift)).is_ok(),
            "{shift}"
        );
    }
    for shift in [1e-300, 0.0, 0.009, -1.0, 101.0, f64::NAN] {
        let text = problems(|form| form.sampling.shift = Some(shift));
        assert!(
            text.starts_with("shift: the shift must be between 0.01 and 100, not"),
            "{text}"
        );
    }
}

#[test]
fn seeds_differ_and_are_short() {
    let seeds: std::collections::BTreeSet<u64> = (0..20).map(|_| random_seed()).collect();
    assert!(seeds.len() > 15 && seeds.iter().all(|seed| *seed < 1_000_000_000));
}

#[test]
fn a_png_is_one_picture_unless_frames_are_asked_for() {
    let frames = |num_frames, extend| {
        let checked = changed(|form| {
            form.out = "a.PNG".into();
            form.num_frames = num_frames;
            form.extend = extend;
        });
        checked.unwrap().request.num_frames
    };
    assert_eq!(frames(None, None), 1);
    assert_eq!(frames(Some(5), None), 5);
    assert_eq!(
        frames(None, Some(clip(256, 256, 8.0))),
        17,
        "a clip goes on as a clip"
    );
}

#[test]
fn a_model_says_which_pictures_it_needs_and_which_it_cannot_use() {
    let text = |start, end, change: &dyn Fn(&mut GenerateForm)| {
        let mut spec = free_spec();
        (spec.start_image, spec.end_image) = (start, end);
        let mut wish = form();
        change(&mut wish);
        match wish.validate(&spec) {
            Ok(_) => String::new(),
            Err(errors) => format!("{}: {}", errors[0].field, errors[0].message),
        }
    };
    use InputUse::{No, Optional, Required};
    let start = |form: &mut GenerateForm| form.image = Some(picture(9, 9));
    let both = |form: &mut GenerateForm| {
        form.image = Some(picture(9, 9));
        form.last_image = Some(picture(9, 9));
    };
    assert_eq!(
        text(Required, No, &|_| {}),
        "image: Test model needs a start picture"
    );
    assert_eq!(
        text(No, No, &start),
        "image: Test model makes clips from text only and cannot use a start picture"
    );
    assert_eq!(
        text(No, No, &|form| form.extend = Some(clip(9, 9, 8.0))),
        "extend: Test model makes clips from text only and cannot use a clip to continue"
    );
    assert_eq!(
        text(Required, No, &both),
        "last-image: Test model does not use end pictures"
    );
    assert_eq!(
        text(Required, Required, &start),
        "last-image: Test model needs an end picture"
    );
    assert_eq!(text(Required, Optional, &both), "");
    assert_eq!(
        text(Optional, Optional, &|form| form.last_image =
            Some(picture(9, 9))),
        "image: Test model needs a start picture beside the end picture"
    );
    assert_eq!(
        text(Required, No, &|form| form.extend = Some(clip(9, 9, 8.0))),
        ""
    );
}

#[test]
fn a_clip_stands_in_the_start_pictures_place_and_gives_its_rate() {
    let going_on = changed(|form| form.extend = Some(clip(256, 256, 12.5))).unwrap();
    assert_eq!(going_on.request.fps, 12.5);
    assert!(going_on.request.has_start() && going_on.notices.is_empty());
    let faster = changed(|form| {
        form.extend = Some(clip(256, 256, 12.5));
        form.fps = Some(24.0);
    });
    assert_eq!(faster.unwrap().request.fps, 24.0);
    let slow = changed(|form| form.extend = Some(clip(256, 256, 0.25))).unwrap();
    assert_eq!(slow.request.fps, 1.0);
    assert_eq!(
        told(&slow),
        ["The frame rate was changed from the clip's 0.250 to 1"]
    );
    let resized = changed(|form| form.extend = Some(clip(320, 240, 8.0))).unwrap();
    assert_eq!(
        told(&resized),
        [
            "The clip's frames are resized from 320×240 to 256×256, the size in which Test model continues it"
        ]
    );
    let text = problems(|form| {
        form.extend = Some(clip(256, 256, 8.0));
        form.image = Some(picture(9, 9));
    });
    assert!(text.starts_with("extend: give either"), "{text}");
    let text = problems(|form| {
        form.extend = Some(clip(256, 256, 8.0));
        form.num_frames = Some(1);
    });
    assert!(
        text.starts_with("frames: choose more than one frame"),
        "{text}"
    );
}

fn with_preset() -> ModelSpec {
    let mut spec = test_spec();
    spec.presets = vec![Preset {
        id: "fast-4".into(),
        name: "Fast 4 steps".into(),
        note: String::new(),
        loras: vec!["lightx2v".into()],
        lora_strength: None,
        sampling: PartialSampling {
            num_steps: Some(4),
            guidance_scale: Some(1.0),
            shift: Some(5.0),
            sampler: Some(Sampler::Lcm),
            ..PartialSampling::default()
        },
    }];
    spec
}

#[test]
fn a_preset_gives_what_the_form_leaves_open() {
    let wish = GenerateForm {
        preset: Some("fast-4".into()),
        sampling: PartialSampling {
            num_steps: Some(6),
            ..PartialSampling::default()
        },
        ..form()
    };
    let request = wish.validate(&with_preset()).unwrap().request;
    assert_eq!(
        (
            request.sampling.num_steps,
            request.sampling.guidance_scale,
            request.sampling.shift
        ),
        (6, 1.0, Some(5.0))
    );
    assert_eq!(request.sampling.sampler, Sampler::Lcm);
    let unknown = GenerateForm {
        preset: Some("slow".into()),
        ..form()
    };
    let errors = unknown.validate(&with_preset()).unwrap_err();
    assert_eq!(
        errors[0].message,
        r#"there is no preset "slow" (Test model has fast-4)"#
    );
    let errors = unknown.validate(&test_spec()).unwrap_err();
    assert!(errors[0].message.contains("has none"), "{errors:?}");
}

#[test]
fn the_low_noise_experts_guidance_is_the_other_one_where_only_that_was_chosen() {
    let mut spec = with_preset();
    spec.files.transformer_2 = Some("low".into());
    spec.defaults.sampling.guidance_scale_2 = Some(3.0);
    let low = |change: &dyn Fn(&mut GenerateForm)| {
        let mut wish = form();
        change(&mut wish);
        wish.validate(&spec)
            .unwrap()
            .request
            .sampling
            .low_guidance_scale()
    };
    assert_eq!(low(&|_| {}), 3.0);
    assert_eq!(low(&|form| form.sampling.guidance_scale = Some(1.0)), 1.0);
    assert_eq!(low(&|form| form.sampling.guidance_scale_2 = Some(2.0)), 2.0);
    assert_eq!(low(&|form| form.preset = Some("fast-4".into())), 1.0);
    let one = changed(|form| form.sampling.guidance_scale_2 = Some(2.0)).unwrap();
    assert_eq!(one.request.sampling.guidance_scale_2, None);
    assert_eq!(
        told(&one),
        ["The low-noise guidance is not used: Test model has only one expert"]
    );
}

#[test]
fn the_part_of_the_schedule_has_at_least_one_step() {
    let part = |start, end| {
        changed(|form| {
            form.sampling.num_steps = Some(10);
            (form.sampling.start_step, form.sampling.end_step) = (start, end);
        })
    };
    for (start, end) in [
        (None, None),
        (Some(9), None),
        (None, Some(1)),
        (Some(3), Some(10)),
    ] {
        assert!(part(start, end).is_ok(), "{start:?} {end:?}");
    }
    for (start, end, field) in [
        (Some(10), None, "start-step"),
        (Some(4), Some(4), "start-step"),
        (None, Some(0), "end-step"),
        (None, Some(11), "end-step"),
    ] {
        let errors = part(start, end).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field, field, "{errors:?}");
    }
}

#[test]
fn tiles_are_multiples_of_the_vaes_factor() {
    for tile in [64, 80, 256, 8192] {
        let checked = changed(|form| form.vae_tile = Some(tile)).unwrap();
        assert_eq!(checked.request.vae_tile, Some(tile));
    }
    for tile in [0, 16, 63, 72, 8208, u32::MAX] {
        let text = problems(|form| form.vae_tile = Some(tile));
        assert!(text.contains("multiple of 16"), "{tile}: {text}");
    }
}

#[test]
fn a_lora_of_few_steps_tells_its_preset_until_its_steps_are_set_and_is_as_strong_as_its_authors_say()
 {
    let mut spec = with_preset();
    spec.presets[0].lora_strength = Some(0.125);
    let lora = |name: &str| ChosenLora::new(format!("/loras/{name}.safetensors").into());
    let with = |name: &str, change: &dyn Fn(&mut GenerateForm)| {
        let mut wish = GenerateForm {
            loras: vec![lora(name)],
            ..form()
        };
        change(&mut wish);
        let checked = wish.validate(&spec).unwrap();
        let notes: Vec<String> = checked.notices.into_iter().map(|it| it.message).collect();
        (notes.join(" "), checked.request.loras[0].strength)
    };
    let name = "Wan21_T2V_14B_lightx2v_cfg_step_distill_lora_rank32";
    let (told, strength) = with(name, &|_| {});
    assert!(
        told.contains("made for 4 steps") && told.contains("fast-4"),
        "{told}"
    );
    assert_eq!(strength, 1.0);
    let chosen = with(name, &|form| form.preset = Some("fast-4".into()));
    assert_eq!(chosen, (String::new(), 0.125));
    // What somebody said stays.
    let said = with(name, &|form| {
        form.preset = Some("fast-4".into());
        form.loras[0].strength = 0.5;
    });
    assert_eq!(said, (String::new(), 0.5));
    let other = with("ink wash", &|form| form.preset = Some("fast-4".into()));
    assert_eq!(other, (String::new(), 1.0));
}
