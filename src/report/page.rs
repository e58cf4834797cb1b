//! HTML of a report, or of two side by side: one self-contained file without scripts.

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};

use super::MachineReport;
use super::compare::{FigurePair, ReportFigures, summary};

/// The page of one report.
pub fn report(report: &MachineReport) -> String {
    render(context! { report => Serde(report), problems => report.problems() })
}

/// The page of a comparison.
pub fn comparison(before: &ReportFigures, after: &ReportFigures, pairs: &[FigurePair]) -> String {
    let table: Vec<Value> = (pairs.iter())
        .map(|pair| Value::from(pair.cells().to_vec()))
        .collect();
    let devices = [&before.device, &after.device];
    render(context! { pairs => table, devices => Serde(devices), summary => summary(pairs) })
}

fn render(values: Value) -> String {
    let mut environment = Environment::new();
    environment.add_filter("number", number);
    // The ending makes the template engine escape HTML.
    let page = environment.template_from_named_str("report.html", include_str!("report.html"));
    page.and_then(|page| page.render(values)).unwrap_or_else(|err| {
        tracing::error!("the page of a report: {err:#}");
        "<!doctype html><p>The page could not be made; the JSON file beside it has all figures.</p>".to_owned()
    })
}

/// Formats a number with about three digits.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if size >= 1e6 || (size < 1e-3 && size > 0.0) => return format!("{value:.1e}"),
        _ if value.fract() == 0.0 || size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// Formats a number with its unit.
pub fn with_unit(value: f64, unit: &str) -> String {
    format!("{} {unit}", number(value)).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123, "0.0123"),
            (0.1234, "0.123"),
            (1.234_56, "1.23"),
            (48.21, "48.2"),
            (812.3, "812"),
            (3.2e-6, "3.2e-6"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
