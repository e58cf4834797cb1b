//! Shared state of all parts of the window: settings, form, models, notices, background threads, clock.
//!
//! It depends on no part. A part receives another's data as an argument, or sends it a command.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use egui::Context;
use safelight_core::job::prompt::WildcardFolders;
use safelight_core::job::{
    DeviceChoice, FieldError, FormNotice as FieldNotice, GenerateForm, JobError, JobErrorKind,
};
use safelight_core::model::ModelSpec;
use safelight_core::settings::{AppPaths, LiveSettings, Settings};

use crate::window::background::BackgroundTask;
use crate::window::background::BackgroundThreads;
use crate::window::commands::AppCommand;
use crate::window::create::undo::{UndoAction, UndoHistory};
use crate::window::library::models::ModelChoice;
use crate::window::notices::{NoticeCause, NoticeList, NoticeSeverity, UserNotice};
use crate::window::prompt::prompt_cursor::PromptCursor;
use crate::window::state::{DrawnFrame, FoldState, MainPage};
use crate::window::thumbnails::ThumbCache;

pub struct AppContext {
    pub ctx: Context,
    /// Paths of files; without a home folder nothing is saved.
    pub paths: Option<AppPaths>,
    /// Settings in effect, saved or not.
    pub settings: Settings,
    /// Settings of the next job, read by the worker.
    pub live_settings: LiveSettings,
    pub form: GenerateForm,
    /// Device of new jobs where there are several; automatic is any.
    pub job_device: DeviceChoice,
    pub typing: PromptCursor,
    /// Another one whenever all of the form is replaced: what was on its way for the form before is not for this one.
    pub form_number: u64,
    pub field_errors: Vec<FieldError>,
    pub field_notices: Vec<FieldNotice>,
    /// True if the form's seed has made a result already.
    pub is_seed_used: bool,
    /// Number of seeds of the last jobs, counted from that one.
    pub num_seeds_used: u64,
    pub models: ModelChoice,
    pub notices: NoticeList,
    pub undo: UndoHistory,
    pub background: BackgroundThreads,
    pub thumbs: ThumbCache,
    pub page: MainPage,
    /// If there is no room for both: the view is shown instead of the form.
    pub is_view_shown: bool,
    /// If there is no room for the queue next to the view, it covers the view.
    pub is_queue_over: bool,
    /// Like `is_view_shown`, of the memory panel.
    pub is_memory_over: bool,
    pub folds: FoldState,
    /// Another one whenever the advanced settings are to be unfolded.
    pub num_advanced_shown: u64,
    pub drawn: DrawnFrame,
    /// Said in the status line while nothing runs.
    pub last_word: String,
    /// Seconds, also while the window is hidden.
    pub now_secs: f64,
    /// Last time of egui, and the clock at that moment.
    last_pass: (f64, Instant),
    commands: VecDeque<AppCommand>,
}

impl AppContext {
    pub(super) fn new(
        ctx: &Context,
        paths: Option<AppPaths>,
        settings: Settings,
        live_settings: LiveSettings,
        form: GenerateForm,
        folds: FoldState,
    ) -> Self {
        live_settings.set(settings.clone());
        Self {
            ctx: ctx.clone(),
            thumbs: ThumbCache::new(paths.as_ref().map(AppPaths::thumbnails)),
            paths,
            settings,
            live_settings,
            form,
            job_device: DeviceChoice::Auto,
            typing: PromptCursor::default(),
            form_number: 0,
            field_errors: Vec::new(),
            field_notices: Vec::new(),
            is_seed_used: false,
            num_seeds_used: 0,
            models: ModelChoice::default(),
            notices: NoticeList::default(),
            undo: UndoHistory::default(),
            background: BackgroundThreads::start(ctx),
            page: MainPage::default(),
            is_view_shown: false,
            is_queue_over: false,
            is_memory_over: false,
            folds,
            num_advanced_shown: 0,
            drawn: DrawnFrame::default(),
            last_word: String::new(),
            now_secs: 0.0,
            last_pass: (0.0, Instant::now()),
            commands: VecDeque::new(),
        }
    }

    /// The chosen device where there are several, else that of the settings.
    pub fn device_of_new_jobs(&self) -> DeviceChoice {
        match self.job_device {
            DeviceChoice::Auto => self.settings.runtime.job_device(),
            device => device,
        }
    }

    /// Of a window that has no home and knows nothing.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        let (settings, live, form) = Default::default();
        Self::new(
            &Context::default(),
            None,
            settings,
            live,
            form,
            FoldState::default(),
        )
    }

    /// Queues a command to run before the next frame.
    pub fn push(&mut self, command: impl Into<AppCommand>) {
        self.commands.push_back(command.into());
    }

    pub(super) fn next_command(&mut self) -> Option<AppCommand> {
        self.commands.pop_front()
    }

    pub fn notify(&mut self, severity: NoticeSeverity, err: JobError) {
        self.notices.show(UserNotice::new(severity, err));
    }

    /// Like [`Self::notify`], until its cause is over.
    pub fn tell_about(&mut self, cause: NoticeCause, severity: NoticeSeverity, err: JobError) {
        self.notices
            .show(UserNotice::new(severity, err).about(cause));
    }

    /// Adds an undo action, and shows a card with its button. `name`: the action as a command, such as `remove 3 jobs`.
    pub fn offer_undo(
        &mut self,
        name: impl Into<String>,
        done: impl Into<String>,
        what: UndoAction,
    ) {
        let id = self.undo.push(name, what);
        self.notices.show_undo(id, done);
    }

    pub fn say(&mut self, words: impl Into<String>) {
        self.last_word = words.into();
    }

    pub fn replace_form(&mut self, form: GenerateForm) {
        self.form = form;
        self.form_number += 1;
        self.is_seed_used = false;
    }

    pub fn wildcard_folders(&self) -> WildcardFolders {
        let paths = self.paths.as_ref();
        let folders = paths.map(|paths| self.settings.wildcard_folders(paths));
        folders.unwrap_or_default()
    }

    pub fn model(&self) -> Option<&ModelSpec> {
        self.models.model_of(&self.form)
    }

    /// Opens a page next to the form; if there is no room for both, in the whole window.
    pub fn show(&mut self, page: MainPage) {
        self.page = page;
        self.is_view_shown = true;
        self.is_queue_over = false;
        self.is_memory_over = false;
    }

    /// Hands work to the file thread; where too much waits for that already, tells what was not done.
    pub fn on_files<T: Send + 'static>(
        &mut self,
        undone: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> BackgroundTask<T> {
        let task = self.background.on_files(work);
        if !task.is_busy() {
            let err = JobError::new(JobErrorKind::Disk, format!("{undone}: files are busy"));
            self.notify(NoticeSeverity::Warning, err.advise("Try again in a moment"));
        }
        task
    }

    pub(super) fn poll_thumbs(&mut self) {
        self.thumbs.poll(&self.ctx, &self.background);
    }

    pub fn wake_in(&self, secs: f64) {
        let wait = Duration::try_from_secs_f64(secs).unwrap_or_default();
        self.ctx.request_repaint_after(wait);
    }

    /// Returns whether it is so late; else the window is woken then.
    pub fn is_due(&self, at_secs: f64) -> bool {
        let left = at_secs - self.now_secs;
        if left > 0.0 {
            self.wake_in(left);
        }
        left <= 0.0
    }

    /// egui's time stops while the window is hidden, because no pass runs.
    pub(super) fn read_clock(&mut self) {
        let pass_secs = self.ctx.input(|input| input.time);
        if self.last_pass.0 != pass_secs {
            self.last_pass = (pass_secs, Instant::now());
        }
        self.now_secs = pass_secs + self.last_pass.1.elapsed().as_secs_f64();
    }
}
