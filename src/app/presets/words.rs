//! What is said of the file with presets, as whole sentences.

pub(super) const NEW_FILE: &str = "the presets file was damaged, and a new one was started";
pub(super) const UNCHANGED: &str = "The presets are unchanged";
pub(super) const NOT_CHANGED: &str = "the presets were not changed";
pub(super) const CORRECT_FILE: &str =
    "Correct the file, then open the preset menu. Safelight does not change the file until then";

pub(super) fn old_file(path: &str) -> String {
    format!("The old one is kept as {path}")
}

pub(super) fn saved_with(model: &str) -> String {
    format!("Saved with {model}")
}
