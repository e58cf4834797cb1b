//! Main memory by owner: available, used by Safelight, and used by others, of the machine and of the control groups
//! (cgroups) of this process.
//!
//! Reads files of the kernel and decides nothing. Safelight's share is summed over its processes; the rest of the used
//! memory is others'. Drivers' memory belongs to neither.

use std::fs;
use std::path::{Path, PathBuf};

use super::SystemRoots;
use super::host::{self, kib, parse_number};

/// One pool of memory at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryPool {
    /// Total: installed memory, or a group's limit.
    pub limit_bytes: u64,
    /// Available memory, including caches that the kernel would release.
    pub available_bytes: u64,
    /// Memory of Safelight's processes.
    pub own_bytes: u64,
    /// Lower bound of other processes' memory: files are read one after the other while processes allocate and free.
    pub others_least_bytes: u64,
    /// And at most.
    pub others_most_bytes: u64,
    /// Share of the last ten seconds in which every process waited for memory, from 0 to 100.
    pub stalled_percent: f32,
}

/// Reads the pools that hold this process.
#[derive(Debug)]
pub struct RoomReader {
    proc: PathBuf,
    groups: Vec<ControlGroup>,
}

/// Control group's folder, with the names of its files.
#[derive(Debug)]
struct ControlGroup {
    folder: PathBuf,
    names: &'static CgroupFiles,
}

#[derive(Debug)]
struct CgroupFiles {
    /// Files with a number or `max`; the least of them counts.
    limits: &'static [&'static str],
    used: &'static str,
    /// Keys of `memory.stat`: private memory, shared memory, files with shared memory, what the kernel gives up.
    private: &'static str,
    shared: &'static str,
    files: &'static str,
    given_up: &'static str,
    swapped_key: &'static str,
    /// Swap counter, if it is in a separate file.
    swapped: &'static str,
}

const SECOND: CgroupFiles = CgroupFiles {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    private: "anon",
    shared: "shmem",
    files: "file",
    given_up: "slab_reclaimable",
    swapped_key: "",
    swapped: "memory.swap.current",
};
const FIRST: CgroupFiles = CgroupFiles {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    private: "total_rss",
    shared: "total_shmem",
    files: "total_cache",
    given_up: "",
    swapped_key: "total_swap",
    swapped: "",
};

impl RoomReader {
    pub fn new(roots: &SystemRoots) -> Self {
        Self {
            proc: roots.proc.clone(),
            groups: groups(roots),
        }
    }

    /// Reads the machine first, then the groups from the innermost; a fixed number of entries. `None`: unavailable now.
    /// `engines`: process ids of this program's engines.
    pub fn read(&self, engines: &[u32]) -> Vec<Option<MemoryPool>> {
        let before = self.own(engines);
        let host = host::memory(&self.proc);
        let groups: Vec<_> = self.groups.iter().map(ControlGroup::read).collect();
        let after = self.own(engines);
        let own = (before.min(after), before.max(after));
        let machine = host.map(|host| {
            let stalled = stalled(&self.proc.join("pressure/memory"));
            let limit = host.total_bytes;
            pool(limit, host.available_bytes, host.taken_bytes, own, stalled)
        });
        let groups = groups.into_iter().map(|seen| {
            let seen = seen?;
            // A group without a limit has what the machine has.
            let limit = seen
                .limit
                .min(host.map_or(u64::MAX, |host| host.total_bytes));
            let available = limit.saturating_sub(seen.fixed);
            Some(pool(limit, available, seen.taken, own, seen.stalled))
        });
        std::iter::once(machine).chain(groups).collect()
    }

    /// Memory of this process and its engines: private and shared, swapped out or not.
    fn own(&self, engines: &[u32]) -> u64 {
        let engines = engines.iter().map(u32::to_string);
        std::iter::once("self".to_owned())
            .chain(engines)
            .map(|process| taken_of(&self.proc.join(process).join("status")))
            .sum()
    }
}

fn pool(
    limit: u64,
    available: u64,
    taken: u64,
    (own_least, own_most): (u64, u64),
    stalled: f32,
) -> MemoryPool {
    MemoryPool {
        limit_bytes: limit,
        available_bytes: available,
        own_bytes: own_most,
        others_least_bytes: taken.saturating_sub(own_most),
        others_most_bytes: taken.saturating_sub(own_least),
        stalled_percent: stalled,
    }
}

/// Values of a group.
struct CgroupReading {
    limit: u64,
    /// Bytes that the kernel does not give up.
    fixed: u64,
    /// Of programs.
    taken: u64,
    stalled: f32,
}

impl ControlGroup {
    fn read(&self) -> Option<CgroupReading> {
        let names = self.names;
        let limits = names.limits.iter();
        let limits = limits.filter_map(|name| number(&self.folder.join(name)));
        let stat = text(&self.folder.join("memory.stat"))?;
        let of = |key: &str| {
            let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
            let found = lines.find(|(name, _)| *name == key);
            found.and_then(|(_, value)| value.trim().parse().ok())
        };
        let shared: u64 = of(names.shared).unwrap_or(0);
        let files: u64 = of(names.files).unwrap_or(0);
        let given_up = files.saturating_sub(shared) + of(names.given_up).unwrap_or(0);
        let swapped = match names.swapped {
            "" => of(names.swapped_key),
            file => number(&self.folder.join(file)),
        };
        Some(CgroupReading {
            limit: limits.min().unwrap_or(u64::MAX),
            fixed: number(&self.folder.join(names.used))?.saturating_sub(given_up),
            taken: of(names.private)? + shared + swapped.unwrap_or(0),
            stalled: stalled(&self.folder.join("memory.pressure")),
        })
    }
}

/// The groups that hold this process and count its memory, the inmost first. In a container that does not know its own
/// place the root of what it sees is its group.
fn groups(roots: &SystemRoots) -> Vec<ControlGroup> {
    let own = text(&roots.proc.join("self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(kinds), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, names) = if number == "0" && kinds.is_empty() {
            ("fs/cgroup", &SECOND)
        } else if kinds.split(',').any(|kind| kind == "memory") {
            ("fs/cgroup/memory", &FIRST)
        } else {
            continue;
        };
        let root = roots.sysfs.join(root);
        let path = root.join(path.trim_start_matches('/'));
        let folders = path
            .ancestors()
            .take_while(|folder| folder.starts_with(&root));
        found.extend(
            folders
                .map(|folder| ControlGroup {
                    folder: folder.to_owned(),
                    names,
                })
                .filter(|group| group.read().is_some()),
        );
    }
    found
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// A file with one number; `max` is none.
fn number(path: &Path) -> Option<u64> {
    parse_number(text(path)?.trim().as_bytes())
}

/// Memory of a process according to its `status`.
fn taken_of(status: &Path) -> u64 {
    let text = text(status).unwrap_or_default();
    let fields = text.lines().filter_map(|line| {
        let at = line.find(':')?;
        let (key, rest) = line.split_at(at);
        matches!(key, "RssAnon" | "RssShmem" | "VmSwap").then(|| kib(rest.as_bytes()))?
    });
    fields.sum()
}

/// `full avg10=1.23 avg60=…` -> 1.23; 0 where the kernel does not tell.
fn stalled(pressure: &Path) -> f32 {
    let text = text(pressure).unwrap_or_default();
    let full = text.lines().find_map(|line| line.strip_prefix("full "));
    let share = full.and_then(|line| {
        let mut fields = line.split(' ');
        fields
            .find_map(|field| field.strip_prefix("avg10="))?
            .parse()
            .ok()
    });
    share.filter(|share: &f32| share.is_finite()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::fake_tree::{lay, lay_memory};

    const MIB: u64 = 1 << 20;

    /// 1000 MiB, of which 300 can be had; 500 are taken, 200 of them by this process and the engine, whose number is 7.
    fn machine() -> (tempfile::TempDir, SystemRoots) {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay_memory(&roots.proc, 1000, 300, 500);
        let own = "RssAnon:\t 51200 kB\nRssFile: 9 kB\nVmSwap: 0 kB\n";
        lay(&roots.proc, "self/status", own);
        let engine = "RssAnon: 102400 kB\nRssShmem: 51200 kB\n";
        lay(&roots.proc, "7/status", engine);
        (root, roots)
    }

    #[test]
    fn memory_outside_own_processes_counts_as_used_by_others() {
        let (_root, roots) = machine();
        let pressure = "some avg10=50.00 avg60=1.0\nfull avg10=12.50 avg60=0.00 total=1\n";
        lay(&roots.proc, "pressure/memory", pressure);
        let reader = RoomReader::new(&roots);
        let expected = MemoryPool {
            limit_bytes: 1000 * MIB,
            available_bytes: 300 * MIB,
            own_bytes: 200 * MIB,
            others_least_bytes: 300 * MIB,
            others_most_bytes: 300 * MIB,
            stalled_percent: 12.5,
        };
        assert_eq!(reader.read(&[7]), [Some(expected)]);
        // An engine that has ended has nothing.
        let without = reader.read(&[8])[0].unwrap();
        assert_eq!(without.own_bytes / MIB, 50);
        assert_eq!(without.others_least_bytes / MIB, 450);
    }

    #[test]
    fn groups_of_both_kernels_are_read_up_to_their_root_and_caches_can_be_had() {
        let (_root, roots) = machine();
        let groups = "9:name=systemd:/\n4:cpu,memory:/a\n0::/user/app\n";
        lay(&roots.proc, "self/cgroup", groups);
        let second = "anon 209715200\nfile 104857600\nshmem 52428800\nslab_reclaimable 0\n";
        for (name, text) in [
            ("memory.max", "max\n"),
            ("memory.high", "419430400\n"),
            ("memory.current", "314572800\n"),
            ("memory.stat", second),
            ("memory.swap.current", "0\n"),
            ("memory.pressure", "full avg10=3.00\n"),
        ] {
            lay(&roots.sysfs, &format!("fs/cgroup/user/app/{name}"), text);
        }
        let first =
            "cache 1\ntotal_cache 104857600\ntotal_rss 262144000\ntotal_shmem 0\ntotal_swap 0\n";
        for (name, text) in [
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.usage_in_bytes", "367001600\n"),
            ("memory.stat", first),
        ] {
            lay(&roots.sysfs, &format!("fs/cgroup/memory/a/{name}"), text);
        }
        let pools = RoomReader::new(&roots).read(&[7]);
        assert_eq!(pools.len(), 3, "the machine and both groups: {pools:?}");
        let mib = |pool: Option<MemoryPool>| {
            let pool = pool.unwrap();
            let (limit, available) = (pool.limit_bytes, pool.available_bytes);
            let bytes = [limit, available, pool.others_least_bytes];
            (bytes.map(|bytes| bytes / MIB), pool.stalled_percent)
        };
        // Without a limit the group has what the machine has.
        assert_eq!(mib(pools[1]), ([1000, 750, 50], 0.0));
        assert_eq!(mib(pools[2]), ([400, 150, 50], 3.0));
    }

    #[test]
    fn malformed_or_missing_files_give_no_pool_reading() {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        assert_eq!(RoomReader::new(&roots).read(&[]), [None]);
        lay(&roots.proc, "self/cgroup", "0::/\n::\nmemory\n");
        lay(&roots.proc, "pressure/memory", "full avg10=lots\n");
        lay(&roots.sysfs, "fs/cgroup/memory.stat", "anon many\n");
        lay(&roots.proc, "meminfo", "MemTotal: many kB\n");
        assert_eq!(RoomReader::new(&roots).read(&[1]), [None]);
        lay_memory(&roots.proc, 1000, 300, 500);
        let pool = RoomReader::new(&roots).read(&[])[0].unwrap();
        assert_eq!((pool.own_bytes, pool.stalled_percent), (0, 0.0));
    }
}
