//! libtorch runtimes of this machine, and advice for running jobs on its GPU: content and actions of the card on the
//! first page and of the settings section.
//!
//! Nothing is downloaded without the user's confirmation. The work runs on separate threads.

pub mod panel;

use safelight_core::settings::RuntimeSettings;

use crate::runtimes::{
    self, InstallProgress, InstalledRuntime, MachineGpu, RuntimeAdvice, RuntimeBuild, RuntimeKind,
    RuntimeOverview, RuntimeSearch, WheelSource,
};
use crate::window::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeTask {
    Get {
        build: Box<RuntimeBuild>,
        has_gpu: bool,
    },
    Use(String),
    /// Tests it without using it.
    Check(String),
    Remove(String),
}

impl RuntimeTask {
    pub fn id(&self) -> &str {
        match self {
            Self::Get { build, .. } => &build.id,
            Self::Use(id) | Self::Check(id) | Self::Remove(id) => id,
        }
    }
}

/// Examines this machine. Blocks, so it runs on a separate thread.
pub type LookAtMachine = Arc<dyn Fn(&Settings) -> RuntimeOverview + Send + Sync>;

pub fn look(paths: AppPaths) -> LookAtMachine {
    Arc::new(move |settings| RuntimeOverview::of_this_user(&paths, settings))
}

/// Runs it; `false` when cancelled. Blocks, on a separate thread.
pub type RuntimeRun = Arc<
    dyn Fn(
            &RuntimeTask,
            &Settings,
            &CancelToken,
            &mut dyn FnMut(&InstallProgress),
        ) -> Result<bool, JobError>
        + Send
        + Sync,
>;

pub fn fulfil(paths: AppPaths) -> RuntimeRun {
    Arc::new(move |task, settings, cancel, report| {
        let own = &settings.runtime;
        let named = |id: &str| -> Result<InstalledRuntime, JobError> {
            let here = runtimes::all(&paths, settings, &RuntimeSearch::of_this_user());
            runtimes::named(id, &here)
        };
        match task {
            RuntimeTask::Get { build, has_gpu } => {
                let place = WheelSource::of_settings(own);
                let got = runtimes::get(build, &place, *has_gpu, (&paths, own), cancel, report)?;
                Ok(got.is_some())
            }
            RuntimeTask::Use(id) => {
                report(&InstallProgress::Trying);
                runtimes::use_one(&named(id)?, &paths, own, cancel)
            }
            RuntimeTask::Check(id) => {
                report(&InstallProgress::Trying);
                Ok(runtimes::tried(&named(id)?, &paths, own, cancel)?.is_some())
            }
            RuntimeTask::Remove(id) => runtimes::remove(&named(id)?).map(|()| true),
        }
    })
}

/// Outcome of the last task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RuntimeState {
    #[default]
    Idle,
    /// Downloaded parts are kept.
    Failed(JobError),
    Done,
}

pub struct RuntimeLinks {
    pub look: LookAtMachine,
    pub fulfil: RuntimeRun,
}

pub struct RuntimeFetching {
    pub state: RuntimeState,
    pub task: Option<RuntimeTask>,
    pub overview: Option<RuntimeOverview>,
    links: RuntimeLinks,
    seen: Option<RuntimeSettings>,
    looking: BackgroundTask<RuntimeOverview>,
    /// The task that runs.
    pub work: LongTask<InstallProgress, Result<bool, JobError>>,
}

impl RuntimeFetching {
    pub fn new(links: RuntimeLinks) -> Self {
        Self {
            state: RuntimeState::Idle,
            task: None,
            overview: None,
            links,
            seen: None,
            looking: BackgroundTask::default(),
            work: LongTask::default(),
        }
    }

    pub fn advice(&self) -> Option<&RuntimeAdvice> {
        Some(&self.overview.as_ref()?.advice)
    }

    /// The GPU that jobs could run on and do not.
    pub fn idle_gpu(&self) -> Option<&MachineGpu> {
        self.advice()?.idle_gpu()
    }

    /// Returns whether jobs have just been given another libtorch.
    pub fn has_changed(&self) -> bool {
        let gives = matches!(
            self.task,
            Some(RuntimeTask::Get { .. } | RuntimeTask::Use(_))
        );
        gives && self.state == RuntimeState::Done
    }

    /// Follows the advice: installs a runtime, or uses the one that is present.
    pub fn follow(&mut self, cx: &AppContext) {
        match self.advice().cloned() {
            Some(RuntimeAdvice::Get { build, .. }) => self.install(build, cx),
            Some(RuntimeAdvice::Use { id, .. }) => self.begin(RuntimeTask::Use(id), cx),
            _ => {}
        }
    }

    pub fn install(&mut self, build: RuntimeBuild, cx: &AppContext) {
        let overview = self.overview.as_ref();
        let is_advised = matches!(self.advice(), Some(RuntimeAdvice::Get { build: it, .. }) if it.id == build.id);
        let has_gpu = build.kind != RuntimeKind::Cpu
            && (is_advised || overview.is_some_and(|it| it.has_gpu_for(build.kind)));
        let build = Box::new(build);
        self.begin(RuntimeTask::Get { build, has_gpu }, cx);
    }

    pub fn begin(&mut self, task: RuntimeTask, cx: &AppContext) {
        if self.is_busy() {
            return;
        }
        let (fulfil, settings) = (Arc::clone(&self.links.fulfil), cx.settings.clone());
        self.task = Some(task.clone());
        self.state = RuntimeState::Idle;
        self.work = cx.background.long("runtime", move |cancel, tell| {
            fulfil(&task, &settings, cancel, &mut |progress| {
                tell(progress.clone());
            })
        });
    }

    pub fn is_busy(&self) -> bool {
        self.work.is_busy()
    }

    /// Looks at the machine at first, and again when the settings name another libtorch or device.
    fn inspect(&mut self, cx: &AppContext) {
        let now = &cx.settings.runtime;
        let is_same =
            |seen: &RuntimeSettings| (&seen.libtorch, seen.device) == (&now.libtorch, now.device);
        if self.seen.as_ref().is_some_and(is_same) {
            return;
        }
        self.seen = Some(now.clone());
        let (look, settings) = (Arc::clone(&self.links.look), cx.settings.clone());
        self.looking = cx.background.run("runtime-look", move || look(&settings));
    }

    pub fn poll(&mut self, cx: &AppContext) {
        self.inspect(cx);
        if let Some(overview) = self.looking.take() {
            self.overview = Some(overview);
        }
        if let Some(ended) = self.work.take() {
            self.state = match ended {
                Ok(true) => RuntimeState::Done,
                Ok(false) => RuntimeState::Idle,
                Err(err) => RuntimeState::Failed(err),
            };
            // The installed runtimes may have changed.
            self.seen = None;
        }
    }
}
