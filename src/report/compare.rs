//! Comparison of two reports, or of two runs of `safelight-bench --json`, figure by figure.

use std::collections::BTreeMap;
use std::path::Path;

use safelight_core::files::read_text_bounded;
use safelight_core::job::JobError;
use serde_json::Value;

use super::page::with_unit;
use super::{MachineReport, ReportFigure, ReportRow, rows};

/// A change of less is noise.
const TOLERANCE: f64 = 0.05;
/// Shorter times are dominated by launch overhead.
const MIN_SECS: f64 = 0.000_2;

/// Labelled figures in the order in which they were measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportFigures {
    pub device: String,
    figures: Vec<(String, ReportFigure)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareVerdict {
    Same,
    Better,
    Worse,
    /// Only one side has the figure.
    Unpaired,
}

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct FigurePair {
    pub label: String,
    pub unit: String,
    pub before: Option<f64>,
    pub after: Option<f64>,
    pub verdict: CompareVerdict,
}

impl ReportFigures {
    /// Reads the JSON of a report, or lines of the bench.
    pub fn read(path: &Path) -> Result<Self, JobError> {
        let bad = |why: &str| {
            let what = format!(
                "there is nothing to compare in it: {why}: {}",
                path.display()
            );
            JobError::invalid(what)
        };
        let text = read_text_bounded(path, 64 << 20).map_err(|err| bad(&err.to_string()))?;
        let is_report =
            serde_json::from_str::<Value>(&text).is_ok_and(|it| it["format"].is_number());
        let figures = if is_report {
            let report = MachineReport::read(path)?;
            let measured = report
                .sections
                .iter()
                .filter(|section| section.id != "targets");
            Self::from_rows(&report.device, measured.flat_map(|section| &section.rows))
        } else {
            Self::from_lines(&text)
        };
        if figures.figures.is_empty() {
            return Err(bad("expected a report, or lines of safelight-bench --json"));
        }
        Ok(figures)
    }

    /// Takes the figures of bench lines; other lines are skipped.
    pub fn from_lines(text: &str) -> Self {
        let lines: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let rows: Vec<ReportRow> = lines.iter().filter_map(rows::from_line).collect();
        let device = lines.iter().rev().find_map(|line| line["device"].as_str());
        Self::from_rows(device.unwrap_or_default(), &rows)
    }

    fn from_rows<'a>(device: &str, rows: impl IntoIterator<Item = &'a ReportRow>) -> Self {
        let figures = rows.into_iter().flat_map(|row| {
            let figures = row.figures.iter();
            figures.map(|figure| (format!("{}: {}", row.label, figure.name), figure.clone()))
        });
        Self {
            device: device.to_owned(),
            figures: figures.collect(),
        }
    }
}

fn judge(before: f64, after: f64, unit: &str) -> CompareVerdict {
    let is_noise = match unit {
        "s" => before.max(after) < MIN_SECS,
        // Rounding errors may grow tenfold.
        "" => after < before * 10.0 || after < 1e-5,
        "GiB" => (before - after).abs() < 0.05,
        _ => false,
    };
    let is_less = after < before * (1.0 - TOLERANCE);
    let is_more = after > before * (1.0 + TOLERANCE);
    let more_is_better = match unit {
        "s" | "ms" | "GiB" | "" => false,
        _ if unit.ends_with("/s") => true,
        _ => return CompareVerdict::Same,
    };
    match (is_less, is_more, more_is_better) {
        _ if is_noise => CompareVerdict::Same,
        (true, _, false) | (_, true, true) => CompareVerdict::Better,
        (true, _, true) | (_, true, false) => CompareVerdict::Worse,
        _ => CompareVerdict::Same,
    }
}

/// Pairs the figures of both: in the order of the first, then those that only the second has.
pub fn compare(before: &ReportFigures, after: &ReportFigures) -> Vec<FigurePair> {
    let values = |side: &ReportFigures| -> BTreeMap<String, f64> {
        let figures = side.figures.iter();
        figures
            .map(|(label, figure)| (label.clone(), figure.value))
            .collect()
    };
    let (olds, news) = (values(before), values(after));
    let added = after
        .figures
        .iter()
        .filter(|(label, _)| !olds.contains_key(label));
    let pair = |(label, figure): &(String, ReportFigure)| {
        let (before, after) = (olds.get(label).copied(), news.get(label).copied());
        let both = before.zip(after);
        FigurePair {
            label: label.clone(),
            unit: figure.unit.clone(),
            before,
            after,
            verdict: both.map_or(CompareVerdict::Unpaired, |(before, after)| {
                judge(before, after, &figure.unit)
            }),
        }
    };
    before.figures.iter().chain(added).map(pair).collect()
}

fn count(pairs: &[FigurePair], verdict: CompareVerdict) -> usize {
    pairs.iter().filter(|pair| pair.verdict == verdict).count()
}

pub fn num_worse(pairs: &[FigurePair]) -> usize {
    count(pairs, CompareVerdict::Worse)
}

impl FigurePair {
    pub fn ratio(&self) -> Option<f64> {
        let (before, after) = (self.before?, self.after?);
        (before > 0.0).then(|| after / before)
    }

    /// Label, both values, ratio and verdict.
    pub fn cells(&self) -> [String; 5] {
        let value = |value: Option<f64>| {
            value.map_or_else(|| "-".to_owned(), |it| with_unit(it, &self.unit))
        };
        let verdict = match (self.verdict, self.unit.as_str()) {
            (CompareVerdict::Same, _) => "",
            (CompareVerdict::Better, _) => "better",
            (CompareVerdict::Worse, "GiB") => "MORE",
            (CompareVerdict::Worse, "") => "LESS EXACT",
            (CompareVerdict::Worse, _) => "SLOWER",
            (CompareVerdict::Unpaired, _) if self.before.is_none() => "only in the second",
            (CompareVerdict::Unpaired, _) => "only in the first",
        };
        [
            self.label.clone(),
            value(self.before),
            value(self.after),
            self.ratio()
                .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            verdict.to_owned(),
        ]
    }
}

/// The result in one sentence.
pub fn summary(pairs: &[FigurePair]) -> String {
    let both = pairs.len() - count(pairs, CompareVerdict::Unpaired);
    let worse = match num_worse(pairs) {
        0 => "none".to_owned(),
        worse => worse.to_string(),
    };
    let better = count(pairs, CompareVerdict::Better);
    format!(
        "Of {both} figures that both have, {worse} got worse by more than 5 %, and {better} got better."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_more_than_five_percent_worse_are_marked() {
        let before = ReportFigures::from_lines(
            r#"{"case":"flux_1024","median_s":0.100,"peak_gib":22.6,"runs":5,"device":"A"}
               {"case":"load_large","gib_per_s":48.0,"median_s":0.02}
               {"case":"gone","median_s":1.0}"#,
        );
        let after = ReportFigures::from_lines(
            r#"{"case":"flux_1024","median_s":0.106,"peak_gib":22.7,"runs":3,"device":"A"}
               {"case":"load_large","gib_per_s":60.0,"median_s":0.0204}
               {"case":"new","median_s":1.0}"#,
        );
        let pairs = compare(&before, &after);
        let verdict = |label: &str| {
            let mut pairs = pairs.iter();
            pairs.find(|pair| pair.label == label).unwrap().verdict
        };
        assert_eq!(verdict("flux_1024: median"), CompareVerdict::Worse);
        assert_eq!(verdict("flux_1024: peak"), CompareVerdict::Same);
        assert_eq!(verdict("load_large: rate"), CompareVerdict::Better);
        assert_eq!(verdict("load_large: median"), CompareVerdict::Same);
        assert_eq!(verdict("gone: median"), CompareVerdict::Unpaired);
        assert_eq!(verdict("new: median"), CompareVerdict::Unpaired);
        assert_eq!(num_worse(&pairs), 1);
        assert!(!pairs.iter().any(|pair| pair.label.contains("runs")));
        let page = crate::report::page::comparison(&before, &after, &pairs);
        assert!(page.contains("SLOWER") && page.contains("1.06"), "{page}");
        let summary = summary(&pairs);
        assert!(summary.contains("1 got worse"), "{summary}");
    }

    #[test]
    fn rounding_is_no_difference_and_wrong_numbers_are() {
        assert_eq!(judge(1e-7, 5e-6, ""), CompareVerdict::Same);
        assert_eq!(judge(1e-3, 5e-3, ""), CompareVerdict::Same);
        assert_eq!(judge(1e-3, 0.5, ""), CompareVerdict::Worse);
        assert_eq!(judge(0.000_01, 0.000_1, "s"), CompareVerdict::Same);
        assert_eq!(judge(700.0, 300.0, "TFLOP/s"), CompareVerdict::Worse);
        assert_eq!(judge(0.0, 3.0, "jobs"), CompareVerdict::Same);
    }
}
