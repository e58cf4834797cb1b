//! In what two results differ that should be the same: what is written beside the pixels, or the pixels.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use safelight_core::media::{Picture, open_clip, open_picture, read_settings};
use serde_json::Value;

/// A few words for somebody who looks for the cause; `scratch` is a file name that may be written.
pub(super) fn words(name: &Path, wanted: &[u8], found: &[u8], scratch: &Path) -> String {
    let ending = name.extension().unwrap_or_default();
    let read = |number: &str, bytes: &[u8]| {
        let path = scratch.with_extension(number).with_extension(ending);
        fs::write(&path, bytes).ok()?;
        let settings = read_settings(&path).ok().flatten().unwrap_or_default();
        let frames = match open_picture(&path) {
            Ok(picture) => vec![Arc::new(picture)],
            Err(_) => open_clip(&path).ok()?.frames,
        };
        // A file that stays is no harm.
        fs::remove_file(&path).ok();
        Some((
            serde_json::from_str(&settings).unwrap_or(Value::Null),
            frames,
        ))
    };
    match (read("wanted", wanted), read("found", found)) {
        (Some((settings, frames)), Some((other, others))) => {
            format!(
                "{}; {}",
                of_frames(&frames, &others),
                of_settings(&settings, &other)
            )
        }
        _ => "one of them cannot be read".to_owned(),
    }
}

fn of_frames(wanted: &[Arc<Picture>], found: &[Arc<Picture>]) -> String {
    let shape = |frames: &[Arc<Picture>]| {
        let sizes = frames.iter().map(|frame| (frame.width, frame.height));
        sizes.collect::<Vec<_>>()
    };
    if shape(wanted) != shape(found) {
        return "frames of other sizes".to_owned();
    }
    let (mut moved, mut all, mut most) = (0, 0, 0);
    for (wanted, found) in wanted.iter().zip(found) {
        for (a, b) in wanted.rgb.iter().zip(&found.rgb) {
            let far = a.abs_diff(*b);
            (moved, all, most) = (moved + u64::from(far > 0), all + 1_u64, most.max(far));
        }
    }
    match most {
        0 => "the same pixels".to_owned(),
        most => format!("{moved} of {all} bytes of pixels are up to {most} off"),
    }
}

fn of_settings(wanted: &Value, found: &Value) -> String {
    let (Value::Object(wanted), Value::Object(found)) = (wanted, found) else {
        return "no settings to compare".to_owned();
    };
    let keys = wanted.keys().chain(found.keys());
    let mut other: Vec<_> = keys
        .filter(|key| wanted.get(*key) != found.get(*key))
        .collect();
    other.sort();
    other.dedup();
    let told = other.iter().map(|key| {
        let of = |settings: &serde_json::Map<String, Value>| match settings.get(*key) {
            Some(value) => value.to_string(),
            None => "absent".to_owned(),
        };
        format!("{key} {} for {}", of(found), of(wanted))
    });
    let told: Vec<_> = told.collect();
    match told.as_slice() {
        [] => "the same settings".to_owned(),
        told => format!("other settings: {}", told.join(", ")),
    }
}
