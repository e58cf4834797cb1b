//! Asking for files and folders in the desktop's own dialogs.
//!
//! Each waits on a thread of its own, because it waits for a person.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use safelight_core::job::{JobError, JobErrorKind};

use crate::app::background::Background;
use crate::app::background::guard::guarded;
use crate::app::pending::Pending;

/// A dialog that ends sooner was never shown: there is no file chooser on this machine.
const NO_DIALOG_WITHIN: Duration = Duration::from_millis(300);

impl Background {
    /// Asks somebody in a dialog; nothing came of it where nothing was chosen.
    pub fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Pending<Option<T>> {
        self.ask_or(
            "Drop a file onto the window or type its path, or install xdg-desktop-portal or zenity",
            ask,
        )
    }

    /// The same, with other advice where there is no file chooser.
    pub fn ask_or<T: Send + 'static>(
        &self,
        instead: impl Into<String>,
        ask: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Pending<Option<T>> {
        let (problems, instead) = (self.problem_box.clone(), instead.into());
        let is_asking = Arc::clone(&self.is_asking);
        is_asking.store(true, Ordering::Relaxed);
        self.run("dialog", move || {
            let begin = Instant::now();
            let chosen = guarded(ask).flatten();
            is_asking.store(false, Ordering::Relaxed);
            if chosen.is_none() && begin.elapsed() < NO_DIALOG_WITHIN {
                problems.post(no_dialog(&instead));
            }
            chosen
        })
    }

    /// Whether a dialog is open.
    pub fn is_asking(&self) -> bool {
        self.is_asking.load(Ordering::Relaxed)
    }
}

fn no_dialog(instead: &str) -> JobError {
    JobError::new(JobErrorKind::Internal, "this desktop has no file chooser").advise(instead)
}
