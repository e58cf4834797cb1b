//! What playing, saving and comparing say: on cards, in the status line and in the list of differences.

use std::fmt::Display;
use std::path::Path;

pub(super) const PATH_COPIED: &str = "Path copied";
pub(super) const READABLE_FILES: &str = "Safelight plays PNG, JPEG, WebP, GIF, BMP and TIFF pictures, with ffmpeg also AVIF and HEIC, and MP4, MOV and WebM clips";
pub(super) const START_READING: &str = "start reading";
pub(super) const READER_FAILED: &str = "its reader failed";
pub(super) const WATCH_BEFORE_DAMAGE: &str = "What comes before the damage can be watched";

pub(super) const PLAY_ONCE: &str = "Play once";
pub(super) const LOOP: &str = "Loop";
pub(super) const BACK_AND_FORTH: &str = "Back and forth";

pub(super) const FRAME_NOT_SAVED: &str = "the frame was not saved";
pub(super) const SAVE_AGAIN: &str = "Free some space, then save the frame again";
pub(super) const COPY_INSTEAD: &str = "Copy the frame instead, and paste it into another program";

pub(super) fn frame_copied(number: impl Display) -> String {
    format!("Frame {number} copied")
}

pub(super) fn frame_saved(number: impl Display, name: &str) -> String {
    format!("frame {number} is saved as {name}")
}

pub(super) fn in_folder(folder: &Path) -> String {
    format!("In the folder {}", folder.display())
}

pub(super) fn frame_saved_at(number: impl Display, path: &Path) -> String {
    format!("Frame {number} saved: {}", path.display())
}

// What differs between two results.
pub(super) const UNKNOWN_SETTINGS: &str = "settings unknown";
pub(super) const SAME_SETTINGS: &str = "same settings";
pub(super) const UNKNOWN_SIZE: &str = "unknown size";

/// A setting: its key in files, its name, and what is said where a result has none of its own.
pub(super) struct Setting {
    pub key: &'static str,
    pub name: &'static str,
    pub none: &'static str,
}

const fn setting(key: &'static str, name: &'static str, none: &'static str) -> Setting {
    Setting { key, name, none }
}

/// What is compared, in the order in which it is told.
pub(super) const SETTINGS: [Setting; 27] = [
    setting("model", "model", "unknown model"),
    setting("seed", "seed", "unknown seed"),
    setting("num_steps", "steps", "default steps"),
    setting("guidance_scale", "guidance", "default guidance"),
    setting("true_cfg_scale", "CFG scale", "CFG off"),
    setting("guider", "guider", "plain guidance"),
    setting("guidance_range", "guided part", "guided in all steps"),
    setting("guidance_scale_2", "low-noise guidance", "one guidance"),
    setting("sampler", "sampler", "default sampler"),
    setting("sigma_schedule", "schedule", "default schedule"),
    setting("shift", "shift", "automatic shift"),
    setting("strength", "strength", "default strength"),
    setting("start_step", "from step", "from the first step"),
    setting("end_step", "to step", "to the last step"),
    setting("step_cache", "step cache", "no step cache"),
    setting("loras", "LoRAs", "no LoRAs"),
    setting("num_frames", "frames", "default length"),
    setting("fps", "fps", "default fps"),
    setting("image", "start picture", "no start picture"),
    setting("last_image", "end picture", "no end picture"),
    setting("mask", "mask", "no mask"),
    setting("references", "reference pictures", "no reference pictures"),
    setting("controls", "control pictures", "no control pictures"),
    setting("extend", "extends", "extends no clip"),
    setting("vae_tile", "decoded in tiles of", "decoded without tiles"),
    setting("negative_prompt", "negative prompt", "no negative prompt"),
    setting("prompt", "prompt", "no prompt"),
];

pub(super) fn value(name: &str, value: &str) -> String {
    format!("{name} {value}")
}

/// Words that somebody wrote.
pub(super) fn quoted(name: &str, text: &str) -> String {
    format!("{name} “{text}”")
}

pub(super) fn lora(name: &str, strength: &str) -> String {
    format!("{name} at {strength}")
}
