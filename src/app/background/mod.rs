//! Everything that the window must not wait for: files, dialogs, other programs.
//!
//! One named thread does the file work in order; each dialog and each opened folder has a short
//! thread of its own, because those wait for people. Answers come back over a bounded channel, and
//! the window is woken for each.

pub(in crate::app) mod dialogs;
mod files;
pub(in crate::app) mod guard;
mod watch;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use egui::ColorImage;
use safelight_core::catalog::{Catalog, CatalogEntry, UnusableModel};
use safelight_core::job::prompt::WildcardFolders;
use safelight_core::job::{GenerateRequest, JobError, JobErrorKind, JobId, Notice};
use safelight_core::library::{SearchedPlace, Watch};
use safelight_core::model::ModelSpec;
use safelight_core::settings::{Paths, Settings, own_runtime};

use crate::app::commands::FolderSetting;
use crate::app::desktop::DesktopAnswer;
use crate::app::fetching::{Errand, Fetched, Work};
use crate::app::gallery::GalleryAnswer;
use crate::app::inputs::folders::Given;
use crate::app::inputs::opening::{Continued, OpenedInputs};
use crate::app::inputs::{Placing, Slot, Ticket};
use crate::app::library::LibraryAnswer;
use crate::app::loras::LorasAnswer;
use crate::app::mask::MaskAnswer;
use crate::app::memory::planning::{PlanBasis, PlanWish, ReadPlan};
use crate::app::player::commands::PlayerAnswer;
use crate::app::presets::PresetsAnswer;
use crate::app::prompt::PromptAnswer;
use crate::app::queue::desk::QueueAnswer;
use crate::app::restore::RestoreAnswer;
use crate::app::settings::SettingsAnswer;
use crate::doctor::Check;
use crate::worker::{LeftJob, engine_executable};

/// Requests that may wait for the file thread.
const TASK_ROOM: usize = 64;
/// How long quitting waits for the last settings to be written.
const FINISH_WITHIN: Duration = Duration::from_secs(2);

/// Looks for models; runs on the file thread.
pub type LoadModels = Arc<dyn Fn(&Settings) -> FoundModels + Send + Sync>;
/// Looks whether the engine could start; runs on the file thread.
pub type CheckEngine = Arc<dyn Fn(&Settings) -> Result<(), JobError> + Send + Sync>;

/// The models on this disk, and what was wrong with others.
#[derive(Clone, Debug, Default)]
pub struct FoundModels {
    pub specs: Vec<ModelSpec>,
    pub problems: Vec<JobError>,
    /// Here, and not to be used.
    pub unusable: Vec<UnusableModel>,
    /// Known, but not here.
    pub missing: Vec<CatalogEntry>,
    /// Where was looked.
    pub searched: Vec<SearchedPlace>,
    /// Whose change means that there may be other models.
    pub watched: Watch,
}

impl From<Catalog> for FoundModels {
    fn from(catalog: Catalog) -> Self {
        Self {
            problems: catalog.problems.iter().map(JobError::from).collect(),
            unusable: catalog.unusable(),
            specs: catalog.available,
            missing: catalog.missing,
            searched: catalog.searched,
            watched: catalog.watched,
        }
    }
}

/// Looks for models where this user has them.
pub fn load_catalog(paths: Paths) -> LoadModels {
    Arc::new(move |settings| Catalog::load(&paths, settings).into())
}

/// Looks whether the engine's executable and a libtorch for it are there. Names only: what they can
/// do, the first job tells.
pub fn check_runtime(paths: Paths) -> CheckEngine {
    Arc::new(move |settings| {
        let engine = engine_executable();
        if !engine.is_file() {
            return Err(JobError::new(
                JobErrorKind::Device,
                "the engine that computes clips is not beside this program",
            )
            .advise("Install Safelight again, or build it with `cargo xtask run`")
            .detail(format!("expected an executable: {}", engine.display())));
        }
        own_runtime(settings, &paths.cache)
            .map(drop)
            .map_err(|err| {
                JobError::new(
                JobErrorKind::Device,
                "libtorch is missing, so no clip can be computed yet",
            )
            .advise(
                "Run `cargo xtask setup`, or choose a folder with libtorch 2.11.0 in the settings",
            )
            .detail(format!("{err}\n{err:?}"))
            })
    })
}

/// File work.
pub enum Task {
    LoadModels(LoadModels, Box<Settings>),
    CheckEngine(CheckEngine, Box<Settings>),
    /// Open files in order until there are as many pictures and clips as there is room for.
    OpenInputs {
        paths: Vec<PathBuf>,
        placing: Placing,
        room: usize,
        ticket: Ticket,
    },
    /// Keep a picture from the clipboard as a file in this folder.
    KeepPasted(Arc<ColorImage>, PathBuf, Ticket),
    /// Go on from a finished result.
    Continue(Continued, Ticket),
    /// Look for jobs that another program left in this folder of jobs.
    FindLeft(PathBuf),
    FindOutput(OutputWish),
    /// What a feature needs of files, in the same order as all the others.
    Work(Box<dyn FnOnce() -> Option<Answer> + Send>),
    /// Read what plans are made from.
    ReadPlan(ReadPlan, Box<Settings>, Box<PlanWish>),
}

/// What a job's prompts are made of, and where its result goes.
#[derive(Clone, Debug)]
pub struct OutputWish {
    pub id: JobId,
    pub folder: PathBuf,
    pub request: Box<GenerateRequest>,
    /// Nothing where the prompts are settled already.
    pub wildcards: Option<WildcardFolders>,
}

/// What came of them.
#[derive(Clone, Debug)]
pub struct FoundOutput {
    /// With settled prompts and a file of its own.
    pub request: Box<GenerateRequest>,
    pub notices: Vec<Notice>,
}

/// What came of it.
pub enum Answer {
    Models(FoundModels),
    /// Something changed where models are looked for.
    ModelsChanged,
    /// The engine can start, or why it cannot.
    Engine(Result<(), JobError>),
    /// Files to open, with folders looked into.
    Given(Given),
    Inputs(OpenedInputs),
    /// Jobs that can go on.
    Left(Vec<LeftJob>),
    Output(JobId, Result<FoundOutput, JobError>),
    PickedInput(Slot, Option<PathBuf>),
    PickedFolder(FolderSetting, Option<PathBuf>),
    /// Of the examination with this number.
    Checked(u64, Box<Check>),
    /// It has ended.
    Examined(u64),
    /// The bytes that MIOpen had kept, or why they are still there.
    MiopenCleared(Result<u64, String>),
    /// A job's telemetry is in this file.
    Exported(PathBuf),
    /// Of the errand with this number.
    Fetched(u64, Fetched),
    /// For which wish.
    Plan(Box<PlanWish>, Option<Box<PlanBasis>>),
    /// Of models to choose from.
    Library(LibraryAnswer),
    /// Of a mask that is painted.
    Mask(MaskAnswer),
    Presets(PresetsAnswer),
    Restore(RestoreAnswer),
    /// Of the gallery's threads.
    Gallery(Box<GalleryAnswer>),
    Prompt(PromptAnswer),
    Loras(LorasAnswer),
    Settings(SettingsAnswer),
    Desktop(DesktopAnswer),
    /// About the queue.
    Queue(QueueAnswer),
    /// Of what is watched.
    Player(PlayerAnswer),
    Problem(JobError),
}

impl Task {
    /// Takes what a slow disk with many models takes; nothing that is to be kept may wait behind it.
    fn is_search(&self) -> bool {
        matches!(
            self,
            Self::LoadModels(..) | Self::CheckEngine(..) | Self::ReadPlan(..)
        )
    }
}

/// The near end of the background threads.
pub struct Background {
    tasks: Option<Sender<Task>>,
    searches: Sender<Task>,
    answers: Receiver<Answer>,
    postbox: Postbox,
    watching: Sender<Watch>,
    files: Option<(JoinHandle<()>, Receiver<()>)>,
}

/// Where threads leave their answers.
#[derive(Clone)]
pub(in crate::app) struct Postbox {
    answers: Sender<Answer>,
    ctx: egui::Context,
}

impl Postbox {
    pub(in crate::app) fn post(&self, answer: Answer) {
        // An error means that the window is gone, and nobody is left to be told.
        if self.answers.send(answer).is_ok() {
            self.ctx.request_repaint();
        }
    }
}

impl Background {
    /// Starts the file thread, and the one that watches the places with models.
    pub fn start(ctx: &egui::Context) -> Self {
        let (task_sender, task_receiver) = bounded::<Task>(TASK_ROOM);
        let (answer_sender, answers) = bounded(TASK_ROOM);
        let (done_sender, done) = bounded::<()>(1);
        let postbox = Postbox {
            answers: answer_sender,
            ctx: ctx.clone(),
        };
        let files_postbox = postbox.clone();
        let spawned = thread::Builder::new()
            .name("files".to_owned())
            .spawn(move || {
                files::run_all(&task_receiver, &files_postbox);
                drop(done_sender);
            });
        let files = match spawned {
            Ok(thread) => Some((thread, done)),
            Err(err) => {
                tracing::error!("the file thread could not start: {err}");
                None
            }
        };
        let (watching, watched) = bounded(TASK_ROOM);
        let (searches, search_receiver) = bounded::<Task>(TASK_ROOM);
        let background = Self {
            tasks: Some(task_sender),
            searches,
            answers,
            postbox,
            watching,
            files,
        };
        background.spawn("searches", move |postbox| {
            files::run_all(&search_receiver, postbox);
        });
        background.spawn("watch", move |postbox| watch::watch(&watched, postbox));
        background
    }

    /// Watches this, and nothing else any more.
    pub fn watch(&self, watched: Watch) {
        if self.watching.try_send(watched).is_err() {
            tracing::warn!("the places with models are not watched");
        }
    }

    /// Hands over file work; `false` when too much of it waits already.
    pub fn run(&self, task: Task) -> bool {
        let room = if task.is_search() {
            Some(&self.searches)
        } else {
            self.tasks.as_ref()
        };
        match room.map(|room| room.try_send(task)) {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => {
                tracing::warn!("a file task was not taken");
                false
            }
        }
    }

    /// For a thread that is started elsewhere.
    pub(in crate::app) fn postbox(&self) -> Postbox {
        self.postbox.clone()
    }

    /// All answers that have arrived.
    pub fn drain(&self) -> impl Iterator<Item = Answer> + '_ {
        self.answers.try_iter()
    }

    /// Shows a folder in the user's file manager.
    pub fn open_folder(&self, folder: PathBuf) {
        self.spawn("open-folder", move |postbox| {
            let opened = Command::new("xdg-open").arg(&folder).output();
            let why = match opened {
                Ok(output) if output.status.success() => return,
                Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                Err(err) => err.to_string(),
            };
            let err = JobError::new(JobErrorKind::Disk, "no file manager could be opened")
                .advise(format!("The folder is {}", folder.display()))
                .detail(format!("xdg-open: {why}"));
            postbox.post(Answer::Problem(err));
        });
    }

    /// Asks servers, or fetches from them.
    pub fn fetch(&self, work: Work, errand: Errand) {
        self.spawn("fetch", move |postbox| {
            let answer = errand.run(work, &|| postbox.ctx.request_repaint());
            postbox.post(answer);
        });
    }

    /// Drops what may hold many pictures on a thread of its own: to give half a gigabyte back takes a tenth of a second.
    pub(in crate::app) fn free(&self, what: impl Send + 'static) {
        self.spawn("free", move |_| drop(what));
    }

    pub(in crate::app) fn spawn(&self, name: &str, work: impl FnOnce(&Postbox) + Send + 'static) {
        let postbox = self.postbox.clone();
        let spawned = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&postbox));
        if let Err(err) = spawned {
            tracing::error!("the thread {name} could not start: {err}");
        }
    }
}

impl Drop for Background {
    /// Lets the file thread finish what it has, the last settings above all, but not for ever.
    fn drop(&mut self) {
        self.tasks = None;
        let Some((thread, done)) = self.files.take() else {
            return;
        };
        let begin = Instant::now();
        while begin.elapsed() < FINISH_WITHIN {
            // The thread may wait for room for its answers.
            for _ in self.answers.try_iter() {}
            if done
                .recv_timeout(Duration::from_millis(10))
                .is_err_and(|err| err.is_disconnected())
            {
                // It ends now; a panic in it was logged by the panic hook.
                thread.join().ok();
                return;
            }
        }
        tracing::warn!("file work was still going on when the window closed");
    }
}
