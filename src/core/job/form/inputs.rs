//! Whether a model can do with the pictures and clips of a form, or without them.
//!
//! Looks at no file: whether they can be opened, whoever opens them finds.

use super::{Findings, GenerateForm};
use crate::catalog::{InputUse, ModelSpec};

pub(super) fn check(form: &GenerateForm, spec: &ModelSpec, num_frames: u32, found: &mut Findings) {
    let name = &spec.name;
    if form.image.is_some() && form.extend.is_some() {
        found.fail(
            "extend",
            "expected either a start picture or a clip to go on from, found both".to_owned(),
        );
    }
    let starts = [
        ("image", form.image.is_some(), "a start picture"),
        ("extend", form.extend.is_some(), "a clip to go on from"),
    ];
    for (field, is_given, what) in starts {
        if is_given && !spec.start_image.is_possible() {
            found.fail(
                field,
                format!("{name} makes clips from text alone, found {what}"),
            );
        }
    }
    let has_start = form.image.is_some() || form.extend.is_some();
    if spec.start_image == InputUse::Required && !has_start {
        found.fail(
            "image",
            format!("{name} starts from a picture, and none is given"),
        );
    }
    check_end(form, spec, num_frames, found);
    if form.extend.is_some() && num_frames == 1 {
        found.fail(
            "frames",
            "expected more than one frame to go on from a clip: the first one is its last"
                .to_owned(),
        );
    }
}

fn check_end(form: &GenerateForm, spec: &ModelSpec, num_frames: u32, found: &mut Findings) {
    let name = &spec.name;
    let has_start = form.image.is_some() || form.extend.is_some();
    match (spec.end_image, &form.last_image) {
        (InputUse::No, Some(_)) => {
            found.fail(
                "last-image",
                format!("{name} cannot end on a given picture, found an end picture"),
            );
        }
        (InputUse::Required, None) => {
            found.fail(
                "last-image",
                format!("{name} ends on a picture, and none is given"),
            );
        }
        // A model that always starts from a picture has said so already.
        (_, Some(_)) if !has_start && spec.start_image == InputUse::Optional => {
            found.fail(
                "image",
                format!(
                    "{name} ends on a picture only where it starts from one, and none is given"
                ),
            );
        }
        (_, Some(_)) if num_frames == 1 => {
            found.fail(
                "frames",
                "expected more than one frame between a start and an end picture".to_owned(),
            );
        }
        _ => {}
    }
}
