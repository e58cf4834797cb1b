//! The window: an [`eframe::App`] in front of the worker.
//!
//! Each round takes in what the worker and the background threads said, runs the commands that the
//! panels pushed, and saves what changed; then the panels draw. The window's thread never waits and
//! never touches a file or a tensor. Panels are in [`crate::ui`].

pub mod background;
pub mod commands;
pub mod desktop;
pub mod doctor;
pub mod fetching;
pub mod form;
pub mod gallery;
pub mod inputs;
pub mod library;
mod logic;
pub mod loras;
pub mod mask;
pub mod memory;
pub mod notices;
pub mod palette;
pub mod player;
pub mod presets;
pub mod prompt;
pub mod queue;
mod remembering;
pub mod restore;
mod run_command;
pub mod settings;
pub mod shortcuts;
pub mod state;
mod window;

use std::sync::Arc;
use std::time::Instant;

use std::path::PathBuf;

use crossbeam_channel::Receiver;
use safelight_core::job::{JobError, JobErrorKind, SeedMode, random_seed};
use safelight_core::settings::{LiveSettings, LoadedSettings, Paths, Settings};

use crate::download::Hub;
use crate::starting;
use crate::ui::{self, View, theme};
use crate::worker::WorkerHandle;
use background::{Background, CheckEngine, FoundModels, LoadModels, Task};
use commands::AppCommand;
use desktop::DesktopLinks;
use desktop::instance::Instance;
use doctor::Examine;
use inputs::SHOWN;
use inputs::wayland_drop::{self, FileDrag};
use memory::planning::ReadPlan;
use queue::JobQueue;
use remembering::Remembering;
use state::{Models, Page, Session, Severity, State};
pub use window::{WindowError, run};

/// Where earlier versions kept [`State`]: a key of the window's own storage.
const OLD_STATE_KEY: &str = "state";

/// What the window is opened with.
pub struct StartupOptions {
    pub settings: Settings,
    /// Where files lie; without a home folder nothing is saved.
    pub paths: Option<Paths>,
    /// What an earlier window remembered.
    pub remembered: Option<State>,
    /// The models, when they are known already; else they are looked for in the background.
    pub models: Option<FoundModels>,
    pub load_models: LoadModels,
    pub check_engine: CheckEngine,
    /// What the doctor's page does.
    pub examine: Examine,
    pub read_plan: ReadPlan,
    /// What the pages of models know of this machine.
    pub survey: library::survey::Examine,
    /// Where models are fetched from, when somebody asks for it.
    pub hub: Hub,
    /// Things to tell at once, such as a settings file that could not be read.
    pub problems: Vec<JobError>,
    /// Why the settings file could not be used: what one of the problems says.
    pub broken_settings: Option<String>,
    /// Where the worker looks for the settings of a job.
    pub live_settings: LiveSettings,
    /// The files that the program was started with, or that were dropped on its icon.
    pub files: Vec<PathBuf>,
    pub desktop: DesktopLinks,
    /// Listens to other starts of the program, when this is the first.
    pub instance: Option<Instance>,
}

impl StartupOptions {
    /// As a user starts it: models and engine are looked for in the background.
    pub fn new(loaded: LoadedSettings, paths: Paths) -> Self {
        let LoadedSettings {
            settings,
            warnings,
            error,
        } = loaded;
        let mut problems: Vec<JobError> = warnings
            .into_iter()
            .map(|text| JobError::new(JobErrorKind::InvalidRequest, text))
            .collect();
        let broken = error.map(|err| {
            JobError::from_error(JobErrorKind::InvalidRequest, &err)
                .advise("The defaults are used, and the file stays as it is until it is corrected")
        });
        let broken_settings = broken.as_ref().map(|err| err.summary.clone());
        problems.extend(broken);
        Self {
            live_settings: LiveSettings::new(settings.clone()),
            settings,
            models: None,
            load_models: background::load_catalog(paths.clone()),
            check_engine: background::check_runtime(paths.clone()),
            examine: doctor::examine(paths.clone()),
            read_plan: memory::planning::read_plan(paths.clone()),
            survey: library::survey::examine(paths.clone()),
            remembered: remembering::read(&paths.state_file()),
            paths: Some(paths),
            hub: Hub::of_environment(),
            problems,
            broken_settings,
            files: Vec::new(),
            desktop: DesktopLinks::of_this_session(),
            instance: None,
        }
    }
}

/// The window's state. Nothing else changes it.
pub struct App {
    pub settings: Settings,
    pub state: State,
    pub session: Session,
    pub queue: JobQueue,
    remembering: Remembering,
    paths: Option<Paths>,
    worker: WorkerHandle,
    background: Background,
    load_models: LoadModels,
    check_engine: CheckEngine,
    examine: Examine,
    read_plan: ReadPlan,
    survey_with: library::survey::Examine,
    hub: Hub,
    /// Seconds, also while the window is hidden.
    now_secs: f64,
    /// When egui last told the time, and what it told.
    last_pass: (f64, Instant),
    commands: Vec<AppCommand>,
    /// File drags, where the window library does not report them.
    drags: Option<Receiver<FileDrag>>,
    live_settings: LiveSettings,
    desktop: DesktopLinks,
    /// The window's place was looked at.
    is_placed: bool,
}

impl App {
    pub fn new(
        cc: &eframe::CreationContext<'_>,
        worker: WorkerHandle,
        startup: StartupOptions,
    ) -> Self {
        let StartupOptions {
            settings,
            paths,
            remembered,
            models,
            load_models,
            check_engine,
            examine,
            read_plan,
            survey,
            hub,
            problems,
            broken_settings,
            live_settings,
            files,
            desktop,
            instance,
        } = startup;
        let ctx = &cc.egui_ctx;
        theme::install(ctx);
        ui::focus::install(ctx);
        theme::choose(ctx, settings.interface.theme);
        // The settings' own keys do it.
        ctx.options_mut(|options| options.zoom_with_keyboard = false);
        if settings.interface.scale != 1.0 {
            ctx.set_zoom_factor(settings.interface.scale.clamp(0.5, 3.0));
        }
        let old = || eframe::get_value(cc.storage?, OLD_STATE_KEY);
        let stored: Option<State> = remembered.or_else(old);
        // Nothing was ever remembered, and nobody came with something in hand.
        let is_first_start = cc.storage.is_some() && stored.is_none() && files.is_empty();
        let state = stored.unwrap_or_default();
        let mut app = Self {
            settings,
            remembering: Remembering::default(),
            state,
            session: Session::default(),
            queue: JobQueue::default(),
            paths,
            worker,
            background: Background::start(ctx),
            load_models,
            check_engine,
            examine,
            read_plan,
            survey_with: survey,
            hub,
            commands: Vec::new(),
            drags: wayland_drop::listen(cc),
            live_settings,
            desktop,
            is_placed: false,
            now_secs: 0.0,
            last_pass: (0.0, Instant::now()),
        };
        app.live_settings.set(app.settings.clone());
        let told = problems.iter().map(|problem| problem.summary.clone());
        app.open_settings(told.collect(), broken_settings);
        app.open_desktop(instance);
        if app.state.form.seed_mode == SeedMode::Random {
            // The stored one belongs to a clip of an earlier day.
            app.state.form.set_seed(random_seed());
        }
        if files.is_empty() && app.state.page != Page::Watch {
            app.show_page(app.state.page);
        }
        app.drop_files(files, SHOWN);
        for problem in problems {
            app.session.notify(Severity::Warning, problem);
        }
        if is_first_start {
            app.session.page = Page::Welcome;
        }
        app.load_queue();
        app.load_presets();
        match models {
            Some(found) => app.take_models(found),
            None => app.load_models(),
        }
        app.check_engine();
        // What starting changes need not wake anybody.
        app.remembering = Remembering::new(app.state.clone());
        app
    }

    /// As a panel pushes it; carried out before the next frame.
    pub fn push(&mut self, command: AppCommand) {
        self.commands.push(command);
    }

    fn load_models(&mut self) {
        self.session.models = Models::Loading;
        self.load_models_quietly();
    }

    /// The models that are known stay until the search has ended.
    fn load_models_quietly(&self) {
        let task = Task::LoadModels(
            Arc::clone(&self.load_models),
            Box::new(self.settings.clone()),
        );
        self.background.run(task);
    }

    /// Looks for jobs that can go on.
    fn find_left(&self) {
        if let Some(paths) = &self.paths {
            self.background.run(Task::FindLeft(paths.jobs()));
        }
    }

    fn check_engine(&self) {
        let task = Task::CheckEngine(
            Arc::clone(&self.check_engine),
            Box::new(self.settings.clone()),
        );
        self.background.run(task);
    }
}

impl eframe::App for App {
    fn logic(&mut self, ctx: &egui::Context, frame: &mut eframe::Frame) {
        if self.session.ui_calls == 1 {
            starting::shown();
        }
        if !std::mem::replace(&mut self.is_placed, true) {
            desktop::place::correct(ctx, frame);
        }
        self.step(ctx);
    }

    fn raw_input_hook(&mut self, _ctx: &egui::Context, input: &mut egui::RawInput) {
        self.forget_stale_hovers(input);
    }

    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        self.session.ui_calls += 1;
        if self.session.ui_calls == 1 {
            starting::passed("first frame begun");
        }
        let num_commands = self.commands.len();
        ui::draw(
            ui,
            &mut View {
                settings: &self.settings,
                state: &mut self.state,
                session: &mut self.session,
                queue: &self.queue,
                commands: &mut self.commands,
            },
        );
        self.state.page = self.session.page.remembered();
        self.session.had_focus = ui.ctx().memory(|memory| memory.focused().is_some());
        if std::mem::take(&mut self.session.is_submit_wanted) {
            self.commands.push(AppCommand::Submit);
        }
        if self.commands.len() > num_commands {
            // They are run in the next round.
            ui.ctx().request_repaint();
        }
        if self.session.ui_calls == 1 {
            starting::passed("first frame laid out");
        }
    }

    /// What should outlive the window is in [`State`]; a half-scrolled form should not.
    fn persist_egui_memory(&self) -> bool {
        false
    }

    fn on_exit(&mut self) {
        self.save_settings();
        if let Some(job) = &self.queue.running {
            // It stays in the queue and can go on.
            job.cancel.pause();
        }
        for opening in &self.session.queue.opening {
            opening.stop.cancel();
        }
        self.keep_queue_at_last();
        self.remember();
        // What has come is noted every few seconds, and kept.
        self.pause_fetch();
    }
}
