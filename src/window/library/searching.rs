//! The search for models on the disk, repeated after changes, and the check of the engine.

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use safelight_core::library::FolderWatch;
use safelight_core::settings::{ENGINES, InstallationKind, libtorch_versions, own_runtime};

use crate::window::create::choices::RememberedModels;
use crate::window::library::models::FoundModels;
use crate::window::library::rows::LibraryRows;
use crate::window::library::survey::ModelSurvey;
use crate::window::library::{LibraryLinks, LibraryState, ParkedForm, id_of_file};
use crate::window::prelude::*;
use crate::worker::{engine_executable, engine_for};

/// Interval of checks for changed models; a change counts once it has lasted as long.
const WATCH_EVERY: Duration = Duration::from_secs(1);
const WATCH_ROOM: usize = 16;

impl LibraryState {
    pub fn new(links: LibraryLinks, remembered: RememberedModels, cx: &AppContext) -> Self {
        let (watching, watched) = bounded(WATCH_ROOM);
        let changes = cx
            .background
            .stream("watch", move |postbox| watch(&watched, postbox));
        Self {
            remembered,
            rows: LibraryRows::default(),
            query: String::new(),
            chosen: None,
            num_opened: 0,
            num_moves: 0,
            survey: ModelSurvey::default(),
            cards: Default::default(),
            engine: None,
            deletion: None,
            planning_deletion: BackgroundTask::default(),
            deleting: BackgroundTask::default(),
            aside: None,
            links,
            models_number: 0,
            looked_with: cx.settings.clone(),
            loading: BackgroundTask::default(),
            checking: BackgroundTask::default(),
            surveying: BackgroundTask::default(),
            reading: BackgroundTask::default(),
            changes,
            watching,
            wanted_file: None,
        }
    }

    pub(crate) fn load(&mut self, cx: &mut AppContext) {
        cx.models.are_loading = true;
        self.load_quietly(cx);
    }

    /// The models that are known stay until the search has ended.
    pub(super) fn load_quietly(&mut self, cx: &mut AppContext) {
        let (load, settings) = (Arc::clone(&self.links.load), cx.settings.clone());
        self.loading = cx.background.search(move || load(&settings));
        // Helper networks change together with them.
        cx.push(FinishCommand::Look);
        cx.push(InputsCommand::LookForNetworks);
    }

    pub(crate) fn check_engine(&mut self, cx: &AppContext) {
        let (check, settings) = (Arc::clone(&self.links.check_engine), cx.settings.clone());
        self.checking = cx.background.search(move || check(&settings));
    }

    pub(crate) fn follow_settings(&mut self, cx: &mut AppContext) {
        if cx.settings == self.looked_with {
            return;
        }
        let now = cx.settings.clone();
        let then = std::mem::replace(&mut self.looked_with, now.clone());
        let places = |it: &Settings| (it.models.folders.clone(), it.models.search_installs);
        if places(&now) != places(&then) {
            self.load(cx);
        }
        if now.runtime.libtorch != then.runtime.libtorch {
            self.check_engine(cx);
        }
        if now.runtime != then.runtime || now.memory != then.memory {
            self.renew_survey(cx);
        }
    }

    pub(crate) fn take_models(&self, found: FoundModels, cx: &mut AppContext) {
        if self.watching.try_send(found.watched.clone()).is_err() {
            tracing::warn!("the places with models are not watched");
        }
        if !found.specs.is_empty() {
            cx.notices.end(&NoticeCause::Models);
        }
        cx.models.take(found);
    }

    /// After a search the list, the cards and what fits are of yesterday, and the form's model may be gone.
    pub(crate) fn settle(&mut self, is_editing: bool, cx: &mut AppContext) {
        if std::mem::replace(&mut self.models_number, cx.models.number) == cx.models.number {
            return;
        }
        if !is_editing {
            self.settle_form(cx);
        }
        let found = &cx.models.found;
        self.rows = LibraryRows::take(&found.specs, &found.unusable, &found.missing);
        self.cards.clear();
        self.search();
        let wanted = self.wanted_file.as_ref().filter(|_| !is_editing);
        if let Some(id) = wanted.and_then(|path| id_of_file(path, cx)) {
            self.wanted_file = None;
            self.use_model(&id, cx);
        }
        self.renew_survey(cx);
        if is_shown(cx)
            && let Some(id) = self.chosen.clone()
        {
            self.read_card(&id, cx);
        }
    }

    /// Makes the form belong to a model that exists: the one it was for, else the first until that is back. A job that is
    /// changed belongs to its own, and this waits for its end.
    pub(crate) fn settle_form(&mut self, cx: &mut AppContext) {
        let is_here = |form: &GenerateForm| cx.models.model_of(form).is_some();
        let aside = self.aside.take();
        let aside = aside.filter(|aside| aside.stand_in == cx.form);
        match aside {
            Some(aside) if is_here(&aside.form) || !is_here(&cx.form) => cx.form = aside.form,
            aside => self.aside = aside,
        }
        if cx.model().is_none()
            && let Some(first) = cx.models.all().first()
        {
            let form = cx.form.clone();
            cx.form.reset_to(first);
            // One that never had a model is not missed.
            self.aside = form.model.is_some().then(|| ParkedForm {
                form,
                stand_in: cx.form.clone(),
            });
        }
    }

    /// The user's form, if this form replaces one whose model is not found.
    pub(crate) fn own_form<'a>(&'a self, form: &'a GenerateForm) -> &'a GenerateForm {
        let aside = self.aside.as_ref();
        let aside = aside.filter(|aside| aside.stand_in == *form);
        aside.map_or(form, |aside| &aside.form)
    }

    /// Returns whether the engine could start; on the first page it is said in its place.
    pub(super) fn take_engine(&mut self, engine: Result<(), JobError>, cx: &mut AppContext) {
        cx.notices.end(&NoticeCause::Engine);
        self.engine = Some(engine);
        if cx.page != MainPage::Welcome {
            self.tell_engine(cx);
        }
        self.renew_survey(cx);
    }

    pub(super) fn tell_engine(&self, cx: &mut AppContext) {
        if let Some(Err(err)) = &self.engine {
            cx.tell_about(NoticeCause::Engine, NoticeSeverity::Error, err.clone());
        }
    }

    /// The survey is outdated: it is repeated when it is shown again.
    pub(crate) fn renew_survey(&mut self, cx: &AppContext) {
        self.survey.is_stale = true;
        if is_shown(cx) {
            self.look_around(cx);
        }
    }
}

fn is_shown(cx: &AppContext) -> bool {
    matches!(cx.page, MainPage::Models | MainPage::Welcome)
}

/// Looks whether models have come or gone. Sleeps until there is something to watch, and draws nothing while it stays as
/// it is.
fn watch(watched: &Receiver<FolderWatch>, postbox: &TaskChannel<()>) {
    let mut now = FolderWatch::default();
    loop {
        let next = if now.is_empty() {
            watched.recv().map_err(RecvTimeoutError::from)
        } else {
            watched.recv_timeout(WATCH_EVERY)
        };
        match next {
            Ok(next) => now = next,
            Err(RecvTimeoutError::Timeout) => {
                if now.has_settled_change() {
                    postbox.post(());
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Checks that the engine can start; runs on a separate thread.
pub type CheckEngine = Arc<dyn Fn(&Settings) -> Result<(), JobError> + Send + Sync>;

/// Looks whether the engine's executable and a libtorch for it are there. Names only: what they can do, the first job
/// tells.
pub fn check_runtime(paths: AppPaths) -> CheckEngine {
    Arc::new(move |settings| {
        let found = own_runtime(settings, &paths.cache);
        let engine = match &found {
            Ok(runtime) => engine_for(runtime)?,
            Err(_) => engine_executable(&ENGINES[0]),
        };
        if !engine.is_file() {
            let text = "the program that computes (safelight-engine) is missing";
            return Err(JobError::new(JobErrorKind::Device, text)
                .advise(InstallationKind::of_this_program().engine_advice())
                .detail(format!("expected an executable: {}", engine.display())));
        }
        found.map(drop).map_err(|err| {
            let text = "libtorch is missing, so nothing can be generated yet";
            let either = libtorch_versions("or");
            let or_get = InstallationKind::of_this_program().or_get_libtorch();
            JobError::new(JobErrorKind::Device, text)
                .advise(format!(
                    "Choose a folder with libtorch {either} in the settings, {or_get}"
                ))
                .detail(format!("{err}\n{err:?}"))
        })
    })
}
