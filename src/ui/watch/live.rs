//! The line below the running job's picture: what happens to it, in words.
//!
//! How far everything is, the status line says.

use safelight_core::job::{Recipe, Stage};

use crate::app::queue::RunningJob;
use crate::ui::watch::caption::Told;
use crate::ui::watch::words;
use crate::ui::words::stage_of;

pub(super) fn told(job: &RunningJob) -> Told {
    Told {
        line: stage_line(job),
        more: job.request.title().into_owned(),
    }
}

/// `Developing  ·  step 7 of 25  ·  section 2 of 5  ·  about 3 min left`
fn stage_line(job: &RunningJob) -> String {
    if let Some(crowded) = &job.waiting {
        return crowded.to_string();
    }
    let Some(stage) = job.stage else {
        return words::JOB_BEGINS.to_owned();
    };
    let mut facts = vec![stage_of(job, stage).to_owned()];
    match job.step {
        Some((step, num_steps)) if stage.is_denoising() => {
            facts.push(words::step_of(step, num_steps));
        }
        Some((frame, num_frames)) if matches!(stage, Stage::Upscale | Stage::Interpolate) => {
            facts.push(words::frame_of(frame, num_frames));
        }
        Some((part, num_parts)) => facts.push(words::part_of(part, num_parts)),
        None if stage == Stage::Decode && job.num_frames_decoded > 0 => {
            let all = job.num_frames_of_stage();
            facts.push(words::frame_of(job.num_frames_decoded, all));
        }
        None => {}
    }
    let num_sections = job.recipe.as_ref().map_or(1, Recipe::num_sections);
    if num_sections > 1 {
        facts.push(words::section_of(job.section + 1, num_sections));
    }
    facts.extend(job.secs_left.map(words::time_left));
    words::listed(&facts)
}
