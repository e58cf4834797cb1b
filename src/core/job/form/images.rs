//! Fields that only image models have: mask, denoising strength, batches, file formats; and those that they lack:
//! frames and videos.
//!
//! Opens no file.

use super::seed::beyond_last;
use super::{FormProblems, GenerateForm, StartImage};
use crate::media::VideoFormat;
use crate::model::{ImageRole, InputUse, ModelSpec};

/// Shapes that differ by less are the same to the eye.
const SAME_ASPECT: f64 = 0.02;

pub(super) fn check(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    check_mask(form, spec, found);
    check_batch(form, spec, found);
    if !spec.family.makes_images {
        return;
    }
    let name = &spec.name;
    if form.inputs.extend.is_some() && spec.start_image.is_possible() {
        let text = format!("{name} makes images and cannot continue a video");
        found.fail("extend", text);
    }
    if form.fps.is_some_and(|fps| fps != spec.defaults.fps) {
        let text = format!("The frame rate is not used: {name} makes images");
        found.note("fps", text);
    }
    if let Ok(format) = VideoFormat::from_path(&form.out)
        && !format.holds_images()
    {
        let text = format!(
            "{name} makes images: choose a file name that ends in .png, .webp or .jpg, not {}",
            form.out.display()
        );
        found.fail("out", text);
    }
}

/// Returns 1; any other requested number is an error.
pub(super) fn one_frame(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) -> u32 {
    if let Some(frames) = form.num_frames.filter(|frames| *frames != 1) {
        let text = format!(
            "{} makes images, which have 1 frame, not {frames}",
            spec.name
        );
        found.fail("frames", text);
    }
    1
}

fn check_mask(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let name = &spec.name;
    let is_of_video = form.inputs.source_video.is_some() && spec.video_strength().is_some();
    let mask_use = if is_of_video {
        InputUse::Optional
    } else {
        spec.mask
    };
    match (mask_use, &form.inputs.mask) {
        (InputUse::No, Some(_)) if spec.video_strength().is_some() => found.fail(
            "mask",
            "a mask needs a video to change: it says which part of it is made anew".to_owned(),
        ),
        (InputUse::No, Some(_)) => {
            found.fail("mask", format!("{name} does not use masks"));
        }
        (InputUse::Required, None) => found.fail(
            "mask",
            format!("{name} needs a mask: it fills the white part"),
        ),
        (_, Some(_)) if form.inputs.extend.is_some() => found.fail(
            "mask",
            "a mask says which part of a start image changes, and a video that goes on has none: remove the mask or the video".to_owned(),
        ),
        (_, Some(_)) if form.inputs.last_image.is_some() => found.fail(
            "mask",
            "a mask keeps the rest of the start image in every frame, so there can be no end image: remove one of them".to_owned(),
        ),
        (_, Some(mask)) => match (&form.inputs.image, &form.inputs.source_video) {
            (Some(image), _) => {
                note_aspect(mask, ("image", (image.width, image.height)), found);
            }
            (None, Some(video)) => {
                note_aspect(mask, ("video", (video.info.width, video.info.height)), found);
            }
            // A model that always starts from an image has said so already.
            (None, None) if spec.start_image != InputUse::Required => {
                found.fail("image", "a mask needs a start image".to_owned());
            }
            (None, None) => {}
        },
        (_, None) => {}
    }
}

/// Notes a mask whose aspect ratio differs from its image's.
fn note_aspect(
    mask: &StartImage,
    (what, (width, height)): (&str, (u32, u32)),
    found: &mut FormProblems,
) {
    let aspect = |width: u32, height: u32| f64::from(width) / f64::from(height.max(1));
    let ratio = aspect(mask.width, mask.height) / aspect(width, height);
    if ratio.ln().abs() > SAME_ASPECT {
        let text = format!(
            "The mask is {}×{} and the {what} {width}×{height}: each is fitted to the new {what}'s shape separately",
            mask.width, mask.height
        );
        found.note("mask", text);
    }
}

fn check_batch(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let most = spec.limits.max_batch.max(1);
    let Some(size) = form.batch_size else {
        return;
    };
    let what = format!("the batch size of {}", spec.name);
    let is_right = if most == 1 && size != 1 {
        let problem = format!("{what} must be 1, not {size}");
        found.check("batch", Some(problem))
    } else {
        found.within("batch", (&what, ""), &(1..=most), size)
    };
    if is_right {
        found.check("seed", beyond_last(form.seed, size));
    }
}

/// Denoising strength, where it applies; checked against the steps.
pub(super) fn strength(
    form: &GenerateForm,
    spec: &ModelSpec,
    num_steps: u32,
    found: &mut FormProblems,
) -> Option<f64> {
    let default = match (&form.inputs.image, &form.inputs.source_video) {
        (Some(_), _) if spec.image_role != ImageRole::FirstFrame => spec.defaults.sampling.strength,
        (_, Some(_)) => spec.video_strength(),
        _ => None,
    };
    let Some(default) = default else {
        if form.sampling.strength.is_some() {
            let why = match spec.defaults.sampling.strength {
                Some(_) if spec.video_strength().is_some() => "no video is changed".to_owned(),
                Some(_) => "there is no start image".to_owned(),
                None => format!("{} has none", spec.name),
            };
            found.note("strength", format!("The strength is not used: {why}"));
        }
        return None;
    };
    let strength = form.sampling.strength.unwrap_or(default);
    if found.within("strength", ("the strength", ""), &(0.0..=1.0), strength)
        && spec.family.first_step(num_steps, strength) >= num_steps
    {
        let text = format!(
            "a strength of {strength} leaves none of the {num_steps} steps to run: raise the strength or the number of steps"
        );
        found.fail("strength", text);
    }
    Some(strength)
}
