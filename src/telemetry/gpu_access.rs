//! Access of this user to an AMD GPU: the compute driver's device, the card's own, and the groups.
//!
//! Opens the devices as ROCm would, and changes nothing.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::Path;

use super::SystemRoots;

/// Groups with access to GPUs, on most systems.
const GROUPS: [&str; 2] = ["render", "video"];

/// Devices of AMD's compute driver that this user cannot open, and why not.
pub struct GpuAccess {
    /// Path and error of each.
    refused: Vec<String>,
    are_there: bool,
    missing_groups: Vec<&'static str>,
}

/// Obstacle for a user, with advice.
pub struct AccessProblem {
    pub message: String,
    pub advice: &'static str,
    pub command: String,
}

impl GpuAccess {
    pub fn of_user(roots: &SystemRoots) -> Self {
        let mut are_there = true;
        let refused = devices(&roots.dev).into_iter().filter_map(|device| {
            let opened = OpenOptions::new().read(true).write(true).open(&device);
            let err = opened.err()?;
            are_there &= err.kind() != ErrorKind::NotFound;
            Some(format!("{}: {err}", device.display()))
        });
        Self {
            refused: refused.collect(),
            are_there,
            missing_groups: missing_groups(roots),
        }
    }

    pub fn problem(&self) -> Option<AccessProblem> {
        if self.refused.is_empty() {
            return None;
        }
        let message = format!("the GPU cannot be opened: {}", self.refused.join("; "));
        let (advice, command) = if self.missing_groups.is_empty() || !self.are_there {
            (
                "Load the driver, and in a container pass /dev/kfd and /dev/dri on",
                "sudo modprobe amdgpu".to_owned(),
            )
        } else {
            (
                "Add yourself to the groups render and video, then log in again",
                format!(
                    "sudo usermod -aG {} \"$USER\"",
                    self.missing_groups.join(",")
                ),
            )
        };
        Some(AccessProblem {
            message,
            advice,
            command,
        })
    }

    /// Groups that GPUs have here and that this user is not in.
    pub fn missing_groups(&self) -> &[&'static str] {
        &self.missing_groups
    }
}

fn devices(dev: &Path) -> Vec<std::path::PathBuf> {
    let mut devices = vec![dev.join("kfd")];
    let entries = fs::read_dir(dev.join("dri")).into_iter().flatten();
    devices.extend(entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.starts_with("renderD").then(|| entry.path())
    }));
    devices.sort();
    devices
}

/// Those that exist, and that this process is not in.
fn missing_groups(roots: &SystemRoots) -> Vec<&'static str> {
    let text = fs::read_to_string(roots.etc.join("group")).unwrap_or_default();
    let numbers: BTreeMap<&str, u32> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            Some((name, fields.nth(1)?.parse().ok()?))
        })
        .collect();
    let status = fs::read_to_string(roots.proc.join("self/status")).unwrap_or_default();
    let listed = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default()
            .split_whitespace()
            .filter_map(|number| number.parse::<u32>().ok())
            .collect::<Vec<_>>()
    };
    let is_root = listed("Uid:").get(1) == Some(&0);
    let mine = [listed("Groups:"), listed("Gid:")].concat();
    GROUPS
        .into_iter()
        .filter(|name| {
            !is_root
                && numbers
                    .get(name)
                    .is_some_and(|number| !mine.contains(number))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(groups: &str) -> (tempfile::TempDir, SystemRoots) {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        for folder in ["proc/self", "dev/dri", "etc"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let etc = "root:x:0:\nvideo:x:44:me\nrender:x:993:\n";
        fs::write(roots.etc.join("group"), etc).unwrap();
        let status = format!("Uid:\t1000\t1000\nGid:\t1000\t1000\nGroups:\t{groups}\n");
        fs::write(roots.proc.join("self/status"), status).unwrap();
        fs::write(roots.dev.join("dri/renderD128"), "").unwrap();
        (root, roots)
    }

    #[test]
    fn inaccessible_device_node_is_reported_with_the_fixing_command() {
        let (_root, roots) = machine("4 44");
        // What cannot be opened for whatever reason, root's too.
        fs::create_dir(roots.dev.join("kfd")).unwrap();
        let problem = GpuAccess::of_user(&roots).problem().unwrap();
        assert!(problem.message.contains("kfd"), "{}", problem.message);
        assert_eq!(problem.command, "sudo usermod -aG render \"$USER\"");
        let (_root, roots) = machine("4 44");
        let problem = GpuAccess::of_user(&roots).problem().unwrap();
        assert_eq!(problem.command, "sudo modprobe amdgpu");
    }

    #[test]
    fn a_gpu_that_opens_is_well_with_and_without_the_groups() {
        let (_root, roots) = machine("");
        fs::write(roots.dev.join("kfd"), "").unwrap();
        let access = GpuAccess::of_user(&roots);
        assert!(access.problem().is_none());
        assert_eq!(access.missing_groups(), ["render", "video"]);
    }
}
