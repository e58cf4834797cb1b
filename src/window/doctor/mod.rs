//! Doctor page: its examination and the report with measurements, on threads.

pub mod panel;

use safelight_core::units::size_text;

use crate::doctor::miopen::{self, MIOPEN_CACHE};
use crate::doctor::{CheckResult, CheckStatus, examine_this_machine};
use crate::report::{LIMIT, ReportOptions, ReportPath, ReportProgress, make};
use crate::window::prelude::*;
use crate::worker::{ProcessLauncher, environment};

/// Examines the machine, and measures its speed if it is idle; reports each check. Runs on a separate thread.
pub type ExaminationRun = Arc<dyn Fn(bool, &mut dyn FnMut(CheckResult)) + Send + Sync>;

pub fn examine(paths: AppPaths) -> ExaminationRun {
    Arc::new(move |is_measured, tell| {
        let launcher = ProcessLauncher::of_user(&paths);
        examine_this_machine(paths.clone(), launcher, is_measured, tell);
    })
}

pub struct DoctorState {
    pub checks: Vec<CheckResult>,
    /// Measurements for a report that is being made.
    pub report: LongTask<ReportProgress, Result<MadeReport, JobError>>,
    pub made: Option<MadeReport>,
    measure: ReportMaker,
    examine: ExaminationRun,
    examining: BackgroundTask<CheckResult>,
    /// The bytes that MIOpen had kept, or why they are still there.
    clearing: BackgroundTask<Result<u64, String>>,
}

impl DoctorState {
    pub fn new(examine: ExaminationRun, measure: ReportMaker) -> Self {
        Self {
            checks: Vec::new(),
            report: LongTask::default(),
            made: None,
            measure,
            examine,
            examining: BackgroundTask::default(),
            clearing: BackgroundTask::default(),
        }
    }

    pub fn is_examining(&self) -> bool {
        self.examining.is_busy()
    }

    /// Number of checks with this status, among those that can fail.
    pub fn count(&self, status: CheckStatus) -> usize {
        let verdicts = self.checks.iter().filter(|check| check.is_verdict());
        verdicts.filter(|check| check.status == status).count()
    }

    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for check in &self.checks {
            let verdict = match check.status {
                CheckStatus::Ok => "ok",
                CheckStatus::Warn => "note",
                CheckStatus::Fail => "FAIL",
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

    /// `is_idle`: no job runs, so that speed can be measured. A second engine would take the running job's memory, and be
    /// slowed by it.
    pub fn examine(&mut self, is_idle: bool, cx: &AppContext) {
        self.checks.clear();
        let examine = Arc::clone(&self.examine);
        self.examining = cx.background.stream("doctor", move |postbox| {
            examine(is_idle, &mut |check| {
                postbox.post(check);
            });
        });
    }

    /// Not while a job runs: measurements next to one would be useless, and slow it.
    pub fn make_report(&mut self, cx: &AppContext) {
        self.made = None;
        let measure = Arc::clone(&self.measure);
        self.report = cx.background.long("report", move |cancel, tell| {
            let tell = std::cell::RefCell::new(tell);
            measure(cancel, &|progress| tell.borrow_mut()(progress))
        });
    }

    pub fn clear_miopen(&mut self, cx: &AppContext) {
        if let Some(paths) = &cx.paths {
            let places = miopen::places(paths, &cx.settings.runtime, &environment::inherited());
            let clear = move || miopen::clear(&places).map_err(|err| err.to_string());
            self.clearing = cx.background.run("clear-miopen", clear);
        }
    }

    /// Starts the checks when the page is opened for the first time.
    pub(super) fn open(&mut self, is_idle: bool, cx: &AppContext) {
        if self.checks.is_empty() && !self.is_examining() {
            self.examine(is_idle, cx);
        }
    }

    /// Opens the page of the report, or its folder.
    pub fn show_report(&self, is_folder: bool, cx: &AppContext) {
        let Some(page) = self.made.as_ref().map(|made| &made.path.page) else {
            return;
        };
        match page.parent() {
            Some(folder) if is_folder => cx.background.open_folder(folder.to_owned()),
            _ => {
                let problem = "The report cannot be opened here";
                cx.background.open(page.clone(), problem, "Its page is");
            }
        }
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        match self.report.take() {
            Some(Ok(made)) => self.made = Some(made),
            Some(Err(err)) => cx.notify(NoticeSeverity::Error, err),
            None => {}
        }
        while let Some(check) = self.examining.take() {
            self.checks.push(check);
        }
        match self.clearing.take() {
            Some(Ok(bytes)) => {
                let freed = size_text(bytes);
                cx.say(format!("MIOpen's cache is cleared: {freed} freed"));
                self.checks.retain(|check| check.name != MIOPEN_CACHE);
            }
            Some(Err(reason)) => {
                let what = format!("MIOpen's cache cannot be cleared: {reason}");
                let err = JobError::new(JobErrorKind::Disk, what);
                cx.notify(NoticeSeverity::Error, err);
            }
            None => {}
        }
    }
}

/// Creates a report of this machine, reports its progress, and returns its path. Runs on a separate thread.
pub type ReportMaker = Arc<
    dyn Fn(&CancelToken, &dyn Fn(ReportProgress)) -> Result<MadeReport, JobError> + Send + Sync,
>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeReport {
    pub path: ReportPath,
    /// False if it was stopped before its end.
    pub is_whole: bool,
}

/// Reports on the machine of this user, with the settings of that moment.
pub fn measure(paths: AppPaths) -> ReportMaker {
    Arc::new(move |cancel, tell| {
        let settings = Settings::load(&paths.settings_file()).settings;
        let options = ReportOptions {
            paths: paths.clone(),
            device: settings.runtime.first_device(),
            settings,
            limit: LIMIT,
        };
        let path = ReportPath::new_in(&paths.reports());
        let report = make(&options, cancel, tell, &mut |so_far| {
            if let Err(err) = so_far.write(&path) {
                tracing::warn!("{}", err.summary);
            }
        });
        report.write(&path)?;
        Ok(MadeReport {
            path,
            is_whole: report.incomplete.is_none(),
        })
    })
}
