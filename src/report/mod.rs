//! Report on this machine: what it is, how fast and how exact it computes, as JSON and as an HTML page.
//!
//! [`make`] measures with separate engine processes under time limits; `redact` takes names out of every string
//! before anything is written. Nothing is sent anywhere.

pub mod compare;
mod machine;
mod measure;
pub mod page;
mod redact;
mod rows;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use safelight_core::files::{make_private_folder, read_text_bounded, write_atomically};
use safelight_core::job::{CancelToken, DeviceChoice, JobError, JobErrorKind};
use safelight_core::naming::{now_secs, utc_timestamp};
use safelight_core::settings::{AppPaths, Settings};
use serde::{Deserialize, Serialize};

pub use rows::line_text;

use redact::NameRedactor;

/// Version of the JSON; reports of another one are refused.
const FORMAT: u32 = 2;
/// Default time limit of a report.
pub const LIMIT: Duration = Duration::from_mins(10);

/// Everything that was measured; the JSON file is this struct.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineReport {
    pub format: u32,
    /// Version of the program.
    pub safelight: String,
    /// Time in UTC.
    pub made: String,
    /// The device that computed, in one line.
    pub device: String,
    pub secs: f64,
    /// Why sections are missing, one sentence.
    pub incomplete: Option<String>,
    pub sections: Vec<ReportSection>,
}

/// One table of the report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportSection {
    pub id: String,
    pub title: String,
    pub secs: f64,
    /// Explanation, one sentence; may be empty.
    pub about: String,
    /// Why rows are missing, one sentence each.
    pub problems: Vec<String>,
    pub rows: Vec<ReportRow>,
    /// Omissions with their reason, one sentence each.
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportRow {
    /// Stable name; empty for facts.
    pub id: String,
    pub label: String,
    /// One column each; the first also gets a bar.
    pub figures: Vec<ReportFigure>,
    pub note: String,
    pub is_bad: bool,
}

impl ReportRow {
    /// Names and values of the figures.
    pub fn figures_text(&self) -> String {
        let figures = self.figures.iter();
        let figures =
            figures.map(|it| format!("{} {}", it.name, page::with_unit(it.value, &it.unit)));
        figures.collect::<Vec<_>>().join(", ")
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportFigure {
    pub name: String,
    pub value: f64,
    pub unit: String,
}

impl ReportSection {
    fn new(id: &str, title: &str, rows: Vec<ReportRow>) -> Self {
        let [id, title] = [id, title].map(str::to_owned);
        Self {
            id,
            title,
            rows,
            ..Self::default()
        }
    }
}

impl ReportFigure {
    fn new(name: &str, value: f64, unit: &str) -> Self {
        let [name, unit] = [name, unit].map(str::to_owned);
        Self { name, value, unit }
    }
}

impl MachineReport {
    /// Rows that are bad, and problems of sections. Missed targets are not problems.
    fn problems(&self) -> Vec<String> {
        let measured = self
            .sections
            .iter()
            .filter(|section| section.id != "targets");
        let problems = measured.flat_map(|section| {
            let bad = section.rows.iter().filter(|row| row.is_bad);
            let bad = bad.map(|row| format!("{}: {}", row.label, row.note));
            section.problems.iter().cloned().chain(bad)
        });
        problems.collect()
    }

    fn figure(&self, section: &str, row: &str, name: &str) -> Option<f64> {
        let section = self.sections.iter().find(|it| it.id == section)?;
        let row = section.rows.iter().find(|it| it.id == row)?;
        let figure = row.figures.iter().find(|it| it.name == name)?;
        Some(figure.value)
    }

    /// Reads the JSON of a report; an error for other files and formats.
    pub fn read(path: &Path) -> Result<Self, JobError> {
        let bad = |why: String| {
            let what = format!("{why}: {}", path.display());
            JobError::invalid(what)
        };
        let text = read_text_bounded(path, 64 << 20).map_err(|err| bad(err.to_string()))?;
        let value: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let (Some(format), Some(program)) = (value["format"].as_u64(), value["safelight"].as_str())
        else {
            return Err(bad("this is not a report of Safelight".to_owned()));
        };
        if format != u64::from(FORMAT) {
            return Err(bad(format!(
                "the report has format {format} and this version reads format {FORMAT}"
            ))
            .advise(format!(
                "It was made with Safelight {program}. Make it again with this version: `safelight report`"
            )));
        }
        serde_json::from_value(value).map_err(|err| bad(format!("the report is damaged ({err})")))
    }

    /// Writes the JSON file and the page, each atomically.
    pub fn write(&self, path: &ReportPath) -> Result<(), JobError> {
        let write = || {
            if let Some(folder) = path.page.parent() {
                make_private_folder(folder)?;
            }
            let json = serde_json::to_string_pretty(self)?;
            write_atomically(&path.file, format!("{json}\n").as_bytes())?;
            write_atomically(&path.page, page::report(self).as_bytes())
        };
        write().map_err(|err: std::io::Error| {
            let what = format!(
                "the report cannot be written: {err}: {}",
                path.page.display()
            );
            JobError::new(JobErrorKind::Disk, what)
        })
    }
}

/// The two files of one report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPath {
    pub page: PathBuf,
    pub file: PathBuf,
}

impl ReportPath {
    /// Files in `folder`, named after the current time.
    pub fn new_in(folder: &Path) -> Self {
        let name = format!("safelight-report-{}", utc_timestamp(now_secs()));
        Self {
            page: folder.join(format!("{name}.html")),
            file: folder.join(format!("{name}.json")),
        }
    }
}

#[derive(Clone, Debug)]
pub struct ReportOptions {
    pub paths: AppPaths,
    pub settings: Settings,
    pub device: DeviceChoice,
    pub limit: Duration,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportProgress {
    /// From 0 to 1.
    pub part: f32,
    /// The current section or network.
    pub what: String,
}

/// Measures section by section until done, cancelled or out of time. `keep` gets the report after every section, since
/// the machine may not survive the next one.
pub fn make(
    options: &ReportOptions,
    cancel: &CancelToken,
    progress: &dyn Fn(ReportProgress),
    keep: &mut dyn FnMut(&MachineReport),
) -> MachineReport {
    let redactor = NameRedactor::of_this_user(&options.paths);
    let began = Instant::now();
    let mut run = measure::ReportRun::begin(options, cancel, progress);
    let finished = |run: &measure::ReportRun<'_>, incomplete: Option<&str>| {
        let mut report = run.report.clone();
        report.format = FORMAT;
        report.safelight = env!("CARGO_PKG_VERSION").to_owned();
        let stamp = utc_timestamp(now_secs());
        report.made = format!("{} {}:{}", &stamp[..10], &stamp[11..13], &stamp[13..15]);
        report.secs = began.elapsed().as_secs_f64();
        report.incomplete = incomplete.map(str::to_owned);
        if !report.sections.is_empty() {
            report.sections.insert(0, rows::targets(&report));
        }
        redactor.clean(&report)
    };
    let steps = (0..measure::STEPS.len()).map(Some);
    for step in std::iter::once(None).chain(steps) {
        if cancel.is_cancelled() {
            break;
        }
        match step {
            None => run.machine(),
            Some(step) => run.step(step),
        }
        let so_far = "It ended before everything was measured.";
        keep(&finished(&run, Some(so_far)));
    }
    let stopped = "It was stopped before everything was measured.";
    finished(&run, cancel.is_cancelled().then_some(stopped))
}

#[cfg(test)]
mod tests;
