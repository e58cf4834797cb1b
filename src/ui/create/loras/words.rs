//! The words of the LoRAs, chosen ones and those to choose from, as whole sentences, so that they can be translated.
//!
//! Nothing is drawn here.

use safelight_core::lora::Coverage;

pub(super) const LORAS: &str = "LoRAs";
pub(super) const LORAS_HOVER: &str = "Small files that teach the model a style, a person or a movement. Drop one onto the window, or choose from those on this machine";
pub(super) const ADD: &str = "Add LoRA";
pub(super) const ON_HOVER: &str = "Switched off it stays here and is not used";
pub(super) const REMOVE_HOVER: &str = "Remove it from the form. The file stays";
pub(super) const STRENGTH: &str = "Strength";
pub(super) const STRENGTH_HOVER: &str =
    "How strongly it acts: 1 as trained, 0 not at all, below 0 the opposite";
pub(super) const HIGH_NOISE: &str = "High noise";
pub(super) const HIGH_NOISE_HOVER: &str =
    "How strongly it acts on the expert for composition and motion";
pub(super) const LOW_NOISE: &str = "Low noise";
pub(super) const LOW_NOISE_HOVER: &str =
    "How strongly it acts on the expert for details. It follows the other until you set it";
pub(super) const WORD_HOVER: &str =
    "It was trained on this word. Click to write it into the prompt";
pub(super) const SHELF: &str = "Add a LoRA";
pub(super) const SEARCH: &str = "Search LoRAs";
pub(super) const ONLY_HOVER: &str = "LoRAs for other models are grey and say why they do not fit";
pub(super) const LOOKING: &str = "Looking…";
pub(super) const LOOKING_MORE: &str = "Looking for more…";
pub(super) const NONE: &str = "No LoRA files were found where ComfyUI and other programs keep them, nor in your own model folders (see Settings)";
pub(super) const NO_MATCHES: &str = "No matches";
pub(super) const DONE: &str = "Done";
pub(super) const FROM_FILE: &str = "From a file…";
pub(super) const PICK: &str = "LoRA from a file";
pub(super) const PICK_HOVER: &str = "A LoRA from any folder";
pub(super) const LOOK_AGAIN: &str = "Look again";
pub(super) const LOOK: &str = "Look for LoRAs again";
pub(super) const LOOK_HOVER: &str = "Search the folders again";
pub(super) const GONE: &str = "The file is gone";

/// The button that sets what a LoRA of few steps was made for.
pub(super) fn set_preset(preset: &str) -> String {
    format!("Use the preset {preset}")
}

pub(super) fn set_preset_hover(values: &str) -> String {
    format!("This LoRA was made for few steps. Set what its authors say: {values}")
}

pub(super) fn only_for(model: Option<&str>) -> String {
    match model {
        Some(model) => format!("Only those for {model}"),
        None => "Only those for the model".to_owned(),
    }
}

pub(super) fn use_name(lora: &str) -> String {
    format!("Use {lora}")
}

pub(super) fn remove_name(lora: &str) -> String {
    format!("Remove {lora}")
}

pub(super) fn strength_name(lora: &str) -> String {
    format!("Strength of {lora}")
}

pub(super) fn high_noise_name(lora: &str) -> String {
    format!("Strength of {lora}, high noise")
}

pub(super) fn low_noise_name(lora: &str) -> String {
    format!("Strength of {lora}, low noise")
}

pub(super) fn insert_word(word: &str) -> String {
    format!("Insert word: {word}")
}

pub(super) fn base_model(base: &str) -> String {
    format!("Base model: {base}")
}

/// What the last job with a LoRA said of its file.
pub(super) fn used(coverage: &Coverage) -> String {
    format!("{} of {} keys used", coverage.applied, coverage.total)
}

/// What a file promises where that is little.
pub(super) fn promised(coverage: &Coverage) -> String {
    let (applied, total) = (coverage.applied, coverage.total);
    format!("Only {applied} of {total} keys fit this model")
}

pub(super) fn rank(rank: impl std::fmt::Display) -> String {
    format!("rank {rank}")
}

pub(super) fn expert(expert: impl std::fmt::Display) -> String {
    format!("{expert} expert")
}
