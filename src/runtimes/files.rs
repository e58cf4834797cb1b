//! The files of an installed runtime: what they were when it was installed, which of them are not so any more, and the ones
//! that need not come again.
//!
//! Writes nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use safelight_core::job::CancelToken;
use safelight_wheels::sum_of;
use serde_json::Value;

use super::install::NOTE;

/// The longest list has some thousand files.
const MAX_NOTE_BYTES: u64 = 16 << 20;

/// The files of a runtime's note, each with its checksum as wheels write it; none where it came from no wheel, or by an
/// earlier version.
fn noted(folder: &Path) -> BTreeMap<String, String> {
    let path = folder.join(NOTE);
    let text = safelight_core::files::read_text_bounded(&path, MAX_NOTE_BYTES);
    let note: Value = text
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default();
    let wheels = note["wheels"].as_array().into_iter().flatten();
    let files = wheels.filter_map(|wheel| wheel["members"].as_object());
    let files = files.flatten().filter_map(|(name, sum)| {
        let sum = sum.as_str()?.to_owned();
        Some((name.clone(), sum))
    });
    files.collect()
}

/// Missing files of a runtime, sorted. Fast: looks at names only.
pub(super) fn missing(folder: &Path) -> Vec<String> {
    let noted = noted(folder).into_keys();
    noted.filter(|name| !folder.join(name).is_file()).collect()
}

/// Missing or changed files, sorted; reads all of them. `None` when cancelled.
pub(super) fn damaged(folder: &Path, cancel: &CancelToken) -> Option<Vec<String>> {
    let mut damaged = Vec::new();
    for (name, sum) in noted(folder) {
        if cancel.is_cancelled() {
            return None;
        }
        if !is_as(&folder.join(&name), &sum) {
            damaged.push(name);
        }
    }
    Some(damaged)
}

/// Returns whether a file has this checksum from a wheel's record; false if it cannot be read.
pub(super) fn is_as(file: &Path, sum: &str) -> bool {
    // Opening a pipe would wait for its writer.
    file.is_file()
        && File::open(file)
            .and_then(sum_of)
            .is_ok_and(|found| found == sum)
}
