//! Other computers of the settings: a worker for each, its state, and its models among those of this computer.

pub mod panel;

use std::thread::JoinHandle;

use safelight_core::settings::LiveSettings;

use crate::computers::client::connect;
use crate::computers::link::{ComputerLink, ComputerState};
use crate::window::prelude::*;
use crate::worker::{WorkerEvent, WorkerHandle};

/// Computers in the order of the settings.
#[derive(Default)]
pub struct RemoteComputers {
    pub list: Vec<RemoteComputer>,
}

pub struct RemoteComputer {
    pub host: String,
    pub state: ComputerState,
    link: Option<ComputerLink>,
    thread: Option<JoinHandle<()>>,
}

impl RemoteComputer {
    /// A computer at the other end of a link.
    pub fn linked(host: &str, link: Option<ComputerLink>) -> Self {
        Self {
            host: host.to_owned(),
            state: ComputerState::Connecting,
            link,
            thread: None,
        }
    }

    fn new(host: &str, cx: &AppContext) -> Self {
        let mut computer = Self::linked(host, None);
        let Some(paths) = cx.paths.clone() else {
            return computer;
        };
        let (ctx, live): (Context, LiveSettings) = (cx.ctx.clone(), cx.live_settings.clone());
        let settings = Box::new(move || live.get().as_ref().clone());
        let wake = Box::new(move || ctx.request_repaint());
        match connect(host, paths, settings, wake) {
            Ok((link, thread)) => (computer.link, computer.thread) = (Some(link), Some(thread)),
            Err(err) => {
                let err = JobError::from_error(JobErrorKind::Internal, &err);
                computer.state = ComputerState::Failed(err);
            }
        }
        computer
    }

    pub fn reconnect(&self) {
        if let Some(link) = &self.link {
            link.reconnect();
        }
    }
}

impl Drop for RemoteComputer {
    /// Waits until a paused job has stopped there.
    fn drop(&mut self) {
        self.link = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

impl RemoteComputers {
    /// Follows the settings, and takes what the computers say. One that runs a job stays until that has ended.
    pub(super) fn poll(&mut self, is_free: &dyn Fn(&str) -> bool, cx: &mut AppContext) {
        let hosts = &cx.settings.computers.hosts;
        let is_kept = |it: &RemoteComputer| hosts.contains(&it.host) || !is_free(&it.host);
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.list)
            .into_iter()
            .partition(is_kept);
        self.list = kept;
        let mut is_changed = !gone.is_empty();
        if is_changed {
            cx.background.free(gone);
        }
        for host in hosts {
            if !self.list.iter().any(|it| it.host == *host) {
                self.list.push(RemoteComputer::new(host, cx));
            }
        }
        for computer in &mut self.list {
            let states = computer.link.iter().flat_map(|link| link.states.try_iter());
            if let Some(state) = states.last() {
                // The models of a computer that is not connected stay: its jobs wait for it.
                is_changed |= matches!(state, ComputerState::Connected(_));
                computer.state = state;
            }
        }
        if is_changed {
            let hosts: Vec<&str> = self.list.iter().map(|it| it.host.as_str()).collect();
            let connected = self.list.iter().filter_map(|it| match &it.state {
                ComputerState::Connected(info) => Some((it.host.as_str(), &info.models)),
                _ => None,
            });
            cx.models.set_remote(&hosts, connected);
        }
    }

    pub(super) fn events(&self) -> Vec<WorkerEvent> {
        let links = self.list.iter().filter_map(|it| it.link.as_ref());
        links.flat_map(|link| link.worker.drain()).collect()
    }

    pub fn worker(&self, host: &str) -> Option<&WorkerHandle> {
        let computer = self.list.iter().find(|it| it.host == host)?;
        computer.link.as_ref().map(|link| &link.worker)
    }
}
