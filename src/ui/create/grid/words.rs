//! What the fold for grids says.

use safelight_core::job::GridSetting;

pub(super) const GRID: &str = "Grid";
pub(super) const GRID_HOVER: &str = "Vary one or two settings: a job for each value or pair of values, and a contact sheet of all results in the end";
pub(super) const OFF: &str = "Nothing";
pub(super) const ACROSS: &str = "Across";
pub(super) const ACROSS_HOVER: &str =
    "The setting that differs from column to column of the contact sheet";
pub(super) const DOWN: &str = "Down";
pub(super) const DOWN_HOVER: &str =
    "A second setting, which differs from row to row: a job for each pair of values";
pub(super) const VALUES: &str = "Values";
pub(super) const ADD_VALUE_HOVER: &str = "Add one of those that there are";

/// The field of a side, as a screen reader tells it from the other's.
pub(super) fn values_of(side: &str) -> String {
    format!("Values {}", side.to_lowercase())
}

pub(super) fn add_value(side: &str) -> String {
    format!("Add a value {}", side.to_lowercase())
}

/// How the values of a setting are written.
pub(super) fn values_hover(setting: GridSetting) -> &'static str {
    match setting {
        GridSetting::Seed | GridSetting::Steps => {
            "Whole numbers and ranges, such as 4, 8, 12 or 1..3 or 10..50:10"
        }
        GridSetting::Guidance
        | GridSetting::TrueCfg
        | GridSetting::Strength
        | GridSetting::Shift
        | GridSetting::Lora => "Numbers and ranges, such as 1, 3.5, 6 or 0..1:0.25 or 0..1 [5]",
        GridSetting::Sampler | GridSetting::Schedule => {
            "Names, separated by commas. The button beside the field adds one"
        }
        GridSetting::Model => {
            "Models, separated by commas. The button beside the field adds one. They run one after the other, so that each is loaded once"
        }
        GridSetting::Prompt => {
            "Texts, separated by commas: the first stands in the prompt, and each of the others takes its place. A text with a comma stands in quotes"
        }
    }
}

/// `3 × 2 cells: 6 jobs`.
pub(super) fn count(num_jobs: usize, makes_pictures: bool) -> String {
    match (num_jobs, makes_pictures) {
        (1, _) => "1 job: write more values for a grid".to_owned(),
        (jobs, true) => format!("{jobs} jobs, one picture each, and a contact sheet"),
        (jobs, false) => format!("{jobs} jobs, one clip each, and a contact sheet"),
    }
}

pub(super) fn lora(name: &str) -> String {
    format!("Strength of {name}")
}
