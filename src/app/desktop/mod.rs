//! The window among the others of the desktop: its title, notifications, the desktop's look, and files that another
//! start of the program hands over.
//!
//! Everything that talks to the desktop has a thread of its own; where the desktop does not answer, nothing is said.

mod appearance;
mod bus;
mod ended;
pub mod instance;
mod menu;
mod notification;
pub mod place;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egui::{Context, UserAttentionType, ViewportCommand};
use safelight_core::job::{JobError, JobErrorKind, JobId};
use safelight_core::settings::Theme;

use crate::app::App;
use crate::app::background::{Answer, Background, Task};
use crate::app::inputs::SHOWN;
use crate::app::queue::RunningJob;
use crate::app::queue::desk::PanelPlace;
use crate::ui::theme;
use ended::Unseen;
use instance::Instance;
pub use notification::Message;

/// The name of the desktop file, so that the desktop shows the right icon and name.
pub const APP_ID: &str = "org.safelight.Safelight";
const TITLE: &str = "Safelight";
/// Work that was shorter than this is not told of when it is done.
const LONG_WORK: Duration = Duration::from_secs(30);
/// The title does not change more often than this while a job runs.
const TITLE_EVERY_SECS: f64 = 0.5;
/// Letters of a prompt in the title and in notifications.
const MAX_PROMPT: usize = 40;

/// What can be asked of the window itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesktopCommand {
    /// Open or close the command palette.
    TogglePalette,
    ToggleShortcuts,
    ToggleMemory,
    /// Put the cursor into the prompt.
    FocusPrompt,
    /// Close what lies uppermost: what is chosen, compared or large, else the page.
    Back,
    /// Make an entry among the desktop's applications.
    AddToMenu,
    Quit,
}

/// What the desktop, or another start of the program, has to say.
pub enum DesktopAnswer {
    /// The desktop looks so now.
    Looks(Theme),
    /// Somebody wants to see the window.
    Raise,
    /// Another start was given these files.
    Handed(Vec<PathBuf>),
    /// The entry among the applications was made.
    InMenu(PathBuf),
}

/// Shows a message, and calls back when it is clicked; must not wait.
pub type Notify = Arc<dyn Fn(Message, Box<dyn FnOnce() + Send>) + Send + Sync>;

/// How the window reaches the desktop.
#[derive(Clone)]
pub struct DesktopLinks {
    pub notify: Notify,
    /// What is done is told of when all of it took at least so long.
    pub notify_after: Duration,
    /// Whether the desktop is asked how it looks.
    pub follows_looks: bool,
}

impl DesktopLinks {
    /// Over the session's message bus.
    pub fn of_this_session() -> Self {
        Self {
            notify: Arc::new(notification::send),
            notify_after: LONG_WORK,
            follows_looks: true,
        }
    }

    /// To nobody.
    pub fn none() -> Self {
        Self {
            notify: Arc::new(|_, _| {}),
            notify_after: LONG_WORK,
            follows_looks: false,
        }
    }
}

/// What is known of the window's place in the desktop.
#[derive(Default)]
pub struct Desktop {
    /// As the window has it now; empty: as it was opened.
    title: String,
    title_changed_at: f64,
    /// The job that runs, and since when.
    running: Option<(JobId, Instant)>,
    /// What ended since the window was looked at.
    unseen: Unseen,
    /// The thread that asks how the desktop looks is there.
    is_following: bool,
    /// The cursor is to go into the prompt.
    pub is_prompt_wanted: bool,
    /// Keeps other starts from opening a second window.
    instance: Option<instance::Claim>,
}

impl App {
    /// Listens to other starts of the program.
    pub(super) fn open_desktop(&mut self, instance: Option<Instance>) {
        if let Some(Instance { listener, claim }) = instance {
            self.session.desktop.instance = Some(claim);
            self.background.spawn("instance", move |postbox| {
                instance::serve(&listener, |files| {
                    postbox.post(Answer::Desktop(DesktopAnswer::Handed(files)));
                });
            });
        }
    }

    pub(super) fn run_desktop_command(&mut self, ctx: &Context, command: DesktopCommand) {
        match command {
            DesktopCommand::TogglePalette => self.toggle_palette(),
            DesktopCommand::ToggleShortcuts => {
                self.session.are_shortcuts_shown = !self.session.are_shortcuts_shown;
                self.session.palette = None;
            }
            DesktopCommand::ToggleMemory => self.state.is_graph_open = !self.state.is_graph_open,
            DesktopCommand::FocusPrompt => {
                self.session.is_view_shown = false;
                self.session.desktop.is_prompt_wanted = true;
            }
            DesktopCommand::Back if self.session.queue.place == PanelPlace::Over => {
                self.session.queue.is_over = false;
            }
            // What is chosen in the gallery lies above it, and so does what is compared above the picture.
            DesktopCommand::Back if self.unchoose() || self.leave_watched() => {}
            DesktopCommand::Back => self.session.page = crate::app::state::Page::Watch,
            DesktopCommand::AddToMenu => self.add_to_menu(),
            DesktopCommand::Quit => ctx.send_viewport_cmd(ViewportCommand::Close),
        }
    }

    fn add_to_menu(&self) {
        let data = self
            .paths
            .as_ref()
            .and_then(|paths| paths.programs.as_ref());
        let data = data.map(|programs| programs.data.clone());
        self.background.run(Task::Work(Box::new(move || {
            let added = data
                .ok_or_else(|| io::Error::other("there is no home folder"))
                .and_then(|data| menu::add(&data, &std::env::current_exe()?));
            Some(match added {
                Ok(path) => Answer::Desktop(DesktopAnswer::InMenu(path)),
                Err(err) => {
                    let summary = "no entry could be made among the applications";
                    let problem = JobError::new(JobErrorKind::Disk, summary);
                    Answer::Problem(problem.detail(err.to_string()))
                }
            })
        })));
    }

    pub(super) fn take_desktop(&mut self, ctx: &Context, answer: DesktopAnswer) {
        match answer {
            DesktopAnswer::Looks(looks) => theme::follow(ctx, looks),
            DesktopAnswer::Raise => self.raise(ctx),
            DesktopAnswer::Handed(files) => {
                self.raise(ctx);
                self.drop_files(files, SHOWN);
            }
            DesktopAnswer::InMenu(entry) => {
                self.session.last_word =
                    format!("Safelight is among the applications: {}", entry.display());
            }
        }
    }

    fn raise(&self, ctx: &Context) {
        ctx.send_viewport_cmd(ViewportCommand::Visible(true));
        ctx.send_viewport_cmd(ViewportCommand::Minimized(false));
        ctx.send_viewport_cmd(ViewportCommand::Focus);
        if self.drags.is_some() {
            // On Wayland a window may not raise itself, but ask to be looked at.
            let attention = UserAttentionType::Informational;
            ctx.send_viewport_cmd(ViewportCommand::RequestUserAttention(attention));
        }
    }

    /// Between two frames: the title, and what was not asked of the desktop yet.
    pub(super) fn step_desktop(&mut self, ctx: &Context) {
        let is_system = self.settings.interface.theme == Theme::System;
        if is_system && self.desktop.follows_looks && !self.session.desktop.is_following {
            self.session.desktop.is_following = true;
            follow_looks(&self.background);
        }
        let running = self.queue.running.as_ref().map(|job| job.id);
        let desktop = &mut self.session.desktop;
        if is_looked_at(ctx) {
            desktop.unseen = Unseen::default();
        }
        if desktop.running.map(|(id, _)| id) != running {
            desktop.running = running.map(|id| (id, Instant::now()));
        }
        let title = self
            .queue
            .running
            .as_ref()
            .map_or_else(|| TITLE.to_owned(), title_of);
        let now = self.now_secs;
        let is_new = title != desktop.title && !(desktop.title.is_empty() && title == TITLE);
        let is_due = running.is_none() || now - desktop.title_changed_at >= TITLE_EVERY_SECS;
        if is_new && is_due {
            desktop.title.clone_from(&title);
            desktop.title_changed_at = now;
            ctx.send_viewport_cmd(ViewportCommand::Title(title));
        }
    }
}

fn follow_looks(background: &Background) {
    background.spawn("appearance", |postbox| {
        appearance::follow(|looks| postbox.post(Answer::Desktop(DesktopAnswer::Looks(looks))));
    });
}

/// Whether the window has the keyboard and is not hidden. Where the desktop does not say, it is.
fn is_looked_at(ctx: &Context) -> bool {
    ctx.input(|input| {
        let viewport = input.viewport();
        let is_hidden = viewport.minimized == Some(true) || viewport.occluded == Some(true);
        !is_hidden && viewport.focused != Some(false)
    })
}

/// `42 % · red boat… — Safelight`.
fn title_of(job: &RunningJob) -> String {
    let percent = job.progress() * 100.0;
    format!("{percent:.0} % · {} — {TITLE}", short(&job.request.prompt))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_desktop_file_hands_over_several_files_and_is_called_as_the_window() {
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
    }
}
