//! Logic of the window, in front of the worker: parts that own their state, and [`App`], which runs each in turn.
//!
//! Each round receives messages of the worker and the background threads, runs the commands that the panels pushed, and
//! saves changes. The GUI thread never waits and never touches a file or a tensor. Nothing here draws.

pub mod background;
pub mod choices;
pub mod commands;
pub mod cx;
pub mod desktop;
pub mod doctor;
pub mod fetching;
pub mod finishing;
pub mod form;
pub mod gallery;
pub mod inputs;
pub mod library;
mod logic;
pub mod loras;
pub mod mask;
pub mod memory;
pub mod models;
pub mod notices;
pub mod palette;
pub mod pending;
pub mod player;
pub mod presets;
pub mod prompt;
pub mod queue;
mod remembering;
pub mod restore;
pub mod runtimes;
pub mod settings;
pub mod shortcuts;
pub mod state;
pub mod thumbs;
pub mod undo;

use std::path::PathBuf;

use crossbeam_channel::Receiver;
use egui::Context;
use safelight_core::job::{JobError, JobErrorKind, SeedMode, random_seed};
use safelight_core::settings::{LiveSettings, LoadedSettings, Paths, Settings};

use crate::app::choices::SHOWN;
use crate::download::Hub;
use crate::worker::WorkerHandle;
use commands::{AppCommand, QueueCommand};
use cx::Cx;
use desktop::instance::Instance;
use desktop::{Desktop, DesktopLinks};
use doctor::{Doctor, Examine, Measure};
use fetching::Fetching;
use finishing::Finishing;
use form::FormJobs;
use gallery::Gallery;
use inputs::Inputs;
use inputs::drops::{Drops, drop_files};
use inputs::wayland_drop::FileDrag;
use library::{Library, LibraryLinks};
use loras::LoraShelf;
use mask::Masking;
use memory::planning::{MemoryPlanning, ReadPlan};
use models::{FoundModels, load_catalog};
use palette::Palette;
use player::Viewer;
use presets::OwnPresets;
use prompt::PromptDesk;
use queue::JobQueue;
use remembering::Remembering;
use restore::Restoring;
use runtimes::{RuntimeFetching, RuntimeLinks};
use settings::SettingsKeeping;
use state::{Drawn, Page, State};

/// Options with which the window opens.
pub struct StartupOptions {
    pub settings: Settings,
    /// Paths of files; without a home folder nothing is saved.
    pub paths: Option<Paths>,
    /// Saved state of an earlier window.
    pub remembered: Option<State>,
    /// The models, when they are known already; else they are looked for in the background.
    pub models: Option<FoundModels>,
    pub library: LibraryLinks,
    /// Examination of the doctor page.
    pub examine: Examine,
    /// Report of its button.
    pub measure: Measure,
    pub read_plan: ReadPlan,
    /// Hub from which models are downloaded on request.
    pub hub: Hub,
    pub runtimes: RuntimeLinks,
    /// Things to tell at once, such as a settings file that could not be read.
    pub problems: Vec<JobError>,
    /// Why the settings file could not be used: what one of the problems says.
    pub broken_settings: Option<String>,
    /// Settings of the next job, read by the worker.
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
            JobError::from_error(JobErrorKind::InvalidRequest, &err).advise(
                "The defaults are used until you correct the file. Safelight does not change it",
            )
        });
        let broken_settings = broken.as_ref().map(|err| err.summary.clone());
        problems.extend(broken);
        Self {
            live_settings: LiveSettings::new(settings.clone()),
            settings,
            models: None,
            library: LibraryLinks {
                load: load_catalog(paths.clone()),
                check_engine: library::searching::check_runtime(paths.clone()),
                survey: library::survey::examine(paths.clone()),
            },
            examine: doctor::examine(paths.clone()),
            measure: doctor::measure(paths.clone()),
            read_plan: memory::planning::read_plan(paths.clone()),
            runtimes: RuntimeLinks {
                look: runtimes::look(paths.clone()),
                fulfil: runtimes::fulfil(paths.clone()),
            },
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

/// All that the window is. Nothing else changes it.
pub struct App {
    /// Goes first: the threads in `cx` wait for the gallery's to keep what they know.
    pub gallery: Gallery,
    pub cx: Cx,
    pub settings: SettingsKeeping,
    pub watch: Viewer,
    pub loras: LoraShelf,
    pub presets: OwnPresets,
    pub prompt: PromptDesk,
    restoring: Restoring,
    pub masking: Masking,
    pub palette: Palette,
    pub desktop: Desktop,
    pub queue: JobQueue,
    pub library: Library,
    pub fetching: Fetching,
    pub memory: MemoryPlanning,
    form_jobs: FormJobs,
    pub doctor: Doctor,
    pub runtimes: RuntimeFetching,
    pub finishing: Finishing,
    pub inputs: Inputs,
    pub drops: Drops,
    remembering: Remembering,
    worker: WorkerHandle,
    /// Number of presses of the shortcut for Generate.
    num_submits: usize,
}

impl App {
    pub fn new(
        ctx: &Context,
        worker: WorkerHandle,
        startup: StartupOptions,
        drags: Option<Receiver<FileDrag>>,
    ) -> Self {
        desktop::place::choose(ctx, startup.settings.interface.theme);
        if startup.settings.interface.scale != 1.0 {
            ctx.set_zoom_factor(startup.settings.interface.scale.clamp(0.5, 3.0));
        }
        let state = startup.remembered.unwrap_or_default();
        let (settings, live) = (startup.settings, startup.live_settings);
        let mut cx = Cx::new(ctx, startup.paths, settings, live, state.form, state.folds);
        let (problems, broken) = (startup.problems, startup.broken_settings);
        let settings = SettingsKeeping::open(state.recent_settings, problems, broken, &mut cx);
        let mut app = Self {
            library: Library::new(startup.library, state.library, &cx),
            fetching: Fetching::new(startup.hub),
            memory: MemoryPlanning::new(startup.read_plan),
            form_jobs: FormJobs::default(),
            doctor: Doctor::new(startup.examine, startup.measure),
            runtimes: RuntimeFetching::new(startup.runtimes),
            finishing: Finishing::default(),
            gallery: Gallery::new(state.gallery),
            settings,
            watch: Viewer::new(state.playback),
            loras: LoraShelf::default(),
            presets: OwnPresets::open(&cx),
            prompt: PromptDesk::default(),
            restoring: Restoring::default(),
            masking: Masking::default(),
            palette: Palette::new(state.recent_commands),
            desktop: Desktop::open(startup.desktop, startup.instance, &cx),
            queue: JobQueue::of_panel(state.queue),
            inputs: Inputs::default(),
            drops: Drops::new(drags),
            remembering: Remembering::default(),
            worker,
            num_submits: 0,
            cx,
        };
        if app.cx.form.seed_mode == SeedMode::Random {
            // The stored one belongs to a clip of an earlier day.
            app.cx.form.set_seed(random_seed());
        }
        if startup.files.is_empty() && state.page != Page::Watch {
            app.show_page(state.page);
        }
        drop_files(startup.files, SHOWN, &mut app.cx);
        app.queue.load(&app.cx);
        match startup.models {
            Some(found) => {
                app.library.take_models(found, &mut app.cx);
                app.library.settle(false, &mut app.cx);
            }
            None => app.library.load(&mut app.cx),
        }
        app.library.check_engine(&app.cx);
        // Changes at the start need not be saved.
        app.remembering = Remembering::new(app.remembered());
        app
    }

    /// State to save, with the user's form even while another one is shown.
    pub fn remembered(&self) -> State {
        State {
            form: self.own_form().clone(),
            folds: self.cx.folds,
            library: self.library.remembered.clone(),
            gallery: self.gallery.look,
            recent_settings: self.settings.recent.clone(),
            recent_commands: self.palette.recent.clone(),
            page: self.cx.page.remembered(),
            queue: self.queue.panel.clone(),
            playback: self.watch.playback,
        }
    }

    /// Receives a drawn frame: its layout, and the commands of its panels.
    pub fn take_frame(&mut self, drawn: Drawn, commands: Vec<AppCommand>) {
        self.cx.drawn = drawn;
        self.cx.poll_thumbs();
        let mut is_any = !commands.is_empty();
        for command in commands {
            self.cx.push(command);
        }
        for _ in 0..std::mem::take(&mut self.num_submits) {
            self.cx.push(QueueCommand::Submit);
            is_any = true;
        }
        if is_any {
            // They are run in the next round.
            self.cx.ctx.request_repaint();
        }
    }

    /// The window closes: what is not on the disk goes there.
    pub fn close(&mut self) {
        self.settings.save(&self.cx);
        if let Some(job) = &self.queue.running {
            // It stays in the queue and can resume.
            job.cancel.pause();
        }
        for opening in &self.queue.opening {
            opening.stop.cancel();
        }
        self.queue.keep_at_last(&self.cx);
        self.remembering.write(self.remembered(), &self.cx);
        // Downloaded bytes are noted every few seconds, and kept.
        self.fetching.pause();
        self.runtimes.stop();
        self.gallery.finish(&self.queue, &mut self.cx);
    }
}
