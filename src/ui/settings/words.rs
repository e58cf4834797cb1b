//! What the settings page says around the settings, whose names and explanations are the table's.
//!
//! Whole sentences, so that they can be translated one by one.

pub(super) const TITLE: &str = "Settings";
pub(super) const CLOSE: &str = "Close the settings";
pub(super) const BACK: &str = "Back to the picture (Escape)";
pub(super) const SEARCH: &str = "Search settings";
pub(super) const SEARCH_HOVER: &str = "Part of a setting's name, explanation or key in the file";
pub(super) const OPEN_FILE: &str = "Open settings file";
pub(super) const OPEN_FILE_HOVER: &str =
    "All settings as text with comments. Changes take effect when you save, and your comments stay";
pub(super) const BROKEN: &str = "The file cannot be read at the moment. What you change here counts, and is written as soon as the file is corrected.";
pub(super) const RESET_HOVER: &str = "Back to the default";

pub(super) const HARDLY_ANY_LOSS: &str = "hardly any loss, large files";
pub(super) const LIKE_ORIGINAL: &str = "looks like the original";
pub(super) const SMALL: &str = "small files";
pub(super) const VISIBLY_WORSE: &str = "visibly worse";
pub(super) const AUTOMATIC: &str = "Automatic";
pub(super) const CPU: &str = "CPU";
pub(super) const GPU_PREFIX: &str = "number ";
pub(super) const GPU_NUMBER: &str = "GPU number";
pub(super) const GPU_NUMBER_HOVER: &str = "As libtorch counts them, from 0";
pub(super) const CHOOSE_FOLDER: &str = "Choose a folder…";
pub(super) const NO_ADDRESS: &str = "An address begins with https://";
pub(super) const ADD_FOLDER: &str = "Add a folder…";
pub(super) const REMOVE_FOLDER_HOVER: &str = "Stop looking in this folder";
/// Behind the name of the setting, of the field for one more.
pub(super) const NEW_VARIABLE: &str = ": new";
pub(super) const VARIABLE_HINT: &str = "NAME=value";
pub(super) const NOT_SET: &str = "not set";
pub(super) const REMOVE_VARIABLE_HOVER: &str = "Leave this variable as Safelight sets it";

pub(super) fn none_found(search: &str) -> String {
    format!("No matches for \u{201c}{search}\u{201d}")
}

pub(super) fn reset(name: &str) -> String {
    format!("Reset: {name}")
}

pub(super) fn automatic(name: &str, automatic: &str) -> String {
    format!("{name}: {automatic}")
}

pub(super) fn scale(percent: u32) -> String {
    format!("Scale {percent} %")
}

pub(super) fn gpu(number: usize) -> String {
    format!("GPU {number}")
}

pub(super) fn choose(name: &str) -> String {
    format!("Choose: {name}")
}

pub(super) fn remove_at(name: &str, number: usize) -> String {
    format!("Remove: {name} {number}")
}

pub(super) fn add(name: &str) -> String {
    format!("Add: {name}")
}

pub(super) fn remove(name: &str) -> String {
    format!("Remove: {name}")
}
