//! Settings file while the program runs: saving it, and detecting changes by others.
//!
//! Starts no thread: the caller polls. The app's saves are not reported.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{LoadedSettings, Settings, SettingsError};
use crate::files::{MAX_TEXT_BYTES, read_text_bounded};

/// The file, by whoever saves to it and whoever watches it.
#[derive(Clone, Debug)]
pub struct SettingsFile {
    path: PathBuf,
    /// Content when it was last read or written by the app.
    known: Arc<Mutex<Option<String>>>,
}

impl SettingsFile {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            known: Arc::default(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what differs from `base`, and keeps everything else that the file says by now. Gives what it says then.
    pub fn save(&self, base: &Settings, ours: &Settings) -> Result<Settings, SettingsError> {
        // Locked while writing, so that the watcher does not report the app's text.
        let mut known = self.known();
        let saved = ours.save_changes(base, &self.path)?;
        *known = Some(saved.text);
        Ok(saved.settings)
    }

    /// Makes sure that there is a file to open in an editor: with everything in it at its default.
    pub fn ensure(&self, ours: &Settings) -> Result<(), SettingsError> {
        if self.path.exists() {
            return Ok(());
        }
        self.save(&Settings::default(), ours).map(drop)
    }

    /// The file's text, when it is not what was last seen.
    fn news(&self) -> Option<io::Result<String>> {
        let mut known = self.known();
        match read_text_bounded(&self.path, MAX_TEXT_BYTES) {
            // Removed by an editor that renames, or by the user: nothing changes.
            Err(err) if err.kind() == io::ErrorKind::NotFound => None,
            Err(err) => {
                known.take();
                Some(Err(err))
            }
            Ok(text) if known.as_ref() == Some(&text) => None,
            Ok(text) => {
                *known = Some(text.clone());
                Some(Ok(text))
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<String>> {
        // A thread that panicked with it left a text that is at worst an old one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Change of the file.
#[derive(Debug)]
pub enum SettingsNews {
    /// It says something else than it did.
    Said(Box<LoadedSettings>),
    /// The file was removed, so it prevents nothing.
    Gone,
}

/// Identity of a file's state, without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SettingsStamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

/// Notices a change of the file, once it has settled.
#[derive(Debug)]
pub struct SettingsWatch {
    file: SettingsFile,
    seen: Option<SettingsStamp>,
    /// Changed, but perhaps still being written.
    settling: Option<SettingsStamp>,
    /// Number of consecutive polls in which it was missing.
    num_missed: u32,
}

impl SettingsWatch {
    pub fn new(file: SettingsFile) -> Self {
        Self {
            file,
            seen: None,
            settling: None,
            num_missed: 0,
        }
    }

    /// Polls the file, a few times per second, and returns a change. A change counts once the file is equal in two
    /// consecutive polls.
    pub fn poll(&mut self) -> Option<SettingsNews> {
        let metadata = match fs::metadata(&self.file.path) {
            Ok(metadata) => metadata,
            Err(err) => return self.miss(&err),
        };
        self.num_missed = 0;
        let stamp = SettingsStamp {
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
        };
        if self.seen == Some(stamp) {
            return None;
        }
        if self.settling.replace(stamp) != Some(stamp) {
            return None;
        }
        self.seen = Some(stamp);
        let text = self.file.news()?;
        let loaded = Settings::read(text, &self.file.path);
        Some(SettingsNews::Said(Box::new(loaded)))
    }

    /// An editor may be about to rename another file to this one: it is gone when it stays away.
    fn miss(&mut self, err: &io::Error) -> Option<SettingsNews> {
        if err.kind() != io::ErrorKind::NotFound || self.seen.is_none() {
            return None;
        }
        self.num_missed += 1;
        (self.num_missed == 2).then(|| {
            (self.seen, self.settling) = (None, None);
            self.file.known().take();
            SettingsNews::Gone
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ThemeChoice;
    use super::*;

    fn look(watch: &mut SettingsWatch) -> Option<SettingsNews> {
        watch.poll().or_else(|| watch.poll())
    }

    fn said(news: Option<SettingsNews>) -> LoadedSettings {
        match news {
            Some(SettingsNews::Said(loaded)) => *loaded,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn external_settings_edit_is_reported_once_and_own_saves_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = SettingsFile::new(folder.path().join("settings.toml"));
        let mut watch = SettingsWatch::new(file.clone());
        assert!(look(&mut watch).is_none(), "there is no file");
        let base = Settings::default();
        let mut ours = base.clone();
        ours.interface.theme = ThemeChoice::Light;
        assert_eq!(file.save(&base, &ours).unwrap(), ours);
        assert!(look(&mut watch).is_none(), "our own");
        let text = fs::read_to_string(file.path()).unwrap();
        // As editors do: another file, renamed.
        let other = folder.path().join("new");
        fs::write(&other, text.replace("scale = 1.0", "scale = 1.25")).unwrap();
        fs::rename(&other, file.path()).unwrap();
        assert!(watch.poll().is_none(), "it may still be written");
        let loaded = said(watch.poll());
        assert_eq!(loaded.settings.interface.scale, 1.25);
        assert!(look(&mut watch).is_none());
    }

    #[test]
    fn settings_watch_reports_removal_once_and_the_file_again_when_restored() {
        let folder = tempfile::tempdir().unwrap();
        let file = SettingsFile::new(folder.path().join("settings.toml"));
        let mut watch = SettingsWatch::new(file.clone());
        let broken = "[interface]\nscale = big\n";
        fs::write(file.path(), broken).unwrap();
        assert!(said(look(&mut watch)).error.is_some());
        fs::remove_file(file.path()).unwrap();
        assert!(watch.poll().is_none(), "an editor may be renaming");
        assert!(matches!(watch.poll(), Some(SettingsNews::Gone)));
        assert!(look(&mut watch).is_none(), "message already");
        fs::write(file.path(), broken).unwrap();
        assert!(said(look(&mut watch)).error.is_some());
    }

    #[test]
    fn saving_merges_concurrent_edits_of_the_settings_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = SettingsFile::new(folder.path().join("settings.toml"));
        fs::write(file.path(), "# mine\n[interface]\nscale = 1.5\n").unwrap();
        let base = Settings::default();
        let mut ours = base.clone();
        ours.interface.theme = ThemeChoice::Light;
        let merged = file.save(&base, &ours).unwrap();
        assert_eq!(merged.interface.scale, 1.5);
        assert_eq!(merged.interface.theme, ThemeChoice::Light);
        let text = fs::read_to_string(file.path()).unwrap();
        assert_eq!(
            text,
            "# mine\n[interface]\nscale = 1.5\ntheme = \"light\"\n"
        );
    }

    #[test]
    fn broken_settings_edit_is_reported_by_line_and_a_fixed_one_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let file = SettingsFile::new(folder.path().join("settings.toml"));
        let mut watch = SettingsWatch::new(file.clone());
        fs::write(file.path(), "[interface]\nscale = big\n").unwrap();
        let loaded = said(look(&mut watch));
        let Some(SettingsError::Broken(err)) = loaded.error else {
            panic!("{loaded:?}");
        };
        assert!(err.to_string().starts_with("line 2, column 9 "), "{err}");
        fs::write(file.path(), "[interface]\nscale = 2\n").unwrap();
        assert_eq!(said(look(&mut watch)).settings.interface.scale, 2.0);
    }
}
