//! Source of a libtorch: the index of its build, a mirror, or local files.
//!
//! Looks at names only.

use std::path::{Path, PathBuf};

use safelight_core::job::JobError;
use safelight_core::settings::{LibtorchRuntime, RuntimeSettings};
use safelight_core::uri::is_address;
use safelight_wheels::{is_wheel, of_folder};

/// Source of wheels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WheelSource {
    /// The build's own index.
    Index,
    /// Another one, which lists the same packages.
    Mirror(String),
    /// A folder of wheels on this machine.
    Folder(PathBuf),
    /// A libtorch on this machine, such as that of a Python environment.
    Torch(LibtorchRuntime),
}

impl WheelSource {
    /// Value of `--from`: an address, a folder of wheels, or a libtorch.
    pub fn parse(from: &str) -> Result<Self, JobError> {
        let refuse = |what: String, advice: &str| Err(JobError::invalid(what).advise(advice));
        if from.contains("://") {
            return if is_address(from) {
                Ok(Self::Mirror(from.to_owned()))
            } else {
                let what = format!("libtorch is not taken from there: {from}");
                refuse(what, "Give an address that begins with https://")
            };
        }
        let folder = Path::new(from);
        if of_folder(folder).iter().any(|it| is_wheel(&it.name)) {
            return Ok(Self::Folder(folder.to_owned()));
        }
        if let Some(runtime) = LibtorchRuntime::in_folder(folder, "as named") {
            return Ok(Self::Torch(runtime));
        }
        let what = format!("there are neither wheels nor a libtorch: {from}");
        let advice =
            "Name a folder of wheels, a Python environment, a folder with libtorch, or an address";
        refuse(what, advice)
    }

    /// Default source: the mirror of the settings, otherwise each build's index.
    pub fn of_settings(settings: &RuntimeSettings) -> Self {
        match &settings.mirror {
            Some(mirror) => Self::Mirror(mirror.clone()),
            None => Self::Index,
        }
    }
}
