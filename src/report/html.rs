//! A report as one page that needs nothing else: no script, no picture, no font from anywhere.

use std::fmt::Write as _;

use super::course::Sample;
use super::plot::{self, Bar};
use super::{Figure, Report, Row, Section, Target};

const STYLE: &str = include_str!("style.css");

/// Rows that are drawn as bars at most.
const MOST_BARS: usize = 20;

/// The whole page.
pub fn page(report: &Report) -> String {
    let mut body = String::new();
    head(&mut body, report);
    targets(&mut body, &report.targets);
    facts(&mut body, report);
    for section in &report.sections {
        self::section(&mut body, section);
    }
    course(&mut body, report);
    findings(&mut body, report);
    document("Safelight report", &body)
}

/// A page around its body.
pub(super) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Three digits, or as many as a large number has.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e6 {
        format!("{value:.0}")
    } else if size >= 1e6 || size < 1e-3 {
        format!("{value:.1e}")
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// A value with its unit, for people.
pub fn figure(figure: &Figure) -> String {
    let text = format!("{} {}", number(figure.value), figure.unit);
    text.trim_end().to_owned()
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => { writeln!($out, $($text)*).ok() };
}

fn head(out: &mut String, report: &Report) {
    put!(out, "<h1>Safelight report</h1>");
    put!(
        out,
        "<p class=\"weak\">{} · Safelight {} · {} · measured in {:.0} s</p>",
        escape(&report.device),
        escape(&report.safelight),
        escape(&report.made),
        report.secs
    );
    if let Some(why) = &report.incomplete {
        put!(
            out,
            "<div class=\"card warning\"><b class=\"bad\">Incomplete</b><br>{} What is below was measured.</div>",
            escape(why)
        );
    }
    let rows = report.sections.iter().flat_map(|section| &section.rows);
    let bad: Vec<&Row> = rows.filter(|row| row.is_bad).collect();
    let problems: Vec<&String> = report.sections.iter().flat_map(|it| &it.problems).collect();
    if !bad.is_empty() || !problems.is_empty() {
        put!(
            out,
            "<div class=\"card warning\"><b class=\"bad\">What is not as it should be</b><ul class=\"plain\">"
        );
        for row in bad {
            put!(
                out,
                "<li>{}: {}</li>",
                escape(&row.label),
                escape(&row.note)
            );
        }
        for problem in problems {
            put!(out, "<li>{}</li>", escape(problem));
        }
        put!(out, "</ul></div>");
    }
}

fn targets(out: &mut String, targets: &[Target]) {
    put!(out, "<div class=\"targets\">");
    for target in targets {
        let below = format!("below {} {}", number(target.below), target.unit);
        let Some(measured) = target.measured else {
            put!(
                out,
                "<div class=\"target\">{}<b class=\"weak\">not measured</b><div class=\"track\"></div><small>should be {below}</small></div>",
                escape(&target.name)
            );
            continue;
        };
        let class = if measured < target.below {
            "good"
        } else {
            "bad"
        };
        put!(
            out,
            "<div class=\"target\">{}<b class=\"{class}\">{} {}</b><div class=\"track\"><i class=\"{class}\" style=\"width:{:.0}%\"></i></div><small>should be {below}: {}</small></div>",
            escape(&target.name),
            number(measured),
            escape(&target.unit),
            (measured / target.below * 100.0).clamp(1.0, 100.0),
            escape(&target.note)
        );
    }
    put!(out, "</div>");
}

fn facts(out: &mut String, report: &Report) {
    put!(
        out,
        "<h2>This machine</h2><div class=\"card scroll\"><table>"
    );
    for fact in &report.facts {
        let (name, value) = (escape(&fact.name), escape(&fact.value));
        put!(
            out,
            "<tr><td class=\"name\">{name}</td><td>{value}</td></tr>"
        );
    }
    put!(out, "</table></div>");
}

fn section(out: &mut String, section: &Section) {
    put!(
        out,
        "<h2>{}</h2><p class=\"about\">{} <span class=\"weak\">{:.0} s</span></p>",
        escape(&section.title),
        escape(&section.about),
        section.secs
    );
    put!(out, "<div class=\"card\">");
    for problem in &section.problems {
        put!(out, "<p class=\"bad\">{}</p>", escape(problem));
    }
    // Too many bars show less than a table.
    let is_drawn = section.rows.len() <= MOST_BARS && bars(out, &section.rows);
    if !is_drawn || section.rows.iter().any(|row| row.figures.len() != 1) {
        table(out, &section.rows);
    }
    if !section.left_out.is_empty() {
        put!(out, "<p class=\"weak\">Left out:</p><ul class=\"plain\">");
        for left in &section.left_out {
            put!(
                out,
                "<li>{}. <span class=\"weak\">{}</span></li>",
                escape(&left.label),
                escape(&left.why)
            );
        }
        put!(out, "</ul>");
    }
    put!(out, "</div>");
}

/// Bars of the rows' first figures, one picture a unit. `false` where some are in none: one bar alone says nothing, and
/// distances, which have no unit, differ by powers of ten.
fn bars(out: &mut String, rows: &[Row]) -> bool {
    let mut num_drawn = 0;
    let mut units: Vec<&str> = Vec::new();
    for row in rows {
        let unit = row.figures.first().map(|figure| figure.unit.as_str());
        if let Some(unit) = unit.filter(|unit| !unit.is_empty() && !units.contains(unit)) {
            units.push(unit);
        }
    }
    for unit in units {
        let bars: Vec<Bar<'_>> = rows
            .iter()
            .filter_map(|row| {
                let figure = row.figures.first().filter(|figure| figure.unit == unit)?;
                Some(Bar {
                    label: &row.label,
                    value: figure.value,
                    unit,
                    is_bad: row.is_bad,
                })
            })
            .collect();
        if bars.len() > 1 {
            num_drawn += bars.len();
            out.push_str(&plot::bars(&bars));
        }
    }
    num_drawn == rows.len()
}

/// Columns by the names of figures, in the order in which they first come.
fn table(out: &mut String, rows: &[Row]) {
    if rows.is_empty() {
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for figure in rows.iter().flat_map(|row| &row.figures) {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    put!(out, "<div class=\"scroll\"><table><tr><th></th>");
    for name in &names {
        put!(out, "<th class=\"number\">{}</th>", escape(name));
    }
    put!(out, "<th></th></tr>");
    for row in rows {
        put!(out, "<tr><td>{}</td>", escape(&row.label));
        for name in &names {
            let found = row.figures.iter().find(|figure| figure.name == *name);
            let text = found.map(figure).unwrap_or_default();
            put!(out, "<td class=\"number\">{text}</td>");
        }
        let class = if row.is_bad { "bad" } else { "weak" };
        put!(out, "<td class=\"{class}\">{}</td></tr>", escape(&row.note));
    }
    put!(out, "</table></div>");
}

fn course(out: &mut String, report: &Report) {
    let course = &report.course;
    type Of = fn(&Sample) -> Option<f64>;
    let lines: [(&str, &str, Of); 4] = [
        ("Memory in use", "GiB", |sample| sample.used_gib),
        ("Power", "W", |sample| sample.watts),
        ("Temperature", "°C", |sample| sample.celsius),
        ("How busy the GPU was", "%", |sample| sample.busy_percent),
    ];
    let plots: String = lines
        .iter()
        .map(|(title, unit, of)| {
            let points: Vec<(f64, f64)> = course
                .samples
                .iter()
                .filter_map(|sample| Some((sample.at_secs, of(sample)?)))
                .collect();
            plot::line(title, unit, &points, &course.marks)
        })
        .collect();
    if plots.is_empty() {
        return;
    }
    put!(
        out,
        "<h2>While it was measured</h2><p class=\"about\">By seconds since the report began."
    );
    for (index, (_, name)) in course.marks.iter().enumerate() {
        put!(out, " {}: {}.", index + 1, escape(name));
    }
    put!(out, "</p><div class=\"card\">{plots}</div>");
}

fn findings(out: &mut String, report: &Report) {
    put!(
        out,
        "<h2>What the doctor found</h2><div class=\"card scroll\"><table>"
    );
    for finding in &report.findings {
        let (class, word) = match finding.status.as_str() {
            "ok" => ("good", "fine"),
            "warn" => ("", "note"),
            _ => ("bad", "problem"),
        };
        put!(
            out,
            "<tr><td class=\"{class}\">{word}</td><td class=\"name\">{}</td><td>{}<br><span class=\"weak\">{}</span></td></tr>",
            escape(&finding.name),
            escape(&finding.message),
            escape(&finding.advice)
        );
    }
    put!(out, "</table></div>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123, "0.0123"),
            (1.234_56, "1.23"),
            (48.21, "48.2"),
            (812.3, "812"),
            (3.2e-6, "3.2e-6"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
