//! The graph in words: what is expected of a job, what happened in the last one, and all of it for those who do not see
//! it.
//!
//! Sentences only; nothing is drawn but one line.

use egui::{Label, RichText, Ui};
use safelight_core::job::Climb;
use safelight_core::memory::Rung;
use safelight_core::units::{duration_text, size_text};

use crate::app::memory::MemoryHistory;
use crate::app::memory::course::Course;
use crate::app::memory::planning::Planned;
use crate::ui::widgets::palette;

/// How long the form's job is expected to take.
pub(super) fn time_words(course: &Course) -> String {
    if !course.is_timed {
        return "How long it takes is known once such a job was made here".to_owned();
    }
    let secs = duration_text(course.total_secs().max(1.0));
    let streaming = if course.streaming_secs >= 1.0 {
        let more = duration_text(course.streaming_secs);
        format!("; reading weights anew in each step adds {more} at most")
    } else {
        String::new()
    };
    format!("Takes roughly {secs}, as such jobs did here{streaming}")
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
        parts.push(format!("{} given back between stages", size_text(given)));
    }
    parts
}

/// `Decoding frames went on in tiles of 512 pixels`
pub(super) fn climb_words(climb: Climb) -> String {
    let how = match climb.rung {
        Rung::Ground | Rung::FreeAndRetry => "once more after all was given back".to_owned(),
        Rung::StreamMore => "with its weights streamed in".to_owned(),
        Rung::Tiles512 | Rung::Tiles256 => {
            format!(
                "in tiles of {} pixels",
                climb.rung.tile().unwrap_or_default()
            )
        }
        Rung::OnCpu => "on the CPU".to_owned(),
    };
    let verb = if climb.helped { "went on" } else { "was tried" };
    format!("{} {verb} {how}", climb.stage.label())
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
            "Decoding frames went on in tiles of 512 pixels"
        );
        let failed = Climb {
            rung: Rung::OnCpu,
            helped: false,
            ..climb
        };
        assert_eq!(climb_words(failed), "Decoding frames was tried on the CPU");
    }

    #[test]
    fn no_time_is_promised_that_nobody_knows() {
        let mut course = Course::default();
        assert!(time_words(&course).contains("once such a job was made"));
        course.is_timed = true;
        assert!(time_words(&course).starts_with("Takes roughly 1 s"));
    }

    #[test]
    fn an_empty_graph_has_words_too() {
        let text = told(&MemoryHistory::default());
        assert!(text.starts_with("Memory graph over 0 s"), "{text}");
    }
}
