//! What the card on a libtorch for the GPU and the section of the settings say.

use safelight_core::units::size_text;

use crate::runtimes::{Build, Kind};

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
pub const COMPARING: &str = "Looking which files are damaged…";
pub const TRYING: &str = "Trying whether it computes right…";
pub const STOP: &str = "Cancel";
pub const STOP_HOVER: &str = "What was downloaded is kept for the next time";
pub const STOPPING: &str = "Stopping…";
pub const ALL: &str = "All runtimes";
pub const ALL_HOVER: &str = "See in the settings what is on this disk and what fits this machine";
/// The searches that find the section.
pub const MEANT: &str = "runtimes libtorch gpu rocm cuda cpu device engine install use check repair delete remove go back";
pub const TITLE: &str = "Runtimes";
pub const ABOUT: &str = "A runtime is a folder with libtorch, which computes the jobs.";
pub const LOOKING: &str = "Looking at this machine…";
pub const NONE: &str = "No runtime was found.";
pub const OFFERS: &str = "For this machine";
pub const IN_USE: &str = "in use";
pub const BEFORE: &str = "used before";
pub const NO_GPU: &str = "No GPU was found: jobs run on the CPU.";
pub const CHECK: &str = "Check";
pub const CHECK_HOVER: &str = "Compare its files with those that were installed, and a matrix product, a convolution and attention with the CPU, in a process of its own";
pub const REPAIR: &str = "Repair";
pub const REPAIR_HOVER: &str =
    "Download the files that are missing or damaged, try whether it computes right, and use it";
pub const REMOVE: &str = "Delete…";
pub const REMOVE_HOVER: &str = "Delete its folder. Another runtime is used";
pub const IS_KEPT: &str =
    "Kept until a job has finished on the runtime in use, so that you can go back to it";
pub const KEEP: &str = "Keep it";
pub const KEEP_HOVER: &str = "Delete nothing";
pub const REMOVE_NOW: &str = "Delete it";
pub const REMOVE_NOW_HOVER: &str = "It can be installed again";
pub const BACK_HOVER: &str =
    "Try the runtime that jobs used before the one in use, and use it again";
pub const INSTALL: &str = "Install";
pub const COPY: &str = "Copy the command that helps";
pub const COPY_HOVER: &str = "Copy this command, and run it in a terminal";

pub fn on_cpu(gpu: &str) -> String {
    format!("{gpu}: Safelight runs on the CPU")
}

pub fn idle(gpu: &str) -> String {
    format!("{gpu} is not used")
}

pub fn get(build: &Build, folder: &str) -> String {
    let (name, licences) = (&build.name, &build.licences);
    let size = size_text(build.download_mb * 1_000_000);
    format!("{name} serves it: about {size} to download into {folder}. Licences: {licences}.")
}

pub fn here(id: &str) -> String {
    format!("The libtorch “{id}” on this disk serves it.")
}

pub fn fetching(done: u64, total: u64) -> String {
    format!("{} of {}", size_text(done), size_text(total))
}

/// What a row says of a libtorch: for what, which, for which chips, how large.
pub fn facts(kind: Kind, version: Option<&str>, targets: &[String], bytes: u64) -> String {
    let kind = match kind {
        Kind::Cpu => "CPU",
        Kind::Cuda => "CUDA",
        Kind::Rocm => "ROCm",
    };
    let version = version.unwrap_or("version unknown");
    let mut facts = vec![kind.to_owned(), format!("libtorch {version}")];
    if !targets.is_empty() {
        facts.push(targets.join(" "));
    }
    facts.push(size_text(bytes));
    facts.join(" · ")
}

pub fn computed_on(device: &str) -> String {
    format!("When it was last checked it computed on {device}")
}

pub fn offer(build: &Build) -> String {
    let size = size_text(build.download_mb * 1_000_000);
    format!("About {size} to download. Licences: {}.", build.licences)
}

pub fn remove_question(id: &str, bytes: u64) -> String {
    format!("Delete {id} and free {}?", size_text(bytes))
}

pub fn go_back(id: &str) -> String {
    format!("Go back to {id}")
}

pub fn use_named(id: &str) -> String {
    format!("Use {id}")
}

pub fn check_named(id: &str) -> String {
    format!("Check {id}")
}

pub fn repair_named(id: &str) -> String {
    format!("Repair {id}")
}

pub fn remove_named(id: &str) -> String {
    format!("Delete {id}")
}

pub fn install_named(name: &str) -> String {
    format!("Install {name}")
}

pub fn checked(id: &str) -> String {
    format!("The check passed: {id} computes right.")
}

pub fn removed(id: &str) -> String {
    format!("Deleted: {id}.")
}
