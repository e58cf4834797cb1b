//! The memory panel: the plan of the form's job, and the graph of the running, last or next job with its
//! legend.

mod graph;
mod plan;

use safelight_core::job_update::{MachineSample, MemorySample};
use safelight_core::memory::DeviceClass;
use safelight_core::units::about_text;

use crate::window::layout::prelude::*;
use crate::window::memory::ExpectedTimeline;
use crate::window::memory::MemoryHistory;
use crate::window::memory::panel::graph::climb_text;
use crate::window::memory::planning::FormPlan;
use crate::window::widgets::theme::ThemeColors;

pub(crate) use plan::{summary_ui, warning_ui};

const PREDICTED_PEAK: &str = "Predicted peak allocated";
const USED_HOVER: &str =
    "What all programs use on the device; on the CPU, what the engine has in memory";

struct GraphSeries {
    name: &'static str,
    hover: &'static str,
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

    if shows_plan(view) {
        if let Some(planned) = view.app.memory.planned() {
            if is_detailed {
                expected_ui(ui, planned);
            }
            graph::plot_ui(ui, &planned.expected, &series, left(ui), false);
        }
        return;
    }
    if is_detailed {
        legend_ui(ui, view, &series);
    }
    let history = view.app.queue.memory();
    let is_running = view.app.queue.live().is_some();
    if let Some(last) = history.last() {
        if is_detailed {
            machine_ui(ui, history, last, &series);
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
        choice_ui(ui, view);
        let planned = view.app.memory.planned().cloned();
        match planned.filter(|_| shows_plan(view)) {
            Some(planned) => plan::line_ui(ui, view, &planned),
            None => job_line_ui(ui, view.app.queue.memory()),
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
        let button = choice(
            ui,
            is_live,
            name,
            "Show the job of this device, and its memory",
        );
        view.on_click(&button, PlayerCommand::Watch(name.to_owned()));
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
    let reclaims = history.marks.iter().map(|(_, reclaim)| reclaim);
    let given: u64 = reclaims
        .map(|it| it.before_bytes.saturating_sub(it.after_bytes))
        .sum();
    if given > 0 {
        parts.push(format!("{} freed between stages", size_text(given)));
    }
    parts
}

fn series(palette: &ThemeColors) -> [GraphSeries; 5] {
    let line = |name, hover, colour, bytes, is_thin| GraphSeries {
        name,
        hover,
        colour,
        bytes,
        is_thin,
    };
    let allocated = "Tensors in use, weights included";
    let reserved = "What the allocator holds, in use or kept for reuse";
    let cache = "Files that the system keeps in main memory; it drops them when programs need the \
                 room";
    let free = "Main memory that programs can still get";
    type Bytes = fn(&MemorySample) -> u64;
    let bytes: [Bytes; 5] = [
        |sample| sample.used_bytes,
        |sample| sample.allocated_bytes,
        |sample| sample.reserved_bytes,
        |sample| sample.machine.page_cache_bytes.unwrap_or(0),
        |sample| sample.machine.host_available_bytes.unwrap_or(0),
    ];
    [
        line("Used", USED_HOVER, palette.used, bytes[0], false),
        line("Allocated", allocated, palette.allocated, bytes[1], false),
        line("Reserved", reserved, palette.reserved, bytes[2], false),
        line("Page cache", cache, palette.cache, bytes[3], true),
        line("Free", free, palette.available, bytes[4], true),
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

/// The form's job is shown if there is no other, if chosen, and while a slider changes it. A running job comes first.
fn shows_plan(view: &UiContext<'_>) -> bool {
    let planning = &view.app.memory;
    if view.app.queue.live().is_some() || planning.planned().is_none() {
        return false;
    }
    let has_last = view.app.queue.memory().last().is_some();
    !has_last || planning.is_shown || planning.draft.is_some()
}

/// Choice of the job where there are two.
fn choice_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let planning = &view.app.memory;
    let has_last = view.app.queue.running.is_empty() && view.app.queue.memory().last().is_some();
    if !has_last || planning.planned().is_none() {
        return;
    }
    let next = "What the job in the form is expected to need";
    for (is_next, name, hover) in [
        (false, "Last job", "The memory of the last job"),
        (true, "Next job", next),
    ] {
        let button = choice(ui, planning.is_shown == is_next, name, hover);
        view.on_press(&button, move |app| app.memory.is_shown = is_next);
    }
}

/// The memory of a job in one line.
fn job_line_ui(ui: &mut Ui, history: &MemoryHistory) {
    let Some(last) = history.last() else {
        ui.weak(RichText::new("The graph is drawn here while a job runs").small());
        return;
    };
    let used = format!("Used {}", size_text(last.used_bytes));
    small_figure(ui, used, USED_HOVER);
    let hover = "The highest value of Used in this job. It is more than Allocated, because not all \
                 of it is tensors";
    small_figure(
        ui,
        format!("Peak {}", size_text(history.peak_bytes())),
        hover,
    );
    if last.total_bytes > 0 {
        let free = format!("{} free", size_text(history.free_bytes(last)));
        small_figure(ui, free, "The rest of the device's memory");
    }
}

fn small_figure(ui: &mut Ui, text: String, hover: &str) {
    ui.label(RichText::new(text).small()).on_hover_text(hover);
}

/// Names and values of the lines of the graph of the form's job.
fn expected_ui(ui: &mut Ui, planned: &FormPlan) {
    let palette = palette(ui);
    ui.horizontal_wrapped(|ui| {
        let (peak, budget) = (planned.plan.peak_bytes, &planned.plan.budget);
        entry_ui(ui, &predicted_peak_text(peak), palette.allocated)
            .on_hover_text("The most that tensors are expected to take, weights included");
        let text = format!("Budget {}", size_text(budget.cap_bytes));
        entry_ui(ui, &text, palette.cap).on_hover_text(format!(
            "The most that is used on this device. {} of it is left for tensors: other programs \
            and the driver have the rest",
            size_text(budget.available_bytes)
        ));
    });
}

/// Names and values of the lines of the graph of a job.
fn legend_ui(ui: &mut Ui, view: &mut UiContext<'_>, series: &[GraphSeries]) {
    let palette = palette(ui);
    let history = view.app.queue.memory();
    let Some(last) = history.last() else {
        return;
    };
    let export = ui.horizontal_wrapped(|ui| {
        for line in series.iter().filter(|line| !line.is_thin) {
            series_ui(ui, history, last, line);
        }
        if last.total_bytes > 0 {
            let text = format!("Cap {}", size_text(last.total_bytes));
            entry_ui(ui, &text, palette.cap).on_hover_text(
                "All memory of the device. Where it is far above the rest, its line stays at the \
                upper edge",
            );
        }
        if let Some(plan) = &history.plan {
            let text = predicted_peak_text(plan.peak_bytes);
            ui.weak(RichText::new(text).small()).on_hover_text(
                "What the plan expects of Allocated: the dotted line, and the pale blocks \
                    stage by stage",
            );
        }
        export_ui(ui, view)
    });
    if let Some(job) = export.inner {
        view.set(move |app| app.memory.export(job, &app.cx));
    }
}

fn export_ui(ui: &mut Ui, view: &UiContext<'_>) -> Option<JobId> {
    let queue = &view.app.queue;
    let job = queue.last_job.filter(|_| queue.running.is_empty())?;
    let text = RichText::new(with_icon(icons::SAVE, "Export")).small();
    ui.add(Button::new(text).frame_when_inactive(false))
        .on_hover_text(
            "Save what was measured during this job as a table or as JSON: memory ten times a \
            second, temperature, power, stages, freed memory",
        )
        .accessible_name("Export telemetry")
        .clicked()
        .then_some(job)
}

fn machine_ui(ui: &mut Ui, history: &MemoryHistory, last: &MemorySample, series: &[GraphSeries]) {
    let machine = &last.machine;
    if *machine == MachineSample::default() {
        return;
    }
    ui.scope(|ui| {
        ui.spacing_mut().interact_size.y = 0.0;
        ui.horizontal_wrapped(|ui| {
            ui.weak("Machine");
            for line in series.iter().filter(|line| line.is_thin) {
                series_ui(ui, history, last, line);
            }
            let class = history.plan.as_ref().map(|plan| plan.device.class);
            // The system's page cache is in the same memory as the job.
            if let (Some(cache), Some(DeviceClass::Unified)) = (machine.page_cache_bytes, class)
                && last.total_bytes > 0
            {
                let percent = cache as f64 / last.total_bytes as f64 * 100.0;
                let share = format!("Files have {percent:.0} % of the shared memory");
                ui.weak(RichText::new(share).small()).on_hover_text(
                    "The CPU and the GPU share one memory. Files that the system keeps in it \
                        make room when the job needs it",
                );
            }
            let busy = machine.busy_percent.map(|it| format!("Busy {it:.0} %"));
            let temperature = machine.temperature_celsius.map(|it| format!("{it:.0} °C"));
            let power = machine.power_watts.map(|it| format!("{it:.0} W"));
            for (figure, hover) in [
                (busy, "How much of the time the GPU computes"),
                (temperature, "The GPU's temperature"),
                (power, "The GPU's power"),
            ] {
                if let Some(figure) = figure {
                    ui.add_space(theme::SMALL_GAP);
                    ui.weak(RichText::new(figure).small()).on_hover_text(hover);
                }
            }
        });
    });
}

fn series_ui(ui: &mut Ui, history: &MemoryHistory, last: &MemorySample, line: &GraphSeries) {
    if !is_known(history, line) {
        return;
    }
    let text = format!("{} {}", line.name, size_text((line.bytes)(last)));
    entry_ui(ui, &text, line.colour).on_hover_text(line.hover);
}

/// A dot in the colour of a line, and its name and value.
fn entry_ui(ui: &mut Ui, text: &str, colour: Color32) -> Response {
    ui.horizontal(|ui| {
        let size = Vec2::splat(theme::CHIP_DOT);
        let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
        ui.painter()
            .circle_filled(rect.center(), theme::CHIP_DOT / 2.0, colour);
        ui.label(RichText::new(text).small())
    })
    .inner
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
