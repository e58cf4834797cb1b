//! Grids of the queue: their open cells, cancelling, and the contact sheet at the end.

use std::path::{Path, PathBuf};

use safelight_core::job::{GridId, GridRecord, JobGrid, write_sheet};
use safelight_core::naming;

use crate::window::inputs::InputSlots;
use crate::window::prelude::*;
use crate::window::queue::JobQueue;
use crate::window::queue::jobs::GridProgress;

impl JobQueue {
    /// The grid that a job is a cell of, where it is known, and the cell's number from 0.
    pub fn grid_of(&self, request: &JobRequest) -> Option<(&JobGrid, usize)> {
        let (id, index) = request.cell()?;
        Some((&self.grids.get(id)?.grid, index))
    }

    pub fn grid_progress(&self, id: GridId) -> GridProgress {
        let num_failed = self.failed_cells().filter(|(of, _)| *of == id).count();
        let record = self.grids.get(id);
        GridProgress {
            num_made: record.map_or(0, |record| record.made.len()),
            num_failed,
        }
    }

    /// Cells whose jobs run, wait or can resume.
    fn open_cells(&self) -> impl Iterator<Item = (GridId, usize)> {
        let running = self.running.iter().map(|job| &job.request);
        let waiting = self.waiting.iter().map(|job| &job.request);
        let stopped = self.stopped.iter().filter(|it| !it.has_failed());
        let stopped = stopped.map(|stopped| &stopped.job.request);
        running
            .chain(waiting)
            .chain(stopped)
            .filter_map(JobRequest::cell)
    }

    fn failed_cells(&self) -> impl Iterator<Item = (GridId, usize)> {
        let failed = self.stopped.iter().filter(|it| it.has_failed());
        failed.filter_map(|stopped| stopped.job.request.cell())
    }

    /// Grids to save: those with pending cells.
    pub(super) fn kept_grids(&self) -> Vec<GridRecord> {
        let is_open = |record: &GridRecord| {
            let id = record.grid.id;
            let mut cells = self.open_cells().chain(self.failed_cells());
            record.lacks_sheet() || cells.any(|(of, _)| of == id)
        };
        let records = self.grids.records.iter().filter(|record| is_open(record));
        records.cloned().collect()
    }

    /// Takes all jobs of a grid out; the running one is cancelled.
    pub(super) fn cancel_grid(&mut self, id: GridId, inputs: &mut InputSlots, cx: &mut AppContext) {
        let is_of_it = |request: &JobRequest| request.cell().is_some_and(|it| it.0 == id);
        let waiting = self.waiting.iter().map(|job| (job.id, &job.request));
        let stopped = self.stopped.iter().map(|it| (it.job.id, &it.job.request));
        let ids: Vec<_> = waiting
            .chain(stopped)
            .filter(|(_, request)| is_of_it(request))
            .map(|(id, _)| id)
            .collect();
        if let Some(job) = self.running.as_ref().filter(|job| is_of_it(&job.request)) {
            job.cancel.cancel();
        }
        self.remove_all(&ids, inputs, cx);
    }

    /// Has the sheets made of grids of which no cell is to come any more, one at a time.
    pub(super) fn tend_grids(&mut self, cx: &mut AppContext) {
        if let Some((id, written)) = self.grids.making.take() {
            self.take_sheet(id, written, cx);
        }
        if self.grids.making.is_busy() || self.grids.looked == Some(self.revision()) {
            return;
        }
        self.grids.looked = Some(self.revision());
        let is_due = |record: &&GridRecord| {
            let id = record.grid.id;
            record.lacks_sheet() && !self.open_cells().any(|(of, _)| of == id)
        };
        let Some(record) = self.grids.records.iter().find(is_due).cloned() else {
            self.grids.forget_oldest();
            return;
        };
        let id = record.grid.id;
        let failed: Vec<usize> = self
            .failed_cells()
            .filter(|(of, _)| *of == id)
            .map(|(_, index)| index)
            .collect();
        let making = cx.background.on_files(move || {
            let folder = record.folder().unwrap_or_else(|| Path::new(""));
            let out = folder.join(format!("{}_{}.png", naming::timestamp(), record.stem()));
            let written = write_sheet(&record, &|index| failed.contains(&index), &out);
            (id, written)
        });
        if let Some(making) = making {
            self.grids.making = making;
        } else {
            // The thread is busy: tried again soon.
            self.grids.looked = None;
            cx.wake_in(1.0);
        }
    }

    fn take_sheet(
        &mut self,
        id: GridId,
        written: Result<PathBuf, MediaError>,
        cx: &mut AppContext,
    ) {
        // A failed sheet is not retried for ever: the next finished cell tries again.
        let Some(record) = self.grids.get_mut(id) else {
            return;
        };
        record.on_sheet = record.made.len();
        let name = record.grid.to_string();
        self.touch();
        match written {
            Ok(path) => {
                let text = format!("the contact sheet of the {name} is saved beside the results");

                let show = NoticeAction {
                    label: "Show",
                    explanation: "Look at the contact sheet",
                    command: PlayerCommand::PlayFile(path.clone()).into(),
                };
                let notice = UserNotice::info(text, "Click a cell to open that result");
                cx.notices.show(notice.with(vec![show]));
                cx.push(PlayerCommand::ShowSheet(path));
            }
            Err(err) => {
                let notice = JobError::from_error(JobErrorKind::Disk, &err).advise(format!(
                    "The {name} has no contact sheet. Its results are saved"
                ));
                cx.notify(NoticeSeverity::Warning, notice);
            }
        }
    }
}
