//! Names for result files: when, what, and the seed; never one that is taken.
//!
//! It looks at the disk, so it is nothing for the thread that draws.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local, NaiveDate};

/// Limit of characters from the prompt.
const MAX_SLUG_CHARS: usize = 40;

/// `a-red-boat` for "A red boat!".
pub fn slug(prompt: &str) -> String {
    let mut slug = String::new();
    for letter in prompt.chars().flat_map(char::to_lowercase) {
        if letter.is_alphanumeric() {
            slug.push(letter);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let mut short: String = slug.chars().take(MAX_SLUG_CHARS).collect();
    if slug.chars().count() > MAX_SLUG_CHARS
        && let Some(end) = short.rfind('-')
    {
        short.truncate(end);
    }
    let trimmed = short.trim_end_matches('-');
    if trimmed.is_empty() {
        "video".to_owned()
    } else {
        trimmed.to_owned()
    }
}

/// The first free name in the folder that begins with `stem`, for one file or for numbered ones.
pub fn free_path(folder: &Path, stem: &str, extension: &str) -> PathBuf {
    let first = folder.join(format!("{stem}.{extension}"));
    names_like(&first)
        .find(|path| is_free(path))
        .unwrap_or_default()
}

/// Returns whether neither the file nor the first of several numbered ones is there.
pub fn is_free(path: &Path) -> bool {
    !path.exists() && !numbered_path(path, 1).exists()
}

/// `dir/name.png` becomes `dir/name_0001.png`: the name of one of several files of one job.
pub fn numbered_path(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("_{number:04}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension.to_ascii_lowercase());
    }
    path.with_file_name(name)
}

/// `a.mp4`, then `a-2.mp4`, `a-3.mp4` and so on, without end.
pub fn names_like(path: &Path) -> impl Iterator<Item = PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let others =
        (2_u64..).map(move |number| path.with_file_name(format!("{stem}-{number}.{extension}")));
    std::iter::once(path.to_path_buf()).chain(others)
}

/// Seconds since the Unix epoch; 0 if the clock is before it.
pub fn now_secs() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// `2026-11-20_101502`, in the user's time zone.
pub fn timestamp() -> String {
    local_time("%Y-%m-%d_%H%M%S")
}

/// Now in the user's time zone, in a format of `strftime`.
pub fn local_time(format: &str) -> String {
    Local::now().format(format).to_string()
}

/// `2026-11-20 10:15` in the user's time zone, from seconds of the Unix epoch; empty for a time that no calendar has.
pub fn local_minute(unix_secs: i64) -> String {
    let time = DateTime::from_timestamp(unix_secs, 0).map(DateTime::<Local>::from);
    time.map_or_else(String::new, |time| {
        time.format("%Y-%m-%d %H:%M").to_string()
    })
}

/// `November 2026` of `2026-11`.
pub fn month_name(month: &str) -> String {
    let first: Result<NaiveDate, _> = format!("{month}-01").parse();
    first.map_or_else(|_| month.to_owned(), |day| day.format("%B %Y").to_string())
}

/// Seconds of the Unix epoch as a time in UTC, such as `2026-11-20_081500`.
pub fn utc_timestamp(unix_secs: u64) -> String {
    let secs = i64::try_from(unix_secs).unwrap_or(i64::MAX);
    let time = DateTime::from_timestamp(secs, 0).unwrap_or_default();
    time.format("%Y-%m-%d_%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_short_and_safe_in_any_folder() {
        assert_eq!(slug("  A red boat, on WATER! "), "a-red-boat-on-water");
        assert_eq!(slug("../../etc/passwd\0"), "etc-passwd");
        assert_eq!(slug("🚤 ???"), "video");
        assert_eq!(slug("Ein grünes Boot"), "ein-grünes-boot");
        let long = slug(&"word ".repeat(50));
        let holds = long.chars().count() <= MAX_SLUG_CHARS && long.ends_with("word");
        assert!(holds, "{long}");
    }

    #[test]
    fn no_file_is_ever_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        for (taken, free) in [
            ("a.mp4", "a-2.mp4"),
            ("a-2.mp4", "a-3.mp4"),
            ("b_0001.png", "b-2.png"),
        ] {
            std::fs::write(folder.path().join(taken), b"").unwrap();
            let (stem, extension) = (&taken[..1], &taken[taken.len() - 3..]);
            let path = free_path(folder.path(), stem, extension);
            assert!(path.ends_with(free), "{path:?}");
        }
    }
}
