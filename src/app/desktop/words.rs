//! What the desktop's notifications say, and what is said of the applications menu, as whole sentences.

use std::path::Path;

pub(super) const JOB_FAILED: &str = "A job failed";
pub(super) const NOT_IN_MENU: &str = "Safelight could not be added to the applications menu";
pub(super) const NO_HOME: &str = "there is no home folder";
pub(super) const BAD_FOLDER_NAME: &str =
    "the name of the program's folder cannot stand in a menu entry";
pub(super) const OTHER_PROGRAM: &str = "another program answered";
pub(super) const NO_LIST: &str = "it is no list of files";

pub(super) fn other_user(found: u32, expected: u32) -> String {
    format!("it belongs to user {found}, not {expected}")
}

pub(super) fn in_menu(entry: &Path) -> String {
    format!(
        "Safelight was added to the applications menu: {}",
        entry.display()
    )
}

pub(super) fn done_in(time: &str) -> String {
    format!("Done in {time}")
}

pub(super) fn done(num_clips: u32, num_pictures: u32) -> String {
    match (num_clips, num_pictures) {
        (1, 0) => "1 clip is done".to_owned(),
        (clips, 0) => format!("{clips} clips are done"),
        (0, 1) => "1 picture is done".to_owned(),
        (0, pictures) => format!("{pictures} pictures are done"),
        (1, 1) => "1 clip and 1 picture are done".to_owned(),
        (1, pictures) => format!("1 clip and {pictures} pictures are done"),
        (clips, 1) => format!("{clips} clips and 1 picture are done"),
        (clips, pictures) => format!("{clips} clips and {pictures} pictures are done"),
    }
}

pub(super) fn failed(count: u32) -> String {
    match count {
        1 => "1 job failed".to_owned(),
        count => format!("{count} jobs failed"),
    }
}

pub(super) fn last_job(time: &str, prompt: &str) -> String {
    format!("After {time}. The last job: {prompt}")
}
