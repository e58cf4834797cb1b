//! What can be done with a result, in words: names, explanations, and why something cannot be done.

pub const PLAY: &str = "Play";
pub const SHOW: &str = "Show";
pub const PLAY_MORE: &str = "Show it large";
pub const USE_SETTINGS: &str = "Use settings";
pub const USE_SETTINGS_MORE: &str = "Put its prompt, seed and settings into the form";
pub const EXTEND: &str = "Extend clip";
pub const EXTEND_MORE: &str = "Continue this clip: new frames are added behind its last one";
pub const CHANGE: &str = "Change clip";
pub const CHANGE_MORE: &str = "Make the next clip from this one, as far as the strength says";
pub const USE_AS_START: &str = "Use as start picture";
pub const USE_AS_START_MORE: &str = "Make the next result from this picture";
pub const USE_AS_END: &str = "Use as end picture";
pub const USE_AS_END_MORE: &str = "The next clip ends on this picture";
pub const USE_AS_MASK: &str = "Use as mask";
pub const USE_AS_MASK_MORE: &str = "White is regenerated, black stays";
pub const USE_AS_REFERENCE: &str = "Use as reference";
pub const USE_AS_REFERENCE_MORE: &str = "The model sees this picture beside the next prompt";
pub const USE_AS_CONTROL: &str = "Use as control picture";
pub const USE_AS_CONTROL_MORE: &str = "The next result follows this picture";
pub const USE_AS_CONTROL_CLIP: &str = "Use as control clip";
pub const USE_AS_CONTROL_CLIP_MORE: &str = "The next clip follows this one, frame by frame";
pub const USE_AS_PROMPT: &str = "Use as prompt";
pub const USE_AS_PROMPT_MORE: &str =
    "The next result takes its look and its things from this picture, beside the prompt's words";
pub const UPSCALE_2: &str = "Upscale ×2";
pub const UPSCALE_4: &str = "Upscale ×4";
pub const UPSCALE_2_MORE: &str =
    "Make it twice as wide and high with the chosen upscaler, as a job of the queue";
pub const UPSCALE_4_MORE: &str =
    "Make it four times as wide and high with the chosen upscaler, as a job of the queue";
pub const DOUBLE_FRAMES: &str = "Double frames";
pub const DOUBLE_FRAMES_MORE: &str = "RIFE makes a frame between every two: twice as many a second, and the clip stays as long as it is";
pub const FRAMES_4: &str = "Frames ×4";
pub const FRAMES_4_MORE: &str = "RIFE makes three frames between every two: four times as many a second, and the clip stays as long as it is";
pub const TO_A_RATE: &str = "Frames to a rate";
pub const TO_A_RATE_MORE: &str = "RIFE makes the frames that are missing for so many a second, and the clip stays as long as it is";
pub const HAS_RATE: &str = "The clip has as many frames a second already";
pub const INTERPOLATOR_MORE: &str =
    "Which of the RIFE networks that were found makes frames between frames from now on";
pub const UPSCALER_MORE: &str = "Which of the networks that were found upscales from now on";
pub const COMPARE: &str = "Compare";
pub const COMPARE_MORE: &str = "Show both beside each other";
pub const COMPARE_WITH_SHOWN: &str = "Compare with what is shown";
pub const COMPARE_WITH_SHOWN_MORE: &str = "Show both beside each other (Ctrl-click)";
pub const FAVOURITE: &str = "Favourite";
pub const FAVOURITE_MORE: &str = "Mark it with a star, to find it again (F in the gallery)";
pub const NOT_A_FAVOURITE: &str = "Not a favourite";
pub const NOT_A_FAVOURITE_MORE: &str = "Take the star away (F in the gallery)";
pub const OPEN_FOLDER: &str = "Open folder";
pub const OPEN_FOLDER_MORE: &str = "Show the file in the file manager";
pub const COPY_PATH: &str = "Copy path";
pub const COPY_PATH_MORE: &str = "Put the file's path on the clipboard";
pub const DELETE_MORE: &str = "Move it to the trash. Undo brings it back (Delete)";

pub const UNREADABLE: &str = "The file cannot be read";
pub const NO_SETTINGS: &str = "The file does not contain its settings";
pub const NO_START: &str = "The selected model cannot start from a picture";
pub const MAKES_PICTURES: &str = "The selected model makes pictures and cannot extend a clip";

pub fn delete(num_files: usize) -> String {
    match num_files {
        0 | 1 => "Delete".to_owned(),
        more => format!("Delete all {more} pictures"),
    }
}

/// `name`: of the network that is used.
pub fn upscaler(name: &str) -> String {
    format!("Upscaler: {name}")
}

/// `name`: of the network that is used.
pub fn interpolator(name: &str) -> String {
    format!("RIFE: {name}")
}

pub fn rate(fps: u32) -> String {
    format!("{fps} frames a second")
}

/// Below the pointer that drags a result.
pub fn dragged(name: &str) -> String {
    format!("Drop {name} on a picture in the form")
}
