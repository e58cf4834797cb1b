//! The owner's report: what this machine is, what was chosen for it, how fast it is, how right and how warm, as one
//! value that becomes a page and a file.
//!
//! An engine of its own measures each section under a time limit; one that hangs or dies ends only its section. Nothing
//! is sent anywhere, and nothing leaves this module before it went through [`redact`].

pub mod compare;
mod course;
mod engine;
mod facts;
pub mod html;
pub mod jobs;
pub mod levels;
mod plan;
mod plot;
pub mod redact;
mod rows;
mod sections;
mod targets;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use safelight_core::files::{make_private_folder, write_atomically};
use safelight_core::job::{CancelToken, DeviceChoice, JobError, JobErrorKind};
use safelight_core::naming::{now_secs, utc_timestamp};
use safelight_core::settings::{Paths, Settings};
use serde::{Deserialize, Serialize};

use course::Course;
use redact::Redactor;

/// Of the file; a later one is read as far as its names are known.
const FORMAT: u32 = 1;
/// What a report takes at most, unless somebody gives it less or more.
pub const LIMIT: Duration = Duration::from_mins(10);

/// Everything that one report says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    pub format: u32,
    /// The version of the program.
    pub safelight: String,
    /// In UTC.
    pub made: String,
    /// One line: what computed.
    pub device: String,
    pub secs: f64,
    /// Why there is less than a whole report; one sentence.
    pub incomplete: Option<String>,
    pub facts: Vec<Fact>,
    pub findings: Vec<Finding>,
    /// What was promised for Strix Halo, beside what was measured here.
    pub targets: Vec<Target>,
    pub sections: Vec<Section>,
    pub course: Course,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

/// What the doctor found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Finding {
    /// `ok`, `warn` or `fail`.
    pub status: String,
    pub name: String,
    pub message: String,
    pub advice: String,
}

/// A value that should stay below another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Target {
    pub name: String,
    pub below: f64,
    /// Absent where it was not measured.
    pub measured: Option<f64>,
    pub unit: String,
    /// Where the value comes from.
    pub note: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    /// As programs name it.
    pub id: String,
    pub title: String,
    pub secs: f64,
    /// What is to be known before the figures; one sentence, or nothing.
    pub about: String,
    /// Why there is less here than could be; one sentence each.
    pub problems: Vec<String>,
    pub rows: Vec<Row>,
    pub left_out: Vec<LeftOut>,
}

/// One thing that was measured, in one or more figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// As programs name it: the same thing in every report.
    pub id: String,
    pub label: String,
    /// The first is the one that is drawn.
    pub figures: Vec<Figure>,
    /// More words for people.
    pub note: String,
    /// Whether something is wrong with it.
    pub is_bad: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: String,
}

/// What was not measured here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftOut {
    pub label: String,
    pub why: String,
}

impl Figure {
    pub fn new(name: &str, value: f64, unit: &str) -> Self {
        Self {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
        }
    }
}

impl Report {
    pub fn section(&self, id: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.id == id)
    }

    /// A figure by the names of its section, row and itself.
    fn figure(&self, section: &str, row: &str, name: &str) -> Option<f64> {
        let mut rows = self.section(section)?.rows.iter();
        let row = rows.find(|it| it.id == row)?;
        let figure = row.figures.iter().find(|it| it.name == name)?;
        Some(figure.value)
    }

    /// Reads one that was written.
    pub fn read(path: &Path) -> Result<Self, JobError> {
        let bad = |why: String| {
            let what = format!("this is no report of Safelight: {why}: {}", path.display());
            JobError::new(JobErrorKind::InvalidRequest, what)
        };
        let text = safelight_core::files::read_text_bounded(path, 64 << 20)
            .map_err(|err| bad(err.to_string()))?;
        let report: Self = serde_json::from_str(&text).map_err(|err| bad(err.to_string()))?;
        if report.format == 0 {
            return Err(bad("it does not say its format".to_owned()));
        }
        Ok(report)
    }

    /// Writes page and file, each whole or not at all, and gives their places.
    pub fn write(&self, place: &Place) -> Result<(), JobError> {
        let write = || {
            if let Some(folder) = place.page.parent() {
                make_private_folder(folder)?;
            }
            let json = serde_json::to_string_pretty(self)?;
            write_atomically(&place.file, format!("{json}\n").as_bytes())?;
            write_atomically(&place.page, html::page(self).as_bytes())
        };
        write().map_err(|err: std::io::Error| {
            let what = format!(
                "the report cannot be written: {err}: {}",
                place.page.display()
            );
            JobError::new(JobErrorKind::Disk, what)
        })
    }
}

/// Where a report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub page: PathBuf,
    pub file: PathBuf,
}

impl Place {
    /// Page and file of this moment in a folder.
    pub fn new_in(folder: &Path) -> Self {
        let name = format!("safelight-report-{}", utc_timestamp(now_secs()));
        Self {
            page: folder.join(format!("{name}.html")),
            file: folder.join(format!("{name}.json")),
        }
    }

    /// Where reports go unless somebody says otherwise.
    pub fn of_user(paths: &Paths) -> Self {
        Self::new_in(&paths.reports())
    }
}

/// What is asked of a report.
#[derive(Clone, Debug)]
pub struct Order {
    pub paths: Paths,
    pub settings: Settings,
    pub device: DeviceChoice,
    pub limit: Duration,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub part: f32,
    /// What is measured now; a few words.
    pub what: String,
}

/// Makes a report. What is there so far is kept by `keep` whenever a section is done: a machine may not survive the
/// next one. Cancelled or out of time, it has what was measured until then and says so.
pub fn make(
    order: &Order,
    cancel: &CancelToken,
    tell: &dyn Fn(Progress),
    keep: &mut dyn FnMut(&Report),
) -> Report {
    let redactor = Redactor::of_this_user(&order.paths);
    let began = Instant::now();
    let mut run = sections::Run::begin(order, cancel, tell, began);
    let clean = |run: &sections::Run<'_>| {
        let mut report = run.report.clone();
        report.format = FORMAT;
        report.safelight = env!("CARGO_PKG_VERSION").to_owned();
        report.made = readable(&utc_timestamp(now_secs()));
        report.secs = began.elapsed().as_secs_f64();
        report.course = run.course();
        report.targets = targets::of(&report);
        redactor.clean(&report)
    };
    for section in sections::ALL {
        if cancel.is_cancelled() {
            break;
        }
        section(&mut run);
        let mut so_far = clean(&run);
        so_far.incomplete = Some("It ended before everything was measured.".to_owned());
        keep(&so_far);
    }
    let mut report = clean(&run);
    report.incomplete = cancel
        .is_cancelled()
        .then(|| "It was stopped before everything was measured.".to_owned());
    report
}

/// `2026-11-20_081500` as people write it.
fn readable(stamp: &str) -> String {
    let (date, time) = stamp.split_once('_').unwrap_or((stamp, ""));
    let minute = time.get(..4).map(|it| it.split_at(2));
    minute.map_or_else(
        || date.to_owned(),
        |(hour, minute)| format!("{date} {hour}:{minute} UTC"),
    )
}

#[cfg(test)]
mod tests;
