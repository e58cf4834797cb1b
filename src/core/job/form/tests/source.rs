//! A video that another one is made of: which models take it, and what it says of size, length and rate.

use std::path::Path;

use super::*;

fn changing(change: impl FnOnce(&mut GenerateForm)) -> impl FnOnce(&mut GenerateForm) {
    |form| {
        form.size = SizeChoice::Auto;
        form.inputs.source_video = Some(source_video(512, 256, 12.5));
        change(form);
    }
}

fn in_its_own_size(form: &mut GenerateForm) {
    (form.width, form.height, form.size) = (Some(512), Some(256), SizeChoice::Custom);
}

#[test]
fn a_changed_video_gives_its_shape_its_rate_and_its_length() {
    let (request, text) = noted(&free_spec(), changing(|_| {}));
    assert_eq!((request.width, request.height), (352, 192));
    assert_eq!((request.num_frames, request.fps), (9, 12.5));
    assert_eq!(request.sampling.strength, Some(0.8));
    assert_eq!(request.source_video.as_deref(), Some(Path::new("a.mp4")));
    let expected = "The video's frames are resized from 512×256 to 352×192, the size in which Test model changes it";
    assert_eq!(text, expected);
    let image = changing(|form| form.inputs.source_video.as_mut().unwrap().info.num_frames = 1);
    let (_, text) = noted(&free_spec(), image);
    assert_eq!(
        text,
        expected.replace("The video's frames are", "The image is")
    );
    let change = changing(|form| {
        (form.fps, form.sampling.strength) = (Some(24.0), Some(0.5));
        in_its_own_size(form);
    });
    let (own, text) = noted(&free_spec(), change);
    assert_eq!((own.fps, own.sampling.strength), (24.0, Some(0.5)));
    assert_eq!(text, "");
    assert!(GenerateForm::from(&own).remakes_video);
}

#[test]
fn a_video_of_uneven_times_takes_the_models_rate_for_as_long_as_it_is() {
    let spec = free_spec();
    let secs = 9.0 / 12.5;
    for (chosen, expected) in [(None, spec.defaults.fps), (Some(24.0), 24.0)] {
        let change = changing(|form| {
            form.inputs.source_video.as_mut().unwrap().info.is_uneven = true;
            form.fps = chosen;
        });
        let request = request_of(&spec, change);
        assert_eq!(request.fps, expected);
        let lasts = f64::from(request.num_frames) / request.fps;
        assert!(lasts <= secs && secs - lasts < 4.0 / expected, "{lasts}");
    }
}

#[test]
fn video_to_video_frame_count_is_limited_by_the_source_video() {
    let changed = |from: u32, to: u32, has: u32| {
        format!(
            "The number of frames was changed from {from} to {to}: the video has {has}, and Test model makes 4n+1 of them"
        )
    };
    let first = |made: u32, has: u32| {
        format!(
            "Only the first {made} frames of the video are used: it has {has}, and a number of frames can be chosen"
        )
    };
    for (has, chosen, made, expected) in [
        (9, None, 9, String::new()),
        (7, None, 5, changed(7, 5, 7)),
        (300, None, 17, first(17, 300)),
        (300, Some(33), 33, first(33, 300)),
        (9, Some(33), 9, changed(33, 9, 9)),
        (1, None, 1, String::new()),
        (0, None, 1, String::new()),
    ] {
        let change = changing(|form| {
            form.inputs.source_video.as_mut().unwrap().info.num_frames = has;
            in_its_own_size(form);
            form.num_frames = chosen;
        });
        let (request, text) = noted(&free_spec(), change);
        assert_eq!((request.num_frames, text), (made, expected));
    }
}

#[test]
fn whole_steps_are_left_to_a_video_as_its_reference_counts_them() {
    let family = free_spec().family;
    let steps = [(5, 0.7), (4, 0.6), (50, 0.8), (10, 1.0), (10, 2.0)];
    let found = steps.map(|(num_steps, strength)| family.first_step(num_steps, strength));
    assert_eq!(found, [2, 2, 10, 0, 0]);
    let change = changing(|form| form.sampling.strength = Some(0.05));
    let text = refused(&free_spec(), change);
    assert_starts(&text, "strength: ");
    assert_contains(&text, "leaves none of the 12 steps");
}

#[test]
fn a_video_that_is_changed_is_alone_and_only_where_a_model_can() {
    let alone = "source-video: a video that is changed stands alone";
    let image = changing(|form| form.inputs.image = Some(start_image(64, 64)));
    assert_contains(&refused(&free_spec(), image), alone);
    let video = changing(|form| form.inputs.extend = Some(source_video(64, 64, 8.0)));
    assert_contains(&refused(&free_spec(), video), alone);
    let request = request_of(&test_spec(), |form| form.sampling.strength = Some(0.5));
    assert_eq!(request.sampling.strength, None);
    let mut spec = free_spec();
    spec.variant = "I2V".to_owned();
    let text = refused(&spec, changing(|_| {}));
    let expected = "Test model cannot change a video: choose a model that makes videos from text";
    assert_contains(&text, expected);
    spec.family = crate::families::flux::FAMILY;
    let text = refused(&spec, changing(|_| {}));
    assert_contains(&text, "Test model makes images and cannot change a video");
}

#[test]
fn a_video_may_have_a_mask_and_a_mask_needs_one() {
    let mask = |width, height| {
        move |form: &mut GenerateForm| form.inputs.mask = Some(start_image(width, height))
    };
    let (both, text) = noted(&free_spec(), changing(mask(256, 128)));
    assert_eq!(both.mask.as_deref(), Some(Path::new("a.jpg")));
    assert_eq!(text.lines().count(), 1, "{text}");
    let (_, text) = noted(&free_spec(), changing(mask(64, 64)));
    let expected = "The mask is 64×64 and the video 512×256: each is fitted to the new video's shape separately";
    assert_contains(&text, expected);
    let expected = "mask: a mask needs a video to change: it says which part of it is made anew";
    assert_eq!(refused(&test_spec(), mask(64, 64)), expected);
}
