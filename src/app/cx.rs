//! Shared state of all parts of the window: settings, form, models, notices, background threads, clock.
//!
//! It depends on no part. A part receives another's data as an argument, or sends it a command.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use egui::Context;
use safelight_core::job::prompt::WildcardFolders;
use safelight_core::job::{
    FieldError, GenerateForm, JobError, JobErrorKind, Notice as FieldNotice,
};
use safelight_core::lora::LoraIndex;
use safelight_core::model::ModelSpec;
use safelight_core::settings::{LiveSettings, Paths, Settings};

use crate::app::background::Background;
use crate::app::commands::AppCommand;
use crate::app::models::Models;
use crate::app::notices::{Cause, Notice, Notices, Severity};
use crate::app::pending::Pending;
use crate::app::prompt::typing::Typing;
use crate::app::state::{Drawn, Folds, Page};
use crate::app::thumbs::Thumbs;
use crate::app::undo::{Undo, UndoHistory};

/// Context that [`crate::app::App`] passes to its parts.
pub struct Cx {
    pub ctx: Context,
    /// Paths of files; without a home folder nothing is saved.
    pub paths: Option<Paths>,
    /// Settings in effect, saved or not.
    pub settings: Settings,
    /// Settings of the next job, read by the worker.
    pub live_settings: LiveSettings,
    pub form: GenerateForm,
    /// Cursor in the prompt.
    pub typing: Typing,
    /// Another one whenever all of the form is replaced: what was on its way for the form before is not for this one.
    pub form_number: u64,
    /// Problems of the form.
    pub field_errors: Vec<FieldError>,
    /// Deviations from the form.
    pub field_notices: Vec<FieldNotice>,
    /// The seed in the form has made a clip already.
    pub is_seed_used: bool,
    /// Number of seeds of the last jobs, counted from that one.
    pub num_seeds_used: u64,
    pub models: Models,
    pub notices: Notices,
    /// Undo history.
    pub undo: UndoHistory,
    pub background: Background,
    /// Small pictures of files and results.
    pub thumbs: Thumbs,
    /// Page in the middle of the window.
    pub page: Page,
    /// If there is no room for both: the view is shown instead of the form.
    pub is_view_shown: bool,
    /// If there is no room for the queue next to the view, it covers the view.
    pub is_queue_over: bool,
    /// Like the previous one, of the memory panel.
    pub is_memory_over: bool,
    pub folds: Folds,
    /// Layout of the last frame.
    pub drawn: Drawn,
    /// Said in the status line while nothing runs.
    pub last_word: String,
    /// Seconds, also while the window is hidden.
    pub now_secs: f64,
    /// Last time of egui, and the clock at that moment.
    last_pass: (f64, Instant),
    commands: VecDeque<AppCommand>,
}

impl Cx {
    pub(super) fn new(
        ctx: &Context,
        paths: Option<Paths>,
        settings: Settings,
        live_settings: LiveSettings,
        form: GenerateForm,
        folds: Folds,
    ) -> Self {
        live_settings.set(settings.clone());
        Self {
            ctx: ctx.clone(),
            thumbs: Thumbs::new(paths.as_ref().map(Paths::thumbnails)),
            paths,
            settings,
            live_settings,
            form,
            typing: Typing::default(),
            form_number: 0,
            field_errors: Vec::new(),
            field_notices: Vec::new(),
            is_seed_used: false,
            num_seeds_used: 0,
            models: Models::default(),
            notices: Notices::default(),
            undo: UndoHistory::default(),
            background: Background::start(ctx),
            page: Page::default(),
            is_view_shown: false,
            is_queue_over: false,
            is_memory_over: false,
            folds,
            drawn: Drawn::default(),
            last_word: String::new(),
            now_secs: 0.0,
            last_pass: (0.0, Instant::now()),
            commands: VecDeque::new(),
        }
    }

    /// Of a window that has no home and knows nothing.
    #[cfg(test)]
    pub(super) fn alone() -> Self {
        let ctx = Context::default();
        Self::new(
            &ctx,
            None,
            Settings::default(),
            LiveSettings::default(),
            GenerateForm::default(),
            Folds::default(),
        )
    }

    /// Has something done before the next frame.
    pub fn push(&mut self, command: impl Into<AppCommand>) {
        self.commands.push_back(command.into());
    }

    pub(super) fn next_command(&mut self) -> Option<AppCommand> {
        self.commands.pop_front()
    }

    /// Tells something without buttons.
    pub fn tell(&mut self, severity: Severity, err: JobError) {
        self.notices.show(Notice::new(severity, err));
    }

    /// Like [`Self::tell`], until its cause is over.
    pub fn tell_about(&mut self, cause: Cause, severity: Severity, err: JobError) {
        self.notices.show(Notice::new(severity, err).about(cause));
    }

    /// Adds an undo action, and shows a card with its button. `name`: the action as a command, such as `remove 3 jobs`.
    pub fn offer_undo(&mut self, name: impl Into<String>, done: impl Into<String>, what: Undo) {
        let id = self.undo.push(name, what);
        self.notices.show_undo(id, done);
    }

    /// Says something in the status line.
    pub fn say(&mut self, words: impl Into<String>) {
        self.last_word = words.into();
    }

    /// Fills the form anew.
    pub fn replace_form(&mut self, form: GenerateForm) {
        self.form = form;
        self.form_number += 1;
        self.is_seed_used = false;
    }

    /// Folder of results; images have a separate folder.
    pub fn output_folder(&self, is_picture: bool) -> Option<PathBuf> {
        let output = &self.settings.output;
        match (&self.paths, is_picture) {
            (Some(paths), true) => Some(output.pictures_folder_or_default(paths)),
            (Some(paths), false) => Some(output.folder_or_default(paths)),
            (None, true) => output.pictures_folder.clone(),
            (None, false) => output.folder.clone(),
        }
    }

    /// Folders of wildcards.
    pub fn wildcard_folders(&self) -> WildcardFolders {
        let paths = self.paths.as_ref();
        let folders = paths.map(|paths| self.settings.wildcard_folders(paths));
        folders.unwrap_or_default()
    }

    /// The LoRAs on this computer, which are listed only when they are needed.
    pub fn lora_index(&self) -> LoraIndex {
        let paths = self.paths.as_ref();
        let index = paths.map(|paths| LoraIndex::new(paths, &self.settings));
        index.unwrap_or_default()
    }

    pub fn model(&self) -> Option<&ModelSpec> {
        self.models.of(&self.form)
    }

    /// Opens a page next to the form; if there is no room for both, in the whole window.
    pub fn show(&mut self, page: Page) {
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
    ) -> Pending<T> {
        self.background.on_files(work).unwrap_or_else(|| {
            let err = JobError::new(JobErrorKind::Disk, format!("{undone}: files are busy"));
            self.tell(Severity::Warning, err.advise("Try again in a moment"));
            Pending::default()
        })
    }

    pub(super) fn poll_thumbs(&mut self) {
        self.thumbs.poll(&self.ctx, &self.background);
    }

    /// Wakes the window after this number of seconds.
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
