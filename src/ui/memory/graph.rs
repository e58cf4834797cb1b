//! The graph of a job: stages as bands, what was expected of each as pale blocks behind the lines of what was measured,
//! and marks where memory was given back or ran out.
//!
//! The plot has no names for a screen reader, so it carries one text that tells it all.

use egui::{Color32, Ui};
use egui_plot::{
    GridMark, HLine, HoverPosition, Line, LineStyle, Plot, PlotPoint, PlotPoints, PlotResponse,
    PlotUi, Polygon, Span, VLine,
};
use safelight_core::job::{Climb, Reclaim};
use safelight_core::memory::Rung;
use safelight_core::units::{duration_text, from_gib, in_gib, seconds_text, size_text};

use crate::app::memory::MemoryHistory;
use crate::ui::memory::{PREDICTED_PEAK, Series, is_known, job_event_texts};
use crate::ui::theme::{self, Palette};
use crate::ui::widgets::palette;

/// A mark this near to the pointer is told of, as a share of the axis.
const NEAR: f64 = 0.012;

/// The ends of both axes.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub end_secs: f64,
    pub top_gib: f64,
    /// Where the line of the cap is drawn, which lies at the upper edge when it is far above.
    pub cap_at: Option<f64>,
}

impl Extent {
    pub fn new(end_secs: f64, most: f64, cap: f64) -> Self {
        // A cap far above everything would press the lines flat: its line stays at the upper edge then.
        let is_cap_near = cap < most * 4.0;
        let top = (if is_cap_near { cap.max(most) } else { most } * 1.25).max(1e-3);
        let at = if is_cap_near { cap } else { top * 0.99 };
        Self {
            end_secs: end_secs.max(1.0),
            top_gib: top,
            cap_at: (cap > 0.0).then_some(at),
        }
    }
}

pub(super) fn plot_ui(
    ui: &mut Ui,
    history: &MemoryHistory,
    series: &[Series],
    height: f32,
    is_running: bool,
) {
    let palette = palette(ui);
    let cap = history
        .last()
        .map_or(0.0, |sample| in_gib(sample.total_bytes));
    let most = history
        .samples()
        .iter()
        .flat_map(|sample| {
            // The machine's lines may lie far above, and then only their figures are shown.
            let own = series.iter().filter(|line| !line.is_thin);
            own.map(move |line| in_gib((line.bytes)(sample)))
        })
        .chain(history.predicted_bytes().map(in_gib))
        .fold(0.0, f64::max);
    let now = history.end_secs();
    let rest = match history.course().filter(|_| is_running) {
        Some(course) => course.rest(history.bands(), now),
        None => Vec::new(),
    };
    let end = rest.last().map_or(now, |span| span.to_secs);
    let extent = Extent::new(end, most, cap);
    let shown = base_plot("memory-graph", extent, height)
        .x_axis_formatter(|mark, _| axis_secs(mark))
        .label_formatter(|position| {
            let at = position_of(position);
            Some(told_at(history, series, at.x, extent.end_secs * NEAR))
        })
        .show(ui, |plot| {
            fix_bounds(plot, extent);
            bands(plot, history, palette);
            for span in &rest {
                block(
                    plot,
                    palette,
                    span.from_secs..span.to_secs,
                    span.peak_bytes,
                    0.6,
                );
            }
            lines(plot, history, series);
            marks(plot, history, palette);
            limits(plot, history, extent, palette);
        });
    name_plot(&shown, &graph_text(history));
}

/// Accessible name of a job's memory graph.
fn graph_text(history: &MemoryHistory) -> String {
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
    parts.extend(job_event_texts(history));
    parts.join(", ")
}

/// The bands of the stages, each with what was expected of it.
fn bands(plot: &mut PlotUi<'_>, history: &MemoryHistory, palette: &Palette) {
    let now = history.end_secs();
    for band in history.bands() {
        let to = band.to_secs.unwrap_or(now);
        if to <= band.from_secs {
            continue;
        }
        let tint = theme::stage_tint(palette, band.stage);
        let span = Span::new(band.stage.label(), band.from_secs..=to).fill(tint);
        plot.span(span);
        if let Some(bytes) = history.predicted_of(band.stage) {
            block(plot, palette, band.from_secs..to, bytes, 1.0);
        }
    }
}

/// What a stage is expected to take, as a pale block.
pub(super) fn block(
    plot: &mut PlotUi<'_>,
    palette: &Palette,
    secs: std::ops::Range<f64>,
    bytes: u64,
    strength: f32,
) {
    let height = in_gib(bytes);
    if height <= 0.0 {
        return;
    }
    let (from, to) = (secs.start, secs.end);
    let corners = vec![[from, 0.0], [from, height], [to, height], [to, 0.0]];
    plot.polygon(
        Polygon::new("Expected", PlotPoints::from(corners))
            .fill_color(palette.allocated.gamma_multiply(0.10 * strength))
            .stroke(egui::Stroke::new(
                1.0,
                palette.allocated.gamma_multiply(0.35 * strength),
            ))
            .allow_hover(false),
    );
}

fn lines<'a>(plot: &mut PlotUi<'a>, history: &MemoryHistory, series: &[Series]) {
    // The first on top: on the CPU what is allocated and what is reserved are the same.
    for line in series.iter().rev().filter(|line| is_known(history, line)) {
        let points: PlotPoints<'a> = history
            .samples()
            .iter()
            .map(|sample| [sample.at_secs, in_gib((line.bytes)(sample))])
            .collect();
        let width = if line.is_thin { 1.0 } else { 1.8 };
        plot.line(Line::new(line.name, points).color(line.colour).width(width));
    }
}

fn marks(plot: &mut PlotUi<'_>, history: &MemoryHistory, palette: &Palette) {
    for mark in history.marks() {
        plot.vline(
            VLine::new(freed_text(&mark.reclaim), mark.at_secs)
                .color(palette.good.gamma_multiply(0.6))
                .style(LineStyle::dotted_dense()),
        );
    }
    for (at, climb) in history.climb_marks() {
        plot.vline(
            VLine::new(climb_text(climb), at)
                .color(palette.amber)
                .width(1.6),
        );
    }
}

fn freed_text(reclaim: &Reclaim) -> String {
    let Reclaim {
        boundary,
        before_bytes,
        after_bytes,
    } = reclaim;
    let given = size_text(before_bytes.saturating_sub(*after_bytes));
    format!("{boundary}: {given} freed")
}

/// `Decoding continued in tiles of 512 pixels`
pub(super) fn climb_text(climb: Climb) -> String {
    let stage = climb.stage.label();
    let tile = climb.rung.tile().unwrap_or_default();
    match (climb.rung, climb.helped) {
        (Rung::Ground | Rung::FreeAndRetry, true) => {
            format!("{stage} continued after unused memory was freed")
        }
        (Rung::Ground | Rung::FreeAndRetry, false) => {
            format!("{stage} was tried again after unused memory was freed")
        }
        (Rung::StreamMore, true) => format!("{stage} continued with streamed weights"),
        (Rung::StreamMore, false) => format!("{stage} was tried with streamed weights"),
        (Rung::Tiles512 | Rung::Tiles256, true) => {
            format!("{stage} continued in tiles of {tile} pixels")
        }
        (Rung::Tiles512 | Rung::Tiles256, false) => {
            format!("{stage} was tried in tiles of {tile} pixels")
        }
        (Rung::OnCpu, true) => format!("{stage} continued on the CPU"),
        (Rung::OnCpu, false) => format!("{stage} was tried on the CPU"),
    }
}

fn limits(plot: &mut PlotUi<'_>, history: &MemoryHistory, extent: Extent, palette: &Palette) {
    if let Some(bytes) = history.predicted_bytes() {
        dotted(
            plot,
            PREDICTED_PEAK,
            in_gib(bytes).min(extent.top_gib * 0.99),
            palette.allocated,
        );
    }
    let planned = history.cap_bytes().map(in_gib);
    if let Some(cap) = planned.filter(|cap| *cap < extent.top_gib) {
        dotted(plot, "Budget", cap, palette.cap);
    }
    if let Some(at) = extent.cap_at {
        let line = HLine::new("Cap", at).color(palette.cap);
        plot.hline(line.style(LineStyle::dashed_dense()));
    }
}

pub(super) fn dotted(plot: &mut PlotUi<'_>, name: &str, at: f64, colour: Color32) {
    let line = HLine::new(name, at).color(colour);
    plot.hline(line.style(LineStyle::dotted_dense()));
}

/// A plot that stands still.
pub(super) fn base_plot(id: &'static str, extent: Extent, height: f32) -> Plot<'static> {
    let top = extent.top_gib;
    Plot::new(id)
        .height(height)
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_axis_zoom_drag(false)
        .show_background(false)
        .show_grid([false, true])
        .default_x_bounds(0.0, extent.end_secs)
        .default_y_bounds(0.0, top)
        .y_grid_spacer(move |_| grid_marks(top))
        .y_axis_formatter(|mark, _| axis_bytes(mark.value))
        .y_axis_min_width(56.0)
}

pub(super) fn fix_bounds(plot: &mut PlotUi<'_>, extent: Extent) {
    plot.set_plot_bounds_x(0.0..=extent.end_secs);
    plot.set_plot_bounds_y(0.0..=extent.top_gib);
}

pub(super) fn name_plot(shown: &PlotResponse<()>, text: &str) {
    shown
        .response
        .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, text));
}

pub(super) fn position_of(position: &HoverPosition<'_>) -> PlotPoint {
    match position {
        HoverPosition::NearDataPoint { position, .. } | HoverPosition::Elsewhere { position } => {
            *position
        }
    }
}

/// Everything that is known of a moment.
fn told_at(history: &MemoryHistory, series: &[Series], at_secs: f64, near_secs: f64) -> String {
    let stage = history.stage_at(at_secs).map(|band| band.stage);
    let mut lines = vec![match stage {
        Some(stage) => format!("{}, after {}", stage.label(), seconds_text(at_secs)),
        None => format!("after {}", seconds_text(at_secs)),
    }];
    let is_past = at_secs <= history.end_secs() + near_secs;
    if let Some(sample) = history.nearest(at_secs).filter(|_| is_past) {
        for line in series.iter().filter(|line| is_known(history, line)) {
            lines.push(format!("{} {}", line.name, size_text((line.bytes)(sample))));
        }
    }
    if let Some(bytes) = stage.and_then(|stage| history.predicted_of(stage)) {
        lines.push(format!("Expected {}", size_text(bytes)));
    }
    let is_near = |at: f64| (at - at_secs).abs() <= near_secs;
    let reclaims = history.marks().iter().filter(|mark| is_near(mark.at_secs));
    lines.extend(reclaims.map(|mark| freed_text(&mark.reclaim)));
    let climbs = history.climb_marks().into_iter();
    lines.extend(
        climbs
            .filter(|(at, _)| is_near(*at))
            .map(|(_, climb)| climb_text(climb)),
    );
    lines.join("\n")
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

/// A mark of the time axis, as exact as its steps. At the beginning the other axis has its zero.
pub(super) fn axis_secs(mark: GridMark) -> String {
    let GridMark { value, step_size } = mark;
    if value <= 0.0 {
        String::new()
    } else if step_size < 1.0 {
        format!("{value:.1} s")
    } else {
        format!("{value:.0} s")
    }
}

/// A value of the axis, in GiB, as a size.
pub(super) fn axis_bytes(gib: f64) -> String {
    size_text(from_gib(gib))
}

#[cfg(test)]
mod tests {
    use safelight_core::job::Stage;

    use super::*;

    #[test]
    fn the_first_seconds_have_different_marks_and_none_at_zero() {
        let told = |step_size: f64| -> Vec<String> {
            let marks = (0..4).map(|index| GridMark {
                value: f64::from(index) * step_size,
                step_size,
            });
            marks.map(axis_secs).collect()
        };
        assert_eq!(told(0.2), ["", "0.2 s", "0.4 s", "0.6 s"]);
        assert_eq!(told(10.0), ["", "10 s", "20 s", "30 s"]);
    }

    #[test]
    fn what_was_tried_reads_like_a_sentence() {
        let climb = Climb {
            stage: Stage::Decode,
            section: 0,
            rung: Rung::Tiles512,
            helped: true,
        };
        assert_eq!(
            climb_text(climb),
            "Decoding continued in tiles of 512 pixels"
        );
        let failed = Climb {
            rung: Rung::OnCpu,
            helped: false,
            ..climb
        };
        assert_eq!(climb_text(failed), "Decoding was tried on the CPU");
    }

    #[test]
    fn an_empty_graph_has_words_too() {
        let text = graph_text(&MemoryHistory::default());
        assert!(text.starts_with("Memory graph over 0 s"), "{text}");
    }
}
