//! The words of presets and of their menu, as whole sentences, so that they can be translated.

pub(super) const PRESET: &str = "Preset";
pub(super) const PRESET_HOVER: &str =
    "Values that go together: steps, guidance, size and more at once";
pub(super) const PRESET_RESET: &str = "Reset";
pub(super) const PRESET_RESET_HOVER: &str = "Back to the values before the preset";
pub(super) const PRESET_MENU: &str = "Preset menu";
pub(super) const PRESET_MENU_HOVER: &str =
    "Save these settings as a preset of your own, or load them from a file";
pub(super) const FROM_FILE: &str = "From a file…";
pub(super) const FROM_FILE_HOVER: &str =
    "Use the settings stored in a picture, a clip or a JSON file, made here or by another program";
pub(super) const PRESET_NAME: &str = "Preset name";
pub(super) const PRESET_NAME_HINT: &str = "A name for these settings";
pub(super) const PRESET_NAME_HOVER: &str = "Saves size, length, steps, guidance and the like; not the prompts, the pictures, the LoRAs and the seed. A preset of the same name is replaced";
pub(super) const SAVE: &str = "Save";
pub(super) const SAVE_PRESET: &str = "Save preset";
pub(super) const SAVE_HOVER: &str = "Save these settings under this name";
pub(super) const RENAME: &str = "Rename";
pub(super) const NEW_PRESET_NAME: &str = "New preset name";
pub(super) const NEW_NAME_HOVER: &str = "The preset's new name";
pub(super) const RENAME_DONE_HOVER: &str = "Use this name";
pub(super) const DELETE_HOVER: &str = "Delete this preset";
pub(super) const RENAME_HOVER: &str = "Rename this preset";
pub(super) const UPDATE_HOVER: &str = "Replace its values with those of the form";

pub(super) fn preset_sets(note: &str, values: &str) -> String {
    if note.is_empty() {
        format!("Sets {values}")
    } else {
        format!("{note}\nSets {values}")
    }
}

pub(super) fn delete(name: &str) -> String {
    format!("Delete preset {name}")
}

pub(super) fn rename(name: &str) -> String {
    format!("Rename preset {name}")
}

pub(super) fn update(name: &str) -> String {
    format!("Update preset {name}")
}
