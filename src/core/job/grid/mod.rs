//! Grids: one form over the values of one or two settings, a job for each cell, and a contact sheet of all of them.
//!
//! [`expand`] builds the jobs and [`values`] reads the axes; a [`GridRecord`] keeps the state of a grid, of which
//! [`sheet`]
//! makes the image. The queue schedules the cells.

mod axis;
pub(super) mod expand;
mod sheet;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{GenerateRequest, JobId, SamplerKind, SigmaSchedule};
use crate::enum_macros::{named, parsed};
use crate::naming;

pub use axis::FindModel;
pub use sheet::{SheetCells, write_sheet};

/// As many jobs one press may make: all are checked before the first begins, and a sheet of more shows nothing.
const MAX_GRID_JOBS: usize = 400;
/// An image has two sides.
const MAX_GRID_AXES: usize = 2;

named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum GridSetting {
        Seed = "seed", "Seed";
        Steps = "steps", "Steps";
        Guidance = "guidance", "Guidance";
        TrueCfg = "true-cfg", "CFG scale";
        Strength = "strength", "Strength";
        Shift = "shift", "Shift";
        Sampler = "sampler", "Sampler";
        Schedule = "schedule", "Scheduler";
        Lora = "lora", "LoRA strength";
        Model = "model", "Model";
        /// The first value occurs in the prompt, exactly once.
        Prompt = "prompt", "Prompt text";
    }
}
parsed!(GridSetting, "a setting of a grid");

/// One side of a grid, as it is written: not yet checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridAxis {
    pub setting: GridSetting,
    /// The name of the LoRA, where the form has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<String>,
    /// A list with ranges: `4, 8, 12`, `1..3`, `0..1:0.25`, `a boat, a "big, red" boat`.
    pub values: String,
}

impl GridSetting {
    pub fn example(self) -> &'static str {
        match self {
            Self::Seed => "1..3",
            Self::Steps => "4, 8, 12",
            Self::Guidance | Self::TrueCfg => "1, 3.5, 6",
            Self::Strength => "0.4, 0.6, 0.8",
            Self::Shift => "1, 3, 5",
            Self::Sampler => "euler, unipc",
            Self::Schedule => "simple, beta",
            Self::Lora => "0..1:0.25",
            Self::Model => "two or more models",
            Self::Prompt => "red boat, blue boat",
        }
    }

    /// Every value it can have with its label, where they are few.
    pub fn choices(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Sampler => SamplerKind::CHOICES,
            Self::Schedule => SigmaSchedule::CHOICES,
            _ => &[],
        }
    }
}

impl GridAxis {
    pub fn new(setting: GridSetting, values: &str) -> Self {
        Self {
            setting,
            lora: None,
            values: values.to_owned(),
        }
    }
}

impl FromStr for GridAxis {
    type Err = String;

    /// `SETTING=VALUES`, of one LoRA `lora:NAME=VALUES`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "expected SETTING=VALUES such as steps=4,8,12 or seed=1..3, found {text:?}; the settings are {}",
                GridSetting::ALL.map(GridSetting::name).join(", ")
            )
        };
        let (name, values) = text.split_once('=').ok_or_else(wrong)?;
        let (name, lora) = match name.split_once(':') {
            Some((name, lora)) => (name, Some(lora.trim().to_owned())),
            None => (name, None),
        };
        let setting: GridSetting = name.trim().parse().map_err(|_err| wrong())?;
        if lora.is_some() && setting != GridSetting::Lora {
            return Err(wrong());
        }
        Ok(Self {
            setting,
            lora,
            values: values.to_owned(),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GridId(pub u64);

impl GridId {
    fn next() -> Self {
        Self(JobId::next().0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfGrid {
    /// It makes one cell, counted row by row from 0. Not carried in files.
    Cell { grid: GridId, index: usize },
    /// A contact sheet carries it: what was varied.
    Sheet(Vec<GridAxis>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobGrid {
    pub id: GridId,
    /// One or two: across, then down.
    pub axes: Vec<GridAxis>,
    /// Labels above the columns, such as `Steps 8`.
    pub columns: Vec<String>,
    /// Labels before the rows; a single empty one if only one setting varies.
    pub rows: Vec<String>,
}

impl JobGrid {
    pub fn num_cells(&self) -> usize {
        self.columns.len() * self.rows.len()
    }

    /// Column and row of a cell.
    pub fn place(&self, index: usize) -> (usize, usize) {
        let columns = self.columns.len().max(1);
        (index % columns, index / columns)
    }
}

impl fmt::Display for JobGrid {
    /// `3 × 2 grid of Steps and Seed`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<&str> = self.axes.iter().map(|axis| axis.setting.label()).collect();
        let (columns, rows) = (self.columns.len(), self.rows.len());
        write!(f, "{columns} × {rows} grid of {}", labels.join(" and "))
    }
}

/// State of a grid's cells: kept in the queue's file until the contact sheet is made. The queue knows which cells wait,
/// run or have failed.
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

pub fn cell_of(request: &GenerateRequest) -> Option<(GridId, usize)> {
    match request.grid {
        Some(OfGrid::Cell { grid, index }) => Some((grid, index)),
        Some(OfGrid::Sheet(_)) | None => None,
    }
}

impl GridRecord {
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

#[cfg(test)]
mod tests;
