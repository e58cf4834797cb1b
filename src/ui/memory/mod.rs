//! The memory graph: the stages as bands, lines for what is used, allocated, reserved and there, and a mark wherever
//! memory was given back.
//!
//! What is not known is not drawn.

mod plan;

use egui::{Button, Color32, RichText, Ui};
use egui_plot::{GridMark, HLine, HoverPosition, Line, LineStyle, Plot, PlotPoints, Span, VLine};
use safelight_core::job::{JobId, MachineSample, MemorySample, Reclaim};

use crate::app::commands::AppCommand;
use crate::app::memory::MemoryHistory;
use crate::ui::memory::plan::plan_ui;
use crate::ui::widgets::{bytes_text, palette, with_icon};
use crate::ui::{View, icons, theme};

/// One line of the graph.
struct Series {
    name: &'static str,
    explanation: &'static str,
    colour: Color32,
    bytes: fn(&MemorySample) -> u64,
    /// Drawn thin: it is the machine's, and not the job's.
    is_thin: bool,
}

pub(super) fn memory_ui(ui: &mut Ui, view: &mut View<'_>) {
    plan_ui(ui, view);
    let palette = palette(ui);
    let series = [
        Series {
            name: "Used",
            explanation: "What all programs use on the device; on the CPU, what the engine has in memory",
            colour: palette.used,
            bytes: |sample| sample.used_bytes,
            is_thin: false,
        },
        Series {
            name: "Allocated",
            explanation: "Tensors that are alive, weights included",
            colour: palette.allocated,
            bytes: |sample| sample.allocated_bytes,
            is_thin: false,
        },
        Series {
            name: "Reserved",
            explanation: "What the allocator holds, in use or kept for later",
            colour: palette.reserved,
            bytes: |sample| sample.reserved_bytes,
            is_thin: false,
        },
        Series {
            name: "Page cache",
            explanation: "Files that the system keeps in main memory, and gives up when it is wanted",
            colour: palette.cache,
            bytes: |sample| sample.machine.page_cache_bytes.unwrap_or(0),
            is_thin: true,
        },
        Series {
            name: "Free",
            explanation: "What programs can still get of main memory",
            colour: palette.available,
            bytes: |sample| sample.machine.host_available_bytes.unwrap_or(0),
            is_thin: true,
        },
    ];
    legend_ui(ui, view, &series);
    let history = view.queue.memory();
    if let Some(last) = history.last() {
        machine_ui(ui, history, last, &series);
        plot_ui(ui, history, &series);
    }
}

fn legend_ui(ui: &mut Ui, view: &mut View<'_>, series: &[Series]) {
    let palette = palette(ui);
    let export = ui.horizontal(|ui| {
        ui.label(RichText::new("Memory").color(palette.weak));
        let history = view.queue.memory();
        let Some(last) = history.last() else {
            ui.label(
                RichText::new("is drawn here while a job runs")
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
            let text = format!("Cap {}", bytes_text(last.total_bytes));
            ui.label(RichText::new(text).small().color(palette.cap))
                .on_hover_text(
                    "All that there is. Where it lies far above, its line stays at the upper edge",
                );
        }
        let peak = history
            .samples()
            .iter()
            .map(|sample| sample.used_bytes)
            .max()
            .unwrap_or(0);
        let layout = egui::Layout::right_to_left(egui::Align::Center);
        ui.with_layout(layout, |ui| {
            let job = export_ui(ui, view);
            if let Some(predicted) = history.predicted_bytes() {
                let text = format!("Predicted peak {}", bytes_text(predicted));
                ui.label(RichText::new(text).small().color(palette.weak))
                    .on_hover_text("What the plan expects of tensors, the dotted line");
            }
            let text = format!("Peak {}", bytes_text(peak));
            ui.label(RichText::new(text).small().color(palette.weak))
                .on_hover_text("The most that was used in this job");
            job
        })
        .inner
    });
    if let Some(job) = export.inner {
        view.push(AppCommand::ExportTelemetry(job));
    }
}

/// A record is whole when its job has ended.
fn export_ui(ui: &mut Ui, view: &View<'_>) -> Option<JobId> {
    let job = view
        .queue
        .last_job
        .filter(|_| view.queue.running.is_none())?;
    let text = RichText::new(with_icon(icons::DOWNLOAD, "Export")).small();
    ui.add(Button::new(text).frame_when_inactive(false))
        .on_hover_text("Write what was measured during this job as a table or as JSON: memory ten times a second, temperature, power, stages, what was given back")
        .accessible_name("Export telemetry")
        .clicked()
        .then_some(job)
}

/// What the machine around the job says, in a line of its own; nothing where nothing is known.
fn machine_ui(ui: &mut Ui, history: &MemoryHistory, last: &MemorySample, series: &[Series]) {
    let machine = &last.machine;
    if *machine == MachineSample::default() {
        return;
    }
    let weak = palette(ui).weak;
    ui.scope(|ui| {
        ui.spacing_mut().interact_size.y = 0.0;
        ui.horizontal_wrapped(|ui| {
            ui.label(RichText::new("Machine").color(weak));
            for line in series.iter().filter(|line| line.is_thin) {
                series_ui(ui, history, last, line);
            }
            let figures = [
                (
                    machine.busy_percent,
                    "Busy",
                    " %",
                    "How much of the time the GPU computes",
                ),
                (
                    machine.temperature_celsius,
                    "",
                    " °C",
                    "The GPU's temperature",
                ),
                (machine.power_watts, "", " W", "The GPU's power"),
            ];
            for (figure, name, unit, explanation) in figures {
                let Some(figure) = figure else { continue };
                ui.add_space(theme::SMALL_GAP);
                let text = format!("{name} {figure:.0}{unit}");
                ui.label(RichText::new(text.trim_start()).small().color(weak))
                    .on_hover_text(explanation);
            }
        });
    });
}

fn series_ui(ui: &mut Ui, history: &MemoryHistory, last: &MemorySample, line: &Series) {
    if !is_known(history, line) {
        return;
    }
    let text = format!("{} {}", line.name, bytes_text((line.bytes)(last)));
    ui.add_space(theme::SMALL_GAP);
    ui.label(RichText::new(text).small().color(line.colour))
        .on_hover_text(line.explanation);
}

/// An engine that cannot tell a figure leaves it at zero.
fn is_known(history: &MemoryHistory, line: &Series) -> bool {
    history
        .samples()
        .iter()
        .any(|sample| (line.bytes)(sample) > 0)
}

fn plot_ui(ui: &mut Ui, history: &MemoryHistory, series: &[Series]) {
    let palette = palette(ui);
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let cap = history.last().map_or(0.0, |sample| gib(sample.total_bytes));
    let most = history
        .samples()
        .iter()
        .flat_map(|sample| {
            // The machine's lines may lie far above, and then only their figures are shown.
            let own = series.iter().filter(|line| !line.is_thin);
            own.map(move |line| gib((line.bytes)(sample)))
        })
        .chain(history.predicted_bytes().map(gib))
        .fold(0.0, f64::max);
    // A cap far above everything would press the lines flat: its line stays at the upper edge then.
    let is_cap_near = cap < most * 4.0;
    let top = (if is_cap_near { cap.max(most) } else { most } * 1.25).max(1e-3);
    let end = history.end_secs();
    Plot::new("memory graph")
        .height(theme::GRAPH_HEIGHT)
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_axis_zoom_drag(false)
        .show_background(false)
        .show_grid([false, true])
        .default_x_bounds(0.0, end.max(1.0))
        .default_y_bounds(0.0, top)
        .y_grid_spacer(move |_| grid_marks(top))
        .x_axis_formatter(|mark, _| format!("{:.0} s", mark.value))
        .y_axis_formatter(|mark, _| axis_bytes(mark.value))
        .y_axis_min_width(56.0)
        .label_formatter(|position| {
            let (name, at) = match position {
                HoverPosition::NearDataPoint {
                    plot_name,
                    position,
                    ..
                } => (*plot_name, position),
                HoverPosition::Elsewhere { position } => ("", position),
            };
            Some(format!("{name}\n{}\nafter {:.1} s", axis_bytes(at.y), at.x))
        })
        .show(ui, |plot| {
            plot.set_plot_bounds_x(0.0..=end.max(1.0));
            plot.set_plot_bounds_y(0.0..=top);
            for (index, band) in history.bands().iter().enumerate() {
                let to = band.to_secs.unwrap_or(end);
                if to > band.from_secs {
                    let name = band.stage.label();
                    plot.span(
                        Span::new(name, band.from_secs..=to)
                            .fill(theme::stage_tint(palette, index)),
                    );
                }
            }
            // The first on top: on the CPU what is allocated and what is reserved are the same.
            for line in series.iter().rev().filter(|line| is_known(history, line)) {
                let points: PlotPoints<'_> = history
                    .samples()
                    .iter()
                    .map(|sample| [sample.at_secs, gib((line.bytes)(sample))])
                    .collect();
                let width = if line.is_thin { 1.0 } else { 1.8 };
                plot.line(Line::new(line.name, points).color(line.colour).width(width));
            }
            for mark in history.marks() {
                let Reclaim {
                    boundary,
                    before_bytes,
                    after_bytes,
                } = &mark.reclaim;
                let given = bytes_text(before_bytes.saturating_sub(*after_bytes));
                plot.vline(
                    VLine::new(format!("{boundary}: {given} given back"), mark.at_secs)
                        .color(palette.good.gamma_multiply(0.6))
                        .style(LineStyle::dotted_dense()),
                );
            }
            if let Some(bytes) = history.predicted_bytes() {
                plot.hline(
                    HLine::new("Predicted peak", gib(bytes).min(top * 0.99))
                        .color(palette.allocated)
                        .style(LineStyle::dotted_dense()),
                );
            }
            if cap > 0.0 {
                let height = if is_cap_near { cap } else { top * 0.99 };
                plot.hline(
                    HLine::new("Cap", height)
                        .color(palette.cap)
                        .style(LineStyle::dashed_dense()),
                );
            }
        });
}

/// Three to six lines at round sizes.
fn grid_marks(top: f64) -> Vec<GridMark> {
    let step_size = (top / 3.0).log2().floor().exp2();
    (0..=(top / step_size) as u32)
        .map(|index| GridMark {
            value: f64::from(index) * step_size,
            step_size,
        })
        .collect()
}

/// A value of the axis, in GiB, as a size.
fn axis_bytes(gib: f64) -> String {
    bytes_text((gib.max(0.0) * f64::from(1 << 30)) as u64)
}
