//! What the first page and the page of models say.
//!
//! Whole sentences, so that they can be translated one by one.

use safelight_core::memory::DeviceClass;
use safelight_core::model::ModelSpec;
use safelight_core::units::{about_rough_text, gib_text, seconds_text, size_text};

use crate::app::library::survey::{Fit, FitWord, Machine};

pub const TITLE: &str = "Models";
pub const CLOSE: &str = "Close the models";
pub const BACK: &str = "Back to the picture (Escape)";
pub const LOOK_AGAIN: &str = "Look again";
pub const LOOK_AGAIN_HOVER: &str = "Look for models again (F5)";
pub const FIRST_STEPS: &str = "First steps";
pub const FIRST_STEPS_HOVER: &str = "What was found, what this machine can run, what to download";
pub const ADD_FOLDER: &str = "Add a folder…";
pub const ADD_FOLDER_NAME: &str = "Add a models folder";
pub const ADD_FOLDER_HOVER: &str =
    "Also look for models in another folder, or in another program's. Nothing is copied or moved";
pub const SEARCH: &str = "Search models";
pub const SEARCH_HINT: &str = "Search by name, kind, folder…";
pub const SEARCH_HOVER: &str = "All words must match. Arrows select, Enter uses, Escape goes back";
pub const LOOKING: &str = "Looking for models…";
pub const NONE: &str = "No models found, and none are known";
pub const NO_MATCHES: &str = "No matches";
pub const SHOW_ALL: &str = "Show all";
pub const SHOW_ALL_HOVER: &str = "Clear the search";
pub const INCOMPLETE: &str = "incomplete";
pub const BROKEN: &str = "cannot be used";
pub const UNSUPPORTED: &str = "not supported";
pub const NOTHING_CHOSEN: &str = "Choose a model in the list to see what it is";

pub const GO_ON: &str = "Continue with this model";
pub const USE: &str = "Use this model";
pub const USE_HOVER: &str = "Fills in its default size and steps; your prompt stays (Enter)";
pub const FAVOURITE: &str = "Favourite";
pub const FAVOURITE_ON: &str = "Listed first; press to stop that";
pub const FAVOURITE_OFF: &str = "List it first";
pub const WAYS: &str = "What makes it fit:";
pub const KIND: &str = "Kind";
pub const MAKES: &str = "Makes";
pub const DEFAULTS: &str = "Defaults";
pub const ON_DISK: &str = "On disk";
pub const LICENCE: &str = "Licence";
pub const FOLDER: &str = "Folder";
pub const NO_LICENCE: &str = "not stated";
pub const NON_COMMERCIAL: &str = "Its licence does not allow commercial use";
pub const TWO_EXPERTS: &str = "It has two transformers: one for high noise, then one for low noise";
pub const COPY_PATH: &str = "Copy path";
pub const COPY_PATH_HOVER: &str = "Copy the path to the clipboard";
pub const SHOW_FOLDER: &str = "Show folder";
pub const SHOW_FOLDER_HOVER: &str = "Open it in the file manager";
pub const NEEDS: &str = "It needs";
pub const GET_MISSING: &str = "Download what is missing…";
pub const ASKS_FIRST: &str =
    "Shows the files, their sizes and where they go. Nothing is downloaded before you agree";
pub const ANOTHER_FIRST: &str =
    "Another model is being downloaded. This one can be downloaded after it";
pub const SHOW_FILES: &str = "Show its files…";
pub const SHOW_FILES_HOVER: &str = "What would be downloaded, how large it is, and where it goes";

pub const WELCOME: &str = "Welcome to Safelight";
pub const WELCOME_TEXT: &str =
    "Pictures and clips, made on your own computer. Nothing you make or write leaves it.";
pub const SKIP: &str = "Skip the first steps";
pub const SKIP_HOVER: &str = "You find this page again under “First steps” among the models";
pub const FIRST_PICTURE: &str = "Make your first picture";
pub const FIRST_CLIP: &str = "Make your first clip";
pub const NEEDS_LIBTORCH: &str = "First, libtorch is needed: see below";
pub const NEEDS_MODEL: &str =
    "First, a model is needed: download one, or add a folder that has one";
pub const NEEDS_PICTURE: &str = "Your models need a start picture: drop one on the window";
pub const COPY_COMMAND: &str = "Copy the command";
pub const COPY_COMMAND_HOVER: &str = "Copy this command, and run it in a terminal";
pub const CHOOSE_LIBTORCH: &str = "Choose a libtorch folder…";
pub const CHOOSE_LIBTORCH_NAME: &str = "Choose a libtorch folder";
pub const CHOOSE_LIBTORCH_HOVER: &str =
    "A folder with libtorch 2.11.0 or 2.13.0, or the torch folder of a Python environment";
pub const DOCTOR: &str = "Check this machine";
pub const DOCTOR_HOVER: &str = "The doctor examines this machine in detail";
pub const MACHINE: &str = "This machine";
pub const LOOKING_AT_MACHINE: &str = "Looking…";
pub const TIMES: &str = "Times are for one result at the model's default size and length, and rough before the first one";
pub const SEE_ALL: &str = "See all models";
pub const SEE_ALL_HOVER: &str = "All models, with what they are and whether they fit";
pub const FOUND: &str = "Found on this disk";
pub const LOOKED_IN: &str = "Searched folders";
pub const OFFERS: &str = "Models to download";
pub const DOWNLOAD: &str = "Download…";

/// A part of a model, by its name in files.
pub fn part(name: &str) -> &'static str {
    match name {
        "transformer" => "transformer",
        "transformer_2" => "transformer for low noise",
        "vae" => "VAE",
        "text_encoder" => "text encoder",
        "text_encoder_2" => "second text encoder",
        _ => "image encoder",
    }
}

pub fn makes(spec: &ModelSpec, needs: &str) -> String {
    if spec.family.makes_pictures {
        format!("pictures from {needs}")
    } else {
        format!("clips from {needs}")
    }
}

/// `832 × 480, 5.1 s at 16 fps, 30 steps`.
pub fn defaults(spec: &ModelSpec) -> String {
    let defaults = &spec.defaults;
    let (width, height) = (defaults.width, defaults.height);
    let (steps, fps) = (defaults.sampling.num_steps, defaults.fps);
    if spec.family.makes_pictures {
        return format!("{width} × {height}, {steps} steps");
    }
    let secs = seconds_text(f64::from(defaults.num_frames) / fps.max(f64::EPSILON));
    format!("{width} × {height}, {secs} at {fps} fps, {steps} steps")
}

/// Whether a model fits, with the time of one result where that is known: `fits · about 14 h`.
pub fn fit(fit: &Fit) -> String {
    match (fit.word, fit.secs.map(about_rough_text)) {
        (FitWord::Fits, Some(time)) => format!("fits · {time}"),
        (FitWord::Fits, None) => "fits".to_owned(),
        (FitWord::Squeezed, Some(time)) => format!("just fits · {time}"),
        (FitWord::Squeezed, None) => "just fits".to_owned(),
        (FitWord::TooLarge, _) if !fit.ways.is_empty() => "too large at its defaults".to_owned(),
        (FitWord::TooLarge, _) => "too large".to_owned(),
        (FitWord::Unknown, _) => String::new(),
    }
}

/// All that is known of it, a line each.
pub fn fit_hover(fit: &Fit) -> String {
    let mut lines = vec![fit.text.clone()];
    if !fit.ways.is_empty() {
        lines.push(WAYS.to_owned());
        lines.extend(fit.ways.iter().map(|way| self::way(way)));
    }
    lines.join("\n")
}

pub fn way(way: &str) -> String {
    format!("• {way}")
}

pub fn result_time(secs: u64, makes_pictures: bool) -> String {
    let time = about_rough_text(secs);
    if makes_pictures {
        format!("A picture takes {time}")
    } else {
        format!("A clip takes {time}")
    }
}

pub fn one_size(width: u32, height: u32) -> String {
    format!("It makes one size only: {width} × {height}")
}

pub fn copy_path_of(part: &str) -> String {
    format!("Copy the path of the {part}")
}

pub fn get(example: &str) -> String {
    format!("Get {example}")
}

pub fn no_room(needs: u64, free: u64) -> String {
    format!(
        "It takes about {} on the disk, and {} are free",
        size_text(needs),
        size_text(free)
    )
}

pub fn first_with(model: &str, prompt: Option<&str>) -> String {
    match prompt {
        Some(prompt) => format!("With {model}: “{prompt}”"),
        None => format!("With {model}"),
    }
}

pub fn not_writable(folder: &str) -> String {
    format!(
        "This folder cannot be written to, so models cannot be downloaded and settings are not kept: {folder}"
    )
}

/// `has_idle_gpu`: there is one that jobs do not use yet.
pub fn device(machine: &Machine, has_idle_gpu: bool) -> String {
    let facts = &machine.device.facts;
    let memory = gib_text(facts.total_bytes);
    let name = &machine.device.name;
    match facts.class {
        DeviceClass::Unified => {
            format!("{name}, which shares {memory} GiB of memory with the processor.")
        }
        DeviceClass::Discrete => {
            format!("{name}, a graphics card with {memory} GiB of its own memory.")
        }
        // The card above says what to do about it.
        DeviceClass::Cpu if has_idle_gpu => {
            format!("Running on the CPU, which is slow, with {memory} GiB of memory.")
        }
        DeviceClass::Cpu => format!(
            "No supported GPU found. Running on the CPU, which is slow, with {memory} GiB of memory."
        ),
    }
}

pub fn disk(free: u64) -> String {
    format!("{} are free on the disk for models.", size_text(free))
}

pub fn usable(count: usize) -> String {
    match count {
        0 => "No usable model".to_owned(),
        1 => "1 usable model".to_owned(),
        count => format!("{count} usable models"),
    }
}

pub fn unusable(count: usize) -> String {
    match count {
        1 => "1 more lacks a file or is of another kind. The list of models says what it needs"
            .to_owned(),
        count => format!(
            "{count} more lack files or are of other kinds. The list of models says what each needs"
        ),
    }
}

pub fn download(model: &str) -> String {
    format!("Download {model}")
}
