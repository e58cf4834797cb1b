//! What the header, the status line, the switch of narrow windows and the widgets of every page say.
//!
//! Whole sentences, so that they can be translated one by one.

use crate::app::queue::RunningJob;
use safelight_core::job::{Recipe, Stage};
use safelight_core::units::duration_text;

/// A button of the header: its label, its name for screen readers, and what it does.
pub(super) struct HeaderWords {
    pub label: &'static str,
    pub name: &'static str,
    pub explanation: &'static str,
}

pub(super) const GALLERY: HeaderWords = HeaderWords {
    label: "Gallery",
    name: "Gallery",
    explanation: "All results: search them, look at them again, make more of them",
};
pub(super) const DOWNLOADS: &str = "Downloads";
pub(super) const DOCTOR: HeaderWords = HeaderWords {
    label: "Doctor",
    name: "Doctor",
    explanation: "Check this machine: GPU, memory, libtorch, speed, models",
};
pub(super) const SETTINGS: HeaderWords = HeaderWords {
    label: "Settings",
    name: "Settings",
    explanation: "Device, folders and appearance",
};
pub(super) const LIGHT: HeaderWords = HeaderWords {
    label: "Light",
    name: "Light theme",
    explanation: "Switch to the light theme",
};
pub(super) const DARK: HeaderWords = HeaderWords {
    label: "Dark",
    name: "Dark theme",
    explanation: "Switch to the dark theme",
};

pub(super) const FORM: &str = "Form";
pub(super) const FORM_HOVER: &str = "What to make";
pub(super) const VIEW: &str = "View";
pub(super) const VIEW_HOVER: &str = "The picture, and the other pages";

pub(super) const PROGRESS: &str = "Progress";
pub(super) const MEMORY: &str = "Memory";
pub(super) const MEMORY_HOVER: &str = "What the job needs, and the memory graph";
pub(super) const SHOW_MEMORY: &str = "Show memory";
pub(super) const HIDE_MEMORY: &str = "Hide memory";

pub(super) const CONTINUE_NOW: &str = "Continue now";
pub(super) const CONTINUE_NOW_HOVER: &str =
    "The job takes its memory back at once, whatever other programs need";

pub(super) const PREPARING: &str = "Preparing the next job…";
pub(super) const LOOKING: &str = "Looking for models…";
pub(super) const NO_MODEL: &str = "No model to generate with";
pub(super) const READY: &str = "Ready";
const PAUSING: &str = "Pausing…";
const CANCELLING: &str = "Cancelling…";
const STARTING: &str = "Starting the engine…";
const READING_PICTURES: &str = "Reading the pictures";
const LOOKING_AT_PICTURES: &str = "Looking at the pictures";

pub(super) fn paused(num_waiting: usize) -> String {
    format!("Paused  ·  {num_waiting} waiting")
}

/// What a job does in a stage: of several pictures in their number.
pub(super) fn stage_of(job: &RunningJob, stage: Stage) -> &'static str {
    let request = job.request.generate();
    let are_several = request.is_some_and(|request| match stage {
        Stage::EncodeImage => {
            let frames = [&request.image, &request.last_image];
            request.references.len() + frames.into_iter().flatten().count() > 1
        }
        Stage::EncodeVision => request.prompt_pictures.len() > 1,
        _ => false,
    });
    match stage {
        Stage::EncodeImage if are_several => READING_PICTURES,
        Stage::EncodeVision if are_several => LOOKING_AT_PICTURES,
        stage => stage.label(),
    }
}

/// A list of facts on the running job, each of which stands by itself.
pub(super) fn running(job: &RunningJob, num_waiting: usize) -> String {
    if job.cancel.is_paused() {
        return PAUSING.to_owned();
    }
    if job.cancel.is_cancelled() {
        return CANCELLING.to_owned();
    }
    if let Some(crowded) = &job.waiting {
        return crowded.to_string();
    }
    let stage = job.stage.map_or(STARTING, |stage| stage_of(job, stage));
    let mut parts = vec![stage.to_owned()];
    let num_sections = job.recipe.as_ref().map_or(1, Recipe::num_sections);
    let is_of_section = matches!(
        job.stage,
        Some(Stage::Denoise | Stage::Unload | Stage::Decode)
    );
    if num_sections > 1 && is_of_section {
        parts.push(format!("section {} of {num_sections}", job.section + 1));
    }
    if let Some((step, num_steps)) = job.step {
        parts.push(format!("{step} of {num_steps}"));
    } else if job.stage == Some(Stage::Decode) && job.num_frames_decoded > 0 {
        let (number, count) = (job.num_frames_decoded, job.num_frames_of_stage());
        parts.push(if job.request.batch_size() > 1 {
            format!("picture {number} of {count}")
        } else {
            format!("frame {number} of {count}")
        });
    }
    if job.has_resumed {
        parts.push("resumed after the engine was restarted".to_owned());
    }
    if let Some(secs) = job.secs_left {
        parts.push(format!("about {} left", duration_text(secs.max(1.0))));
    }
    if num_waiting > 0 {
        parts.push(format!("{num_waiting} waiting"));
    }
    parts.join("  ·  ")
}

// What widgets of every page say.

pub(super) fn example(text: &str) -> String {
    format!("Example: {text}")
}

/// To the value that a field has of its own.
pub(super) fn back_to(value: &str) -> String {
    format!("Back to {value}")
}

pub(super) fn reset(field: &str) -> String {
    format!("Reset {field}")
}
