//! What is said of the pictures that a result is made from.

use safelight_core::model::{ControlKind, ImageRole, ModelSpec};
use safelight_core::units::seconds_text;

use crate::app::inputs::Slot;
use crate::ui::create::words::{of, rate};

pub(in crate::ui::create) const NEEDED: &str = "needed";
pub(in crate::ui::create) const FIT: &str = "Fit";
pub(in crate::ui::create) const FIT_CROP: &str = "Crop to the middle";
pub(in crate::ui::create) const FIT_STRETCH: &str = "Stretch";
pub(in crate::ui::create) const FIT_HOVER: &str =
    "What happens to a picture whose shape differs from the size that is made";
pub(in crate::ui::create) const STRENGTH: &str = "Strength";
pub(in crate::ui::create) const STRENGTH_HOVER: &str = "How much of the picture changes: a little changes details, 0.5 keeps the composition, 1 keeps nothing";
pub(in crate::ui::create) const PAINT_MASK: &str = "Paint a mask";
pub(in crate::ui::create) const PAINT_MASK_HOVER: &str =
    "Paint which part of the picture is regenerated";
pub(in crate::ui::create) const EDIT_MASK: &str = "Edit mask";
pub(in crate::ui::create) const EDIT_MASK_HOVER: &str = "Paint over this mask";
pub(in crate::ui::create) const PICTURE_FIRST: &str = "Choose the picture first";
pub(in crate::ui::create) const PAINT_CLIP_HOVER: &str =
    "Paint over the clip's first frame which part of every frame is regenerated";
pub(in crate::ui::create) const MASK_OF_CONTINUED: &str = "A clip that is continued takes no mask";
pub(super) const CLIP_MASK_UNPAINTED: &str = "A mask that is a clip cannot be painted on";
pub(in crate::ui::create) const SWAP: &str = "Swap pictures";
pub(in crate::ui::create) const SWAP_HOVER: &str = "Swap the start and the end picture";
pub(in crate::ui::create) const SWAP_CLIP: &str = "A clip can only be at the start";
pub(in crate::ui::create) const CLIP_HEADING: &str = "Continue this clip";
pub(in crate::ui::create) const CHANGED_CLIP_HEADING: &str = "Change this clip";
pub(super) const CLIP: &str = "Clip";
pub(super) const CLIP_HOVER: &str =
    "Continue it with new frames behind its last one, or make it anew as far as the strength says";
pub(super) const CLIP_CONTINUE: &str = "Continue it";
pub(super) const CLIP_CHANGE: &str = "Change it";
pub(super) const CLIP_STRENGTH_HOVER: &str = "How much of the clip changes: 0.4 changes the look and keeps every movement, 0.8 keeps the composition, 1 keeps hardly anything";
pub(in crate::ui::create) const REMOVE_CLIP: &str = "Remove clip";
pub(in crate::ui::create) const REMOVE_CLIP_HOVER: &str = "Go on without this clip";
pub(in crate::ui::create) const REMOVE_PICTURE_HOVER: &str = "Continue without it";
pub(in crate::ui::create) const OTHER_FILE: &str = "Choose another file…";
pub(in crate::ui::create) const OPENING: &str = "Opening…";
pub(in crate::ui::create) const DROP_PICTURE: &str = "Drop a picture here, or choose a file…";
pub(in crate::ui::create) const DROP_PICTURE_NARROW: &str = "Drop a picture,\nor choose a file…";
pub(in crate::ui::create) const DROP_MASK_NARROW: &str = "Drop a mask,\nor choose a file…";

/// What is said of one place of a picture.
pub(in crate::ui::create) struct SlotWords {
    pub heading: &'static str,
    pub choose: &'static str,
    pub remove: &'static str,
    pub other: &'static str,
    pub explanation: &'static str,
}

/// What an empty place of several files says.
pub(super) fn drop_here(slot: Slot, spec: Option<&ModelSpec>) -> &'static str {
    let controls = spec.map(|spec| spec.limits.controls);
    let takes_clips = controls.is_some_and(|takes| takes.takes_clips);
    let is_one = match slot {
        Slot::Control => controls.is_some_and(|takes| takes.most == 1),
        Slot::Reference => spec.is_some_and(|spec| spec.limits.max_references == 1),
        _ => false,
    };
    match slot {
        Slot::Control if takes_clips => "Drop a clip or a picture here, or choose a file…",
        _ if is_one => DROP_PICTURE,
        _ => "Drop pictures here, or choose files…",
    }
}

/// As the chosen model uses what stands there.
pub(in crate::ui::create) fn slot(slot: Slot, spec: Option<&ModelSpec>) -> SlotWords {
    match slot {
        Slot::Start => {
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
        Slot::Mask => SlotWords {
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
        Slot::End => SlotWords {
            heading: "End picture",
            choose: "Choose an end picture",
            remove: "Remove end picture",
            other: "Choose another end picture",
            explanation: "The clip ends with this picture. Drop a second file, paste one, or choose a file",
        },
        Slot::Prompt => SlotWords {
            heading: "Pictures as prompts",
            choose: "Add pictures as prompts",
            remove: "Remove prompt picture",
            other: "Choose another prompt picture",
            explanation: "What is made has the look and the things of these pictures, beside what the prompt says. The lower a picture's strength, the more the prompt counts. Drop files here, or choose some",
        },
        Slot::Reference if spec.is_some_and(ModelSpec::edits_reference) => SlotWords {
            heading: "Picture to edit",
            choose: "Add a picture to edit",
            remove: "Remove the picture to edit",
            other: "Choose another picture to edit",
            explanation: "The prompt says what to change in this picture. Drop a file anywhere in the window, paste one, or choose a file",
        },
        Slot::Reference if spec.is_some_and(|spec| spec.limits.controls.takes_clips) => SlotWords {
            heading: "Reference pictures",
            choose: "Add reference pictures",
            remove: "Remove reference picture",
            other: "Choose another reference picture",
            explanation: "Persons and things that are to appear in the clip, one a picture, best before a plain background. Each takes as long as four frames. Drop files anywhere in the window, paste one, or choose some",
        },
        Slot::Reference => SlotWords {
            heading: "Reference pictures",
            choose: "Add reference pictures",
            remove: "Remove reference picture",
            other: "Choose another reference picture",
            explanation: "The model sees these pictures beside the prompt, which says what to do with them, such as: put the coat of picture 2 on the woman of picture 1. Drop files anywhere in the window, paste one, or choose some",
        },
        Slot::Control if spec.is_some_and(|spec| spec.limits.controls.takes_clips) => SlotWords {
            heading: "Control clip",
            choose: "Add a control clip",
            remove: "Remove control clip",
            other: "Choose another control clip",
            explanation: "The result follows this clip frame by frame: its edges, its depths, the poses in it. A picture holds for every frame. Drop a file here, or choose one",
        },
        Slot::Control => {
            let kind = spec.and_then(|spec| spec.limits.controls.kind);
            let (heading, explanation) = control(kind);
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

/// Of models that start from no picture.
const SOURCE_CLIP: SlotWords = SlotWords {
    heading: "Clip to change",
    choose: "Choose a clip to change",
    remove: "Remove start picture",
    other: "Choose another clip",
    explanation: "The new clip is made from this one; the strength says how much changes. Drop a clip anywhere in the window, or choose a file. This model does not start from a picture",
};

/// What a model does with its start picture. Where it takes references, files that are dropped anywhere become those.
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

/// What a model that knows one kind of control picture does with it.
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
            "They say where things are to be: edges, a depth map, a pose. Drop files here, or choose some",
        ),
    }
}

/// What a screen reader says of the small picture in a place.
pub(in crate::ui::create) fn thumb(slot: Slot, is_clip: bool, file: &str) -> String {
    match (slot, is_clip) {
        (_, true) => format!("Last frame of {file}"),
        (Slot::Start, _) => format!("Start picture {file}"),
        (Slot::End, _) => format!("End picture {file}"),
        (Slot::Mask, _) => format!("Mask {file}"),
        (Slot::Reference, _) => format!("Reference picture {file}"),
        (Slot::Control, _) => format!("Control picture {file}"),
        (Slot::Prompt, _) => format!("Prompt picture {file}"),
    }
}

/// What a screen reader says of the small picture of a control's mask.
pub(super) fn mask_of_control(file: &str) -> String {
    format!("Mask {file}")
}

/// How many reference pictures stand there, of those that the model takes.
pub(in crate::ui::create) fn num_references(count: usize, most: usize) -> String {
    format!("{count} of {most}")
}

/// The words for one of several pictures in a place, counted from 1, for those who do not see it.
pub(in crate::ui::create) struct OneOf(Slot);

pub(in crate::ui::create) fn one_of(slot: Slot) -> OneOf {
    OneOf(slot)
}

impl OneOf {
    pub(in crate::ui::create) fn named(&self, number: usize, file: &str) -> String {
        match self.0 {
            Slot::Prompt => format!("Prompt picture {number}: {file}"),
            _ => format!("Reference picture {number}: {file}"),
        }
    }

    pub(in crate::ui::create) fn remove(&self, number: usize) -> String {
        match self.0 {
            Slot::Prompt => format!("Remove prompt picture {number}"),
            _ => format!("Remove reference picture {number}"),
        }
    }

    pub(in crate::ui::create) fn earlier(&self, number: usize) -> String {
        match self.0 {
            Slot::Prompt => format!("Move prompt picture {number} to the left"),
            _ => format!("Move reference picture {number} to the left"),
        }
    }

    pub(in crate::ui::create) fn later(&self, number: usize) -> String {
        match self.0 {
            Slot::Prompt => format!("Move prompt picture {number} to the right"),
            _ => format!("Move reference picture {number} to the right"),
        }
    }
}

pub(in crate::ui::create) fn picture_strength(number: usize) -> String {
    format!("Strength of prompt picture {number}")
}

pub(in crate::ui::create) const PICTURE_STRENGTH_HOVER: &str = "How much this picture says beside the text: 1 as the model was trained, less for more of the text, 0 for nothing";

pub(super) const CONTROL_NETWORK: &str = "ControlNet";
pub(super) const CONTROL_NETWORK_HOVER: &str = "The network that has the result follow this picture. Those for the chosen model are offered, out of ComfyUI's models/controlnet and models/model_patches, Forge's models/ControlNet and the folder controlnet of Safelight's models";
pub(super) const NO_NETWORK: &str = "Choose one";
pub(super) const LOOKING_FOR_NETWORKS: &str = "Looking for ControlNets…";
pub(super) const NETWORK_NEEDED: &str = "Choose the ControlNet for this picture";
pub(super) const CONTROL_KIND: &str = "Shows";
pub(super) const CONTROL_KIND_HOVER: &str = "What the picture shows: this network must be told";
pub(super) const NO_KIND: &str = "Not said";
pub(super) const CONTROL_STRENGTH: &str = "Strength";
pub(super) const CONTROL_STRENGTH_HOVER: &str = "How strongly the result follows the picture: 0 not at all, 1 as the network was trained; 0.6 to 0.8 leaves the prompt some freedom";
pub(super) const CONTROL_PART: &str = "Acting part";
pub(super) const CONTROL_PART_HOVER: &str = "The part of the steps in which the picture is followed, from 0 to 1. The layout is settled early: ending at 0.6 leaves the details to the prompt";
pub(super) const CONTROL_FROM: &str = "Acting from";
pub(super) const CONTROL_TO: &str = "Acting to";
pub(super) const EDGES: &str = "Draw its edges";
pub(super) const EDGES_HOVER: &str = "Shows the model the edges of this picture (Canny), white lines on black, instead of the picture itself. Off for a picture that is edges already";
pub(super) const THRESHOLDS: &str = "Thresholds";
pub(super) const THRESHOLDS_HOVER: &str = "How much light and dark must differ where a line is drawn, 1 to 1000. Lower numbers draw more and longer lines";
pub(super) const LOW_BEFORE: &str = "low ";
pub(super) const LOW: &str = "Low threshold";
pub(super) const LOW_HOVER: &str =
    "Where light and dark differ by this much, a line goes on. Lower: longer lines";
pub(super) const HIGH_BEFORE: &str = "high ";
pub(super) const HIGH: &str = "High threshold";
pub(super) const HIGH_HOVER: &str =
    "Where light and dark differ by this much, a line begins. Lower: more lines";

/// No network for models of this family was found.
pub(super) fn no_networks(family: &str) -> String {
    format!(
        "No ControlNet for {family} was found: put one as .safetensors into ComfyUI's models/controlnet"
    )
}

/// One of the control pictures, counted from 1, for those who do not see it.
pub(super) fn control_picture(number: usize, file: &str) -> String {
    format!("Control picture {number}: {file}")
}

pub(super) fn remove_control(number: usize) -> String {
    format!("Remove control picture {number}")
}

/// A setting of one of them, for those who do not see where it stands.
pub(super) fn of_control(setting: &str, number: usize) -> String {
    format!("{setting} of control picture {number}")
}

/// What a screen reader says of the lines that are drawn of one.
pub(super) fn drawn_edges(file: &str) -> String {
    format!("Edges of {file}")
}

pub(super) const CONTROL_MASK: &str = "Mask";
pub(super) const CONTROL_MASK_HOVER: &str = "Which part of this control is regenerated: white is, black stays. A picture holds for every frame of a clip; a mask that is a clip goes with it frame by frame. Drop a file here, or choose one";
pub(super) const DROP_CONTROL_MASK: &str = "Drop a mask…";
pub(super) const PAINT_CONTROL_MASK: &str = "Paint";
pub(super) const MASK_IS_PAINTED: &str = "What you painted is used";
pub(super) const CONTROL_MASK_NEEDED: &str =
    "This ControlNet fills a part of its picture: paint which, or drop a mask";

pub(super) fn choose_control_mask(number: usize) -> String {
    format!("Choose a mask for control picture {number}")
}

pub(super) fn remove_control_mask(number: usize) -> String {
    format!("Remove the mask of control picture {number}")
}

pub(super) fn edit_control_mask(number: usize) -> String {
    format!("Edit the mask of control picture {number}")
}

pub(super) fn paint_control_mask(number: usize) -> String {
    format!("Paint a mask for control picture {number}")
}

/// Where a control can be extended, that is done there, too.
pub(in crate::ui::create) fn paint_control_mask_hover(spec: Option<&ModelSpec>) -> &'static str {
    if spec.is_some_and(|spec| spec.limits.controls.can_extend()) {
        "Paint over its first frame which part is regenerated. There, drag an edge outwards to extend the clip at its sides (outpainting)"
    } else {
        PAINT_MASK_HOVER
    }
}

pub(in crate::ui::create) fn pixels(width: u32, height: u32) -> String {
    format!("{width} × {height} pixels")
}

/// `81 frames, 5.1 s at 16 fps`.
pub(in crate::ui::create) fn clip_length(num_frames: u32, fps: f64) -> String {
    let secs = seconds_text(f64::from(num_frames) / fps.max(f64::EPSILON));
    format!("{num_frames} frames, {secs} at {} fps", rate(fps))
}

pub(in crate::ui::create) fn steps_run(made: u32, all: u32) -> String {
    format!("{made} of {all} steps are run")
}

/// How much of a picture is left when it is cropped.
pub(in crate::ui::create) fn cropped(percent: u32) -> String {
    format!("Only the middle {percent} % of the picture is used")
}

pub(in crate::ui::create) fn stretched(width: u32, height: u32) -> String {
    format!("The picture is stretched to {width} × {height}")
}

pub(in crate::ui::create) fn crop_of(width: u32, height: u32) -> String {
    format!("Used for {width} × {height}")
}

// Files that are held over the window.
pub(in crate::ui::create) const DROP_MANY: &str = "Drop them: each can become a job of its own";
pub(in crate::ui::create) const DROP_START_AND_END: &str =
    "Drop them: the clip starts from the first and ends on the second";
pub(super) const KEEP_REST: &str = "Keep the rest as it is";
pub(super) const KEEP_REST_HOVER: &str = "Put back what the mask does not cover, to the byte. This model fills the whole picture and changes the rest a little";
pub(in crate::ui::create) const DROP_WITH_MASK: &str =
    "Drop them: the first is the picture, the second its mask";
pub(in crate::ui::create) const DROP_NO_CLIP: &str =
    "This model starts from a picture, not from a clip";
pub(in crate::ui::create) const DROP_CLIP: &str = "Drop it to extend this clip";
pub(in crate::ui::create) const DROP_CHANGED_CLIP: &str = "Drop it to change this clip";
pub(in crate::ui::create) const DROP_END: &str = "Drop it to end the clip on this picture";
pub(in crate::ui::create) const DROP_MASK: &str = "Drop it as the mask";
pub(in crate::ui::create) const DROP_REFERENCE: &str = "Drop it as a reference picture";
pub(in crate::ui::create) const DROP_REFERENCES: &str = "Drop them as reference pictures";
pub(in crate::ui::create) const DROP_CONTROL: &str = "Drop it as the control picture";
pub(in crate::ui::create) const MOVE_REFERENCE_HOVER: &str =
    "The prompt counts the pictures from the left. They can be dragged, too";

pub(in crate::ui::create) fn drop_of_text_model(makes_pictures: bool) -> &'static str {
    of(
        makes_pictures,
        "This model makes pictures from text only",
        "This model makes clips from text only",
    )
}

pub(in crate::ui::create) fn drop_start(role: Option<ImageRole>) -> &'static str {
    match role {
        Some(ImageRole::FirstFrame) | None => "Drop it to start the clip from this picture",
        Some(ImageRole::Base) => "Drop it to start from this picture",
        Some(ImageRole::Canvas) => "Drop it to fill a part of this picture",
    }
}
