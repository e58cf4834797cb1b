//! libtorch runtimes of this machine, and advice for running jobs on its GPU: content and actions of the card on the
//! first page and of the settings section.
//!
//! Nothing is downloaded without the user's confirmation. The work runs on separate threads.

use std::sync::Arc;

use safelight_core::settings::RuntimeSettings;

use crate::app::prelude::*;
use crate::runtimes::{
    self, InstallProgress, InstalledRuntime, MachineGpu, RuntimeAdvice, RuntimeBuild, RuntimeKind,
    RuntimeOverview, RuntimeSearch, WheelSource,
};

/// Examines this machine. Blocks, so it runs on a separate thread.
pub type LookAtMachine = Arc<dyn Fn(&Settings) -> RuntimeOverview + Send + Sync>;

pub fn look(paths: AppPaths) -> LookAtMachine {
    Arc::new(move |settings| RuntimeOverview::of_this_user(&paths, settings))
}

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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RuntimeState {
    #[default]
    Idle,
    Running(Option<InstallProgress>),
    /// Until the thread has let go.
    Stopping,
    /// Downloaded parts are kept.
    Failed(JobError),
    Done,
}

enum RuntimeNews {
    Progress(InstallProgress),
    Ended(Result<bool, JobError>),
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
    news: TaskStream<RuntimeNews>,
    cancel: CancelToken,
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
            news: TaskStream::default(),
            cancel: CancelToken::default(),
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

    pub fn update(&mut self, command: RuntimeCommand, cx: &AppContext) {
        match command {
            RuntimeCommand::Follow => match self.advice() {
                Some(RuntimeAdvice::Get { build, .. }) => {
                    self.install(build.clone(), cx);
                }
                Some(RuntimeAdvice::Use { id, .. }) => {
                    self.begin(RuntimeTask::Use(id.clone()), cx);
                }
                _ => {}
            },
            RuntimeCommand::Install(build) => self.install(*build, cx),
            RuntimeCommand::Use(id) => self.begin(RuntimeTask::Use(id), cx),
            RuntimeCommand::Check(id) => self.begin(RuntimeTask::Check(id), cx),
            RuntimeCommand::Remove(id) => self.begin(RuntimeTask::Remove(id), cx),
            RuntimeCommand::Stop => self.stop(),
        }
    }

    fn install(&mut self, build: RuntimeBuild, cx: &AppContext) {
        let overview = self.overview.as_ref();
        let is_advised = matches!(self.advice(), Some(RuntimeAdvice::Get { build: it, .. }) if it.id == build.id);
        let has_gpu = build.kind != RuntimeKind::Cpu
            && (is_advised || overview.is_some_and(|it| it.has_gpu_for(build.kind)));
        let build = Box::new(build);
        self.begin(RuntimeTask::Get { build, has_gpu }, cx);
    }

    fn begin(&mut self, task: RuntimeTask, cx: &AppContext) {
        if self.is_busy() {
            return;
        }
        self.cancel = CancelToken::default();
        let (fulfil, cancel) = (Arc::clone(&self.links.fulfil), self.cancel.clone());
        let settings = cx.settings.clone();
        self.task = Some(task.clone());
        self.news = cx.background.stream("runtime", move |postbox| {
            let ended = fulfil(&task, &settings, &cancel, &mut |progress| {
                postbox.post(RuntimeNews::Progress(progress.clone()));
            });
            postbox.post(RuntimeNews::Ended(ended));
        });
        self.state = RuntimeState::Running(None);
    }

    /// Downloaded parts stay for the next attempt.
    pub fn stop(&mut self) {
        if self.is_busy() {
            self.cancel.cancel();
            self.state = RuntimeState::Stopping;
        }
    }

    pub fn is_busy(&self) -> bool {
        matches!(
            self.state,
            RuntimeState::Running(_) | RuntimeState::Stopping
        )
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
        while let Some(news) = self.news.take() {
            match news {
                RuntimeNews::Progress(progress) => {
                    if let RuntimeState::Running(now) = &mut self.state {
                        *now = Some(progress);
                    }
                }
                RuntimeNews::Ended(ended) => {
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
        // A thread that ended without a word did not do it.
        if self.is_busy() && !self.news.is_busy() {
            self.state = RuntimeState::Idle;
        }
    }
}
