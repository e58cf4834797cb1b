//! Settings in our own files: the request that repeats them, and the fingerprints of its inputs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::fitting;
use crate::job::GenerateRequest;
use crate::media::{self, MAX_SETTINGS_BYTES, MediaError, MediaErrorKind};
use crate::restore::names::file_name;

#[derive(Clone, Debug, Deserialize)]
pub struct EmbeddedSettings {
    pub request: GenerateRequest,
    /// Fingerprints of its images, its video and the parts of the model that were named.
    #[serde(default)]
    pub inputs: BTreeMap<String, String>,
}

impl EmbeddedSettings {
    /// Replaces LoRA files that are gone by those of their names among `files`: the same file first, then one in a
    /// folder of the same name. Returns a sentence for each that was moved, or that several are called like.
    pub fn find_moved_loras(&mut self, files: impl FnOnce() -> Vec<PathBuf>) -> Vec<String> {
        let mut notes = Vec::new();
        let loras = self.request.loras.iter_mut().enumerate();
        let mut gone = loras.filter(|(_, lora)| !lora.path.exists()).peekable();
        if gone.peek().is_none() {
            return notes;
        }
        let files = files();
        for (index, lora) in gone {
            let then = self.inputs.get(&lora.fingerprint_name(index));
            let is_it = |file: &Path| media::component_fingerprint(file).ok().as_ref() == then;
            let path = lora.path.to_string_lossy();
            let named = fitting::files_named(&files, file_name(&path), &is_it);
            match &fitting::files_named(&named, &path, &is_it)[..] {
                [] => {}
                [file] => {
                    notes.push(format!("The LoRA {path} is used from {}", file.display()));
                    lora.path.clone_from(file);
                }
                several => notes.push(fitting::ambiguity(file_name(&path), several)),
            }
        }
        notes
    }
}

/// Reads our settings in a file; `None` where it has none, or another program's.
pub(super) fn read(path: &Path) -> Result<Option<EmbeddedSettings>, MediaError> {
    let text = match media::read_settings(path) {
        Ok(text) => text,
        // A file that cannot carry ours, or is damaged, may still carry another program's, or have them next to it.
        Err(err)
            if matches!(
                err.kind,
                MediaErrorKind::NoCarrier | MediaErrorKind::Truncated
            ) =>
        {
            None
        }
        // Nor is every JSON that ours cannot be in.
        Err(err) if err.kind == MediaErrorKind::Settings && is_short(path) => None,
        Err(err) => return Err(err),
    };
    let Some(text) = text else {
        return Ok(None);
    };
    match serde_json::from_str(&text) {
        Ok(carried) => Ok(Some(carried)),
        Err(err) if is_ours(&text) => Err(MediaError::with_path(
            format_args!("the settings in the file cannot be understood ({err})"),
            path,
        )),
        Err(_) => Ok(None),
    }
}

fn is_short(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.len() <= MAX_SETTINGS_BYTES)
}

/// Returns whether a text calls itself ours, whatever is wrong with it.
fn is_ours(text: &str) -> bool {
    #[derive(Deserialize)]
    struct SettingsHeader {
        app: String,
        #[serde(rename = "request")]
        _request: serde::de::IgnoredAny,
    }
    serde_json::from_str::<SettingsHeader>(text)
        .is_ok_and(|head| head.app.eq_ignore_ascii_case("safelight"))
}
