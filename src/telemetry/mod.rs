//! What the drivers and the kernel say about this machine: GPUs, memory, free space.
//!
//! Reads only, and starts nothing. The engine's own memory comes from the engine; what is read here is
//! what the rest of the machine knows. Every source may be absent, and then says nothing.

pub mod amdgpu;
pub mod host;
pub mod machine;
pub mod nvidia;

use std::path::PathBuf;

/// Where the kernel shows its trees; other folders in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/sys`.
    pub sysfs: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
}

impl Roots {
    /// The kernel's own, or for trials of the interface what `SAFELIGHT_SYSFS_ROOT` names.
    pub fn of_this_machine() -> Self {
        Self {
            sysfs: std::env::var_os("SAFELIGHT_SYSFS_ROOT")
                .map_or_else(|| PathBuf::from("/sys"), PathBuf::from),
            proc: PathBuf::from("/proc"),
            dev: PathBuf::from("/dev"),
        }
    }
}
