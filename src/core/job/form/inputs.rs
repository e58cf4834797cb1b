//! Whether a model can do with the pictures and clips of a form, or without them.
//!
//! Looks at no file: whether they can be opened, whoever opens them finds.

use super::{Findings, GenerateForm, StartPicture};
use crate::model::{InputUse, ModelSpec};

/// What the image encoder can look at, longer edge to shorter: it keeps the aspect and makes the shorter
/// edge 224, so that beyond this a picture takes more memory than the model.
const MAX_ENCODED_ASPECT: u64 = 1500;

pub(super) fn check(form: &GenerateForm, spec: &ModelSpec, num_frames: u32, found: &mut Findings) {
    let name = &spec.name;
    let things = if spec.family.makes_pictures {
        "pictures"
    } else {
        "clips"
    };
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
                format!("{name} makes {things} from text alone, found {what}"),
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
    if spec.files.image_encoder.is_some() {
        check_lengths(form, spec, found);
    }
    if form.extend.is_some() && num_frames == 1 && !spec.family.makes_pictures {
        found.fail(
            "frames",
            "expected more than one frame to go on from a clip: the first one is its last"
                .to_owned(),
        );
    }
}

/// The image encoder sees pictures whole, whatever is cut off for the clip.
fn check_lengths(form: &GenerateForm, spec: &ModelSpec, found: &mut Findings) {
    let picture = |picture: &StartPicture| (picture.width, picture.height);
    let given = [
        ("image", form.image.as_ref().map(picture)),
        ("last-image", form.last_image.as_ref().map(picture)),
        (
            "extend",
            form.extend
                .as_ref()
                .map(|clip| (clip.info.width, clip.info.height)),
        ),
    ];
    for (field, size) in given {
        let Some((width, height)) = size else {
            continue;
        };
        let (longer, shorter) = (width.max(height), width.min(height));
        if u64::from(longer) > MAX_ENCODED_ASPECT * u64::from(shorter) {
            found.fail(
                field,
                format!(
                    "expected a picture at most {MAX_ENCODED_ASPECT} times as long as it is wide for the image encoder of {}, found {width}×{height}",
                    spec.name
                ),
            );
        }
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
