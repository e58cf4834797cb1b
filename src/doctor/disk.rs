//! Check of the read speed of the models' disk.
//!
//! Reads the beginning of the largest weight file past the page cache, a quarter of a GiB or one second of it,
//! whichever comes first; on a thread that is abandoned when the disk does not respond.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use safelight_core::units::size_text;

use super::check::CheckResult;
use crate::telemetry::time_limit::within;

const NAME: &str = "disk speed";
const LIMIT: Duration = Duration::from_secs(15);
/// Size below which only the disk's latency would be measured.
const MIN_BYTES: u64 = 8 << 20;
/// A smaller file tells how soon the disk begins rather than how fast it is.
const JUDGED_BYTES: u64 = 64 << 20;
const MAX_BYTES: u64 = 256 << 20;
const MAX_TIME: Duration = Duration::from_secs(1);
const PIECE_BYTES: usize = 4 << 20;
/// Direct reading wants buffers at whole pages.
const PAGE: usize = 4096;
/// Slower than this, loading a model takes minutes.
const SLOW_MB: f64 = 300.0;
const MAX_FILES: usize = 2000;
const MAX_DEPTH: usize = 4;

pub(super) fn all(folders: Vec<PathBuf>) -> Vec<CheckResult> {
    let measured = within(LIMIT, "disk-speed", move || {
        let file = largest_weights(&folders)?;
        let rate = measure(&file);
        Some((file, rate))
    });
    let secs = LIMIT.as_secs();
    let late = format!("the disk with the models did not respond within {secs} s");
    let none = "no weight file is large enough to measure the disk with";
    vec![match measured {
        None => CheckResult::fail(NAME, late).fix("sudo dmesg | tail -n 50"),
        Some(None) => CheckResult::ok(NAME, none),
        Some(Some((file, Err(err)))) => {
            let place = file.display();
            CheckResult::warn(
                NAME,
                format!("a weight file cannot be read: {err}: {place}"),
            )
        }
        Some(Some((file, Ok(rate)))) => judge(&file, rate),
    }]
}

fn judge(file: &Path, rate: f64) -> CheckResult {
    let megabytes = rate / 1e6;
    let folder = file.parent().unwrap_or(file);
    let (size, place) = (size_text(rate as u64), folder.display());
    let message = format!("reading models: {size} a second ({place})");
    let is_large = fs::metadata(file).is_ok_and(|meta| meta.len() >= JUDGED_BYTES);
    let check = if megabytes < SLOW_MB && is_large {
        CheckResult::warn(NAME, message)
            .advise("Large models take minutes to load from this disk: move them to a faster one")
    } else {
        CheckResult::ok(NAME, message)
    };
    check.measured((megabytes * 10.0).round() / 10.0, "MB/s")
}

fn measure(path: &Path) -> io::Result<f64> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    // Some file systems refuse to read directly.
    match OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(path)
    {
        Ok(file) => rate(file).or_else(|_| rate(forgotten(path)?)),
        Err(_) => rate(forgotten(path)?),
    }
}

/// The file with none of it in the page cache, as far as the kernel obeys.
fn forgotten(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(file)
}

fn rate(mut file: File) -> io::Result<f64> {
    let mut room = vec![0; PIECE_BYTES + PAGE];
    let start = room.as_ptr().align_offset(PAGE).min(PAGE);
    let buffer = &mut room[start..start + PIECE_BYTES];
    let began = Instant::now();
    let mut done = 0;
    while done < MAX_BYTES && began.elapsed() < MAX_TIME {
        match file.read(buffer)? {
            0 => break,
            got => done += got as u64,
        }
    }
    Ok(done as f64 / began.elapsed().as_secs_f64().max(1e-6))
}

/// The largest of the files with weights, in folders a few deep.
fn largest_weights(folders: &[PathBuf]) -> Option<PathBuf> {
    let mut waiting: Vec<(usize, PathBuf)> =
        folders.iter().map(|folder| (0, folder.clone())).collect();
    let mut largest: Option<(u64, PathBuf)> = None;
    let mut seen = 0;
    while let Some((depth, path)) = waiting.pop() {
        seen += 1;
        if seen > MAX_FILES {
            break;
        }
        let Ok(meta) = fs::metadata(&path) else {
            continue;
        };
        if meta.is_dir() && depth < MAX_DEPTH {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(entries.map(|entry| (depth + 1, entry.path())));
        } else if meta.is_file() && has_weights(&path) && meta.len() >= MIN_BYTES {
            let is_larger = largest
                .as_ref()
                .is_none_or(|(bytes, _)| meta.len() > *bytes);
            if is_larger {
                largest = Some((meta.len(), path));
            }
        }
    }
    largest.map(|(_, path)| path)
}

fn has_weights(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    matches!(ending, Some("safetensors" | "gguf"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;

    #[test]
    fn the_largest_weight_file_is_read_and_small_ones_are_left() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("model/transformer");
        fs::create_dir_all(&folder).unwrap();
        let lay = |name: &str, bytes: u64| {
            let file = File::create(folder.join(name)).unwrap();
            file.set_len(bytes).unwrap();
        };
        lay("small.safetensors", MIN_BYTES - 1);
        lay("readme.md", MIN_BYTES * 4);
        let folders = vec![root.path().to_owned(), root.path().join("missing")];
        let checks = all(folders.clone());
        assert!(checks[0].message.contains("no weight file"), "{checks:?}");
        lay("large.gguf", MIN_BYTES);
        lay("larger.safetensors", MIN_BYTES + 5);
        let expected = Some(folder.join("larger.safetensors"));
        assert_eq!(largest_weights(&folders), expected);
        let check = &all(folders)[0];
        let figure = check.figure.as_ref().unwrap();
        assert!(figure.value > 0.0 && figure.unit == "MB/s", "{check:?}");
    }

    #[test]
    fn a_slow_disk_is_a_note_and_a_fast_one_is_well() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.safetensors");
        let file = File::create(&path).unwrap();
        file.set_len(JUDGED_BYTES).unwrap();
        assert_eq!(judge(&path, 100e6).status, CheckStatus::Warn);
        assert_eq!(judge(&path, 2e9).status, CheckStatus::Ok);
        file.set_len(JUDGED_BYTES - 1).unwrap();
        // It is too small to judge by.
        assert_eq!(judge(&path, 100e6).status, CheckStatus::Ok);
    }
}
