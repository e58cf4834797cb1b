//! Images and videos of a form, and checks that a model can use them, or works without them.
//!
//! Opens no file.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    ChosenImage, FormControl, FormProblems, GenerateForm, InputMedia, SourceVideo, StartImage,
};
use crate::model::{InputUse, ModelSpec};
use crate::units::range_problem;

/// Limit of the aspect ratio for the image encoder, longer to shorter edge: it keeps the aspect ratio and scales the
/// shorter edge to 224, so that beyond this an image takes more memory than the model.
const MAX_ENCODED_ASPECT: u64 = 1500;

/// Each makes the prompt longer by more than a whole text.
pub const MAX_PROMPT_IMAGES: usize = 8;
/// As in ComfyUI.
pub const PROMPT_STRENGTHS: RangeInclusive<f64> = 0.0..=10.0;

/// Images and videos that a job is made from, with their sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FormInputs {
    pub image: Option<StartImage>,
    pub last_image: Option<StartImage>,
    /// Video to extend; takes the place of the start image.
    pub extend: Option<SourceVideo>,
    /// A video, or for one frame an image, that the new one is made of, as far as the strength says.
    pub source_video: Option<SourceVideo>,
    /// Mask of the start image: white is regenerated, black is kept. Of a video it may be one, of which the size counts.
    pub mask: Option<StartImage>,
    /// Reference images, in the order in which a prompt counts them.
    pub references: Vec<StartImage>,
    pub controls: Vec<FormControl>,
    pub prompt_images: Vec<ChosenImage>,
}

impl FormInputs {
    /// Inputs that a model cannot do without, of its own size and without files.
    pub fn required_by(spec: &ModelSpec) -> Self {
        let image = || StartImage {
            path: PathBuf::new(),
            width: spec.defaults.width,
            height: spec.defaults.height,
        };
        let is_controlled = spec.limits.controls.is_required;
        let control = is_controlled.then(|| InputMedia::Image(image()).into());
        let required = |input: InputUse| (input == InputUse::Required).then(image);
        Self {
            image: required(spec.start_image),
            last_image: required(spec.end_image),
            mask: required(spec.mask),
            controls: control.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Video that is extended or changed. Gives the new one its rate and, where nothing else does, its aspect ratio.
    pub fn video(&self) -> Option<&SourceVideo> {
        self.extend.as_ref().or(self.source_video.as_ref())
    }

    /// Width and height of the input that decides the aspect ratio. A control says where things are in the result,
    /// references what they look like.
    pub fn size(&self) -> Option<(u32, u32)> {
        let video = self
            .video()
            .map(|video| (video.info.width, video.info.height));
        let image = self.image.as_ref().or(self.last_image.as_ref());
        let control = self.controls.first().map(|control| control.source.size());
        let size_of = |image: &StartImage| (image.width, image.height);
        video
            .or_else(|| image.map(size_of))
            .or(control)
            .or_else(|| self.references.first().map(size_of))
    }
}

pub(super) fn check(
    form: &GenerateForm,
    spec: &ModelSpec,
    num_frames: u32,
    found: &mut FormProblems,
) {
    let name = &spec.name;
    let things = if spec.family.makes_images {
        "images"
    } else {
        "videos"
    };
    if form.inputs.image.is_some() && form.inputs.extend.is_some() {
        let text = "give either a start image or a video to continue, not both";
        found.fail("extend", text);
    }
    check_source(form, spec, found);
    let starts = [
        ("image", form.inputs.image.is_some(), "a start image"),
        (
            "extend",
            form.inputs.extend.is_some(),
            "a video to continue",
        ),
    ];
    for (field, is_given, what) in starts {
        if is_given && !spec.start_image.is_possible() {
            let sentence = if spec.edits_reference() && field == "image" {
                format!("{name} starts from no image: give it as the reference image")
            } else {
                format!("{name} makes {things} from text only and cannot use {what}")
            };
            found.fail(field, sentence);
        }
    }
    let has_start = form.inputs.image.is_some() || form.inputs.extend.is_some();
    if spec.start_image == InputUse::Required && !has_start {
        found.fail("image", format!("{name} needs a start image"));
    }
    check_end(form, spec, num_frames, found);
    check_references(form, spec, found);
    check_prompt_images(form, spec, found);
    if spec.files.image_encoder.is_some() {
        check_lengths(form, spec, found);
    }
    if form.inputs.extend.is_some() && num_frames == 1 && !spec.family.makes_images {
        let text =
            "choose more than one frame: the first one repeats the last of the continued video";
        found.fail("frames", text);
    }
}

fn check_source(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    if form.inputs.source_video.is_none() {
        return;
    }
    let name = &spec.name;
    let problem = if form.inputs.image.is_some() || form.inputs.extend.is_some() {
        "a video that is changed stands alone: remove the start image or the video to continue"
            .to_owned()
    } else if spec.family.makes_images {
        format!("{name} makes images and cannot change a video")
    } else if spec.video_strength().is_none() {
        format!("{name} cannot change a video: choose a model that makes videos from text")
    } else if form.inputs.last_image.is_some() {
        "a video that is changed has an end of its own: remove the end image".to_owned()
    } else {
        return;
    };
    found.fail("source-video", problem);
}

fn check_references(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let (given, most) = (form.inputs.references.len(), spec.limits.max_references);
    if given <= most as usize {
        return;
    }
    let name = &spec.name;
    let sentence = match most {
        0 => format!("{name} does not use reference images"),
        1 => format!("{name} takes one reference image, not {given}"),
        _ => format!("{name} takes at most {most} reference images, not {given}"),
    };
    found.fail("reference", sentence);
}

fn check_prompt_images(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let given = form.inputs.prompt_images.len();
    if given == 0 {
        return;
    }
    let mut fail = |message: String| found.fail("prompt-image", message);
    match &spec.prompt_images {
        None => fail(format!("{} does not read images as prompts", spec.name)),
        Some(get) if spec.files.image_prompts.is_none() => fail(get.clone()),
        Some(_) if given > MAX_PROMPT_IMAGES => fail(format!(
            "{} reads at most {MAX_PROMPT_IMAGES} images as prompts, not {given}",
            spec.name
        )),
        Some(_) => {}
    }
    let mut strengths = form.inputs.prompt_images.iter().map(|it| it.strength);
    let wrong = |it| range_problem("the strength of an image", &PROMPT_STRENGTHS, "", it);
    strengths.find_map(wrong).into_iter().for_each(fail);
}

/// The image encoder sees images whole, whatever is cut off for the video.
fn check_lengths(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let image = |image: &StartImage| (image.width, image.height);
    let given = [
        ("image", form.inputs.image.as_ref().map(image)),
        ("last-image", form.inputs.last_image.as_ref().map(image)),
        (
            "extend",
            form.inputs
                .extend
                .as_ref()
                .map(|video| (video.info.width, video.info.height)),
        ),
    ];
    for (field, size) in given {
        let Some((width, height)) = size else {
            continue;
        };
        let (longer, shorter) = (width.max(height), width.min(height));
        if u64::from(longer) > MAX_ENCODED_ASPECT * u64::from(shorter) {
            let text = format!(
                "the image encoder of {} cannot read an image of {width}×{height}: crop it to at most {MAX_ENCODED_ASPECT}:1",
                spec.name
            );
            found.fail(field, text);
        }
    }
}

fn check_end(form: &GenerateForm, spec: &ModelSpec, num_frames: u32, found: &mut FormProblems) {
    let name = &spec.name;
    let has_start = form.inputs.image.is_some() || form.inputs.extend.is_some();
    match (spec.end_image, &form.inputs.last_image) {
        (InputUse::No, Some(_)) => {
            found.fail("last-image", format!("{name} does not use end images"));
        }
        (InputUse::Required, None) => {
            found.fail("last-image", format!("{name} needs an end image"));
        }
        // A model that always starts from an image has said so already.
        (_, Some(_)) if !has_start && spec.start_image == InputUse::Optional => {
            let text = format!("{name} needs a start image beside the end image");
            found.fail("image", text);
        }
        (_, Some(_)) if num_frames == 1 => {
            let text = "choose more than one frame for a video with an end image";
            found.fail("frames", text);
        }
        _ => {}
    }
}
