//! Widths and heights: what is made of those that are asked for, and of a picture's aspect.

use super::*;
use crate::job::{ControlSettings, FormControl, Source};
use crate::model::nearest_multiple;

#[test]
fn sizes_become_the_nearest_multiple_with_a_notice_for_each_edge() {
    let size = |width, height| {
        let checked = changed(|form| (form.width, form.height) = (Some(width), Some(height)));
        let checked = checked.unwrap();
        let size = (checked.request.width, checked.request.height);
        let notices: Vec<String> = told(&checked).into_iter().map(str::to_owned).collect();
        (size, notices)
    };
    assert_eq!(
        size(250, 256),
        (
            (256, 256),
            vec!["The width was changed from 250 to 256: Test model makes multiples of 32".into()]
        )
    );
    assert_eq!(size(250, 130).0, (256, 128));
    assert_eq!(size(250, 130).1.len(), 2);
    assert_eq!(size(1, 31).0, (32, 32));
    assert_eq!(size(32_780, 32).0, (32_768, 32), "down to the limit");
    // Both are in the middle: the pair that keeps 2:1 best.
    assert_eq!(size(96 + 16, 48).0, (128, 64));
    assert_eq!(size(64, 32), ((64, 32), vec![]));
}

#[test]
fn a_size_in_the_middle_becomes_the_one_that_the_model_was_trained_at() {
    let mut spec = free_spec();
    (spec.defaults.width, spec.defaults.height) = (1280, 704);
    let size = |spec: &ModelSpec, width, height| {
        let wish = GenerateForm {
            width: Some(width),
            height: Some(height),
            ..form()
        };
        let request = wish.validate(spec).unwrap().request;
        (request.width, request.height)
    };
    assert_eq!(size(&spec, 1280, 720), (1280, 704));
    assert_eq!(size(&spec, 720, 1280), (704, 1280));
    // Not what is nearer.
    assert_eq!(size(&spec, 1280, 730), (1280, 736));
    (spec.defaults.width, spec.defaults.height) = (1280, 736);
    assert_eq!(size(&spec, 1280, 720), (1280, 736));
    // Neither is the default: the smaller one.
    spec.defaults.height = 640;
    assert_eq!(size(&spec, 1280, 720), (1280, 704));
}

#[test]
fn an_edge_beside_a_given_one_stays_usable_whatever_the_pictures_aspect() {
    let mut spec = free_spec();
    spec.limits.max_edge = 2048;
    spec.limits.max_pixels = 1024 * 1024;
    let size = |picture_size: (u32, u32), width, height| {
        let wish = GenerateForm {
            image: Some(picture(picture_size.0, picture_size.1)),
            width,
            height,
            ..form()
        };
        let request = wish.validate(&spec).unwrap().request;
        (request.width, request.height)
    };
    assert_eq!(size((4000, 1), Some(320), None), (320, 96));
    assert_eq!(size((1, 4000), Some(320), None), (320, 1280));
    assert_eq!(size((4000, 1), None, Some(320)), (1280, 320));
    assert_eq!(size((1, 4000), Some(1024), None), (1024, 1024));
    assert_eq!(size((1, 4000), Some(2048), None), (2048, 512));
    assert_eq!(size((1600, 800), Some(128), None), (128, 64));
}

#[test]
fn a_size_that_nobody_can_mean_is_refused() {
    for field in ["width", "height"] {
        for (found, expected) in [
            (0, "multiple of 32 for Test model, not 0"),
            (32_800, "at most 32768"),
            (99_999_999, "at most 32768"),
            (u32::MAX, "at most 32768"),
        ] {
            let text = problems(|form| match field {
                "width" => form.width = Some(found),
                _ => form.height = Some(found),
            });
            assert!(text.starts_with(field) && text.contains(expected), "{text}");
        }
    }
    let text = problems(|form| (form.width, form.height) = (Some(16_384), Some(16_384)));
    assert!(text.contains("at most 16777216 pixels"), "{text}");
}

#[test]
fn a_snapped_size_never_has_too_many_pixels() {
    let wish = GenerateForm {
        width: Some(1023),
        height: Some(16_384),
        ..form()
    };
    let mut spec = test_spec();
    assert_eq!(wish.validate(&spec).unwrap().request.width, 1024);
    spec.limits.max_pixels -= 1;
    assert_eq!(wish.validate(&spec).unwrap().request.width, 992);
}

#[test]
fn the_nearest_multiple_is_a_multiple_whatever_the_value() {
    for value in [f64::from(u32::MAX), 1e300, f64::INFINITY] {
        assert_eq!(nearest_multiple(value, 32), u32::MAX - 31);
    }
    for value in [0.0, -5.0, f64::NAN] {
        assert_eq!(nearest_multiple(value, 32), 32);
    }
}

#[test]
fn a_control_clip_gives_its_shape_before_the_references_beside_it() {
    let spec = free_spec();
    let control = FormControl {
        source: Source::Clip(clip(1600, 800, 8.0)),
        mask: None,
        settings: ControlSettings::default(),
    };
    let mut wish = GenerateForm {
        controls: vec![control],
        references: vec![picture(64, 64)],
        ..form()
    };
    let size = |wish: &GenerateForm| snap::size(wish, &spec, &mut Findings::default());
    assert_eq!(size(&wish), (352, 192));
    wish.image = Some(picture(800, 1600));
    assert_eq!(size(&wish), (192, 352));
}

#[test]
fn any_given_picture_makes_a_clip_of_its_aspect_and_the_models_area() {
    let mut spec = free_spec();
    spec.end_image = InputUse::Optional;
    let from = |change: &dyn Fn(&mut GenerateForm)| {
        let mut wish = form();
        change(&mut wish);
        snap::size(&wish, &spec, &mut Findings::default())
    };
    assert_eq!(
        from(&|form| form.image = Some(picture(1600, 800))),
        (352, 192)
    );
    assert_eq!(
        from(&|form| form.last_image = Some(picture(800, 1600))),
        (192, 352)
    );
    assert_eq!(
        from(&|form| form.extend = Some(clip(1600, 800, 8.0))),
        (352, 192)
    );
    let half_given = |form: &mut GenerateForm| {
        form.image = Some(picture(1600, 800));
        form.width = Some(128);
    };
    assert_eq!(
        from(&half_given),
        (128, 64),
        "the other edge keeps the aspect"
    );
    let mut fixed = spec.clone();
    fixed.limits.fixed_size = true;
    let wish = GenerateForm {
        image: Some(picture(1600, 800)),
        ..form()
    };
    let request = wish.validate(&fixed).unwrap().request;
    assert_eq!((request.width, request.height), (256, 256));
}

#[test]
fn a_size_from_a_pictures_aspect_stays_within_the_limits() {
    let mut spec = free_spec();
    spec.limits.max_edge = 300;
    spec.limits.max_pixels = 256 * 256;
    let wish = GenerateForm {
        image: Some(picture(4000, 1000)),
        ..form()
    };
    let request = wish.validate(&spec).unwrap().request;
    assert_eq!((request.width, request.height), (288, 128));
    let tall = GenerateForm {
        image: Some(picture(9, 10)),
        ..form()
    };
    let request = tall.validate(&spec).unwrap().request;
    assert!(u64::from(request.width) * u64::from(request.height) <= 256 * 256);
}
