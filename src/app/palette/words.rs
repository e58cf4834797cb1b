//! What the command palette says of its entries; names of commands are in [`crate::app::shortcuts`].

pub(super) const PRESET: &str = "Preset";
pub(super) const MODEL: &str = "Model";
pub(super) const SETTING: &str = "Setting";
pub(super) const DESKTOP: &str = "Desktop";
pub(super) const SETTINGS_OF_FILE: &str = "Use the settings of a file…";
pub(super) const ADD_TO_MENU: &str = "Add Safelight to the applications menu";

/// `last` is what would be taken back, such as `remove 3 jobs`.
pub(super) fn undo(last: &str) -> String {
    format!("Undo: {last}")
}
