//! The doctor's page: what was examined so far, and what is asked for from there.
//!
//! The examination itself is on a thread of its own, which may take its time; here its answers are gathered.

use std::sync::Arc;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::settings::Paths;
use safelight_core::units::size_text;

use crate::app::App;
use crate::app::background::{Answer, Background};
use crate::app::state::Severity;
use crate::doctor::{Check, Status, examine_this_machine, miopen};
use crate::worker::ProcessLauncher;

/// Examines the machine, and measures its speed where nothing else is computed there; tells each check. Runs on a thread
/// of its own.
pub type Examine = Arc<dyn Fn(bool, &mut dyn FnMut(Check)) + Send + Sync>;

/// Examines the machine of this user.
pub fn examine(paths: Paths) -> Examine {
    Arc::new(move |is_measured, tell| {
        let launcher = ProcessLauncher::of_user(&paths);
        examine_this_machine(paths.clone(), launcher, is_measured, tell);
    })
}

/// What the page shows.
#[derive(Debug, Default)]
pub struct DoctorPage {
    pub is_examining: bool,
    /// What is fine is not shown.
    pub hides_fine: bool,
    pub checks: Vec<Check>,
    /// Of the last examination: what an earlier one still says is not heard.
    number: u64,
}

impl DoctorPage {
    /// How many checks came out so.
    pub fn count(&self, status: Status) -> usize {
        let found = self.checks.iter().filter(|check| check.status == status);
        found.count()
    }

    /// Everything as text, for a report of a fault.
    pub fn report(&self) -> String {
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

impl App {
    /// The first look at the page examines.
    pub(super) fn open_doctor(&mut self) {
        let page = &self.session.doctor;
        if page.checks.is_empty() && !page.is_examining {
            self.examine();
        }
    }

    pub(super) fn examine(&mut self) {
        let page = &mut self.session.doctor;
        page.number += 1;
        page.is_examining = true;
        page.checks.clear();
        // A second engine would take the running job's memory, and be slowed by it.
        let is_measured = self.queue.running.is_none();
        self.background
            .examine(page.number, is_measured, Arc::clone(&self.examine));
    }

    pub(super) fn take_check(&mut self, number: u64, check: Check) {
        let page = &mut self.session.doctor;
        if page.number == number {
            page.checks.push(check);
        }
    }

    pub(super) fn end_examination(&mut self, number: u64) {
        let page = &mut self.session.doctor;
        if page.number == number {
            page.is_examining = false;
        }
    }

    pub(super) fn clear_miopen(&self) {
        if let Some(paths) = &self.paths {
            self.background.clear_miopen(paths.clone());
        }
    }

    pub(super) fn take_cleared(&mut self, cleared: Result<u64, String>) {
        match cleared {
            Ok(bytes) => {
                self.session.last_word =
                    format!("MIOpen's cache is empty, {} less", size_text(bytes));
                self.session
                    .doctor
                    .checks
                    .retain(|check| check.name != "miopen cache");
            }
            Err(reason) => {
                let what = format!("MIOpen's cache cannot be cleared: {reason}");
                let err = JobError::new(JobErrorKind::Disk, what);
                self.session.notify(Severity::Error, err);
            }
        }
    }
}

impl Background {
    /// Examines the machine, which may take a minute.
    pub fn examine(&self, number: u64, is_measured: bool, examine: Examine) {
        self.spawn("doctor", move |postbox| {
            examine(is_measured, &mut |check| {
                postbox.post(Answer::Checked(number, Box::new(check)));
            });
            postbox.post(Answer::Examined(number));
        });
    }

    pub fn clear_miopen(&self, paths: Paths) {
        self.spawn("clear-miopen", move |postbox| {
            let cleared = miopen::clear(&paths).map_err(|err| err.to_string());
            postbox.post(Answer::MiopenCleared(cleared));
        });
    }
}
