//! Videos that are made in sections: their lengths, orders, sizes and prompts.

use super::*;
use crate::families::framepack;
use crate::job::{SectionOrder, VideoSections};
use crate::model::GuidanceMode;

fn framepack(order: SectionOrder) -> ModelSpec {
    let mut spec = test_spec();
    spec.family = framepack::FAMILY;
    spec.section_order = Some(order);
    spec.start_image = InputUse::Required;
    spec.end_image = order.end_image();
    spec.guidance = GuidanceMode::Distilled;
    spec.limits.fixed_size = false;
    spec.limits.size_multiple = 16;
    (spec.defaults.width, spec.defaults.height) = (640, 608);
    (spec.defaults.num_frames, spec.defaults.fps) = (145, 30.0);
    spec
}

fn with(change: impl FnOnce(&mut GenerateForm)) -> impl FnOnce(&mut GenerateForm) {
    |form| {
        form.inputs.image = Some(start_image(1200, 900));
        change(form);
    }
}

/// Of the model whose sections are made back to front.
fn original(change: impl FnOnce(&mut GenerateForm)) -> GenerateRequest {
    request_of(&framepack(SectionOrder::Original), with(change))
}

#[test]
fn a_video_of_five_seconds_is_made_where_no_length_is_chosen() {
    let request = original(|_| {});
    let expected = VideoSections {
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
        let request = original(|form| form.secs = Some(secs));
        assert_eq!(request.num_frames, frames, "{secs}");
    }
    let spec = framepack(SectionOrder::F1);
    for (given, made) in [(1, 37), (33, 37), (40, 73), (73, 109), (150, 181)] {
        let (request, text) = noted(&spec, with(|form| form.num_frames = Some(given)));
        assert_eq!(request.num_frames, made);
        let start = format!("The number of frames was changed from {given} to {made}: ");
        assert_starts(&text, &start);
    }
    // Another window makes sections of another length.
    let request = original(|form| (form.secs, form.window) = (Some(5.0), Some(5)));
    assert_eq!(request.num_frames, 8 * 20 + 1);
}

#[test]
fn lengths_and_windows_that_cannot_be_are_named_and_a_number_of_sections_is_repeated() {
    let spec = framepack(SectionOrder::Original);
    for secs in [0.5, 121.0, f64::NAN, -1.0, f64::INFINITY] {
        let text = refused(&spec, with(|form| form.secs = Some(secs)));
        assert_starts(&text, "seconds: the length must be between 1 and 120");
    }
    for frames in [0, 3400, u32::MAX] {
        let text = refused(&spec, with(|form| form.num_frames = Some(frames)));
        assert!(text.ends_with(&format!("not {frames}")), "{text}");
    }
    for window in [0, 1, 33, u32::MAX] {
        let text = refused(&spec, with(|form| form.window = Some(window)));
        assert_starts(&text, "window: the section length must be between 2 and 32");
    }
    let both = with(|form| (form.secs, form.num_frames) = (Some(2.0), Some(9)));
    assert_contains(&refused(&spec, both), "either seconds or frames");
    let text = refused(&spec, with(|form| form.num_sections = Some(101)));
    assert_contains(&text, "sections must be between 1 and 100,");
    for count in [1, 2, 7, 50] {
        let (request, text) = noted(&spec, with(|form| form.num_sections = Some(count)));
        assert_eq!((request.num_frames, &*text), (36 * count + 1, ""));
    }
}

#[test]
fn the_order_of_sections_decides_about_ends_and_videos_to_continue() {
    let original = framepack(SectionOrder::Original);
    let f1 = framepack(SectionOrder::F1);
    let ends = |form: &mut GenerateForm| {
        with(|form| form.inputs.last_image = Some(start_image(9, 9)))(form);
    };
    assert!(checked(&original, ends).is_ok());
    assert_contains(&refused(&f1, ends), "does not use end images");
    let turned = request_of(&f1, |form| {
        ends(form);
        form.section_order = Some(SectionOrder::Original);
    });
    assert_eq!(turned.sections.unwrap().order, SectionOrder::Original);
    let continued =
        |fps| move |form: &mut GenerateForm| form.inputs.extend = Some(source_video(640, 608, fps));
    let request = request_of(&f1, continued(30.0));
    let sections = request.sections.unwrap();
    assert_eq!(sections.lead, VideoSections::lead_of(9, 9));
    assert_eq!(request.num_frames, sections.num_frames());
    let (_, text) = noted(&f1, continued(16.0));
    assert_contains(&text, "the new part moves slower");
    let text = refused(&original, continued(30.0));
    assert_starts(&text, "extend: Test model cannot continue a video");
}

#[test]
fn an_images_aspect_chooses_the_bucket_and_the_image_is_cropped_to_it() {
    for (size, bucket) in [
        ((1200, 900), (704, 544)),
        ((512, 512), (608, 640)),
        ((1920, 1080), (832, 480)),
        ((1080, 1920), (480, 832)),
        ((3000, 1000), (960, 416)),
        ((100, 1000), (416, 960)),
        ((640, 608), (640, 608)),
    ] {
        let request = original(|form| form.inputs.image = Some(start_image(size.0, size.1)));
        assert_eq!((request.width, request.height), bucket, "{size:?}");
        assert_eq!(request.fit, ResizeMode::Crop);
    }
    let request = original(|form| (form.width, form.height) = (Some(720), Some(400)));
    assert_eq!((request.width, request.height), (720, 400));
    assert_eq!(request.fit, ResizeMode::Stretch);
}

#[test]
fn times_in_a_prompt_are_read_for_sections_and_wrong_ones_refused() {
    let request = original(|form| form.prompt = "[0s-2s: he waves] [2s: he sits]".into());
    let prompts = request.section_prompts().unwrap().unwrap();
    // Made back to front: the last section comes first.
    assert_eq!(prompts.texts, ["he sits", "he waves"]);
    assert_eq!(prompts.shares.len(), 4);
    let first_and_last = [0, 3].map(|section| prompts.shares[section][0].text);
    assert_eq!(first_and_last, [0, 1]);
    let wrong = with(|form| form.prompt = "[3s-2s: he waves]".into());
    let text = refused(&framepack(SectionOrder::F1), wrong);
    assert_starts(&text, "prompt: in [3s-2s: …] the end");
}

#[test]
fn section_settings_are_ignored_with_a_notice_by_other_models() {
    let checked = checked(&test_spec(), |form| {
        (form.secs, form.window) = (Some(3.0), Some(9));
        form.section_order = Some(SectionOrder::F1);
    });
    let checked = checked.unwrap();
    assert_eq!(checked.request.sections, None);
    let fields: Vec<&str> = checked.notices.iter().map(|note| note.field).collect();
    assert_eq!(fields, ["seconds", "window", "sampling"]);
}
