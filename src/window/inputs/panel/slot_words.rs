//! Headings, buttons and explanations of the places for input images, as the chosen model uses them.

use safelight_core::model::{ControlKind, ImageRole};

use crate::window::layout::prelude::*;

pub(in crate::window) struct SlotWords {
    pub heading: &'static str,
    pub choose: &'static str,
    pub explanation: &'static str,
}

/// Name of what is in a place, in a sentence.
pub(in crate::window) fn slot_noun(slot: InputSlot, is_video: bool) -> &'static str {
    match slot {
        InputSlot::Start if is_video => "video",
        InputSlot::Control if is_video => "control video",
        InputSlot::Start => "start image",
        InputSlot::End => "end image",
        InputSlot::Mask => "mask",
        InputSlot::Reference => "reference image",
        InputSlot::Control => "control image",
        InputSlot::Prompt => "prompt image",
    }
}

pub(in crate::window) fn slot_words(slot: InputSlot, spec: Option<&ModelSpec>) -> SlotWords {
    match slot {
        InputSlot::Start => {
            let changes = |spec: &ModelSpec| {
                !spec.start_image.is_possible() && spec.video_strength().is_some()
            };
            if spec.is_some_and(changes) {
                return SOURCE_VIDEO;
            }
            let takes_references = spec.is_some_and(|spec| spec.limits.max_references > 0);
            let (heading, explanation) = start(spec.map(|spec| spec.image_role), takes_references);
            SlotWords {
                heading,
                choose: "Choose a start image",
                explanation,
            }
        }
        InputSlot::Mask => SlotWords {
            heading: "Mask",
            choose: "Choose a mask",
            explanation: match spec.map(|spec| spec.image_role) {
                _ if spec.is_some_and(|spec| !spec.mask.is_possible()) => {
                    "Which part of the video is regenerated: white is, black stays as it is. An image holds for every frame; a mask that is a video goes with it frame by frame. Drop a file here, or choose one"
                }
                Some(ImageRole::FirstFrame) => {
                    "Which part of the image moves: white does, black stays as it is in every frame. Drop an image of the same shape here, or choose a file"
                }
                _ => {
                    "Which part of the image is regenerated: white is, black stays. Drop an image of the same shape here, or choose a file"
                }
            },
        },
        InputSlot::End => SlotWords {
            heading: "End image",
            choose: "Choose an end image",
            explanation: "The video ends with this image. Drop a second file, paste one, or choose a file",
        },
        InputSlot::Prompt => SlotWords {
            heading: "Images as prompts",
            choose: "Add images as prompts",
            explanation: "What is made has the look and the things of these images, beside what the prompt says. The lower an image's strength, the more the prompt counts. Drop files here, or choose some",
        },
        InputSlot::Reference if spec.is_some_and(ModelSpec::edits_reference) => SlotWords {
            heading: "Image to edit",
            choose: "Add an image to edit",
            explanation: "The prompt says what to change in this image. Drop a file anywhere in the window, paste one, or choose a file",
        },
        InputSlot::Reference => SlotWords {
            heading: "Reference images",
            choose: "Add reference images",
            explanation: if spec.is_some_and(|spec| spec.limits.controls.takes_videos) {
                "Persons and things that are to appear in the video, one an image, best before a plain background. Each takes as long as four frames. Drop files anywhere in the window, paste one, or choose some"
            } else {
                "The model sees these images beside the prompt, which says what to do with them, such as: put the coat of image 2 on the woman of image 1. Drop files anywhere in the window, paste one, or choose some"
            },
        },
        InputSlot::Control if spec.is_some_and(|spec| spec.limits.controls.takes_videos) => {
            SlotWords {
                heading: "Control video",
                choose: "Add a control video",
                explanation: "The result follows this video frame by frame: its edges, its depths, the poses in it. An image holds for every frame. Drop a file here, or choose one",
            }
        }
        InputSlot::Control => {
            let (heading, explanation) = control(spec.and_then(|spec| spec.limits.controls.kind));
            SlotWords {
                heading,
                choose: "Add a control image",
                explanation,
            }
        }
    }
}

const SOURCE_VIDEO: SlotWords = SlotWords {
    heading: "Video to change",
    choose: "Choose a video to change",
    explanation: "The new video is made from this one; the strength says how much changes. Drop a video anywhere in the window, or choose a file. This model does not start from an image",
};

/// Heading and explanation of the start slot. If the model takes references, files that are dropped anywhere become those.
fn start(role: Option<ImageRole>, takes_references: bool) -> (&'static str, &'static str) {
    match role {
        Some(ImageRole::FirstFrame) if takes_references => (
            "Start image",
            "The video begins with this image. Drop a file here, or choose one. A video is continued",
        ),
        Some(ImageRole::Base) if takes_references => (
            "Start image",
            "The new image is made from this one; the strength says how much changes. Drop a file here, or choose one",
        ),
        Some(ImageRole::FirstFrame) | None => (
            "Start image",
            "The video begins with this image. Drop a file anywhere in the window, paste one, or choose a file. A video is continued",
        ),
        Some(ImageRole::Base) => (
            "Start image",
            "The new image is made from this one; the strength says how much changes. Drop a file anywhere in the window, paste one, or choose a file",
        ),
        Some(ImageRole::Canvas) => (
            "Image to fill",
            "Where the mask is white the image is regenerated, the rest stays. Drop a file anywhere in the window, paste one, or choose a file",
        ),
    }
}

fn control(kind: Option<ControlKind>) -> (&'static str, &'static str) {
    match kind {
        Some(ControlKind::Depth) => (
            "Depth map",
            "The result is laid out as this depth map says: white is near, black is far. Drop a file here, or choose one",
        ),
        Some(ControlKind::Edges) => (
            "Edges",
            "The result is drawn along these edges, white lines on black. Drop a file here, or choose one; of any other image the edges are drawn below",
        ),
        _ => (
            "Control images",
            "They guide the layout: edges, a depth map, a pose. Drop files here, or choose some",
        ),
    }
}
