//! What has become of a grid's cells: kept in the queue's file until the contact sheet is made.
//!
//! Which cells still wait, run or have failed, whoever has the jobs knows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Grid, GridId, OfGrid};
use crate::job::GenerateRequest;
use crate::naming;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GridRecord {
    pub grid: Grid,
    /// The first cell's as it was asked for, prompts as they were written: what the sheet's settings are.
    pub request: Box<GenerateRequest>,
    /// The finished cells and their files: of several the first.
    #[serde(default)]
    pub made: BTreeMap<usize, PathBuf>,
    /// How many were finished when a sheet was made; 0 before that.
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
        grid: Grid,
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

    /// Whether there is something to show that no sheet shows yet.
    pub fn lacks_sheet(&self) -> bool {
        self.made.len() > self.on_sheet
    }

    /// The folder of its first result, which the sheet lies in too.
    pub fn folder(&self) -> Option<&Path> {
        self.made.values().next()?.parent()
    }

    /// What the sheet's file is called before its ending: as results are, by prompt and seed.
    pub fn stem(&self) -> String {
        let (slug, seed) = (naming::slug(&self.request.prompt), self.request.seed);
        format!("{slug}_{seed}_grid")
    }
}
