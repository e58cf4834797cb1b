//! A clip that another one is made of: which models take it, and what it says of size, length and rate.

use super::*;

fn changing(change: impl FnOnce(&mut GenerateForm)) -> Result<Validated, Vec<FieldError>> {
    let mut wish = form();
    wish.size = SizeChoice::Auto;
    wish.source_clip = Some(clip(512, 256, 12.5));
    change(&mut wish);
    wish.validate(&free_spec())
}

#[test]
fn a_changed_clip_gives_its_shape_its_rate_and_its_length() {
    let checked = changing(|_| ()).unwrap();
    let request = &checked.request;
    assert_eq!((request.width, request.height), (352, 192));
    assert_eq!((request.num_frames, request.fps), (9, 12.5));
    assert_eq!(request.sampling.strength, Some(0.8));
    assert_eq!(request.source_clip.as_deref(), Some(Path::new("a.mp4")));
    assert_eq!(
        told(&checked),
        [
            "The clip's frames are resized from 512×256 to 352×192, the size in which Test model changes it"
        ]
    );
    let own = changing(|form| {
        (form.fps, form.sampling.strength) = (Some(24.0), Some(0.5));
        (form.width, form.height, form.size) = (Some(512), Some(256), SizeChoice::Custom);
    });
    let own = own.unwrap();
    assert_eq!(
        (own.request.fps, own.request.sampling.strength),
        (24.0, Some(0.5))
    );
    assert!(own.notices.is_empty(), "{:?}", own.notices);
    let again = GenerateForm::from(&own.request);
    assert!(again.remakes_clip);
}

#[test]
fn a_clip_of_uneven_times_takes_the_models_rate_for_as_long_as_it_is() {
    let spec = free_spec();
    let (fps, secs) = (spec.defaults.fps, 9.0 / 12.5);
    let made = |change: fn(&mut GenerateForm)| {
        let checked = changing(|form| {
            form.source_clip.as_mut().unwrap().info.is_uneven = true;
            change(form);
        });
        let request = checked.unwrap().request;
        (request.fps, f64::from(request.num_frames) / request.fps)
    };
    let (rate, lasts) = made(|_| ());
    assert_eq!(rate, fps);
    assert!(lasts <= secs && secs - lasts < 4.0 / fps, "{lasts}");
    let (rate, lasts) = made(|form| form.fps = Some(24.0));
    assert_eq!(rate, 24.0);
    assert!(lasts <= secs && secs - lasts < 4.0 / 24.0, "{lasts}");
}

#[test]
fn a_clip_is_made_anew_from_its_first_frame_and_no_further_than_it_goes() {
    let made = |given: u32, wish: Option<u32>| {
        let checked = changing(|form| {
            form.source_clip.as_mut().unwrap().info.num_frames = given;
            (form.width, form.height, form.size) = (Some(512), Some(256), SizeChoice::Custom);
            form.num_frames = wish;
        });
        let checked = checked.unwrap();
        let told = told(&checked).join("; ");
        (checked.request.num_frames, told)
    };
    let changed = |from: u32, to: u32, has: u32| {
        format!(
            "The number of frames was changed from {from} to {to}: the clip has {has}, and Test model makes 4n+1 of them"
        )
    };
    let first = |made: u32, has: u32| {
        format!(
            "Only the first {made} frames of the clip are used: it has {has}, and a number of frames can be chosen"
        )
    };
    assert_eq!(made(9, None), (9, String::new()));
    assert_eq!(made(7, None), (5, changed(7, 5, 7)));
    assert_eq!(made(300, None), (17, first(17, 300)));
    assert_eq!(made(300, Some(33)), (33, first(33, 300)));
    assert_eq!(made(9, Some(33)), (9, changed(33, 9, 9)));
    assert_eq!(made(1, None), (1, String::new()));
    assert_eq!(made(0, None), (1, String::new()));
}

#[test]
fn whole_steps_are_left_to_a_clip_as_its_reference_counts_them() {
    let family = free_spec().family;
    for (num_steps, strength, first) in [
        (5, 0.7, 2),
        (4, 0.6, 2),
        (50, 0.8, 10),
        (10, 1.0, 0),
        (10, 2.0, 0),
    ] {
        assert_eq!(
            family.first_step(num_steps, strength),
            first,
            "{num_steps} {strength}"
        );
    }
    let few = changing(|form| form.sampling.strength = Some(0.05)).unwrap_err();
    assert_eq!(few[0].field, "strength");
    assert!(
        few[0].message.contains("leaves none of the 12 steps"),
        "{few:?}"
    );
}

#[test]
fn a_clip_that_is_changed_stands_alone_and_only_where_a_model_can() {
    let said = |change: fn(&mut GenerateForm)| {
        let errors = changing(change).unwrap_err();
        let found = errors.into_iter().find(|err| err.field == "source-clip");
        found.map(|err| err.message).unwrap_or_default()
    };
    let alone = "a clip that is changed stands alone";
    assert!(said(|form| form.image = Some(picture(64, 64))).starts_with(alone));
    assert!(said(|form| form.extend = Some(clip(64, 64, 8.0))).starts_with(alone));
    let mut spec = free_spec();
    spec.variant = "I2V".to_owned();
    let wish = GenerateForm {
        source_clip: Some(clip(512, 256, 12.5)),
        ..form()
    };
    let errors = wish.validate(&spec).unwrap_err();
    assert_eq!(
        errors[0].message,
        "Test model cannot change a clip: choose a model that makes clips from text"
    );
    let idle = changed(|form| form.sampling.strength = Some(0.5)).unwrap();
    assert_eq!(idle.request.sampling.strength, None);
    spec.family = crate::families::flux::FAMILY;
    let errors = wish.validate(&spec).unwrap_err();
    let of_pictures = "Test model makes pictures and cannot change a clip";
    assert!(
        errors.iter().any(|err| err.message == of_pictures),
        "{errors:?}"
    );
}

#[test]
fn a_clip_may_have_a_mask_and_a_mask_needs_one() {
    let mask = |width, height| StartPicture {
        path: "m.png".into(),
        width,
        height,
    };
    let both = changing(|form| form.mask = Some(mask(256, 128))).unwrap();
    assert_eq!(both.request.mask.as_deref(), Some(Path::new("m.png")));
    assert_eq!(both.notices.len(), 1, "{:?}", both.notices);
    let other = changing(|form| form.mask = Some(mask(64, 64))).unwrap();
    let said =
        "The mask is 64×64 and the clip 512×256: each is fitted to the new clip's shape separately";
    assert!(told(&other).contains(&said), "{:?}", other.notices);
    let alone = problems(|form| form.mask = Some(mask(64, 64)));
    assert_eq!(
        alone,
        "mask: a mask needs a clip to change: it says which part of it is made anew"
    );
}
