//! The settings while the window is open: changes from the screen, edits of the file, and how both become one.
//!
//! A change acts at once and is written a moment later; an edit of the file acts at once too. Of each setting the
//! later value counts, and no file that cannot be read is written over. Files are read and written by other threads.

mod watching;

use std::collections::HashSet;
use std::process::Command;
use std::time::Duration;

use crossbeam_channel::Sender;
use egui::Context;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::settings::{
    LoadedSettings, Settings, SettingsError, SettingsFile, SettingsNews, table,
};

use crate::app::App;
use crate::app::background::{Answer, Task};
use crate::app::commands::FolderSetting;
use crate::app::state::{Page, Session, Severity};
use crate::ui::theme;

/// A change is written when no other has followed for so long.
const SAVE_AFTER_SECS: f64 = 0.6;
/// What one press of a key for the scale changes.
const SCALE_STEP: f32 = 0.1;
/// How many settings the command palette offers as lately changed.
const MAX_RECENT: usize = 6;

/// What can be asked of the settings beside changing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsCommand {
    /// The default of one key, such as `interface.theme`.
    Reset(&'static str),
    /// Show the page with this row.
    Show(&'static str),
    /// Open the file in the user's editor.
    OpenFile,
    Larger,
    Smaller,
    NormalSize,
    SwitchTheme,
}

/// What came of reading or writing the file.
pub enum SettingsAnswer {
    /// Somebody else has written it, or taken it away.
    News(SettingsNews),
    /// These were to be saved; what the file says now.
    Saved(Box<Settings>, Result<Box<Settings>, SettingsError>),
}

/// What the page shows, and what is known of the file.
#[derive(Default)]
pub struct SettingsPage {
    /// What was typed into the search.
    pub search: String,
    /// The row to scroll to, when the page is drawn next.
    pub shown_key: Option<&'static str>,
    /// What is being typed or dragged, by its field, before it counts.
    pub draft: Option<(String, String)>,
    /// The scale while it is dragged: the window must not grow under the pointer.
    pub scale_draft: Option<f64>,
    /// Why the file cannot be used, while it cannot.
    pub broken: Option<String>,
    /// Where it lies.
    pub path: String,
    file: Option<SettingsFile>,
    /// What the file says, as far as known.
    base: Settings,
    /// When something changed that is not in the file.
    changed_at: Option<f64>,
    is_saving: bool,
    /// Sentences on unknown keys that were told.
    told: HashSet<String>,
    /// The watching ends with it.
    watching: Option<Sender<()>>,
}

impl App {
    /// Begins to watch the file. `told` is what was said of it already, `broken` why it could not be used.
    pub(super) fn open_settings(&mut self, told: HashSet<String>, broken: Option<String>) {
        let page = &mut self.session.settings;
        page.base = self.settings.clone();
        (page.told, page.broken) = (told, broken);
        if let Some(paths) = &self.paths {
            let file = SettingsFile::new(paths.settings_file());
            page.path = file.path().display().to_string();
            page.watching = Some(watching::start(&self.background, file.clone()));
            page.file = Some(file);
        }
    }

    pub(super) fn run_settings_command(&mut self, ctx: &Context, command: SettingsCommand) {
        match command {
            SettingsCommand::Reset(key) => {
                let settings = self.settings.with_key_of(key, &Settings::default());
                self.session.settings.draft = None;
                self.change_settings(ctx, settings);
            }
            SettingsCommand::Show(key) => {
                self.session.page = Page::Settings;
                self.session.uncover_page();
                self.session.settings.search.clear();
                self.session.settings.shown_key = Some(key);
            }
            SettingsCommand::OpenFile => self.open_settings_file(),
            SettingsCommand::Larger => {
                self.change_scale(ctx, self.settings.interface.scale + SCALE_STEP);
            }
            SettingsCommand::Smaller => {
                self.change_scale(ctx, self.settings.interface.scale - SCALE_STEP);
            }
            SettingsCommand::NormalSize => self.change_scale(ctx, 1.0),
            SettingsCommand::SwitchTheme => {
                let mut settings = self.settings.clone();
                settings.interface.theme = theme::other(ctx);
                self.change_settings(ctx, settings);
            }
        }
    }

    fn change_scale(&mut self, ctx: &Context, scale: f32) {
        let mut settings = self.settings.clone();
        settings.interface.scale = ((scale * 20.0).round() / 20.0).clamp(0.5, 3.0);
        self.session.settings.scale_draft = None;
        self.change_settings(ctx, settings);
        let percent = self.settings.interface.scale * 100.0;
        self.session.last_word = format!("Everything at {percent:.0} %");
    }

    /// Takes over what was changed on the screen; it is written a moment later.
    pub(super) fn change_settings(&mut self, ctx: &Context, settings: Settings) {
        let settings = settings.at_home();
        if settings == self.settings {
            return;
        }
        self.remember_changed(&settings);
        self.apply_settings(ctx, settings);
        self.session.settings.changed_at = Some(self.now_secs);
    }

    /// Makes the settings act, wherever they come from. Nothing of a running job changes.
    fn apply_settings(&mut self, ctx: &Context, settings: Settings) {
        theme::choose(ctx, settings.interface.theme);
        if settings.interface.scale != self.settings.interface.scale {
            ctx.set_zoom_factor(settings.interface.scale.clamp(0.5, 3.0));
        }
        let are_models_elsewhere = settings.models.folders != self.settings.models.folders
            || settings.models.search_installs != self.settings.models.search_installs;
        let is_engine_another = settings.runtime.libtorch != self.settings.runtime.libtorch;
        let is_machine_another = settings.runtime != self.settings.runtime;
        let is_room_another = settings.memory != self.settings.memory;
        let are_results_elsewhere = settings.output != self.settings.output;
        self.live_settings.set(settings.clone());
        self.settings = settings;
        if are_results_elsewhere && self.session.page == Page::Gallery {
            self.open_gallery();
        }
        if are_models_elsewhere {
            self.load_models();
        }
        if is_engine_another {
            self.check_engine();
        }
        if is_machine_another {
            self.session.planning.forget();
        }
        if is_machine_another || is_room_another {
            self.renew_survey();
        }
    }

    /// For the command palette, which offers the settings that somebody plays with.
    fn remember_changed(&mut self, settings: &Settings) {
        let changed = self.settings.changed_keys(settings);
        let known = table::settings().filter(|row| changed.iter().any(|key| row.holds(key)));
        for row in known {
            let recent = &mut self.state.recent_settings;
            recent.retain(|key| key != row.key);
            recent.insert(0, row.key.to_owned());
            recent.truncate(MAX_RECENT);
        }
    }

    pub(super) fn take_picked_folder(
        &mut self,
        ctx: &Context,
        purpose: FolderSetting,
        path: std::path::PathBuf,
    ) {
        let mut settings = self.settings.clone();
        match purpose {
            FolderSetting::Output => settings.output.folder = Some(path),
            FolderSetting::Pictures => settings.output.pictures_folder = Some(path),
            FolderSetting::Libtorch => settings.runtime.libtorch = Some(path),
            FolderSetting::Models => settings.models.folders.push(path),
            FolderSetting::Wildcards => settings.models.wildcards.push(path),
        }
        self.change_settings(ctx, settings);
    }

    /// Writes what changed, once it has stayed as it is for a moment.
    pub(super) fn save_settings_when_due(&mut self, ctx: &Context) {
        let page = &self.session.settings;
        let Some(changed_at) = page.changed_at else {
            return;
        };
        if page.is_saving || page.broken.is_some() {
            // What comes of it wakes the window.
            return;
        }
        let due = changed_at + SAVE_AFTER_SECS - self.now_secs;
        if due > 0.0 {
            ctx.request_repaint_after(Duration::try_from_secs_f64(due).unwrap_or_default());
        } else {
            self.save_settings();
        }
    }

    /// Has everything written that is not in the file yet.
    pub(super) fn save_settings(&mut self) {
        let page = &mut self.session.settings;
        let Some(file) = page.file.clone() else {
            return;
        };
        if self.settings == page.base || page.broken.is_some() {
            return;
        }
        let (base, ours) = (page.base.clone(), self.settings.clone());
        let is_taken = self.background.run(Task::Work(Box::new(move || {
            let saved = file.save(&base, &ours).map(Box::new);
            Some(Answer::Settings(SettingsAnswer::Saved(
                Box::new(ours),
                saved,
            )))
        })));
        if is_taken {
            page.is_saving = true;
            page.changed_at = None;
        }
    }

    pub(super) fn take_settings(&mut self, ctx: &Context, answer: SettingsAnswer) {
        match answer {
            SettingsAnswer::Saved(ours, saved) => {
                self.session.settings.is_saving = false;
                match saved {
                    Ok(theirs) => self.settle_settings(ctx, &ours, *theirs),
                    Err(err) => self.keep_unsaved(&err),
                }
            }
            SettingsAnswer::News(SettingsNews::Gone) => {
                self.forget_broken("The broken settings file is gone");
                // What changed meanwhile makes a new one.
                if self.settings != self.session.settings.base {
                    self.session.settings.changed_at = Some(self.now_secs);
                }
            }
            SettingsAnswer::News(SettingsNews::Said(loaded)) => {
                let LoadedSettings {
                    settings,
                    warnings,
                    error,
                } = *loaded;
                if let Some(err) = error {
                    self.tell_broken(&err);
                } else {
                    self.forget_broken("The settings file can be read again");
                    self.tell_unknown_keys(&warnings);
                    let base = self.session.settings.base.clone();
                    self.settle_settings(ctx, &base, settings);
                }
            }
        }
    }

    /// The file says `theirs`; what changed on the screen since `base` is kept over it.
    fn settle_settings(&mut self, ctx: &Context, base: &Settings, theirs: Settings) {
        let merged = Settings::merge(base, &self.settings, &theirs);
        let changed = self.settings.changed_keys(&merged);
        let now = self.now_secs;
        let page = &mut self.session.settings;
        if merged != theirs && page.changed_at.is_none() {
            page.changed_at = Some(now);
        }
        page.base = theirs;
        if !changed.is_empty() {
            self.session.last_word = match changed.as_slice() {
                [one] => format!("Taken from the settings file: {one}"),
                several => format!("{} settings taken from the file", several.len()),
            };
            self.apply_settings(ctx, merged);
        }
    }

    fn keep_unsaved(&mut self, err: &SettingsError) {
        if let SettingsError::Write { .. } = err {
            // It is tried again with the next change, and when the window is closed.
            let err = JobError::from_error(JobErrorKind::Disk, err)
                .advise("Make the file writable to keep the changes: they count now, and are lost when Safelight is closed");
            self.session.notify(Severity::Warning, err);
        } else {
            self.session.settings.changed_at = Some(self.now_secs);
            self.tell_broken(err);
        }
    }

    /// One card with the place, for as long as the file is broken.
    fn tell_broken(&mut self, err: &SettingsError) {
        let err = JobError::from_error(JobErrorKind::InvalidRequest, err).advise(
            "The settings stay as they were. What you change here counts, and is written as soon as the file can be read",
        );
        if self.session.settings.broken.as_ref() == Some(&err.summary) {
            return;
        }
        self.forget_broken("");
        self.session.settings.broken = Some(err.summary.clone());
        self.session.notify(Severity::Warning, err);
    }

    fn forget_broken(&mut self, word: &str) {
        if let Some(summary) = self.session.settings.broken.take() {
            self.session
                .notices
                .retain(|notice| notice.summary != summary);
            word.clone_into(&mut self.session.last_word);
        }
    }

    fn tell_unknown_keys(&mut self, warnings: &[String]) {
        for text in warnings {
            if self.session.settings.told.insert(text.clone()) {
                let err = JobError::new(JobErrorKind::InvalidRequest, text.as_str())
                    .advise("It does nothing, and stays in the file");
                self.session.notify(Severity::Info, err);
            }
        }
        // One that was taken away is no news any more, and when it comes back it is news again.
        let Session {
            settings, notices, ..
        } = &mut self.session;
        let gone = settings.told.extract_if(|text| !warnings.contains(text));
        let gone: Vec<String> = gone.collect();
        notices.retain(|notice| !gone.contains(&notice.summary));
    }

    /// Shows the file in whatever the desktop opens such files with; there is one afterwards.
    fn open_settings_file(&self) {
        let Some(file) = self.session.settings.file.clone() else {
            return;
        };
        let ours = self.settings.clone();
        self.background.spawn("open-settings", move |postbox| {
            let opened = file
                .ensure(&ours)
                .map_err(|err| err.to_string())
                .and_then(|()| {
                    let output = Command::new("xdg-open").arg(file.path()).output();
                    let output = output.map_err(|err| format!("xdg-open: {err}"))?;
                    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                    output.status.success().then_some(()).ok_or(said)
                });
            if let Err(why) = opened {
                let err = JobError::new(JobErrorKind::Disk, "no editor could be opened")
                    .advise(format!("The file is {}", file.path().display()))
                    .detail(why);
                postbox.post(Answer::Problem(err));
            }
        });
    }
}
