//! Names for result files: when, what, and the seed; never one that is taken.
//!
//! It looks at the disk, so it is nothing for the thread that draws.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::media::numbered_path;

/// At most so many letters of the prompt.
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
        "clip".to_owned()
    } else {
        trimmed.to_owned()
    }
}

/// The first free name in the folder that begins with `stem`, for one file or for numbered ones; remembered
/// in `taken`, because the file itself comes much later.
#[expect(clippy::implicit_hasher, reason = "nobody here has another hasher")]
pub fn free_path(
    folder: &Path,
    stem: &str,
    extension: &str,
    taken: &mut HashSet<PathBuf>,
) -> PathBuf {
    let first = folder.join(format!("{stem}.{extension}"));
    let is_free = |path: &PathBuf| {
        !path.exists() && !numbered_path(path, 1).exists() && !taken.contains(path)
    };
    let path = names_like(&first).find(is_free).unwrap_or_default();
    taken.insert(path.clone());
    path
}

/// `a.mp4`, then `a-2.mp4`, `a-3.mp4` and so on, without end.
pub fn names_like(path: &Path) -> impl Iterator<Item = PathBuf> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let others =
        (2_u64..).map(move |number| path.with_file_name(format!("{stem}-{number}.{extension}")));
    std::iter::once(path.to_path_buf()).chain(others)
}

/// Seconds of the Unix epoch; 0 where the clock stands before it.
pub fn now_secs() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

/// `2026-11-20_101502`, in the user's own time zone where the system can tell it.
pub fn timestamp() -> String {
    Command::new("date")
        .arg("+%Y-%m-%d_%H%M%S")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|text| text.trim().to_owned())
        .filter(|text| text.len() == 17)
        .unwrap_or_else(|| utc_timestamp(now_secs()))
}

/// Times for people to read, `2026-11-20 10:15`, from seconds since 1970: in the user's own time zone where
/// the system can tell it.
pub fn local_times(unix_secs: &[i64]) -> Vec<String> {
    // Less than a pipe holds, so that nobody waits for anybody.
    const AT_ONCE: usize = 1000;
    let mut times = Vec::with_capacity(unix_secs.len());
    for some in unix_secs.chunks(AT_ONCE) {
        match asked_times(some).filter(|asked| asked.len() == some.len()) {
            Some(asked) => times.extend(asked),
            None => times.extend(some.iter().map(|secs| {
                let text = utc_timestamp(u64::try_from(*secs).unwrap_or(0));
                format!("{} {}:{}", &text[..10], &text[11..13], &text[13..15])
            })),
        }
    }
    times
}

fn asked_times(unix_secs: &[i64]) -> Option<Vec<String>> {
    let mut date = Command::new("date")
        .args(["-f", "-", "+%Y-%m-%d %H:%M"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let lines: Vec<String> = unix_secs.iter().map(|secs| format!("@{secs}")).collect();
    let written = date.stdin.take()?.write_all(lines.join("\n").as_bytes());
    let output = date.wait_with_output().ok()?;
    written.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// Seconds of the Unix epoch as a time in UTC, such as `2026-11-20_081500`.
pub fn utc_timestamp(unix_secs: u64) -> String {
    let (days, secs) = (unix_secs / 86_400, unix_secs % 86_400);
    // Days since 0000-03-01, so that the leap day is a year's last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}_{:02}{:02}{:02}",
        secs / 3600,
        secs / 60 % 60,
        secs % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_short_and_safe_in_any_folder() {
        assert_eq!(slug("  A red boat, on WATER! "), "a-red-boat-on-water");
        assert_eq!(slug("../../etc/passwd\0"), "etc-passwd");
        assert_eq!(slug("🚤 ???"), "clip");
        assert_eq!(slug("Ein grünes Boot"), "ein-grünes-boot");
        let long = slug(&"word ".repeat(50));
        assert!(
            long.chars().count() <= MAX_SLUG_CHARS && long.ends_with("word"),
            "{long}"
        );
    }

    #[test]
    fn no_file_is_ever_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let mut taken = HashSet::new();
        std::fs::write(folder.path().join("a.mp4"), b"").unwrap();
        let second = free_path(folder.path(), "a", "mp4", &mut taken);
        let third = free_path(folder.path(), "a", "mp4", &mut taken);
        assert!(second.ends_with("a-2.mp4") && third.ends_with("a-3.mp4"));
        std::fs::write(folder.path().join("b_0001.png"), b"").unwrap();
        let beside = free_path(folder.path(), "b", "png", &mut taken);
        assert!(beside.ends_with("b-2.png"));
    }

    #[test]
    fn as_many_times_come_back_as_were_asked_for() {
        let secs: Vec<i64> = (0..2500).map(|index| index * 86_400).collect();
        let times = local_times(&secs);
        assert_eq!(times.len(), secs.len());
        assert!(times.iter().all(|time| time.len() == 16), "{times:?}");
        assert!(times[2400].starts_with("1976-07-2"), "{}", times[2400]);
    }

    #[test]
    fn the_calendar_is_right() {
        assert_eq!(utc_timestamp(0), "1970-01-01_000000");
        assert_eq!(utc_timestamp(1_709_210_096), "2024-02-29_123456");
        assert_eq!(utc_timestamp(1_795_170_896), "2026-11-20_103456");
    }
}
