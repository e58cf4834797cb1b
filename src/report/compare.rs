//! Two measurements side by side: figure by figure, with what got slower, larger or farther away.
//!
//! Reads reports and what `safelight-bench --json` prints, one object a line. Measures nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use safelight_core::files::read_text_bounded;
use safelight_core::job::{JobError, JobErrorKind};
use serde_json::Value;

use super::html::{document, escape, number};
use super::{Figure, Report};

/// So much may a figure be worse before it counts: two runs on one machine differ by a little.
const TOLERANCE: f64 = 0.05;
/// Differences of what takes less than this are those of starting it.
const LEAST_SECS: f64 = 0.000_2;

/// Figures with their names, in the order in which they were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// What was measured on.
    pub device: String,
    figures: Vec<(String, Figure)>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Less,
    More,
    Neither,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    Better,
    Worse,
    /// One of the two has it not.
    Alone,
}

/// A figure of both.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub label: String,
    pub unit: String,
    pub before: Option<f64>,
    pub after: Option<f64>,
    pub verdict: Verdict,
}

impl Pair {
    /// How many times as much it is.
    pub fn ratio(&self) -> Option<f64> {
        let (before, after) = (self.before?, self.after?);
        (before > 0.0).then(|| after / before)
    }
}

impl Sheet {
    /// Of a report, or of lines of the bench.
    pub fn read(path: &Path) -> Result<Self, JobError> {
        let bad = |why: &str| {
            let what = format!(
                "there is nothing to compare in it: {why}: {}",
                path.display()
            );
            JobError::new(JobErrorKind::InvalidRequest, what)
        };
        let text = read_text_bounded(path, 64 << 20).map_err(|err| bad(&err.to_string()))?;
        let sheet = match serde_json::from_str::<Report>(&text) {
            Ok(report) if report.format > 0 => Self::of_report(&report),
            _ => Self::of_lines(&text),
        };
        if sheet.figures.is_empty() {
            return Err(bad("expected a report, or lines of safelight-bench --json"));
        }
        Ok(sheet)
    }

    fn of_report(report: &Report) -> Self {
        let rows = report.sections.iter().flat_map(|section| &section.rows);
        let figures = rows.flat_map(|row| {
            row.figures.iter().map(|figure| {
                let label = format!("{}: {}", row.label, figure.name);
                (label, figure.clone())
            })
        });
        Self {
            device: report.device.clone(),
            figures: figures.collect(),
        }
    }

    /// What the bench prints: a case, perhaps a way, and numbers whose names say their units.
    pub fn of_lines(text: &str) -> Self {
        let mut sheet = Self::default();
        for line in text.lines() {
            let Ok(Value::Object(line)) = serde_json::from_str(line) else {
                continue;
            };
            let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
            let number = |key: &str| line.get(key).and_then(Value::as_f64);
            let mut label = [text("case"), text("cache"), text("way")]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" ");
            if let Some(preserved) = number("preserved_gib") {
                // Writing to a string cannot fail.
                write!(label, ", {preserved} GiB kept free").ok();
            }
            if label.is_empty() {
                continue;
            }
            sheet.device = text("device").to_owned();
            let measured = line.iter().filter_map(|(key, value)| {
                let unit = unit_of(key)?;
                let figure = Figure::new(key, value.as_f64()?, unit);
                Some((format!("{label}: {key}"), figure))
            });
            sheet.figures.extend(measured);
        }
        sheet
    }
}

/// Of a field of the bench; `None` for what is no measure of how good something is.
fn unit_of(field: &str) -> Option<&'static str> {
    match field {
        "min_s" | "total_s" | "preserved_gib" | "cap_gib" | "gib" => None,
        "relative_l2" | "error" => Some(""),
        "secs" => Some("s"),
        _ if field.ends_with("gib_per_s") => Some("GiB/s"),
        _ if field.ends_with("_gib") => Some("GiB"),
        _ if field.ends_with("_s") => Some("s"),
        _ => None,
    }
}

impl Better {
    fn of(unit: &str) -> Self {
        match unit {
            "s" | "ms" | "GiB" | "%" | "" => Self::Less,
            _ if unit.ends_with("/s") => Self::More,
            _ => Self::Neither,
        }
    }
}

fn judge(before: f64, after: f64, unit: &str) -> Verdict {
    let is_tiny = match unit {
        "s" => before.max(after) < LEAST_SECS,
        // Rounding: ten times as far away is still nothing, a hundred times is not.
        "" => after < before * 10.0 || after < 1e-5,
        // What grew by less than these is noise.
        "%" => before.max(after) < 2.0,
        "GiB" => (before - after).abs() < 0.05,
        _ => false,
    };
    let better = Better::of(unit);
    let (less, more) = (
        after < before * (1.0 - TOLERANCE),
        after > before * (1.0 + TOLERANCE),
    );
    match (better, less, more) {
        _ if is_tiny => Verdict::Same,
        (Better::Less, true, _) | (Better::More, _, true) => Verdict::Better,
        (Better::Less, _, true) | (Better::More, true, _) => Verdict::Worse,
        _ => Verdict::Same,
    }
}

/// Every figure of either, in the first one's order and then what only the second has.
pub fn compare(before: &Sheet, after: &Sheet) -> Vec<Pair> {
    let of = |sheet: &Sheet| -> BTreeMap<String, f64> {
        let figures = sheet.figures.iter();
        figures
            .map(|(label, figure)| (label.clone(), figure.value))
            .collect()
    };
    let (olds, news) = (of(before), of(after));
    let only_after = after
        .figures
        .iter()
        .filter(|(label, _)| !olds.contains_key(label));
    let all = before.figures.iter().chain(only_after);
    all.map(|(label, figure)| {
        let (old, new) = (olds.get(label).copied(), news.get(label).copied());
        let verdict = match (old, new) {
            (Some(old), Some(new)) => judge(old, new, &figure.unit),
            _ => Verdict::Alone,
        };
        Pair {
            label: label.clone(),
            unit: figure.unit.clone(),
            before: old,
            after: new,
            verdict,
        }
    })
    .collect()
}

/// How many got worse.
pub fn num_worse(pairs: &[Pair]) -> usize {
    let worse = pairs.iter().filter(|pair| pair.verdict == Verdict::Worse);
    worse.count()
}

/// What a pair came to, in a word.
fn word(pair: &Pair) -> &'static str {
    match (pair.verdict, pair.unit.as_str()) {
        (Verdict::Same, _) => "",
        (Verdict::Better, _) => "better",
        (Verdict::Worse, "GiB" | "%") => "MORE",
        (Verdict::Worse, "") => "FARTHER",
        (Verdict::Worse, _) => "SLOWER",
        (Verdict::Alone, _) if pair.before.is_none() => "only in the second",
        (Verdict::Alone, _) => "only in the first",
    }
}

/// The cells of each pair, for tables: label, both values, ratio, word.
pub fn rows(pairs: &[Pair]) -> Vec<Vec<String>> {
    let heading = ["", "first", "second", "ratio", ""]
        .map(str::to_owned)
        .to_vec();
    let rows = pairs.iter().map(|pair| {
        let value = |value: Option<f64>| {
            let text = value.map(|value| format!("{} {}", number(value), pair.unit));
            text.map_or_else(|| "-".to_owned(), |text| text.trim_end().to_owned())
        };
        let ratio = pair
            .ratio()
            .map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        vec![
            pair.label.clone(),
            value(pair.before),
            value(pair.after),
            ratio,
            word(pair).to_owned(),
        ]
    });
    std::iter::once(heading).chain(rows).collect()
}

/// One sentence on all of them.
pub fn summary(pairs: &[Pair]) -> String {
    let both = pairs
        .iter()
        .filter(|pair| pair.verdict != Verdict::Alone)
        .count();
    let better = pairs
        .iter()
        .filter(|pair| pair.verdict == Verdict::Better)
        .count();
    match num_worse(pairs) {
        0 => format!(
            "Of {both} figures that both have, none got worse by more than 5 %, and {better} got better."
        ),
        worse => format!(
            "Of {both} figures that both have, {worse} got worse by more than 5 %, and {better} got better."
        ),
    }
}

/// The same as a page.
pub fn page(before: &Sheet, after: &Sheet, pairs: &[Pair]) -> String {
    let mut body = format!(
        "<h1>Two reports side by side</h1><p class=\"weak\">First: {}<br>Second: {}</p><p>{}</p><div class=\"card scroll\"><table>",
        escape(&before.device),
        escape(&after.device),
        escape(&summary(pairs))
    );
    for (index, cells) in rows(pairs).iter().enumerate() {
        let verdict = index.checked_sub(1).map(|index| pairs[index].verdict);
        let class = match verdict {
            Some(Verdict::Worse) => "bad",
            Some(Verdict::Better) => "good",
            _ => "weak",
        };
        let tag = if index == 0 { "th" } else { "td" };
        let [label, first, second, ratio, word] = &cells[..] else {
            continue;
        };
        // Writing to a string cannot fail.
        writeln!(
            body,
            "<tr><{tag}>{}</{tag}><{tag} class=\"number\">{}</{tag}><{tag} class=\"number\">{}</{tag}><{tag} class=\"number\">{}</{tag}><{tag} class=\"{class}\">{}</{tag}></tr>",
            escape(label), escape(first), escape(second), escape(ratio), escape(word)
        )
        .ok();
    }
    body.push_str("</table></div>\n");
    document("Safelight: two reports", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair<'a>(pairs: &'a [Pair], label: &str) -> &'a Pair {
        pairs.iter().find(|pair| pair.label == label).unwrap()
    }

    #[test]
    fn what_got_slower_by_more_than_a_twentieth_is_marked() {
        let before = Sheet::of_lines(
            r#"{"case":"flux_1024","median_s":0.100,"peak_gib":22.6,"runs":5,"device":"A"}
               {"case":"load_large","gib_per_s":48.0,"median_s":0.02}
               {"case":"gone","median_s":1.0}"#,
        );
        let after = Sheet::of_lines(
            r#"{"case":"flux_1024","median_s":0.106,"peak_gib":22.7,"runs":3,"device":"A"}
               {"case":"load_large","gib_per_s":60.0,"median_s":0.0204}
               {"case":"new","median_s":1.0}"#,
        );
        let pairs = compare(&before, &after);
        let verdict = |label: &str| pair(&pairs, label).verdict;
        assert_eq!(verdict("flux_1024: median_s"), Verdict::Worse);
        assert_eq!(verdict("flux_1024: peak_gib"), Verdict::Same);
        assert_eq!(verdict("load_large: gib_per_s"), Verdict::Better);
        assert_eq!(verdict("load_large: median_s"), Verdict::Same);
        assert_eq!(verdict("gone: median_s"), Verdict::Alone);
        assert_eq!(verdict("new: median_s"), Verdict::Alone);
        assert_eq!(num_worse(&pairs), 1);
        assert!(!pairs.iter().any(|pair| pair.label.contains("runs")));
        let page = page(&before, &after, &pairs);
        assert!(page.contains("SLOWER") && page.contains("1.06"), "{page}");
        assert!(
            summary(&pairs).contains("1 got worse"),
            "{}",
            summary(&pairs)
        );
    }

    #[test]
    fn rounding_is_no_difference_and_wrong_numbers_are() {
        assert_eq!(judge(1e-7, 5e-6, ""), Verdict::Same);
        assert_eq!(judge(1e-3, 5e-3, ""), Verdict::Same);
        assert_eq!(judge(1e-3, 0.5, ""), Verdict::Worse);
        assert_eq!(judge(0.000_01, 0.000_1, "s"), Verdict::Same);
        assert_eq!(judge(700.0, 300.0, "TFLOP/s"), Verdict::Worse);
        assert_eq!(judge(0.0, 3.0, "jobs"), Verdict::Same);
    }
}
