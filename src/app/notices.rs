//! What the user is told on cards: a sentence, what to do, and buttons that do it.
//!
//! A card that tells of something passing leaves by itself; who draws it says how long it was seen. Nothing here draws.

use std::path::Path;

use safelight_core::job::{JobError, JobId};

use crate::app::commands::AppCommand;
use crate::app::queue::commands::QueueCommand;
use crate::app::state::{Session, Severity};

/// So long a passing card is seen.
const SEEN_SECS: f64 = 10.0;

/// Something to tell the user: a sentence, what to do, and details to copy.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Given when it is shown.
    pub id: u64,
    pub severity: Severity,
    pub summary: String,
    pub advice: String,
    pub details: String,
    /// What can be done about it with one click.
    pub actions: Vec<NoticeAction>,
    /// It leaves by itself.
    pub is_passing: bool,
    /// When it does, on the clock of who draws it; nothing before it was seen.
    leaves_at: Option<f64>,
}

/// A button on a card.
#[derive(Clone, Debug)]
pub struct NoticeAction {
    pub label: &'static str,
    pub explanation: &'static str,
    pub command: AppCommand,
}

impl Notice {
    /// A hint passes by itself; warnings and errors stay until somebody closes them.
    pub fn new(severity: Severity, err: JobError) -> Self {
        let JobError {
            kind: _,
            summary,
            advice,
            details,
            fault: _,
            kept: _,
        } = err;
        Self {
            id: 0,
            severity,
            summary,
            advice,
            details,
            actions: Vec::new(),
            is_passing: severity == Severity::Info,
            leaves_at: None,
        }
    }

    /// A file that cannot be used: whoever came with it is looking, and will come with another one.
    pub fn of_input(err: JobError) -> Self {
        Self {
            is_passing: true,
            ..Self::new(Severity::Error, err)
        }
    }

    /// A job that failed, and the way to go on with it.
    pub fn of_failed(id: JobId, err: JobError) -> Self {
        let (label, explanation) = if err.kept.is_some() {
            (
                "Go on",
                "Go on where it stopped: what was finished is kept for a week",
            )
        } else {
            ("Try again", "Make it from its beginning")
        };
        let go_on = NoticeAction {
            label,
            explanation,
            command: AppCommand::Queue(QueueCommand::Restart(id)),
        };
        let open = NoticeAction {
            label: "Open the queue",
            explanation: "The job stands there among those that stopped",
            command: AppCommand::Queue(QueueCommand::Open(true)),
        };
        Self::new(Severity::Error, err).with(vec![go_on, open])
    }

    /// The same with buttons.
    #[must_use]
    pub fn with(mut self, actions: Vec<NoticeAction>) -> Self {
        self.actions = actions;
        self
    }

    /// How long it is still shown: nothing for one that stays, and while it is held.
    pub fn secs_left(&mut self, now: f64, is_held: bool) -> Option<f64> {
        if !self.is_passing || is_held {
            self.leaves_at = None;
            return None;
        }
        let leaves_at = *self.leaves_at.get_or_insert(now + SEEN_SECS);
        Some((leaves_at - now).max(0.0))
    }

    /// The file whose settings a button takes over.
    pub fn offered_settings(&self) -> Option<&Path> {
        let mut commands = self.actions.iter().map(|action| &action.command);
        commands.find_map(|command| match command {
            AppCommand::UseSettingsOfFile(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Whether a button takes over the settings of this file.
    pub fn offers_settings_of(&self, path: &Path) -> bool {
        self.offered_settings() == Some(path)
    }

    /// Whether a button lets this job go on.
    pub fn offers_restart_of(&self, id: JobId) -> bool {
        let mut commands = self.actions.iter().map(|action| &action.command);
        commands.any(|command| {
            matches!(command, AppCommand::Queue(QueueCommand::Restart(offered)) if *offered == id)
        })
    }
}

impl Session {
    /// Tells something without buttons.
    pub fn notify(&mut self, severity: Severity, err: JobError) {
        self.show_notice(Notice::new(severity, err));
    }

    /// Shows a card before those that are there.
    pub fn show_notice(&mut self, notice: Notice) {
        // The same thing twice is one card.
        self.notices.retain(|old| old.summary != notice.summary);
        self.num_notices += 1;
        let id = self.num_notices;
        self.notices.push(Notice { id, ..notice });
    }

    /// Files can be used: what was said of others that cannot is done with.
    pub fn forget_refused_inputs(&mut self) {
        self.notices
            .retain(|notice| !notice.is_passing || notice.severity != Severity::Error);
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::job::JobErrorKind;

    use super::*;

    fn notice(severity: Severity) -> Notice {
        Notice::new(severity, JobError::new(JobErrorKind::Internal, "something"))
    }

    #[test]
    fn a_hint_is_seen_for_ten_seconds_and_its_time_begins_anew_while_somebody_is_at_it() {
        let mut hint = notice(Severity::Info);
        assert_eq!(hint.secs_left(100.0, false), Some(10.0));
        assert_eq!(hint.secs_left(107.0, false), Some(3.0));
        assert_eq!(hint.secs_left(109.0, true), None);
        assert_eq!(hint.secs_left(500.0, false), Some(10.0));
        assert_eq!(hint.secs_left(511.0, false), Some(0.0));
    }

    #[test]
    fn a_warning_and_a_failed_job_stay_and_a_file_that_cannot_be_used_does_not() {
        let err = || JobError::new(JobErrorKind::Internal, "something");
        assert_eq!(notice(Severity::Warning).secs_left(0.0, false), None);
        let mut failed = Notice::of_failed(JobId::next(), err());
        assert_eq!(failed.secs_left(0.0, false), None);
        let mut refused = Notice::of_input(err());
        assert_eq!(refused.secs_left(0.0, false), Some(10.0));
    }
}
