//! Loading and saving `settings.toml`.
//!
//! What a user wrote by hand survives: comments, order, and keys that this version does not know.
//! A file that cannot be read is never overwritten.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toml_edit::{DocumentMut, Item, Table, Value};

use super::{OutputSettings, Settings};
use crate::catalog::line_and_column;
use crate::files::write_atomically;

/// Every setting with its default and a comment: what a first save writes.
const DEFAULT_FILE: &str = include_str!("default.toml");

#[derive(Debug, Error)]
pub enum SettingsError {
    #[error("cannot read the settings: {source}: {}", path.display())]
    Read { source: io::Error, path: PathBuf },
    #[error("line {line}, column {column} of the settings: {reason}: {}", path.display())]
    Broken {
        line: usize,
        column: usize,
        reason: String,
        path: PathBuf,
    },
    #[error("cannot save the settings: {source}: {}", path.display())]
    Write { source: io::Error, path: PathBuf },
}

/// What a settings file gave.
#[derive(Debug, Default)]
pub struct LoadedSettings {
    /// Defaults where there is no file, or a broken one.
    pub settings: Settings,
    /// Keys that mean nothing here, one sentence each.
    pub warnings: Vec<String>,
    /// Why the file could not be used. It stays as it is until its user has corrected it.
    pub error: Option<SettingsError>,
}

impl Settings {
    /// Reads the settings file. Without one, everything has its default.
    pub fn load(path: &Path) -> LoadedSettings {
        match fs::read_to_string(path) {
            Ok(text) => match Self::parse(&text, path) {
                Ok((mut settings, warnings)) => {
                    if let Some(home) = std::env::home_dir() {
                        settings.expand_home(&home);
                    }
                    LoadedSettings {
                        settings,
                        warnings,
                        error: None,
                    }
                }
                Err(error) => LoadedSettings {
                    error: Some(error),
                    ..Default::default()
                },
            },
            Err(err) if err.kind() == io::ErrorKind::NotFound => LoadedSettings::default(),
            Err(source) => LoadedSettings {
                error: Some(SettingsError::Read {
                    source,
                    path: path.to_owned(),
                }),
                ..Default::default()
            },
        }
    }

    /// Writes the settings over what the file says, keeping everything else in it. Refuses to touch a
    /// file that it cannot read.
    pub fn save(&self, path: &Path) -> Result<(), SettingsError> {
        let failed = |source| SettingsError::Write {
            source,
            path: path.to_owned(),
        };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(err) if err.kind() == io::ErrorKind::NotFound => DEFAULT_FILE.to_owned(),
            Err(source) => {
                return Err(SettingsError::Read {
                    source,
                    path: path.to_owned(),
                });
            }
        };
        Self::parse(&text, path)?;
        let mut document: DocumentMut = text
            .parse()
            .map_err(|err: toml_edit::TomlError| broken(&text, err.span(), err.message(), path))?;
        let wanted = self
            .to_document()
            .map_err(|reason| failed(io::Error::other(reason)))?;
        set_all(document.as_table_mut(), wanted.as_table());
        for (section, key, is_set) in [
            ("runtime", "libtorch", self.runtime.libtorch.is_some()),
            ("output", "folder", self.output.folder.is_some()),
            (
                "memory",
                "preserved_gib",
                self.memory.preserved_gib.is_some(),
            ),
            ("memory", "cap_gib", self.memory.cap_gib.is_some()),
        ] {
            if !is_set
                && let Some(item) = document
                    .get_mut(section)
                    .and_then(Item::as_table_like_mut)
                    .and_then(|table| table.get_mut(key))
            {
                set_value(item, Value::from(""));
            }
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        write_atomically(path, document.to_string().as_bytes()).map_err(failed)
    }

    fn to_document(&self) -> Result<DocumentMut, String> {
        let text = toml::to_string(self).map_err(|err| err.to_string())?;
        text.parse()
            .map_err(|err: toml_edit::TomlError| err.to_string())
    }

    fn parse(text: &str, path: &Path) -> Result<(Self, Vec<String>), SettingsError> {
        let settings: Self =
            toml::from_str(text).map_err(|err| broken(text, err.span(), err.message(), path))?;
        if let Some((section, key, reason)) = settings.first_out_of_range() {
            let span = key_span(text, section, key);
            return Err(broken(text, span, &reason, path));
        }
        Ok((settings, unknown_keys(text)))
    }

    /// Turns a leading `~/` of every path into the home folder, as people write it.
    fn expand_home(&mut self, home: &Path) {
        let named = [&mut self.runtime.libtorch, &mut self.output.folder];
        let listed = self
            .models
            .folders
            .iter_mut()
            .chain(&mut self.models.wildcards);
        for path in named.into_iter().flatten().chain(listed) {
            if let Ok(rest) = path.strip_prefix("~") {
                *path = home.join(rest);
            }
        }
    }

    /// What no type can say of a value.
    fn first_out_of_range(&self) -> Option<(&'static str, &'static str, String)> {
        if !OutputSettings::FORMATS.contains(&self.output.format.as_str()) {
            let reason = format!(
                "expected a format ({}), found \"{}\"",
                OutputSettings::FORMATS.join(", "),
                self.output.format
            );
            return Some(("output", "format", reason));
        }
        if !(0.5..=3.0).contains(&self.interface.scale) {
            let reason = format!(
                "expected a scale between 0.5 and 3.0, found {}",
                self.interface.scale
            );
            return Some(("interface", "scale", reason));
        }
        for (key, secs, least) in [
            ("stall_limit_secs", self.runtime.stall_limit_secs, 1),
            ("cancel_grace_secs", self.runtime.cancel_grace_secs, 0),
        ] {
            if !(least..=86_400).contains(&secs) {
                let reason = format!("expected between {least} and 86400 seconds, found {secs}");
                return Some(("runtime", key, reason));
            }
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
        for (name, value) in &self.runtime.environment {
            if !is_name(name) || value.contains('\0') {
                let reason = format!("expected a variable's name and value, found {name:?}");
                return Some(("runtime", "environment", reason));
            }
        }
        None
    }
}

fn broken(
    text: &str,
    span: Option<std::ops::Range<usize>>,
    reason: &str,
    path: &Path,
) -> SettingsError {
    let (line, column) = line_and_column(text, span.map_or(0, |span| span.start));
    SettingsError::Broken {
        line,
        column,
        reason: reason.trim().replace('\n', ", "),
        path: path.to_owned(),
    }
}

fn key_span(text: &str, section: &str, key: &str) -> Option<std::ops::Range<usize>> {
    let document = toml_edit::Document::parse(text).ok()?;
    document.get(section)?.get(key)?.span()
}

/// Sections and keys that are in the text and not in the defaults.
fn unknown_keys(text: &str) -> Vec<String> {
    let (Ok(document), Ok(known)) = (
        text.parse::<DocumentMut>(),
        DEFAULT_FILE.parse::<DocumentMut>(),
    ) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    for (section, item) in document.iter() {
        let Some(known) = known.get(section).and_then(Item::as_table_like) else {
            warnings.push(format!("the settings have an unknown section '{section}'"));
            continue;
        };
        for (key, _) in item
            .as_table_like()
            .into_iter()
            .flat_map(|table| table.iter())
        {
            if !known.contains_key(key) {
                warnings.push(format!(
                    "the settings have an unknown key '{section}.{key}'"
                ));
            }
        }
    }
    warnings
}

/// Sets every key of `wanted`, and touches no other.
fn set_all(table: &mut dyn toml_edit::TableLike, wanted: &dyn toml_edit::TableLike) {
    for (key, item) in wanted.iter() {
        if let Some(inner) = item.as_table_like() {
            if table.get(key).and_then(Item::as_table_like).is_none() {
                table.insert(key, Item::Table(Table::new()));
            }
            if let Some(into) = table.get_mut(key).and_then(Item::as_table_like_mut) {
                set_all(into, inner);
            }
        } else if let Some(value) = item.as_value() {
            match table.get_mut(key) {
                Some(old) => set_value(old, value.clone()),
                None => {
                    table.insert(key, Item::Value(value.clone()));
                }
            }
        }
    }
}

/// Replaces a value that differs, keeping the comment and the spaces around it.
fn set_value(item: &mut Item, mut value: Value) {
    let Some(old) = item.as_value() else {
        *item = Item::Value(value);
        return;
    };
    if old.to_string().trim() == value.to_string().trim() {
        return;
    }
    *value.decor_mut() = old.decor().clone();
    *item = Item::Value(value);
}

#[cfg(test)]
mod tests {
    use super::super::{AllocatorChoice, Theme};
    use super::*;
    use crate::job::DeviceChoice;

    fn file_with(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.toml");
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn without_a_file_everything_has_its_default() {
        let folder = tempfile::tempdir().unwrap();
        let loaded = Settings::load(&folder.path().join("none.toml"));
        assert_eq!(loaded.settings, Settings::default());
        assert!(loaded.error.is_none() && loaded.warnings.is_empty());
    }

    #[test]
    fn the_commented_default_file_says_exactly_the_defaults_and_all_of_them() {
        let (settings, warnings) = Settings::parse(DEFAULT_FILE, Path::new("")).unwrap();
        assert_eq!(settings, Settings::default());
        assert_eq!(warnings, [""; 0]);
        let known = DEFAULT_FILE.parse::<DocumentMut>().unwrap();
        let written = Settings {
            runtime: super::super::RuntimeSettings {
                libtorch: Some("a".into()),
                ..Default::default()
            },
            output: OutputSettings {
                folder: Some("b".into()),
                ..Default::default()
            },
            ..Default::default()
        }
        .to_document()
        .unwrap();
        for (section, item) in written.iter() {
            for (key, _) in item.as_table_like().unwrap().iter() {
                let is_there = known.get(section).is_some_and(|s| s.get(key).is_some());
                assert!(is_there, "{section}.{key}");
            }
        }
    }

    #[test]
    fn a_first_save_writes_the_comments_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/settings.toml");
        let mut settings = Settings::default();
        settings.interface.theme = Theme::Light;
        settings.save(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("# \"dark\" or \"light\".\ntheme = \"light\""));
        assert_eq!(Settings::load(&path).settings, settings);
    }

    #[test]
    fn saving_keeps_comments_order_and_unknown_keys() {
        let text = "# mine\n[interface]\nscale = 1.5 # big\n\n[runtime]\nfuture = [1, 2]\ndevice = 'cpu' # no gpu here\n";
        let (_folder, path) = file_with(text);
        let loaded = Settings::load(&path);
        assert_eq!(loaded.settings.runtime.device, DeviceChoice::Cpu);
        assert_eq!(
            loaded.warnings,
            ["the settings have an unknown key 'runtime.future'"]
        );
        let mut settings = loaded.settings;
        settings.interface.scale = 1.1;
        settings.runtime.libtorch = Some("/opt/torch".into());
        settings.save(&path).unwrap();
        let saved = fs::read_to_string(&path).unwrap();
        assert!(
            saved.starts_with("# mine\n[interface]\nscale = 1.1 # big\n"),
            "{saved}"
        );
        assert!(saved.contains("future = [1, 2]\n") && saved.contains("# no gpu here"));
        assert_eq!(Settings::load(&path).settings, settings);
        settings.runtime.libtorch = None;
        settings.save(&path).unwrap();
        assert_eq!(Settings::load(&path).settings, settings);
    }

    #[test]
    fn saving_what_was_loaded_changes_no_byte_that_a_user_wrote() {
        let (_folder, path) = file_with(DEFAULT_FILE);
        Settings::load(&path).settings.save(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), DEFAULT_FILE);
    }

    #[test]
    fn a_broken_file_gives_defaults_with_the_place_and_stays_untouched() {
        for (text, place) in [
            ("[runtime]\ndevice = 'gpu'\n", (2, 10)),
            ("[runtime]\ndevice = \n", (2, 10)),
            ("[output]\nformat = 'avi'\n", (2, 10)),
            ("[interface]\nscale = nan\n", (2, 9)),
            ("[runtime]\nstall_limit_secs = 0\n", (2, 20)),
            ("[runtime]\nstall_limit_secs = -1\n", (2, 20)),
            ("interface = 3\n", (1, 13)),
        ] {
            let (_folder, path) = file_with(text);
            let loaded = Settings::load(&path);
            assert_eq!(loaded.settings, Settings::default());
            let Some(SettingsError::Broken { line, column, .. }) = loaded.error else {
                panic!("{text}: {:?}", loaded.error);
            };
            assert_eq!((line, column), place, "{text}");
            assert!(Settings::default().save(&path).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn variables_for_the_engine_are_a_table_and_survive_a_save() {
        let text = "[runtime]\ndevice = 'cpu'\nallocator = 'expandable'\n\n[runtime.environment]\nMIOPEN_FIND_MODE = '1' # mine\nGOMP_SPINCOUNT = ''\n";
        let (_folder, path) = file_with(text);
        let loaded = Settings::load(&path);
        assert!(
            loaded.error.is_none() && loaded.warnings.is_empty(),
            "{loaded:?}"
        );
        let runtime = &loaded.settings.runtime;
        assert_eq!(runtime.environment["MIOPEN_FIND_MODE"], "1");
        assert_eq!(runtime.environment["GOMP_SPINCOUNT"], "");
        assert_eq!(runtime.allocator, AllocatorChoice::Expandable);
        loaded.settings.save(&path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("# mine"));
        assert_eq!(Settings::load(&path).settings, loaded.settings);
        let (_folder, path) = file_with("[runtime.environment]\n'A=B' = 'c'\n");
        assert!(Settings::load(&path).error.is_some());
        let (_folder, path) = file_with("[runtime]\nallocator = 'best'\n");
        assert!(Settings::load(&path).error.is_some());
    }

    #[test]
    fn paths_under_the_home_folder_can_be_written_with_a_tilde() {
        let text = "[models]\nfolders = ['~/models', '/a/~/b', '~other/c']\nwildcards = ['~/w']\n[runtime]\nlibtorch = '~'\n";
        let (mut settings, _) = Settings::parse(text, Path::new("")).unwrap();
        settings.expand_home(Path::new("/home/me"));
        let folders = ["/home/me/models", "/a/~/b", "~other/c"].map(PathBuf::from);
        assert_eq!(settings.models.folders, folders);
        assert_eq!(settings.models.wildcards, [PathBuf::from("/home/me/w")]);
        assert_eq!(settings.runtime.libtorch, Some("/home/me".into()));
    }

    #[test]
    fn a_file_that_is_no_text_is_an_error_and_no_panic() {
        let (_folder, path) = file_with("");
        fs::write(&path, [0xff, 0xfe, 0]).unwrap();
        assert!(matches!(
            Settings::load(&path).error,
            Some(SettingsError::Read { .. })
        ));
    }
}
