//! Tells of a newer Safelight, where its user wants that to be looked for.
//!
//! Asks once at each start and whenever the settings of it change; what goes wrong is a line of the log, no more.

use std::sync::Arc;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::settings::UpdateSettings;

use crate::app::cx::Cx;
use crate::app::notices::Severity;
use crate::app::pending::Pending;
use crate::app::words;
use crate::updates::{self, Newest};

/// Asks an address. Blocks, on a thread of its own.
pub type AskNewest = Arc<dyn Fn(&str) -> Result<Newest, JobError> + Send + Sync>;

/// As users have it.
pub fn ask() -> AskNewest {
    Arc::new(updates::newest)
}

pub(super) struct Updates {
    ask: AskNewest,
    /// The settings that it was asked by.
    seen: UpdateSettings,
    asking: Pending<Result<Newest, JobError>>,
}

impl Updates {
    pub(super) fn new(ask: AskNewest) -> Self {
        Self {
            ask,
            seen: UpdateSettings::default(),
            asking: Pending::default(),
        }
    }

    pub(super) fn poll(&mut self, cx: &mut Cx) {
        let now = &cx.settings.updates;
        if self.seen != *now {
            self.seen = now.clone();
            self.asking = Pending::default();
            if let Some(feed) = now.feed.clone().filter(|_| now.check) {
                let ask = Arc::clone(&self.ask);
                self.asking = cx.background.run("updates", move || ask(&feed));
            }
        }
        match self.asking.take() {
            Some(Ok(newest)) if newest.is_newer() => {
                let what = words::newer(&newest.version, updates::VERSION);
                let page = newest.page.unwrap_or_default();
                let told = JobError::new(JobErrorKind::InvalidRequest, what).advise(page);
                cx.tell(Severity::Info, told);
            }
            Some(Err(err)) => tracing::warn!("updates: {err}"),
            _ => {}
        }
    }
}
