//! Integration with the desktop: window title, notifications, colour scheme, and files from another start of the
//! program.
//!
//! Everything that talks to the desktop runs on a separate thread; a desktop that does not respond is ignored.

pub mod instance;
mod notification;
pub mod window_position;

use std::io;
use std::sync::{Mutex, PoisonError};

use egui::{UserAttentionType, ViewportCommand};
use safelight_core::files::write_atomically;
use safelight_core::gallery::files_of;
use safelight_core::settings::ThemeChoice;

use crate::window::gallery::GalleryState;
use crate::window::inputs::drops::{DroppedFiles, drop_files};
use crate::window::prelude::*;
use crate::window::queue::JobQueue;
use crate::window::state::PanelPlace;
use crate::window::viewer::ResultViewer;

use instance::FirstInstance;
pub use notification::DesktopMessage;
use notification::UnseenResults;

/// The name of the desktop file, so that the desktop shows the right icon and name.
pub const APP_ID: &str = "org.safelight.Safelight";
const TITLE: &str = "Safelight";
/// Shorter work sends no notification.
const LONG_WORK: Duration = Duration::from_secs(30);
/// The title does not change more often than this while a job runs.
const TITLE_EVERY_SECS: f64 = 0.5;
/// Letters of a prompt in the title and in notifications.
const MAX_PROMPT: usize = 40;
const ENTRY: &str = include_str!("../../../packaging/linux/org.safelight.Safelight.desktop");
const ICON: &[u8] = include_bytes!("../../../assets/icons/safelight-256.png");

/// Shows a message, and calls back when it is clicked; must not wait.
pub type NotificationSender = Arc<dyn Fn(DesktopMessage, Box<dyn FnOnce() + Send>) + Send + Sync>;

/// Puts files on the clipboard as file managers do, on a thread that may wait; an error says why not.
pub type FileCopier = Arc<dyn Fn(&[PathBuf]) -> Result<(), String> + Send + Sync>;

#[derive(Clone)]
pub struct DesktopLinks {
    pub copy_files: FileCopier,
    pub notify: NotificationSender,
    /// Minimum total duration of work for a notification.
    pub notify_after: Duration,
    /// True if the theme follows the desktop.
    pub follows_looks: bool,
}

impl DesktopLinks {
    /// Over the session's message bus.
    pub fn of_this_session() -> Self {
        Self {
            copy_files: clipboard_copier(),
            notify: Arc::new(notification::send),
            notify_after: LONG_WORK,
            follows_looks: true,
        }
    }

    pub fn none() -> Self {
        Self {
            copy_files: Arc::new(|_| Ok(())),
            notify: Arc::new(|_, _| {}),
            notify_after: LONG_WORK,
            follows_looks: false,
        }
    }
}

pub struct DesktopState {
    links: DesktopLinks,
    /// As the window has it now; empty: as it was opened.
    title: String,
    title_changed_at: f64,
    /// Jobs that ended since the window was last looked at.
    unseen: UnseenResults,
    /// Theme of the desktop, once requested.
    looks: Option<BackgroundTask<ThemeChoice>>,
    /// A notification was clicked: the user wants to see the window.
    clicks: BackgroundTask<()>,
    /// Files that later starts of the program were given.
    handed: BackgroundTask<Vec<PathBuf>>,
    adding: BackgroundTask<io::Result<PathBuf>>,
    /// Number of results whose files were copied.
    copying: BackgroundTask<Result<usize, String>>,
    /// Keeps other starts from opening a second window.
    _instance: Option<instance::InstanceClaim>,
}

impl DesktopState {
    /// Listens to other starts of the program.
    pub(super) fn open(
        links: DesktopLinks,
        instance: Option<FirstInstance>,
        cx: &AppContext,
    ) -> Self {
        let (listener, claim) = instance.map(|it| (it.listener, it.claim)).unzip();
        let handed = listener.map(|listener| {
            cx.background.stream("instance", move |postbox| {
                instance::serve(&listener, |files| {
                    postbox.post(files);
                });
            })
        });
        Self {
            links,
            title: String::new(),
            title_changed_at: 0.0,
            unseen: UnseenResults::default(),
            looks: None,
            clicks: BackgroundTask::default(),
            handed: handed.unwrap_or_default(),
            adding: BackgroundTask::default(),
            copying: BackgroundTask::default(),
            _instance: claim,
        }
    }

    pub fn update(
        &mut self,
        command: DesktopCommand,
        gallery: &mut GalleryState,
        watch: &mut ResultViewer,
        queue: &JobQueue,
        cx: &mut AppContext,
    ) {
        match command {
            DesktopCommand::ToggleMemory => {
                let is_wanted = cx.drawn.memory == PanelPlace::Nowhere;
                cx.folds.is_graph_open = is_wanted;
                // If there is no room below the image.
                cx.is_memory_over = is_wanted;
                cx.is_queue_over &= !is_wanted;
                cx.is_view_shown |= is_wanted;
            }
            DesktopCommand::Back if cx.drawn.memory == PanelPlace::Over => {
                cx.is_memory_over = false;
            }
            DesktopCommand::Back if cx.drawn.queue == PanelPlace::Over => {
                cx.is_queue_over = false;
            }
            // A selection in the gallery is above it, and so is a comparison above the image.
            DesktopCommand::Back if gallery.unchoose() || watch.leave(queue, cx) => {}
            DesktopCommand::Back => cx.page = MainPage::Watch,
            DesktopCommand::AddToMenu => self.add_to_menu(cx),
            DesktopCommand::CopyText(text) => cx.ctx.copy_text(text),
            DesktopCommand::CopyFiles(results) => {
                let copy = Arc::clone(&self.links.copy_files);
                self.copying = cx.on_files("the files were not copied", move || {
                    let files = results.iter();
                    let files = files.flat_map(|it| files_of(&it.path, it.is_frame));
                    copy(&files.collect::<Vec<_>>()).map(|()| results.len())
                });
            }
            DesktopCommand::Quit => cx.ctx.send_viewport_cmd(ViewportCommand::Close),
        }
    }

    pub fn poll(&mut self, drops: &DroppedFiles, cx: &mut AppContext) {
        while let Some(looks) = self.looks.as_mut().and_then(BackgroundTask::take) {
            window_position::adopt(&cx.ctx, looks);
        }
        while self.clicks.take().is_some() {
            raise(drops, cx);
        }
        while let Some(files) = self.handed.take() {
            raise(drops, cx);
            drop_files(files, SlotTarget::shown(), cx);
        }
        match self.copying.take() {
            Some(Ok(count)) => cx.say(counted(count, "1 file copied", "{} files copied")),
            Some(Err(why)) => {
                let problem = JobError::new(JobErrorKind::Disk, "the files cannot be copied");
                let advice = "Use \"Open folder\" and copy them in the file manager";
                cx.notify(NoticeSeverity::Warning, problem.advise(advice).detail(why));
            }
            None => {}
        }
        match self.adding.take() {
            Some(Ok(entry)) => {
                let entry = entry.display();
                cx.say(format!(
                    "Safelight was added to the applications menu: {entry}"
                ));
            }
            Some(Err(err)) => {
                let text = "Safelight could not be added to the applications menu";
                let problem = JobError::new(JobErrorKind::Disk, text);
                cx.notify(NoticeSeverity::Warning, problem.detail(err.to_string()));
            }
            None => {}
        }
    }

    fn add_to_menu(&mut self, cx: &AppContext) {
        let programs = cx.paths.as_ref().and_then(|paths| paths.programs.as_ref());
        let data = programs.map(|programs| programs.data.clone());
        self.adding = cx.background.on_files(move || {
            let data = data.ok_or_else(|| io::Error::other("there is no home folder"))?;
            add(&data, &std::env::current_exe()?)
        });
    }

    /// Runs between two frames: sets the title, and sends pending requests to the desktop.
    pub(super) fn follow(&mut self, queue: &JobQueue, cx: &AppContext) {
        let is_system = cx.settings.interface.theme == ThemeChoice::System;
        if is_system && self.links.follows_looks && self.looks.is_none() {
            self.looks = Some(cx.background.stream("appearance", |postbox| {
                window_position::follow(|looks| {
                    postbox.post(looks);
                });
            }));
        }
        if is_looked_at(&cx.ctx) {
            self.unseen = UnseenResults::default();
        }
        let job = queue.live();
        let title = match job {
            Some(job) => title_at(job.progress(), &job.request.title()),
            None => TITLE.to_owned(),
        };
        let is_new = title != self.title && !(self.title.is_empty() && title == TITLE);
        let is_due = job.is_none() || cx.now_secs - self.title_changed_at >= TITLE_EVERY_SECS;
        if is_new && is_due {
            self.title.clone_from(&title);
            self.title_changed_at = cx.now_secs;
            cx.ctx.send_viewport_cmd(ViewportCommand::Title(title));
        }
    }
}

fn clipboard_copier() -> FileCopier {
    // X11 takes what is pasted from the program that copied it, as long as this is open.
    let open = Mutex::new(None);
    Arc::new(move |files| {
        let copied = arboard::Clipboard::new().and_then(|mut clipboard| {
            clipboard.set().file_list(files)?;
            Ok(clipboard)
        });
        let clipboard = copied.map_err(|err| err.to_string())?;
        open.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(clipboard);
        Ok(())
    })
}

fn raise(drops: &DroppedFiles, cx: &AppContext) {
    cx.ctx.send_viewport_cmd(ViewportCommand::Visible(true));
    cx.ctx.send_viewport_cmd(ViewportCommand::Minimized(false));
    cx.ctx.send_viewport_cmd(ViewportCommand::Focus);
    if drops.is_on_wayland() {
        // On Wayland a window may not raise itself, but ask to be looked at.
        let attention = ViewportCommand::RequestUserAttention(UserAttentionType::Informational);
        cx.ctx.send_viewport_cmd(attention);
    }
}

/// Returns whether the window has the keyboard and is not hidden. Where the desktop does not say, it is.
fn is_looked_at(ctx: &Context) -> bool {
    ctx.input(|input| {
        let viewport = input.viewport();
        let is_hidden = viewport.minimized == Some(true) || viewport.occluded == Some(true);
        !is_hidden && viewport.focused != Some(false)
    })
}

/// `42 % · red boat… — Safelight`.
fn title_at(progress: f32, prompt: &str) -> String {
    let percent = progress * 100.0;
    match short(prompt).as_str() {
        "" => format!("{percent:.0} % — {TITLE}"),
        prompt => format!("{percent:.0} % · {prompt} — {TITLE}"),
    }
}

/// The beginning of a prompt, in one line.
fn short(prompt: &str) -> String {
    let mut words = String::new();
    for word in prompt.split_whitespace() {
        if words.chars().count() + word.chars().count() >= MAX_PROMPT && !words.is_empty() {
            return format!("{}…", words.trim_end_matches([',', ';', '.']));
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    if words.chars().count() > MAX_PROMPT {
        // One long word, or a language without spaces.
        words = words.chars().take(MAX_PROMPT).chain(['…']).collect();
    }
    words
}

/// The entry below the folder of all programs' data.
pub fn entry_file(data: &Path) -> PathBuf {
    data.join("applications").join(format!("{APP_ID}.desktop"))
}

/// Writes the entry that starts `executable`, in place of an older one, and the icon. Gives the entry's path.
pub fn add(data: &Path, executable: &Path) -> io::Result<PathBuf> {
    let program = executable.to_str().filter(|path| !path.contains('\n'));
    let why = "the name of the program's folder cannot stand in a menu entry";
    let program = program.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidFilename, why))?;
    let entry: String = ENTRY
        .lines()
        .map(|line| match line.split_once('=') {
            Some(("Exec", _)) => ["Exec=", &quoted(program), " %F\n"].concat(),
            Some(("TryExec", _)) => format!("TryExec={}\n", program.replace('\\', r"\\")),
            _ => format!("{line}\n"),
        })
        .collect();
    let icon = format!("icons/hicolor/256x256/apps/{APP_ID}.png");
    write_in_folder(&data.join(icon), ICON)?;
    let path = entry_file(data);
    write_in_folder(&path, entry.as_bytes())?;
    Ok(path)
}

/// As the desktop entry specification wants an argument: quoted, and then escaped as any value.
fn quoted(program: &str) -> String {
    let mut argument = String::from('"');
    for letter in program.chars() {
        match letter {
            '"' | '`' | '$' | '\\' => argument.extend(['\\', letter]),
            '%' => argument.push_str("%%"),
            _ => argument.push(letter),
        }
    }
    argument.push('"');
    argument.replace('\\', r"\\")
}

fn write_in_folder(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    write_atomically(path, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn desktop_file_accepts_several_files_and_matches_the_app_id() {
        let file = include_str!("../../../packaging/linux/org.safelight.Safelight.desktop");
        let has = |line: &str| file.lines().any(|its| its == line);
        assert!(has("Exec=safelight %F"));
        assert!(has(&format!("StartupWMClass={APP_ID}")) && has(&format!("Icon={APP_ID}")));
    }

    #[test]
    fn a_prompt_of_any_length_and_language_is_one_short_line() {
        assert_eq!(short("a red\n boat"), "a red boat");
        let long = short("a red boat sails to the right at sunset, in the distance a castle");
        assert_eq!(long, "a red boat sails to the right at sunset…");
        let japanese = "夕日".repeat(40);
        assert_eq!(short(&japanese).chars().count(), MAX_PROMPT + 1);
        assert_eq!(short(""), "");
        let expected = "42 % · a red boat — Safelight";
        assert_eq!(title_at(0.42, "a red boat"), expected);
        assert_eq!(title_at(0.42, ""), "42 % — Safelight");
    }

    #[test]
    fn desktop_entry_starts_this_executable_with_its_path_escaped() {
        let data = tempfile::tempdir().unwrap();
        let program = Path::new(r#"/opt/my $tools/100% "new"/safelight"#);
        let path = add(data.path(), program).unwrap();
        let entry = std::fs::read_to_string(&path).unwrap();
        let exec = r#"Exec="/opt/my \\$tools/100%% \\"new\\"/safelight" %F"#;
        assert!(entry.lines().any(|line| line == exec), "{entry}");
        assert_eq!(entry.lines().count(), ENTRY.lines().count());
        let icon = format!("icons/hicolor/256x256/apps/{APP_ID}.png");
        assert!(data.path().join(icon).exists());
        // A newer place takes over.
        add(data.path(), Path::new("/usr/bin/safelight")).unwrap();
        let entry = std::fs::read_to_string(path).unwrap();
        assert!(entry.contains("Exec=\"/usr/bin/safelight\" %F\nTryExec=/usr/bin/safelight\n"));
    }
}
