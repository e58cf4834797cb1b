//! What is said when the settings of a file go into the form, as whole sentences.

pub(super) const CHOOSE: &str = "Choose a picture, a clip or a JSON file with settings";
pub(super) const FILES_WITH_SETTINGS: &str = "Files with settings";
pub(super) const ALL_FILES: &str = "All files";
pub(super) const CHOOSE_ANOTHER: &str =
    "Choose a picture, a clip or a JSON file that contains settings";
pub(super) const UNNAMED_MODEL: &str = "an unnamed model";
pub(super) const ONLY_PROMPT: &str = "There is no model yet: only the prompt is used";

pub(super) const HAS_SETTINGS: &str = "It also contains its prompt and settings";
pub(super) const IS_EXTENDED: &str = "It is extended. It also contains its prompt and settings";
pub(super) const IS_START_PICTURE: &str =
    "It is in the form as a picture. It also contains its prompt and settings";
pub(super) const USE_SETTINGS: &str = "Use settings";
pub(super) const USE_SETTINGS_EXPLAINED: &str =
    "Fill the form with the prompt, the seed and the settings of this file";
pub(super) const EXTEND: &str = "Extend clip";
pub(super) const EXTEND_EXPLAINED: &str =
    "Continue this clip: new frames are added behind its last one";

pub(super) fn used(name: &str) -> String {
    format!("Settings of {name} used")
}

/// The undo history's name for it.
pub(super) fn use_settings_of(name: &str) -> String {
    format!("use the settings of {name}")
}

pub(super) fn all_used(name: &str, tool: &str) -> String {
    format!("the settings of {name} ({tool}) are in the form")
}

pub(super) fn some_used(name: &str, tool: &str) -> String {
    format!("not all settings of {name} ({tool}) could be used")
}

pub(super) fn made_with(name: &str, tool: &str) -> String {
    format!("{name} was made with {tool}")
}

pub(super) fn no_model_of_family(wanted: &str, kept: &str) -> String {
    format!(
        "It was made with {wanted}, and no model of that family is here. {kept} stays selected, with its own steps, guidance and sampler"
    )
}

pub(super) fn model_replaced(wanted: &str, used: &str) -> String {
    format!("It was made with {wanted}, which is not here. {used} is used instead")
}

pub(super) fn missing_loras(names: &str) -> String {
    format!("These LoRAs were not found: {names}")
}
