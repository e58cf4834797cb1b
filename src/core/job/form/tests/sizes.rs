//! Widths and heights: what is made of those that are given, and of an image's aspect.

use super::*;
use crate::job::{ControlSettings, FormControl, InputMedia};
use crate::model::nearest_multiple;

fn of_size(width: u32, height: u32) -> impl Fn(&mut GenerateForm) {
    move |form| (form.width, form.height) = (Some(width), Some(height))
}

#[test]
fn sizes_become_the_nearest_multiple_with_a_notice_for_each_edge() {
    for (given, made, num_notices) in [
        ((250, 256), (256, 256), 1),
        ((250, 130), (256, 128), 2),
        ((1, 31), (32, 32), 2),
        // Down to the limit.
        ((32_780, 32), (32_768, 32), 1),
        // Both are in the middle: the pair that keeps 2:1 best.
        ((112, 48), (128, 64), 2),
        ((64, 32), (64, 32), 0),
    ] {
        let (request, text) = noted(&test_spec(), of_size(given.0, given.1));
        assert_eq!((request.width, request.height), made, "{given:?}");
        assert_eq!(text.lines().count(), num_notices, "{given:?}");
    }
    let (_, text) = noted(&test_spec(), of_size(250, 256));
    let expected = "The width was changed from 250 to 256: Test model makes multiples of 32";
    assert_eq!(text, expected);
}

#[test]
fn a_size_in_the_middle_becomes_the_one_that_the_model_was_trained_at() {
    let mut spec = free_spec();
    (spec.defaults.width, spec.defaults.height) = (1280, 704);
    assert_eq!(size_of(&spec, of_size(1280, 720)), (1280, 704));
    assert_eq!(size_of(&spec, of_size(720, 1280)), (704, 1280));
    // Not what is nearer.
    assert_eq!(size_of(&spec, of_size(1280, 730)), (1280, 736));
    spec.defaults.height = 736;
    assert_eq!(size_of(&spec, of_size(1280, 720)), (1280, 736));
    // Neither is the default: the smaller one.
    spec.defaults.height = 640;
    assert_eq!(size_of(&spec, of_size(1280, 720)), (1280, 704));
}

#[test]
fn derived_edge_stays_within_limits_for_extreme_image_aspects() {
    let mut spec = free_spec();
    spec.limits.max_edge = 2048;
    spec.limits.max_pixels = 1024 * 1024;
    for (given, width, height, expected) in [
        ((4000, 1), Some(320), None, (320, 96)),
        ((1, 4000), Some(320), None, (320, 1280)),
        ((4000, 1), None, Some(320), (1280, 320)),
        ((1, 4000), Some(1024), None, (1024, 1024)),
        ((1, 4000), Some(2048), None, (2048, 512)),
        ((1600, 800), Some(128), None, (128, 64)),
    ] {
        let found = size_of(&spec, |form| {
            form.inputs.image = Some(start_image(given.0, given.1));
            (form.width, form.height) = (width, height);
        });
        assert_eq!(found, expected, "{given:?}");
    }
}

#[test]
fn a_size_out_of_any_range_is_refused() {
    for (found, expected) in [
        (0, "multiple of 32 for Test model, not 0"),
        (32_800, "at most 32768"),
        (99_999_999, "at most 32768"),
        (u32::MAX, "at most 32768"),
    ] {
        let text = refused(&test_spec(), of_size(found, found));
        for (line, field) in text.lines().zip(["width: ", "height: "]) {
            assert_starts(line, field);
            assert_contains(line, expected);
        }
    }
    let text = refused(&test_spec(), of_size(16_384, 16_384));
    assert_contains(&text, "at most 16777216 pixels");
}

#[test]
fn nearest_multiple_handles_huge_negative_and_nan_values() {
    for value in [f64::from(u32::MAX), 1e300, f64::INFINITY] {
        assert_eq!(nearest_multiple(value, 32), u32::MAX - 31);
    }
    for value in [0.0, -5.0, f64::NAN] {
        assert_eq!(nearest_multiple(value, 32), 32);
    }
}

#[test]
fn a_video_has_the_aspect_of_any_given_image_and_the_models_area() {
    let mut spec = free_spec();
    spec.end_image = InputUse::Optional;
    let from = |change: &dyn Fn(&mut GenerateForm)| {
        let mut form = form();
        change(&mut form);
        snap::size(&form, &spec, &mut FormProblems::default())
    };
    let (wide, tall) = ((352, 192), (192, 352));
    let image = |form: &mut GenerateForm| form.inputs.image = Some(start_image(1600, 800));
    assert_eq!(from(&image), wide);
    let last = |form: &mut GenerateForm| form.inputs.last_image = Some(start_image(800, 1600));
    assert_eq!(from(&last), tall);
    let video = |form: &mut GenerateForm| form.inputs.extend = Some(source_video(1600, 800, 8.0));
    assert_eq!(from(&video), wide);
    let control = |form: &mut GenerateForm| {
        form.inputs.controls = vec![FormControl {
            source: InputMedia::Video(source_video(1600, 800, 8.0)),
            mask: None,
            settings: ControlSettings::default(),
        }];
        form.inputs.references = vec![start_image(64, 64)];
    };
    assert_eq!(from(&control), wide, "before the references");
    let with_image = |form: &mut GenerateForm| {
        control(form);
        form.inputs.image = Some(start_image(800, 1600));
    };
    assert_eq!(from(&with_image), tall);
    let half_given = |form: &mut GenerateForm| {
        image(form);
        form.width = Some(128);
    };
    let expected = (128, 64);
    let found = from(&half_given);
    assert_eq!(found, expected, "the other edge keeps the aspect");
    spec.limits.fixed_size = true;
    assert_eq!(size_of(&spec, image), (256, 256));
}

#[test]
fn a_snapped_size_and_one_of_an_images_aspect_stay_within_the_limits() {
    let mut spec = test_spec();
    assert_eq!(size_of(&spec, of_size(1023, 16_384)).0, 1024);
    spec.limits.max_pixels -= 1;
    assert_eq!(size_of(&spec, of_size(1023, 16_384)).0, 992);
    let mut spec = free_spec();
    (spec.limits.max_edge, spec.limits.max_pixels) = (300, 256 * 256);
    let of = |width, height| {
        size_of(&spec, |form| {
            form.inputs.image = Some(start_image(width, height));
        })
    };
    assert_eq!(of(4000, 1000), (288, 128));
    let (width, height) = of(9, 10);
    assert!(width * height <= 256 * 256);
}
