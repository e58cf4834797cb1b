//! What to do so that jobs run on this machine's GPU, and doing it: what the card on the first page shows and what its
//! buttons do.
//!
//! Nothing is fetched before its user said so. The work is on threads of its own.

use std::sync::Arc;

use safelight_core::job::{CancelToken, JobError};
use safelight_core::settings::{Paths, RuntimeSettings, Settings};

use crate::app::commands::RuntimeCommand;
use crate::app::cx::Cx;
use crate::app::pending::{Pending, Stream};
use crate::runtimes::{self, Advice, Build, Gpu, Overview, Progress};

/// Looks at this machine. Blocks, on a thread of its own.
pub type Advise = Arc<dyn Fn(&Settings) -> Advice + Send + Sync>;

/// What to do for this user.
pub fn advise(paths: Paths) -> Advise {
    Arc::new(move |settings| Overview::of_this_user(&paths, settings).advice)
}

/// What is done to jobs' libtorch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Fetch this build, try it and use it.
    Get(Box<Build>),
    /// Try the one with this id, which is here, and use it.
    Use(String),
}

/// Does it; `false` when cancelled. Blocks, on a thread of its own.
pub type Fulfil = Arc<
    dyn Fn(
            &Errand,
            &RuntimeSettings,
            &CancelToken,
            &mut dyn FnMut(&Progress),
        ) -> Result<bool, JobError>
        + Send
        + Sync,
>;

/// For this user, with the indexes that builds come from.
pub fn fulfil(paths: Paths) -> Fulfil {
    Arc::new(move |errand, settings, cancel, report| match errand {
        Errand::Get(build) => runtimes::get(build, &paths, settings, cancel, report),
        Errand::Use(id) => {
            report(&Progress::Trying);
            runtimes::use_one(id, &paths, settings, cancel)
        }
    })
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RuntimeState {
    #[default]
    Idle,
    Running(Option<Progress>),
    /// Until the thread has let go.
    Stopping,
    /// What has come is kept.
    Failed(JobError),
    /// Jobs use it from now on.
    Done,
}

enum News {
    Progress(Progress),
    Ended(Result<bool, JobError>),
}

/// Who looks at the machine, and who does what is advised.
pub struct RuntimeLinks {
    pub advise: Advise,
    pub fulfil: Fulfil,
}

pub struct RuntimeFetching {
    pub state: RuntimeState,
    /// What the last look came to.
    pub advice: Option<Advice>,
    links: RuntimeLinks,
    /// The settings that were looked at.
    seen: Option<RuntimeSettings>,
    looking: Pending<Advice>,
    news: Stream<News>,
    cancel: CancelToken,
}

impl RuntimeFetching {
    pub fn new(links: RuntimeLinks) -> Self {
        Self {
            state: RuntimeState::Idle,
            advice: None,
            links,
            seen: None,
            looking: Pending::default(),
            news: Stream::default(),
            cancel: CancelToken::default(),
        }
    }

    /// The GPU that jobs could run on and do not.
    pub fn idle_gpu(&self) -> Option<&Gpu> {
        self.advice.as_ref()?.idle_gpu()
    }

    pub fn update(&mut self, command: RuntimeCommand, cx: &Cx) {
        match command {
            RuntimeCommand::Follow => {
                let errand = match &self.advice {
                    Some(Advice::Get { build, .. }) => Errand::Get(Box::new(build.clone())),
                    Some(Advice::Use { id, .. }) => Errand::Use(id.clone()),
                    _ => return,
                };
                self.begin(errand, cx);
            }
            RuntimeCommand::Stop => self.stop(),
        }
    }

    fn begin(&mut self, errand: Errand, cx: &Cx) {
        if self.is_busy() {
            return;
        }
        self.cancel = CancelToken::default();
        let (fulfil, cancel) = (Arc::clone(&self.links.fulfil), self.cancel.clone());
        let settings = cx.settings.runtime.clone();
        self.news = cx.background.stream("runtime", move |postbox| {
            let ended = fulfil(&errand, &settings, &cancel, &mut |progress| {
                postbox.post(News::Progress(progress.clone()));
            });
            postbox.post(News::Ended(ended));
        });
        self.state = RuntimeState::Running(None);
    }

    /// What has come stays for the next attempt.
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
    fn look(&mut self, cx: &Cx) {
        let now = &cx.settings.runtime;
        let is_same =
            |seen: &RuntimeSettings| (&seen.libtorch, seen.device) == (&now.libtorch, now.device);
        if self.seen.as_ref().is_some_and(is_same) {
            return;
        }
        self.seen = Some(now.clone());
        let (advise, settings) = (Arc::clone(&self.links.advise), cx.settings.clone());
        self.looking = cx.background.run("runtime-look", move || advise(&settings));
    }

    pub fn poll(&mut self, cx: &Cx) {
        self.look(cx);
        if let Some(advice) = self.looking.take() {
            self.advice = Some(advice);
        }
        while let Some(news) = self.news.take() {
            match news {
                News::Progress(progress) => {
                    if let RuntimeState::Running(now) = &mut self.state {
                        *now = Some(progress);
                    }
                }
                News::Ended(Ok(true)) => self.state = RuntimeState::Done,
                News::Ended(Ok(false)) => self.state = RuntimeState::Idle,
                News::Ended(Err(err)) => self.state = RuntimeState::Failed(err),
            }
        }
        // A thread that ended without a word did not do it.
        if self.is_busy() && !self.news.is_busy() {
            self.state = RuntimeState::Idle;
        }
    }
}
