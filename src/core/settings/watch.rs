//! The settings file while the program runs: saving to it, and noticing what others write.
//!
//! Starts no thread: somebody asks now and then whether the file has changed. What was saved from here is no change.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::{LoadedSettings, Settings, SettingsError};

/// The file, by whoever saves to it and whoever watches it.
#[derive(Clone, Debug)]
pub struct SettingsFile {
    path: PathBuf,
    /// What it said when it was last read or written from here.
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
        // Held while writing, so that the watcher cannot take our own text for somebody else's.
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
        match fs::read_to_string(&self.path) {
            // An editor that renames, or somebody who wants it made anew: nothing is to be taken from it.
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

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

/// Notices a change of the file, once it has settled.
#[derive(Debug)]
pub struct SettingsWatch {
    file: SettingsFile,
    seen: Option<Stamp>,
    /// Changed, but perhaps still being written.
    settling: Option<Stamp>,
}

impl SettingsWatch {
    pub fn new(file: SettingsFile) -> Self {
        Self {
            file,
            seen: None,
            settling: None,
        }
    }

    /// To be asked a few times a second: what the file says, when that is news. A change counts when the file has
    /// stayed as it is from one question to the next.
    pub fn look(&mut self) -> Option<LoadedSettings> {
        let metadata = fs::metadata(&self.file.path).ok()?;
        let stamp = Stamp {
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
        Some(Settings::read(text, &self.file.path))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Theme;
    use super::*;

    fn look(watch: &mut SettingsWatch) -> Option<LoadedSettings> {
        watch.look().or_else(|| watch.look())
    }

    #[test]
    fn an_edit_is_told_once_and_our_own_save_never() {
        let folder = tempfile::tempdir().unwrap();
        let file = SettingsFile::new(folder.path().join("settings.toml"));
        let mut watch = SettingsWatch::new(file.clone());
        assert!(look(&mut watch).is_none(), "there is no file");
        let base = Settings::default();
        let mut ours = base.clone();
        ours.interface.theme = Theme::Light;
        assert_eq!(file.save(&base, &ours).unwrap(), ours);
        assert!(look(&mut watch).is_none(), "our own");
        let text = fs::read_to_string(file.path()).unwrap();
        // As editors do: another file, renamed.
        let other = folder.path().join("new");
        fs::write(&other, text.replace("scale = 1.0", "scale = 1.25")).unwrap();
        fs::rename(&other, file.path()).unwrap();
        assert!(watch.look().is_none(), "it may still be written");
        let loaded = watch.look().unwrap();
        assert_eq!(loaded.settings.interface.scale, 1.25);
        assert!(look(&mut watch).is_none());
        fs::remove_file(file.path()).unwrap();
        assert!(look(&mut watch).is_none());
    }

    #[test]
    fn a_save_keeps_what_was_edited_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let file = SettingsFile::new(folder.path().join("settings.toml"));
        fs::write(file.path(), "# mine\n[interface]\nscale = 1.5\n").unwrap();
        let base = Settings::default();
        let mut ours = base.clone();
        ours.interface.theme = Theme::Light;
        let merged = file.save(&base, &ours).unwrap();
        assert_eq!(
            (merged.interface.scale, merged.interface.theme),
            (1.5, Theme::Light)
        );
        let text = fs::read_to_string(file.path()).unwrap();
        assert_eq!(
            text,
            "# mine\n[interface]\nscale = 1.5\ntheme = \"light\"\n"
        );
    }

    #[test]
    fn a_broken_edit_is_told_with_its_place_and_a_mended_one_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = SettingsFile::new(folder.path().join("settings.toml"));
        let mut watch = SettingsWatch::new(file.clone());
        fs::write(file.path(), "[interface]\nscale = big\n").unwrap();
        let loaded = look(&mut watch).unwrap();
        let Some(SettingsError::Broken { line, column, .. }) = loaded.error else {
            panic!("{loaded:?}");
        };
        assert_eq!((line, column), (2, 9));
        fs::write(file.path(), "[interface]\nscale = 2\n").unwrap();
        assert_eq!(look(&mut watch).unwrap().settings.interface.scale, 2.0);
    }
}
