//! A libtorch for this machine's GPU on its way: what the card on the first page shows of it and what its buttons do.
//!
//! Nothing is fetched before its user said so. The work is on a thread of its own.

use std::sync::Arc;

use safelight_core::job::{CancelToken, JobError};
use safelight_core::settings::{Paths, RuntimeSettings};

use crate::app::commands::RuntimeCommand;
use crate::app::cx::Cx;
use crate::app::pending::Stream;
use crate::runtimes::{self, Advice, Build, Progress};

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

pub struct RuntimeFetching {
    pub state: RuntimeState,
    fulfil: Fulfil,
    news: Stream<News>,
    cancel: CancelToken,
}

impl RuntimeFetching {
    pub fn new(fulfil: Fulfil) -> Self {
        Self {
            state: RuntimeState::Idle,
            fulfil,
            news: Stream::default(),
            cancel: CancelToken::default(),
        }
    }

    /// `advice`: what the last look at this machine came to.
    pub fn update(&mut self, command: RuntimeCommand, advice: Option<&Advice>, cx: &Cx) {
        match command {
            RuntimeCommand::Follow => {
                let errand = match advice {
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
        let (fulfil, cancel) = (Arc::clone(&self.fulfil), self.cancel.clone());
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

    pub fn poll(&mut self) {
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
