//! What the memory panel says: whether the job fits, what its graph shows, and all of it for those who do not see it.
//!
//! Whole sentences, so that they can be translated one by one; one line of them is drawn here.

use egui::{Label, RichText, Ui};
use safelight_core::job::{Climb, Reclaim};
use safelight_core::memory::Rung;
use safelight_core::units::{about_text, duration_text, gib_text, seconds_text, size_text};

use crate::app::memory::MemoryHistory;
use crate::app::memory::course::Course;
use crate::app::memory::planning::Planned;
use crate::ui::widgets::palette;

pub(super) const TIME_HOVER: &str =
    "From the times of earlier jobs; other programs and heat change them";
pub(super) const SUMMARY_HOVER: &str = "Whether the job of the form fits. Press Memory for details";
pub(super) const OPEN_HOVER: &str = "Press to open the memory panel";

pub(super) const KEEP_FREE: &str = "Keep free for computing";
pub(super) const KEEP_FREE_HOVER: &str = "Preserved memory: the part of the device's memory that is kept free for what a model computes, beside its weights. More is safer and slower: weights that do not stay are read again in each step";
pub(super) const AUTO_HOVER: &str =
    "Calculated for each job: what it is estimated to need, and a margin";
pub(super) const CAP: &str = "Memory cap";
pub(super) const CAP_HOVER: &str =
    "Safelight never uses more of the device's memory than this, other programs included";
pub(super) const DEFAULT_CAP: &str = "Default cap";

pub(super) const EXPECTED: &str = "Expected";
pub(super) const PEAK_HOVER: &str = "The most that tensors are expected to take, weights included";
pub(super) const LAST_JOB: &str = "Last job";
pub(super) const LAST_JOB_HOVER: &str = "The memory of the last job";
pub(super) const NEXT_JOB: &str = "Next job";
pub(super) const NEXT_JOB_HOVER: &str = "What the job in the form is expected to need";
pub(super) const MEMORY: &str = "Memory";
pub(super) const EMPTY: &str = "The graph is drawn here while a job runs";
pub(super) const EXPORT: &str = "Export";
pub(super) const EXPORT_NAME: &str = "Export telemetry";
pub(super) const EXPORT_HOVER: &str = "Save what was measured during this job as a table or as JSON: memory ten times a second, temperature, power, stages, freed memory";
// Lines of the graph.
pub(super) const USED: &str = "Used";
pub(super) const USED_HOVER: &str =
    "What all programs use on the device; on the CPU, what the engine has in memory";
pub(super) const ALLOCATED: &str = "Allocated";
pub(super) const ALLOCATED_HOVER: &str = "Tensors in use, weights included";
pub(super) const RESERVED: &str = "Reserved";
pub(super) const RESERVED_HOVER: &str = "What the allocator holds, in use or kept for reuse";
pub(super) const PAGE_CACHE: &str = "Page cache";
pub(super) const PAGE_CACHE_HOVER: &str =
    "Files that the system keeps in main memory; it drops them when programs need the room";
pub(super) const FREE: &str = "Free";
pub(super) const FREE_HOVER: &str = "Main memory that programs can still get";
pub(super) const PREDICTED_PEAK: &str = "Predicted peak allocated";
pub(super) const LEFT_FOR_TENSORS: &str = "Available for tensors";
pub(super) const BUDGET: &str = "Budget";
pub(super) const BUSY: &str = "Busy";
pub(super) const BUSY_HOVER: &str = "How much of the time the GPU computes";
pub(super) const TEMPERATURE_HOVER: &str = "The GPU's temperature";
pub(super) const POWER_HOVER: &str = "The GPU's power";
pub(super) const MACHINE: &str = "Machine";
pub(super) const TOTAL_HOVER: &str =
    "All memory of the device. Where it is far above the rest, its line stays at the upper edge";
pub(super) const PEAK_USED_HOVER: &str = "The highest value of Used in this job. It is more than Allocated, because not all of it is tensors";
pub(super) const PREDICTED_HOVER: &str =
    "What the plan expects of Allocated: the dotted line, and the pale blocks stage by stage";
pub(super) const SHARED_HOVER: &str = "The CPU and the GPU share one memory. Files that the system keeps in it make room when the job needs it";

pub(super) fn expected_bytes(bytes: u64) -> String {
    format!("Expected {}", size_text(bytes))
}

pub(super) fn takes_about(secs: f64) -> String {
    format!("takes {}", about_text(secs))
}

/// So long after the start of a job.
pub(super) fn after(secs: f64) -> String {
    format!("after {}", seconds_text(secs))
}

pub(super) fn stage_after(stage: &str, secs: f64) -> String {
    format!("{stage}, after {}", seconds_text(secs))
}

pub(super) fn auto(bytes: u64) -> String {
    format!("Auto ({})", size_text(bytes))
}

pub(super) fn predicted_peak(bytes: u64) -> String {
    format!("Predicted peak allocated {}", size_text(bytes))
}

pub(super) fn budget(bytes: u64) -> String {
    format!("Budget {}", size_text(bytes))
}

pub(super) fn budget_hover(left: u64) -> String {
    format!(
        "The most that is used on this device. {} of it is left for tensors: other programs and the driver have the rest",
        size_text(left)
    )
}

pub(super) fn total(bytes: u64) -> String {
    format!("Cap {}", size_text(bytes))
}

pub(super) fn peak_used(bytes: u64) -> String {
    format!("Peak used {}", size_text(bytes))
}

pub(super) fn files_share(percent: f64) -> String {
    format!("Files have {percent:.0} % of the shared memory")
}

/// The plan in a few words, with a time where one is known: `Fits · about 14 s`.
pub(super) fn summary(planned: &Planned) -> String {
    let plan = &planned.plan;
    if !plan.fits() {
        let [needs, free] = [plan.verdict.needs_bytes, plan.verdict.of_bytes].map(gib_text);
        return format!("Does not fit  ·  needs {needs} GiB, {free} GiB are free");
    }
    let fits = if plan.rank() == 0 {
        "Fits"
    } else {
        "Just fits"
    };
    if !planned.course.is_timed {
        return fits.to_owned();
    }
    let time = about_text(planned.all_secs);
    match planned.num_jobs {
        0 | 1 => format!("{fits}  ·  {time}"),
        num_jobs => format!("{fits}  ·  {time} for {num_jobs} jobs"),
    }
}

/// The same of several jobs that one press makes, in a sentence; nothing of one.
pub(super) fn all_jobs(planned: &Planned) -> Option<String> {
    let num_jobs = planned.num_jobs;
    let is_told = planned.course.is_timed && num_jobs > 1;
    is_told.then(|| format!("All {num_jobs} jobs take {}", about_text(planned.all_secs)))
}

/// How long the form's job is expected to take.
pub(super) fn time_words(course: &Course) -> String {
    if !course.is_timed {
        return "The time is known after the first job of this kind".to_owned();
    }
    let secs = about_text(course.total_secs());
    if course.streaming_secs >= 1.0 {
        let more = duration_text(course.streaming_secs);
        format!(
            "Takes {secs}, going by earlier jobs; reading weights again in each step adds at most {more}"
        )
    } else {
        format!("Takes {secs}, going by earlier jobs")
    }
}

pub(super) fn freed(reclaim: &Reclaim) -> String {
    let Reclaim {
        boundary,
        before_bytes,
        after_bytes,
    } = reclaim;
    let given = size_text(before_bytes.saturating_sub(*after_bytes));
    format!("{boundary}: {given} freed")
}

/// What the picture of the form's job shows.
pub(super) fn expected(planned: &Planned) -> String {
    let plan = &planned.plan;
    let stages: Vec<String> = plan
        .stages
        .iter()
        .filter(|stage| stage.peak_bytes > 0)
        .map(|stage| format!("{} {}", stage.stage.label(), size_text(stage.peak_bytes)))
        .collect();
    format!(
        "Expected memory: at most {} of a budget of {}. {}. By stage: {}",
        size_text(plan.peak_bytes),
        size_text(plan.budget.cap_bytes),
        time_words(&planned.course),
        stages.join(", ")
    )
}

/// What the graph of a job shows.
pub(super) fn told(history: &MemoryHistory) -> String {
    let mut parts = vec![format!(
        "Memory graph over {}: at most {} used",
        duration_text(history.end_secs()),
        size_text(history.peak_bytes())
    )];
    if let Some(last) = history.last() {
        parts.push(format!("{} now", size_text(last.used_bytes)));
    }
    if let Some(bytes) = history.predicted_bytes() {
        parts.push(format!("{} of tensors were predicted", size_text(bytes)));
    }
    if let Some(band) = history.bands().last() {
        parts.push(format!("last stage: {}", band.stage.label()));
    }
    parts.extend(happened(history));
    parts.join(", ")
}

/// What happened in a job that has ended, in a line; nothing where nothing is to be told.
pub(super) fn last_job_ui(ui: &mut Ui, history: &MemoryHistory) {
    let mut parts = Vec::new();
    parts.extend(
        history
            .outcome()
            .map(|outcome| format!("peak allocated {}", outcome.line())),
    );
    parts.extend(happened(history));
    if parts.is_empty() {
        return;
    }
    let weak = palette(ui).weak;
    let text = format!("Last job: {}", parts.join("  ·  "));
    ui.add(Label::new(RichText::new(&text).small().color(weak)).truncate())
        .on_hover_text(&text);
}

fn happened(history: &MemoryHistory) -> Vec<String> {
    let mut parts: Vec<String> = history.climbs().iter().copied().map(climb_words).collect();
    let given: u64 = history
        .marks()
        .iter()
        .map(|mark| {
            mark.reclaim
                .before_bytes
                .saturating_sub(mark.reclaim.after_bytes)
        })
        .sum();
    if given > 0 {
        parts.push(format!("{} freed between stages", size_text(given)));
    }
    parts
}

/// `Decoding continued in tiles of 512 pixels`
pub(super) fn climb_words(climb: Climb) -> String {
    let stage = climb.stage.label();
    let tile = climb.rung.tile().unwrap_or_default();
    match (climb.rung, climb.helped) {
        (Rung::Ground | Rung::FreeAndRetry, true) => {
            format!("{stage} continued after unused memory was freed")
        }
        (Rung::Ground | Rung::FreeAndRetry, false) => {
            format!("{stage} was tried again after unused memory was freed")
        }
        (Rung::StreamMore, true) => format!("{stage} continued with streamed weights"),
        (Rung::StreamMore, false) => format!("{stage} was tried with streamed weights"),
        (Rung::Tiles512 | Rung::Tiles256, true) => {
            format!("{stage} continued in tiles of {tile} pixels")
        }
        (Rung::Tiles512 | Rung::Tiles256, false) => {
            format!("{stage} was tried in tiles of {tile} pixels")
        }
        (Rung::OnCpu, true) => format!("{stage} continued on the CPU"),
        (Rung::OnCpu, false) => format!("{stage} was tried on the CPU"),
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::job::Stage;

    use super::*;

    #[test]
    fn what_was_tried_reads_like_a_sentence() {
        let climb = Climb {
            stage: Stage::Decode,
            section: 0,
            rung: Rung::Tiles512,
            helped: true,
        };
        assert_eq!(
            climb_words(climb),
            "Decoding continued in tiles of 512 pixels"
        );
        let failed = Climb {
            rung: Rung::OnCpu,
            helped: false,
            ..climb
        };
        assert_eq!(climb_words(failed), "Decoding was tried on the CPU");
    }

    #[test]
    fn no_time_is_promised_that_nobody_knows() {
        let mut course = Course::default();
        assert!(time_words(&course).contains("after the first job"));
        course.is_timed = true;
        assert!(time_words(&course).starts_with("Takes under a second"));
    }

    #[test]
    fn an_empty_graph_has_words_too() {
        let text = told(&MemoryHistory::default());
        assert!(text.starts_with("Memory graph over 0 s"), "{text}");
    }
}
