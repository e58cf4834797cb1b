//! What the list of models says of each, and what is said where the engine is missing, as whole sentences.
//!
//! What the page of models says is in `ui/library/words.rs`.

use std::path::Path;

use safelight_core::model::ModelSpec;
use safelight_core::settings::{Installation, libtorch_versions};
use safelight_core::units::gib_text;

pub(super) const NO_ENGINE: &str = "the program that computes (safelight-engine) is missing";
pub(super) const NO_LIBTORCH: &str = "libtorch is missing, so nothing can be generated yet";

/// Headings of the list, in its order.
pub(super) const HEADINGS: [&str; 6] = [
    "Favourites",
    "Used recently",
    "On this disk",
    "Something is missing or wrong",
    "To download",
    "Not supported by this version",
];

// What a model makes its results from.
pub(super) const FROM_TEXT: &str = "text";
pub(super) const FROM_TEXT_OR_CLIP: &str = "text, or text and a clip";
pub(super) const FROM_TEXT_OR_PICTURE: &str = "text or picture";
pub(super) const FROM_TEXT_OR_PICTURES: &str = "text or pictures";
pub(super) const FROM_CONTROL: &str = "text and a control picture";
pub(super) const FROM_PICTURE: &str = "picture";
pub(super) const FROM_PICTURE_OR_BOTH: &str = "picture, or first and last";
pub(super) const FROM_ANY: &str = "text, picture, or first and last";
pub(super) const FROM_BOTH: &str = "first and last picture";
pub(super) const FROM_TEXT_OR_LAST: &str = "text or last picture";
pub(super) const FROM_LAST: &str = "last picture";
pub(super) const FROM_PICTURE_AND_MASK: &str = "picture and mask";

pub(super) const FILE_MISSING: &str = "A file is missing";
pub(super) const WRONG: &str = "A file is damaged or does not belong to it";
pub(super) const UNSUPPORTED: &str = "This version cannot run models of this kind";
pub(super) const USE_SMALLER_FILES: &str = "Use fp8 or GGUF files of it";
pub(super) const SIZE_UNKNOWN: &str = "Its size is known after the download";

pub(super) fn no_libtorch_advice() -> String {
    let either = libtorch_versions("or");
    let or_get = Installation::of_this_program().or_get_libtorch();
    format!("Choose a folder with libtorch {either} in the settings, {or_get}")
}

pub(super) fn engine_is(path: &Path) -> String {
    format!("expected an executable: {}", path.display())
}

pub(super) fn facts(spec: &ModelSpec, needs: &str) -> String {
    let kind = spec.family.kind_text(&spec.variant);
    if spec.family.makes_pictures {
        format!("{kind}  ·  pictures from {needs}")
    } else {
        format!("{kind}  ·  clips from {needs}")
    }
}

pub(super) fn needs(what: &str) -> String {
    format!("Needs {what}")
}

pub(super) fn needs_files(count: usize) -> String {
    format!("Needs {count} more files")
}

pub(super) fn about_gib(gib: u64) -> String {
    format!("about {gib} GiB")
}

pub(super) fn largest_part(largest_bytes: u64, free_bytes: u64) -> String {
    let (largest, free) = (gib_text(largest_bytes), gib_text(free_bytes));
    format!("Its largest part is about {largest} GiB, {free} GiB are free")
}
