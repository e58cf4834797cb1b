//! What is expected of the form's job before it is made: a pale block a stage, as high as the plan says and as long as
//! such stages took here.
//!
//! Where nothing is known of the time, no seconds are shown.

use egui::{RichText, Ui};
use egui_plot::Span as BandSpan;

use crate::app::memory::course::Span;
use crate::app::memory::planning::Planned;
use crate::ui::memory::graph::{
    Extent, base_plot, block, dotted, fix_bounds, gib, name_plot, position_of,
};
use crate::ui::memory::words;
use crate::ui::widgets::{bytes_text, palette};
use crate::ui::{View, theme};

pub(super) fn expected_ui(ui: &mut Ui, view: &View<'_>) {
    let Some(planned) = view.session.planning.planned() else {
        return;
    };
    let palette = palette(ui);
    let plan = &planned.plan;
    let told = words::expected(planned);
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new("Expected").color(palette.weak));
        let peak = format!("Predicted peak {}", bytes_text(plan.peak_bytes));
        ui.label(RichText::new(peak).small().color(palette.allocated))
            .on_hover_text("The most that tensors are expected to take, weights included");
        let cap = format!("Budget {}", bytes_text(plan.budget.cap_bytes));
        ui.label(RichText::new(cap).small().color(palette.cap))
            .on_hover_text(format!(
                "What is gone up to on this device. {} of it is left for tensors: the rest is other programs' and the driver's",
                bytes_text(plan.budget.available_bytes)
            ));
    });
    plot_ui(ui, planned, &told);
}

fn plot_ui(ui: &mut Ui, planned: &Planned, told: &str) {
    let palette = palette(ui);
    let plan = &planned.plan;
    let spans = planned.course.spans();
    let is_timed = planned.course.is_timed;
    let extent = Extent::new(
        planned.course.total_secs(),
        gib(plan.peak_bytes),
        gib(plan.budget.cap_bytes),
    );
    let available = gib(plan.budget.available_bytes);
    let shown = base_plot("expected memory", extent)
        .x_axis_formatter(move |mark, _| {
            if is_timed {
                format!("{:.0} s", mark.value)
            } else {
                String::new()
            }
        })
        .label_formatter(|position| Some(told_at(&spans, is_timed, position_of(position).x)))
        .show(ui, |plot| {
            fix_bounds(plot, extent);
            for (index, span) in spans.iter().enumerate() {
                let range = span.from_secs..=span.to_secs;
                let tint = theme::stage_tint(palette, index);
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
                "Predicted peak",
                gib(plan.peak_bytes),
                palette.allocated,
            );
            if available < extent.top_gib {
                dotted(plot, "Left for tensors", available, palette.available);
            }
            if let Some(at) = extent.cap_at {
                dotted(plot, "Budget", at, palette.cap);
            }
        });
    name_plot(&shown, told);
}

fn told_at(spans: &[Span], is_timed: bool, at_secs: f64) -> String {
    let here = |span: &&Span| (span.from_secs..=span.to_secs).contains(&at_secs);
    let Some(span) = spans.iter().find(here) else {
        return String::new();
    };
    let mut lines = vec![
        span.stage.label().to_owned(),
        format!("Expected {}", bytes_text(span.peak_bytes)),
    ];
    if is_timed {
        let secs = crate::ui::widgets::duration_text(span.to_secs - span.from_secs);
        lines.push(format!("takes about {secs}"));
    }
    lines.join("\n")
}
