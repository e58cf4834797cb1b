//! The machine itself: its memory, its kernel, the room on its disks.

use std::fs;
use std::io;
use std::path::Path;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemoryReading {
    pub total_bytes: u64,
    /// Memory available to programs, including caches that the kernel would release.
    pub available_bytes: u64,
    /// Files that are kept in memory and given up when it is wanted.
    pub page_cache_bytes: u64,
    /// Memory of all programs that the kernel cannot release: private and shared memory, swapped out or not. Without
    /// drivers' memory.
    pub taken_bytes: u64,
}

/// Number of cores that programs may use.
pub fn num_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Memory according to `meminfo` under this `/proc`.
pub fn memory(proc: &Path) -> Option<HostMemoryReading> {
    parse_meminfo(&fs::read(proc.join("meminfo")).ok()?)
}

/// Reads the text of `meminfo` without keeping anything of it.
pub(super) fn parse_meminfo(text: &[u8]) -> Option<HostMemoryReading> {
    let (mut total, mut available, mut shared) = (None, None, 0);
    let (mut cache, mut private, mut swap, mut free_swap) = (0_u64, 0_u64, 0_u64, 0_u64);
    for line in text.split(|&byte| byte == b'\n') {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let (key, rest) = line.split_at(colon);
        match key {
            b"MemTotal" => total = kib(rest),
            b"MemAvailable" => available = kib(rest),
            b"Buffers" | b"Cached" | b"SReclaimable" => {
                cache = cache.saturating_add(kib(rest).unwrap_or(0));
            }
            b"Shmem" => shared = kib(rest).unwrap_or(0),
            b"AnonPages" => private = kib(rest).unwrap_or(0),
            b"SwapTotal" => swap = kib(rest).unwrap_or(0),
            b"SwapFree" => free_swap = kib(rest).unwrap_or(0),
            _ => {}
        }
    }
    Some(HostMemoryReading {
        total_bytes: total?,
        available_bytes: available?,
        // Shared memory is counted with the files, and cannot be given up.
        page_cache_bytes: cache.saturating_sub(shared),
        taken_bytes: private
            .saturating_add(shared)
            .saturating_add(swap.saturating_sub(free_swap)),
    })
}

/// `:     1234 kB` → bytes.
pub(super) fn kib(rest: &[u8]) -> Option<u64> {
    let rest = rest.strip_prefix(b":")?.trim_ascii();
    parse_number(rest.strip_suffix(b"kB")?.trim_ascii())?.checked_mul(1024)
}

pub(super) fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

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
    room_in(existing).ok()
}

/// Like `room`, for an existing folder.
pub fn room_in(folder: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
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
        assert_eq!(found.total_bytes, 128 << 20);
        assert_eq!(found.available_bytes, 64 << 20);
        assert_eq!(found.page_cache_bytes, 0);
        let cached =
            format!("{text}Buffers: 1 kB\nCached: 10 kB\nShmem: 4 kB\nSReclaimable: 2 kB\n");
        fs::write(proc.path().join("meminfo"), &cached).unwrap();
        assert_eq!(memory(proc.path()).unwrap().page_cache_bytes, 9 << 10);
        let taken = format!("{cached}AnonPages: 20 kB\nSwapTotal: 9 kB\nSwapFree: 6 kB\n");
        fs::write(proc.path().join("meminfo"), taken).unwrap();
        assert_eq!(memory(proc.path()).unwrap().taken_bytes, 27 << 10);
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
