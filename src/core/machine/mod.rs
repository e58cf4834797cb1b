//! The kernel's information on this machine's GPUs, without loading a GPU library.
//!
//! Read-only; every source may be missing or invalid, and is then ignored.

pub mod amdgpu;
#[cfg(test)]
#[expect(dead_code, reason = "the app's tests lay the rest")]
mod fake_tree;

use std::path::{Path, PathBuf};

/// Root folders of the kernel's trees and of control groups; other folders in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemRoots {
    /// `/sys`.
    pub sysfs: PathBuf,
    pub proc: PathBuf,
    pub dev: PathBuf,
    pub etc: PathBuf,
    /// `/var`, where package managers keep what they know.
    pub var: PathBuf,
}

impl SystemRoots {
    /// The kernel's own, or for trials of the interface what `SAFELIGHT_SYSFS_ROOT` and its like name.
    pub fn of_this_machine() -> Self {
        let own = Self::under(Path::new("/"));
        let root = |variable: &str, own: PathBuf| {
            let named = std::env::var_os(variable).filter(|value| !value.is_empty());
            named.map_or(own, PathBuf::from)
        };
        Self {
            sysfs: root("SAFELIGHT_SYSFS_ROOT", own.sysfs),
            proc: root("SAFELIGHT_PROC_ROOT", own.proc),
            dev: root("SAFELIGHT_DEV_ROOT", own.dev),
            etc: root("SAFELIGHT_ETC_ROOT", own.etc),
            var: root("SAFELIGHT_VAR_ROOT", own.var),
        }
    }

    /// All of them under one folder.
    pub fn under(root: &Path) -> Self {
        Self {
            sysfs: root.join("sys"),
            proc: root.join("proc"),
            dev: root.join("dev"),
            etc: root.join("etc"),
            var: root.join("var"),
        }
    }
}
