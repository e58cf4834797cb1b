//! Settings: changed by the window, written to their file, and read again when the file changes.

pub mod panel;

use std::collections::HashSet;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use safelight_core::settings::table::Value;
use safelight_core::settings::{SettingsError, SettingsFile, SettingsNews, SettingsWatch, table};

use crate::window::background::{BackgroundThreads, open_outside};
use crate::window::desktop::window_position;
use crate::window::prelude::*;

const SAVE_AFTER_SECS: f64 = 0.6;
const MAX_RECENT: usize = 6;
/// Interval of polls; an edit acts within twice this time.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// Keeps the settings and their file the same.
#[derive(Default)]
pub struct SettingsKeeping {
    /// Why the file cannot be used, while it cannot.
    pub broken: Option<String>,
    pub path: String,
    /// Keys of the last changed settings, newest first.
    pub recent: Vec<String>,
    /// The row that is to be shown, and how often there was one.
    pub shown: (u64, &'static str),
    file: Option<SettingsFile>,
    /// Content of the file, as far as known.
    base: Settings,
    /// When something changed that is not in the file.
    changed_at: Option<f64>,
    reported: HashSet<String>,
    /// Settings to save, and the file's content now.
    saving: BackgroundTask<(Settings, Result<Settings, SettingsError>)>,
    news: BackgroundTask<SettingsNews>,
    picking: BackgroundTask<Option<(&'static str, PathBuf)>>,
    /// The watching ends with it.
    watching: Option<Sender<()>>,
}

impl SettingsKeeping {
    /// Tells what was wrong with the file when it was read, of which `broken` made it unusable, and begins to watch it.
    pub(super) fn open(
        recent: Vec<String>,
        problems: Vec<JobError>,
        broken: Option<String>,
        cx: &mut AppContext,
    ) -> Self {
        let reported = problems.iter().map(|problem| problem.summary.clone());
        let mut keeping = Self {
            recent,
            base: cx.settings.clone(),
            reported: reported.collect(),
            ..Self::default()
        };
        for problem in problems {
            let cause = match &problem.summary {
                summary if broken.as_ref() == Some(summary) => NoticeCause::SettingsFile,
                summary => NoticeCause::SettingsKey(summary.clone()),
            };
            cx.tell_about(cause, NoticeSeverity::Warning, problem);
        }
        keeping.broken = broken;
        if let Some(paths) = &cx.paths {
            let file = SettingsFile::new(paths.settings_file());
            keeping.path = file.path().display().to_string();
            let (watching, news) = start(&cx.background, file.clone());
            (keeping.watching, keeping.news) = (Some(watching), news);
            keeping.file = Some(file);
        }
        keeping
    }

    pub fn update(&mut self, command: SettingsCommand, cx: &mut AppContext) {
        let mut settings = cx.settings.clone();
        match command {
            SettingsCommand::Change(changed) => self.change(*changed, cx),
            SettingsCommand::Reset(key) => {
                self.change(settings.with_key_of(key, &Settings::default()), cx);
            }
            SettingsCommand::Show(key) => {
                cx.show(MainPage::Settings);
                self.shown = (self.shown.0 + 1, key);
            }
            SettingsCommand::AddModelFolder(folder) => {
                if !settings.models.folders.contains(&folder) {
                    settings.models.folders.push(folder);
                }
                self.change(settings, cx);
                cx.show(MainPage::Models);
            }
            SettingsCommand::PickFolder(key) => self.pick_folder(key, cx),
            SettingsCommand::OpenFile => self.open_file(cx),
            SettingsCommand::Scale(by) => {
                let scale = by.map_or(1.0, |by| settings.interface.scale + by);
                settings.interface.scale = ((scale * 20.0).round() / 20.0).clamp(0.5, 3.0);
                cx.say(format!(
                    "Interface at {:.0} %",
                    settings.interface.scale * 100.0
                ));
                self.change(settings, cx);
            }
            SettingsCommand::SwitchTheme => {
                settings.interface.theme = window_position::other(&cx.ctx);
                self.change(settings, cx);
            }
        }
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        while let Some(news) = self.news.take() {
            self.take_news(news, cx);
        }
        match self.saving.take() {
            Some((ours, Ok(theirs))) => {
                cx.notices.end(&NoticeCause::SettingsFile);
                self.settle(&ours, theirs, cx);
            }
            Some((_, Err(err))) => self.keep_unsaved(&err, cx),
            None => {}
        }
        if let Some(Some((key, path))) = self.picking.take() {
            self.take_folder(key, &path, cx);
        }
    }

    /// Takes over what was changed on the screen; it is written a moment later.
    fn change(&mut self, settings: Settings, cx: &mut AppContext) {
        let settings = settings.at_home();
        if settings == cx.settings {
            return;
        }
        // For the command palette, which offers settings that are often changed.
        let changed = cx.settings.changed_keys(&settings);
        for row in table::settings().filter(|row| changed.iter().any(|key| row.holds(key))) {
            self.recent.retain(|key| key != row.key);
            self.recent.insert(0, row.key.to_owned());
            self.recent.truncate(MAX_RECENT);
        }
        apply(settings, cx);
        self.changed_at = Some(cx.now_secs);
    }

    fn pick_folder(&mut self, key: &'static str, cx: &AppContext) {
        let title = match key {
            "output.folder" => "Choose the folder for videos",
            "output.images_folder" => "Choose the folder for images",
            "runtime.libtorch" => "Choose a libtorch folder",
            "models.folders" => "Choose a folder with models",
            _ => "Choose a folder with wildcard files",
        };
        self.picking = cx.background.ask(move || {
            let dialog = rfd::FileDialog::new().set_title(title);
            Some((key, dialog.pick_folder()?))
        });
    }

    fn take_folder(&mut self, key: &str, path: &Path, cx: &mut AppContext) {
        let path = Value::from(path.to_string_lossy().into_owned());
        let value = match cx.settings.values().remove(key) {
            Some(Value::Array(folders)) => [folders, vec![path]].concat().into(),
            _ => path,
        };
        self.change(cx.settings.with_value(key, Some(value)), cx);
    }

    /// Writes what changed, once it has stayed as it is for a moment.
    pub(super) fn save_when_due(&mut self, cx: &AppContext) {
        let Some(changed_at) = self.changed_at else {
            return;
        };
        if self.saving.is_busy() || self.broken.is_some() {
            // The result wakes the window.
            return;
        }
        if cx.is_due(changed_at + SAVE_AFTER_SECS) {
            self.save(cx);
        }
    }

    pub(super) fn save(&mut self, cx: &AppContext) {
        let Some(file) = self.file.clone() else {
            return;
        };
        if cx.settings == self.base || self.broken.is_some() {
            return;
        }
        let (base, ours) = (self.base.clone(), cx.settings.clone());
        let saving = cx.background.on_files(move || {
            let saved = file.save(&base, &ours);
            (ours, saved)
        });
        if saving.is_busy() {
            self.saving = saving;
            self.changed_at = None;
        }
    }

    fn take_news(&mut self, news: SettingsNews, cx: &mut AppContext) {
        let SettingsNews::Said(loaded) = news else {
            self.forget_broken("The broken settings file is gone", cx);
            // Changes in the meantime start a new save.
            if cx.settings != self.base {
                self.changed_at = Some(cx.now_secs);
            }
            return;
        };
        if let Some(err) = loaded.error {
            self.tell_broken(&err, cx);
        } else {
            self.forget_broken("The settings file can be read again", cx);
            self.tell_unknown_keys(&loaded.warnings, cx);
            let base = self.base.clone();
            self.settle(&base, loaded.settings, cx);
        }
    }

    /// The file says `theirs`; what changed on the screen since `base` is kept over it.
    fn settle(&mut self, base: &Settings, theirs: Settings, cx: &mut AppContext) {
        let merged = Settings::merge(base, &cx.settings, &theirs);
        let changed = cx.settings.changed_keys(&merged);
        if merged != theirs && self.changed_at.is_none() {
            self.changed_at = Some(cx.now_secs);
        }
        self.base = theirs;
        if !changed.is_empty() {
            cx.say(match changed.as_slice() {
                [one] => format!("Taken from the settings file: {one}"),
                several => format!("{} settings taken from the settings file", several.len()),
            });
            apply(merged, cx);
        }
    }

    fn keep_unsaved(&mut self, err: &SettingsError, cx: &mut AppContext) {
        if let SettingsError::Write { .. } = err {
            // It is tried again with the next change, and when the window is closed.
            let err = JobError::from_error(JobErrorKind::Disk, err).advise(
                "Your changes work now, but are lost when Safelight closes. Make the file writable \
                to keep them",
            );
            cx.tell_about(NoticeCause::SettingsFile, NoticeSeverity::Warning, err);
        } else {
            self.changed_at = Some(cx.now_secs);
            self.tell_broken(err, cx);
        }
    }

    fn tell_broken(&mut self, err: &SettingsError, cx: &mut AppContext) {
        let err = JobError::from_error(JobErrorKind::InvalidRequest, err).advise(
            "The settings from before stay in use. Correct the file: until then your changes work, \
            but are not saved",
        );
        if self.broken.as_ref() == Some(&err.summary) {
            return;
        }
        cx.notices.end(&NoticeCause::SettingsFile);
        self.broken = Some(err.summary.clone());
        cx.tell_about(NoticeCause::SettingsFile, NoticeSeverity::Warning, err);
    }

    fn forget_broken(&mut self, word: &str, cx: &mut AppContext) {
        if self.broken.take().is_some() {
            cx.notices.end(&NoticeCause::SettingsFile);
            cx.say(word);
        }
    }

    fn tell_unknown_keys(&mut self, warnings: &[String], cx: &mut AppContext) {
        for text in warnings {
            if self.reported.insert(text.clone()) {
                let notice = UserNotice::info(text, "It does nothing, and stays in the file");
                cx.notices
                    .show(notice.about(NoticeCause::SettingsKey(text.clone())));
            }
        }
        // One that was taken away is no news any more, and when it comes back it is news again.
        for gone in self.reported.extract_if(|text| !warnings.contains(text)) {
            cx.notices.end(&NoticeCause::SettingsKey(gone));
        }
    }

    /// Shows the file in whatever the desktop opens such files with; there is one afterwards.
    fn open_file(&self, cx: &AppContext) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let ours = cx.settings.clone();
        cx.background.attempt("open-settings", move || {
            let there = file.ensure(&ours).map_err(|err| err.to_string());
            let opened = there.and_then(|()| open_outside(file.path()));
            opened.map_err(|why| {
                JobError::new(JobErrorKind::Disk, "no editor could be opened")
                    .advise(format!("The file is {}", file.path().display()))
                    .detail(why)
            })
        });
    }
}

/// Makes the settings act, wherever they come from. Nothing of a running job changes; parts that go by some of them see
/// by themselves that these are others.
fn apply(settings: Settings, cx: &mut AppContext) {
    window_position::choose(&cx.ctx, settings.interface.theme);
    if settings.interface.scale != cx.settings.interface.scale {
        cx.ctx
            .set_zoom_factor(settings.interface.scale.clamp(0.5, 3.0));
    }
    cx.live_settings.set(settings.clone());
    cx.settings = settings;
}

/// Watches until the first of what it gives is dropped.
fn start(
    background: &BackgroundThreads,
    file: SettingsFile,
) -> (Sender<()>, BackgroundTask<SettingsNews>) {
    let (stop, stopped) = bounded(0);
    let news = background.stream("settings", move |postbox| {
        let mut watch = SettingsWatch::new(file);
        while stopped.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Some(news) = watch.poll() {
                postbox.post(news);
            }
        }
    });
    (stop, news)
}
