//! Table of libtorch builds with their GPUs and requirements. Ours is `runtimes.toml`; users' entries are next to the
//! settings.
//!
//! Data only. The indexes' addresses are fixed here and cannot be changed by a table.

use std::path::Path;

use safelight_core::files::{MAX_TEXT_BYTES, read_text_bounded};
use safelight_core::settings::{EngineBuild, LibtorchRuntime, engine_of};
use safelight_wheels::PYPI;
use serde::Deserialize;
use thiserror::Error;

const BUILT_IN: &str = include_str!("../../runtimes.toml");
/// The user's own, in the folder of the settings.
pub const FILE: &str = "runtimes.toml";

/// Indexes of builds by their names in tables, and the other hosts that their pages may link to.
const INDEXES: [(&str, &str, &[&str]); 5] = [
    ("amd", "https://repo.amd.com/rocm/whl-multi-arch/", &[]),
    (
        "amd-rocm10",
        "https://stable.repo.amd.com/rocm/whl-next/",
        &[],
    ),
    (
        "pytorch-rocm7.2",
        "https://download.pytorch.org/whl/rocm7.2/",
        PYTORCH,
    ),
    (
        "pytorch-cu126",
        "https://download.pytorch.org/whl/cu126/",
        PYTORCH,
    ),
    ("pypi", PYPI, &["files.pythonhosted.org"]),
];
/// Hosts of the files of PyTorch's index, and of NVIDIA's wheels that it lists.
const PYTORCH: &[&str] = &[
    "download-r2.pytorch.org",
    "files.pythonhosted.org",
    "pypi.nvidia.com",
];

/// Why a table cannot be read, and which.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file} cannot be read: {reason}")]
pub struct TableError {
    pub file: String,
    pub reason: String,
}

/// One build of libtorch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimeBuild {
    pub id: String,
    /// For people.
    pub name: String,
    pub kind: RuntimeKind,
    /// As the build says it, such as `2.11.0+rocm7.14.1`.
    pub version: String,
    /// One of `INDEXES`.
    pub index: String,
    /// Packages to take from the index.
    pub packages: Vec<String>,
    /// The chips that it has code for; empty where that is not listed.
    #[serde(default)]
    pub targets: Vec<String>,
    /// About what is fetched, in MB.
    pub download_mb: u64,
    /// Applicable licences, for people.
    #[serde(default = "of_makers")]
    pub licences: String,
    /// The oldest driver of NVIDIA.
    #[serde(default)]
    pub driver: Option<String>,
    /// The oldest Linux, unless its driver has the change backported.
    #[serde(default)]
    pub kernel: Option<String>,
}

fn of_makers() -> String {
    "those of its makers".to_owned()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeKind {
    Cpu,
    Cuda,
    Rocm,
}

impl RuntimeKind {
    const ALL: [Self; 3] = [Self::Cpu, Self::Cuda, Self::Rocm];

    /// Of a libtorch that is here, by the names of its files.
    pub fn from_runtime(runtime: &LibtorchRuntime) -> Self {
        let name = runtime.kind();
        let mut kinds = Self::ALL.into_iter();
        kinds.find(|kind| kind.name() == name).unwrap_or(Self::Cpu)
    }

    /// As people say it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cpu => "the CPU",
            Self::Cuda => "NVIDIA's GPUs (CUDA)",
            Self::Rocm => "AMD's GPUs (ROCm)",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
        }
    }
}

impl RuntimeBuild {
    /// Address of the index of its packages.
    pub fn address(&self) -> Option<&'static str> {
        Some(self.known()?.1)
    }

    /// Allowed hosts of its files, in addition to the index's.
    pub fn hosts(&self) -> &'static [&'static str] {
        self.known().map_or(&[], |(_, _, hosts)| hosts)
    }

    fn known(&self) -> Option<&'static (&'static str, &'static str, &'static [&'static str])> {
        INDEXES.iter().find(|(name, ..)| *name == self.index)
    }

    /// The engine that runs on it, where there is one.
    pub fn engine(&self) -> Option<&'static EngineBuild> {
        engine_of(&self.version)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuntimeTable {
    #[serde(default)]
    runtime: Vec<RuntimeBuild>,
}

/// Ours with the user's own before them, and why the user's cannot be read.
pub fn builds(config: &Path) -> (Vec<RuntimeBuild>, Option<TableError>) {
    let ours = parsed(BUILT_IN, FILE);
    let mut ours = ours.expect("a test reads the table that ships");
    let file = config.join(FILE);
    let text = match read_text_bounded(&file, MAX_TEXT_BYTES) {
        Ok(text) => text,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return (ours, None),
        Err(err) => {
            let (file, reason) = (file.display().to_string(), err.to_string());
            return (ours, Some(TableError { file, reason }));
        }
    };
    match parsed(&text, &file.display().to_string()) {
        Ok(mut theirs) => {
            ours.retain(|ours| theirs.iter().all(|theirs| theirs.id != ours.id));
            theirs.append(&mut ours);
            (theirs, None)
        }
        Err(err) => (ours, Some(err)),
    }
}

fn parsed(text: &str, file: &str) -> Result<Vec<RuntimeBuild>, TableError> {
    let err = |reason: String| TableError {
        file: file.to_owned(),
        reason,
    };
    let RuntimeTable { runtime } =
        toml::from_str(text).map_err(|it| err(it.message().to_owned()))?;
    for build in &runtime {
        if build.address().is_none() {
            let known: Vec<&str> = INDEXES.iter().map(|(name, ..)| *name).collect();
            let (known, index, id) = (known.join(", "), &build.index, &build.id);
            return Err(err(format!(
                "{id} names the index {index}, and the known ones are {known}"
            )));
        }
    }
    Ok(runtime)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn the_table_that_ships_is_whole_and_names_everything_once() {
        let ours = parsed(BUILT_IN, FILE).unwrap();
        let ids: BTreeSet<&str> = ours.iter().map(|build| build.id.as_str()).collect();
        assert_eq!(ids.len(), ours.len());
        for build in &ours {
            assert!(build.engine().is_some(), "{build:?}");
            assert!(build.address().unwrap().starts_with("https://"));
            assert!(build.download_mb > 0 && !build.packages.is_empty());
            assert_eq!(build.kind == RuntimeKind::Rocm, !build.targets.is_empty());
            assert_eq!(build.kind == RuntimeKind::Cuda, build.driver.is_some());
            assert_ne!(build.licences, of_makers(), "{build:?}");
        }
    }

    #[test]
    fn a_users_table_comes_first_replaces_by_id_and_cannot_name_a_host() {
        let config = tempfile::tempdir().unwrap();
        let (ours, err) = builds(config.path());
        assert_eq!(err, None);
        let entry = |index: &str| {
            format!(
                "[[runtime]]\nid = 'cuda13.0'\nname = 'mine'\nkind = 'cuda'\nversion = '2.11.0'\nindex = '{index}'\npackages = []\ndownload_mb = 1\n"
            )
        };
        fs::write(config.path().join(FILE), entry("pypi")).unwrap();
        let (with, err) = builds(config.path());
        assert_eq!((with.len(), err), (ours.len(), None));
        assert_eq!(with[0].name, "mine");

        fs::write(config.path().join(FILE), entry("https://elsewhere.example")).unwrap();
        let (without, err) = builds(config.path());
        assert_eq!(without, ours);
        let text = err.unwrap().to_string();
        assert!(text.contains("the known ones are amd"), "{text}");
    }
}
