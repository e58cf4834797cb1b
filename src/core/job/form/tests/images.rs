//! Values that only image models have, and those that they have not.

use super::*;
use crate::families::flux;
use crate::model::{GuidanceMode, ImageRole};

/// As Flux dev: of any size up to 4 megapixels, begins on the way to an image, and takes a mask.
pub(super) fn dev() -> ModelSpec {
    let mut spec = test_spec();
    spec.family = flux::FAMILY;
    spec.image_role = ImageRole::Base;
    spec.mask = InputUse::Optional;
    spec.guidance = GuidanceMode::Distilled;
    let defaults = &mut spec.defaults;
    (defaults.width, defaults.height, defaults.num_frames) = (1024, 1024, 1);
    let sampling = &mut defaults.sampling;
    (sampling.num_steps, sampling.guidance_scale) = (28, 3.5);
    (sampling.strength, sampling.shift) = (Some(0.6), None);
    let limits = &mut spec.limits;
    (limits.size_multiple, limits.max_pixels, limits.fixed_size) = (16, 1 << 22, false);
    (limits.frame_stride, limits.max_frames, limits.max_batch) = (1, 1, 8);
    spec
}

pub(super) fn schnell() -> ModelSpec {
    let mut spec = dev();
    spec.guidance = GuidanceMode::None;
    let sampling = &mut spec.defaults.sampling;
    (sampling.guidance_scale, sampling.num_steps) = (0.0, 4);
    spec
}

pub(super) fn fill() -> ModelSpec {
    let mut spec = dev();
    spec.image_role = ImageRole::Canvas;
    (spec.start_image, spec.mask) = (InputUse::Required, InputUse::Required);
    spec.defaults.sampling.strength = None;
    spec
}

#[test]
fn an_image_needs_nothing_but_a_prompt() {
    for (spec, guidance) in [(dev(), 3.5), (schnell(), 0.0)] {
        let (request, text) = noted(&spec, |_| {});
        assert_eq!(text, "");
        assert_eq!((request.num_frames, request.batch_size), (1, 1));
        assert_eq!(request.sampling.guidance_scale, guidance);
        assert_eq!(request.sampling.true_cfg_scale, None);
        assert_eq!(request.sampling.strength, None);
        assert_eq!(request.sampling.shift, None);
    }
}

#[test]
fn values_of_a_result_that_are_the_defaults_give_no_notice() {
    let spec = schnell();
    let (_, text) = noted(&spec, |form| {
        form.sampling.guidance_scale = Some(spec.defaults.sampling.guidance_scale);
        form.fps = Some(spec.defaults.fps);
        form.num_frames = Some(1);
        form.negative_prompt = Some(spec.defaults.negative_prompt.clone());
        form.batch_size = Some(1);
    });
    assert_eq!(text, "");
}

#[test]
fn mask_needs_a_start_image_and_a_model_that_supports_masks() {
    let image = |form: &mut GenerateForm| form.inputs.image = Some(start_image(640, 480));
    let mask = |form: &mut GenerateForm| form.inputs.mask = Some(start_image(320, 240));
    let both = |form: &mut GenerateForm| {
        image(form);
        mask(form);
    };
    let (request, text) = noted(&dev(), both);
    assert_eq!((request.mask.is_some(), text.as_str()), (true, ""));
    // The image's aspect.
    assert_eq!((request.width, request.height), (1184, 880));
    let mut without = dev();
    without.mask = InputUse::No;
    let needs_mask = "mask: Test model needs a mask: it fills the white part";
    for (text, expected) in [
        (refused(&dev(), mask), "image: a mask needs a start image"),
        (
            refused(&without, both),
            "mask: Test model does not use masks",
        ),
        (refused(&fill(), image), needs_mask),
        (
            refused(&fill(), mask),
            "image: Test model needs a start image",
        ),
    ] {
        assert_eq!(text, expected);
    }
    let (_, text) = noted(&fill(), |form| {
        image(form);
        form.inputs.mask = Some(start_image(300, 300));
    });
    assert_starts(&text, "The mask is 300×300 and the image 640×480");
}

#[test]
fn video_mask_needs_a_start_image_and_excludes_end_image_and_extension() {
    let mut spec = free_spec();
    (spec.start_image, spec.end_image) = (InputUse::Optional, InputUse::Optional);
    spec.mask = InputUse::Optional;
    let with = |change: fn(&mut GenerateForm)| {
        move |form: &mut GenerateForm| {
            form.inputs.mask = Some(start_image(64, 64));
            change(form);
        }
    };
    let start = |form: &mut GenerateForm| form.inputs.image = Some(start_image(64, 64));
    assert!(request_of(&spec, with(start)).mask.is_some());
    let text = refused(&spec, with(|_| {}));
    assert_contains(&text, "a mask needs a start image");
    let text = refused(&spec, |form| {
        with(start)(form);
        form.inputs.last_image = Some(start_image(64, 64));
    });
    assert_contains(&text, "there can be no end image");
    let text = refused(
        &spec,
        with(|form| form.inputs.extend = Some(source_video(64, 64, 8.0))),
    );
    assert_contains(&text, "a video that goes on has none");
}

#[test]
fn strength_applies_only_to_start_images_and_must_leave_a_step_to_run() {
    let with = |strength: Option<f64>| {
        move |form: &mut GenerateForm| {
            form.inputs.image = Some(start_image(64, 64));
            form.sampling.strength = strength;
        }
    };
    assert_eq!(noted(&dev(), with(None)).0.sampling.strength, Some(0.6));
    for strength in [0.01, 0.5, 1.0] {
        let (request, text) = noted(&dev(), with(Some(strength)));
        assert_eq!(request.sampling.strength, Some(strength));
        assert_eq!(text.as_str(), "");
    }
    for strength in [-0.1, 1.01, f64::NAN] {
        let text = refused(&dev(), with(Some(strength)));
        assert_starts(&text, "strength: the strength must be between 0 and 1");
    }
    let text = refused(&dev(), with(Some(0.0)));
    assert_starts(
        &text,
        "strength: a strength of 0 leaves none of the 28 steps to run: raise",
    );
    let (request, text) = noted(&dev(), |form| form.sampling.strength = Some(0.3));
    assert_eq!(request.sampling.strength, None);
    assert_eq!(text, "The strength is not used: there is no start image");
    let (request, text) = noted(&fill(), |form| {
        with(Some(0.3))(form);
        form.inputs.mask = Some(start_image(64, 64));
    });
    assert_eq!(request.sampling.strength, None);
    assert_starts(&text, "The strength is not used: Test model has none");
    let (request, text) = noted(&dev(), |form| {
        with(Some(0.5))(form);
        form.sampling.start_step = Some(3);
    });
    assert_eq!(request.sampling.start_step, 0);
    assert_starts(&text, "The start step is not used");
    let text = refused(&dev(), |form| {
        with(Some(0.5))(form);
        form.sampling.end_step = Some(14);
    });
    assert_contains(&text, "must be above 14");
}

#[test]
fn the_real_guidance_needs_a_negative_prompt_and_a_model_whose_own_is_another() {
    let with = |scale: f64, negative: Option<&str>| {
        let negative = negative.map(str::to_owned);
        move |form: &mut GenerateForm| {
            form.sampling.true_cfg_scale = Some(scale);
            form.negative_prompt = negative;
        }
    };
    for spec in [dev(), schnell()] {
        let (request, text) = noted(&spec, with(2.0, Some("blurry")));
        assert_eq!(request.sampling.true_cfg_scale, Some(2.0));
        assert_eq!(text.as_str(), "");
        assert!(request.is_guided());
        let (request, text) = noted(&spec, with(2.0, None));
        assert_eq!(request.sampling.true_cfg_scale, None);
        assert_starts(&text, "CFG is off: it needs a negative prompt");
        let (request, text) = noted(&spec, with(1.0, None));
        assert_eq!((request.sampling.true_cfg_scale, text.as_str()), (None, ""));
    }
    for scale in [-1.0, 101.0, f64::NAN] {
        let text = refused(&dev(), with(scale, Some("blurry")));
        assert_starts(&text, "true-cfg: the guidance must be");
    }
    let (request, text) = noted(&test_spec(), with(2.0, Some("blurry")));
    assert_eq!(request.sampling.true_cfg_scale, None);
    assert!(text.ends_with("is CFG already"), "{text}");
}

#[test]
fn a_guidance_and_a_negative_prompt_that_cannot_act_are_named() {
    let (request, text) = noted(&schnell(), |form| form.sampling.guidance_scale = Some(7.0));
    assert_eq!(request.sampling.guidance_scale, 0.0);
    assert_starts(&text, "The guidance is not used");
    let negative = |guidance: Option<f64>| {
        move |form: &mut GenerateForm| {
            form.negative_prompt = Some("blurry".into());
            form.sampling.guidance_scale = guidance;
        }
    };
    for (spec, guidance, message) in [
        (
            dev(),
            None,
            "The negative prompt is not used: set the CFG scale",
        ),
        (
            test_spec(),
            Some(1.0),
            "The negative prompt is not used: set the guidance",
        ),
        (test_spec(), None, ""),
    ] {
        let text = noted(&spec, negative(guidance)).1;
        assert!(
            text.starts_with(message) && text.is_empty() == message.is_empty(),
            "{text}"
        );
    }
}

#[test]
fn a_batch_is_as_large_as_the_model_can_make_and_its_seeds_can_be_counted() {
    let with = |size, seed| {
        move |form: &mut GenerateForm| (form.batch_size, form.seed) = (Some(size), seed)
    };
    assert_eq!(request_of(&dev(), with(8, 0)).num_decoded(), 8);
    for (spec, size, expected) in [
        (dev(), 0, "between 1 and 8, not 0"),
        (dev(), 9, "between 1 and 8, not 9"),
        (test_spec(), 2, "1, not 2"),
    ] {
        let start = "batch: the batch size of Test model must be";
        assert_eq!(refused(&spec, with(size, 0)), format!("{start} {expected}"));
    }
    assert!(checked(&dev(), with(3, u64::MAX - 2)).is_ok());
    let text = refused(&dev(), with(3, u64::MAX - 1));
    assert_starts(&text, "seed: the seed must be at most 18446744073709551613");
}

#[test]
fn frames_and_videos_mean_nothing_to_an_image_model() {
    let mut text_only = dev();
    text_only.start_image = InputUse::No;
    let image = || Some(start_image(64, 64));
    let text = refused(&dev(), |form| form.num_frames = Some(17));
    let expected = "frames: Test model makes images, which have 1 frame, not 17";
    assert_starts(&text, expected);
    let text = noted(&dev(), |form| form.fps = Some(16.0)).1;
    assert_starts(&text, "The frame rate is not used: Test model makes images");
    let text = refused(&dev(), |form| {
        form.inputs.extend = Some(source_video(64, 64, 8.0));
    });
    assert_starts(
        &text,
        "extend: Test model makes images and cannot continue a video",
    );
    let text = refused(&dev(), |form| form.inputs.last_image = image());
    assert_starts(&text, "last-image: Test model does not use end");
    let text = refused(&text_only, |form| form.inputs.image = image());
    let expected = "image: Test model makes images from text only and cannot use a start image";
    assert_starts(&text, expected);
}

#[test]
fn an_image_goes_to_a_file_for_images() {
    for name in ["a.png", "a.webp", "a.jpg", "a.JPEG"] {
        assert!(
            checked(&dev(), |form| form.out = name.into()).is_ok(),
            "{name}"
        );
    }
    for name in ["a.mp4", "a.gif"] {
        let text = refused(&dev(), |form| form.out = name.into());
        assert!(text.contains(".png, .webp or .jpg") && text.ends_with(name));
    }
}

#[test]
fn tokens_and_loras_have_their_ranges() {
    let tokens = |spec: &ModelSpec, tokens| {
        let result = checked(spec, |form| form.options.max_sequence_length = Some(tokens));
        result.map(|checked| checked.request.options.max_sequence_length)
    };
    assert_eq!(tokens(&dev(), 512), Ok(Some(512)));
    assert_eq!(tokens(&schnell(), 256), Ok(Some(256)));
    for (spec, wrong) in [(dev(), 0), (dev(), 513), (schnell(), 257)] {
        let text = tokens(&spec, wrong).unwrap_err();
        assert_starts(
            &text,
            "max-sequence-length: the number of tokens must be between 1 and",
        );
    }
    assert_eq!(tokens(&test_spec(), 9), Ok(None), "with a notice");
    let lora = |strength, strength_2| {
        checked(&dev(), |form| {
            form.loras = vec![ChosenLora {
                strength,
                strength_2,
                ..ChosenLora::new("style.safetensors".into())
            }];
        })
    };
    assert_eq!(lora(-10.0, Some(10.0)).unwrap().request.loras.len(), 1);
    for (first, second) in [(10.5, None), (f64::NAN, None), (1.0, Some(-11.0))] {
        let text = lora(first, second).unwrap_err();
        assert_starts(&text, "lora: a LoRA's strength must be between -10 and 10");
        assert!(text.ends_with("style.safetensors"));
    }
}

#[test]
fn sizes_are_multiples_of_16_up_to_4_megapixels() {
    let of = |width, height| {
        move |form: &mut GenerateForm| (form.width, form.height) = (Some(width), Some(height))
    };
    assert_eq!(size_of(&dev(), of(2048, 2048)), (2048, 2048));
    assert_eq!(size_of(&dev(), of(1000, 700)), (992, 704));
    assert_eq!(size_of(&dev(), of(3000, 1000)), (2992, 992));
    let text = refused(&dev(), of(2064, 2048));
    assert_contains(&text, "at most 4194304 pixels for Test model");
}

#[test]
fn reference_images_are_limited_to_the_number_the_model_accepts() {
    let given = |most: u32, count: usize| {
        let mut spec = dev();
        spec.limits.max_references = most;
        checked(&spec, |form| {
            form.inputs.references = vec![start_image(300, 600); count];
        })
    };
    let request = given(3, 3).unwrap().request;
    assert_eq!(request.references.len(), 3);
    assert_eq!(request.inputs().count(), 3);
    assert!(request.height > request.width, "the first says the shape");
    for (most, count, why) in [
        (0, 1, "does not use reference images"),
        (1, 2, "takes one reference image, not 2"),
        (3, 4, "takes at most 3 reference images, not 4"),
    ] {
        let err = given(most, count).unwrap_err();
        assert_starts(&err, "reference: ");
        assert!(err.ends_with(why), "{err}");
    }
}
