//! What the drivers and the kernel say about this machine: GPUs, memory, sensors, free space.
//!
//! Reads only, and starts no process. The engine's own memory comes from the engine; what is read here is
//! what the rest of the machine knows. Every source may be absent, wrong or gone a moment later, and then says
//! nothing.

pub mod amdgpu;
pub mod budget;
pub mod device;
#[cfg(test)]
pub(crate) mod fake_tree;
pub mod host;
pub mod limit;
pub mod monitor;
pub mod nvidia;
pub mod record;
pub mod room;
pub mod sampler;

use std::path::{Path, PathBuf};

pub use device::{Device, DeviceQuery, device, device_class, device_facts};

/// Where the kernel shows its trees, and the system its groups; other folders in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/sys`.
    pub sysfs: PathBuf,
    pub proc: PathBuf,
    pub dev: PathBuf,
    pub etc: PathBuf,
}

impl Roots {
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
        }
    }

    /// All of them under one folder.
    pub fn under(root: &Path) -> Self {
        Self {
            sysfs: root.join("sys"),
            proc: root.join("proc"),
            dev: root.join("dev"),
            etc: root.join("etc"),
        }
    }
}
