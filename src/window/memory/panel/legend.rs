//! The legend above the graph: names and current values of its lines, and the choice of the job.

use safelight_core::job_update::{MachineSample, MemorySample};

use crate::window::layout::prelude::*;
use crate::window::memory::MemoryHistory;
use crate::window::memory::panel::{GraphSeries, is_known, predicted_peak_text};

/// The form's job is shown if there is no other, if chosen, and while a slider changes it. A running job comes first.
pub(super) fn shows_plan(view: &UiContext<'_>) -> bool {
    let planning = &view.app.memory;
    if view.app.queue.running.is_some() || planning.planned().is_none() {
        return false;
    }
    let has_last = view.app.queue.memory().last().is_some();
    !has_last || planning.is_shown || planning.draft.is_some()
}

pub(super) fn heading_ui(ui: &mut Ui, view: &mut UiContext<'_>, name: &str) {
    let planning = &view.app.memory;
    let has_last = view.app.queue.running.is_none() && view.app.queue.memory().last().is_some();
    if !has_last || planning.planned().is_none() {
        ui.weak(name);
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

pub(super) fn expected_ui(ui: &mut Ui, view: &mut UiContext<'_>) {
    let palette = palette(ui);
    ui.horizontal_wrapped(|ui| {
        heading_ui(ui, view, "Expected");
        let Some(planned) = view.app.memory.planned() else {
            return;
        };
        let (peak, budget) = (planned.plan.peak_bytes, &planned.plan.budget);
        let text = predicted_peak_text(peak);
        ui.label(RichText::new(text).small().color(palette.allocated))
            .on_hover_text("The most that tensors are expected to take, weights included");
        let text = format!("Budget {}", size_text(budget.cap_bytes));
        ui.label(RichText::new(text).small().color(palette.cap))
            .on_hover_text(format!(
                "The most that is used on this device. {} of it is left for tensors: other \
                programs and the driver have the rest",
                size_text(budget.available_bytes)
            ));
    });
}

pub(super) fn legend_ui(ui: &mut Ui, view: &mut UiContext<'_>, series: &[GraphSeries]) {
    let palette = palette(ui);
    let export = ui.horizontal_wrapped(|ui| {
        heading_ui(ui, view, "Memory");
        let history = view.app.queue.memory();
        let Some(last) = history.last() else {
            ui.label(
                RichText::new("The graph is drawn here while a job runs")
                    .small()
                    .color(palette.weak),
            );
            return None;
        };
        for line in series.iter().filter(|line| !line.is_thin) {
            series_ui(ui, history, last, line);
        }
        if last.total_bytes > 0 {
            ui.add_space(theme::SMALL_GAP);
            let text = format!("Cap {}", size_text(last.total_bytes));
            ui.label(RichText::new(text).small().color(palette.cap))
                .on_hover_text(
                    "All memory of the device. Where it is far above the rest, its line stays at \
                    the upper edge",
                );
        }
        ui.add_space(theme::GAP);
        let text = format!("Peak used {}", size_text(history.peak_bytes()));
        ui.weak(RichText::new(text).small()).on_hover_text(
            "The highest value of Used in this job. It is more than Allocated, because not all \
                of it is tensors",
        );
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
        .filter(|_| view.app.queue.running.is_none())?;
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
    ui.add_space(theme::SMALL_GAP);
    ui.label(RichText::new(text).small().color(line.colour))
        .on_hover_text(line.explanation);
}
