//! Headings, buttons and explanations of the places for input pictures, as the chosen model uses them.

use safelight_core::model::{ControlKind, ImageRole};

use crate::ui::prelude::*;

pub(in crate::ui::create) struct SlotWords {
    pub heading: &'static str,
    pub choose: &'static str,
    pub remove: &'static str,
    pub other: &'static str,
    pub explanation: &'static str,
}

pub(in crate::ui::create) fn slot_words(slot: InputSlot, spec: Option<&ModelSpec>) -> SlotWords {
    match slot {
        InputSlot::Start => {
            let changes = |spec: &ModelSpec| {
                !spec.start_image.is_possible() && spec.clip_strength().is_some()
            };
            if spec.is_some_and(changes) {
                return SOURCE_CLIP;
            }
            let takes_references = spec.is_some_and(|spec| spec.limits.max_references > 0);
            let (heading, explanation) = start(spec.map(|spec| spec.image_role), takes_references);
            SlotWords {
                heading,
                choose: "Choose a start picture",
                remove: "Remove start picture",
                other: "Choose another picture",
                explanation,
            }
        }
        InputSlot::Mask => SlotWords {
            heading: "Mask",
            choose: "Choose a mask",
            remove: "Remove mask",
            other: "Choose another mask",
            explanation: match spec.map(|spec| spec.image_role) {
                _ if spec.is_some_and(|spec| !spec.mask.is_possible()) => {
                    "Which part of the clip is regenerated: white is, black stays as it is. A picture holds for every frame; a mask that is a clip goes with it frame by frame. Drop a file here, or choose one"
                }
                Some(ImageRole::FirstFrame) => {
                    "Which part of the picture moves: white does, black stays as it is in every frame. Drop a picture of the same shape here, or choose a file"
                }
                _ => {
                    "Which part of the picture is regenerated: white is, black stays. Drop a picture of the same shape here, or choose a file"
                }
            },
        },
        InputSlot::End => SlotWords {
            heading: "End picture",
            choose: "Choose an end picture",
            remove: "Remove end picture",
            other: "Choose another end picture",
            explanation: "The clip ends with this picture. Drop a second file, paste one, or choose a file",
        },
        InputSlot::Prompt => SlotWords {
            heading: "Pictures as prompts",
            choose: "Add pictures as prompts",
            remove: "Remove prompt picture",
            other: "Choose another prompt picture",
            explanation: "What is made has the look and the things of these pictures, beside what the prompt says. The lower a picture's strength, the more the prompt counts. Drop files here, or choose some",
        },
        InputSlot::Reference if spec.is_some_and(ModelSpec::edits_reference) => SlotWords {
            heading: "Picture to edit",
            choose: "Add a picture to edit",
            remove: "Remove the picture to edit",
            other: "Choose another picture to edit",
            explanation: "The prompt says what to change in this picture. Drop a file anywhere in the window, paste one, or choose a file",
        },
        InputSlot::Reference => SlotWords {
            heading: "Reference pictures",
            choose: "Add reference pictures",
            remove: "Remove reference picture",
            other: "Choose another reference picture",
            explanation: if spec.is_some_and(|spec| spec.limits.controls.takes_clips) {
                "Persons and things that are to appear in the clip, one a picture, best before a plain background. Each takes as long as four frames. Drop files anywhere in the window, paste one, or choose some"
            } else {
                "The model sees these pictures beside the prompt, which says what to do with them, such as: put the coat of picture 2 on the woman of picture 1. Drop files anywhere in the window, paste one, or choose some"
            },
        },
        InputSlot::Control if spec.is_some_and(|spec| spec.limits.controls.takes_clips) => {
            SlotWords {
                heading: "Control clip",
                choose: "Add a control clip",
                remove: "Remove control clip",
                other: "Choose another control clip",
                explanation: "The result follows this clip frame by frame: its edges, its depths, the poses in it. A picture holds for every frame. Drop a file here, or choose one",
            }
        }
        InputSlot::Control => {
            let (heading, explanation) = control(spec.and_then(|spec| spec.limits.controls.kind));
            SlotWords {
                heading,
                choose: "Add a control picture",
                remove: "Remove control picture",
                other: "Choose another control picture",
                explanation,
            }
        }
    }
}

const SOURCE_CLIP: SlotWords = SlotWords {
    heading: "Clip to change",
    choose: "Choose a clip to change",
    remove: "Remove start picture",
    other: "Choose another clip",
    explanation: "The new clip is made from this one; the strength says how much changes. Drop a clip anywhere in the window, or choose a file. This model does not start from a picture",
};

/// Heading and explanation of the start slot. If the model takes references, files that are dropped anywhere become those.
fn start(role: Option<ImageRole>, takes_references: bool) -> (&'static str, &'static str) {
    match role {
        Some(ImageRole::FirstFrame) if takes_references => (
            "Start picture",
            "The clip begins with this picture. Drop a file here, or choose one. A clip is continued",
        ),
        Some(ImageRole::Base) if takes_references => (
            "Start picture",
            "The new picture is made from this one; the strength says how much changes. Drop a file here, or choose one",
        ),
        Some(ImageRole::FirstFrame) | None => (
            "Start picture",
            "The clip begins with this picture. Drop a file anywhere in the window, paste one, or choose a file. A clip is continued",
        ),
        Some(ImageRole::Base) => (
            "Start picture",
            "The new picture is made from this one; the strength says how much changes. Drop a file anywhere in the window, paste one, or choose a file",
        ),
        Some(ImageRole::Canvas) => (
            "Picture to fill",
            "Where the mask is white the picture is regenerated, the rest stays. Drop a file anywhere in the window, paste one, or choose a file",
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
            "The result is drawn along these edges, white lines on black. Drop a file here, or choose one; of any other picture the edges are drawn below",
        ),
        _ => (
            "Control pictures",
            "They guide the layout: edges, a depth map, a pose. Drop files here, or choose some",
        ),
    }
}
