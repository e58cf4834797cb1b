//! The line above the graph, the choice of the job, and the legend: names and current values of the graph's lines.

use safelight_core::job_update::{MachineSample, MemorySample};

use crate::window::layout::prelude::*;
use crate::window::memory::MemoryHistory;
use crate::window::memory::panel::{GraphSeries, is_known, predicted_peak_text};
use crate::window::memory::planning::FormPlan;

/// The form's job is shown if there is no other, if chosen, and while a slider changes it. A running job comes first.
pub(super) fn shows_plan(view: &UiContext<'_>) -> bool {
    let planning = &view.app.memory;
    if view.app.queue.live().is_some() || planning.planned().is_none() {
        return false;
    }
    let has_last = view.app.queue.memory().last().is_some();
    !has_last || planning.is_shown || planning.draft.is_some()
}

/// Choice of the job where there are two.
pub(super) fn choice_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let planning = &view.app.memory;
    let has_last = view.app.queue.running.is_empty() && view.app.queue.memory().last().is_some();
    if !has_last || planning.planned().is_none() {
        return;
    }
    let choices = [
        (false, "Last job", "The memory of the last job"),
        (
            true,
            "Next job",
            "What the job in the form is expected to need",
        ),
    ];
    for (is_next, name, explanation) in choices {
        if choice(ui, planning.is_shown == is_next, name, explanation).clicked() {
            view.set(move |app| app.memory.is_shown = is_next);
        }
    }
}

/// The memory of a job in one line.
pub(super) fn line_ui(ui: &mut Ui, history: &MemoryHistory) {
    let Some(last) = history.last() else {
        ui.weak(RichText::new("The graph is drawn here while a job runs").small());
        return;
    };
    let figures = [
        (
            format!("Used {}", size_text(last.used_bytes)),
            "What all programs use on the device; on the CPU, what the engine has in memory",
        ),
        (
            format!("Peak {}", size_text(history.peak_bytes())),
            "The highest value of Used in this job. It is more than Allocated, because not all \
                of it is tensors",
        ),
        (
            format!("{} free", size_text(history.free_bytes(last))),
            "The rest of the device's memory",
        ),
    ];
    let is_total_known = last.total_bytes > 0;
    for (text, hover) in figures.into_iter().take(2 + usize::from(is_total_known)) {
        ui.label(RichText::new(text).small()).on_hover_text(hover);
    }
}

/// Names and values of the lines of the graph of the form's job.
pub(super) fn expected_ui(ui: &mut Ui, planned: &FormPlan) {
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
pub(super) fn legend_ui(ui: &mut Ui, view: &mut UiContext<'_>, series: &[GraphSeries]) {
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
    let job = view
        .app
        .queue
        .last_job
        .filter(|_| view.app.queue.running.is_empty())?;
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

pub(super) fn machine_ui(
    ui: &mut Ui,
    history: &MemoryHistory,
    last: &MemorySample,
    series: &[GraphSeries],
) {
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
            if let Some(cache) = machine.page_cache_bytes.filter(|_| history.is_unified())
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
            for (figure, explanation) in [
                (busy, "How much of the time the GPU computes"),
                (temperature, "The GPU's temperature"),
                (power, "The GPU's power"),
            ] {
                let Some(figure) = figure else { continue };
                ui.add_space(theme::SMALL_GAP);
                ui.weak(RichText::new(figure).small())
                    .on_hover_text(explanation);
            }
        });
    });
}

fn series_ui(ui: &mut Ui, history: &MemoryHistory, last: &MemorySample, line: &GraphSeries) {
    if !is_known(history, line) {
        return;
    }
    let text = format!("{} {}", line.name, size_text((line.bytes)(last)));
    entry_ui(ui, &text, line.colour).on_hover_text(line.explanation);
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
