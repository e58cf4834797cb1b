//! The line below the running job's picture: what happens to it, in words.
//!
//! How far everything is, the status line says.

use safelight_core::job::{Recipe, Stage};
use safelight_core::units::duration_text;

use crate::app::queue::RunningJob;
use crate::ui::watch::bar::Told;

pub(super) fn told(job: &RunningJob) -> Told {
    Told {
        line: stage_line(job),
        more: job.request.prompt.clone(),
    }
}

/// `Developing: step 7 of 25, section 2 of 5, about 3 min left`
fn stage_line(job: &RunningJob) -> String {
    let Some(stage) = job.stage else {
        return "The job begins…".to_owned();
    };
    let mut parts = Vec::new();
    match job.step {
        Some((step, num_steps)) if stage.is_denoising() => {
            parts.push(format!("step {step} of {num_steps}"));
        }
        Some((part, num_parts)) => parts.push(format!("part {part} of {num_parts}")),
        None if stage == Stage::Decode && job.num_frames_decoded > 0 => {
            let all = job.num_frames_of_stage();
            parts.push(format!("frame {} of {all}", job.num_frames_decoded));
        }
        None => {}
    }
    let num_sections = job.recipe.as_ref().map_or(1, Recipe::num_sections);
    if num_sections > 1 {
        parts.push(format!("section {} of {num_sections}", job.section + 1));
    }
    if let Some(secs) = job.secs_left {
        parts.push(format!("about {} left", duration_text(secs.max(1.0))));
    }
    if parts.is_empty() {
        return format!("{}…", stage.label());
    }
    format!("{}: {}", stage.label(), parts.join(", "))
}
