//! What the gallery says: names, explanations, counts and facts, each a whole sentence or name.

use std::path::Path;

use safelight_core::gallery::{Query, Show};
use safelight_core::media::ClipInfo;

pub const TITLE: &str = "Gallery";
pub const CLOSE: &str = "Close the gallery";
pub const CLOSE_MORE: &str = "Back to the picture";
pub const THUMBNAIL_SIZE: &str = "Thumbnail size";
pub const THUMBNAIL_SIZE_MORE: &str = "How large the thumbnails are";
pub const LOADING: &str = "Loading…";
pub const SEARCH: &str = "Search results";
pub const SEARCH_HINT: &str = "Search";
pub const SEARCH_MORE: &str =
    "Words from the prompt, the model, the file name or the seed. All of them must match (Ctrl+F)";
pub const CLEAR_SEARCH: &str = "Clear the search";
pub const CLEAR_SEARCH_MORE: &str = "Show all results again";
pub const ONLY_FAVOURITES: &str = "Only favourites";
pub const SORT: &str = "Sort results";
pub const SORT_MORE: &str = "Which results come first";
pub const NO_MATCHES: &str = "No matches";
pub const NOTHING_YET: &str = "Nothing here yet";
pub const NOTHING_YET_MORE: &str =
    "Every picture and clip that you make appears here, newest first";
pub const SHOW_ALL: &str = "Show all results";
pub const SHOW_ALL_MORE: &str = "Clear the search and all filters";

pub const SELECT_HINT: &str = "Select a result to see how it was made";
/// Keys and what they do.
pub const KEYS: [(&str, &str); 5] = [
    ("Arrows", "select, with Shift several"),
    ("Enter", "plays, as a double-click does"),
    ("F", "marks as favourite"),
    ("Delete", "moves to the trash"),
    ("Ctrl+F", "searches"),
];

pub const PROMPT: &str = "Prompt";
pub const COPY_PROMPT: &str = "Copy prompt";
pub const NEGATIVE_PROMPT: &str = "Negative prompt";
pub const COPY_NEGATIVE_PROMPT: &str = "Copy negative prompt";
pub const COPY_MORE: &str = "Put it on the clipboard";
pub const MODEL: &str = "Model";
pub const LORAS: &str = "LoRAs";
pub const SEED: &str = "Seed";
pub const SAMPLER: &str = "Sampler";
pub const GUIDANCE: &str = "Guidance";
pub const STRENGTH: &str = "Strength";
pub const PROMPT_PICTURES: &str = "Pictures as prompts";
pub const START_PICTURE: &str = "Start picture";
pub const END_PICTURE: &str = "End picture";
pub const MASK: &str = "Mask";
pub const REFERENCES: &str = "References";
pub const CONTROLS: &str = "Controlled by";
pub const SOURCE_CLIP: &str = "Made from";
pub const EXTENDS: &str = "Extends";
pub const SIZE: &str = "Size";
pub const LENGTH: &str = "Length";
pub const TIME: &str = "Took";
pub const UPSCALED: &str = "Upscaled";
pub const MORE_FRAMES: &str = "More frames";
pub const SOURCE: &str = "Made of";
pub const MADE: &str = "Made";
pub const FILE: &str = "File";

pub fn show_more(show: Show) -> &'static str {
    match show {
        Show::All => "Pictures and clips",
        Show::Pictures => "Only pictures",
        Show::Clips => "Only clips",
    }
}

/// How many there are: of all, or of those that match.
pub fn count(count: usize, are_found: bool) -> String {
    let number = grouped(count);
    match (count, are_found) {
        (1, false) => "1 result".to_owned(),
        (1, true) => "1 result found".to_owned(),
        (_, false) => format!("{number} results"),
        (_, true) => format!("{number} results found"),
    }
}

/// Behind the count.
pub fn looking(count: &str) -> String {
    format!("{count}, looking for more…")
}

pub fn still_reading(count: &str, num_unread: usize) -> String {
    format!("{count}, {} still to read…", grouped(num_unread))
}

pub fn with_selected(count: &str, num_selected: usize) -> String {
    format!("{count}, {} selected", grouped(num_selected))
}

pub fn selected(count: usize) -> String {
    format!("{} results selected", grouped(count))
}

pub fn num_steps(sampler: &str, num_steps: Option<u64>) -> String {
    match num_steps {
        Some(1) => format!("{sampler}, 1 step"),
        Some(steps) => format!("{sampler}, {steps} steps"),
        None => sampler.to_owned(),
    }
}

pub fn length(secs: &str, num_frames: u32) -> String {
    format!("{secs}, {num_frames} frames")
}

/// With which network, and the size before and after: `4x-UltraSharp: 256 × 256 to 512 × 512`.
pub fn enlarged(network: &str, before: &ClipInfo, after: &ClipInfo) -> String {
    let size = |info: &ClipInfo| format!("{} × {}", info.width, info.height);
    format!("{network}: {} to {}", size(before), size(after))
}

/// With which network, and the rate and length before and after: `rife: 8 to 16 frames a second, 17 to 33 frames`.
pub fn retimed(network: &str, before: &ClipInfo, after: &ClipInfo) -> String {
    let fps = |info: &ClipInfo| (info.fps * 100.0).round() / 100.0;
    format!(
        "{network}: {} to {} frames a second, {} to {} frames",
        fps(before),
        fps(after),
        before.num_frames,
        after.num_frames
    )
}

/// Of the name of a source, which is a button.
pub fn open_source(path: &Path) -> String {
    format!("Open {}", path.display())
}

/// What a screen reader says of a result.
pub fn result_name(what: &str, kind: Kind, is_favourite: bool) -> String {
    let kind = match kind {
        Kind::Unreadable => "unreadable",
        Kind::Clip => "clip",
        Kind::Picture => "picture",
    };
    if is_favourite {
        format!("{what}, {kind}, favourite")
    } else {
        format!("{what}, {kind}")
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Unreadable,
    Clip,
    Picture,
}

/// What leaves results out.
pub fn no_matches_more(query: &Query) -> String {
    let shown = match (query.show, query.only_favourites) {
        (Show::All, false) => "",
        (Show::All, true) => "Only favourites are shown",
        (Show::Pictures, false) => "Only pictures are shown",
        (Show::Clips, false) => "Only clips are shown",
        (Show::Pictures, true) => "Only pictures that are favourites are shown",
        (Show::Clips, true) => "Only clips that are favourites are shown",
    };
    let advice = "Other words, or fewer of them, may find more";
    match (query.words.trim().is_empty(), shown) {
        (_, "") => advice.to_owned(),
        (true, shown) => shown.to_owned(),
        (false, shown) => format!("{shown}. {advice}"),
    }
}

/// `12,345`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
