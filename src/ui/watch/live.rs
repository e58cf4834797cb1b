//! The line below the running job's picture: what happens to it, in words.
//!
//! How far everything is, the status line says.

use std::fmt::Display;

use safelight_core::job::{Recipe, Stage};
use safelight_core::units::duration_text;

use crate::app::queue::RunningJob;
use crate::ui::status::stage_text;
use crate::ui::watch::caption::Told;
use crate::ui::watch::listed_text;

pub(super) fn told(job: &RunningJob) -> Told {
    Told {
        line: stage_line(job),
        more: job.request.title().into_owned(),
    }
}

/// `Denoising  ·  step 7 of 25  ·  section 2 of 5  ·  about 3 min left`
fn stage_line(job: &RunningJob) -> String {
    if let Some(crowded) = &job.waiting {
        return crowded.to_string();
    }
    let Some(stage) = job.stage else {
        return "The job is starting…".to_owned();
    };
    let mut facts = vec![stage_text(job, stage).to_owned()];
    match job.step {
        Some((step, num_steps)) if stage.is_denoising() => {
            facts.push(format!("step {step} of {num_steps}"));
        }
        Some((frame, num_frames)) if matches!(stage, Stage::Upscale | Stage::Interpolate) => {
            facts.push(frame_of_text(frame, num_frames));
        }
        Some((part, num_parts)) => facts.push(format!("part {part} of {num_parts}")),
        None if stage == Stage::Decode && job.num_frames_decoded > 0 => {
            let all = job.num_frames_of_stage();
            facts.push(frame_of_text(job.num_frames_decoded, all));
        }
        None => {}
    }
    let num_sections = job.recipe.as_ref().map_or(1, Recipe::num_sections);
    if num_sections > 1 {
        facts.push(format!("section {} of {num_sections}", job.section + 1));
    }
    facts.extend(
        job.secs_left
            .map(|secs| format!("about {} left", duration_text(secs.max(1.0)))),
    );
    listed_text(&facts)
}

fn frame_of_text(frame: impl Display, num_frames: impl Display) -> String {
    format!("frame {frame} of {num_frames}")
}
