//! What the page of downloads, its badge and the card of one say.
//!
//! Whole sentences, so that they can be translated one by one.

use safelight_core::units::{duration_text, size_text};

use crate::download::{Phase, Progress};

pub const TITLE: &str = "Downloads";
pub const CLOSE_PAGE: &str = "Close the downloads";
pub const BACK: &str = "Back to the picture (Escape)";
pub const NONE: &str = "Nothing is being downloaded.";
pub const SEE_MODELS: &str = "See all models";
pub const SEE_MODELS_HOVER: &str = "Models that can be downloaded, and whether they fit";
pub const STOPPED: &str = "Paused or failed";
pub const DOWNLOADED: &str = "Downloaded since Safelight was opened";

pub const DOWNLOAD: &str = "Download…";
pub const DOWNLOAD_HOVER: &str = "Asks the server for the sizes first";
pub const DOWNLOAD_NOW: &str = "Download now";
pub const CANCEL: &str = "Cancel";
pub const CLOSE: &str = "Close";
pub const PAUSE: &str = "Pause";
pub const CONTINUE: &str = "Continue";
pub const TRY_AGAIN: &str = "Try again";
pub const KEPT: &str = "What has been downloaded is kept, and is not downloaded again";
pub const ASKING: &str = "Asking the server for sizes…";
pub const STARTING: &str = "Starting…";
pub const PAUSING: &str = "Pausing…";
pub const PAUSED: &str = "Paused";
pub const PROGRESS: &str = "Download progress";
pub const ALL_HERE: &str = "All files are here. What is wrong is said below";

pub fn licence(licence: &str) -> String {
    format!("Licence: {licence}")
}

pub fn folder(path: &str) -> String {
    format!("Goes into {path}")
}

pub fn file_here(part: &str, name: &str) -> String {
    format!("{part}: {name}, already on this disk")
}

pub fn file_of_size(part: &str, name: &str, bytes: u64) -> String {
    format!("{part}: {name}, {}", size_text(bytes))
}

pub fn file_of_unknown_size(part: &str, name: &str) -> String {
    format!("{part}: {name}, size not known yet")
}

pub fn from_repository(repository: &str) -> String {
    format!("From {repository} on huggingface.co")
}

pub fn bytes_to_download(bytes: u64) -> String {
    format!("{} to download", size_text(bytes))
}

pub fn files_to_download(count: usize) -> String {
    match count {
        1 => "1 file to download".to_owned(),
        count => format!("{count} files to download"),
    }
}

pub fn question(bytes: u64, folder: &str, free: Option<u64>) -> String {
    let bytes = size_text(bytes);
    match free {
        Some(free) => format!(
            "Download {bytes} into {folder}? {} are free there.",
            size_text(free)
        ),
        None => format!("Download {bytes} into {folder}?"),
    }
}

pub fn running(progress: &Progress) -> String {
    let Progress { phase, name, .. } = progress;
    let amount = amount(progress);
    match (phase, progress.secs_left()) {
        (Phase::Asking, _) => format!("Asking for {name}"),
        (Phase::Checking, _) => format!("Checking {name}"),
        (Phase::Fetching, None) => {
            format!("Downloading {name}: {amount}, waiting for the server")
        }
        (Phase::Fetching, Some(secs)) => {
            let speed = size_text(progress.bytes_per_sec as u64);
            let left = duration_text(secs);
            format!("Downloading {name}: {amount}, {speed}/s, {left} left")
        }
    }
}

pub fn paused(progress: &Progress) -> String {
    format!("Paused at {}", amount(progress))
}

/// `4 MiB of 6 MiB`
fn amount(progress: &Progress) -> String {
    let (done, total) = (progress.done_bytes, progress.total_bytes);
    format!("{} of {}", size_text(done), size_text(total))
}

/// Behind the button in the header.
pub fn header(percent: Option<u32>, num_stopped: usize) -> String {
    match (percent, num_stopped) {
        (Some(percent), _) => format!("A model is being downloaded: {percent} %"),
        (None, 0) => "Models that are being downloaded".to_owned(),
        (None, 1) => "1 download was paused or has failed".to_owned(),
        (None, count) => format!("{count} downloads were paused or have failed"),
    }
}

pub fn percent(percent: u32) -> String {
    format!("{percent}%")
}
