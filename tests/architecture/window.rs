//! The walls within the window: parts own their state, panels only read it, and files do not import each other in circles.

use super::imports::Imports;
use super::source::{code, names};
use super::{read, window_files};

#[test]
fn no_more_than_three_files_of_the_windows_state_import_each_other_in_a_circle() {
    let files = window_files("src/window", false);
    let sources = files.iter();
    let sources = sources.map(|path| (path.trim_start_matches("src/"), read(path)));
    let circles = Imports::of(sources).circles(3);
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn the_app_only_gives_its_parts_their_turn() {
    let mut files = window_files("src/window", false);
    files.retain(|path| names(&code(&read(path)), "impl SafelightApp"));
    assert!((1..=6).contains(&files.len()), "{files:#?}");
}

#[test]
fn ui_panels_take_no_mutable_app_state() {
    for path in window_files("src/window", true) {
        // The frame's beginning and end, and the one way of a panel to set a field after it.
        if ["src/window/layout/mod.rs", "src/window/layout/view.rs"].contains(&path.as_str()) {
            continue;
        }
        let code = code(&read(&path));
        let states =
            "SafelightApp AppContext SavedState GalleryState JobQueue LibraryState Settings";
        for owned in states.split(' ') {
            let lent = format!("&mut {owned}");
            let is_draft = path.starts_with("src/window/settings/") && owned == "Settings";
            let may = is_draft || !names(&code, &lent);
            assert!(
                may,
                "{path} takes {lent}: panels push commands or `set` fields"
            );
        }
    }
}
