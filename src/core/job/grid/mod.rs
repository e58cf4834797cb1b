//! Grids: one form over the values of one or two settings, a job for each cell, and a contact sheet of all of them.
//!
//! [`expand`] builds the jobs and [`values`] reads the axes; a [`GridRecord`] keeps the state of a grid, of which
//! [`sheet`]
//! makes the image. The queue schedules the cells.

mod axis;
pub(super) mod expand;
mod record;
mod sheet;
mod values;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{JobId, SamplerKind, SigmaSchedule};
use crate::enum_macros::{named, parsed};

pub use axis::FindModel;
pub use record::{GridRecord, cell_of};
pub use sheet::{SheetCells, write_sheet};

/// As many jobs one press may make: all are checked before the first begins, and a sheet of more shows nothing.
const MAX_GRID_JOBS: usize = 400;
/// A picture has two sides.
const MAX_GRID_AXES: usize = 2;

named! {
    /// Setting that a grid can vary.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum GridSetting {
        Seed = "seed", "Seed";
        Steps = "steps", "Steps";
        Guidance = "guidance", "Guidance";
        TrueCfg = "true-cfg", "CFG scale";
        Strength = "strength", "Strength";
        Shift = "shift", "Shift";
        Sampler = "sampler", "Sampler";
        Schedule = "schedule", "Scheduler";
        /// Of one LoRA of the form.
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
    /// Values as one would write them.
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

/// A grid's number: unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GridId(pub u64);

impl GridId {
    fn next() -> Self {
        Self(JobId::next().0)
    }
}

/// Relation of a request to a grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfGrid {
    /// It makes one cell, counted row by row from 0. Not carried in files.
    Cell { grid: GridId, index: usize },
    /// A contact sheet carries it: what was varied.
    Sheet(Vec<GridAxis>),
}

/// A grid whose values are known.
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

#[cfg(test)]
mod tests;
