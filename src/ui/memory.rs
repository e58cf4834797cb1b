//! The memory graph: the stages as bands, and lines for what is used, allocated, reserved and there.
//!
//! What is not known is not drawn.

use egui::{Color32, RichText, Ui};
use egui_plot::{GridMark, HLine, HoverPosition, Line, LineStyle, Plot, PlotPoints, Span};
use safelight_core::job::MemorySample;

use super::plan::plan_ui;
use super::widgets::{bytes_text, palette};
use super::{View, theme};
use crate::app::memory::MemoryHistory;

/// One line of the graph.
struct Series {
    name: &'static str,
    explanation: &'static str,
    colour: Color32,
    bytes: fn(&MemorySample) -> u64,
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
        },
        Series {
            name: "Allocated",
            explanation: "Tensors that are alive, weights included",
            colour: palette.allocated,
            bytes: |sample| sample.allocated_bytes,
        },
        Series {
            name: "Reserved",
            explanation: "What the allocator holds, in use or kept for later",
            colour: palette.reserved,
            bytes: |sample| sample.reserved_bytes,
        },
    ];
    let history = view.queue.memory();
    legend_ui(ui, history, &series);
    if history.last().is_some() {
        plot_ui(ui, history, &series);
    }
}

fn legend_ui(ui: &mut Ui, history: &MemoryHistory, series: &[Series]) {
    let palette = palette(ui);
    ui.horizontal(|ui| {
        ui.label(RichText::new("Memory").color(palette.weak));
        let Some(last) = history.last() else {
            ui.label(
                RichText::new("is drawn here while a job runs")
                    .small()
                    .color(palette.weak),
            );
            return;
        };
        for line in series.iter().filter(|line| is_known(history, line)) {
            let text = format!("{} {}", line.name, bytes_text((line.bytes)(last)));
            ui.add_space(theme::SMALL_GAP);
            ui.label(RichText::new(text).small().color(line.colour))
                .on_hover_text(line.explanation);
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
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            if let Some(predicted) = history.predicted_bytes() {
                let text = format!("Predicted peak {}", bytes_text(predicted));
                ui.label(RichText::new(text).small().color(palette.weak))
                    .on_hover_text("What the plan expects of tensors, the dotted line");
            }
            let text = format!("Peak {}", bytes_text(peak));
            ui.label(RichText::new(text).small().color(palette.weak))
                .on_hover_text("The most that was used in this job");
        });
    });
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
        .flat_map(|sample| series.iter().map(move |line| gib((line.bytes)(sample))))
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
                plot.line(Line::new(line.name, points).color(line.colour).width(1.8));
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
