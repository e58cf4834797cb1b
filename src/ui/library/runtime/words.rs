//! What the card on a libtorch for the GPU says.

use safelight_core::units::size_text;

use crate::runtimes::Build;

pub const DONE: &str = "The new libtorch is installed. The next job uses it";
pub const IDLE_HOVER: &str = "See how jobs get onto this GPU";
pub const GET: &str = "Get it";
pub const GET_HOVER: &str =
    "Download it, try whether it computes right, and use it. The one in use stays on the disk";
pub const USE: &str = "Use it";
pub const USE_HOVER: &str =
    "Try whether it computes right, and use it. The one in use stays on the disk";
pub const TRIED: &str =
    "It is tried in a process of its own before jobs get it. The one in use stays on the disk.";
pub const NEVER_ON_AMD: &str = "Safelight has not yet run on any AMD GPU.";
pub const ASKING: &str = "Asking for sizes…";
pub const UNPACKING: &str = "Unpacking…";
pub const TRYING: &str = "Trying whether it computes right…";
pub const STOP: &str = "Stop the download";
pub const STOP_HOVER: &str = "What was downloaded is kept for the next time";
pub const STOPPING: &str = "Stopping…";
pub const COPY: &str = "Copy the command that helps";
pub const COPY_HOVER: &str = "Copy this command, and run it in a terminal";

pub fn on_cpu(gpu: &str) -> String {
    format!("{gpu}: Safelight runs on the CPU")
}

pub fn idle(gpu: &str) -> String {
    format!("{gpu} is not used")
}

pub fn get(build: &Build, folder: &str) -> String {
    format!(
        "{} serves it: about {} to download, under the licences of its makers, into {folder}.",
        build.name,
        size_text(build.download_mb * 1_000_000)
    )
}

pub fn here(id: &str) -> String {
    format!("The libtorch “{id}” on this disk serves it.")
}

pub fn fetching(done: u64, total: u64) -> String {
    format!("{} of {}", size_text(done), size_text(total))
}
