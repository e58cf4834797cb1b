//! Checks that a model can use the images and videos of a form, or works without them.
//!
//! Opens no file.

use std::ops::RangeInclusive;

use super::{FormProblems, GenerateForm, StartPicture};
use crate::model::{InputUse, ModelSpec};

/// Limit of the aspect ratio for the image encoder, longer to shorter edge: it keeps the aspect ratio and scales the
/// shorter edge to 224, so that beyond this an image takes more memory than the model.
const MAX_ENCODED_ASPECT: u64 = 1500;

/// Each makes the prompt longer by more than a whole text.
pub const MAX_PROMPT_PICTURES: usize = 8;
/// As in ComfyUI.
pub const PROMPT_STRENGTHS: RangeInclusive<f64> = 0.0..=10.0;

pub(super) fn check(
    form: &GenerateForm,
    spec: &ModelSpec,
    num_frames: u32,
    found: &mut FormProblems,
) {
    let name = &spec.name;
    let things = if spec.family.makes_pictures {
        "pictures"
    } else {
        "clips"
    };
    if form.image.is_some() && form.extend.is_some() {
        let text = "give either a start picture or a clip to continue, not both";
        found.fail("extend", text);
    }
    check_source(form, spec, found);
    let starts = [
        ("image", form.image.is_some(), "a start picture"),
        ("extend", form.extend.is_some(), "a clip to continue"),
    ];
    for (field, is_given, what) in starts {
        if is_given && !spec.start_image.is_possible() {
            let sentence = if spec.edits_reference() && field == "image" {
                format!("{name} starts from no picture: give it as the reference picture")
            } else {
                format!("{name} makes {things} from text only and cannot use {what}")
            };
            found.fail(field, sentence);
        }
    }
    let has_start = form.image.is_some() || form.extend.is_some();
    if spec.start_image == InputUse::Required && !has_start {
        found.fail("image", format!("{name} needs a start picture"));
    }
    check_end(form, spec, num_frames, found);
    check_references(form, spec, found);
    check_prompt_pictures(form, spec, found);
    if spec.files.image_encoder.is_some() {
        check_lengths(form, spec, found);
    }
    if form.extend.is_some() && num_frames == 1 && !spec.family.makes_pictures {
        let text =
            "choose more than one frame: the first one repeats the last of the continued clip";
        found.fail("frames", text);
    }
}

fn check_source(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    if form.source_clip.is_none() {
        return;
    }
    let name = &spec.name;
    let problem = if form.image.is_some() || form.extend.is_some() {
        "a clip that is changed stands alone: remove the start picture or the clip to continue"
            .to_owned()
    } else if spec.family.makes_pictures {
        format!("{name} makes pictures and cannot change a clip")
    } else if spec.clip_strength().is_none() {
        format!("{name} cannot change a clip: choose a model that makes clips from text")
    } else if form.last_image.is_some() {
        "a clip that is changed has an end of its own: remove the end picture".to_owned()
    } else {
        return;
    };
    found.fail("source-clip", problem);
}

fn check_references(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let (given, most) = (form.references.len(), spec.limits.max_references);
    if given <= most as usize {
        return;
    }
    let name = &spec.name;
    let sentence = match most {
        0 => format!("{name} does not use reference pictures"),
        1 => format!("{name} takes one reference picture, not {given}"),
        _ => format!("{name} takes at most {most} reference pictures, not {given}"),
    };
    found.fail("reference", sentence);
}

fn check_prompt_pictures(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let given = form.prompt_pictures.len();
    if given == 0 {
        return;
    }
    let mut fail = |message: String| found.fail("prompt-picture", message);
    match &spec.prompt_pictures {
        None => fail(format!("{} does not read pictures as prompts", spec.name)),
        Some(get) if spec.files.picture_prompts.is_none() => fail(get.clone()),
        Some(_) if given > MAX_PROMPT_PICTURES => fail(format!(
            "{} reads at most {MAX_PROMPT_PICTURES} pictures as prompts, not {given}",
            spec.name
        )),
        Some(_) => {}
    }
    let mut strengths = form.prompt_pictures.iter().map(|it| it.strength);
    if let Some(wrong) = strengths.find(|it| !PROMPT_STRENGTHS.contains(it)) {
        let (least, most) = PROMPT_STRENGTHS.into_inner();
        fail(format!(
            "the strength of a picture must be between {least} and {most}, not {wrong}"
        ));
    }
}

/// The image encoder sees pictures whole, whatever is cut off for the clip.
fn check_lengths(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
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
            let text = format!(
                "the image encoder of {} cannot read a picture of {width}×{height}: crop it to at most {MAX_ENCODED_ASPECT}:1",
                spec.name
            );
            found.fail(field, text);
        }
    }
}

fn check_end(form: &GenerateForm, spec: &ModelSpec, num_frames: u32, found: &mut FormProblems) {
    let name = &spec.name;
    let has_start = form.image.is_some() || form.extend.is_some();
    match (spec.end_image, &form.last_image) {
        (InputUse::No, Some(_)) => {
            found.fail("last-image", format!("{name} does not use end pictures"));
        }
        (InputUse::Required, None) => {
            found.fail("last-image", format!("{name} needs an end picture"));
        }
        // A model that always starts from a picture has said so already.
        (_, Some(_)) if !has_start && spec.start_image == InputUse::Optional => {
            let text = format!("{name} needs a start picture beside the end picture");
            found.fail("image", text);
        }
        (_, Some(_)) if num_frames == 1 => {
            let text = "choose more than one frame for a clip with an end picture";
            found.fail("frames", text);
        }
        _ => {}
    }
}
