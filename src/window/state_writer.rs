//! Saved state of the window: read before it opens, written a moment after a change and when it closes.
//!
//! The file thread writes it as a whole or not at all. eframe saves the window's position and size.

use std::io;

use safelight_core::files::{MAX_JSON_BYTES, keep_aside, read_bounded, write_json};

use crate::window::prelude::*;
use crate::window::state::SavedState;

/// A change is written no later than this.
const WRITE_WITHIN_SECS: f64 = 3.0;

#[derive(Default)]
pub(super) struct StateWriter {
    /// Content of the file, or the one being written.
    written: SavedState,
    /// Since when something else is to be remembered.
    changed_at: Option<f64>,
}

impl StateWriter {
    pub fn new(written: SavedState) -> Self {
        Self {
            written,
            changed_at: None,
        }
    }

    /// Has a change written, once there was time for others to follow it.
    pub fn follow(&mut self, state: SavedState, cx: &AppContext) {
        if cx.paths.is_none() {
            return;
        }
        if state == self.written {
            self.changed_at = None;
            return;
        }
        let changed_at = *self.changed_at.get_or_insert(cx.now_secs);
        if cx.is_due(changed_at + WRITE_WITHIN_SECS) {
            self.write(state, cx);
        }
    }

    /// Has it written, whatever the file says: the last time may have failed.
    pub fn write(&mut self, state: SavedState, cx: &AppContext) {
        let Some(path) = cx.paths.as_ref().map(AppPaths::state_file) else {
            return;
        };
        let remembered = state.clone();
        let writing = cx.background.on_files(move || {
            if let Err(err) = write(&remembered, &path) {
                let place = path.display();
                tracing::warn!("what the window remembers cannot be written ({err}): {place}");
            }
        });
        if writing.is_busy() {
            *self = Self::new(state);
        } else {
            // The file thread is busy: not again in the next frame.
            self.changed_at = Some(cx.now_secs);
        }
    }
}

/// State of an earlier window, if any. A broken file is kept under another name.
pub(super) fn read(path: &Path) -> Option<SavedState> {
    let read = match read_bounded(path, MAX_JSON_BYTES) {
        Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
        Err(err) if err.kind() == io::ErrorKind::NotFound => return None,
        Err(err) => Err(err),
    };
    let state = read.unwrap_or_else(|err| {
        let place = path.display();
        tracing::warn!("what the window remembered cannot be read ({err}): {place}");
        if let Ok(copy) = keep_aside(path) {
            tracing::warn!("the file is kept as {}", copy.display());
        }
        SavedState::default()
    });
    Some(state)
}

fn write(state: &SavedState, path: &Path) -> io::Result<()> {
    write_json(path, state)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn saved_state_is_restored_and_a_broken_file_is_preserved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/state.json");
        assert_eq!(read(&path), None);
        let mut state = SavedState::default();
        state.form.prompt = "a red boat".to_owned();
        state.library.favourites = vec!["wan".to_owned()];
        write(&state, &path).unwrap();
        assert_eq!(read(&path), Some(state));
        fs::write(&path, "{\"form\": {\"prompt\": \"half a").unwrap();
        let prompt = read(&path).map(|state| state.form.prompt);
        assert_eq!(prompt.as_deref(), Some(""));
        let copy = folder.path().join("data/state.broken-1.json");
        assert!(fs::read_to_string(copy).unwrap().ends_with("half a"));
    }
}
