//! Figures as inline SVG: bars beside each other, and lines over time. They take their colours from the page.

use std::fmt::Write as _;

use super::html::{escape, number};

const WIDTH: f64 = 860.0;
const LABEL: f64 = 400.0;
const ROW: f64 = 26.0;

/// One bar.
pub(super) struct Bar<'a> {
    pub(super) label: &'a str,
    pub(super) value: f64,
    pub(super) unit: &'a str,
    pub(super) is_bad: bool,
}

/// Bars of one unit, on a scale from 0 to the largest.
pub(super) fn bars(bars: &[Bar<'_>]) -> String {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let height = ROW * bars.len() as f64;
    let mut svg = open(WIDTH, height);
    let room = WIDTH - LABEL - 130.0;
    for (index, bar) in bars.iter().enumerate() {
        let y = ROW * index as f64;
        let width = (room * bar.value / most).max(1.5);
        let class = if bar.is_bad { "bar bad" } else { "bar" };
        let value = format!("{} {}", number(bar.value), bar.unit);
        // Writing to a string cannot fail.
        write!(
            svg,
            r#"<text class="label" x="{:.1}" y="{:.1}" text-anchor="end">{}</text><rect class="{class}" x="{LABEL}" y="{:.1}" width="{width:.1}" height="16" rx="3"/><text class="value" x="{:.1}" y="{:.1}">{}</text>"#,
            LABEL - 12.0,
            y + 17.0,
            escape(&shortened(bar.label)),
            y + 5.0,
            LABEL + width + 8.0,
            y + 17.0,
            escape(&value),
        )
        .ok();
    }
    svg.push_str("</svg>");
    svg
}

/// As long as there is room for; the table has the whole.
fn shortened(label: &str) -> String {
    const MOST: usize = 58;
    if label.chars().count() <= MOST {
        return label.to_owned();
    }
    let start: String = label.chars().take(MOST - 1).collect();
    format!("{start}…")
}

/// A line over time, in seconds, with marks where something began.
pub(super) fn line(
    title: &str,
    unit: &str,
    points: &[(f64, f64)],
    marks: &[(f64, String)],
) -> String {
    const HEIGHT: f64 = 150.0;
    const LEFT: f64 = 64.0;
    const TOP: f64 = 18.0;
    let last = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
    if points.len() < 2 || last <= 0.0 || most <= 0.0 {
        return String::new();
    }
    let top = nice(most);
    let x = |secs: f64| LEFT + (WIDTH - LEFT - 8.0) * secs / last;
    let y = |value: f64| TOP + (HEIGHT - TOP - 22.0) * (1.0 - value / top);
    let mut svg = open(WIDTH, HEIGHT);
    for part in [0.0, 0.5, 1.0] {
        let value = top * part;
        write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" y1="{0:.1}" x2="{WIDTH}" y2="{0:.1}"/><text class="tick" x="{1:.1}" y="{2:.1}" text-anchor="end">{3}</text>"#,
            y(value),
            LEFT - 8.0,
            y(value) + 4.0,
            number(value),
        )
        .ok();
    }
    for (index, (secs, name)) in marks.iter().filter(|mark| mark.0 <= last).enumerate() {
        write!(
            svg,
            r#"<line class="mark" x1="{0:.1}" y1="{TOP}" x2="{0:.1}" y2="{1:.1}"><title>{2}</title></line><text class="tick" x="{3:.1}" y="{4:.1}">{5}</text>"#,
            x(*secs),
            HEIGHT - 22.0,
            escape(name),
            x(*secs) + 3.0,
            HEIGHT - 8.0,
            index + 1,
        )
        .ok();
    }
    let path: Vec<String> = thinned(points)
        .map(|(secs, value)| format!("{:.1},{:.1}", x(secs), y(value)))
        .collect();
    write!(
        svg,
        r#"<polyline class="line" points="{}"/><text class="label" x="{LEFT}" y="12">{}, {}</text></svg>"#,
        path.join(" "),
        escape(title),
        escape(unit),
    )
    .ok();
    svg
}

/// No more points than a screen shows; the largest of those that lie together.
fn thinned(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    points
        .chunks(points.len().div_ceil(600).max(1))
        .filter_map(|chunk| {
            let largest = chunk.iter().max_by(|a, b| a.1.total_cmp(&b.1));
            largest.copied()
        })
}

/// A round number that is not below.
fn nice(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= value);
    step.unwrap_or(10.0) * power
}

fn open(width: f64, height: f64) -> String {
    format!(r#"<svg viewBox="0 0 {width} {height}" role="img">"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_of_nothing_and_names_cannot_break_out() {
        assert_eq!(bars(&[]), "");
        assert_eq!(line("Power", "W", &[(0.0, 1.0)], &[]), "");
        let bar = Bar {
            label: "<script>",
            value: 3.0,
            unit: "s",
            is_bad: false,
        };
        let svg = bars(&[bar]);
        assert!(
            svg.contains("&lt;script&gt;") && svg.ends_with("</svg>"),
            "{svg}"
        );
        let points: Vec<(f64, f64)> = (0..5000).map(|it| (f64::from(it), 40.0)).collect();
        let svg = line("Power", "W", &points, &[(3.0, "Loading".to_owned())]);
        assert!(svg.len() < 20_000 && svg.contains("Loading"));
    }

    #[test]
    fn scales_end_at_round_numbers() {
        for (value, expected) in [(0.7, 1.0), (1.3, 2.0), (21.0, 25.0), (480.0, 500.0)] {
            assert_eq!(nice(value), expected);
        }
    }
}
