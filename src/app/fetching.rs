//! A known model on its way to this disk: what the window shows of it and what its buttons do.
//!
//! Nothing is asked or fetched before its user said so. The work is on a thread of its own; here are its
//! beginning, its end and what it tells meanwhile.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use safelight_core::catalog::CatalogEntry;
use safelight_core::job::{CancelToken, GenerateForm, JobError, JobErrorKind};

use crate::app::App;
use crate::app::background::{Answer, Background};
use crate::app::commands::AppCommand;
use crate::app::notices::{Notice, NoticeAction};
use crate::app::state::Severity;
use crate::download::{self, Hub, Options, Order, Progress};
use crate::telemetry::host;

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FetchState {
    /// Looked at; nobody was asked for anything.
    #[default]
    Shown,
    /// The server is asked for sizes.
    Asking,
    /// Waits for a yes.
    Asked(Quoted),
    Running,
    /// Until the thread has let go of the file.
    Pausing,
    /// Paused, or failed; what has come is kept.
    Stopped(Option<JobError>),
}

/// What there is to agree to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    pub left_bytes: u64,
    pub free_bytes: Option<u64>,
}

/// Where the thread leaves how far it is.
#[derive(Clone, Debug, Default)]
pub struct Board(Arc<Mutex<Option<Progress>>>);

impl Board {
    pub fn put(&self, progress: &Progress) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress.clone());
    }

    pub fn read(&self) -> Option<Progress> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// The model that is looked at or on its way.
#[derive(Clone, Debug)]
pub struct Fetch {
    pub entry: CatalogEntry,
    /// The folder for models that it goes into.
    pub folder: PathBuf,
    pub state: FetchState,
    pub board: Board,
    /// What stood in the form when it was begun.
    form: GenerateForm,
    /// Of the thread at work; an answer of an earlier one does not count.
    number: u64,
    cancel: CancelToken,
}

impl Fetch {
    pub(in crate::app) fn new(entry: CatalogEntry, folder: PathBuf) -> Self {
        Self {
            entry,
            folder,
            state: FetchState::Shown,
            board: Board::default(),
            form: GenerateForm::default(),
            number: 0,
            cancel: CancelToken::default(),
        }
    }

    /// Whether a thread is at work for it.
    pub fn is_busy(&self) -> bool {
        matches!(
            self.state,
            FetchState::Asking | FetchState::Running | FetchState::Pausing
        )
    }

    /// Sends one piece of work to a thread of its own.
    fn send(&mut self, work: Work, hub: &Hub, background: &Background) {
        self.number += 1;
        self.cancel = CancelToken::default();
        self.state = match work {
            Work::Quote => FetchState::Asking,
            Work::Fetch => FetchState::Running,
        };
        let errand = Errand {
            number: self.number,
            orders: download::orders(&self.entry, hub, &self.folder),
            options: Options {
                token: hub.token.clone(),
                ..Options::default()
            },
            folder: self.folder.clone(),
            cancel: self.cancel.clone(),
            board: self.board.clone(),
        };
        background.fetch(work, errand);
    }
}

/// A model that was fetched and is looked for.
#[derive(Clone, Debug)]
pub struct Arriving {
    pub id: String,
    /// What stood in the form when the fetch was begun.
    form: GenerateForm,
}

/// What a thread is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Quote,
    Fetch,
}

/// All that a thread needs for it.
pub struct Errand {
    number: u64,
    orders: Vec<Order>,
    options: Options,
    folder: PathBuf,
    cancel: CancelToken,
    board: Board,
}

/// What came of it; `None` and `false` where it was cancelled.
pub enum Fetched {
    Quoted(Result<Option<Quoted>, JobError>),
    Ended(Result<bool, JobError>),
}

impl Errand {
    /// Does it; blocks. `wake` is called whenever there is something new on the board.
    pub(super) fn run(&self, work: Work, wake: &dyn Fn()) -> Answer {
        let fetched = match work {
            Work::Quote => Fetched::Quoted(self.quote().map_err(|err| JobError::from(&err))),
            Work::Fetch => {
                let fetched = download::download(
                    &self.orders,
                    &self.options,
                    &self.cancel,
                    &mut |progress| {
                        self.board.put(progress);
                        wake();
                    },
                );
                let is_whole = fetched.map(|files| files.is_some());
                Fetched::Ended(is_whole.map_err(|err| JobError::from(&err)))
            }
        };
        Answer::Fetched(self.number, fetched)
    }

    fn quote(&self) -> Result<Option<Quoted>, download::DownloadError> {
        let Some(quotes) = download::quote(&self.orders, &self.options, &self.cancel)? else {
            return Ok(None);
        };
        download::ensure_space(&self.orders, &quotes)?;
        Ok(Some(Quoted {
            left_bytes: quotes.iter().map(|quote| quote.left_bytes()).sum(),
            free_bytes: host::free_bytes(&self.folder),
        }))
    }
}

impl App {
    /// Shows a known model that is not here, or none; not while another is on its way.
    pub(super) fn show_missing(&mut self, id: Option<&str>) {
        if self.session.fetch.as_ref().is_some_and(Fetch::is_busy) {
            return;
        }
        let entry = id.and_then(|id| self.session.missing.iter().find(|entry| entry.id == id));
        self.session.fetch = entry
            .zip(self.paths.as_ref())
            .map(|(entry, paths)| Fetch::new(entry.clone(), paths.models()));
    }

    /// Asks for sizes, or begins once they were agreed to.
    pub(super) fn send_fetch(&mut self, work: Work) {
        if let Some(fetch) = &mut self.session.fetch
            && !fetch.is_busy()
        {
            fetch.form.clone_from(&self.state.form);
            fetch.send(work, &self.hub, &self.background);
        }
    }

    /// Stops what is on its way. What has come is kept.
    pub(super) fn pause_fetch(&mut self) {
        if let Some(fetch) = &mut self.session.fetch {
            fetch.cancel.cancel();
            match fetch.state {
                FetchState::Running => fetch.state = FetchState::Pausing,
                FetchState::Asking => {
                    fetch.number += 1;
                    fetch.state = FetchState::Shown;
                }
                _ => {}
            }
        }
    }

    pub(super) fn take_fetched(&mut self, number: u64, fetched: Fetched) {
        let Some(fetch) = self.session.fetch.as_mut().filter(|it| it.number == number) else {
            return;
        };
        fetch.state = match fetched {
            Fetched::Quoted(Ok(Some(quoted))) => FetchState::Asked(quoted),
            Fetched::Quoted(Ok(None)) => FetchState::Shown,
            Fetched::Quoted(Err(err)) | Fetched::Ended(Err(err)) => FetchState::Stopped(Some(err)),
            Fetched::Ended(Ok(false)) => FetchState::Stopped(None),
            Fetched::Ended(Ok(true)) => {
                self.session.last_word = format!("All files of {} are here", fetch.entry.name);
                self.session.arriving = self.session.fetch.take().map(|fetch| Arriving {
                    id: fetch.entry.id,
                    form: fetch.form,
                });
                self.load_models();
                return;
            }
        };
    }

    /// Chooses the model that was fetched, once it is among those that are here, unless its user has gone on with another:
    /// then it is offered. A search that began before it was complete does not know it yet; what is wrong with a broken
    /// one stands below the picker.
    pub(super) fn settle_arriving(&mut self) {
        let all = self.session.models.all();
        let is_here = |id: &str| all.iter().any(|spec| spec.id == id);
        let arriving = self.session.arriving.take_if(|it| is_here(&it.id));
        let Some(Arriving { id, form }) = arriving else {
            return;
        };
        let Some(spec) = all.iter().find(|spec| spec.id == id) else {
            return;
        };
        let text = format!("{} is complete", spec.name);
        self.session.last_word.clone_from(&text);
        if self.own_form().model.as_ref() == Some(&id) {
            return;
        }
        if self.session.queue.editing.is_none() && self.state.form == form {
            self.state.form.reset_to(spec);
        } else {
            let card = JobError::new(JobErrorKind::Internal, text)
                .advise("The form stays with the model that you work with");
            let action = NoticeAction {
                label: "Switch to it",
                explanation: "The prompt stays, and other values become the model's own",
                command: AppCommand::ChooseModel(id),
            };
            self.session
                .show_notice(Notice::new(Severity::Info, card).with(vec![action]));
        }
    }
}
