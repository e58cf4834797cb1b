//! What is expected of the form's job before it is made: a pale block a stage, as high as the plan says and as long as
//! such stages took here.
//!
//! Where nothing is known of the time, no seconds are shown.

use egui::{RichText, Ui};
use egui_plot::Span as BandSpan;
use safelight_core::units::in_gib;

use crate::app::memory::course::Span;
use crate::app::memory::planning::Planned;
use crate::ui::memory::graph::{
    Extent, axis_secs, base_plot, block, dotted, fix_bounds, name_plot, position_of,
};
use crate::ui::memory::legend::heading_ui;
use crate::ui::memory::{Room, words};
use crate::ui::widgets::palette;
use crate::ui::{View, theme};

pub(super) fn expected_ui(ui: &mut Ui, view: &mut View<'_>, height: f32) {
    let palette = palette(ui);
    let room = Room::below(ui, height);
    ui.horizontal_wrapped(|ui| {
        heading_ui(ui, view, words::EXPECTED);
        let Some(planned) = view.app.memory.planned() else {
            return;
        };
        let plan = &planned.plan;
        let peak = words::predicted_peak(plan.peak_bytes);
        ui.label(RichText::new(peak).small().color(palette.allocated))
            .on_hover_text(words::PEAK_HOVER);
        let cap = words::budget(plan.budget.cap_bytes);
        ui.label(RichText::new(cap).small().color(palette.cap))
            .on_hover_text(words::budget_hover(plan.budget.available_bytes));
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
                words::PREDICTED_PEAK,
                in_gib(plan.peak_bytes),
                palette.allocated,
            );
            if available < extent.top_gib {
                dotted(plot, words::LEFT_FOR_TENSORS, available, palette.available);
            }
            if let Some(at) = extent.cap_at {
                dotted(plot, words::BUDGET, at, palette.cap);
            }
        });
    name_plot(&shown, &words::expected(planned));
}

fn told_at(spans: &[Span], is_timed: bool, at_secs: f64) -> String {
    let here = |span: &&Span| (span.from_secs..=span.to_secs).contains(&at_secs);
    let Some(span) = spans.iter().find(here) else {
        return String::new();
    };
    let mut lines = vec![
        span.stage.label().to_owned(),
        words::expected_bytes(span.peak_bytes),
    ];
    if is_timed {
        lines.push(words::takes_about(span.to_secs - span.from_secs));
    }
    lines.join("\n")
}
