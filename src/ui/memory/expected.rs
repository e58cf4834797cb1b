//! What is expected of the form's job before it is made: a pale block a stage, as high as the plan says and as long as
//! such stages took here.
//!
//! Where nothing is known of the time, no seconds are shown.

use egui::{RichText, Ui};
use egui_plot::Span as BandSpan;
use safelight_core::units::{about_text, in_gib, size_text};

use crate::app::memory::course::Span;
use crate::app::memory::planning::Planned;
use crate::ui::memory::graph::{
    Extent, axis_secs, base_plot, block, dotted, fix_bounds, name_plot, position_of,
};
use crate::ui::memory::legend::heading_ui;
use crate::ui::memory::{PREDICTED_PEAK, Room, predicted_peak_text, time_text};
use crate::ui::widgets::palette;
use crate::ui::{View, theme};

pub(super) fn expected_ui(ui: &mut Ui, view: &mut View<'_>, height: f32) {
    let palette = palette(ui);
    let room = Room::below(ui, height);
    ui.horizontal_wrapped(|ui| {
        heading_ui(ui, view, "Expected");
        let Some(planned) = view.app.memory.planned() else {
            return;
        };
        let plan = &planned.plan;
        let peak = predicted_peak_text(plan.peak_bytes);
        ui.label(RichText::new(peak).small().color(palette.allocated))
            .on_hover_text("The most that tensors are expected to take, weights included");
        let cap = format!("Budget {}", size_text(plan.budget.cap_bytes));
        ui.label(RichText::new(cap).small().color(palette.cap))
            .on_hover_text(format!(
                "The most that is used on this device. {} of it is left for tensors: other \
                programs and the driver have the rest",
                size_text(plan.budget.available_bytes)
            ));
    });
    if let Some(planned) = view.app.memory.planned() {
        plot_ui(ui, planned, room.left(ui));
    }
}

fn plot_ui(ui: &mut Ui, planned: &Planned, height: f32) {
    let palette = palette(ui);
    let plan = &planned.plan;
    let spans = planned.course.spans();
    let is_timed = planned.course.is_timed;
    let extent = Extent::new(
        planned.course.total_secs(),
        in_gib(plan.peak_bytes),
        in_gib(plan.budget.cap_bytes),
    );
    let available = in_gib(plan.budget.available_bytes);
    let shown = base_plot("expected-memory", extent, height)
        .x_axis_formatter(move |mark, _| {
            if is_timed {
                axis_secs(mark)
            } else {
                String::new()
            }
        })
        .label_formatter(|position| Some(told_at(&spans, is_timed, position_of(position).x)))
        .show(ui, |plot| {
            fix_bounds(plot, extent);
            for span in &spans {
                let range = span.from_secs..=span.to_secs;
                let tint = theme::stage_tint(palette, span.stage);
                plot.span(BandSpan::new(span.stage.label(), range).fill(tint));
                block(
                    plot,
                    palette,
                    span.from_secs..span.to_secs,
                    span.peak_bytes,
                    2.0,
                );
            }
            dotted(
                plot,
                PREDICTED_PEAK,
                in_gib(plan.peak_bytes),
                palette.allocated,
            );
            if available < extent.top_gib {
                dotted(plot, "Available for tensors", available, palette.available);
            }
            if let Some(at) = extent.cap_at {
                dotted(plot, "Budget", at, palette.cap);
            }
        });
    name_plot(&shown, &expected_text(planned));
}

/// Accessible name of the expected memory plot.
fn expected_text(planned: &Planned) -> String {
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
        time_text(&planned.course),
        stages.join(", ")
    )
}

fn told_at(spans: &[Span], is_timed: bool, at_secs: f64) -> String {
    let here = |span: &&Span| (span.from_secs..=span.to_secs).contains(&at_secs);
    let Some(span) = spans.iter().find(here) else {
        return String::new();
    };
    let mut lines = vec![
        span.stage.label().to_owned(),
        format!("Expected {}", size_text(span.peak_bytes)),
    ];
    if is_timed {
        lines.push(format!(
            "takes {}",
            about_text(span.to_secs - span.from_secs)
        ));
    }
    lines.join("\n")
}
