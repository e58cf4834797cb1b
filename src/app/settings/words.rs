//! What is said of the settings file, as whole sentences; names of settings are in the table of core.

use std::path::Path;

pub(super) const CHOOSE_CLIPS: &str = "Choose the folder for clips";
pub(super) const CHOOSE_PICTURES: &str = "Choose the folder for pictures";
pub(super) const CHOOSE_LIBTORCH: &str = "Choose a libtorch folder";
pub(super) const CHOOSE_MODELS: &str = "Choose a folder with models";
pub(super) const CHOOSE_WILDCARDS: &str = "Choose a folder with wildcard files";

pub(super) const FILE_GONE: &str = "The broken settings file is gone";
pub(super) const FILE_MENDED: &str = "The settings file can be read again";
pub(super) const MAKE_WRITABLE: &str = "Your changes work now, but are lost when Safelight closes. Make the file writable to keep them";
pub(super) const CORRECT_FILE: &str = "The settings from before stay in use. Correct the file: until then your changes work, but are not saved";
pub(super) const UNKNOWN_KEY: &str = "It does nothing, and stays in the file";
pub(super) const NO_EDITOR: &str = "no editor could be opened";

pub(super) fn scale(scale: f32) -> String {
    format!("Interface at {:.0} %", scale * 100.0)
}

pub(super) fn taken(setting: &str) -> String {
    format!("Taken from the settings file: {setting}")
}

pub(super) fn several_taken(count: usize) -> String {
    format!("{count} settings taken from the settings file")
}

pub(super) fn file_is(path: &Path) -> String {
    format!("The file is {}", path.display())
}
