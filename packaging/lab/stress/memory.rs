//! Scarce memory: a cgroup whose limit is lowered while a job runs. Needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::Result;

const MIB: u64 = 1 << 20;
pub(crate) const ROOMY: u64 = 1024 * MIB;
/// Left of the lowered limit; the job yields below 128 MiB.
const SCARCE: u64 = 100 * MIB;

/// Removed on drop.
pub(crate) struct Group {
    folder: PathBuf,
    /// Files of the limit, the use and the count of kills.
    names: [&'static str; 3],
}

impl Group {
    pub(crate) fn make() -> Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let name = format!("safelight-stress-{}", std::process::id());
        let is_v1 = root.join("memory").is_dir();
        let (parent, names) = if is_v1 {
            (
                root.join("memory"),
                [
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "memory.oom_control",
                ],
            )
        } else {
            fs::write(root.join("cgroup.subtree_control"), "+memory").ok();
            (
                root.to_owned(),
                ["memory.max", "memory.current", "memory.events"],
            )
        };
        let folder = parent.join(name);
        fs::create_dir(&folder)
            .map_err(|err| format!("no cgroup for scarce memory, which needs root ({err})"))?;
        let group = Self { folder, names };
        group.set_limit(ROOMY)?;
        Ok(group)
    }

    pub(crate) fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    pub(crate) fn set_limit(&self, bytes: u64) -> Result<()> {
        Ok(fs::write(
            self.folder.join(self.names[0]),
            bytes.to_string(),
        )?)
    }

    /// Lowers the limit to little more than what is used without the page cache.
    pub(crate) fn squeeze(&self) -> Result<()> {
        let used: u64 = self.read(self.names[1]).trim().parse()?;
        let stat = self.read("memory.stat");
        let number = |key: &str| {
            stat.lines()
                .find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok())
        };
        let cache = number("total_inactive_file ")
            .or_else(|| number("inactive_file "))
            .unwrap_or(0);
        self.set_limit(used.saturating_sub(cache) + SCARCE)
    }

    /// Processes that the kernel killed for want of memory.
    pub(crate) fn num_killed(&self) -> u64 {
        let count = self.read(self.names[2]);
        count
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
            .unwrap_or(0)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its last process may still be exiting.
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
