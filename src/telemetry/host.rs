//! The machine itself: its memory, its kernel, the room on its disks.

use std::fs;
use std::path::Path;

/// Main memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    pub total_bytes: u64,
    /// What programs could still get, caches that the kernel would give up included.
    pub available_bytes: u64,
}

/// What `meminfo` under this `/proc` says.
pub fn memory(proc: &Path) -> Option<HostMemory> {
    let text = fs::read_to_string(proc.join("meminfo")).ok()?;
    let bytes = |key: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(key))?;
        let mut words = rest.trim_start_matches(':').split_whitespace();
        let value: u64 = words.next()?.parse().ok()?;
        (words.next() == Some("kB")).then(|| value.saturating_mul(1024))
    };
    Some(HostMemory {
        total_bytes: bytes("MemTotal")?,
        available_bytes: bytes("MemAvailable")?,
    })
}

/// The kernel's release, such as `6.18.4-1-generic`.
pub fn kernel_release(proc: &Path) -> Option<String> {
    let text = fs::read_to_string(proc.join("sys/kernel/osrelease")).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The first three numbers of a kernel's release; what is left out counts as 0.
pub fn kernel_version(release: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = release.split(['.', '-', '+', '_']).map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    });
    let major = numbers.next()??;
    let mut next = || numbers.next().flatten().unwrap_or(0);
    Some((major, next(), next()))
}

/// Bytes that this user can still write under a folder, or under the nearest one above that exists.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|path| path.exists())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes_and_a_foreign_file_gives_nothing() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(memory(proc.path()), None);
        let text = "MemTotal:       131072 kB\nMemFree: 1 kB\nMemAvailable:    65536 kB\n";
        fs::write(proc.path().join("meminfo"), text).unwrap();
        let found = memory(proc.path()).unwrap();
        assert_eq!(
            (found.total_bytes, found.available_bytes),
            (128 << 20, 64 << 20)
        );
        fs::write(proc.path().join("meminfo"), "MemTotal: many kB\n").unwrap();
        assert_eq!(memory(proc.path()), None);
    }

    #[test]
    fn kernel_versions_of_distributions_are_understood() {
        for (release, version) in [
            ("6.18.4", Some((6, 18, 4))),
            ("6.1.0-18-amd64", Some((6, 1, 0))),
            ("7.0-rc3", Some((7, 0, 0))),
            ("6.17.1_1", Some((6, 17, 1))),
            ("5.15.167.4-microsoft-standard-WSL2", Some((5, 15, 167))),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(kernel_version(release), version, "{release}");
        }
    }

    #[test]
    fn free_space_of_a_folder_to_be_made_is_that_of_the_one_above() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(&folder.path().join("not/yet")).unwrap() > 0);
    }
}
