//! Grids whose jobs wait or run, and their progress.

use std::path::{Path, PathBuf};

use safelight_core::job::{GenerateRequest, GridId, GridRecord, JobGrid, JobRequest};
use safelight_core::media::MediaError;

use crate::app::pending::BackgroundTask;

/// Grids of this session that are remembered when all is done: an undo may bring a job of one back.
const MAX_DONE: usize = 100;

#[derive(Default)]
pub(super) struct GridSheets {
    records: Vec<GridRecord>,
    pub(super) making: BackgroundTask<SheetMade>,
    /// The state of the queue that was looked at last.
    pub(super) looked: Option<u64>,
}

/// A contact sheet, or why there is none.
pub(super) struct SheetMade {
    pub(super) id: GridId,
    pub(super) written: Result<PathBuf, MediaError>,
}

/// Progress of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridProgress {
    pub num_made: usize,
    pub num_failed: usize,
}

impl GridSheets {
    /// New ones, of which these are among the jobs.
    pub fn begin(&mut self, grids: Vec<JobGrid>, requests: &[GenerateRequest]) {
        let begun = grids.into_iter();
        let begun = begun.filter_map(|grid| GridRecord::begin(grid, requests));
        self.records.extend(begun);
    }

    /// Those of the last run.
    pub fn restore(&mut self, records: Vec<GridRecord>) {
        self.records.extend(records);
    }

    /// A cell has its result.
    pub fn finish_cell(&mut self, request: &JobRequest, path: &Path) {
        if let Some((id, index)) = request.cell()
            && let Some(record) = self.get_mut(id)
        {
            record.finish(index, path);
        }
    }

    pub fn get(&self, id: GridId) -> Option<&GridRecord> {
        self.records.iter().find(|record| record.grid.id == id)
    }

    pub fn get_mut(&mut self, id: GridId) -> Option<&mut GridRecord> {
        let mut records = self.records.iter_mut();
        records.find(|record| record.grid.id == id)
    }

    pub fn all(&self) -> impl Iterator<Item = &GridRecord> {
        self.records.iter()
    }

    pub fn forget_oldest(&mut self) {
        let too_many = self.records.len().saturating_sub(MAX_DONE);
        self.records.drain(..too_many);
    }
}
