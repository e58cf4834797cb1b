//! Clips that are made in sections: their lengths, orders, sizes and prompts.

use super::*;
use crate::families::framepack;
use crate::job::{SectionOrder, Sections};
use crate::model::Guidance;

/// A model as FramePack is.
fn framepack(order: SectionOrder) -> ModelSpec {
    let mut spec = test_spec();
    spec.family = framepack::FAMILY;
    spec.section_order = Some(order);
    spec.start_image = InputUse::Required;
    spec.end_image = order.end_image();
    spec.guidance = Guidance::Distilled;
    spec.limits.fixed_size = false;
    spec.limits.size_multiple = 16;
    (spec.defaults.width, spec.defaults.height) = (640, 608);
    (spec.defaults.num_frames, spec.defaults.fps) = (145, 30.0);
    spec
}

fn wish() -> GenerateForm {
    GenerateForm {
        image: Some(picture(1200, 900)),
        ..form()
    }
}

fn request_of(wish: &GenerateForm) -> GenerateRequest {
    let spec = framepack(SectionOrder::Original);
    wish.validate(&spec).unwrap().request
}

fn problem(wish: &GenerateForm, spec: &ModelSpec) -> String {
    let errors = wish.validate(spec).unwrap_err();
    format!("{}: {}", errors[0].field, errors[0].message)
}

#[test]
fn a_clip_of_five_seconds_is_made_where_no_length_is_asked_for() {
    let request = request_of(&wish());
    let expected = Sections {
        count: 4,
        window: 9,
        order: SectionOrder::Original,
        lead: 1,
    };
    assert_eq!(request.sections, Some(expected));
    assert_eq!((request.num_frames, request.fps), (145, 30.0));
    assert_eq!(request.num_decoded(), 145);
}

#[test]
fn seconds_are_counted_as_in_the_original_and_frames_as_in_diffusers() {
    for (secs, frames) in [
        (1.0, 37),
        (5.0, 145),
        (2.4, 73),
        (60.0, 1801),
        (120.0, 3601),
    ] {
        let request = request_of(&GenerateForm {
            secs: Some(secs),
            ..wish()
        });
        assert_eq!(request.num_frames, frames, "{secs}");
    }
    let spec = framepack(SectionOrder::F1);
    for (asked, made) in [(1, 37), (33, 37), (40, 73), (73, 109), (150, 181)] {
        let checked = GenerateForm {
            num_frames: Some(asked),
            ..wish()
        };
        let checked = checked.validate(&spec).unwrap();
        assert_eq!(checked.request.num_frames, made);
        let note = format!("The number of frames was changed from {asked} to {made}: ");
        assert!(checked.notices[0].message.starts_with(&note), "{asked}");
    }
    // Another window makes sections of another length.
    let request = request_of(&GenerateForm {
        secs: Some(5.0),
        window: Some(5),
        ..wish()
    });
    assert_eq!(request.num_frames, 8 * 20 + 1);
}

#[test]
fn lengths_and_windows_that_cannot_be_are_named() {
    let spec = framepack(SectionOrder::Original);
    let with = |change: &dyn Fn(&mut GenerateForm)| {
        let mut wish = wish();
        change(&mut wish);
        problem(&wish, &spec)
    };
    for secs in [0.5, 121.0, f64::NAN, -1.0, f64::INFINITY] {
        let text = with(&|form| form.secs = Some(secs));
        assert!(
            text.starts_with("seconds: the length must be between 1 and 120"),
            "{text}"
        );
    }
    for frames in [0, 3400, u32::MAX] {
        let text = with(&|form| form.num_frames = Some(frames));
        assert!(text.ends_with(&format!("not {frames}")), "{text}");
    }
    for window in [0, 1, 33, u32::MAX] {
        let text = with(&|form| form.window = Some(window));
        assert!(
            text.starts_with("window: the section length must be between 2 and 32"),
            "{text}"
        );
    }
    let text = with(&|form| (form.secs, form.num_frames) = (Some(2.0), Some(9)));
    assert!(text.contains("either seconds or frames"), "{text}");
    let text = with(&|form| form.num_sections = Some(101));
    assert!(
        text.contains("sections must be between 1 and 100,"),
        "{text}"
    );
}

#[test]
fn a_clip_is_repeated_with_as_many_sections_as_it_had() {
    for count in [1, 2, 7, 50] {
        let again = GenerateForm {
            num_sections: Some(count),
            ..wish()
        };
        let checked = again.validate(&framepack(SectionOrder::Original)).unwrap();
        assert_eq!(checked.request.num_frames, 36 * count + 1);
        assert_eq!(checked.notices, []);
    }
}

#[test]
fn the_order_of_sections_decides_about_ends_and_clips_to_go_on_from() {
    let ends = GenerateForm {
        last_image: Some(picture(9, 9)),
        ..wish()
    };
    let original = framepack(SectionOrder::Original);
    let f1 = framepack(SectionOrder::F1);
    assert!(ends.validate(&original).is_ok());
    assert!(problem(&ends, &f1).contains("does not use end pictures"));
    let turned = GenerateForm {
        section_order: Some(SectionOrder::Original),
        ..ends
    };
    let request = turned.validate(&f1).unwrap().request;
    assert_eq!(request.sections.unwrap().order, SectionOrder::Original);
    let on = GenerateForm {
        extend: Some(clip(640, 608, 30.0)),
        ..form()
    };
    let request = on.validate(&f1).unwrap().request;
    let lead = Sections::lead_of(on.extend.as_ref().unwrap().info.num_frames, 9);
    assert_eq!(request.sections.unwrap().lead, lead);
    assert_eq!(request.num_frames, request.sections.unwrap().num_frames());
    let slow = GenerateForm {
        extend: Some(clip(640, 608, 16.0)),
        ..form()
    };
    let notices = slow.validate(&f1).unwrap().notices;
    let told = notices.iter().find(|it| it.field == "fps").unwrap();
    assert!(
        told.message.ends_with("the new part moves slower"),
        "{told:?}"
    );
    assert!(problem(&on, &original).starts_with("extend: Test model cannot continue a clip"));
}

#[test]
fn a_pictures_aspect_chooses_the_bucket_and_the_picture_is_cropped_to_it() {
    for (size, bucket) in [
        ((1200, 900), (704, 544)),
        ((512, 512), (608, 640)),
        ((1920, 1080), (832, 480)),
        ((1080, 1920), (480, 832)),
        ((3000, 1000), (960, 416)),
        ((100, 1000), (416, 960)),
        ((640, 608), (640, 608)),
    ] {
        let request = request_of(&GenerateForm {
            image: Some(picture(size.0, size.1)),
            ..form()
        });
        assert_eq!((request.width, request.height), bucket, "{size:?}");
        assert_eq!(request.fit, Fit::Crop);
    }
    let request = request_of(&GenerateForm {
        width: Some(720),
        height: Some(400),
        ..wish()
    });
    assert_eq!((request.width, request.height), (720, 400));
    assert_eq!(request.fit, Fit::Stretch);
}

#[test]
fn times_in_a_prompt_are_read_for_sections_and_wrong_ones_told() {
    let request = request_of(&GenerateForm {
        prompt: "[0s-2s: he waves] [2s: he sits]".to_owned(),
        ..wish()
    });
    let prompts = request.section_prompts().unwrap().unwrap();
    // Made back to front: the last section is told first.
    assert_eq!(prompts.texts, ["he sits", "he waves"]);
    assert_eq!(prompts.shares.len(), 4);
    assert_eq!(prompts.shares[0][0].text, 0);
    assert_eq!(prompts.shares[3][0].text, 1);
    let wrong = GenerateForm {
        prompt: "[3s-2s: he waves]".to_owned(),
        ..wish()
    };
    let text = problem(&wrong, &framepack(SectionOrder::F1));
    assert!(text.starts_with("prompt: in [3s-2s: …] the end"), "{text}");
}

#[test]
fn what_only_sections_have_is_not_used_by_other_models() {
    let checked = changed(|form| {
        form.secs = Some(3.0);
        form.window = Some(9);
        form.section_order = Some(SectionOrder::F1);
    });
    let checked = checked.unwrap();
    assert_eq!(checked.request.sections, None);
    let fields: Vec<&str> = checked.notices.iter().map(|note| note.field).collect();
    assert_eq!(fields, ["seconds", "window", "sampling"]);
}
