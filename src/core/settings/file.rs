//! Loading and saving of `settings.toml`.
//!
//! Manual edits survive: comments, order, and keys that this version does not know.
//! A file that cannot be read is never overwritten.

use std::io;
use std::path::Path;

use thiserror::Error;
use toml_edit::{DocumentMut, Item};

use super::{ComputerSettings, OutputSettings, Settings, edit, table};
use crate::files::{FileError, MAX_TEXT_BYTES, read_text_bounded, write_private};
use crate::media::HAS_H264;
use crate::units::range_problem;

#[derive(Debug, Error)]
pub enum SettingsError {
    #[error(transparent)]
    Read(FileError),
    #[error(transparent)]
    Broken(FileError),
    #[error(transparent)]
    Write(FileError),
}

#[derive(Debug, Default)]
pub struct LoadedSettings {
    /// Defaults where there is no file, or a broken one.
    pub settings: Settings,
    /// Keys that mean nothing here, one sentence each.
    pub warnings: Vec<String>,
    /// Why the file could not be used. It stays as it is until its user has corrected it.
    pub error: Option<SettingsError>,
}

/// Content of a settings file after a save.
#[derive(Debug)]
pub(super) struct SavedSettings {
    pub(super) settings: Settings,
    pub(super) text: String,
}

impl Settings {
    /// Reads the settings file. Without one, everything has its default.
    pub fn load(path: &Path) -> LoadedSettings {
        match read_text_bounded(path, MAX_TEXT_BYTES) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => LoadedSettings::default(),
            text => Self::read(text, path),
        }
    }

    /// Settings from the text that was read.
    pub(super) fn read(text: io::Result<String>, path: &Path) -> LoadedSettings {
        let read = text.map_err(|err| unread(&err, path));
        match read.and_then(|text| Self::parse_at_home(&text, path)) {
            Ok((settings, warnings)) => LoadedSettings {
                settings,
                warnings,
                error: None,
            },
            Err(error) => LoadedSettings {
                error: Some(error),
                ..Default::default()
            },
        }
    }

    /// Writes the settings over what the file says, keeping everything else in it. Refuses to touch a file that it
    /// cannot read.
    pub fn save(&self, path: &Path) -> Result<(), SettingsError> {
        self.write(path, |_| self.clone()).map(drop)
    }

    /// Saves only the differences from `base`: edits of the file in the meantime survive.
    pub(super) fn save_changes(
        &self,
        base: &Self,
        path: &Path,
    ) -> Result<SavedSettings, SettingsError> {
        self.write(path, |theirs| Self::merge(base, self, theirs))
    }

    fn write(
        &self,
        path: &Path,
        merge: impl FnOnce(&Self) -> Self,
    ) -> Result<SavedSettings, SettingsError> {
        let failed = |err: io::Error| {
            let sentence = format!("cannot save the settings: {err}");
            SettingsError::Write(FileError::new(sentence, path))
        };
        let (text, is_new) = match read_text_bounded(path, MAX_TEXT_BYTES) {
            Ok(text) => (text, false),
            Err(err) if err.kind() == io::ErrorKind::NotFound => (table::default_file(), true),
            Err(err) => return Err(unread(&err, path)),
        };
        let theirs = Self::parse_at_home(&text, path)?.0;
        // Without a file there are no edits to keep.
        let settings = if is_new { self.clone() } else { merge(&theirs) };
        let edited = edit::with_changes(&text, &theirs, &settings)
            .map_err(|reason| failed(io::Error::other(reason)))?;
        if is_new || edited != text {
            write_private(path, edited.as_bytes()).map_err(failed)?;
        }
        Ok(SavedSettings {
            settings,
            text: edited,
        })
    }

    pub(super) fn to_document(&self) -> Result<DocumentMut, String> {
        let text = toml::to_string(self).map_err(|err| err.to_string())?;
        text.parse()
            .map_err(|err: toml_edit::TomlError| err.to_string())
    }

    /// With the paths under the home folder in full.
    fn parse_at_home(text: &str, path: &Path) -> Result<(Self, Vec<String>), SettingsError> {
        let (settings, warnings) = Self::parse(text, path)?;
        Ok((settings.at_home(), warnings))
    }

    fn parse(text: &str, path: &Path) -> Result<(Self, Vec<String>), SettingsError> {
        let mut settings: Self =
            toml::from_str(text).map_err(|err| broken(text, err.span(), err.message(), path))?;
        let mut warnings = unknown_keys(text);
        if settings.output.format == "mp4" && !HAS_H264 {
            settings.output.format = OutputSettings::default().format;
            warnings.push(format!(
                "This build of Safelight has no H.264 and writes no MP4 (output.format): videos become .{}",
                settings.output.format
            ));
        }
        if let Some((section, key, reason)) = settings.first_out_of_range() {
            let document = toml_edit::Document::parse(text).ok();
            let span = document.and_then(|it| it.get(section)?.get(key)?.span());
            return Err(broken(text, span, &reason, path));
        }
        Ok((settings, warnings))
    }

    /// With a leading `~/` of every path turned into the home folder.
    #[must_use]
    pub fn at_home(mut self) -> Self {
        if let Some(home) = std::env::home_dir() {
            self.expand_home(&home);
        }
        self
    }

    /// Turns a leading `~/` of every path into the home folder, as people write it.
    fn expand_home(&mut self, home: &Path) {
        let named = [
            &mut self.runtime.libtorch,
            &mut self.output.folder,
            &mut self.output.images_folder,
        ];
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

    /// First value out of range, which types cannot express.
    fn first_out_of_range(&self) -> Option<(&'static str, &'static str, String)> {
        if !OutputSettings::FORMATS.contains(&self.output.format.as_str()) {
            let reason = format!(
                "the format must be one of {}, not \"{}\"",
                OutputSettings::FORMATS.join(", "),
                self.output.format
            );
            return Some(("output", "format", reason));
        }
        let (crf, scale) = (self.output.crf, self.interface.scale);
        let secs = |least, secs| range_problem("it", &(least..=86_400), " seconds", secs);
        let worst = OutputSettings::WORST_CRF;
        for (section, key, problem) in [
            (
                "output",
                "crf",
                range_problem("the quality", &(0..=worst), "", crf),
            ),
            (
                "server",
                "port",
                range_problem("the port", &(1024..=65_535), "", self.server.port),
            ),
            (
                "interface",
                "scale",
                range_problem("the scale", &(0.5..=3.0), "", scale),
            ),
            (
                "runtime",
                "stall_limit_secs",
                secs(1, self.runtime.stall_limit_secs),
            ),
            (
                "runtime",
                "cancel_grace_secs",
                secs(0, self.runtime.cancel_grace_secs),
            ),
        ] {
            if let Some(problem) = problem {
                return Some((section, key, problem));
            }
        }
        let mut hosts = self.computers.hosts.iter();
        if let Some(problem) = hosts.find_map(|host| ComputerSettings::host_problem(host)) {
            return Some(("computers", "hosts", problem));
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

fn unread(err: &io::Error, path: &Path) -> SettingsError {
    SettingsError::Read(FileError::new(
        format!("cannot read the settings: {err}"),
        path,
    ))
}

fn broken(
    text: &str,
    span: Option<std::ops::Range<usize>>,
    reason: &str,
    path: &Path,
) -> SettingsError {
    let offset = span.map(|span| span.start);
    SettingsError::Broken(FileError::in_text(
        text,
        offset,
        " of the settings",
        reason,
        path,
    ))
}

fn unknown_keys(text: &str) -> Vec<String> {
    let (Ok(document), Ok(known)) = (
        text.parse::<DocumentMut>(),
        table::default_file().parse::<DocumentMut>(),
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

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
