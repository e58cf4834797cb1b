//! What the command palette and the list of shortcuts say, as whole sentences.

pub(super) const HINT: &str = "What would you like to do?";
pub(super) const SEARCH: &str = "Search commands";
pub(super) const NO_MATCHES: &str = "No matches";
pub(super) const SHORTCUTS: &str = "Keyboard shortcuts";
pub(super) const CLOSE_SHORTCUTS: &str = "Close the shortcuts";
pub(super) const CLOSE_SHORTCUTS_EXPLAINED: &str = "Back to the window (Escape)";
pub(super) const GENERAL_KEYS: &str = "Tab and Shift+Tab move between controls, Space presses a button, and the arrow keys move a slider.";

/// An entry as a screen reader says it.
pub(super) fn entry(kind: &str, name: &str, keys: &str) -> String {
    if keys.is_empty() {
        format!("{kind}: {name}")
    } else {
        format!("{kind}: {name} ({keys})")
    }
}

/// Several keys for one command.
pub(super) fn either(keys: &[String]) -> String {
    keys.join(" or ")
}
