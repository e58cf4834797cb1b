//! The worker's side of the event channel: certain and lossy updates, and the wake-up.
//!
//! They also feed the job's telemetry: stages, freed memory, end.

use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Sender;
use safelight_core::job::{CancelToken, JobId};
use safelight_core::job_update::{JobUpdate, PreviewFrame};
use safelight_core::media::RgbPixels;
use safelight_core::protocol::{EngineReport, PixelHeader};
use safelight_core::settings::kind_of;

use super::handle::WorkerEvent;
use super::shared_memory::WorkerMemory;
use crate::telemetry::DeviceQuery;
use crate::telemetry::monitor::{MonitorCommand, TelemetryMonitor};

/// Called after each event, on the worker thread; the window's asks for a repaint.
pub type WorkerWake = Box<dyn Fn() + Send>;

pub(super) struct WorkerEvents {
    pub(super) sender: Sender<WorkerEvent>,
    pub(super) wake: WorkerWake,
    pub(super) gone: CancelToken,
    /// None where its thread could not be started: jobs run without it.
    pub(super) monitor: Option<TelemetryMonitor>,
    pub(super) memory: WorkerMemory,
}

impl WorkerEvents {
    /// The events of one job, which begins now.
    pub(super) fn of(&self, id: JobId, model: &str, cancel: CancelToken) -> JobEvents<'_> {
        if let Some(monitor) = &self.monitor {
            monitor.begin(id, model);
        }
        JobEvents {
            events: self,
            id,
            cancel,
        }
    }
}

/// Sends the updates of one job, and knows whether anybody still wants it.
pub(super) struct JobEvents<'a> {
    events: &'a WorkerEvents,
    id: JobId,
    cancel: CancelToken,
}

impl JobEvents<'_> {
    /// Waits for room: for updates that must arrive. A receiver that is gone needs none.
    pub(super) fn certain(&self, update: JobUpdate) {
        self.events.sender.send(self.event(update)).ok();
        (self.events.wake)();
    }

    /// Dropped when there is no room: for updates that the next one replaces.
    pub(super) fn lossy(&self, update: JobUpdate) {
        if self.events.sender.try_send(self.event(update)).is_ok() {
            (self.events.wake)();
        }
    }

    /// Dropped if any event waits: for large updates, of which few may be in memory.
    pub(super) fn idle(&self, update: JobUpdate) {
        if self.events.sender.is_empty() {
            self.lossy(update);
        }
    }

    /// The device that the job runs on is the one of this engine, on the libtorch in this folder.
    pub(super) fn watch(&self, report: &EngineReport, lib: Option<&Path>) {
        if let Some(monitor) = &self.events.monitor {
            let query = DeviceQuery {
                kind: lib.map_or("cpu", kind_of),
                device: report.device,
                pci: report.pci.clone(),
                driver_total_bytes: report.total_bytes,
            };
            monitor.watch(query, &report.line);
        }
    }

    pub(super) fn memory(&self) -> &WorkerMemory {
        &self.events.memory
    }

    /// Cancelled, or the other end of the worker is gone.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.events.gone.is_cancelled()
    }

    /// Stopped to be resumed later.
    pub(super) fn is_paused(&self) -> bool {
        self.cancel.is_paused()
    }

    /// Its user does not let it wait for other programs any more.
    pub(super) fn waits_no_more(&self) -> bool {
        self.cancel.waits_no_more()
    }

    /// Memory that all programs use of the GPU, if its driver reports it.
    pub(super) fn device_used_bytes(&self) -> Option<u64> {
        self.events.monitor.as_ref()?.device_used_bytes()
    }

    fn event(&self, update: JobUpdate) -> WorkerEvent {
        WorkerEvent {
            id: self.id,
            update: self.measured(update),
        }
    }

    /// Tells the monitor, and adds to the engine's counts what it knows.
    fn measured(&self, update: JobUpdate) -> JobUpdate {
        let Some(monitor) = &self.events.monitor else {
            return update;
        };
        match &update {
            JobUpdate::Memory(sample) => return JobUpdate::Memory(monitor.join(*sample)),
            JobUpdate::Stage { stage, .. } => monitor.send(MonitorCommand::Stage(*stage)),
            JobUpdate::StageEnded(_) => monitor.send(MonitorCommand::StageEnd),
            JobUpdate::Reclaimed(reclaim) => {
                monitor.send(MonitorCommand::Reclaimed(reclaim.clone()));
            }
            // Written before the event, so that its receiver finds it.
            JobUpdate::Ended(_) => monitor.end(),
            _ => {}
        }
        update
    }
}

/// An image that came with its place in the video; `None` where it is none.
pub(crate) fn preview_frame(header: PixelHeader, bytes: Vec<u8>) -> Option<PreviewFrame> {
    let (index, count) = (header.index, header.count);
    let image = Arc::new(RgbPixels::from_planes(header.width, header.height, bytes).ok()?);
    Some(PreviewFrame {
        index,
        count,
        image,
    })
}
