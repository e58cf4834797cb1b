//! The memory panel: the plan of the form's job, and the graph of the running, last or next job.

mod graph;
mod legend;
mod plan;

use safelight_core::job_update::MemorySample;
use safelight_core::units::about_text;

use crate::window::layout::prelude::*;
use crate::window::memory::MemoryHistory;
use crate::window::memory::course::ExpectedTimeline;
use crate::window::memory::panel::graph::climb_text;
use crate::window::widgets::theme::ThemeColors;
pub(crate) use plan::{summary_ui, warning_ui};

const PREDICTED_PEAK: &str = "Predicted peak allocated";

struct GraphSeries {
    name: &'static str,
    explanation: &'static str,
    colour: Color32,
    bytes: fn(&MemorySample) -> u64,
    /// Drawn thin: a value of the machine, not of the job.
    is_thin: bool,
}

/// The panel, in at most this height if possible.
pub(crate) fn memory_ui(ui: &mut Ui, view: &mut UiContext<'_>, height: f32) {
    line_ui(ui, view);
    let (series, is_detailed) = (series(palette(ui)), view.folds.is_memory_detailed);
    if is_detailed {
        plan::limits_ui(ui, view);
    }
    // The graph and the lines above it are as high before, during and after a job, so that the image above does not
    // move.
    let bottom = |ui: &Ui| ui.min_rect().height() + ui.spacing().item_spacing.y;
    let top = bottom(ui);
    let height = (height - top).clamp(theme::GRAPH_MIN_HEIGHT, theme::GRAPH_HEIGHT);
    let left = |ui: &Ui| (top + height - bottom(ui)).max(theme::GRAPH_MIN_HEIGHT);

    if legend::shows_plan(view) {
        if let Some(planned) = view.app.memory.planned() {
            if is_detailed {
                legend::expected_ui(ui, planned);
            }
            graph::plot_ui(ui, &planned.expected, &series, left(ui), false);
        }
        return;
    }
    if is_detailed {
        legend::legend_ui(ui, view, &series);
    }
    let history = view.app.queue.memory();
    let is_running = view.app.queue.live().is_some();
    if let Some(last) = history.last() {
        if is_detailed {
            legend::machine_ui(ui, history, last, &series);
        }
        if !is_running && (is_detailed || !history.climbs.is_empty()) {
            last_job_ui(ui, history);
        }
        graph::plot_ui(ui, history, &series, left(ui), is_running);
    } else if is_running {
        ui.add_space(left(ui));
    }
}

/// The verdict or the values in one line, and the button for the rest.
fn line_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    ui.horizontal_wrapped(|ui| {
        devices_ui(ui, view);
        legend::choice_ui(ui, view);
        let planned = view.app.memory.planned().cloned();
        match planned.filter(|_| legend::shows_plan(view)) {
            Some(planned) => plan::line_ui(ui, view, &planned),
            None => legend::line_ui(ui, view.app.queue.memory()),
        }
        let is_open = view.folds.is_memory_detailed;
        let text = RichText::new(format!("{} Details", caret(is_open))).small();
        let button = ui
            .add(Button::new(text).frame_when_inactive(false))
            .on_hover_text("Memory cap, reserved memory, and the values of all lines")
            .accessible_name("Memory details");
        if button.clicked() {
            view.folds.is_memory_detailed = !is_open;
        }
    });
}

/// Choice of the device where several have jobs.
fn devices_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let queue = &view.app.queue;
    if queue.running.len() < 2 {
        return;
    }
    for job in &queue.running {
        let is_live = queue.live().is_some_and(|live| live.id == job.id);
        let name = job.device_name.as_str();
        if choice(
            ui,
            is_live,
            name,
            "Show the job of this device, and its memory",
        )
        .clicked()
        {
            view.push(PlayerCommand::Watch(name.to_owned()));
        }
    }
}

fn last_job_ui(ui: &mut Ui, history: &MemoryHistory) {
    let mut parts = Vec::new();
    let outcome = history.outcome.as_ref();
    parts.extend(outcome.map(|it| format!("peak allocated {}", it.line())));
    parts.extend(job_event_texts(history));
    if parts.is_empty() {
        return;
    }
    let text = format!("Last job: {}", parts.join("  ·  "));
    small_line(ui, &text).on_hover_text(&text);
}

fn job_event_texts(history: &MemoryHistory) -> Vec<String> {
    let mut parts: Vec<String> = history.climbs.iter().copied().map(climb_text).collect();
    let reclaims = history.marks.iter().map(|mark| &mark.reclaim);
    let given: u64 = reclaims
        .map(|it| it.before_bytes.saturating_sub(it.after_bytes))
        .sum();
    if given > 0 {
        parts.push(format!("{} freed between stages", size_text(given)));
    }
    parts
}

fn series(palette: &ThemeColors) -> [GraphSeries; 5] {
    [
        GraphSeries {
            name: "Used",
            explanation: "What all programs use on the device; on the CPU, what the engine has in \
                         memory",
            colour: palette.used,
            bytes: |sample| sample.used_bytes,
            is_thin: false,
        },
        GraphSeries {
            name: "Allocated",
            explanation: "Tensors in use, weights included",
            colour: palette.allocated,
            bytes: |sample| sample.allocated_bytes,
            is_thin: false,
        },
        GraphSeries {
            name: "Reserved",
            explanation: "What the allocator holds, in use or kept for reuse",
            colour: palette.reserved,
            bytes: |sample| sample.reserved_bytes,
            is_thin: false,
        },
        GraphSeries {
            name: "Page cache",
            explanation: "Files that the system keeps in main memory; it drops them when programs \
                         need the room",
            colour: palette.cache,
            bytes: |sample| sample.machine.page_cache_bytes.unwrap_or(0),
            is_thin: true,
        },
        GraphSeries {
            name: "Free",
            explanation: "Main memory that programs can still get",
            colour: palette.available,
            bytes: |sample| sample.machine.host_available_bytes.unwrap_or(0),
            is_thin: true,
        },
    ]
}

/// The engine reports this value: unknown ones are zero.
fn is_known(history: &MemoryHistory, line: &GraphSeries) -> bool {
    let mut samples = history.samples.iter();
    samples.any(|sample| (line.bytes)(sample) > 0)
}

fn predicted_peak_text(bytes: u64) -> String {
    format!("Predicted peak allocated {}", size_text(bytes))
}

fn time_text(course: &ExpectedTimeline) -> String {
    if !course.is_timed {
        return "The time is known after the first job of this kind".to_owned();
    }
    let secs = sentence(&about_text(course.total_secs()));
    if course.streaming_secs >= 1.0 {
        let more = duration_text(course.streaming_secs);
        format!("{secs}, based on earlier jobs; streaming weights adds up to {more}")
    } else {
        format!("{secs}, based on earlier jobs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_duration_is_shown_only_when_known() {
        let mut course = ExpectedTimeline::default();
        assert!(time_text(&course).contains("after the first job"));
        course.is_timed = true;
        assert!(time_text(&course).starts_with("Under a second"));
    }
}
