//! Memory graph of a job: stages as bands, expected peaks as pale blocks, measured lines over them, and marks where
//! memory was freed or ran out. Before a job runs it shows the expected values.
//!
//! Its accessible name describes all of it, as a plot has no names for a screen reader.

use egui_plot::{
    GridMark, HLine, HoverPosition, Line, LineStyle, Plot, PlotPoints, PlotUi, Polygon, Span, VLine,
};
use safelight_core::job_update::{FallbackAttempt, MemoryReclaim};
use safelight_core::memory::FallbackLevel;
use safelight_core::units::{about_text, from_gib, in_gib};

use crate::window::layout::prelude::*;
use crate::window::memory::MemoryHistory;
use crate::window::memory::panel::{
    GraphSeries, PREDICTED_PEAK, is_known, job_event_texts, time_text,
};
use crate::window::widgets::theme::ThemeColors;

/// Distance from the pointer within which events are described, as a share of the axis.
const NEAR: f64 = 0.012;

/// The graph of a job. Without samples it shows the expected memory.
pub(super) fn plot_ui(
    ui: &mut Ui,
    history: &MemoryHistory,
    series: &[GraphSeries],
    height: f32,
    is_running: bool,
) {
    let palette = palette(ui);
    let plan = history.plan.as_deref();
    let is_timed = history.last().is_some() || is_course_timed(history);
    let planned_cap = plan.map_or(0, |plan| plan.budget.cap_bytes);
    let cap = history.last().map_or(planned_cap, |it| it.total_bytes);
    // The machine's lines may be far above: then only their values are shown.
    let own = series.iter().filter(|line| !line.is_thin);
    let samples = &history.samples;
    let seen = own.flat_map(|line| samples.iter().map(move |sample| (line.bytes)(sample)));
    let most = seen.chain(plan.map(|plan| plan.peak_bytes)).max();
    let most = in_gib(most.unwrap_or_default());
    let now = history.end_secs();
    let rest = match history.course.as_ref().filter(|_| is_running) {
        Some(course) => course.rest(&history.bands, now),
        None => Vec::new(),
    };
    let end = rest.last().and_then(|band| band.to_secs).unwrap_or(now);
    let (end, cap) = (end.max(1.0), in_gib(cap));
    // A cap far above everything would flatten the lines: its own is at the upper edge then.
    let is_cap_near = cap <= most * 4.0;
    let top = (if is_cap_near { cap.max(most) } else { most } * 1.25).max(1e-3);
    let cap_at = if is_cap_near { cap } else { top * 0.99 };

    let shown = Plot::new("memory-graph")
        .height(height)
        .allow_drag(false)
        .allow_zoom(false)
        .allow_scroll(false)
        .allow_boxed_zoom(false)
        .allow_axis_zoom_drag(false)
        .show_background(false)
        .show_grid([false, true])
        .default_x_bounds(0.0, end)
        .default_y_bounds(0.0, top)
        .y_grid_spacer(move |_| grid_marks(top))
        .y_axis_formatter(|mark, _| size_text(from_gib(mark.value)))
        .y_axis_min_width(56.0)
        .x_axis_formatter(move |mark, _| {
            if is_timed {
                axis_secs(mark)
            } else {
                String::new()
            }
        })
        .label_formatter(|position| {
            let (HoverPosition::NearDataPoint { position, .. }
            | HoverPosition::Elsewhere { position }) = position;
            Some(text_at(history, series, position.x, end * NEAR))
        })
        .show(ui, |plot| {
            plot.set_plot_bounds_x(0.0..=end);
            plot.set_plot_bounds_y(0.0..=top);
            bands(plot, history, palette);
            for band in &rest {
                let secs = band.from_secs..band.to_secs.unwrap_or(end);
                let peak = history.predicted_of(band.stage).unwrap_or(0);
                block(plot, palette, secs, peak, 0.6);
            }
            lines(plot, history, series);
            marks(plot, history, palette);
            limits(plot, history, (top, cap_at), palette);
        });
    let text = graph_text(history);
    shown
        .response
        .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, &text));
}

fn is_course_timed(history: &MemoryHistory) -> bool {
    let course = history.course.as_ref();
    course.is_some_and(|course| course.is_timed)
}

fn graph_text(history: &MemoryHistory) -> String {
    if let (None, Some(plan), Some(course)) = (history.last(), &history.plan, &history.course) {
        let stages = plan.stages.iter().filter(|stage| stage.peak_bytes > 0);
        let stages = stages.map(|it| format!("{} {}", it.stage.label(), size_text(it.peak_bytes)));
        let stages: Vec<String> = stages.collect();
        return format!(
            "Expected memory: at most {} of a budget of {}. {}. By stage: {}",
            size_text(plan.peak_bytes),
            size_text(plan.budget.cap_bytes),
            time_text(course),
            stages.join(", ")
        );
    }
    let mut parts = vec![format!(
        "Memory graph over {}: at most {} used",
        duration_text(history.end_secs()),
        size_text(history.peak_bytes())
    )];
    if let Some(last) = history.last() {
        parts.push(format!("{} now", size_text(last.used_bytes)));
    }
    if let Some(plan) = &history.plan {
        let bytes = size_text(plan.peak_bytes);
        parts.push(format!("{bytes} of tensors were predicted"));
    }
    if let Some(band) = history.bands.last() {
        parts.push(format!("last stage: {}", band.stage.label()));
    }
    parts.extend(job_event_texts(history));
    parts.join(", ")
}

fn bands(plot: &mut PlotUi<'_>, history: &MemoryHistory, palette: &ThemeColors) {
    let now = history.end_secs();
    let strength = if history.last().is_some() { 1.0 } else { 2.0 };
    for band in &history.bands {
        let to = band.to_secs.unwrap_or(now);
        if to <= band.from_secs {
            continue;
        }
        let tint = theme::stage_tint(palette, band.stage);
        let span = Span::new(band.stage.label(), band.from_secs..=to).fill(tint);
        plot.span(span);
        if let Some(bytes) = history.predicted_of(band.stage) {
            block(plot, palette, band.from_secs..to, bytes, strength);
        }
    }
}

fn block(
    plot: &mut PlotUi<'_>,
    palette: &ThemeColors,
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
            .stroke((1.0, palette.allocated.gamma_multiply(0.35 * strength)))
            .allow_hover(false),
    );
}

fn lines<'a>(plot: &mut PlotUi<'a>, history: &MemoryHistory, series: &[GraphSeries]) {
    // The first on top: on the CPU allocated and reserved are equal.
    for line in series.iter().rev().filter(|line| is_known(history, line)) {
        let points: PlotPoints<'a> = history
            .samples
            .iter()
            .map(|sample| [sample.at_secs, in_gib((line.bytes)(sample))])
            .collect();
        let width = if line.is_thin { 1.0 } else { 1.8 };
        plot.line(Line::new(line.name, points).color(line.colour).width(width));
    }
}

fn marks(plot: &mut PlotUi<'_>, history: &MemoryHistory, palette: &ThemeColors) {
    for (at, reclaim) in &history.marks {
        let line = VLine::new(freed_text(reclaim), *at).style(LineStyle::dotted_dense());
        plot.vline(line.color(palette.good.gamma_multiply(0.6)));
    }
    for (at, climb) in history.climb_marks() {
        let line = VLine::new(climb_text(climb), at).color(palette.amber);
        plot.vline(line.width(1.6));
    }
}

fn freed_text(reclaim: &MemoryReclaim) -> String {
    let given = reclaim.before_bytes.saturating_sub(reclaim.after_bytes);
    format!("{}: {} freed", reclaim.boundary, size_text(given))
}

/// `Decoding continued in tiles of 512 pixels`
pub(super) fn climb_text(climb: FallbackAttempt) -> String {
    let stage = climb.stage.label();
    let did = if climb.helped {
        "continued"
    } else {
        "was tried again"
    };
    let tile = climb.rung.tile().unwrap_or_default();
    let how = match climb.rung {
        FallbackLevel::Ground | FallbackLevel::FreeAndRetry => {
            "after unused memory was freed".to_owned()
        }
        FallbackLevel::StreamMore => "with streamed weights".to_owned(),
        FallbackLevel::Tiles512 | FallbackLevel::Tiles256 => format!("in tiles of {tile} pixels"),
        FallbackLevel::OnCpu => "on the CPU".to_owned(),
    };
    format!("{stage} {did} {how}")
}

fn limits(
    plot: &mut PlotUi<'_>,
    history: &MemoryHistory,
    (top, cap_at): (f64, f64),
    palette: &ThemeColors,
) {
    let mut dotted = |name: &str, at: f64, colour: Color32| {
        let line = HLine::new(name, at).color(colour);
        plot.hline(line.style(LineStyle::dotted_dense()));
    };
    if let Some(plan) = &history.plan {
        let peak = in_gib(plan.peak_bytes).min(top * 0.99);
        dotted(PREDICTED_PEAK, peak, palette.allocated);
        let [budget, available] = [plan.budget.cap_bytes, plan.budget.available_bytes].map(in_gib);
        if history.last().is_some() && budget < top {
            dotted("Budget", budget, palette.cap);
        }
        if history.last().is_none() && available < top {
            dotted("Available for tensors", available, palette.available);
        }
    }
    if cap_at <= 0.0 {
        return;
    }
    if history.last().is_none() {
        dotted("Budget", cap_at, palette.cap);
    } else {
        let line = HLine::new("Cap", cap_at).color(palette.cap);
        plot.hline(line.style(LineStyle::dashed_dense()));
    }
}

fn text_at(
    history: &MemoryHistory,
    series: &[GraphSeries],
    at_secs: f64,
    near_secs: f64,
) -> String {
    let band = history.stage_at(at_secs);
    let has_samples = history.last().is_some();
    let after = has_samples.then(|| format!("after {}", seconds_text(at_secs)));
    let stage = band.map(|band| band.stage.label().to_owned());
    let head: Vec<String> = stage.into_iter().chain(after).collect();
    let mut lines = vec![head.join(", ")];
    let is_past = at_secs <= history.end_secs() + near_secs;
    if let Some(sample) = history.nearest(at_secs).filter(|_| is_past) {
        for line in series.iter().filter(|line| is_known(history, line)) {
            lines.push(format!("{} {}", line.name, size_text((line.bytes)(sample))));
        }
    }
    if let Some(bytes) = band.and_then(|band| history.predicted_of(band.stage)) {
        lines.push(format!("Expected {}", size_text(bytes)));
    }
    if let Some(to_secs) = band.and_then(|band| band.to_secs)
        && !has_samples
        && is_course_timed(history)
    {
        let secs = to_secs - band.map_or(0.0, |band| band.from_secs);
        lines.push(format!("takes {}", about_text(secs)));
    }
    let is_near = |at: f64| (at - at_secs).abs() <= near_secs;
    let reclaims = history.marks.iter().filter(|(at, _)| is_near(*at));
    lines.extend(reclaims.map(|(_, reclaim)| freed_text(reclaim)));
    let climbs = history.climb_marks().into_iter();
    let climbs = climbs.filter(|(at, _)| is_near(*at));
    lines.extend(climbs.map(|(_, climb)| climb_text(climb)));
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
fn axis_secs(mark: GridMark) -> String {
    let GridMark { value, step_size } = mark;
    if value <= 0.0 {
        String::new()
    } else if step_size < 1.0 {
        format!("{value:.1} s")
    } else {
        format!("{value:.0} s")
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::job::Stage;

    use super::*;

    #[test]
    fn the_first_seconds_have_different_marks_and_none_at_zero() {
        let message = |step_size: f64| -> Vec<String> {
            let marks = (0..4).map(|index| GridMark {
                value: f64::from(index) * step_size,
                step_size,
            });
            marks.map(axis_secs).collect()
        };
        assert_eq!(message(0.2), ["", "0.2 s", "0.4 s", "0.6 s"]);
        assert_eq!(message(10.0), ["", "10 s", "20 s", "30 s"]);
    }

    #[test]
    fn fallback_attempt_is_described_in_one_sentence() {
        let climb = FallbackAttempt {
            stage: Stage::Decode,
            section: 0,
            rung: FallbackLevel::Tiles512,
            helped: true,
        };
        let expected = "Decoding continued in tiles of 512 pixels";
        assert_eq!(climb_text(climb), expected);
        let failed = FallbackAttempt {
            rung: FallbackLevel::OnCpu,
            helped: false,
            ..climb
        };
        assert_eq!(climb_text(failed), "Decoding was tried again on the CPU");
    }
}
