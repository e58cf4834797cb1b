//! Logic of the window, in front of the workers: parts that own their state, and [`SafelightApp`], which runs each in turn.
//!
//! Each round receives messages of the worker and the background threads, runs the commands that the panels pushed, and
//! saves changes. The GUI thread never waits and never touches a file or a tensor. Nothing here draws.

use crossbeam_channel::Receiver;
use safelight_core::job::{SeedMode, random_seed};
use safelight_core::settings::{LiveSettings, LoadedSettings};

use crate::download::ModelHub;
use crate::window::computers::RemoteComputers;
use crate::window::create::form::FormJobs;
use crate::window::desktop::instance::FirstInstance;
use crate::window::desktop::{DesktopLinks, DesktopState};
use crate::window::devices::{FindGpus, JobDevices, StartWorker, find_gpus};
use crate::window::doctor::{DoctorState, ExaminationRun, ReportMaker};
use crate::window::downloads::ModelFetch;
use crate::window::gallery::GalleryState;
use crate::window::inputs::InputSlots;
use crate::window::inputs::drops::{DroppedFiles, drop_files};
use crate::window::inputs::wayland_drop::FileDrag;
use crate::window::library::models::{FoundModels, load_catalog};
use crate::window::library::{LibraryLinks, LibraryState};
use crate::window::loras::LoraLibrary;
use crate::window::mask::MaskPage;
use crate::window::memory::planning::{MemoryPlanning, ReadPlan};
use crate::window::palette::CommandPalette;
use crate::window::prelude::*;
use crate::window::presets::OwnPresets;
use crate::window::prompt::PromptDesk;
use crate::window::queue::JobQueue;
use crate::window::restore::SettingsRestore;
use crate::window::results::PostprocessState;
use crate::window::runtimes::{RuntimeFetching, RuntimeLinks};
use crate::window::server::ServerState;
use crate::window::settings::SettingsKeeping;
use crate::window::state::{DrawnFrame, SavedState};
use crate::window::state_writer::StateWriter;
use crate::window::tabs::FormTabs;
use crate::window::viewer::ResultViewer;
use crate::window::{desktop, doctor, library, memory, runtimes, state_writer};

pub struct StartupOptions {
    pub settings: Settings,
    /// `None` without a home folder: nothing is saved.
    pub paths: Option<AppPaths>,
    pub remembered: Option<SavedState>,
    /// `None` searches for models in the background.
    pub models: Option<FoundModels>,
    pub library: LibraryLinks,
    pub examine: ExaminationRun,
    pub measure: ReportMaker,
    pub read_plan: ReadPlan,
    pub find_gpus: FindGpus,
    pub hub: ModelHub,
    pub runtimes: RuntimeLinks,
    /// Problems to show at once, such as an unreadable settings file.
    pub problems: Vec<JobError>,
    /// Why the settings file could not be used: what one of the problems says.
    pub broken_settings: Option<String>,
    /// Settings of the next job, read by the worker.
    pub live_settings: LiveSettings,
    pub files: Vec<PathBuf>,
    pub desktop: DesktopLinks,
    /// Listens to other starts of the program, when this is the first.
    pub instance: Option<FirstInstance>,
}

impl StartupOptions {
    pub fn new(loaded: LoadedSettings, paths: AppPaths) -> Self {
        let mut problems: Vec<JobError> =
            loaded.warnings.into_iter().map(JobError::invalid).collect();
        let broken = loaded.error.map(|err| {
            JobError::from_error(JobErrorKind::InvalidRequest, &err).advise(
                "The defaults are used until you correct the file. Safelight does not change it",
            )
        });
        let broken_settings = broken.as_ref().map(|err| err.summary.clone());
        problems.extend(broken);
        Self {
            live_settings: LiveSettings::new(loaded.settings.clone()),
            settings: loaded.settings,
            models: None,
            library: LibraryLinks {
                load: load_catalog(paths.clone()),
                check_engine: library::searching::check_runtime(paths.clone()),
                survey: library::survey::examine(paths.clone()),
            },
            examine: doctor::examine(paths.clone()),
            measure: doctor::measure(paths.clone()),
            read_plan: memory::planning::read_plan(paths.clone()),
            find_gpus: find_gpus(paths.clone()),
            runtimes: RuntimeLinks {
                look: runtimes::look(paths.clone()),
                fulfil: runtimes::fulfil(paths.clone()),
            },
            remembered: state_writer::read(&paths.state_file()),
            paths: Some(paths),
            hub: ModelHub::of_environment(),
            problems,
            broken_settings,
            files: Vec::new(),
            desktop: DesktopLinks::of_this_session(),
            instance: None,
        }
    }
}

/// All that the window is. Nothing else changes it.
pub struct SafelightApp {
    /// Goes first: the threads in `cx` wait for the gallery's to keep what they know.
    pub gallery: GalleryState,
    pub cx: AppContext,
    pub settings: SettingsKeeping,
    pub watch: ResultViewer,
    pub loras: LoraLibrary,
    pub presets: OwnPresets,
    pub prompt: PromptDesk,
    pub restoring: SettingsRestore,
    pub masking: MaskPage,
    pub palette: CommandPalette,
    pub desktop: DesktopState,
    pub queue: JobQueue,
    pub library: LibraryState,
    pub fetching: ModelFetch,
    pub memory: MemoryPlanning,
    pub(super) form_jobs: FormJobs,
    pub doctor: DoctorState,
    pub runtimes: RuntimeFetching,
    pub finishing: PostprocessState,
    pub inputs: InputSlots,
    pub tabs: FormTabs,
    pub drops: DroppedFiles,
    pub server: ServerState,
    pub computers: RemoteComputers,
    /// Without a window no result is opened to be looked at.
    pub is_headless: bool,
    pub(super) remembering: StateWriter,
    pub devices: JobDevices,
    pub(super) num_submits: usize,
}

impl SafelightApp {
    pub fn new(
        ctx: &Context,
        start_worker: StartWorker,
        startup: StartupOptions,
        drags: Option<Receiver<FileDrag>>,
    ) -> Self {
        desktop::window_position::choose(ctx, startup.settings.interface.theme);
        if startup.settings.interface.scale != 1.0 {
            ctx.set_zoom_factor(startup.settings.interface.scale.clamp(0.5, 3.0));
        }
        let state = startup.remembered.unwrap_or_default();
        let (settings, live) = (startup.settings, startup.live_settings);
        let mut cx = AppContext::new(ctx, startup.paths, settings, live, state.form, state.folds);
        let (problems, broken) = (startup.problems, startup.broken_settings);
        let settings = SettingsKeeping::open(state.recent_settings, problems, broken, &mut cx);
        let read_plan = Arc::clone(&startup.read_plan);
        let devices = JobDevices::new(start_worker, startup.find_gpus, read_plan);
        let mut app = Self {
            library: LibraryState::new(startup.library, state.library, &cx),
            fetching: ModelFetch::new(startup.hub),
            memory: MemoryPlanning::new(startup.read_plan),
            form_jobs: FormJobs::default(),
            doctor: DoctorState::new(startup.examine, startup.measure),
            runtimes: RuntimeFetching::new(startup.runtimes),
            finishing: PostprocessState::default(),
            gallery: GalleryState::new(state.gallery),
            settings,
            watch: ResultViewer::new(state.playback, state.volume),
            loras: LoraLibrary::default(),
            presets: OwnPresets::open(&cx),
            prompt: PromptDesk::default(),
            restoring: SettingsRestore::default(),
            masking: MaskPage::default(),
            palette: CommandPalette {
                recent: state.recent_commands,
                ..Default::default()
            },
            desktop: DesktopState::open(startup.desktop, startup.instance, &cx),
            queue: JobQueue::default(),
            inputs: InputSlots::default(),
            tabs: FormTabs::new(state.tabs),
            drops: DroppedFiles::new(drags),
            server: ServerState::default(),
            computers: RemoteComputers::default(),
            is_headless: false,
            remembering: StateWriter::default(),
            devices,
            num_submits: 0,
            cx,
        };
        app.cx.undo.tab = app.tabs.active_id();
        if app.cx.form.seed_mode == SeedMode::Random {
            // The stored one belongs to a video of an earlier day.
            app.cx.form.set_seed(random_seed());
        }
        if startup.files.is_empty() && state.page != MainPage::Watch {
            app.show_page(state.page);
        }
        drop_files(startup.files, SlotTarget::shown(), &mut app.cx);
        app.queue.is_open = state.is_queue_open;
        app.queue.load(&app.cx);
        app.queue.load_results(state.results, &app.cx);
        app.inputs.reopen_later(state.inputs);
        match startup.models {
            Some(found) => {
                app.library.take_models(found, &mut app.cx);
                app.library.settle(false, &mut app.cx);
            }
            None => app.library.load(&mut app.cx),
        }
        app.library.check_engine(&app.cx);
        // Changes at the start need not be saved.
        app.remembering = StateWriter::new(app.remembered());
        app
    }

    /// State to save, with the user's form even while another one is shown.
    pub fn remembered(&self) -> SavedState {
        let editing = self.queue.editing.as_ref();
        SavedState {
            form: self.own_form().clone(),
            inputs: editing
                .map_or(&self.inputs, |edited| &edited.inputs)
                .saved(),
            tabs: self.tabs.saved(),
            results: self.queue.saved_results(),
            folds: self.cx.folds,
            library: self.library.remembered.clone(),
            gallery: self.gallery.look,
            recent_settings: self.settings.recent.clone(),
            recent_commands: self.palette.recent.clone(),
            page: self.cx.page.remembered(),
            is_queue_open: self.queue.is_open,
            playback: self.watch.playback,
            volume: self.watch.sound.volume,
        }
    }

    /// Receives a drawn frame: its layout, and the commands of its panels.
    pub fn take_frame(&mut self, drawn: DrawnFrame, commands: Vec<AppCommand>) {
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

    /// Saves everything that is not on the disk yet.
    pub fn close(&mut self) {
        self.settings.save(&self.cx);
        for job in &self.queue.running {
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
        self.runtimes.work.stop();
        self.gallery.finish();
    }
}
