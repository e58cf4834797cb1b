//! The doctor's page: what was examined so far, and what is asked for from there.
//!
//! The examination itself is on a thread of its own, which may take its time; here its answers are gathered.

use std::sync::Arc;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::settings::Paths;
use safelight_core::units::size_text;

use crate::app::commands::DoctorCommand;
use crate::app::cx::Cx;
use crate::app::notices::Severity;
use crate::app::pending::{Pending, Stream};
use crate::app::reporting::{Measure, Reporting};
use crate::doctor::miopen::{self, MIOPEN_CACHE};
use crate::doctor::{Check, Status, examine_this_machine};
use crate::worker::{ProcessLauncher, environment};

/// Examines the machine, and measures its speed where nothing else is computed there; tells each check. FrameSegments on a thread
/// of its own.
pub type Examine = Arc<dyn Fn(bool, &mut dyn FnMut(Check)) + Send + Sync>;

/// Examines the machine of this user.
pub fn examine(paths: Paths) -> Examine {
    Arc::new(move |is_measured, tell| {
        let launcher = ProcessLauncher::of_user(&paths);
        examine_this_machine(paths.clone(), launcher, is_measured, tell);
    })
}

/// What was examined so far.
pub struct Doctor {
    pub checks: Vec<Check>,
    pub report: Reporting,
    examine: Examine,
    examining: Stream<Check>,
    /// The bytes that MIOpen had kept, or why they are still there.
    clearing: Pending<Result<u64, String>>,
}

impl Doctor {
    pub fn new(examine: Examine, measure: Measure) -> Self {
        Self {
            checks: Vec::new(),
            report: Reporting::new(measure),
            examine,
            examining: Stream::default(),
            clearing: Pending::default(),
        }
    }

    pub fn is_examining(&self) -> bool {
        self.examining.is_busy()
    }

    /// How many checks came out so, of those in which something was at risk.
    pub fn count(&self, status: Status) -> usize {
        let verdicts = self.checks.iter().filter(|check| check.is_verdict());
        verdicts.filter(|check| check.status == status).count()
    }

    /// Everything as text, for whoever tells of a fault.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for check in &self.checks {
            let verdict = match check.status {
                Status::Ok => "ok",
                Status::Warn => "note",
                Status::Fail => "FAIL",
            };
            lines.push(format!("{verdict}  {}: {}", check.name, check.message));
            for more in [&check.advice, &check.command] {
                if !more.is_empty() {
                    lines.push(format!("      {more}"));
                }
            }
        }
        lines.join("\n")
    }
}

impl Doctor {
    /// `is_idle`: no job runs, so that speed can be measured. A second engine would take the running job's memory, and be
    /// slowed by it.
    pub fn update(&mut self, command: DoctorCommand, is_idle: bool, cx: &mut Cx) {
        match command {
            DoctorCommand::Examine => {
                self.checks.clear();
                let examine = Arc::clone(&self.examine);
                self.examining = cx.background.stream("doctor", move |postbox| {
                    examine(is_idle, &mut |check| {
                        postbox.post(check);
                    });
                });
            }
            // What is measured beside a job would be of no use to anybody, and slow the job.
            DoctorCommand::MakeReport if is_idle => self.report.start(cx),
            DoctorCommand::MakeReport => {
                cx.say("A report measures this machine: wait until no job runs");
            }
            DoctorCommand::StopReport => self.report.stop(),
            DoctorCommand::OpenReport => self.report.show(false, cx),
            DoctorCommand::ShowReportFolder => self.report.show(true, cx),
            DoctorCommand::ClearMiopen => {
                if let Some(paths) = cx.paths.clone() {
                    let inherited = environment::inherited();
                    let places = miopen::places(&paths, &cx.settings.runtime, &inherited);
                    let clear = move || miopen::clear(&places).map_err(|err| err.to_string());
                    self.clearing = cx.background.run("clear-miopen", clear);
                }
            }
        }
    }

    /// The first look at the page examines.
    pub(super) fn open(&mut self, is_idle: bool, cx: &mut Cx) {
        if self.checks.is_empty() && !self.is_examining() {
            self.update(DoctorCommand::Examine, is_idle, cx);
        }
    }

    pub fn poll(&mut self, cx: &mut Cx) {
        self.report.poll(cx);
        while let Some(check) = self.examining.take() {
            self.checks.push(check);
        }
        match self.clearing.take() {
            Some(Ok(bytes)) => {
                cx.say(format!(
                    "MIOpen's cache is cleared: {} freed",
                    size_text(bytes)
                ));
                self.checks.retain(|check| check.name != MIOPEN_CACHE);
            }
            Some(Err(reason)) => {
                let what = format!("MIOpen's cache cannot be cleared: {reason}");
                cx.tell(Severity::Error, JobError::new(JobErrorKind::Disk, what));
            }
            None => {}
        }
    }
}
