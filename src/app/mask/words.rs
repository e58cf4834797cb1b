//! What the painting of masks says on cards and in the status line, as whole sentences.

use std::path::Path;

pub(super) const IN_PLACE: &str = "The mask is in the form";
pub(super) const NO_FOLDER: &str = "there is no folder to save a mask in";
pub(super) const NO_MODEL: &str = "choose a model first, which says what sizes can be made";
pub(super) const CHOOSE_AGAIN: &str = "Choose the picture or the mask again";

pub(super) fn make_room(folder: &Path) -> String {
    format!(
        "What you painted is still here. Free some space or make this folder writable, then use the mask again: {}",
        folder.display()
    )
}
