//! State of a grid's cells: kept in the queue's file until the contact sheet is made.
//!
//! The queue knows which cells wait, run or have failed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{GridId, JobGrid, OfGrid};
use crate::job::GenerateRequest;
use crate::naming;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridRecord {
    pub grid: JobGrid,
    /// Request of the first cell with prompts as written: the settings of the sheet.
    pub request: Box<GenerateRequest>,
    /// The finished cells and their files: of several the first.
    #[serde(default)]
    pub made: BTreeMap<usize, PathBuf>,
    /// Number of finished cells on the last sheet; 0 before that.
    #[serde(default)]
    pub on_sheet: usize,
}

/// The grid and the cell that a request makes.
pub fn cell_of(request: &GenerateRequest) -> Option<(GridId, usize)> {
    match request.grid {
        Some(OfGrid::Cell { grid, index }) => Some((grid, index)),
        Some(OfGrid::Sheet(_)) | None => None,
    }
}

impl GridRecord {
    /// A new grid, of whose jobs these are the requests.
    pub fn begin<'a>(
        grid: JobGrid,
        requests: impl IntoIterator<Item = &'a GenerateRequest>,
    ) -> Option<Self> {
        let first = (grid.id, 0);
        let mut requests = requests.into_iter();
        let request = requests.find(|request| cell_of(request) == Some(first))?;
        Some(Self {
            grid,
            request: Box::new(request.clone()),
            made: BTreeMap::new(),
            on_sheet: 0,
        })
    }

    /// A job of it has finished.
    pub fn finish(&mut self, index: usize, path: &Path) {
        if index < self.grid.num_cells() {
            self.made.insert(index, path.to_path_buf());
        }
    }

    /// Returns whether there are results that no sheet shows yet.
    pub fn lacks_sheet(&self) -> bool {
        self.made.len() > self.on_sheet
    }

    /// Folder of its first result, also used for the sheet.
    pub fn folder(&self) -> Option<&Path> {
        self.made.values().next()?.parent()
    }

    /// File name of the sheet without extension: like a result's, by prompt and seed.
    pub fn stem(&self) -> String {
        let (slug, seed) = (naming::slug(&self.request.prompt), self.request.seed);
        format!("{slug}_{seed}_grid")
    }
}
