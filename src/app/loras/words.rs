//! What is said of LoRA files on cards and in the status line, as whole sentences.
//!
//! What their panel says is in `ui/create/loras/words.rs`.

use std::path::Path;

pub(super) const CHOOSE: &str = "Choose LoRA files";
pub(super) const NO_FILE: &str = "there is no such file";
pub(super) const CHOOSE_MODEL: &str = "Choose a model, then add the LoRA again";

pub(super) fn file_gone(name: &str) -> String {
    format!("the file of the LoRA {name} is gone")
}

pub(super) fn its_file_gone(path: &Path) -> String {
    format!("its file is gone: {}", path.display())
}

pub(super) fn file_is(path: &Path) -> String {
    format!("The file is {}", path.display())
}

pub(super) fn added(name: &str) -> String {
    format!("Added the LoRA {name}")
}

pub(super) fn no_model(path: &Path) -> String {
    format!(
        "a LoRA needs a model, and none is selected: {}",
        path.display()
    )
}
