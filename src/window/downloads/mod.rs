//! Download of a known model: its display and buttons.
//!
//! Nothing is requested or downloaded without the user's confirmation. The work runs on a separate thread; this module
//! starts it, and handles its progress and end.

pub mod panel;

use safelight_core::catalog::CatalogEntry;

use crate::download::{self, DownloadItem, DownloadOptions, DownloadStatus, ModelHub};
use crate::telemetry::host;
use crate::window::prelude::*;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FetchState {
    /// No server was contacted.
    #[default]
    Shown,
    Asking,
    Confirming(DownloadQuote),
    Running,
    /// Until the thread has let go of the file.
    Pausing,
    /// Paused, or failed; what has come is kept.
    Stopped(Option<JobError>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadQuote {
    pub left_bytes: u64,
    pub free_bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct ModelDownload {
    pub entry: CatalogEntry,
    pub folder: PathBuf,
    pub state: FetchState,
    pub progress: Option<DownloadStatus>,
    /// Form when the download began.
    form: GenerateForm,
}

impl ModelDownload {
    pub fn is_busy(&self) -> bool {
        use FetchState::{Asking, Pausing, Running};
        matches!(self.state, Asking | Running | Pausing)
    }
}

/// Result; `None` and `false` if cancelled.
enum FetchOutcome {
    Quoted(Result<Option<DownloadQuote>, JobError>),
    Ended(Result<bool, JobError>),
}

pub struct ModelFetch {
    pub fetch: Option<ModelDownload>,
    /// Paused or failed, while another is looked at; the last one first.
    pub parked: Vec<ModelDownload>,
    /// Names of the models downloaded in this session, the last one first.
    pub arrived: Vec<String>,
    /// Id of a downloaded model that the search has yet to find, and the form when its download began.
    arriving: Option<(String, GenerateForm)>,
    hub: ModelHub,
    work: LongTask<DownloadStatus, FetchOutcome>,
    /// The search for models that was looked at.
    models_number: u64,
}

impl ModelFetch {
    pub fn new(hub: ModelHub) -> Self {
        Self {
            fetch: None,
            parked: Vec::new(),
            arrived: Vec::new(),
            arriving: None,
            hub,
            work: LongTask::default(),
            models_number: 0,
        }
    }

    pub fn is_busy(&self) -> bool {
        self.fetch.as_ref().is_some_and(ModelDownload::is_busy)
    }

    pub fn stopped(&self) -> impl Iterator<Item = &ModelDownload> {
        let current = self.fetch.iter();
        let stopped = current.filter(|it| matches!(it.state, FetchState::Stopped(_)));
        stopped.chain(&self.parked)
    }

    pub fn update(&mut self, command: FetchCommand, cx: &mut AppContext) {
        match command {
            FetchCommand::Show(id) => {
                let missing = &cx.models.found.missing;
                let entry = id.and_then(|id| missing.iter().find(|entry| entry.id == id));
                self.show(entry.cloned(), cx);
            }
            FetchCommand::Offer(entry) => {
                self.show(Some(*entry), cx);
                cx.push(AppCommand::Show(MainPage::Downloads));
            }
            FetchCommand::Leave => {
                self.arriving = None;
                cx.notices
                    .end_where(|cause| matches!(cause, NoticeCause::Fetched(_)));
                self.show(None, cx);
            }
        }
    }

    /// Goes on with a download that was paused or failed.
    pub fn resume(&mut self, id: &str, cx: &AppContext) {
        let parked = self.parked.iter().position(|it| it.entry.id == id);
        if let Some(at) = parked.filter(|_| !self.is_busy()) {
            let parked = self.parked.remove(at);
            self.park();
            self.fetch = Some(parked);
            self.send(FetchState::Running, cx);
        }
    }

    /// Shows no more of one that was paused or failed; what has come stays on the disk.
    pub fn forget(&mut self, id: &str) {
        self.parked.retain(|it| it.entry.id != id);
        self.fetch.take_if(|it| it.entry.id == id && !it.is_busy());
    }

    /// Keeps one that came to a halt, while another takes its place.
    fn park(&mut self) {
        let is_stopped = |it: &mut ModelDownload| matches!(it.state, FetchState::Stopped(_));
        if let Some(stopped) = self.fetch.take_if(is_stopped) {
            self.parked.retain(|it| it.entry.id != stopped.entry.id);
            self.parked.insert(0, stopped);
        }
    }

    /// `own_model` is that of the form that its user wrote.
    pub fn poll(&mut self, own_model: Option<&str>, is_editing: bool, cx: &mut AppContext) {
        let fetched = self.work.take();
        if let Some(fetch) = &mut self.fetch {
            fetch.progress = self.work.progress.take().or_else(|| fetch.progress.take());
        }
        if let Some(fetched) = fetched {
            self.take(fetched, cx);
        }
        if std::mem::replace(&mut self.models_number, cx.models.number) != cx.models.number {
            self.settle(own_model, is_editing, cx);
        }
    }

    /// Shows a known model that is not here, or none; not while another is on its way.
    pub fn show(&mut self, entry: Option<CatalogEntry>, cx: &AppContext) {
        if self.is_busy() {
            return;
        }
        self.park();
        self.fetch = entry.zip(cx.paths.as_ref()).map(|(entry, paths)| {
            let parked = self.parked.iter().position(|it| it.entry.id == entry.id);
            match parked {
                Some(at) => self.parked.remove(at),
                None => ModelDownload {
                    entry,
                    folder: paths.models(),
                    state: FetchState::Shown,
                    progress: None,
                    form: GenerateForm::default(),
                },
            }
        });
    }

    /// Requests sizes, or starts after the confirmation; on a separate thread.
    pub fn send(&mut self, state: FetchState, cx: &AppContext) {
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| !fetch.is_busy()) else {
            return;
        };
        let is_asking = state == FetchState::Asking;
        fetch.form.clone_from(&cx.form);
        fetch.state = state;
        let orders = download::orders(&fetch.entry, &self.hub, &fetch.folder);
        let options = DownloadOptions {
            token: self.hub.token.clone(),
            ..DownloadOptions::default()
        };
        let folder = fetch.folder.clone();
        self.work = cx.background.long("fetch", move |cancel, tell| {
            if is_asking {
                let quoted = quote(&orders, &options, &folder, cancel);
                FetchOutcome::Quoted(quoted.map_err(|err| JobError::from(&err)))
            } else {
                let mut tell = |progress: &DownloadStatus| tell(progress.clone());
                let files = download::download(&orders, &options, cancel, &mut tell);
                let is_whole = files.map(|files| files.is_some());
                FetchOutcome::Ended(is_whole.map_err(|err| JobError::from(&err)))
            }
        });
    }

    pub fn pause(&mut self) {
        if let Some(fetch) = &mut self.fetch {
            self.work.stop();
            match fetch.state {
                FetchState::Running => fetch.state = FetchState::Pausing,
                FetchState::Asking => {
                    self.work = LongTask::default();
                    fetch.state = FetchState::Shown;
                }
                _ => {}
            }
        }
    }

    fn take(&mut self, fetched: FetchOutcome, cx: &mut AppContext) {
        let Some(fetch) = &mut self.fetch else {
            return;
        };
        fetch.state = match fetched {
            FetchOutcome::Quoted(Ok(Some(quoted))) => FetchState::Confirming(quoted),
            FetchOutcome::Quoted(Ok(None)) => FetchState::Shown,
            FetchOutcome::Quoted(Err(err)) | FetchOutcome::Ended(Err(err)) => {
                FetchState::Stopped(Some(err))
            }
            FetchOutcome::Ended(Ok(false)) => FetchState::Stopped(None),
            FetchOutcome::Ended(Ok(true)) => {
                cx.say(format!("{} is downloaded", fetch.entry.name));
                self.arrived.insert(0, fetch.entry.name.clone());
                let fetched = self.fetch.take();
                self.arriving = fetched.map(|fetch| (fetch.entry.id, fetch.form));
                cx.push(LibraryCommand::Reload);
                return;
            }
        };
    }

    /// Selects the downloaded model once the library has found it, unless the user has selected another: then it is
    /// offered. A search that began before the download was complete does not know it yet; problems of a broken one are
    /// shown below the picker.
    fn settle(&mut self, own_model: Option<&str>, is_editing: bool, cx: &mut AppContext) {
        let arriving = self.arriving.take_if(|(id, _)| cx.models.get(id).is_some());
        let Some((id, form)) = arriving else {
            return;
        };
        let Some(spec) = cx.models.get(&id).cloned() else {
            return;
        };
        let text = format!("{} is ready", spec.name);
        cx.say(text.as_str());
        if own_model == Some(id.as_str()) {
            return;
        }
        if !is_editing && cx.form == form {
            cx.form.reset_to(&spec);
        } else {
            let advice = "The form keeps the model that you are using";
            let hover = "Your prompt stays; the other values become this model's defaults";
            let command = LibraryCommand::Choose(id.clone());
            let notice = UserNotice::info(text, advice).offer("Switch to it", hover, command);
            cx.notices.show(notice.about(NoticeCause::Fetched(id)));
        }
    }
}

fn quote(
    orders: &[DownloadItem],
    options: &DownloadOptions,
    folder: &Path,
    cancel: &CancelToken,
) -> Result<Option<DownloadQuote>, download::DownloadError> {
    let Some(quotes) = download::quote(orders, options, cancel)? else {
        return Ok(None);
    };
    download::ensure_space(orders, &quotes)?;
    Ok(Some(DownloadQuote {
        left_bytes: quotes.iter().map(|quote| quote.left_bytes()).sum(),
        free_bytes: host::free_bytes(folder),
    }))
}
