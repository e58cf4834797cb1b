//! What our own files carry: the request that repeats them, and the fingerprints of what it names.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::job::GenerateRequest;
use crate::media::{self, MAX_SETTINGS_BYTES, MediaError};

#[derive(Clone, Debug, Deserialize)]
pub struct Carried {
    pub request: GenerateRequest,
    /// The fingerprints of its pictures, its clip and the parts of the model that were named.
    #[serde(default)]
    pub inputs: BTreeMap<String, String>,
}

/// Our settings in the file; nothing where it has none, or another program's.
pub(super) fn read(path: &Path) -> Result<Option<Carried>, MediaError> {
    let text = match media::read_settings(path) {
        Ok(text) => text,
        // What cannot carry ours, or is damaged, may still carry another program's, or have them beside it.
        Err(MediaError::NoCarrier { .. } | MediaError::Truncated { .. }) => None,
        // Nor is every JSON that ours cannot be in.
        Err(MediaError::Settings { .. }) if is_short(path) => None,
        Err(err) => return Err(err),
    };
    let Some(text) = text else {
        return Ok(None);
    };
    match serde_json::from_str(&text) {
        Ok(carried) => Ok(Some(carried)),
        Err(err) if is_ours(&text) => Err(MediaError::said(
            format_args!("the settings in the file cannot be understood ({err})"),
            path,
        )),
        Err(_) => Ok(None),
    }
}

fn is_short(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.len() <= MAX_SETTINGS_BYTES)
}

/// Whether it says of itself that it is ours, whatever is wrong with it.
fn is_ours(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Head {
        app: String,
        #[serde(rename = "request")]
        _request: serde::de::IgnoredAny,
    }
    serde_json::from_str::<Head>(text).is_ok_and(|head| head.app.eq_ignore_ascii_case("safelight"))
}
