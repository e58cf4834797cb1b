//! A plan in plain words.
//!

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::planner::StagePlan;
use crate::footprint::PlannedNetwork;
use crate::memory::{DeviceClass, DeviceFacts, MemoryBudget};
use crate::units::gib_text;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanSummary {
    pub fits: bool,
    /// One sentence, no full stop.
    pub text: String,
    /// Peak of the job.
    pub needs_bytes: u64,
    /// Available memory: the cap less the use of others.
    pub of_bytes: u64,
}

pub(super) fn plan_summary(
    facts: &DeviceFacts,
    budget: &MemoryBudget,
    stages: &[StagePlan],
    peak: u64,
) -> PlanSummary {
    let worst = stages.iter().max_by_key(|stage| stage.required_bytes());
    let needs = worst.map_or(0, |stage| stage.required_bytes()).max(peak);
    let failing = stages
        .iter()
        .filter(|stage| !stage.fits)
        .max_by_key(|stage| stage.required_bytes());
    let place = if facts.class == DeviceClass::Cpu {
        " of memory"
    } else {
        ""
    };
    let text = match failing {
        None => {
            let mut text = format!(
                "Fits: needs {} GiB{place}, {} GiB are free{}",
                gib_text(needs),
                gib_text(budget.available_bytes),
                used_by_others(budget)
            );
            // Writing to a string cannot fail.
            write!(text, "{}", done_for_it(stages, budget)).ok();
            text
        }
        Some(stage) => {
            let network = stage.part.map_or("job", PlannedNetwork::label);
            let streamed = if stage.is_streamed() {
                " even with streamed weights"
            } else {
                ""
            };
            let tiled = stage
                .tile
                .map_or_else(String::new, |tile| format!(" even in tiles of {tile}"));
            format!(
                "Does not fit: the {network} needs {} GiB{place}{streamed}{tiled}, but {} GiB is free",
                gib_text(stage.required_bytes()),
                gib_text(budget.available_bytes)
            )
        }
    };
    PlanSummary {
        fits: failing.is_none(),
        text,
        needs_bytes: needs,
        of_bytes: budget.available_bytes,
    }
}

/// Memory that other programs use.
fn used_by_others(budget: &MemoryBudget) -> String {
    match budget.used_by_others_bytes {
        0 => String::new(),
        used => format!(" (other programs use {} GiB)", gib_text(used)),
    }
}

/// Streaming and tiles of the plan, with their reasons.
fn done_for_it(stages: &[StagePlan], budget: &MemoryBudget) -> String {
    let mut text = String::new();
    let streamed = stages.iter().filter(|stage| stage.is_streamed());
    if let Some(stage) = streamed.max_by_key(|stage| stage.streamed_bytes_per_step) {
        let network = stage.part.map_or("weights", PlannedNetwork::label);
        let (stays, all) = (
            gib_text(stage.resident_bytes),
            gib_text(stage.weights_bytes),
        );
        write!(
            text,
            "; {stays} of {all} GiB of the {network} stay on the device"
        )
        .ok();
        if stage.stage.is_denoising() {
            let more = secs(stage.copy_secs_per_step);
            write!(
                text,
                ", the rest is loaded again in each step (up to {more} longer)"
            )
            .ok();
        }
    }
    let tiled = stages.iter().find(|stage| stage.tile.is_some());
    if let Some((stage, tile)) = tiled.and_then(|stage| Some((stage, stage.tile?))) {
        write!(
            text,
            "; the {} runs in tiles of {tile} pixels, as whole frames need {} GiB and {} GiB is free",
            stage.part.map_or("VAE", PlannedNetwork::label),
            gib_text(stage.whole_bytes),
            gib_text(budget.available_bytes)
        )
        .ok();
    }
    text
}

fn secs(secs: f64) -> String {
    if secs < 0.095 {
        format!("{:.0} ms", (secs * 1000.0).max(1.0))
    } else {
        format!("{secs:.1} s")
    }
}
