//! A plan in plain words.
//!

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
    let needs = stages.iter().map(StagePlan::required_bytes);
    let needs = needs.fold(peak, u64::max);
    let failing = stages.iter().filter(|stage| !stage.fits);
    let failing = failing.max_by_key(|stage| stage.required_bytes());
    let is_cpu = facts.class == DeviceClass::Cpu;
    let devices = stages.iter().map(|stage| stage.devices).max().unwrap_or(1);
    let place = match devices {
        1 if is_cpu => " of memory".to_owned(),
        1 => String::new(),
        _ => format!(" on each of {devices} devices"),
    };
    let free = gib_text(budget.available_bytes);
    let text = match failing {
        None => {
            let needs = gib_text(needs);
            let (others, done) = (used_by_others(budget), done_for_it(stages, &free));
            format!("Fits: needs {needs} GiB{place}, {free} GiB are free{others}{done}")
        }
        Some(stage) => {
            let network = stage.part.map_or("job", PlannedNetwork::label);
            let needs = gib_text(stage.required_bytes());
            let streamed = if stage.is_streamed() {
                " even with streamed weights"
            } else {
                ""
            };
            let tiled = stage.tile.map(|tile| format!(" even in tiles of {tile}"));
            let tiled = tiled.unwrap_or_default();
            format!(
                "Does not fit: the {network} needs {needs} GiB{place}{streamed}{tiled}, but {free} GiB is free"
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

/// Streaming and tiles of the plan, with their reasons. `free`: GiB.
fn done_for_it(stages: &[StagePlan], free: &str) -> String {
    let streamed = stages.iter().filter(|stage| stage.is_streamed());
    let streamed = streamed.max_by_key(|stage| stage.streamed_bytes_per_step);
    let streamed = streamed.map(|stage| {
        let network = stage.part.map_or("weights", PlannedNetwork::label);
        let [stays, all] = [stage.resident_bytes, stage.weights_bytes].map(gib_text);
        let more = stage.stage.is_denoising().then(|| {
            if stage.is_in_parts() {
                return ", the rest is kept in parts and exchanged in each step".to_owned();
            }
            let more = secs(stage.copy_secs_per_step);
            format!(", the rest is loaded again in each step (up to {more} longer)")
        });
        let more = more.unwrap_or_default();
        format!("; {stays} of {all} GiB of the {network} stay on the device{more}")
    });
    let tiled = stages.iter().find_map(|stage| {
        let tile = stage.tile?;
        let network = stage.part.map_or("VAE", PlannedNetwork::label);
        let whole = gib_text(stage.whole_bytes);
        Some(format!(
            "; the {network} runs in tiles of {tile} pixels, as whole frames need {whole} GiB and {free} GiB is free"
        ))
    });
    streamed.into_iter().chain(tiled).collect()
}

fn secs(secs: f64) -> String {
    if secs < 0.095 {
        format!("{:.0} ms", (secs * 1000.0).max(1.0))
    } else {
        format!("{secs:.1} s")
    }
}
