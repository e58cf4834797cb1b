//! Images and videos of a form, and checks that a model can use them, or works without them.
//!
//! Opens no file.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::values::is_default;
use super::{
    ChosenPicture, FormControl, FormProblems, GenerateForm, InputMedia, SourceClip, StartPicture,
};
use crate::model::{InputUse, ModelSpec};

/// Limit of the aspect ratio for the image encoder, longer to shorter edge: it keeps the aspect ratio and scales the
/// shorter edge to 224, so that beyond this an image takes more memory than the model.
const MAX_ENCODED_ASPECT: u64 = 1500;

/// Each makes the prompt longer by more than a whole text.
pub const MAX_PROMPT_PICTURES: usize = 8;
/// As in ComfyUI.
pub const PROMPT_STRENGTHS: RangeInclusive<f64> = 0.0..=10.0;

/// Images and videos that a job is made from, with their sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FormInputs {
    #[serde(skip_serializing_if = "is_default")]
    pub image: Option<StartPicture>,
    #[serde(skip_serializing_if = "is_default")]
    pub last_image: Option<StartPicture>,
    /// Video to extend; takes the place of the start image.
    #[serde(skip_serializing_if = "is_default")]
    pub extend: Option<SourceClip>,
    /// A clip, or for one frame a picture, that the new one is made of, as far as the strength says.
    #[serde(skip_serializing_if = "is_default")]
    pub source_clip: Option<SourceClip>,
    /// Mask of the start image: white is regenerated, black is kept. Of a clip it may be one, of which the size counts.
    #[serde(skip_serializing_if = "is_default")]
    pub mask: Option<StartPicture>,
    /// Reference images, in the order in which a prompt counts them.
    #[serde(skip_serializing_if = "is_default")]
    pub references: Vec<StartPicture>,
    #[serde(skip_serializing_if = "is_default")]
    pub controls: Vec<FormControl>,
    #[serde(skip_serializing_if = "is_default")]
    pub prompt_pictures: Vec<ChosenPicture>,
}

impl FormInputs {
    /// Inputs that a model cannot do without, of its own size and without files.
    pub fn required_by(spec: &ModelSpec) -> Self {
        let picture = || StartPicture {
            path: PathBuf::new(),
            width: spec.defaults.width,
            height: spec.defaults.height,
        };
        let is_controlled = spec.limits.controls.is_required;
        let control = is_controlled.then(|| InputMedia::Picture(picture()).into());
        let required = |input: InputUse| (input == InputUse::Required).then(picture);
        Self {
            image: required(spec.start_image),
            last_image: required(spec.end_image),
            mask: required(spec.mask),
            controls: control.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Video that is extended or changed. Gives the new one its rate and, where nothing else does, its aspect ratio.
    pub fn clip(&self) -> Option<&SourceClip> {
        self.extend.as_ref().or(self.source_clip.as_ref())
    }

    /// Width and height of the input that decides the aspect ratio.
    pub fn size(&self) -> Option<(u32, u32)> {
        let clip = self.clip().map(|clip| (clip.info.width, clip.info.height));
        let picture = self.image.as_ref().or(self.last_image.as_ref());
        let control = self.controls.first().map(|control| control.source.size());
        let size_of = |picture: &StartPicture| (picture.width, picture.height);
        clip.or_else(|| picture.map(size_of))
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
    let things = if spec.family.makes_pictures {
        "pictures"
    } else {
        "clips"
    };
    if form.inputs.image.is_some() && form.inputs.extend.is_some() {
        let text = "give either a start picture or a clip to continue, not both";
        found.fail("extend", text);
    }
    check_source(form, spec, found);
    let starts = [
        ("image", form.inputs.image.is_some(), "a start picture"),
        ("extend", form.inputs.extend.is_some(), "a clip to continue"),
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
    let has_start = form.inputs.image.is_some() || form.inputs.extend.is_some();
    if spec.start_image == InputUse::Required && !has_start {
        found.fail("image", format!("{name} needs a start picture"));
    }
    check_end(form, spec, num_frames, found);
    check_references(form, spec, found);
    check_prompt_pictures(form, spec, found);
    if spec.files.image_encoder.is_some() {
        check_lengths(form, spec, found);
    }
    if form.inputs.extend.is_some() && num_frames == 1 && !spec.family.makes_pictures {
        let text =
            "choose more than one frame: the first one repeats the last of the continued clip";
        found.fail("frames", text);
    }
}

fn check_source(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    if form.inputs.source_clip.is_none() {
        return;
    }
    let name = &spec.name;
    let problem = if form.inputs.image.is_some() || form.inputs.extend.is_some() {
        "a clip that is changed stands alone: remove the start picture or the clip to continue"
            .to_owned()
    } else if spec.family.makes_pictures {
        format!("{name} makes pictures and cannot change a clip")
    } else if spec.clip_strength().is_none() {
        format!("{name} cannot change a clip: choose a model that makes clips from text")
    } else if form.inputs.last_image.is_some() {
        "a clip that is changed has an end of its own: remove the end picture".to_owned()
    } else {
        return;
    };
    found.fail("source-clip", problem);
}

fn check_references(form: &GenerateForm, spec: &ModelSpec, found: &mut FormProblems) {
    let (given, most) = (form.inputs.references.len(), spec.limits.max_references);
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
    let given = form.inputs.prompt_pictures.len();
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
    let mut strengths = form.inputs.prompt_pictures.iter().map(|it| it.strength);
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
        ("image", form.inputs.image.as_ref().map(picture)),
        ("last-image", form.inputs.last_image.as_ref().map(picture)),
        (
            "extend",
            form.inputs
                .extend
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
    let has_start = form.inputs.image.is_some() || form.inputs.extend.is_some();
    match (spec.end_image, &form.inputs.last_image) {
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
