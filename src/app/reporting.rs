//! The report of the doctor's page: asked for, on its way, stopped, and there.
//!
//! It is made on a thread of its own, by engines of its own; here it is heard how far it is.

use std::sync::Arc;
use std::time::Duration;

use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use safelight_core::settings::{Paths, Settings};

use crate::app::background::open_outside;
use crate::app::cx::Cx;
use crate::app::notices::Severity;
use crate::app::pending::Stream;
use crate::report::{LIMIT, ReportOptions, ReportPath, ReportProgress, make};

/// Makes a report of this machine, tells how far it is, and gives its place. FrameSegments on a thread of its own.
pub type Measure =
    Arc<dyn Fn(&CancelToken, &dyn Fn(ReportProgress)) -> Result<Made, JobError> + Send + Sync>;

/// A report that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub path: ReportPath,
    /// It was not stopped before its end.
    pub is_whole: bool,
}

/// Reports on the machine of this user, with the settings of that moment.
pub fn measure(paths: Paths) -> Measure {
    measure_within(paths, LIMIT)
}

fn measure_within(paths: Paths, limit: Duration) -> Measure {
    Arc::new(move |cancel, tell| {
        let settings = Settings::load(&paths.settings_file()).settings;
        let options = ReportOptions {
            paths: paths.clone(),
            device: settings.runtime.device,
            settings,
            limit,
        };
        let path = ReportPath::new_in(&paths.reports());
        let report = make(&options, cancel, tell, &mut |so_far| {
            if let Err(err) = so_far.write(&path) {
                tracing::warn!("{}", err.summary);
            }
        });
        report.write(&path)?;
        Ok(Made {
            path,
            is_whole: report.incomplete.is_none(),
        })
    })
}

enum Told {
    Progress(ReportProgress),
    End(Result<Made, JobError>),
}

/// What is known of the last report that was asked for in this window.
#[derive(Debug, Default)]
pub enum State {
    #[default]
    None,
    Running(ReportProgress),
    /// It was stopped, and writes down what was measured.
    Stopping,
    Made(Made),
}

/// The report of the doctor's page.
pub struct Reporting {
    pub state: State,
    measure: Measure,
    told: Stream<Told>,
    cancel: CancelToken,
}

impl Reporting {
    pub fn new(measure: Measure) -> Self {
        Self {
            state: State::None,
            measure,
            told: Stream::default(),
            cancel: CancelToken::default(),
        }
    }

    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Running(_) | State::Stopping)
    }

    /// Begins one, unless one is on its way.
    pub fn start(&mut self, cx: &Cx) {
        if self.is_busy() {
            return;
        }
        self.cancel = CancelToken::default();
        self.state = State::Running(ReportProgress::default());
        let (measure, cancel) = (Arc::clone(&self.measure), self.cancel.clone());
        self.told = cx.background.stream("report", move |postbox| {
            let tell = |progress| {
                postbox.post(Told::Progress(progress));
            };
            let end = measure(&cancel, &tell);
            postbox.post(Told::End(end));
        });
    }

    /// What was measured until now is still written.
    pub fn stop(&mut self) {
        if self.is_busy() {
            self.cancel.cancel();
            self.state = State::Stopping;
        }
    }

    /// Shows the page, or the folder that it lies in.
    pub fn show(&self, is_folder: bool, cx: &Cx) {
        let State::Made(made) = &self.state else {
            return;
        };
        let page = made.path.page.clone();
        if is_folder {
            if let Some(folder) = page.parent() {
                cx.background.open_folder(folder.to_owned());
            }
            return;
        }
        cx.background.attempt("open-report", move || {
            open_outside(&page).map_err(|why| {
                JobError::new(JobErrorKind::Disk, "The report cannot be opened here")
                    .advise(format!("Its page is {}", page.display()))
                    .detail(why)
            })
        });
    }

    pub fn poll(&mut self, cx: &mut Cx) {
        while let Some(told) = self.told.take() {
            match told {
                // What it still says of itself while it stops is of no use.
                Told::Progress(progress) => {
                    if let State::Running(shown) = &mut self.state {
                        *shown = progress;
                    }
                }
                Told::End(Ok(made)) => self.state = State::Made(made),
                Told::End(Err(err)) => {
                    self.state = State::None;
                    cx.tell(Severity::Error, err);
                }
            }
        }
        if self.is_busy() && !self.told.is_busy() {
            // Its thread ended in the middle, which the background tells.
            self.state = State::None;
        }
    }
}

impl Drop for Reporting {
    /// Nobody is left to read it.
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
