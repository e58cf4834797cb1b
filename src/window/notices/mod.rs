//! Notices for the user on cards: a sentence, advice, and buttons for it.
//!
//! A card disappears when its cause is over, or after a while if it is temporary; the panel reports how long it was
//! seen.
//! Nothing here draws.

pub mod panel;

use std::cell::Cell;
use std::path::PathBuf;

use safelight_core::job::{FormNotice as FieldNotice, JobError, JobErrorKind, JobId};
pub use safelight_core::sanitize::sentence;

use crate::window::commands::{AppCommand, LibraryCommand, QueueCommand, SettingsCommand};

const SEEN_SECS: f64 = 10.0;

/// `one` for a count of 1, else `more` with the count in place of `{}`.
pub fn counted(count: usize, one: &str, more: &str) -> String {
    match count {
        1 => one.to_owned(),
        count => more.replace("{}", &count.to_string()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeSeverity {
    Info,
    Warning,
    Error,
}

/// Cause of a card: the card disappears with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeCause {
    /// A job. Until its result is thrown away, it is taken from the queue or it runs once more.
    Job(JobId),
    QueueFile,
    SettingsFile,
    /// An unknown line of the settings file.
    SettingsKey(String),
    PresetsFile,
    PromptsFile,
    FavouritesFile,
    /// The engine, which could not start.
    Engine,
    Models,
    /// Id of the downloaded model.
    Fetched(String),
    Inputs,
    Form,
    SettingsOf(PathBuf),
    Restored,
    /// Something that can be taken back: the entry with this number.
    Undo(u64),
}

/// Something to tell the user: a sentence, what to do, and details to copy.
#[derive(Clone, Debug)]
pub struct UserNotice {
    /// Assigned when it is shown.
    pub id: u64,
    pub severity: NoticeSeverity,
    pub summary: String,
    pub advice: String,
    pub details: String,
    pub actions: Vec<NoticeAction>,
    cause: Option<NoticeCause>,
    /// It leaves after a while; else with its cause, or when it is closed.
    passes: bool,
    /// When a passing one leaves, on the clock of who draws it; nothing before it was seen.
    leaves_at: Cell<Option<f64>>,
}

#[derive(Clone, Debug)]
pub struct NoticeAction {
    pub label: &'static str,
    pub hover: &'static str,
    pub command: AppCommand,
}

impl UserNotice {
    /// Hints are temporary; warnings and errors stay until they are over or closed.
    pub fn new(severity: NoticeSeverity, err: JobError) -> Self {
        Self {
            id: 0,
            severity,
            summary: err.summary,
            advice: err.advice,
            details: err.details,
            actions: Vec::new(),
            cause: None,
            passes: severity == NoticeSeverity::Info,
            leaves_at: Cell::new(None),
        }
    }

    /// A hint of the window, which passes.
    pub fn info(summary: impl Into<String>, advice: impl Into<String>) -> Self {
        let err = JobError::new(JobErrorKind::Internal, summary).advise(advice);
        Self::new(NoticeSeverity::Info, err)
    }

    pub fn warning(summary: impl Into<String>, advice: impl Into<String>) -> Self {
        let err = JobError::new(JobErrorKind::Internal, summary).advise(advice);
        Self::new(NoticeSeverity::Warning, err)
    }

    /// A file that cannot be used: whoever came with it is looking, and will come with another one.
    pub fn of_input(err: JobError) -> Self {
        Self {
            passes: true,
            ..Self::new(NoticeSeverity::Error, err).about(NoticeCause::Inputs)
        }
    }

    /// A job that failed, which of them it was, and the way to resume it.
    pub fn of_failed(id: JobId, err: JobError, job: &str) -> Self {
        let resume = "Continue where it stopped: what was finished is kept for a week";
        let (label, again_hover) = match err.kept {
            Some(_) => ("Resume", resume),
            None => ("Try again", "Start over from the beginning"),
        };
        let advice = format!("{}\n{job}", err.advice);
        let advice = advice.trim().to_owned();
        let hover = "The job is there among the stopped ones";
        Self::new(NoticeSeverity::Error, err.advise(advice))
            .about(NoticeCause::Job(id))
            .offer(label, again_hover, QueueCommand::Restart(id))
            .offer("Open the queue", hover, QueueCommand::Open(true))
    }

    /// Adds a button.
    #[must_use]
    pub fn offer(
        mut self,
        label: &'static str,
        hover: &'static str,
        command: impl Into<AppCommand>,
    ) -> Self {
        self.actions.push(NoticeAction {
            label,
            hover,
            command: command.into(),
        });
        self
    }

    #[must_use]
    pub fn offer_undo(self, id: u64) -> Self {
        let hover = "Bring it back (Ctrl+Z undoes the last change, Ctrl+Shift+Z redoes it)";
        self.offer("Undo", hover, AppCommand::Undo(Some(id)))
    }

    #[must_use]
    pub fn offer_folder(self, folder: PathBuf) -> Self {
        let hover = "Search this folder for models, now and at every start";
        let command = SettingsCommand::AddModelFolder(folder);
        self.offer("Add its folder", hover, command)
    }

    #[must_use]
    pub fn offer_model(self, file: PathBuf) -> Self {
        let hover = "Select it. Its folder is added to the model folders if it is not searched yet";
        self.offer("Use this model", hover, LibraryCommand::UseFile(file))
    }

    #[must_use]
    pub fn about(mut self, cause: NoticeCause) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Remaining time: `None` for one that stays, and while it is held.
    pub fn secs_left(&self, now: f64, is_held: bool) -> Option<f64> {
        if !self.passes || is_held {
            self.leaves_at.set(None);
            return None;
        }
        let leaves_at = self.leaves_at.get().unwrap_or(now + SEEN_SECS);
        self.leaves_at.set(Some(leaves_at));
        Some((leaves_at - now).max(0.0))
    }
}

#[derive(Debug, Default)]
pub struct NoticeList {
    shown: Vec<UserNotice>,
    num_shown: u64,
}

impl NoticeList {
    pub fn all(&self) -> &[UserNotice] {
        &self.shown
    }

    /// Shows a card before those that are there. The same thing twice is one card.
    pub fn show(&mut self, notice: UserNotice) {
        self.shown
            .retain(|old| old.summary != notice.summary || old.cause != notice.cause);
        self.num_shown += 1;
        let id = self.num_shown;
        self.shown.push(UserNotice { id, ..notice });
    }

    /// Shows an action with an undo button, in place of the previous such card.
    pub fn show_undo(&mut self, id: u64, done: impl Into<String>) {
        self.end_where(|cause| matches!(cause, NoticeCause::Undo(_)));
        let notice = UserNotice::info(done, "").about(NoticeCause::Undo(id));
        self.show(notice.offer_undo(id));
    }

    /// One card with all that is made differently than the form said.
    pub fn show_changes(&mut self, model: &str, changes: &[FieldNotice]) {
        let messages: Vec<&str> = changes.iter().map(|it| it.message.as_str()).collect();
        self.show(match messages.as_slice() {
            [] => return,
            [one] => UserNotice::info(*one, ""),
            several => {
                let count = several.len();
                let summary = format!("{count} values were changed to what {model} can make");
                UserNotice::info(summary, several.join("\n"))
            }
        });
    }

    pub fn end(&mut self, cause: &NoticeCause) {
        self.shown
            .retain(|notice| notice.cause.as_ref() != Some(cause));
    }

    pub fn end_where(&mut self, is_over: impl Fn(&NoticeCause) -> bool) {
        self.shown
            .retain(|notice| !notice.cause.as_ref().is_some_and(&is_over));
    }

    pub fn dismiss(&mut self, id: u64) {
        self.shown.retain(|notice| notice.id != id);
    }

    pub fn clear(&mut self) {
        self.shown.clear();
    }

    pub fn clear_hints(&mut self) {
        self.shown
            .retain(|notice| notice.severity != NoticeSeverity::Info);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(severity: NoticeSeverity) -> UserNotice {
        UserNotice::new(severity, JobError::new(JobErrorKind::Internal, "something"))
    }

    #[test]
    fn only_the_latest_undo_notice_is_shown_and_other_notices_stay() {
        let mut notices = NoticeList::default();
        notices.show(notice(NoticeSeverity::Warning));
        notices.show_undo(1, "one");
        notices.show_undo(2, "two");
        let summaries: Vec<&str> = notices.all().iter().map(|it| it.summary.as_str()).collect();
        assert_eq!(summaries, ["something", "two"]);
        assert!(matches!(
            notices.all()[1].actions[0].command,
            AppCommand::Undo(Some(2))
        ));
        notices.end(&NoticeCause::Undo(2));
        assert_eq!(notices.all().len(), 1);
    }
}
